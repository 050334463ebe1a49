//! The DNS over real sockets: names that follow the API, names of others through servers that behave well and badly, floods,
//! loops, and whoever may not ask. Everything is on loopback addresses of its own.

mod resolvers;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes};
use dns::{DnsConfig, Sockets, Sources};
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use hyper_util::rt::TokioExecutor;
use informer::Informer;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use network::ResolverFiles;
use resolvers::{Behaviour, FakeResolver, RESOLVER_PORT};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;

const PATIENCE: Duration = Duration::from_secs(60);
/// Networks of loopback addresses, one a test.
static NEXT_NETWORK: AtomicU8 = AtomicU8::new(1);

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

fn question(text: &str, kind: RecordType) -> Message {
    let mut message = Message::new(99, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.queries.push(Query::query(name(text), kind));
    message
}

/// What an answer says: its code, and the data of its records.
fn shown(answer: &Message) -> String {
    let data: Vec<String> = answer.answers.iter().map(|record| record.data.to_string()).collect();
    format!("{:?} {}", answer.metadata.response_code, data.join(" ")).trim_end().to_owned()
}

/// A DNS with an API behind it.
struct Served {
    client: Client,
    /// `127.66.NETWORK.0`: addresses of this test.
    network: [u8; 3],
    pods: SocketAddr,
    directory: tempfile::TempDir,
    end: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Served {
    /// Whose machine names these resolvers, by the last number of their addresses.
    async fn start(resolvers: &[u8]) -> Served {
        let store = store::Store::in_memory().expect("a store");
        let server =
            ApiServer::new(ApiServerConfig::default(), store, Arc::new(NoNodes)).await.expect("a server");
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .build::<_, kube::client::Body>(server.in_memory(Identity::admin()));
        let base = http::Uri::from_static("http://localhost");
        let service =
            ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
        let client = Client::new(service, "default");

        let network = [127, 66, NEXT_NETWORK.fetch_add(1, Ordering::Relaxed)];
        let end = CancellationToken::new();
        let sources =
            Sources { services: Informer::idle(), endpoint_slices: Informer::idle(), pods: Informer::idle() };
        tokio::spawn(sources.services.clone().follow(Api::all(client.clone()), "", end.clone()));
        tokio::spawn(sources.endpoint_slices.clone().follow(Api::all(client.clone()), "", end.clone()));
        tokio::spawn(sources.pods.clone().follow(Api::all(client.clone()), "", end.clone()));
        let directory = tempfile::tempdir().expect("a directory");
        let range = |text: String| text.parse().expect("a range");
        let [a, b, c] = network;
        let config = DnsConfig {
            resolvers: ResolverFiles {
                machine: directory.path().join("resolv.conf"),
                behind_stub: directory.path().join("none"),
            },
            resolver_port: RESOLVER_PORT,
            ..DnsConfig::new(
                "cluster.local".to_owned(),
                Ipv4Addr::new(10, 43, 0, 10),
                vec![range("10.43.0.0/16".to_owned())],
                vec![range(format!("{a}.{b}.{c}.0/24"))],
            )
        };
        let sockets = Sockets::bind(Ipv4Addr::new(a, b, c, 1)).expect("bound");
        let pods = sockets.for_pods().into();
        let served = Served { client, network, pods, directory, end: end.clone() };
        served.name_resolvers(resolvers);
        tokio::spawn(async move { dns::serve(config, sources, sockets, end).await.expect("a domain") });
        served
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, last)
    }

    fn name_resolvers(&self, resolvers: &[u8]) {
        let lines: String =
            resolvers.iter().map(|last| format!("nameserver {}\n", self.address(*last))).collect();
        // As programs do it that keep the file: another file takes its place.
        let new = self.directory.path().join("new");
        std::fs::write(&new, lines).expect("written");
        std::fs::rename(new, self.directory.path().join("resolv.conf")).expect("moved");
    }

    async fn resolver(&self, last: u8, behaviour: Behaviour) -> FakeResolver {
        FakeResolver::start(self.address(last), behaviour).await
    }

    /// A socket of a pod with that address.
    async fn pod(&self, last: u8) -> UdpSocket {
        let socket = UdpSocket::bind((self.address(last), 0)).await.expect("bound");
        socket.connect(self.pods).await.expect("connected");
        socket
    }

    async fn ask(&self, text: &str, kind: RecordType) -> String {
        shown(&ask_from(&self.pod(200).await, text, kind).await.expect("an answer"))
    }

    async fn wait_for(&self, text: &str, expected: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(text, RecordType::A).await;
            if answer == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{text}: {answer} instead of {expected}");
            tokio::task::yield_now().await;
        }
    }

    async fn create_service(&self, text: &str, spec: Value) {
        let object = json!({"metadata": {"name": text}, "spec": spec});
        let service: Service = serde_json::from_value(object).expect("a service");
        let api: Api<Service> = Api::namespaced(self.client.clone(), "default");
        api.create(&PostParams::default(), &service).await.expect("created");
    }

    /// A connection of a pod with that address.
    async fn connect(&self, last: u8) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((self.address(last), 0))).expect("bound");
        socket.connect(self.pods).await.expect("the kernel takes it")
    }

    async fn ask_over_tcp(&self, questions: &[&str]) -> Vec<String> {
        let mut stream = self.connect(200).await;
        let mut answers = Vec::new();
        for text in questions {
            let bytes = question(text, RecordType::A).to_vec().expect("bytes");
            stream.write_u16(bytes.len() as u16).await.expect("sent");
            stream.write_all(&bytes).await.expect("sent");
            let length = stream.read_u16().await.expect("a length");
            let mut answer = vec![0; length.into()];
            stream.read_exact(&mut answer).await.expect("an answer");
            answers.push(shown(&Message::from_vec(&answer).expect("a message")));
        }
        answers
    }
}

