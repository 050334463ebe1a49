//! Measures services and names: connections through a service beside those to the pod itself, what it takes to load services and
//! to change one, answers of the DNS beside an echo server in its place, and the way of a pod from Ready to its first connection.
//!
//! `cargo run --release -p bench --bin services -- target/release/coracle 20` (as root): the number is that of rounds; a word behind
//! it (`connections`, `loading`, `names`, `routed`) measures that alone. All but the last happen in namespaces of the run's own.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bench::figures::{median, micros, print_times, ratio};
use bench::names::{Askers, Expected, Server, question};
use bench::namespaces::{Machine, enter, inside};
use bench::node::Node;
use bench::{Outcome, machine};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use network::{Family, Protocol, ServicePort, ServiceTable, ServiceUpdate, TrafficPolicy};
use serde_json::{Value, json};

/// Services beside which a connection is made.
const CROWD: u32 = 5000;
/// Connections of each kind, at least.
const CONNECTIONS: usize = 300;
/// Connections of which one ratio is made.
const BLOCK: usize = 100;
/// Services that are loaded at once, and the endpoints of each.
const LOADED: u32 = 1000;
const ENDPOINTS: u32 = 3;
/// Names that the DNS knows.
const NAMES: u32 = 1000;
/// Pods that ask it: more than one may ask of it by himself.
const ASKERS: usize = 64;
const PORT: u16 = 8080;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().map_or_else(|| PathBuf::from("target/release/coracle"), PathBuf::from);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20).max(1);
    let word = arguments.next().unwrap_or_default();
    bench::run(measure(&binary, rounds, &word))
}

async fn measure(binary: &Path, rounds: usize, word: &str) -> Outcome<()> {
    let is_wanted = |part: &str| part.contains(word);
    if is_wanted("connections") {
        connections(rounds).await?;
    }
    if is_wanted("loading") {
        loading(rounds).await?;
    }
    if is_wanted("names") {
        names(rounds).await?;
    }
    if is_wanted("routed") {
        routed(binary, rounds).await?;
    }
    Ok(())
}

fn service_address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 43, 16, 0)) + number)
}

/// One of many services, with a port and these backends.
fn service(number: u32, backends: Vec<SocketAddrV4>) -> (String, Vec<ServicePort>) {
    let port = ServicePort {
        name: format!("bench/web-{number}:http"),
        family: Family::V4,
        protocol: Protocol::Tcp,
        port: 80,
        cluster_addresses: vec![service_address(number).into()],
        external_addresses: Vec::new(),
        node_port: None,
        affinity_seconds: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        backends: backends.into_iter().map(SocketAddr::V4).collect(),
        local_backends: Vec::new(),
    };
    (format!("bench/web-{number}"), vec![port])
}

/// Endpoints that no other service has; `version` makes them others.
fn endpoints(number: u32, version: u32) -> Vec<SocketAddrV4> {
    let first = u32::from(Ipv4Addr::new(10, 200, 0, 0)) + number * ENDPOINTS;
    (0..ENDPOINTS)
        .map(|place| {
            let port = PORT + if place == 0 { version as u16 } else { 0 };
            SocketAddrV4::new(Ipv4Addr::from(first + place), port)
        })
        .collect()
}

fn all(services: ServiceTable) -> Outcome<ServiceUpdate> {
    Ok(ServiceUpdate::All { services, ranges: vec!["10.43.0.0/16".parse()?] })
}

