//! `/metrics` in Prometheus' text form, with the names that Kubernetes' own servers use.
//!
//! Each server counts for itself: there is no registry of the whole process. Labels come from closed sets (methods, kinds that
//! are served, known subresources), so that no client can make the counters grow.

use std::time::Instant;

use api::{FEATURES, FeatureGates};
use http::{HeaderMap, Method, StatusCode};
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    CounterVec, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::health;
use crate::kinds::Kind;
use crate::media::content_type;
use crate::query::Query;
use crate::request::{ResourceTarget, Verb};
use crate::responses::{Answer, answer, whole};
use crate::server::Server;

/// Upper bounds of the durations, in seconds; kube-apiserver's.
const SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// The content type of the text form.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a request turned out to be about, as far as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    begun: Instant,
    method: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    scope: &'static str,
    dry_run: &'static str,
    is_long: bool,
}

impl Seen {
    /// A request of which only its head is known.
    pub(crate) fn new(method: &Method, headers: &HeaderMap) -> Seen {
        let is_apply = *method == Method::PATCH
            && content_type(headers).is_some_and(|name| name == "application/apply-patch+yaml");
        let method = match *method {
            Method::GET | Method::HEAD => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH if is_apply => "APPLY",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "OTHER",
        };
        Seen {
            begun: Instant::now(),
            method,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            scope: "",
            dry_run: "",
            is_long: false,
        }
    }

    /// The resource that it names, which is one that is served.
    pub(crate) fn resource(&mut self, kind: &Kind, verb: Verb, target: &ResourceTarget, query: &Query) {
        self.group = kind.group();
        self.version = kind.resource().version;
        self.resource = kind.plural();
        let asked = target.subresource.as_deref();
        let known = kind.strategy().subresources().iter().find(|known| asked == Some(**known));
        self.subresource = known.copied().unwrap_or_default();
        self.method = match (verb, self.subresource) {
            (_, "exec" | "attach" | "portforward" | "proxy") => "CONNECT",
            (Verb::List, _) => "LIST",
            (Verb::Watch, _) => "WATCH",
            (Verb::DeleteCollection, _) => "DELETECOLLECTION",
            (Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete, _) => self.method,
        };
        self.scope = match (target.name.is_some() || verb == Verb::Create, target.namespace.is_some()) {
            (true, _) => "resource",
            (false, true) => "namespace",
            (false, false) => "cluster",
        };
        if query.text("dryRun") == Some("All") {
            self.dry_run = "All";
        }
    }

    /// It streams: how long it takes says nothing about the server.
    pub(crate) fn lasts(&mut self) {
        self.is_long = true;
    }

    fn labels(&self) -> [&'static str; 8] {
        [
            self.method,
            self.dry_run,
            self.group,
            self.version,
            self.resource,
            self.subresource,
            self.scope,
            "apiserver",
        ]
    }
}

const LABELS: [&str; 8] =
    ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];

/// What one server counts.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    in_flight: IntGaugeVec,
    long: IntGauge,
    objects: IntGaugeVec,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Counters at zero.
    ///
    /// # Errors
    /// A name or label that is none, or that is there twice: a mistake in this file.
    pub(crate) fn new(gates: &FeatureGates) -> Result<Metrics, prometheus::Error> {
        let registry = Registry::new();
        let counted = [&LABELS[..], &["code"]].concat();
        let requests = IntCounterVec::new(
            Opts::new(
                "apiserver_request_total",
                "Requests that were answered, by what they asked and the answer's code.",
            ),
            &counted,
        )?;
        let durations = HistogramVec::new(
            HistogramOpts::new(
                "apiserver_request_duration_seconds",
                "Time until the answer, in seconds; without what streams (watch, logs, exec).",
            )
            .buckets(SECONDS.to_vec()),
            &LABELS,
        )?;
        let in_flight = IntGaugeVec::new(
            Opts::new(
                "apiserver_current_inflight_requests",
                "Requests that run now, without those that stream.",
            ),
            &["request_kind"],
        )?;
        let long =
            IntGauge::new("apiserver_longrunning_requests", "Requests that stream: watch, logs, exec.")?;
        let objects = IntGaugeVec::new(
            Opts::new("apiserver_resource_objects", "Objects in the store, by kind."),
            &["group", "resource"],
        )?;
        let features = GaugeVec::new(
            Opts::new("kubernetes_feature_enabled", "Feature gates: 1 is on."),
            &["name", "stage"],
        )?;
        for feature in FEATURES {
            let value = if feature.is_on(gates) { 1.0 } else { 0.0 };
            features.with_label_values(&[feature.name, feature.stage.metric_label()]).set(value);
        }
        let build = CounterVec::new(
            Opts::new("kubernetes_build_info", "The version, as labels."),
            &["major", "minor", "git_version", "platform"],
        )?;
        let (minor, version, platform) = health::build();
        build.with_label_values(&["1", &minor, &version, &platform]).inc();
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(long.clone()))?;
        registry.register(Box::new(objects.clone()))?;
        registry.register(Box::new(features))?;
        registry.register(Box::new(build))?;
        registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(Metrics { registry, requests, durations, in_flight, long, objects })
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, seen: &Seen, code: StatusCode) {
        let labels = seen.labels();
        let [verb, dry_run, group, version, resource, subresource, scope, component] = labels;
        let code = code.as_str();
        self.requests
            .with_label_values(&[
                verb,
                dry_run,
                group,
                version,
                resource,
                subresource,
                scope,
                component,
                code,
            ])
            .inc();
        if !seen.is_long {
            self.durations.with_label_values(&labels).observe(seen.begun.elapsed().as_secs_f64());
        }
    }

    /// Everything as text, read now.
    pub(crate) fn render(&self, server: &Server) -> Answer {
        for kind in server.kinds.iter().filter(|kind| kind.strategy().is_stored()) {
            let count = server.store.count(kind.collection());
            self.objects.with_label_values(&[kind.group(), kind.plural()]).set(gauge(count));
        }
        let running = server.in_flight.running();
        self.in_flight.with_label_values(&["readOnly"]).set(gauge(running.reading));
        self.in_flight.with_label_values(&["mutating"]).set(gauge(running.writing));
        self.long.set(gauge(running.long));
        let mut text = String::new();
        match TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text) {
            Ok(()) => answer(StatusCode::OK, TEXT, whole(text)),
            Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", whole(error.to_string())),
        }
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
