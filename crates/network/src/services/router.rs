//! The thread that writes services into the packet filter. It is not the thread of pods: a pod that ends keeps that one busy for a
//! while, and a service must not wait for it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::oneshot;

use super::flows::forget_stale;
use super::routes::{By, Changes, Frontend, Led, Routes};
use super::table::{FIRST_PRIORITY, LEAVING, Layout, backend_value, frontend_key};
use super::{RouteServicesError, ServiceTable, ServiceUpdate};
use crate::identity::NodeIdentity;
use crate::links::{LINK_GROUP, Routing, unreachable_range, without_range};
use crate::netlink::{NetlinkError, NetlinkSocket};
use crate::nftables::{
    Element, Table, Value, add_elements, address_registers, base_chains, commit, remembered, remove_elements,
};
use crate::packet_filter::remove_tables;
use crate::range::{AddressRange, Family};

/// Pods that may be reached from the machine's loopback addresses: those behind a port of the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoopbackReach {
    pods: Arc<Mutex<BTreeSet<IpAddr>>>,
}

impl LoopbackReach {
    /// Whether this pod is one.
    pub(crate) fn holds(&self, pod: IpAddr) -> bool {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).contains(&pod)
    }

    fn add(&self, pod: IpAddr) -> bool {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).insert(pod)
    }

    /// The pod is gone; another may get its address.
    pub(crate) fn forget(&self, pod: IpAddr) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).remove(&pod);
    }
}

enum Command {
    Update {
        update: ServiceUpdate,
        reply: oneshot::Sender<Result<(), RouteServicesError>>,
    },
    /// Another program may have emptied the packet filter.
    WriteAnew,
    Remove {
        reply: mpsc::Sender<Result<(), NetlinkError>>,
    },
}

/// What the router needs to know of its node.
#[derive(Clone, Debug)]
pub(crate) struct RouterConfig {
    pub(crate) identity: NodeIdentity,
    /// Where this node's pods have their addresses, one range for each family.
    pub(crate) pods: Vec<AddressRange>,
    /// Whether the machine has a packet filter; whether it has links at all.
    pub(crate) has_filter: bool,
    pub(crate) has_links: bool,
    pub(crate) loopback: LoopbackReach,
}

/// The handle of the thread. The table stays when it is dropped.
#[derive(Debug)]
pub(crate) struct ServiceRouter {
    commands: Option<mpsc::Sender<Command>>,
    body: Option<std::thread::JoinHandle<()>>,
}

impl Drop for ServiceRouter {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(body) = self.body.take() {
            // A thread that panicked has ended too.
            let _ = body.join();
        }
    }
}

impl ServiceRouter {
    /// Starts the thread, in the network namespace of the caller.
    pub(crate) fn start(config: RouterConfig) -> std::io::Result<Self> {
        let (commands, queue) = mpsc::channel();
        let body =
            std::thread::Builder::new().name("services".into()).spawn(move || serve(config, &queue))?;
        Ok(Self { commands: Some(commands), body: Some(body) })
    }

    pub(crate) async fn update(&self, update: ServiceUpdate) -> Result<(), RouteServicesError> {
        let (reply, answer) = oneshot::channel();
        let sent =
            self.commands.as_ref().is_some_and(|to| to.send(Command::Update { update, reply }).is_ok());
        if !sent {
            return Err(RouteServicesError::Closed);
        }
        answer.await.unwrap_or(Err(RouteServicesError::Closed))
    }

    /// Writes everything again, if it was written before.
    pub(crate) fn write_anew(&self) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(Command::WriteAnew);
        }
    }

    /// Removes everything; blocks.
    pub(crate) fn remove(&self) -> Result<(), NetlinkError> {
        let (reply, answer) = mpsc::channel();
        if let Some(commands) = &self.commands
            && commands.send(Command::Remove { reply }).is_ok()
        {
            return answer.recv().unwrap_or(Ok(()));
        }
        Ok(())
    }
}

fn serve(config: RouterConfig, queue: &mpsc::Receiver<Command>) {
    let routes = Routes::new(config.pods.clone());
    let mut router = Router { config, sockets: None, routes, layout: None, written: false };
    while let Ok(command) = queue.recv() {
        match command {
            Command::Update { update, reply } => {
                // Whoever asked may have gone; the work is done all the same.
                let _ = reply.send(router.update(update));
            }
            Command::WriteAnew => {
                if router.written
                    && let Err(error) = router.write_all()
                {
                    tracing::warn!(%error, "the routes of services could not be written anew");
                }
            }
            Command::Remove { reply } => {
                let _ = reply.send(router.remove());
            }
        }
    }
}

