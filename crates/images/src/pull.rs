//! Fetches an image from a registry: manifest, configuration, then the missing layers side by side.
//!
//! Every blob is verified against its digest before anything reads it, every layer against the configuration while it
//! is unpacked, and the image gets its name last.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::StreamExt as _;

use crate::config::ConfigFile;
use crate::credentials::{CredentialSources, Credentials};
use crate::digest::Digest;
use crate::host;
use crate::image::Image;
use crate::layer::{self, LayerError};
use crate::manifest::{self, Descriptor, Manifest, ManifestError};
use crate::progress::{PullProgress, Silent, TransferEvent};
use crate::reference::Reference;
use crate::registries::{Blocked, Endpoint, RegistriesError, RegistryRules};
use crate::store::{AddError, FreshLayer, ImageStore, Ingest, NewImage, StoreError};

mod blob;
mod error;
mod registry;

pub use error::PullImageError;

use registry::Registry;

/// Layers that are fetched and unpacked at the same time.
const PARALLEL_LAYERS: usize = 4;
/// How deep lists of manifests may be nested: a list in a list is the most that tools make.
const INDEX_DEPTH: usize = 3;
/// How often a pull starts again because somebody removed layers meanwhile.
const RESTARTS: usize = 3;

/// How to pull.
#[derive(Clone)]
pub struct PullOptions {
    credentials: Option<Credentials>,
    sources: CredentialSources,
    rules: RegistryRules,
    progress: Arc<dyn PullProgress>,
}

impl PullOptions {
    /// With the credentials and registry rules of this machine's user, silently.
    pub fn of_user() -> Result<PullOptions, RegistriesError> {
        Ok(PullOptions {
            sources: CredentialSources::of_user(),
            rules: RegistryRules::of_user()?,
            ..PullOptions::bare()
        })
    }

    /// Anonymously, straight from the registry that the reference names, silently.
    pub fn bare() -> PullOptions {
        PullOptions {
            credentials: None,
            sources: CredentialSources::none(),
            rules: RegistryRules::default(),
            progress: Arc::new(Silent),
        }
    }

    /// With these credentials, whatever files say. They go to the registry that the reference names, not to mirrors.
    pub fn with_credentials(mut self, credentials: Credentials) -> PullOptions {
        self.credentials = Some(credentials);
        self
    }

    /// With credentials from these files.
    pub fn with_sources(mut self, sources: CredentialSources) -> PullOptions {
        self.sources = sources;
        self
    }

    /// With these registry rules.
    pub fn with_rules(mut self, rules: RegistryRules) -> PullOptions {
        self.rules = rules;
        self
    }

    /// Telling its steps.
    pub fn with_progress(mut self, progress: Arc<dyn PullProgress>) -> PullOptions {
        self.progress = progress;
        self
    }
}

impl fmt::Debug for PullOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullOptions").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl ImageStore {
    /// Pulls an image, whether or not the store has it; layers that are there are not fetched again.
    pub async fn pull(&self, text: &str, options: &PullOptions) -> Result<Image, PullImageError> {
        let reference = Reference::parse(text).map_err(StoreError::from)?;
        if host::is_host(&reference) {
            // Present on every machine, whatever the pull policy says.
            let image = self.resolve(text)?;
            return Ok(image.expect("the machine is there"));
        }
        let endpoints = options
            .rules
            .endpoints(&reference)
            .map_err(|Blocked| PullImageError::Blocked { registry: reference.domain().to_owned() })?;
        for _ in 0..RESTARTS {
            let mut failures = Vec::new();
            for (index, endpoint) in endpoints.iter().enumerate() {
                let pull = Pull { store: self, reference: &reference, endpoint, options };
                // Only the last endpoint is the registry itself.
                let is_origin = index + 1 == endpoints.len();
                match pull.run(is_origin).await {
                    Ok(Some(image)) => return Ok(image),
                    Ok(None) => break,
                    Err(error) if is_origin || error.is_disk_full() => return Err(error),
                    Err(error) => {
                        options.progress.report(TransferEvent::Retrying { reason: error.to_string() });
                        failures.push(error);
                    }
                }
            }
        }
        Err(PullImageError::Removed { reference: reference.to_string() })
    }

    /// The best advice for a failed pull: an image of the store that was nearly meant, else what the error itself knows.
    pub fn pull_hint(&self, text: &str, options: &PullOptions, error: &PullImageError) -> Option<String> {
        if matches!(
            error,
            PullImageError::NotFound { .. }
                | PullImageError::Unauthorized { .. }
                | PullImageError::Unreachable { .. }
        ) {
            if let Some(name) = self.nearest(text) {
                return Some(format!("did you mean the imported image {name}?"));
            }
            if let Some(name) = options.rules.alias(text) {
                return Some(format!("registries.conf has {name} for this short name: write the full name"));
            }
        }
        error.hint()
    }
}

