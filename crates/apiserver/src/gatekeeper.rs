//! What every request passes before it reaches a verb: host, origin, path, identity, rights, and how many at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use http::header::{HOST, ORIGIN};
use http::{Method, Request};
use hyper::body::Incoming;

use crate::audit::Trail;
use crate::authenticate::authenticated;
use crate::authorize::{self, Attributes};
use crate::identity::Identity;
use crate::kinds::Kind;
use crate::media::negotiate;
use crate::metrics::Seen;
use crate::notation::{self, Wish};
use crate::query::Query;
use crate::request::{ResourceTarget, Target, Verb, parse_path, verb_for};
use crate::responses::{Answer, failure};
use crate::server::Server;
use crate::status::ApiError;
use crate::writing::Write;
use crate::{discovery, health, impersonation, openapi, openid, rbac, subresources, verbs, write_options};

/// How a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Network { peer: IpAddr },
    InMemory,
}

/// One request on its way through the server.
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) kind: Arc<Kind>,
    pub(crate) verb: Verb,
    /// Empty for objects of the whole cluster, and for lists over all namespaces.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    pub(crate) query: Query,
    pub(crate) request: Request<Incoming>,
    /// Held as long as the request counts as in flight.
    pub(crate) place: Place,
}

impl Call {
    pub(crate) fn key(&self) -> store::Key {
        store::Key::new(self.kind.collection(), &self.namespace, &self.name)
    }

    /// A write that this request asks for, in the name of the field manager `manager`.
    pub(crate) fn write<'w>(&'w self, manager: &'w str, dry_run: bool) -> Write<'w> {
        Write {
            server: &self.server,
            kind: &self.kind,
            namespace: &self.namespace,
            identity: &self.identity,
            manager,
            dry_run,
            order: None,
        }
    }

    /// Refuses who may update an object but not create it, where an update would.
    pub(crate) fn demand_create(&self) -> Result<(), ApiError> {
        let asked = Attributes::resource(Verb::Create.as_str(), self.kind.group(), self.kind.plural())
            .within(&self.namespace)
            .named(&self.name);
        authorize::demand(&self.server, &self.identity, &asked)
    }

    pub(crate) fn dry_run(&self) -> Result<bool, ApiError> {
        write_options::dry_run(self.verb, &self.query)
    }
}

/// Answers a request; a panic becomes an answer too and ends nothing else.
pub(crate) async fn answer_request(
    server: Arc<Server>,
    identity: Arc<Identity>,
    door: Door,
    request: Request<Incoming>,
) -> Answer {
    let wish = Wish::of(request.method(), request.uri(), request.headers());
    let mut seen = Seen::new(request.method(), request.headers());
    let source = match door {
        Door::Network { peer } => Some(peer),
        Door::InMemory => None,
    };
    let mut trail = Trail::new(server.config.audit.as_ref(), source, &request);
    let admitted = admit(server.clone(), identity, door, request, &mut seen, &mut trail);
    let action = async {
        let answer = admitted.await.unwrap_or_else(|error| failure(&error));
        notation::write(&server.writing_room, wish, answer).await
    };
    let (answer, panicked) = match AssertUnwindSafe(action).catch_unwind().await {
        Ok(answer) => (answer, false),
        Err(_) => (failure(&ApiError::Internal { message: "the request handler panicked".to_owned() }), true),
    };
    trail.answered(answer.status(), panicked);
    server.metrics.answered(&seen, answer.status());
    answer
}

async fn admit(
    server: Arc<Server>,
    identity: Arc<Identity>,
    door: Door,
    request: Request<Incoming>,
    seen: &mut Seen,
    trail: &mut Trail,
) -> Result<Answer, ApiError> {
    if door != Door::InMemory {
        let host = check_host(&server, &request)?;
        check_origin(&server, &request, host.as_deref())?;
    }
    let target = parse_path(request.uri().path()).map_err(|_| ApiError::NoSuchPath)?;
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let identity = authenticated(&server, identity, request.headers())?;
    trail.user(&identity, None);
    let identity = match impersonation::impersonated(&server, &identity, request.headers())? {
        Some(other) => {
            trail.user(&identity, Some(&other));
            Arc::new(other)
        }
        None => identity,
    };
    match target {
        Target::Path(path) => {
            let verb = request.method().as_str().to_ascii_lowercase();
            demand(&server, &identity, &Attributes::path(&verb, &path), trail)?;
            if !matches!(*request.method(), Method::GET | Method::HEAD) {
                return Err(ApiError::MethodNotAllowed);
            }
            match openapi::answer(&server, &path, &query, request.headers()).await {
                Some(answer) => Ok(answer),
                None => answer_path(&server, &path, &query, &request),
            }
        }
        Target::Resource(target) => {
            admit_resource(server, identity, target, query, request, seen, trail).await
        }
    }
}

