//! Fetches what the volumes of a pod hold, from the API.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, ProjectedVolumeSource, Secret, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use kube::Api;
use kube::api::PostParams;
use std::path::PathBuf;

use environment::SecretBytes;
use jiff::Timestamp;
use quantity::Quantity;

use super::payload::{KeySelection, Payload, PayloadFile, mode_of};
use super::tokens::{PodTokens, only_user};
use super::{EmptyDirMedium, PreparedVolume, VolumeContent, VolumeError, claimed};
use crate::clock;
use crate::config::KubeletConfig;
use crate::downward::Allocatable;

/// The mode of files whose volume names none.
const DEFAULT_MODE: u32 = 0o644;

/// Fetches the content of all volumes.
///
/// # Errors
///
/// The first volume that fails, by name.
pub(crate) async fn fetch_volumes(
    client: &kube::Client,
    pod: &Pod,
    allocatable: &Allocatable,
    (tokens, config): (&PodTokens, &KubeletConfig),
) -> Result<Vec<PreparedVolume>, (String, VolumeError)> {
    let mut prepared = Vec::new();
    let source = VolumeSources {
        client,
        pod,
        allocatable,
        tokens,
        config,
        namespace: pod.metadata.namespace.as_deref().unwrap_or("default"),
    };
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let content = source.content(volume).await.map_err(|error| (volume.name.clone(), error))?;
        prepared.push(PreparedVolume { name: volume.name.clone(), content });
    }
    Ok(prepared)
}

/// The name of the field that says what a volume is.
fn kind_of(volume: &Volume) -> String {
    let fields = serde_json::to_value(volume).unwrap_or_default();
    let mut names = fields.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    names.find(|name| *name != "name").unwrap_or("that says nothing").to_owned()
}

struct VolumeSources<'a> {
    client: &'a kube::Client,
    pod: &'a Pod,
    allocatable: &'a Allocatable,
    tokens: &'a PodTokens,
    config: &'a KubeletConfig,
    namespace: &'a str,
}

