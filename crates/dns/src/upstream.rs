//! One question to one other server, and its answer. Each question has a socket, a port and a number of its own, so that
//! nobody who does not see it can answer it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use crate::wire::MAX_PAYLOAD;
use crate::wire::{self, Question};

/// How long one server may take.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Longer messages do not come over UDP: nobody was told that they may.
const MAX_DATAGRAM: usize = 4096;

/// Why a server did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("no answer in time")]
    Silent,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("what came over the connection answers something else")]
    Other,
}

/// Asks; an answer that did not fit is asked for again over a connection.
pub(crate) async fn ask(server: SocketAddr, question: &Question) -> Result<Vec<u8>, UpstreamError> {
    let answer = in_time(over_udp(server, question)).await?;
    if !wire::is_truncated(&answer) {
        return Ok(answer);
    }
    // What did fit is better than nothing, where connections do not get through.
    Ok(in_time(over_tcp(server, question)).await.unwrap_or(answer))
}

async fn in_time(
    asking: impl Future<Output = Result<Vec<u8>, UpstreamError>>,
) -> Result<Vec<u8>, UpstreamError> {
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or(Err(UpstreamError::Silent))
}

async fn over_udp(server: SocketAddr, question: &Question) -> Result<Vec<u8>, UpstreamError> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The kernel chooses the port at random.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    let number = rand::random();
    socket.send(&question.message(number, MAX_PAYLOAD)).await?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Whatever else comes is not an answer; it may be an attempt to give a wrong one.
        if question.is_answered_by(&buffer[..length], number) {
            buffer.truncate(length);
            buffer.shrink_to_fit();
            return Ok(buffer);
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &Question) -> Result<Vec<u8>, UpstreamError> {
    let mut stream = TcpStream::connect(server).await?;
    let number = rand::random();
    let message = question.message(number, MAX_PAYLOAD);
    let length = u16::try_from(message.len()).map_err(|_| UpstreamError::Other)?;
    stream.write_all(&[&length.to_be_bytes(), message.as_slice()].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await?;
    if question.is_answered_by(&answer, number) { Ok(answer) } else { Err(UpstreamError::Other) }
}