struct Sockets {
    filter: NetlinkSocket,
    connections: NetlinkSocket,
}

struct Router {
    config: RouterConfig,
    sockets: Option<Sockets>,
    routes: Routes,
    /// What the table follows from, once services are routed.
    layout: Option<Layout>,
    /// The table in the kernel is as `routes` says.
    written: bool,
}

impl Router {
    fn update(&mut self, update: ServiceUpdate) -> Result<(), RouteServicesError> {
        if !self.config.has_filter {
            if let ServiceUpdate::All { ranges, .. } = update
                && self.config.has_links
            {
                self.answer_no_route(&ranges);
            }
            return Err(RouteServicesError::Unsupported);
        }
        let changes = match update {
            ServiceUpdate::All { services, ranges } => {
                self.written = false;
                let gone: Vec<String> = self.routes.names().map(str::to_owned).collect();
                let mut changed: ServiceTable = gone.into_iter().map(|name| (name, Vec::new())).collect();
                changed.extend(services);
                self.layout = None;
                let layout = self.layout_for(ranges).map_err(RouteServicesError::Kernel)?;
                self.layout = Some(layout);
                self.routes.update(changed)
            }
            ServiceUpdate::Some(changed) => self.routes.update(changed),
        };
        if !self.written {
            return self.write_all().map_err(RouteServicesError::Kernel);
        }
        match self.write(&changes) {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the routes of services are written anew");
                self.write_all().map_err(RouteServicesError::Kernel)
            }
        }
    }

    fn sockets(&mut self) -> Result<&mut Sockets, NetlinkError> {
        let sockets = match self.sockets.take() {
            Some(sockets) => sockets,
            None => Sockets {
                filter: NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?,
                connections: NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?,
            },
        };
        Ok(self.sockets.insert(sockets))
    }

    fn layout_for(&mut self, services: Vec<AddressRange>) -> Result<Layout, NetlinkError> {
        let table = self.config.identity.services_table();
        let chains = base_chains(&mut self.sockets()?.filter)?;
        let of_nodes = chains
            .iter()
            .filter(|chain| chain.name == LEAVING && NodeIdentity::is_services_table(&chain.table));
        let (own, others): (Vec<_>, Vec<_>) = of_nodes.partition(|chain| chain.table == table);
        // Of several nodes on one machine, the first serves the machine itself; a node that starts again keeps its place.
        let place = own.first().map(|chain| chain.priority);
        let behind = others.iter().map(|chain| chain.priority + 1).max();
        Ok(Layout {
            table,
            families: self.config.pods.iter().map(AddressRange::family).collect(),
            link_prefix: self.config.identity.interface_prefix(),
            link_group: LINK_GROUP,
            services,
            priority: place.or(behind).unwrap_or(FIRST_PRIORITY),
        })
    }

    fn write_all(&mut self) -> Result<(), NetlinkError> {
        let Some(layout) = self.layout.clone() else { return Ok(()) };
        self.written = false;
        let changes = self.routes.all();
        let mut messages = layout.make();
        messages.extend(layout.messages(&changes));
        // Clients with affinity keep their backends.
        for (table, by) in memories(&layout) {
            let memory = by.affinity();
            let remembered = remembered(&mut self.sockets()?.filter, &table, memory).unwrap_or_default();
            let kept: Vec<Element> = remembered
                .into_iter()
                .filter(|element| !leads_elsewhere(element, table.family, &changes.affinity))
                .collect();
            messages.extend(add_elements(&table, memory, &kept));
        }
        commit(&mut self.sockets()?.filter, messages)?;
        self.written = true;
        if self.config.has_links {
            self.clear_no_route();
        }
        self.follow_up(&changes);
        Ok(())
    }

    fn write(&mut self, changes: &Changes) -> Result<(), NetlinkError> {
        if changes.is_empty() {
            return Ok(());
        }
        let Some(layout) = self.layout.clone() else { return Ok(()) };
        let messages = layout.messages(changes);
        if !messages.is_empty() {
            commit(&mut self.sockets()?.filter, messages)?;
        }
        self.follow_up(changes);
        if !changes.affinity.is_empty() {
            self.forget_affinity(&layout, &changes.affinity)?;
        }
        Ok(())
    }

    /// Clients that are noted for a backend which is gone choose anew.
    fn forget_affinity(&mut self, layout: &Layout, changed: &Led) -> Result<(), NetlinkError> {
        for (table, by) in memories(layout) {
            let memory = by.affinity();
            let filter = &mut self.sockets()?.filter;
            let frontends: BTreeSet<Vec<u8>> =
                frontends_of(changed, table.family).map(frontend_key).collect();
            if frontends.is_empty() {
                continue;
            }
            let gone = remembered(filter, &table, memory)?.into_iter().filter(|element| {
                noted_frontend(element, table.family).is_some_and(|frontend| frontends.contains(frontend))
                    && leads_elsewhere(element, table.family, changed)
            });
            for element in gone.collect::<Vec<_>>() {
                match commit(filter, remove_elements(&table, memory, &[element.key])) {
                    // Its time was over.
                    Err(error) if error.is_absent() => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// What is done beside the packet filter once the routes are written.
    fn follow_up(&mut self, changes: &Changes) {
        for pod in &changes.behind_node_ports {
            if let Some(offset) = self.config.pods.iter().find_map(|range| range.offset_of(*pod))
                && self.config.loopback.add(*pod)
            {
                let link = self.config.identity.interface(offset);
                // A pod without a link is not there yet, or not any more.
                let _ = Routing::here()
                    .and_then(|mut routing| routing.reach_from_loopback(&link, Family::of(*pod)));
            }
        }
        if changes.flows.is_empty() {
            return;
        }
        let forgotten =
            self.sockets().and_then(|sockets| forget_stale(&mut sockets.connections, &changes.flows));
        match forgotten {
            Ok(0) => {}
            Ok(flows) => tracing::debug!(flows, "UDP flows to former backends begin anew"),
            Err(error) => tracing::warn!(%error, "UDP flows to former backends go on"),
        }
    }

    fn remove(&mut self) -> Result<(), NetlinkError> {
        self.written = false;
        self.layout = None;
        self.routes = Routes::new(self.config.pods.clone());
        if self.config.has_links {
            self.clear_no_route();
        }
        if !self.config.has_filter {
            return Ok(());
        }
        let table = self.config.identity.services_table();
        remove_tables(&mut self.sockets()?.filter, &table)
    }

    /// Without a packet filter, packets for services would leave the machine.
    fn answer_no_route(&self, ranges: &[AddressRange]) {
        for range in ranges {
            let route = unreachable_range(*range, self.config.identity.route_priority());
            if let Err(error) = Routing::here().and_then(|mut routing| routing.apply(&[route])) {
                tracing::debug!(%range, %error, "the addresses of services could not be closed");
            }
        }
    }

    fn clear_no_route(&self) {
        let cleared =
            Routing::here().and_then(|mut routing| clear_no_route(&mut routing, &self.config.identity));
        if let Err(error) = cleared {
            tracing::debug!(%error, "the addresses of services could not be opened again");
        }
    }
}

/// Every memory of clients: its table, and by what it knows frontends.
fn memories(layout: &Layout) -> impl Iterator<Item = (Table, By)> {
    let tables = layout.families.iter().map(|family| layout.table(*family));
    tables.flat_map(|table| [(table.clone(), By::Address), (table, By::Port)])
}

fn frontends_of(led: &Led, family: Family) -> impl Iterator<Item = &Frontend> {
    led.keys().filter(move |frontend| frontend.family() == family)
}

/// What of a note's key is behind the client's address.
fn noted_frontend(element: &Element, family: Family) -> Option<&[u8]> {
    element.key.get(usize::from(address_registers(family)) * 4..)
}

/// Whether what is noted of a client leads to none of the backends of its frontend. Pure.
fn leads_elsewhere(element: &Element, family: Family, led: &Led) -> bool {
    let Some(noted) = noted_frontend(element, family) else { return true };
    let found = frontends_of(led, family).find(|frontend| frontend_key(frontend) == noted);
    let Some(backends) = found.and_then(|frontend| led.get(frontend)) else {
        return true;
    };
    !backends.iter().any(|backend| element.value == Value::Data(backend_value(backend)))
}

fn clear_no_route(routing: &mut Routing, identity: &NodeIdentity) -> Result<(), NetlinkError> {
    let priority = identity.route_priority();
    let mut routes = routing.routes(Family::V4)?;
    // A kernel without IPv6 has none.
    routes.extend(routing.routes(Family::V6).unwrap_or_default());
    for route in routes.iter().filter(|route| route.is_closed_by(priority)) {
        routing.apply(&[without_range(route.destination, priority)])?;
    }
    Ok(())
}

/// Removes what is left of the services of a node that is gone.
pub(crate) fn remove_services_of(routing: &mut Routing, identity: &NodeIdentity) -> Result<(), NetlinkError> {
    clear_no_route(routing, identity)?;
    let mut socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER)?;
    remove_tables(&mut socket, &identity.services_table())
}
