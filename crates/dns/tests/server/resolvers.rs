//! Servers that play the machine's resolvers, each with its own way.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{A, SOA};
use hickory_proto::rr::{Name, RData, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

/// Any port; those who play resolvers have addresses of their own.
pub(crate) const RESOLVER_PORT: u16 = 5399;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// 192.0.2.80 for everything, but no name that begins with `nothing`.
    Answer,
    Silent,
    /// Silent about names that end so.
    SilentFor(&'static str),
    WrongId,
    WrongQuestion,
    Fail,
    /// Nothing but that there is more; the whole over a connection.
    Truncate,
    /// Asks this one.
    AskBack(SocketAddr),
}

pub(crate) struct FakeResolver {
    asked: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl FakeResolver {
    pub(crate) async fn start(address: Ipv4Addr, behaviour: Behaviour) -> FakeResolver {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        let udp = Arc::new(UdpSocket::bind((address, RESOLVER_PORT)).await.expect("bound"));
        let tcp = TcpListener::bind((address, RESOLVER_PORT)).await.expect("bound");
        let count = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
                count.fetch_add(1, Ordering::Relaxed);
                let (packet, udp) = (buffer[..length].to_vec(), Arc::clone(&udp));
                tokio::spawn(async move {
                    if let Some(answer) = answer(&packet, behaviour).await {
                        let _ = udp.send_to(&answer, from).await;
                    }
                });
            }
        });
        let count = Arc::clone(&asked);
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let length = stream.read_u16().await.expect("a length");
                let mut packet = vec![0; length.into()];
                stream.read_exact(&mut packet).await.expect("a question");
                let answer = with_addresses(&packet, 100);
                stream.write_u16(answer.len() as u16).await.expect("sent");
                stream.write_all(&answer).await.expect("sent");
            }
        });
        FakeResolver { asked, _tasks: tasks }
    }

    /// How many questions came.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn reply(packet: &[u8]) -> Message {
    let mut message = Message::from_vec(packet).expect("a message");
    message.metadata.message_type = MessageType::Response;
    message.metadata.recursion_available = true;
    message
}

fn with_addresses(packet: &[u8], count: usize) -> Vec<u8> {
    let mut message = reply(packet);
    let owner = message.queries[0].name().clone();
    let address = RData::A(A(Ipv4Addr::new(192, 0, 2, 80)));
    message.answers = vec![Record::from_rdata(owner, 300, address); count];
    message.to_vec().expect("bytes")
}

async fn answer(packet: &[u8], behaviour: Behaviour) -> Option<Vec<u8>> {
    let mut message = reply(packet);
    let asked = message.queries[0].name().to_string();
    match behaviour {
        Behaviour::Silent => return None,
        Behaviour::SilentFor(end) if asked.trim_end_matches('.').ends_with(end) => return None,
        Behaviour::Answer if asked.starts_with("nothing") => {
            message.metadata.response_code = ResponseCode::NXDomain;
            let soa = SOA::new(Name::root(), Name::root(), 1, 2, 3, 4, 60);
            message.authorities.push(Record::from_rdata(Name::root(), 60, RData::SOA(soa)));
        }
        Behaviour::Answer | Behaviour::SilentFor(_) => return Some(with_addresses(packet, 1)),
        Behaviour::WrongId => {
            let mut wrong = with_addresses(packet, 1);
            wrong[0] ^= 0xff;
            return Some(wrong);
        }
        Behaviour::WrongQuestion => {
            message.queries[0].set_name(Name::from_ascii("www.example.org.").expect("a name"));
        }
        Behaviour::Fail => message.metadata.response_code = ResponseCode::ServFail,
        Behaviour::Truncate => message.metadata.truncation = true,
        Behaviour::AskBack(whom) => {
            let [a, b, c, _] = match whom {
                SocketAddr::V4(whom) => whom.ip().octets(),
                SocketAddr::V6(_) => return None,
            };
            let socket = UdpSocket::bind((Ipv4Addr::new(a, b, c, 90), 0)).await.ok()?;
            socket.send_to(packet, whom).await.ok()?;
            let mut buffer = vec![0; 4096];
            let (length, _) = socket.recv_from(&mut buffer).await.ok()?;
            return Some(buffer[..length].to_vec());
        }
    }
    message.to_vec().ok()
}
