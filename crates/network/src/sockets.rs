//! Connections that begin inside a pod: what listens on the pod's own loopback can be reached, and the pod's view of the
//! world decides where the connection goes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpSocket, TcpStream};

/// Why there is no connection from inside a pod.
#[derive(Debug, thiserror::Error)]
pub enum ConnectInsideError {
    /// The namespace could not be entered, or no socket made in it.
    #[error("cannot make a socket in the pod's network namespace")]
    Socket(#[source] io::Error),
    /// Nobody answers there.
    #[error("cannot connect to {target} from inside the pod")]
    Connect {
        /// Where to.
        target: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Link-local addresses are where clouds keep their secrets.
    #[error("{0} is a link-local address, which is not connected to from inside a pod")]
    LinkLocal(IpAddr),
}

/// Connects to `target` as a process of the pod would. Has no time limit of its own.
pub async fn connect_inside(
    namespace: BorrowedFd<'_>,
    target: SocketAddr,
) -> Result<TcpStream, ConnectInsideError> {
    if is_link_local(target.ip()) {
        return Err(ConnectInsideError::LinkLocal(target.ip()));
    }
    // A socket stays in the namespace in which it was made; only making it needs a thread there.
    let socket = socket_inside(namespace, target.is_ipv6()).map_err(ConnectInsideError::Socket)?;
    let socket = TcpSocket::from_std_stream(std::net::TcpStream::from(socket));
    socket.connect(target).await.map_err(|source| ConnectInsideError::Connect { target, source })
}

/// Whether an address is valid on its link only, whatever family it is written in.
#[must_use]
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            address.to_ipv4_mapped().map_or(address.is_unicast_link_local(), |old| old.is_link_local())
        }
    }
}

fn socket_inside(namespace: BorrowedFd<'_>, version_6: bool) -> io::Result<OwnedFd> {
    let family = if version_6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let make = || {
        move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(socket_with(family, SocketType::STREAM, flags, None)?)
    };
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("network-namespace".into()).spawn_scoped(scope, make)?;
        thread.join().expect("making a socket does not panic")
    })
}