async fn ask_from(socket: &UdpSocket, text: &str, kind: RecordType) -> Option<Message> {
    socket.send(&question(text, kind).to_vec().expect("bytes")).await.expect("sent");
    let mut buffer = vec![0; 4096];
    let length = tokio::time::timeout(Duration::from_secs(10), socket.recv(&mut buffer)).await.ok()?.ok()?;
    Some(Message::from_vec(&buffer[..length]).expect("a message"))
}

#[tokio::test(flavor = "multi_thread")]
async fn names_follow_the_api_over_both_transports() {
    let served = Served::start(&[]).await;
    assert_eq!(served.ask("web.default.svc.cluster.local.", RecordType::A).await, "NXDomain");
    served.create_service("web", json!({"clusterIP": "10.43.1.1", "ports": [{"port": 80}]})).await;
    served.wait_for("web.default.svc.cluster.local.", "NoError 10.43.1.1").await;
    served.create_service("db", json!({"clusterIP": "None", "ports": [{"port": 80}]})).await;
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.4"], "hostname": "db-0"}],
        "ports": [{"port": 80}],
    }))
    .expect("a slice");
    let slices: Api<EndpointSlice> = Api::namespaced(served.client.clone(), "default");
    slices.create(&PostParams::default(), &slice).await.expect("created");
    served.wait_for("db-0.db.default.svc.cluster.local.", "NoError 192.0.2.4").await;
    let answers = served
        .ask_over_tcp(&[
            "web.default.svc.cluster.local.",
            "db.default.svc.cluster.local.",
            "no.cluster.local.",
        ])
        .await;
    assert_eq!(answers, ["NoError 10.43.1.1", "NoError 192.0.2.4", "NXDomain"]);
    let services: Api<Service> = Api::namespaced(served.client.clone(), "default");
    services.delete("web", &DeleteParams::default()).await.expect("deleted");
    served.wait_for("web.default.svc.cluster.local.", "NXDomain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_others_are_asked_once_and_kept_for_a_while() {
    let served = Served::start(&[5]).await;
    let resolver = served.resolver(5, Behaviour::Answer).await;
    for spelling in ["www.example.com.", "WWW.example.com.", "www.example.com."] {
        assert_eq!(served.ask(spelling, RecordType::A).await, "NoError 192.0.2.80");
    }
    assert_eq!(resolver.asked(), 1);
    assert_eq!(served.ask("nothing.example.com.", RecordType::A).await, "NXDomain");
    assert_eq!(served.ask("200.99.43.10.in-addr.arpa.", RecordType::PTR).await, "NXDomain");
    assert_eq!(resolver.asked(), 2, "names of the cluster's addresses are nobody else's business");
    served.create_service("out", json!({"type": "ExternalName", "externalName": "www.example.com"})).await;
    served.wait_for("out.default.svc.cluster.local.", "NoError www.example.com. 192.0.2.80").await;
    assert_eq!(resolver.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_is_asked_when_one_is_silent_lies_or_cannot_help() {
    for bad in [Behaviour::Silent, Behaviour::WrongId, Behaviour::WrongQuestion, Behaviour::Fail] {
        let served = Served::start(&[5, 6]).await;
        let (first, second) = (served.resolver(5, bad).await, served.resolver(6, Behaviour::Answer).await);
        assert_eq!(served.ask("www.example.com.", RecordType::A).await, "NoError 192.0.2.80", "{bad:?}");
        assert_eq!((first.asked(), second.asked()), (1, 1), "{bad:?}");
        assert_eq!(served.ask("other.example.com.", RecordType::A).await, "NoError 192.0.2.80", "{bad:?}");
        let again = if bad == Behaviour::Fail { 2 } else { 1 };
        assert_eq!(first.asked(), again, "{bad:?}: who was silent is asked last for a while");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nobody_knows_the_question_may_be_asked_again() {
    let served = Served::start(&[]).await;
    assert_eq!(served.ask("www.example.com.", RecordType::A).await, "ServFail");
    // Its own addresses are no resolvers: it would ask itself for ever.
    served.name_resolvers(&[1]);
    assert_eq!(served.ask("www.example.com.", RecordType::A).await, "ServFail");
    // The machine has other resolvers now; nobody was told, and nobody has waited.
    let _resolver = served.resolver(5, Behaviour::Answer).await;
    served.name_resolvers(&[5]);
    assert_eq!(served.ask("www.example.com.", RecordType::A).await, "NoError 192.0.2.80");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_did_not_fit_is_asked_for_over_a_connection() {
    let served = Served::start(&[5]).await;
    let resolver = served.resolver(5, Behaviour::Truncate).await;
    let over_tcp = served.ask_over_tcp(&["large.example.com."]).await;
    assert_eq!(over_tcp[0].matches("192.0.2.80").count(), 100, "{over_tcp:?}");
    assert_eq!(resolver.asked(), 2);
    let pod = served.pod(200).await;
    let over_udp = ask_from(&pod, "large.example.com.", RecordType::A).await.expect("an answer");
    assert!(over_udp.metadata.truncation && over_udp.answers.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_servers_costs_one_question() {
    let served = Served::start(&[5]).await;
    let relay = served.resolver(5, Behaviour::AskBack(served.pods)).await;
    assert_eq!(served.ask("www.example.com.", RecordType::A).await, "ServFail");
    assert!(relay.asked() <= 4, "{} questions", relay.asked());
    assert_eq!(served.ask("dns-version.cluster.local.", RecordType::TXT).await, "NoError 1.1.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_floods_the_dns_harms_no_other() {
    let served = Served::start(&[5]).await;
    let resolver = served.resolver(5, Behaviour::SilentFor("flood")).await;
    let flooder = served.pod(66).await;
    let flood = tokio::spawn(async move {
        for number in 0..50_000_u32 {
            let asked = if number % 2 == 0 { "flood" } else { "dns-version.cluster.local" };
            let message = question(&format!("{number}.{asked}."), RecordType::A).to_vec().expect("bytes");
            let _ = flooder.send(&message).await;
            if number % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    let pod = served.pod(7).await;
    // A datagram may be lost where sockets are full, as with any server; it is asked again, as resolvers do.
    for number in 0..20 {
        let outside = format!("{number}.example.com.");
        for (text, expected) in
            [("ns.dns.cluster.local.", "NoError 10.43.0.10"), (&outside, "NoError 192.0.2.80")]
        {
            let mut said = None;
            for _ in 0..3 {
                said = ask_from(&pod, text, RecordType::A).await;
                if said.is_some() {
                    break;
                }
            }
            assert_eq!(shown(&said.expect("an answer")), expected, "{text}");
        }
    }
    flood.await.expect("no panic");
    assert!(resolver.asked() < 2_000, "what is passed on is bounded: {}", resolver.asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_no_pod_of_the_node_is_not_answered() {
    let served = Served::start(&[]).await;
    assert_eq!(served.ask("dns-version.cluster.local.", RecordType::TXT).await, "NoError 1.1.0");
    let stranger = UdpSocket::bind((Ipv4Addr::new(127, 67, 0, 1), 0)).await.expect("bound");
    let message = question("dns-version.cluster.local.", RecordType::TXT).to_vec().expect("bytes");
    stranger.send_to(&message, served.pods).await.expect("sent");
    // What was sent before is read before.
    assert_eq!(served.ask("dns-version.cluster.local.", RecordType::TXT).await, "NoError 1.1.0");
    let mut buffer = [0; 512];
    assert!(stranger.try_recv(&mut buffer).is_err(), "no answer");
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((IpAddr::from([127, 67, 0, 1]), 0))).expect("bound");
    let mut stream = socket.connect(served.pods).await.expect("the kernel takes it");
    assert!(matches!(stream.read(&mut buffer).await, Ok(0) | Err(_)), "closed at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_send_nothing_or_nonsense_are_bounded_and_closed() {
    let served = Served::start(&[]).await;
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(served.connect(66).await);
    }
    // From another pod there is still a place.
    let mut stream = served.connect(77).await;
    stream.write_all(&[0, 3, 1, 2, 3]).await.expect("sent");
    assert_eq!(stream.read(&mut [0; 16]).await.expect("an end"), 0, "nonsense ends it");
    let mut huge = served.connect(78).await;
    let _ = huge.write_all(&[0xff, 0xff]).await;
    assert!(matches!(huge.read(&mut [0; 16]).await, Ok(0) | Err(_)), "nobody asks that much");
    // The last of the many was one too many.
    let last = silent.last_mut().expect("one");
    assert!(matches!(last.read(&mut [0; 16]).await, Ok(0) | Err(_)), "closed at once");
}
