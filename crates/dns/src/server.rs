//! Answers what comes over the sockets. What the zone or the cache knows is answered at once, in the order in which it came;
//! what has to be asked elsewhere waits in a task of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use network::AddressRange;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::answer::{self, Decision, Forward, Transport};
use crate::fairness::{Pace, Places};
use crate::forward::Forwarder;
use crate::zone::Zone;

/// The longest question that is read.
const MAX_QUESTION: usize = 4096;
/// Datagrams that are answered before others get their turn.
const BATCH: usize = 64;
/// Connections at the same time, of all who ask.
const MAX_CONNECTIONS: usize = 256;
/// A connection over which nothing comes is closed, and so is one that does not take its answers.
const IDLE: Duration = Duration::from_secs(10);
/// Wait after a connection that could not be taken: the machine has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who may ask.
#[derive(Clone, Debug)]
pub(crate) enum Clients {
    /// Addresses of pods.
    Pods(Vec<AddressRange>),
    /// Whoever reaches a loopback address.
    Machine,
}

impl Clients {
    fn admit(&self, who: IpAddr) -> bool {
        match (self, who) {
            (Clients::Machine, _) => true,
            (Clients::Pods(ranges), who) => ranges.iter().any(|range| range.contains(who)),
        }
    }
}

/// What all sockets share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) zone: Arc<RwLock<Zone>>,
    pub(crate) forwarder: Forwarder,
    pace: Mutex<Pace>,
    connections: Mutex<Places>,
    /// Counts answers, so that each begins with another address.
    turn: AtomicUsize,
}

/// What has to be done for an answer.
enum Next {
    Nothing,
    Send(Vec<u8>),
    Wait(Box<Forward>),
}

impl Server {
    pub(crate) fn new(zone: Arc<RwLock<Zone>>, forwarder: Forwarder, questions_per_second: u32) -> Server {
        Server {
            zone,
            forwarder,
            pace: Mutex::new(Pace::new(questions_per_second)),
            connections: Mutex::new(Places::new(MAX_CONNECTIONS)),
            turn: AtomicUsize::new(0),
        }
    }

    fn is_in_pace(&self, who: IpAddr) -> bool {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).allows(who, Instant::now())
    }

    fn next(&self, packet: &[u8], transport: Transport) -> Next {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let decision = {
            let zone = self.zone.read().unwrap_or_else(PoisonError::into_inner);
            answer::decide(&zone, packet, transport, turn)
        };
        match decision {
            Decision::Ignore => Next::Nothing,
            Decision::Reply(answer) => Next::Send(answer),
            Decision::Forward(forward) => match self.forwarder.kept(&forward.question) {
                Some(kept) => Next::Send(forward.answered(&kept)),
                None => Next::Wait(forward),
            },
        }
    }

    async fn wait_for(&self, who: IpAddr, forward: &Forward) -> Vec<u8> {
        match self.forwarder.ask(who, &forward.question).await {
            Ok(answer) => forward.answered(&answer),
            Err(error) => {
                tracing::debug!(%who, %error, "a name outside of the cluster was not found out");
                forward.failed()
            }
        }
    }

    /// Answers datagrams, for ever.
    pub(crate) async fn serve_udp(self: &Arc<Self>, socket: &Arc<UdpSocket>, clients: &Clients) {
        let mut buffer = vec![0; MAX_QUESTION];
        loop {
            if socket.readable().await.is_err() {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            for _ in 0..BATCH {
                let (length, from) = match socket.try_recv_from(&mut buffer) {
                    Ok(received) => received,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    // An answer that could not be delivered.
                    Err(_) => continue,
                };
                if clients.admit(from.ip()) && self.is_in_pace(from.ip()) {
                    self.answer_datagram(&buffer[..length], from, socket);
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn answer_datagram(self: &Arc<Self>, packet: &[u8], from: SocketAddr, socket: &Arc<UdpSocket>) {
        match self.next(packet, Transport::Udp) {
            Next::Nothing => {}
            Next::Send(answer) => {
                // Whoever does not get it asks again.
                let _ = socket.try_send_to(&answer, from);
            }
            Next::Wait(forward) => {
                let (server, socket) = (Arc::clone(self), Arc::clone(socket));
                tokio::spawn(async move {
                    let answer = server.wait_for(from.ip(), &forward).await;
                    let _ = socket.try_send_to(&answer, from);
                });
            }
        }
    }

    /// Takes connections, for ever.
    pub(crate) async fn serve_tcp(self: &Arc<Self>, listener: &TcpListener, clients: &Clients) {
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let who = from.ip();
            let places = || self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            if !clients.admit(who) || !places().take(who) {
                continue;
            }
            let connection = Connection { server: Arc::clone(self), who };
            tokio::spawn(async move { connection.serve(stream).await });
        }
    }
}

/// A connection, which gives its place back at its end.
struct Connection {
    server: Arc<Server>,
    who: IpAddr,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.connections.lock().unwrap_or_else(PoisonError::into_inner).give_back(self.who);
    }
}

impl Connection {
    /// Answers one question after another, until the other side ends, is too slow, or sends what is none.
    async fn serve(&self, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut packet = Vec::new();
        while let Ok(Ok(length)) = timeout(IDLE, stream.read_u16()).await {
            let length = usize::from(length);
            if length > MAX_QUESTION {
                return;
            }
            packet.resize(length, 0);
            let Ok(Ok(_)) = timeout(IDLE, stream.read_exact(&mut packet)).await else { return };
            if !self.server.is_in_pace(self.who) {
                return;
            }
            let answer = match self.server.next(&packet, Transport::Tcp) {
                Next::Nothing => return,
                Next::Send(answer) => answer,
                Next::Wait(forward) => self.server.wait_for(self.who, &forward).await,
            };
            let Ok(length) = u16::try_from(answer.len()) else { return };
            let framed = [&length.to_be_bytes(), answer.as_slice()].concat();
            let Ok(Ok(())) = timeout(IDLE, stream.write_all(&framed)).await else { return };
        }
    }
}
