//! Which name servers a pod asks: the machine's real resolver, the pod's DNS policy, and what the pod adds. All pure but one
//! small reader.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The reason of the event about a pod that wanted the cluster's DNS where there is none.
pub const MISSING_CLUSTER_DNS: &str = "MissingClusterDNS";

/// The most name servers that a resolver asks.
const MAX_NAMESERVERS: usize = 3;
/// The most search domains, and the most characters of them all, that Kubernetes passes on.
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;
/// The longest name that DNS knows.
const MAX_NAME: usize = 253;
/// More of a resolver configuration is not read.
const MAX_FILE: u64 = 1 << 20;

/// The content of a `resolv.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// Name servers, asked in order.
    pub nameservers: Vec<String>,
    /// Domains to complete short names with.
    pub searches: Vec<String>,
    /// Options such as `ndots:5`.
    pub options: Vec<String>,
}

impl ResolvConf {
    /// Reads the text as resolvers do: name servers add up, the last `search` (or `domain`) and the last `options` count.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => found.nameservers.extend(words.next().map(str::to_owned)),
                Some("search") => found.searches = words.map(without_final_dot).collect(),
                Some("domain") => found.searches = words.take(1).map(without_final_dot).collect(),
                Some("options") => found.options = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        found
    }

    /// Whether it names servers, but only such as listen on this machine's loopback: a pod has another loopback.
    #[must_use]
    pub fn is_local_stub(&self) -> bool {
        let loopback = |server: &String| server.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        !self.nameservers.is_empty() && self.nameservers.iter().all(loopback)
    }
}

fn without_final_dot(name: &str) -> String {
    match name.strip_suffix('.') {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => name.to_owned(),
    }
}

impl fmt::Display for ResolvConf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.searches.is_empty() {
            writeln!(formatter, "search {}", self.searches.join(" "))?;
        }
        for server in &self.nameservers {
            writeln!(formatter, "nameserver {server}")?;
        }
        if !self.options.is_empty() {
            writeln!(formatter, "options {}", self.options.join(" "))?;
        }
        Ok(())
    }
}

/// Why the machine's resolver configuration could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the resolver configuration {path}")]
pub struct ReadResolverError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// The machine's real resolver configuration: `/etc/resolv.conf`, or systemd's list of real servers when that file names only
/// a stub on loopback. A machine without the file has none, which is no error.
pub fn machine_resolv_conf() -> Result<ResolvConf, ReadResolverError> {
    ResolverFiles::default().read()
}

/// The files that [`machine_resolv_conf`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverFiles {
    /// The machine's.
    pub machine: PathBuf,
    /// What is read instead when that names only a stub on loopback.
    pub behind_stub: PathBuf,
}

impl Default for ResolverFiles {
    fn default() -> Self {
        Self {
            machine: PathBuf::from("/etc/resolv.conf"),
            behind_stub: PathBuf::from("/run/systemd/resolve/resolv.conf"),
        }
    }
}

/// Which version of the files was seen; another one means that they may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverStamp([Option<FileStamp>; 2]);

/// Device, inode, time of the last change (seconds, nanoseconds) and size.
type FileStamp = (u64, u64, i64, i64, u64);

impl ResolverFiles {
    /// Reads them as [`machine_resolv_conf`] does.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn read(&self) -> Result<ResolvConf, ReadResolverError> {
        read_resolv_conf(&self.machine, &self.behind_stub)
    }

    /// Which version of them is there. Two calls of the system.
    #[must_use]
    pub fn stamp(&self) -> ResolverStamp {
        let stamp = |path: &Path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
        };
        ResolverStamp([stamp(&self.machine), stamp(&self.behind_stub)])
    }
}

fn read_resolv_conf(first: &Path, behind_stub: &Path) -> Result<ResolvConf, ReadResolverError> {
    let read = |path: &Path| {
        let mut bytes = Vec::new();
        match File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)) {
            Ok(_) => Ok(ResolvConf::parse(&String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ResolvConf::default()),
            Err(source) => Err(ReadResolverError { path: path.to_owned(), source }),
        }
    };
    let machine = read(first)?;
    if !machine.is_local_stub() {
        return Ok(machine);
    }
    match read(behind_stub) {
        Ok(real) if !real.nameservers.is_empty() && !real.is_local_stub() => Ok(real),
        // A local resolver that is not systemd's: better its search domains and options than nothing at all.
        _ => Ok(machine),
    }
}

/// `spec.dnsPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsPolicy {
    /// The cluster's DNS; for a pod in the machine's network the machine's.
    ClusterFirst,
    /// The cluster's DNS, also in the machine's network.
    ClusterFirstWithHostNet,
    /// The machine's.
    Default,
    /// Only what the pod says.
    None,
}

impl DnsPolicy {
    /// Reads the field; an unknown policy is treated as the default one, as a kubelet does.
    #[must_use]
    pub fn from_field(text: Option<&str>) -> Self {
        match text {
            Some("ClusterFirstWithHostNet") => Self::ClusterFirstWithHostNet,
            Some("Default") => Self::Default,
            Some("None") => Self::None,
            _ => Self::ClusterFirst,
        }
    }
}

