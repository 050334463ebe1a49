//! Questions about names that are not the cluster's: the machine's own resolvers are asked, each question once at a time,
//! however many want to know; what they say is kept for a while.
//!
//! A question that comes back (a resolver of the machine asks this DNS) is one that is being asked already: it waits with the
//! first and ends with it, so that a loop costs one question.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use network::{ResolverFiles, ResolverStamp};
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
        let servers: Vec<SocketAddr> = conf
            .nameservers
            .iter()
            .filter_map(|server| server.parse::<IpAddr>().ok())
            .filter(|server| !self.own.contains(server))
            .map(|server| SocketAddr::new(server, self.port))
            .take(MAX_SERVERS)
            .collect();
        if servers.is_empty() {
            tracing::warn!(
                file = %self.files.machine.display(),
                "the machine names no resolver: names outside of the cluster are not found"
            );
        }
        servers
    }
}
