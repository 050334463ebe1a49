//! The calls of the protocol about images, over the image store.

use std::collections::BTreeMap;

use cri::v1;
use cri::v1::image_service_server::ImageService;
use images::{Credentials, Image, PullOptions};
use serde_json::json;
use tonic::{Request, Response, Status};

use crate::call_error::CallError;
use crate::runtime::{Runtime, now};
use crate::stats;

type Answer<T> = Result<Response<T>, Status>;

fn message(image: &Image) -> v1::Image {
    let user = image.config.user.split(':').next().unwrap_or_default();
    let uid = user.parse().ok();
    v1::Image {
        id: image.id.to_string(),
        repo_tags: image.references.clone(),
        repo_digests: image.repo_digests.clone(),
        // The protocol demands more than zero, which the machine's own root would be.
        size: image.size.max(1),
        uid: uid.map(|value| v1::Int64Value { value }),
        username: if uid.is_none() { user.to_owned() } else { String::new() },
        spec: Some(v1::ImageSpec { image: image.id.to_string(), ..Default::default() }),
        pinned: image.is_host,
    }
}

/// The image's configuration in the words of the OCI specification.
fn info(image: &Image) -> BTreeMap<String, String> {
    let config = &image.config;
    let info = json!({
        "imageSpec": {
            "architecture": image.architecture,
            "os": "linux",
            "config": {
                "User": config.user,
                "Env": config.env,
                "Entrypoint": config.entrypoint,
                "Cmd": config.cmd,
                "WorkingDir": config.working_dir,
                "StopSignal": config.stop_signal,
                "Labels": config.labels,
                "Volumes": config.volumes,
                "ExposedPorts": config.exposed_ports,
            },
        },
    });
    BTreeMap::from([("info".to_owned(), info.to_string())])
}

fn credentials(auth: v1::AuthConfig) -> Option<Credentials> {
    use base64::Engine as _;
    if !auth.registry_token.is_empty() {
        return Some(Credentials::bearer(auth.registry_token));
    }
    if !auth.username.is_empty() {
        return Some(Credentials::basic(auth.username, auth.password));
    }
    if !auth.identity_token.is_empty() {
        return Some(Credentials::basic("<token>", auth.identity_token));
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(auth.auth).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (username, password) = text.split_once(':')?;
    Some(Credentials::basic(username, password.trim_end_matches('\0')))
}

impl Runtime {
    async fn with_images<T: Send + 'static>(
        &self,
        work: impl FnOnce(&images::ImageStore) -> Result<T, images::StoreError> + Send + 'static,
    ) -> Result<T, CallError> {
        let images = self.state.images.clone();
        let done = tokio::task::spawn_blocking(move || work(&images)).await;
        Ok(done.map_err(|error| CallError::Log(error.to_string()))??)
    }
}

#[tonic::async_trait]
impl ImageService for Runtime {
    async fn list_images(&self, request: Request<v1::ListImagesRequest>) -> Answer<v1::ListImagesResponse> {
        let wanted = request
            .into_inner()
            .filter
            .and_then(|filter| filter.image)
            .map(|image| image.image)
            .unwrap_or_default();
        let images = self
            .with_images(move |store| {
                if wanted.is_empty() { store.list() } else { Ok(store.find(&wanted)?.into_iter().collect()) }
            })
            .await?;
        Ok(Response::new(v1::ListImagesResponse { images: images.iter().map(message).collect() }))
    }

    async fn image_status(
        &self,
        request: Request<v1::ImageStatusRequest>,
    ) -> Answer<v1::ImageStatusResponse> {
        let request = request.into_inner();
        let wanted = request.image.unwrap_or_default().image;
        if wanted.is_empty() {
            return Err(CallError::Missing { field: "image" }.into());
        }
        let found = self.with_images(move |store| store.find(&wanted)).await?;
        let info = match &found {
            Some(image) if request.verbose => info(image),
            Some(_) | None => BTreeMap::new(),
        };
        Ok(Response::new(v1::ImageStatusResponse { image: found.as_ref().map(message), info }))
    }

    async fn pull_image(&self, request: Request<v1::PullImageRequest>) -> Answer<v1::PullImageResponse> {
        let request = request.into_inner();
        let wanted = request.image.unwrap_or_default().image;
        if wanted.is_empty() {
            return Err(CallError::Missing { field: "image" }.into());
        }
        let options = match PullOptions::of_user() {
            Ok(options) => options,
            Err(error) => return Err(Status::failed_precondition(error.to_string())),
        };
        let options = match request.auth.and_then(credentials) {
            Some(credentials) => options.with_credentials(credentials),
            None => options,
        };
        let images = self.state.images.clone();
        let here = tokio::runtime::Handle::current();
        // On a blocking thread: unpacking keeps a processor busy for as long as the image is large.
        let pulled = tokio::task::spawn_blocking(move || {
            here.block_on(images.pull(&wanted, &options)).map_err(|error| {
                let hint = images.pull_hint(&wanted, &options, &error);
                let own_hint = error.hint();
                let status = Status::from(CallError::Pull(error));
                match hint.filter(|hint| own_hint.as_ref() != Some(hint)) {
                    Some(hint) => Status::new(status.code(), format!("{}; {hint}", status.message())),
                    None => status,
                }
            })
        });
        let image = pulled.await.map_err(|error| Status::internal(error.to_string()))??;
        Ok(Response::new(v1::PullImageResponse { image_ref: image.id.to_string() }))
    }

    async fn remove_image(
        &self,
        request: Request<v1::RemoveImageRequest>,
    ) -> Answer<v1::RemoveImageResponse> {
        let wanted = request.into_inner().image.unwrap_or_default().image;
        if wanted.is_empty() {
            return Err(CallError::Missing { field: "image" }.into());
        }
        self.with_images(move |store| {
            // By whatever name: the image goes with all its names.
            if let Some(image) = store.find(&wanted)? {
                for name in image.references.iter().chain(&image.repo_digests) {
                    store.remove(name)?;
                }
                store.remove(&image.id.to_string())?;
            }
            Ok(())
        })
        .await?;
        Ok(Response::new(v1::RemoveImageResponse {}))
    }

    async fn image_fs_info(&self, _: Request<v1::ImageFsInfoRequest>) -> Answer<v1::ImageFsInfoResponse> {
        let images = self.state.images.directory().to_owned();
        let containers = self.state.config.data_dir.clone();
        let usage = tokio::task::spawn_blocking(move || {
            let measure = |path: &std::path::Path| {
                stats::measure_tree(path).unwrap_or_default().message(now(), &stats::mount_point_of(path))
            };
            (measure(&images), measure(&containers))
        });
        let (images, containers) = usage.await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(v1::ImageFsInfoResponse {
            image_filesystems: vec![images],
            container_filesystems: vec![containers],
        }))
    }
}