/// `spec.dnsConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// Further name servers.
    pub nameservers: Vec<String>,
    /// Further search domains.
    pub searches: Vec<String>,
    /// Options by name, with their value where they have one; each replaces one of the same name.
    pub options: Vec<(String, Option<String>)>,
}

/// The cluster's DNS, once there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDns {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The domain of the cluster, usually `cluster.local`; empty for none.
    pub domain: String,
}

/// What had to be left out (a kubelet's events with reason `DNSConfigForming`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsLimit {
    /// More name servers than a resolver asks; these stayed.
    Nameservers(Vec<String>),
    /// More or longer search domains than allowed; these stayed.
    Searches(Vec<String>),
}

impl fmt::Display for DnsLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nameservers(kept) => write!(
                formatter,
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
                kept.join(" ")
            ),
            Self::Searches(kept) => write!(
                formatter,
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
                kept.join(" ")
            ),
        }
    }
}

/// The DNS of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDns {
    /// What its `resolv.conf` says.
    pub resolv_conf: ResolvConf,
    /// It wanted the cluster's DNS, there is none, and it got the machine's: see [`missing_cluster_dns_message`].
    pub missing_cluster_dns: bool,
    /// What had to be left out.
    pub limits: Vec<DnsLimit>,
}

/// The text of the event about a pod that wanted the cluster's DNS. `pod` is `NAME_NAMESPACE(UID)` for the event of the pod,
/// `None` for that of the node.
#[must_use]
pub fn missing_cluster_dns_message(pod: Option<&str>) -> String {
    let text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling \
                back to \"Default\" policy.";
    match pod {
        Some(pod) => format!("pod: \"{pod}\". {text}"),
        None => text.to_owned(),
    }
}

/// Decides the DNS of a pod.
#[must_use]
pub fn pod_dns(
    policy: DnsPolicy,
    in_host_network: bool,
    namespace: &str,
    config: Option<&DnsConfig>,
    cluster: Option<&ClusterDns>,
    machine: &ResolvConf,
) -> PodDns {
    let wants_cluster = match policy {
        DnsPolicy::ClusterFirst => !in_host_network,
        DnsPolicy::ClusterFirstWithHostNet => true,
        DnsPolicy::Default | DnsPolicy::None => false,
    };
    let mut dns = PodDns::default();
    match cluster.filter(|cluster| wants_cluster && !cluster.addresses.is_empty()) {
        Some(cluster) => {
            dns.resolv_conf.nameservers = cluster.addresses.iter().map(IpAddr::to_string).collect();
            if !cluster.domain.is_empty() {
                let domain = &cluster.domain;
                dns.resolv_conf.searches =
                    vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
            }
            dns.resolv_conf.searches.extend(machine.searches.iter().cloned());
            dns.resolv_conf.options = vec!["ndots:5".to_owned()];
        }
        None if policy == DnsPolicy::None => {}
        None => {
            dns.resolv_conf = machine.clone();
            dns.missing_cluster_dns = wants_cluster;
        }
    }
    if let Some(config) = config {
        dns.resolv_conf.nameservers.extend(config.nameservers.iter().cloned());
        dns.resolv_conf.searches.extend(config.searches.iter().cloned());
        replace_options(&mut dns.resolv_conf.options, &config.options);
    }
    drop_duplicates(&mut dns.resolv_conf.nameservers);
    drop_duplicates(&mut dns.resolv_conf.searches);
    apply_limits(&mut dns);
    dns
}

fn replace_options(options: &mut Vec<String>, by: &[(String, Option<String>)]) {
    for (name, value) in by {
        let text = match value.as_deref() {
            None | Some("") => name.clone(),
            Some(value) => format!("{name}:{value}"),
        };
        match options.iter_mut().find(|option| option.split(':').next() == Some(name)) {
            Some(option) => *option = text,
            None => options.push(text),
        }
    }
}

fn drop_duplicates(list: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    list.retain(|item| seen.insert(item.clone()));
}

fn apply_limits(dns: &mut PodDns) {
    let conf = &mut dns.resolv_conf;
    if conf.nameservers.len() > MAX_NAMESERVERS {
        conf.nameservers.truncate(MAX_NAMESERVERS);
        dns.limits.push(DnsLimit::Nameservers(conf.nameservers.clone()));
    }
    let before = conf.searches.len();
    conf.searches.truncate(MAX_SEARCHES);
    conf.searches.retain(|search| search.len() <= MAX_NAME);
    while conf.searches.iter().map(|search| search.len() + 1).sum::<usize>() > MAX_SEARCH_CHARACTERS + 1 {
        conf.searches.pop();
    }
    if conf.searches.len() < before {
        dns.limits.push(DnsLimit::Searches(conf.searches.clone()));
    }
}

#[cfg(test)]
mod tests;
