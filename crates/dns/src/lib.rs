//! Cluster DNS: names of services and pods, answered from what informers hold; everything else is asked of the machine's own
//! resolvers.
//!
//! [`Zone`] (pure) holds the names and changes with each object; `answer` (pure) makes answers of questions; `forward` asks
//! other servers, each question once at a time, and keeps what they say for a while; `server` is between those and the
//! [`Sockets`]. How pods get there is the packet filter's ([`network::DnsRoute`]).
//!
//! Nobody who asks can take more than his part: of answers a second, of questions that wait, of connections.
//!
//! Tasks: one for each socket, one for each connection and each question that waits; all end with [`serve`].

mod answer;
mod cache;
mod fairness;
mod follow;
mod forward;
mod server;
mod sockets;
mod upstream;
mod wire;
mod zone;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use network::{AddressRange, ResolverFiles};
use tokio_util::sync::CancellationToken;

pub use follow::Sources;
pub use sockets::Sockets;
pub use zone::{DomainError, Found, TTL, Zone};

use forward::Forwarder;
use server::{Clients, Server};

/// What one pod may ask a second, where the packet filter does not see to it already.
const QUESTIONS_PER_SECOND: u32 = 10_000;
/// Names of the cluster are waited for that long before questions are read; then they are told to ask again.
const FIRST_FILL: Duration = Duration::from_secs(2);

/// How the DNS of a node is set up.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// The domain of the cluster, usually `cluster.local`.
    pub domain: String,
    /// The address of the service at which it is asked.
    pub service: Ipv4Addr,
    /// Addresses of services: of whose names nobody else knows.
    pub services: Vec<AddressRange>,
    /// Addresses of the node's pods: of whose names nobody else knows, and who may ask.
    pub pods: Vec<AddressRange>,
    /// Where the machine's resolvers are named.
    pub resolvers: ResolverFiles,
    /// The port of the machine's resolvers.
    pub resolver_port: u16,
    /// How many questions one may ask a second.
    pub questions_per_second: u32,
}

impl DnsConfig {
    /// The usual configuration.
    #[must_use]
    pub fn new(
        domain: String,
        service: Ipv4Addr,
        services: Vec<AddressRange>,
        pods: Vec<AddressRange>,
    ) -> DnsConfig {
        DnsConfig {
            domain,
            service,
            services,
            pods,
            resolvers: ResolverFiles::default(),
            resolver_port: 53,
            questions_per_second: QUESTIONS_PER_SECOND,
        }
    }

    /// Whether this can be the domain of a cluster.
    ///
    /// # Errors
    ///
    /// When it cannot.
    pub fn check_domain(domain: &str) -> Result<(), DomainError> {
        Zone::new(domain, IpAddr::V4(Ipv4Addr::UNSPECIFIED), Vec::new()).map(drop)
    }
}

/// Answers over the sockets until `shutdown`.
///
/// # Errors
///
/// When the domain is none; nothing was answered then.
pub async fn serve(
    config: DnsConfig,
    sources: Sources,
    sockets: Sockets,
    shutdown: CancellationToken,
) -> Result<(), DomainError> {
    let ranges = [config.services, config.pods.clone()].concat();
    let zone = Arc::new(RwLock::new(Zone::new(&config.domain, config.service.into(), ranges)?));
    let own =
        vec![config.service.into(), (*sockets.for_pods().ip()).into(), (*sockets.for_machine().ip()).into()];
    let forwarder = Forwarder::new(config.resolvers, config.resolver_port, own);
    let server = Arc::new(Server::new(Arc::clone(&zone), forwarder, config.questions_per_second));
    let (pods, machine) = (&Clients::Pods(config.pods), &Clients::Machine);
    let Sockets { pods: for_pods, machine: for_machine } = sockets;
    let (pods_udp, machine_udp) = (Arc::new(for_pods.udp), Arc::new(for_machine.udp));
    let serving = async {
        sources.fill(&zone);
        let filled = async {
            sources.filled().await;
            zone.write().unwrap_or_else(std::sync::PoisonError::into_inner).complete();
        };
        tokio::pin!(filled);
        let in_time = tokio::time::timeout(FIRST_FILL, &mut filled).await.is_ok();
        let late = async {
            if !in_time {
                filled.await;
            }
        };
        tokio::join!(
            late,
            fault::carried_on("dns", || server.serve_udp(&pods_udp, pods)),
            fault::carried_on("dns", || server.serve_udp(&machine_udp, machine)),
            fault::carried_on("dns", || server.serve_tcp(&for_pods.tcp, pods)),
            fault::carried_on("dns", || server.serve_tcp(&for_machine.tcp, machine)),
        )
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        _ = serving => {}
    }
    Ok(())
}