/// From a pod to another, directly and through a service, in turn.
async fn connections(rounds: usize) -> Outcome<()> {
    let machine = Machine::new()?;
    let (server, client) = (machine.pod("server").await?, machine.pod("client").await?);
    let listener = inside(&server.namespace, || Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?))?;
    let to_pod = SocketAddrV4::new(server.address, PORT);
    let to_service = SocketAddrV4::new(service_address(0), 80);
    let others = |count| (1..count).map(|number| service(number, endpoints(number, 0)));
    for count in [1, CROWD] {
        let services = others(count).chain([service(0, vec![to_pod])]).collect();
        machine.network.route_services(all(services)?).await?;
        let [mut direct, mut through] = inside(&client.namespace, || {
            machine::stay_on_processor(0)?;
            let mut times = [Vec::new(), Vec::new()];
            for number in 0..(rounds * 100).max(CONNECTIONS) + 20 {
                // Neither of them is always the first.
                let pair = [(0, to_pod), (1, to_service)];
                for (place, target) in if number % 2 == 0 { pair } else { [pair[1], pair[0]] } {
                    let took = connect(target, &listener)?;
                    // The first ones pay for what is made once.
                    if number >= 20 {
                        times[place].push(took);
                    }
                }
            }
            Ok(times)
        })?;
        // By blocks, so that a machine that becomes slower on the way does not decide.
        let blocks = through.chunks(BLOCK).zip(direct.chunks(BLOCK));
        let mut ratios: Vec<f64> = blocks.map(|(through, direct)| ratio(through, direct)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        println!(
            "connection, services loaded {count}, ratio {:.3} ({:.2} to {:.2}; goal 1.05): through the service {}, to the pod {} (n={})",
            median(ratios.clone()),
            ratios.first().ok_or("no ratio")?,
            ratios.last().ok_or("no ratio")?,
            micros(&mut through),
            micros(&mut direct),
            direct.len()
        );
    }
    Ok(())
}

/// How long a connection takes. The same thread accepts it, so that nobody else has to be woken.
fn connect(target: SocketAddrV4, listener: &TcpListener) -> Outcome<Duration> {
    let began = Instant::now();
    let stream = TcpStream::connect(target)?;
    let took = began.elapsed();
    listener.accept()?;
    // It ends with a reset, so that no port stays taken for a minute.
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(took)
}

/// What it takes until the kernel has services.
async fn loading(rounds: usize) -> Outcome<()> {
    let machine = Machine::new()?;
    let timed = async |update: ServiceUpdate| -> Outcome<Duration> {
        let began = Instant::now();
        machine.network.route_services(update).await?;
        Ok(began.elapsed())
    };
    let some = |one| ServiceUpdate::Some(ServiceTable::from([one]));
    let table = |count| (0..count).map(|number| service(number, endpoints(number, 0))).collect();
    let mut loads = Vec::new();
    for _ in 0..rounds {
        timed(all(ServiceTable::new())?).await?;
        loads.push(timed(all(table(LOADED))?).await?);
    }
    print_times(&format!("load {LOADED} services with {ENDPOINTS} endpoints each (goal 50 ms)"), loads);
    for count in [LOADED, CROWD] {
        timed(all(table(count))?).await?;
        let (mut more, mut same, mut changed, mut fewer) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for version in 0..rounds as u32 * 5 {
            let new = count;
            more.push(timed(some(service(new, endpoints(new, 0)))).await?);
            same.push(timed(some(service(new, endpoints(new, 0)))).await?);
            changed.push(timed(some(service(new / 2, endpoints(new / 2, 1 + version % 1000)))).await?);
            fewer.push(timed(some((format!("bench/web-{new}"), Vec::new()))).await?);
        }
        println!(
            "beside {count} services: one more {} (goal 1 ms), one endpoint changes {}, one goes {}, nothing to do {} (n={})",
            micros(&mut more),
            micros(&mut changed),
            micros(&mut fewer),
            micros(&mut same),
            more.len()
        );
    }
    Ok(())
}