fn answer_path(
    server: &Server,
    path: &str,
    query: &Query,
    request: &Request<Incoming>,
) -> Result<Answer, ApiError> {
    if path == "/metrics" {
        return Ok(server.metrics.render(server));
    }
    health::answer(server, path, query)
        .or_else(|| discovery::answer(server, path, request.headers()))
        .or_else(|| openid::answer(server, path))
        .ok_or(ApiError::NoSuchPath)
}

async fn admit_resource(
    server: Arc<Server>,
    identity: Arc<Identity>,
    target: ResourceTarget,
    query: Query,
    request: Request<Incoming>,
    seen: &mut Seen,
    trail: &mut Trail,
) -> Result<Answer, ApiError> {
    let verb = verb_for(request.method(), &target, &query).ok_or(ApiError::MethodNotAllowed)?;
    trail.object(verb, &target);
    let selected = selected_name(verb, &query);
    let asked = Attributes::of(verb, &target, selected.as_deref());
    demand(&server, &identity, &asked, trail)?;
    // What a WebSocket asks for with a GET changes as much as what is posted.
    let opens = matches!(target.subresource.as_deref(), Some("exec" | "attach" | "portforward"));
    if opens && verb == Verb::Get {
        demand(&server, &identity, &Attributes { verb: Verb::Create.as_str(), ..asked }, trail)?;
    }
    let kind = server
        .kinds
        .find(&target.group, &target.version, &target.resource)
        .cloned()
        .ok_or(ApiError::NoSuchPath)?;
    seen.resource(&kind, verb, &target, &query);
    let namespace = target.namespace.unwrap_or_default();
    let name = target.name.unwrap_or_default();
    // A namespaced object is only found inside a namespace, a cluster object only outside.
    let fits = match (kind.namespaced(), namespace.is_empty()) {
        (true, true) => name.is_empty() && matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection),
        (true, false) | (false, true) => true,
        (false, false) => false,
    };
    if !fits {
        return Err(if kind.namespaced() { ApiError::MethodNotAllowed } else { ApiError::NoSuchPath });
    }
    if target.subresource.is_none() && !kind.travels() {
        // Before anything is done: afterwards there would be no way to answer.
        negotiate(request.headers(), false)?;
    }
    let long = verb == Verb::Watch
        || target.subresource.as_deref().is_some_and(|name| subresources::is_long(name, &query));
    let weight = match verb {
        _ if long => Weight::Long,
        Verb::Get | Verb::List | Verb::Watch => Weight::Reading,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => Weight::Writing,
    };
    if long {
        seen.lasts();
        trail.lasts();
    }
    let place = server.in_flight.enter(&server, &identity, weight)?;
    let call = Call { server, identity, kind, verb, namespace, name, query, request, place };
    let subresource = target.subresource;
    let action = async move {
        let gathered = call.kind.group() == rbac::GROUP && call.kind.plural() == "clusterroles";
        let server = call.server.clone();
        let answer = match subresource {
            Some(subresource) => subresources::dispatch(call, &subresource, &target.rest).await,
            None => verbs::dispatch(call).await,
        };
        // Roles that gather rules have them before the change of one of those is answered.
        if gathered && verb.is_write() && answer.is_ok() {
            rbac::refresh_aggregated(&server).await?;
        }
        answer
    };
    match verb {
        Verb::Get | Verb::List | Verb::Watch => action.await,
        // What is begun is brought to its end, also when the client leaves: a write has effects beyond its object.
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            tokio::spawn(action).await.unwrap_or_else(|_| {
                Err(ApiError::Internal { message: "the request handler panicked".to_owned() })
            })
        }
    }
}

/// Refuses what `identity` may not do, and notes the decision.
fn demand(
    server: &Server,
    identity: &Identity,
    asked: &Attributes<'_>,
    trail: &mut Trail,
) -> Result<(), ApiError> {
    if trail.is_on() {
        trail.decision(authorize::decide(server, identity, asked));
    }
    authorize::demand(server, identity, asked)
}

