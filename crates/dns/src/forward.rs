//! Questions about names that are not the cluster's: the machine's own resolvers are asked, each question once at a time,
//! however many want to know; what they say is kept for a while.
//!
//! A question that comes back (a resolver of the machine asks this DNS) is one that is being asked already: it waits with the
//! first and ends with it, so that a loop costs one question.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use network::{ResolverFiles, ResolverStamp};
use rustix::net::{AddressFamily, SocketType};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::fairness::Places;
use crate::upstream::{self, UpstreamError};
use crate::wire::{self, Question};

/// Questions that wait for other servers at the same time, of all who ask.
const MAX_WAITING: usize = 512;
/// All servers together may take that long; resolvers in pods ask again after five seconds.
const PATIENCE: Duration = Duration::from_millis(4500);
/// A server that did not answer is asked last for that long.
const SUSPECTED: Duration = Duration::from_secs(10);
/// More servers are not asked.
const MAX_SERVERS: usize = 6;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error("too many questions wait already")]
    Busy,
    #[error("no server has answered")]
    Unanswered,
}

/// The answer of another server, shared by all who wait for it.
type Landing = Option<Result<Arc<[u8]>, ForwardError>>;

/// Asks other servers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Forwarder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    files: ResolverFiles,
    /// The port of the other servers.
    port: u16,
    /// Addresses of this DNS: asking them would be asking itself.
    own: Vec<IpAddr>,
    servers: Mutex<Servers>,
    cache: Mutex<Cache>,
    asking: Mutex<HashMap<Question, watch::Receiver<Landing>>>,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Servers {
    stamp: Option<ResolverStamp>,
    all: Vec<SocketAddr>,
    suspected: HashMap<SocketAddr, Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No holder of these can panic half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place among those who wait, given back at the end.
struct Place<'s> {
    shared: &'s Shared,
    who: IpAddr,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        locked(&self.shared.places).give_back(self.who);
    }
}

/// A question that is being asked; when it ends, however it does, it can be asked again.
struct Flight {
    shared: Arc<Shared>,
    question: Question,
}

impl Drop for Flight {
    fn drop(&mut self) {
        locked(&self.shared.asking).remove(&self.question);
    }
}

impl Forwarder {
    pub(crate) fn new(files: ResolverFiles, port: u16, own: Vec<IpAddr>) -> Forwarder {
        let shared = Shared {
            files,
            port,
            own,
            servers: Mutex::default(),
            cache: Mutex::default(),
            asking: Mutex::default(),
            places: Mutex::new(Places::new(MAX_WAITING)),
        };
        Forwarder { shared: Arc::new(shared) }
    }

    /// The answer that is kept, if there is one.
    pub(crate) fn kept(&self, question: &Question) -> Option<Vec<u8>> {
        locked(&self.shared.cache).get(question, Instant::now())
    }

    /// Asks for `who`.
    pub(crate) async fn ask(&self, who: IpAddr, question: &Question) -> Result<Arc<[u8]>, ForwardError> {
        if !locked(&self.shared.places).take(who) {
            return Err(ForwardError::Busy);
        }
        let _place = Place { shared: &self.shared, who };
        let mut landing = self.landing(question);
        match landing.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(answer)) => answer.clone(),
            Ok(None) | Err(_) => Err(ForwardError::Unanswered),
        }
    }

    /// Where the answer to a question will be: it is asked now, unless it is already.
    fn landing(&self, question: &Question) -> watch::Receiver<Landing> {
        let mut asking = locked(&self.shared.asking);
        if let Some(landing) = asking.get(question) {
            return landing.clone();
        }
        let (sender, landing) = watch::channel(None);
        asking.insert(question.clone(), landing.clone());
        let flight = Flight { shared: Arc::clone(&self.shared), question: question.clone() };
        tokio::spawn(async move {
            let answer = flight.shared.ask_servers(&flight.question).await;
            // Who asks from now on finds it among those that are kept, or asks anew.
            drop(flight);
            let _ = sender.send(Some(answer));
        });
        landing
    }
}