/// Answers a second on one processor, and one question at a time, from pods, at the address of the service.
async fn names(rounds: usize) -> Outcome<()> {
    let machine = Machine::new()?;
    let mut pods = Vec::new();
    for number in 0..ASKERS {
        pods.push(machine.pod(&format!("asker-{number}")).await?);
    }
    let services: Vec<Value> = (0..NAMES)
        .map(|number| {
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": format!("web-{number}"), "namespace": "default", "uid": format!("uid-{number}"), "resourceVersion": "1"},
                "spec": {"clusterIP": service_address(number), "ports": [{"port": 80}]},
            })
        })
        .collect();
    let (dns, echo) = (Server::dns(&machine, &services)?, Server::echo(&machine)?);
    let to_dns = Askers::led_to(&dns, &machine, &pods, false).await?;
    let to_echo = Askers::led_to(&echo, &machine, &pods, true).await?;
    let of = |suffix: &str| -> Vec<Vec<u8>> {
        (0..NAMES)
            .map(|number| question(&format!("web-{number}.default.svc.cluster.local{suffix}")))
            .collect()
    };
    // What pods ask most: a name of the world is searched for in the cluster first.
    let kinds = [
        ("of a service", of(""), Expected::Records(1)),
        ("that is not there", of(".default.svc.cluster.local"), Expected::Absent),
    ];
    let time = Duration::from_millis(500);
    for (what, questions, expected) in kinds {
        let (mut own, mut least) = (Rates::default(), Rates::default());
        for _ in 0..rounds.div_ceil(4) {
            least.take(&to_echo, &echo, time, &questions, expected)?;
            own.take(&to_dns, &dns, time, &questions, expected)?;
        }
        let ((own, own_time), (least, least_time)) = (own.medians(), least.medians());
        println!(
            "name {what}, ratio {:.2}: {own:.0}/s (goal 20000), echo server {least:.0}/s; of one second of the server's processor time \
             {own_time:.0}, echo server {least_time:.0}",
            own / least,
        );
        let [mut own, mut least] = to_dns.latencies(&to_echo, rounds * 100, &questions, expected)?;
        println!(
            "name {what}, one question at a time, ratio {:.2}: {} (goal 1000), echo server {} (n={})",
            ratio(&own, &least),
            micros(&mut own),
            micros(&mut least),
            own.len()
        );
    }
    Ok(())
}

/// Answers a second of some rounds, and those of a second of processor time: another program's share of the processor is not in
/// these.
#[derive(Default)]
struct Rates {
    whole: Vec<f64>,
    of_processor: Vec<f64>,
}

impl Rates {
    fn take(
        &mut self,
        askers: &Askers,
        server: &Server,
        time: Duration,
        questions: &[Vec<u8>],
        expected: Expected,
    ) -> Outcome<()> {
        let (before, began) = (server.time(), Instant::now());
        let rate = askers.rate(time, questions, expected)?;
        self.whole.push(rate);
        if let (Some(before), Some(after)) = (before, server.time()) {
            let share = after.saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64();
            self.of_processor.push(rate / share);
        }
        Ok(())
    }

    fn medians(self) -> (f64, f64) {
        (median(self.whole), median(self.of_processor))
    }
}

/// From the moment at which a watch shows a pod as ready to the first connection through its service that succeeds.
async fn routed(binary: &Path, rounds: usize) -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let node = Node::up(binary, &place.path().join("node"))?;
    let client = node.client().await?;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let services = Api::<Service>::default_namespaced(client);
    let mut changes = pin!(watcher(pods.clone(), watcher::Config::default()).default_backoff());
    // Connections are made from a pod: on a machine with several nodes its own processes may be another's business.
    let mark = format!("services-of-{}", std::process::id());
    let create = async |name: &str, command: &str, probe: Value| -> Outcome<()> {
        let mut container =
            json!({"name": "c", "image": "coracle.dev/host", "command": ["/bin/sh", "-c", command]});
        if !probe.is_null() {
            container["readinessProbe"] = probe;
        }
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    };
    create("client", &format!("trap 'exit 0' TERM; : {mark}; sleep 100000 & wait"), Value::Null).await?;
    until(&mut changes, |event| is_ready(event, "client")).await?;
    let connecting = Connecting::inside(namespace_of(&mark)?);
    let (mut times, mut direct, mut at_once) = (Vec::new(), Vec::new(), 0);
    for number in 0..rounds {
        let name = format!("web-{number}");
        let service = json!({
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": PORT}]},
        });
        let made = services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        let address = made.spec.and_then(|spec| spec.cluster_ip).ok_or("the service has no address")?;
        let probe = json!({"tcpSocket": {"port": PORT}, "periodSeconds": 1});
        create(&name, &format!("exec busybox httpd -f -p {PORT}"), probe).await?;
        let ready = until(&mut changes, |event| is_ready(event, &name)).await?;
        let (took, tries) = connecting.to(SocketAddrV4::new(address.parse()?, 80))?;
        times.push(took);
        at_once += usize::from(tries == 1);
        let address = ready.status.and_then(|status| status.pod_ip).ok_or("the pod has no address")?;
        direct.push(connecting.to(SocketAddrV4::new(address.parse()?, PORT))?.0);
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        services.delete(&name, &DeleteParams::default()).await?;
    }
    print_times("pod ready to first connection through its service (goal 10 ms)", times);
    print_times("the same to the pod itself", direct);
    println!("the first attempt came through in {at_once} of {rounds}");
    pods.delete("client", &DeleteParams::default().grace_period(0)).await?;
    until(&mut changes, |event| matches!(event, watcher::Event::Delete(pod) if is_called(pod, "client")))
        .await?;
    Ok(())
}