/// The one name that a field selector leaves.
fn selected_name(verb: Verb, query: &Query) -> Option<String> {
    if !matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
        return None;
    }
    let demands = query.get("fieldSelector")?.split(',');
    let name = |demand: &str| {
        let value = demand.trim().strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value).to_owned())
    };
    demands.filter_map(name).next().filter(|name| !name.is_empty())
}

/// The names of the service `default/kubernetes`.
pub const SERVICE_NAMES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster",
    "kubernetes.default.svc.cluster.local",
];

/// The host and port that the client calls this server; one of its own names.
fn check_host(server: &Server, request: &Request<Incoming>) -> Result<Option<String>, ApiError> {
    let authority = match request.uri().authority() {
        Some(authority) => authority.as_str().to_owned(),
        None => match request.headers().get(HOST) {
            Some(host) => host.to_str().unwrap_or("?").to_owned(),
            // HTTP/1.0 without a host: nothing that a browser can be made to send.
            None => return Ok(None),
        },
    };
    if host_is_own(server, host_of(&authority)) {
        return Ok(Some(authority));
    }
    Err(ApiError::Misdirected { host: authority })
}

/// `HOST` of `HOST:PORT`, `[V6]:PORT` without the brackets.
fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn host_is_own(server: &Server, host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    let is_loopback = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    is_loopback
        || SERVICE_NAMES.contains(&host.as_str())
        || address == Some(server.addresses.ranges().kubernetes())
        || address.is_some_and(|address| server.config.advertise.is_some_and(|own| own.ip() == address))
        || server.config.hosts.iter().any(|own| own.eq_ignore_ascii_case(&host))
}

/// Pages of other origins are refused. A client that names this very server (as WebSocket libraries do) is no page of
/// another origin: its host has been checked.
fn check_origin(server: &Server, request: &Request<Incoming>, host: Option<&str>) -> Result<(), ApiError> {
    for origin in request.headers().get_all(ORIGIN) {
        let origin = origin.to_str().unwrap_or("?");
        // Some libraries say `http`; with a port of its own that can be nobody but this server.
        let plain = origin.strip_prefix("http://").filter(|authority| host_of(authority) != *authority);
        let authority = origin.strip_prefix("https://").or(plain);
        let is_own = host.is_some() && authority == host;
        if !is_own && !server.config.origins.iter().any(|allowed| allowed == origin) {
            return Err(ApiError::OriginRefused { origin: origin.to_owned() });
        }
    }
    Ok(())
}

/// How many requests each identity has running.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<BTreeMap<String, Count>>>);

/// How many requests run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) reading: usize,
    pub(crate) writing: usize,
    /// Those that stream.
    pub(crate) long: usize,
}

/// As what a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    Reading,
    Writing,
    Long,
}

impl Count {
    fn of(&mut self, weight: Weight) -> &mut usize {
        match weight {
            Weight::Reading => &mut self.reading,
            Weight::Writing => &mut self.writing,
            Weight::Long => &mut self.long,
        }
    }

    fn short(&self) -> usize {
        self.reading + self.writing
    }
}

/// One running request; gives its place back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    counts: InFlight,
    user: String,
    weight: Weight,
}

impl InFlight {
    /// Those of all users together.
    pub(crate) fn running(&self) -> Count {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().fold(Count::default(), |sum, count| Count {
            reading: sum.reading + count.reading,
            writing: sum.writing + count.writing,
            long: sum.long + count.long,
        })
    }

    fn enter(&self, server: &Server, identity: &Identity, weight: Weight) -> Result<Place, ApiError> {
        let limits = server.limits();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(identity.name().to_owned()).or_default();
        let (running, limit) = match weight {
            Weight::Long => (count.long, limits.long_requests),
            Weight::Reading | Weight::Writing => (count.short(), limits.requests_in_flight),
        };
        if running >= limit {
            return Err(ApiError::TooManyRequests { user: identity.name().to_owned() });
        }
        *count.of(weight) += 1;
        Ok(Place { counts: self.clone(), user: identity.name().to_owned(), weight })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.user) {
            let running = count.of(self.weight);
            *running = running.saturating_sub(1);
            if count.short() == 0 && count.long == 0 {
                counts.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn the_host_is_what_stands_before_the_port() {
        for (authority, host) in [
            ("localhost:6443", "localhost"),
            ("localhost", "localhost"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("[::1]:6443", "::1"),
            ("evil.example:80", "evil.example"),
        ] {
            assert_eq!(host_of(authority), host);
        }
    }
}
