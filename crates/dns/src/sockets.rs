//! The sockets on which the DNS of a node listens: one pair (UDP, TCP) on the node's own address, for pods, and one on a
//! loopback address, for the machine itself. The packet filter leads there whoever asks at the address of the service.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};

/// Ports in the order in which they are tried. A port that stays the same over restarts keeps those working that ask again
/// and again from one socket: the kernel goes on leading them where it led them before.
const PORTS: [u16; 3] = [53, 10_053, 0];
/// A free port of UDP may be taken for TCP; then another one is tried.
const TRIES: usize = 8;
/// What may wait to be read, in bytes, as far as the machine allows it.
const RECEIVE_BUFFER: usize = 1 << 20;

/// UDP and TCP at one address and port.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) udp: UdpSocket,
    pub(crate) tcp: TcpListener,
    address: SocketAddrV4,
}

/// Where the DNS of a node listens.
#[derive(Debug)]
pub struct Sockets {
    pub(crate) pods: Pair,
    pub(crate) machine: Pair,
}

/// A loopback address that no other node of the machine has, as its own address is no other's.
fn loopback(node: Ipv4Addr) -> Ipv4Addr {
    let [_, second, third, fourth] = node.octets();
    Ipv4Addr::new(127, second, third, fourth)
}

impl Sockets {
    /// Binds the sockets of the node with that address. The address may come only with the first pod. Needs the context of an
    /// async runtime.
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub fn bind(node: Ipv4Addr) -> io::Result<Sockets> {
        Ok(Sockets { pods: Pair::bind(node)?, machine: Pair::bind(loopback(node))? })
    }

    /// Where pods are led.
    pub fn for_pods(&self) -> SocketAddrV4 {
        self.pods.address
    }

    /// Where the machine itself is led.
    pub fn for_machine(&self) -> SocketAddrV4 {
        self.machine.address
    }
}

impl Pair {
    fn bind(address: Ipv4Addr) -> io::Result<Pair> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for port in PORTS.into_iter().chain([0; TRIES]) {
            match Pair::bind_at(address, port) {
                Ok(pair) => return Ok(pair),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bind_at(address: Ipv4Addr, port: u16) -> io::Result<Pair> {
        let udp = udp_socket(SocketAddrV4::new(address, port))?;
        let SocketAddr::V4(address) = udp.local_addr()? else {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        let tcp = TcpSocket::new_v4()?;
        tcp.set_reuseaddr(true)?;
        sockopt::set_ip_freebind(&tcp, true)?;
        tcp.bind(address.into())?;
        Ok(Pair { udp, tcp: tcp.listen(128)?, address })
    }
}

fn udp_socket(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    sockopt::set_ip_freebind(&socket, true)?;
    sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    rustix::net::bind(&socket, &address)?;
    UdpSocket::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_on_one_address_get_different_ports_and_one_that_comes_again_gets_its_own() {
        let node = Ipv4Addr::new(127, 77, 1, 1);
        let one = Sockets::bind(node).expect("bound");
        assert_eq!(one.for_machine().ip(), &Ipv4Addr::new(127, 77, 1, 1));
        assert_ne!(one.for_machine(), one.for_pods(), "the same address is taken already");
        let (machine, pods) = (one.for_machine(), one.for_pods());
        drop(one);
        let again = Sockets::bind(node).expect("bound");
        assert_eq!((again.for_machine(), again.for_pods()), (machine, pods));
    }
}