impl Shared {
    async fn ask_servers(&self, question: &Question) -> Result<Arc<[u8]>, ForwardError> {
        let servers = self.in_order();
        let asking = async {
            let mut poor = None;
            // Twice, because a datagram may get lost.
            for server in servers.iter().chain(&servers) {
                match upstream::ask(*server, question).await {
                    Ok(answer) if matches!(wire::code(&answer), 0 | 3) => return Some(answer),
                    // It could not help; the next one may. The same one would not, the second time.
                    Ok(answer) => {
                        if poor.replace(answer).is_some() && servers.len() == 1 {
                            break;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%server, %error, "a resolver of the machine did not answer");
                        if matches!(error, UpstreamError::Silent) {
                            locked(&self.servers).suspected.insert(*server, Instant::now());
                        }
                    }
                }
            }
            poor
        };
        let answer = tokio::time::timeout(PATIENCE, asking).await.ok().flatten();
        let answer: Arc<[u8]> = answer.ok_or(ForwardError::Unanswered)?.into();
        locked(&self.cache).keep(question, &answer, Instant::now());
        Ok(answer)
    }

    /// The servers as they are to be asked: as the machine names them, those that did not answer last.
    fn in_order(&self) -> Vec<SocketAddr> {
        let stamp = self.files.stamp();
        let mut servers = locked(&self.servers);
        if servers.stamp.as_ref() != Some(&stamp) {
            let (all, is_change) = (self.read(), servers.stamp.is_some());
            *servers = Servers { stamp: Some(stamp), all, suspected: HashMap::new() };
            if is_change {
                locked(&self.cache).clear();
            }
        }
        let now = Instant::now();
        servers.suspected.retain(|_, since| now.saturating_duration_since(*since) < SUSPECTED);
        let mut order = servers.all.clone();
        order.sort_by_key(|server| servers.suspected.contains_key(server));
        order
    }

    fn read(&self) -> Vec<SocketAddr> {
        let conf = self.files.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "names outside of the cluster cannot be looked up");
            network::ResolvConf::default()
        });
        let named: Vec<SocketAddr> =
            conf.nameservers.iter().filter_map(|server| server_at(server, self.port)).collect();
        let (own, mut servers): (Vec<SocketAddr>, Vec<SocketAddr>) =
            named.into_iter().partition(|server| self.own.contains(&server.ip()));
        servers.truncate(MAX_SERVERS);
        if let Some(own) = own.first() {
            tracing::warn!(
                file = %self.files.machine.display(),
                address = %own.ip(),
                others = servers.len(),
                "the machine names this DNS as its resolver, which would ask itself: it is passed over; name the resolver \
                 behind it there"
            );
        } else if servers.is_empty() {
            tracing::warn!(
                file = %self.files.machine.display(),
                "the machine names no resolver: names outside of the cluster are not found"
            );
        }
        servers
    }
}

/// A server as `resolv.conf` names it; a link-local one with its link (`fe80::1%eth0`).
fn server_at(text: &str, port: u16) -> Option<SocketAddr> {
    let Some((address, link)) = text.split_once('%') else {
        return Some(SocketAddr::new(text.parse().ok()?, port));
    };
    let address: Ipv6Addr = address.parse().ok()?;
    let number = match link.parse() {
        Ok(number) => number,
        Err(_) => link_number(link)?,
    };
    Some(SocketAddrV6::new(address, port, 0, number).into())
}

/// The number of a link of this machine.
fn link_number(link: &str) -> Option<u32> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    rustix::net::netdevice::name_to_index(socket, link).ok()
}

#[cfg(test)]
mod tests {
    use super::server_at;

    #[test]
    fn a_server_is_an_address_of_either_family_with_its_link_where_it_needs_one() {
        for (text, expected) in [
            ("192.0.2.53", Some("192.0.2.53:53")),
            ("2001:db8::53", Some("[2001:db8::53]:53")),
            ("fe80::1%1", Some("[fe80::1%1]:53")),
            ("fe80::1%lo", Some("[fe80::1%1]:53")),
            ("fe80::1%no-such-link", None),
            ("192.0.2.53%lo", None),
            ("resolver.example", None),
            ("", None),
        ] {
            assert_eq!(server_at(text, 53).map(|server| server.to_string()).as_deref(), expected, "{text}");
        }
    }
}
