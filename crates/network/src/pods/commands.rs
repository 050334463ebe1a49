//! What the thread of pods is asked to do, and the thread's loop.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;

use tokio::sync::oneshot;

use super::PodNetwork;
use super::connections::PodConnections;
use super::errors::{RouteApiError, RouteDnsError, SetupPodError, TeardownPodError};
use super::order::{Order, Urgency};
use crate::allocations::HostPort;
use crate::dns_route::DnsRoute;
use crate::packet_filter::ApiRoute;

/// Where the answer to the end of a pod goes.
pub(super) type TeardownReply = oneshot::Sender<Result<(), TeardownPodError>>;

/// One request, with where its answer goes.
pub(super) enum Command {
    Setup {
        namespace: OwnedFd,
        id: String,
        ports: Vec<HostPort>,
        reply: oneshot::Sender<Result<PodNetwork, SetupPodError>>,
    },
    Teardown {
        id: String,
        reply: TeardownReply,
    },
    Retain {
        ids: BTreeSet<String>,
        reply: oneshot::Sender<Result<Vec<String>, TeardownPodError>>,
    },
    RouteApi {
        api: ApiRoute,
        reply: oneshot::Sender<Result<(), RouteApiError>>,
    },
    RouteDns {
        dns: DnsRoute,
        reply: oneshot::Sender<Result<(), RouteDnsError>>,
    },
    Find {
        id: String,
        reply: oneshot::Sender<Option<PodNetwork>>,
    },
    Cleanup {
        reply: oneshot::Sender<Result<(), TeardownPodError>>,
    },
}

impl Command {
    pub(super) fn urgency(&self) -> Urgency {
        match self {
            // A port of the machine may still belong to a pod that ends.
            Self::Setup { ports, .. } if ports.is_empty() => Urgency::Start,
            Self::Teardown { .. } => Urgency::End,
            Self::Setup { .. }
            | Self::Retain { .. }
            | Self::RouteApi { .. }
            | Self::RouteDns { .. }
            | Self::Find { .. }
            | Self::Cleanup { .. } => Urgency::InTurn,
        }
    }
}

/// Does what comes in the queue, until nobody can ask any more.
pub(super) fn serve(mut connections: PodConnections, queue: &mpsc::Receiver<Command>) {
    let mut order = Order::default();
    while let Some(command) = order.next(queue) {
        // Whoever asked may have gone; the work is done all the same.
        match command {
            Command::Setup { namespace, id, ports, reply } => {
                let _ = reply.send(connections.connect(namespace.as_fd(), &id, &ports));
            }
            Command::Teardown { id, reply } => {
                let mut ends = vec![(id, reply)];
                ends.extend(order.more_ends());
                let ids: Vec<&str> = ends.iter().map(|(id, _)| id.as_str()).collect();
                connections.unlink_together(&ids);
                for (id, reply) in ends {
                    let _ = reply.send(connections.disconnect(&id));
                }
            }
            Command::Retain { ids, reply } => {
                let _ = reply.send(connections.retain(&ids));
            }
            Command::RouteApi { api, reply } => {
                let _ = reply.send(connections.route_api(api));
            }
            Command::RouteDns { dns, reply } => {
                let _ = reply.send(connections.route_dns(dns));
            }
            Command::Find { id, reply } => {
                let _ = reply.send(connections.find(&id));
            }
            Command::Cleanup { reply } => {
                let _ = reply.send(connections.cleanup());
                return;
            }
        }
    }
}
