//! What the caller has fetched for a resolution: ConfigMaps, Secrets, Services, env files, facts of the pod's run,
//! of its node and of its image. Every answer says whether something is there, absent, or only not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::required::EnvFileKey;
use crate::{SecretBytes, Unavailable};

/// Whether something that a container needs is there.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Availability<T> {
    /// It is there.
    Present(T),
    /// It does not exist. An error, unless the reference is optional.
    Absent,
    /// It exists or not, but this input does not hold it: the entry is `missing`, with an info finding.
    #[default]
    NotInInput,
    /// Only a running pod knows it.
    UnknownUntilRun,
    /// It could not be fetched. An error, also for an optional reference.
    Unavailable(Unavailable),
}

impl<T> Availability<T> {
    /// The same, of a reference to what is present.
    pub fn as_ref(&self) -> Availability<&T> {
        match self {
            Self::Present(found) => Availability::Present(found),
            Self::Absent => Availability::Absent,
            Self::NotInInput => Availability::NotInInput,
            Self::UnknownUntilRun => Availability::UnknownUntilRun,
            Self::Unavailable(reason) => Availability::Unavailable(*reason),
        }
    }

    /// The same, with `change` applied to what is present.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Availability<U> {
        match self {
            Self::Present(found) => Availability::Present(change(found)),
            Self::Absent => Availability::Absent,
            Self::NotInInput => Availability::NotInInput,
            Self::UnknownUntilRun => Availability::UnknownUntilRun,
            Self::Unavailable(reason) => Availability::Unavailable(reason),
        }
    }
}

impl Availability<()> {
    /// What it means for an object that no list names. Nothing can be present without being listed.
    pub(crate) fn as_if_listed<T>(&self) -> Availability<T> {
        match self {
            Self::Present(()) | Self::NotInInput => Availability::NotInInput,
            Self::Absent => Availability::Absent,
            Self::UnknownUntilRun => Availability::UnknownUntilRun,
            Self::Unavailable(reason) => Availability::Unavailable(*reason),
        }
    }
}

/// A ConfigMap as an environment sees it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConfigMapSource {
    /// Resource version that was read, if any.
    pub resource_version: Option<String>,
    /// `data`.
    pub data: BTreeMap<String, String>,
    /// Keys of `binaryData`, which no environment can see; only for the hint.
    pub binary_keys: BTreeSet<String>,
}

impl From<&ConfigMap> for ConfigMapSource {
    fn from(config_map: &ConfigMap) -> Self {
        Self {
            resource_version: config_map.metadata.resource_version.clone(),
            data: config_map.data.clone().unwrap_or_default(),
            binary_keys: config_map.binary_data.iter().flatten().map(|(key, _)| key.clone()).collect(),
        }
    }
}

/// A Secret as an environment sees it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SecretSource {
    /// Resource version that was read, if any.
    pub resource_version: Option<String>,
    /// Decoded values.
    pub data: BTreeMap<String, SecretBytes>,
}

impl From<&Secret> for SecretSource {
    /// `stringData`, which only a manifest has, overrides `data`, as the API server does on a write.
    fn from(secret: &Secret) -> Self {
        let mut data: BTreeMap<_, _> = secret
            .data
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), SecretBytes::new(value.0.clone())))
            .collect();
        let plain = secret.string_data.iter().flatten();
        data.extend(plain.map(|(key, value)| (key.clone(), SecretBytes::new(value.clone().into_bytes()))));
        Self { resource_version: secret.metadata.resource_version.clone(), data }
    }
}

/// The cluster address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterAddress {
    /// As written in the object.
    Known(Arc<str>),
    /// The manifest leaves it to the API server.
    NotYetAllocated,
    /// Headless, of type ExternalName, or without address: it gives no variables.
    None,
}

/// One port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSource {
    /// Name; empty when it has none.
    pub name: String,
    /// The service port.
    pub port: i32,
    /// Protocol in upper case: `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// A Service as an environment sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSource {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Cluster address.
    pub cluster_address: ClusterAddress,
    /// Ports in the order of the object.
    pub ports: Vec<PortSource>,
}

impl ServiceSource {
    /// A service that an API server holds: an empty address means that there is none.
    pub fn from_live(service: &Service) -> Self {
        Self::convert(service, ClusterAddress::None)
    }

    /// A service of a manifest: an absent address is one that the API server will choose.
    pub fn from_manifest(service: &Service) -> Self {
        let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
        let absent = match kind {
            Some("ExternalName") => ClusterAddress::None,
            _ => ClusterAddress::NotYetAllocated,
        };
        Self::convert(service, absent)
    }

    /// The service `kubernetes` of namespace `default`, which every cluster has, before its address is known.
    pub fn kubernetes_before_run() -> Self {
        Self {
            namespace: "default".into(),
            name: "kubernetes".into(),
            cluster_address: ClusterAddress::NotYetAllocated,
            ports: vec![PortSource { name: "https".to_owned(), port: 443, protocol: "TCP".to_owned() }],
        }
    }

