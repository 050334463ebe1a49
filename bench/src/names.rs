//! The cluster's DNS on one thread, an echo server in its place as the floor, and pods that ask both the same way: at the address of
//! the service, through the packet filter.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dns::{DnsConfig, Sockets, Sources};
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use informer::Informer;
use kube::{Api, Client};
use network::{DnsRoute, ResolverFiles};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::namespaces::{Machine, Pod, enter, inside};
use crate::{Outcome, machine};

/// Where names are asked for.
const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 43, 0, 10), 53);
/// Datagrams that the echo server answers in one go, as the DNS does.
const BATCH: usize = 64;
/// Questions of each pod that wait at the same time.
const WAITING: usize = 2;
/// An answer that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// The processors of servers and of pods.
const SERVERS: usize = 0;
const PODS: usize = 1;

/// A server on a thread of its own, which ends with it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddrV4,
    thread_id: i32,
    end: CancellationToken,
    thread: Option<std::thread::JoinHandle<Outcome<()>>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }
}

/// What a server does: it says where it listens, and answers until the token ends it.
type Serving = Box<dyn FnOnce(mpsc::Sender<SocketAddrV4>) -> BoxFuture<'static, Outcome<()>> + Send>;

impl Server {
    fn start(namespace: &OwnedFd, end: CancellationToken, serving: Serving) -> Outcome<Self> {
        let namespace = namespace.try_clone()?;
        let (say, said) = mpsc::channel();
        let (listens, listening) = mpsc::channel();
        let thread = std::thread::spawn(move || -> Outcome<()> {
            enter(&namespace)?;
            machine::stay_on_processor(SERVERS)?;
            say.send(rustix::thread::gettid().as_raw_nonzero().get())?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(serving(listens))
        });
        let (Ok(thread_id), Ok(address)) = (said.recv(), listening.recv()) else {
            return Err(match thread.join() {
                Ok(Err(error)) => error,
                _ => "the server ended at once".into(),
            });
        };
        Ok(Self { address, thread_id, end, thread: Some(thread) })
    }

    /// Processor time that it has taken.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        machine::thread_time(self.thread_id)
    }

    /// The cluster's DNS with these services.
    ///
    /// # Errors
    ///
    /// When it cannot begin.
    pub fn dns(machine: &Machine, services: &[Value]) -> Outcome<Self> {
        let client = api_of(services)?;
        let end = CancellationToken::new();
        let sources =
            Sources { services: Informer::idle(), endpoint_slices: Informer::idle(), pods: Informer::idle() };
        tokio::spawn(sources.services.clone().follow(Api::all(client.clone()), "", end.clone()));
        tokio::spawn(sources.endpoint_slices.clone().follow(Api::all(client.clone()), "", end.clone()));
        tokio::spawn(sources.pods.clone().follow(Api::all(client), "", end.clone()));
        let std::net::IpAddr::V4(node) = machine.network.node_address() else {
            return Err("the node has no address".into());
        };
        // Nobody else is asked: no name of this run is another's.
        let resolvers = ResolverFiles { machine: "/dev/null".into(), behind_stub: "/dev/null".into() };
        let range = "10.43.0.0/16".parse()?;
        let usual = DnsConfig::new(
            "cluster.local".to_owned(),
            *SERVICE.ip(),
            vec![range],
            vec![machine.network.range()],
        );
        let (config, shutdown) = (DnsConfig { resolvers, ..usual }, end.clone());
        let serving: Serving = Box::new(move |listens| {
            Box::pin(async move {
                let sockets = Sockets::bind(node)?;
                listens.send(sockets.for_pods())?;
                Ok(dns::serve(config, sources, sockets, shutdown).await?)
            })
        });
        Self::start(&machine.namespace, end, serving)
    }

    /// A server that sends each datagram back.
    ///
    /// # Errors
    ///
    /// When it cannot begin.
    pub fn echo(machine: &Machine) -> Outcome<Self> {
        let end = CancellationToken::new();
        let (node, shutdown) = (machine.network.node_address(), end.clone());
        let serving: Serving = Box::new(move |listens| {
            Box::pin(async move {
                let socket = tokio::net::UdpSocket::bind((node, 0)).await?;
                let std::net::SocketAddr::V4(address) = socket.local_addr()? else {
                    return Err("no address".into());
                };
                listens.send(address)?;
                tokio::select! {
                    () = shutdown.cancelled() => Ok(()),
                    ended = echo(&socket) => ended,
                }
            })
        });
        Self::start(&machine.namespace, end, serving)
    }
}

async fn echo(socket: &tokio::net::UdpSocket) -> Outcome<()> {
    let mut buffer = vec![0; 4096];
    loop {
        socket.readable().await?;
        for _ in 0..BATCH {
            let Ok((length, from)) = socket.try_recv_from(&mut buffer) else { break };
            let _ = socket.try_send_to(&buffer[..length], from);
        }
        tokio::task::yield_now().await;
    }
}

