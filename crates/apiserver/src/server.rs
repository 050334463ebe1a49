//! The server as a whole: its parts, its configuration, its beginning.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use admission::EnvFileMounts;
use api::FeatureGates;
use rustls::ServerConfig;
use store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::audit::AuditLog;
use crate::authority::{AuthorityError, TokenKey};
use crate::gatekeeper::InFlight;
use crate::identity::Identity;
use crate::in_memory::InMemoryConnector;
use crate::kinds::{KindTable, UnknownKind};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::node::NodeConnector;
use crate::openapi::Documents;
use crate::own_endpoints::{self, ReachedAt};
use crate::quotas::Quotas;
use crate::rbac::{self, RoleKeeper};
use crate::service_addresses::ServiceAddresses;
use crate::service_ranges::ServiceRanges;
use crate::status::ApiError;
use crate::tokens::{FixedTokens, Tokens};
use crate::workshop::Workshop;
use crate::{derived_status, expiry, garbage, listener, namespaces};

/// What a server is told at its start.
#[derive(Clone, Debug, Default)]
pub struct ApiServerConfig {
    /// Feature gates.
    pub gates: FeatureGates,
    /// Who may mount the volume of an env file.
    pub env_file_mounts: EnvFileMounts,
    /// Cluster addresses of services.
    pub service_ranges: ServiceRanges,
    /// Where clients reach the server; named in the service `default/kubernetes`.
    pub advertise: Option<SocketAddr>,
    /// Names and addresses that clients may put into `Host`, besides loopback and the names of `default/kubernetes`.
    pub hosts: Vec<String>,
    /// Web origins that may send requests (`https://example.com`); none by default.
    pub origins: Vec<String>,
    /// The authority's certificate in PEM form, for the ConfigMap `kube-root-ca.crt`.
    pub authority_pem: Option<String>,
    /// What tokens of service accounts are signed with; without one, a key that ends with the server.
    pub token_key: Option<Arc<TokenKey>>,
    /// Tokens that are good besides.
    pub fixed_tokens: FixedTokens,
    /// Where each request is noted; nowhere by default.
    pub audit: Option<AuditLog>,
    /// Limits.
    pub limits: Limits,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A kind that the schema does not have.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// A metric that cannot be counted.
    #[error("a metric cannot be counted: {0}")]
    Metrics(#[from] prometheus::Error),
    /// No key for tokens can be made.
    #[error(transparent)]
    TokenKey(#[from] AuthorityError),
    /// What every cluster has cannot be created.
    #[error("cannot create {what}: {reason}")]
    Bootstrap {
        /// Which object.
        what: String,
        /// Why, as a client would be told.
        reason: String,
    },
}

impl StartError {
    pub(crate) fn bootstrap(what: impl Into<String>, error: &ApiError) -> StartError {
        StartError::Bootstrap { what: what.into(), reason: error.to_string() }
    }
}

/// The parts that requests work with.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: ApiServerConfig,
    pub(crate) store: Store,
    pub(crate) kinds: KindTable,
    pub(crate) openapi: Documents,
    pub(crate) nodes: NodesHandle,
    pub(crate) addresses: ServiceAddresses,
    /// What the namespaces with quotas have taken.
    pub(crate) quotas: Quotas,
    /// Where pods reach this server.
    pub(crate) reached_at: ReachedAt,
    pub(crate) in_flight: InFlight,
    pub(crate) metrics: Metrics,
    pub(crate) roles: RoleKeeper,
    pub(crate) tokens: Tokens,
    /// Where templates are checked and processed.
    pub(crate) workshop: Workshop,
    /// Where large answers are written anew.
    pub(crate) writing_room: Workshop,
    closing: CancellationToken,
}

/// The way to the nodes; a type of its own because connectors need not be printable.
pub(crate) struct NodesHandle(pub(crate) Arc<dyn NodeConnector>);

impl std::fmt::Debug for NodesHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodesHandle")
    }
}

impl Server {
    pub(crate) fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Cancelled when the server ends; streams end with it.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

/// An API server; clones are cheap and share everything. When the last one is dropped, its tasks end.
#[derive(Clone, Debug)]
pub struct ApiServer {
    server: Arc<Server>,
    _ending: Arc<DropGuard>,
}

impl ApiServer {
    /// A server over `store`: what every cluster has exists when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn new(
        config: ApiServerConfig,
        store: Store,
        nodes: Arc<dyn NodeConnector>,
    ) -> Result<ApiServer, StartError> {
        let closing = CancellationToken::new();
        let token_key = match &config.token_key {
            Some(key) => key.clone(),
            None => Arc::new(TokenKey::passing()?),
        };
        let server = Arc::new(Server {
            kinds: KindTable::builtin()?,
            openapi: Documents::default(),
            nodes: NodesHandle(nodes),
            addresses: ServiceAddresses::new(config.service_ranges),
            quotas: Quotas::default(),
            reached_at: ReachedAt::new(None),
            in_flight: InFlight::default(),
            metrics: Metrics::new(&config.gates)?,
            roles: RoleKeeper::new(&store),
            tokens: Tokens::new(token_key, config.fixed_tokens.clone()),
            workshop: Workshop::new(config.limits.templates_at_once),
            writing_room: Workshop::new(config.limits.large_answers_at_once),
            closing: closing.clone(),
            store,
            config,
        });
        namespaces::bootstrap(&server).await?;
        rbac::create_missing(&server).await?;
        expiry::spawn_event_expiry(&server);
        garbage::spawn_collector(&server);
        derived_status::spawn(&server);
        own_endpoints::spawn(&server);
        Ok(ApiServer { server, _ending: Arc::new(closing.drop_guard()) })
    }

    /// Serves HTTPS until `shutdown` resolves, then ends watches and waits a moment for open requests.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        shutdown: impl Future<Output = ()>,
    ) {
        listener::serve(self.server.clone(), listener, tls, shutdown).await;
    }

    /// Serves HTTP/1.1 on a connection of this process; `identity` is who speaks on it.
    pub async fn serve_connection<Io>(&self, io: Io, identity: Identity)
    where
        Io: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        listener::serve_in_memory(self.server.clone(), io, identity).await;
    }

    /// Opens in-memory connections on which `identity` speaks.
    pub fn in_memory(&self, identity: Identity) -> InMemoryConnector {
        InMemoryConnector::new(self.clone(), identity)
    }

    /// Says where pods reach this server: from now on the Endpoints and the slice of `default/kubernetes` do. An address of
    /// loopback is no use to pods, and is passed over.
    pub async fn advertise(&self, address: SocketAddr) {
        if address.ip().is_loopback() || address.ip().is_unspecified() {
            return;
        }
        self.server.reached_at.send_replace(Some(address));
        // A failure was told, and the task tries again.
        let _ = own_endpoints::keep(&self.server, address).await;
    }

    /// The store behind the server.
    pub fn store(&self) -> &Store {
        &self.server.store
    }
}