    fn convert(service: &Service, absent: ClusterAddress) -> Self {
        let spec = service.spec.as_ref();
        let cluster_address = match spec.and_then(|spec| spec.cluster_ip.as_deref()) {
            Some("None") => ClusterAddress::None,
            None | Some("") => absent,
            Some(address) => ClusterAddress::Known(address.into()),
        };
        let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
        Self {
            namespace: service.metadata.namespace.as_deref().unwrap_or("default").into(),
            name: service.metadata.name.as_deref().unwrap_or_default().into(),
            cluster_address,
            ports: ports
                .iter()
                .map(|port| PortSource {
                    name: port.name.clone().unwrap_or_default(),
                    port: port.port,
                    protocol: port.protocol.as_deref().unwrap_or("TCP").to_ascii_uppercase(),
                })
                .collect(),
        }
    }
}

/// The services that the caller knows, of any namespace.
#[derive(Clone, Debug)]
pub enum Services {
    /// All of them: a name that no service explains is unresolved.
    Complete(Vec<Arc<ServiceSource>>),
    /// Those of the input: a name of the form `*_SERVICE_HOST` may come from a service that is elsewhere.
    Partial(Vec<Arc<ServiceSource>>),
    /// The list has never been read: an error, except for a static pod.
    NotYetRead,
    /// The list could not be read: an error.
    Unavailable,
}

impl Default for Services {
    fn default() -> Self {
        Self::Partial(Vec::new())
    }
}

/// Why an env file was not read. The reader decides; no variant carries content or a path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvFileRefusal {
    /// A directory, FIFO, socket or device.
    NotRegular,
    /// Larger than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The container's user may not read it.
    NotReadable {
        /// The user.
        uid: u32,
    },
    /// The path leads out of the volume, or through a magic link.
    Outside,
    /// The directory of the volume on the node is not known (any more).
    VolumeUnusable,
    /// The system refused; the symbolic name of the error, such as `EIO`.
    System(String),
}

/// An env file as the caller found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvFileSource {
    /// Its bytes, to be parsed under [`crate::Options::env_file_syntax`].
    Content(SecretBytes),
    /// The pod has no such volume, or it is not set up.
    VolumeNotFound,
    /// The volume has no such file.
    NotFound,
    /// It was found and not read.
    Refused(EnvFileRefusal),
    /// Only a running pod has it.
    UnknownUntilRun,
}

/// What an image's configuration adds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// `Env`: strings `NAME=value` in image order.
    pub env: Vec<String>,
    /// `Entrypoint`, for the size of the arguments.
    pub entrypoint: Vec<String>,
    /// `Cmd`, for the size of the arguments.
    pub cmd: Vec<String>,
}

/// Everything that a resolution may look at besides the pod itself.
#[derive(Clone, Debug)]
pub struct Sources {
    /// ConfigMaps of the pod's namespace by name.
    pub config_maps: BTreeMap<String, Availability<ConfigMapSource>>,
    /// Secrets of the pod's namespace by name.
    pub secrets: BTreeMap<String, Availability<SecretSource>>,
    /// What it means that a ConfigMap or Secret stands in neither map: [`Availability::Absent`] when the caller
    /// has asked an API server for all that is [`crate::required`], [`Availability::NotInInput`] for files.
    pub unlisted: Availability<()>,
    /// Services.
    pub services: Services,
    /// Env files by volume and path. One that is not listed is unknown until run.
    pub env_files: BTreeMap<EnvFileKey, EnvFileSource>,
    /// Pod addresses as the runtime reports them. Unless present, those of the pod's status are taken.
    pub pod_ips: Availability<Vec<String>>,
    /// Host addresses, the node's primary one first. Unless present, those of the pod's status are taken.
    pub host_ips: Availability<Vec<String>>,
    /// The node's allocatable resources, for limits that are not set.
    pub node_allocatable: Availability<BTreeMap<String, Quantity>>,
    /// The image's configuration.
    pub image: Availability<ImageConfig>,
}

impl Sources {
    /// Nothing but the pod is known: what `coracle env -f` begins with.
    pub fn of_files() -> Self {
        Self {
            config_maps: BTreeMap::new(),
            secrets: BTreeMap::new(),
            unlisted: Availability::NotInInput,
            services: Services::default(),
            env_files: BTreeMap::new(),
            pod_ips: Availability::UnknownUntilRun,
            host_ips: Availability::UnknownUntilRun,
            node_allocatable: Availability::UnknownUntilRun,
            image: Availability::NotInInput,
        }
    }

    /// Everything was asked for: what is not listed does not exist. What a kubelet begins with.
    pub fn of_node() -> Self {
        Self {
            unlisted: Availability::Absent,
            services: Services::Complete(Vec::new()),
            node_allocatable: Availability::Absent,
            ..Self::of_files()
        }
    }
}