/// An API that lists these services and nothing else, and never changes.
fn api_of(services: &[Value]) -> Outcome<Client> {
    let list = |items: &[Value]| {
        let metadata = json!({"resourceVersion": "1"});
        serde_json::to_vec(&json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}))
    };
    let (services, nothing) = (Bytes::from(list(services)?), Bytes::from(list(&[])?));
    let answer = move |uri: &Uri| -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let body = if uri.query().is_some_and(|query| query.contains("watch=")) {
            StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed_unsync()
        } else if uri.path().ends_with("/services") {
            Full::new(services.clone()).boxed_unsync()
        } else {
            Full::new(nothing.clone()).boxed_unsync()
        };
        Response::new(body)
    };
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let answer = Arc::clone(&answer);
        async move { Ok::<_, Infallible>(answer(request.uri())) }
    });
    Ok(Client::new(service, "default"))
}

/// A question for the addresses of a name.
#[must_use]
pub fn question(name: &str) -> Vec<u8> {
    // Recursion is desired; one question.
    let mut bytes = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// What an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The question.
    Echo,
    /// So many records.
    Records(u8),
    /// That there is no such name.
    Absent,
}

/// The sockets of some pods, all led to the same server.
#[derive(Debug)]
pub struct Askers {
    sockets: Vec<UdpSocket>,
    is_echo: bool,
}

impl Askers {
    /// Leads the pods to the server, from sockets of their own; those that were led elsewhere before stay there.
    ///
    /// # Errors
    ///
    /// When nobody answers.
    pub async fn led_to(server: &Server, machine: &Machine, pods: &[Pod], is_echo: bool) -> Outcome<Self> {
        let route = DnsRoute { service: *SERVICE.ip(), pods: server.address, machine: server.address };
        machine.network.route_dns(route).await?;
        let mut sockets = Vec::new();
        for pod in pods {
            let socket = inside(&pod.namespace, || Ok(UdpSocket::bind((pod.address, 0))?))?;
            socket.connect(SERVICE)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            sockets.push(socket);
        }
        let askers = Self { sockets, is_echo };
        // From its first packet on the kernel remembers where a socket is led.
        let expected = if is_echo { Expected::Echo } else { Expected::Absent };
        for socket in &askers.sockets {
            ask(socket, &question("nothing.default.svc.cluster.local"), 1, expected)?;
        }
        Ok(askers)
    }

    fn expected(&self, of_names: Expected) -> Expected {
        if self.is_echo { Expected::Echo } else { of_names }
    }

    /// How long each of so many single questions of one pod takes, these and those of the others in turn.
    ///
    /// # Errors
    ///
    /// When an answer is wrong or lost.
    pub fn latencies(
        &self,
        others: &Self,
        count: usize,
        questions: &[Vec<u8>],
        expected: Expected,
    ) -> Outcome<[Vec<Duration>; 2]> {
        pinned(|| {
            let mut times = [Vec::new(), Vec::new()];
            for number in 0..count {
                for (askers, times) in [self, others].into_iter().zip(&mut times) {
                    let socket = askers.sockets.first().ok_or("nobody asks")?;
                    let question = &questions[number % questions.len()];
                    times.push(ask(socket, question, number as u16, askers.expected(expected))?);
                }
            }
            Ok(times)
        })
    }

    /// How many answers come in a second when all ask all the time.
    ///
    /// # Errors
    ///
    /// When an answer is wrong or lost.
    pub fn rate(&self, time: Duration, questions: &[Vec<u8>], expected: Expected) -> Outcome<f64> {
        let expected = self.expected(expected);
        pinned(|| {
            let began = Instant::now();
            let (mut sent, mut answered) = (0, 0);
            for round in 0.. {
                let is_over = began.elapsed() > time;
                for socket in &self.sockets {
                    if round >= WAITING {
                        // Answers come in the order of the questions.
                        let question = &questions[answered % questions.len()];
                        receive(socket, question, answered as u16, expected)?;
                        answered += 1;
                    }
                    if !is_over {
                        send(socket, &questions[sent % questions.len()], sent as u16)?;
                        sent += 1;
                    }
                }
                if answered == sent {
                    break;
                }
            }
            Ok(answered as f64 / began.elapsed().as_secs_f64())
        })
    }
}

/// On the processor of pods.
fn pinned<T: Send>(body: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            machine::stay_on_processor(PODS)?;
            body()
        });
        thread.join().map_err(|_| "a thread panicked")?
    })
}

fn ask(socket: &UdpSocket, question: &[u8], id: u16, expected: Expected) -> Outcome<Duration> {
    let began = Instant::now();
    send(socket, question, id)?;
    receive(socket, question, id, expected)?;
    Ok(began.elapsed())
}

fn send(socket: &UdpSocket, question: &[u8], id: u16) -> Outcome<()> {
    let mut packet = [0; 300];
    let packet = packet.get_mut(..question.len()).ok_or("the question is too long")?;
    packet.copy_from_slice(question);
    packet[..2].copy_from_slice(&id.to_be_bytes());
    socket.send(packet)?;
    Ok(())
}

fn receive(socket: &UdpSocket, question: &[u8], id: u16, expected: Expected) -> Outcome<()> {
    let mut packet = [0; 1500];
    let length = socket.recv(&mut packet)?;
    let answer = &packet[..length.max(12)];
    let (code, records) = (answer[3] & 15, answer[7]);
    let is_right = match expected {
        Expected::Echo => answer[2..] == question[2..],
        Expected::Records(count) => (code, records) == (0, count),
        Expected::Absent => (code, records) == (3, 0),
    };
    if answer[..2] != id.to_be_bytes() || !is_right {
        return Err(format!("a wrong answer: code {code}, {records} records").into());
    }
    Ok(())
}