/// A layer to be fetched.
struct LayerTransfer<'a> {
    layer: &'a Descriptor,
    diff_id: Digest,
    index: usize,
    stop: tokio::sync::watch::Receiver<bool>,
}

/// One attempt at one endpoint.
struct Pull<'a> {
    store: &'a ImageStore,
    reference: &'a Reference,
    endpoint: &'a Endpoint,
    options: &'a PullOptions,
}

impl Pull<'_> {
    /// `None`: a layer was removed meanwhile.
    async fn run(&self, is_origin: bool) -> Result<Option<Image>, PullImageError> {
        let registry_name = &self.endpoint.registry;
        self.report(TransferEvent::Resolving { registry: registry_name.clone() });
        let credentials = self.credentials(is_origin).await?;
        let wanted = match (self.reference.digest(), self.reference.tag()) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.unwrap_or("latest").to_owned(),
        };
        let limits = self.store.limits();
        let (registry, first) =
            Registry::connect(self.endpoint, self.reference, credentials, &wanted, limits.manifest_bytes)
                .await?;
        let named = Digest::of(&first);
        if let Some(expected) = self.reference.digest()
            && expected != named
        {
            return Err(PullImageError::Digest { registry: registry_name.clone(), expected, actual: named });
        }
        let (config, layers) = self.choose_image(&registry, first).await?;
        fault::point("pull.manifest_read");
        let config_bytes = registry.small_blob(&config, "configuration", limits.config_bytes).await?;
        let file = ConfigFile::parse(&config_bytes)
            .map_err(|source| PullImageError::Config { reference: self.reference.to_string(), source })?;
        if file.diff_ids.len() != layers.len() {
            let source = ManifestError::LayerCount { manifest: layers.len(), config: file.diff_ids.len() };
            return Err(self.manifest_error(source));
        }
        fault::point("pull.configuration_read");
        let references = self.names(named);
        let size = layers.iter().map(|layer| layer.size).fold(config.size, u64::saturating_add);
        let ingest = self.in_background(ImageStore::ingest).await??;
        let ingest = Arc::new(ingest);
        let fresh = self.fetch_layers(&registry, &ingest, &layers, &file.diff_ids).await?;
        fault::point("pull.layers_unpacked");
        let image = NewImage { config: config_bytes, layers: file.diff_ids, fresh, references, size };
        let adopted = self.in_background(move |store| store.adopt(&ingest, image)).await?;
        match adopted {
            Ok(image) => Ok(Some(image)),
            Err(AddError::LayerGone) => Ok(None),
            Err(AddError::Store(error)) => Err(error.into()),
        }
    }

    /// Names that shall mean the image: what was asked for, and the digest of what the registry has under that name.
    fn names(&self, named: Digest) -> Vec<String> {
        let mut names = vec![self.reference.with_digest(named).to_string()];
        if self.reference.digest().is_none() {
            names.push(self.reference.key());
        }
        names
    }

    async fn credentials(&self, is_origin: bool) -> Result<Option<Credentials>, PullImageError> {
        if let Some(credentials) = self.options.credentials.clone().filter(|_| is_origin) {
            return Ok(Some(credentials));
        }
        // Files name registries, mirrors among them, by where they really are.
        let place = format!("{}/{}", self.endpoint.registry, self.endpoint.repository);
        match Reference::parse(&place) {
            Ok(place) => Ok(self.options.sources.find(&place).await?),
            Err(_) => Ok(None),
        }
    }

    /// Follows lists of manifests to the image for this machine.
    async fn choose_image(
        &self,
        registry: &Registry,
        mut bytes: Vec<u8>,
    ) -> Result<(Descriptor, Vec<Descriptor>), PullImageError> {
        let limits = self.store.limits();
        for _ in 0..INDEX_DEPTH {
            match Manifest::parse(&bytes, limits.layers).map_err(|error| self.manifest_error(error))? {
                Manifest::Image { config, layers } => return Ok((config, layers)),
                Manifest::Index(manifests) => {
                    let chosen = manifest::choose_platform(&manifests, manifest::architecture())
                        .map_err(|error| self.manifest_error(error))?;
                    bytes = registry.manifest_of(chosen.digest, limits.manifest_bytes).await?;
                }
            }
        }
        Err(self.manifest_error(ManifestError::Nesting))
    }

    fn manifest_error(&self, source: ManifestError) -> PullImageError {
        PullImageError::Manifest { reference: self.reference.to_string(), source }
    }

    /// Fetches and unpacks the layers that the store does not have, each once.
    async fn fetch_layers(
        &self,
        registry: &Registry,
        ingest: &Arc<Ingest>,
        layers: &[Descriptor],
        diff_ids: &[Digest],
    ) -> Result<Vec<FreshLayer>, PullImageError> {
        let wanted: BTreeMap<Digest, (usize, &Descriptor)> = diff_ids
            .iter()
            .zip(layers)
            .enumerate()
            .map(|(index, (diff_id, layer))| (*diff_id, (index, layer)))
            .collect();
        let mut missing = Vec::new();
        for (diff_id, (index, layer)) in wanted {
            let limit = self.store.limits().blob_bytes;
            if layer.size > limit {
                return Err(PullImageError::TooLarge {
                    what: "layer",
                    digest: layer.digest,
                    size: layer.size,
                    limit,
                });
            }
            let present = self.store.has_layer(diff_id);
            self.report(TransferEvent::Layer { layer: layer.digest, size: layer.size, present });
            if !present {
                missing.push((diff_id, index, layer));
            }
        }
        let stop = tokio::sync::watch::Sender::new(false);
        let transfers: Vec<_> = missing
            .into_iter()
            .map(|(diff_id, index, layer)| {
                let stop = stop.subscribe();
                self.fetch_layer(registry, ingest, LayerTransfer { layer, diff_id, index, stop })
            })
            .collect();
        let mut transfers = futures::stream::iter(transfers).buffer_unordered(PARALLEL_LAYERS);
        let mut fresh = Vec::new();
        let mut failure = None;
        // After a failure the others are told to stop and waited for, so that nothing writes any more when this ends.
        while let Some(outcome) = transfers.next().await {
            match outcome {
                Ok(layer) => fresh.extend(layer),
                Err(error) => {
                    stop.send_replace(true);
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(fresh), Err)
    }

    /// `None`: told to stop.
    async fn fetch_layer(
        &self,
        registry: &Registry,
        ingest: &Arc<Ingest>,
        transfer: LayerTransfer<'_>,
    ) -> Result<Option<FreshLayer>, PullImageError> {
        let LayerTransfer { layer, diff_id, index, mut stop } = transfer;
        let path = ingest.blob(layer.digest).with_extension(index.to_string());
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
            downloaded = blob::download(registry, layer, &path, &*self.options.progress) => downloaded?,
        }
        fault::point("pull.layer_received");
        self.report(TransferEvent::Unpacking { layer: layer.digest });
        let directory = ingest.layer(index);
        // The task owns a share of the ingest directory: it is not removed while a cancelled pull still writes there.
        let share = Arc::clone(ingest);
        let size = layer.size;
        let unpacked = self
            .in_background(move |store| {
                let outcome = std::fs::File::open(&path)
                    .map_err(LayerError::Io)
                    .and_then(|file| layer::unpack_to(file, size, Some(diff_id), &directory, store.limits()));
                // Its space may be needed for the next layer.
                let _ = std::fs::remove_file(&path);
                drop(share);
                outcome.map(|unpacked| (unpacked, directory))
            })
            .await?;
        let (unpacked, directory) = unpacked.map_err(|source| PullImageError::Layer {
            reference: self.reference.to_string(),
            layer: layer.digest,
            source: Box::new(source),
        })?;
        fault::point("pull.layer_unpacked");
        self.report(TransferEvent::Unpacked { layer: layer.digest, skipped: unpacked.unpacked.skipped });
        for notice in &unpacked.unpacked.notices {
            tracing::debug!(image = %self.reference, layer = %layer.digest, %notice, "part of a layer was left out");
        }
        Ok(Some(FreshLayer {
            diff_id,
            directory,
            implied_directories: unpacked.unpacked.implied_directories,
        }))
    }

    async fn in_background<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ImageStore) -> T + Send + 'static,
    ) -> Result<T, PullImageError> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || work(&store)).await.map_err(|_| PullImageError::Interrupted)
    }

    fn report(&self, event: TransferEvent) {
        self.options.progress.report(event);
    }
}