impl VolumeSources<'_> {
    async fn content(&self, volume: &Volume) -> Result<VolumeContent, VolumeError> {
        if let Some(source) = &volume.config_map {
            let mut payload = Payload::default();
            let config_map = self.config_map(&source.name).await?;
            let selection = KeySelection {
                items: source.items.as_deref(),
                default_mode: mode_of(source.default_mode, DEFAULT_MODE),
                optional: source.optional.unwrap_or(false),
            };
            payload.add_config_map(&source.name, config_map.as_ref(), selection)?;
            return Ok(VolumeContent::Files { payload, in_memory: false });
        }
        if let Some(source) = &volume.secret {
            let mut payload = Payload::default();
            let name = source.secret_name.as_deref().unwrap_or_default();
            let secret = self.secret(name).await?;
            let selection = KeySelection {
                items: source.items.as_deref(),
                default_mode: mode_of(source.default_mode, DEFAULT_MODE),
                optional: source.optional.unwrap_or(false),
            };
            payload.add_secret(name, secret.as_ref(), selection)?;
            return Ok(VolumeContent::Files { payload, in_memory: true });
        }
        if let Some(source) = &volume.downward_api {
            let mut payload = Payload::default();
            let mode = mode_of(source.default_mode, DEFAULT_MODE);
            let items = source.items.as_deref().unwrap_or_default();
            payload.add_downward(self.pod, self.allocatable, items, mode)?;
            return Ok(VolumeContent::Files { payload, in_memory: false });
        }
        if let Some(source) = &volume.projected {
            let payload = self.projected(source).await?;
            return Ok(VolumeContent::Files { payload, in_memory: true });
        }
        if let Some(source) = &volume.host_path {
            return Ok(VolumeContent::HostPath {
                path: PathBuf::from(&source.path),
                type_: source.type_.clone().unwrap_or_default(),
            });
        }
        if let Some(source) = &volume.empty_dir {
            let medium = match source.medium.as_deref() {
                None | Some("") => EmptyDirMedium::Disk,
                Some("Memory") => EmptyDirMedium::Memory,
                Some(medium) => {
                    return Err(VolumeError::Unsupported(format!("emptyDir with medium {medium}")));
                }
            };
            let size_limit = source
                .size_limit
                .as_ref()
                .and_then(|limit| Quantity::parse(&limit.0).ok())
                .and_then(|limit| u64::try_from(limit.units()).ok())
                .filter(|limit| *limit > 0);
            return Ok(VolumeContent::EmptyDir { medium, size_limit });
        }
        if let Some((claim, read_only)) = claimed::claim_of(self.pod, volume) {
            return self.claimed(volume, &claim, read_only).await;
        }
        Err(VolumeError::Unsupported(kind_of(volume)))
    }

    async fn claimed(
        &self,
        volume: &Volume,
        name: &str,
        read_only: bool,
    ) -> Result<VolumeContent, VolumeError> {
        let failed = |kind, name: &str| {
            let name = name.to_owned();
            move |error: kube::Error| VolumeError::Fetch { kind, name, message: error.to_string() }
        };
        let key = format!("{}/{name}", self.namespace);
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), self.namespace);
        let claim = claims.get_opt(name).await.map_err(failed("persistentvolumeclaim", name))?;
        let bound = claimed::bound_volume(self.pod, volume, (&key, claim.as_ref()))?;
        let claim = claim.unwrap_or_default();
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let found = volumes.get_opt(&bound).await.map_err(failed("persistentvolume", &bound))?;
        let here = (self.config.claims_dir.as_path(), self.config.node_name.as_str());
        let claimed = claimed::resolve((&key, &claim), (&bound, found.as_ref()), here, read_only)?;
        Ok(VolumeContent::Claimed(claimed))
    }

    async fn projected(&self, source: &ProjectedVolumeSource) -> Result<Payload, VolumeError> {
        let default_mode = mode_of(source.default_mode, DEFAULT_MODE);
        let mut payload = Payload::default();
        for projection in source.sources.iter().flatten() {
            self.project(projection, default_mode, &mut payload).await?;
        }
        Ok(payload)
    }

    async fn project(
        &self,
        projection: &VolumeProjection,
        default_mode: u32,
        payload: &mut Payload,
    ) -> Result<(), VolumeError> {
        if let Some(source) = &projection.config_map {
            let config_map = self.config_map(&source.name).await?;
            let selection = KeySelection {
                items: source.items.as_deref(),
                default_mode,
                optional: source.optional.unwrap_or(false),
            };
            payload.add_config_map(&source.name, config_map.as_ref(), selection)?;
        }
        if let Some(source) = &projection.secret {
            let secret = self.secret(&source.name).await?;
            let selection = KeySelection {
                items: source.items.as_deref(),
                default_mode,
                optional: source.optional.unwrap_or(false),
            };
            payload.add_secret(&source.name, secret.as_ref(), selection)?;
        }
        if let Some(source) = &projection.downward_api {
            let items = source.items.as_deref().unwrap_or_default();
            payload.add_downward(self.pod, self.allocatable, items, default_mode)?;
        }
        if let Some(source) = &projection.service_account_token {
            let token = self.token(source).await?;
            payload.insert_owned(&source.path, self.token_file(token, default_mode))?;
        }
        if projection.cluster_trust_bundle.is_some() {
            return Err(VolumeError::Unsupported("projected with clusterTrustBundle".to_owned()));
        }
        if projection.pod_certificate.is_some() {
            return Err(VolumeError::Unsupported("projected with podCertificate".to_owned()));
        }
        Ok(())
    }

    /// A token of the pod's service account, bound to the pod: the one that is held, or a new one when it is time.
    async fn token(&self, source: &ServiceAccountTokenProjection) -> Result<SecretBytes, VolumeError> {
        if let Some(token) = self.tokens.fresh(source, clock::now()) {
            return Ok(token);
        }
        match self.new_token(source).await {
            Ok((token, end)) => {
                self.tokens.note(source, token.clone(), end, clock::now());
                Ok(token)
            }
            Err(error) => match self.tokens.old(source, clock::now()) {
                Some(token) => {
                    tracing::warn!(%error, "a token could not be renewed; the old one is good for a while");
                    Ok(token)
                }
                None => Err(error),
            },
        }
    }

    async fn new_token(
        &self,
        source: &ServiceAccountTokenProjection,
    ) -> Result<(SecretBytes, Timestamp), VolumeError> {
        let spec = self.pod.spec.as_ref();
        let account = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: source.audience.clone().map(|audience| vec![audience]),
                expiration_seconds: source.expiration_seconds,
                bound_object_ref: Some(k8s_openapi::api::authentication::v1::BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: self.pod.metadata.name.clone(),
                    uid: self.pod.metadata.uid.clone(),
                }),
            }),
            ..TokenRequest::default()
        };
        let failed = |message: String| VolumeError::Fetch {
            kind: "token of service account",
            name: account.to_owned(),
            message,
        };
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let (token, end) = answer
            .status
            .and_then(|status| Some((status.token?, status.expiration_timestamp?.0)))
            .ok_or_else(|| failed("the answer holds none".to_owned()))?;
        Ok((SecretBytes::new(token.into_bytes()), end))
    }

    /// Tokens are for their users only: one user, or the group of the volumes, when the pod names them.
    fn token_file(&self, bytes: SecretBytes, default_mode: u32) -> PayloadFile {
        let owner = only_user(self.pod);
        let is_restricted = owner.is_some() || crate::security::fs_group(self.pod).is_some();
        PayloadFile { bytes, mode: if is_restricted { 0o600 } else { default_mode }, owner }
    }

    async fn config_map(&self, name: &str) -> Result<Option<ConfigMap>, VolumeError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace);
        api.get_opt(name).await.map_err(|error| VolumeError::Fetch {
            kind: "configmap",
            name: name.to_owned(),
            message: error.to_string(),
        })
    }

    async fn secret(&self, name: &str) -> Result<Option<Secret>, VolumeError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
        api.get_opt(name).await.map_err(|error| VolumeError::Fetch {
            kind: "secret",
            name: name.to_owned(),
            message: error.to_string(),
        })
    }
}