fn is_called(pod: &Pod, name: &str) -> bool {
    pod.metadata.name.as_deref() == Some(name)
}

fn is_ready(event: &watcher::Event<Pod>, name: &str) -> bool {
    let (watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else { return false };
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    is_called(pod, name)
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Waits for a change; answers the pod that it is of.
async fn until(
    changes: &mut std::pin::Pin<
        &mut impl futures::Stream<Item = Result<watcher::Event<Pod>, watcher::Error>>,
    >,
    is_it: impl Fn(&watcher::Event<Pod>) -> bool,
) -> Outcome<Pod> {
    let seen = async {
        while let Some(event) = changes.try_next().await? {
            let (
                true,
                watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) | watcher::Event::Delete(pod),
            ) = (is_it(&event), event)
            else {
                continue;
            };
            return Ok(pod);
        }
        Err("the watch ended".into())
    };
    tokio::time::timeout(PATIENCE, seen).await?
}

/// The network of the pod with this mark in the command line of its process.
fn namespace_of(mark: &str) -> Outcome<OwnedFd> {
    let own = std::fs::read_link("/proc/self/ns/net")?;
    let paths = machine::processes(&[mark])
        .map(|pid| PathBuf::from(format!("/proc/{pid}/ns/net")))
        .collect::<Vec<_>>();
    let other = paths.iter().find(|path| std::fs::read_link(path).is_ok_and(|namespace| namespace != own));
    Ok(std::fs::File::open(other.ok_or("the pod has no process")?)?.into())
}

/// A thread in the network of a pod that waits for where to connect to, so that nothing else has to be begun then.
struct Connecting {
    targets: mpsc::Sender<SocketAddrV4>,
    made: mpsc::Receiver<Outcome<(Duration, usize)>>,
}

impl Connecting {
    fn inside(namespace: OwnedFd) -> Self {
        let (targets, wanted) = mpsc::channel();
        let (tell, made) = mpsc::channel();
        std::thread::spawn(move || {
            if let Err(error) = enter(&namespace) {
                let _ = tell.send(Err(error));
                return;
            }
            while let Ok(target) = wanted.recv() {
                if tell.send(reach(target)).is_err() {
                    return;
                }
            }
        });
        Self { targets, made }
    }

    /// Connects again and again; answers how long it took until one came through, and how many attempts.
    fn to(&self, target: SocketAddrV4) -> Outcome<(Duration, usize)> {
        self.targets.send(target)?;
        self.made.recv()?
    }
}

fn reach(target: SocketAddrV4) -> Outcome<(Duration, usize)> {
    let began = Instant::now();
    for tries in 1.. {
        match TcpStream::connect_timeout(&target.into(), Duration::from_millis(50)) {
            Ok(_) => return Ok((began.elapsed(), tries)),
            Err(error) if began.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => {}
        }
    }
    Err("never".into())
}
