//! The host name of a pod and its `/etc/hosts`, as a kubelet writes them. Pure.

use std::fmt::Write as _;
use std::net::IpAddr;

/// The most characters of one part of a host name.
const LABEL_LENGTH: usize = 63;
/// The most bytes of the kernel's host name.
const KERNEL_LENGTH: usize = 64;

/// An entry of `spec.hostAliases`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAlias {
    /// The address, as the pod spells it.
    pub ip: String,
    /// The names for it, in order.
    pub hostnames: Vec<String>,
}

/// What a hosts file is made of.
#[derive(Clone, Debug)]
pub struct HostsFile<'a> {
    /// The pod's addresses, best first.
    pub pod_ips: &'a [IpAddr],
    /// The pod's short name.
    pub host: &'a str,
    /// Its domain; empty when the pod has none.
    pub domain: &'a str,
    /// Additional entries.
    pub aliases: &'a [HostAlias],
    /// The machine's own hosts file, for a pod in the machine's network.
    pub machine: Option<&'a str>,
}

/// Renders the file (facts: kubelet, `pkg/kubelet/kubelet_pods.go`, `managedHostsFileContent`).
#[must_use]
pub fn hosts_file(file: &HostsFile<'_>) -> String {
    let mut text = String::new();
    match file.machine {
        Some(machine) => {
            text.push_str("# Kubernetes-managed hosts file (host network).\n");
            text.push_str(machine);
        }
        None => {
            text.push_str(
                "# Kubernetes-managed hosts file.\n\
                 127.0.0.1\tlocalhost\n\
                 ::1\tlocalhost ip6-localhost ip6-loopback\n\
                 fe00::0\tip6-localnet\n\
                 fe00::0\tip6-mcastprefix\n\
                 fe00::1\tip6-allnodes\n\
                 fe00::2\tip6-allrouters\n",
            );
            for ip in file.pod_ips {
                let host = file.host;
                let _ = match file.domain {
                    "" => writeln!(text, "{ip}\t{host}"),
                    domain => writeln!(text, "{ip}\t{host}.{domain}\t{host}"),
                };
            }
        }
    }
    if !file.aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
        for alias in file.aliases {
            let _ = writeln!(text, "{}\t{}", alias.ip, alias.hostnames.join("\t"));
        }
    }
    text
}

/// What a pod is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodHostname {
    /// The short name.
    pub host: String,
    /// The domain, or empty.
    pub domain: String,
    /// What the kernel of the pod answers to `hostname`: the short name, or the full one when the pod asks for it.
    pub kernel: String,
}

/// Why a pod cannot be named as it asks.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostnameError {
    /// The full name does not fit into the kernel's host name.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long \
         (64 characters is the max, {} characters requested)", fqdn.len()
    )]
    TooLong {
        /// The full name.
        fqdn: String,
    },
}

/// The fields of a pod that decide its name.
#[derive(Clone, Copy, Debug)]
pub struct HostnameFields<'a> {
    /// `metadata.name`.
    pub pod_name: &'a str,
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `spec.hostname`.
    pub hostname: Option<&'a str>,
    /// `spec.subdomain`.
    pub subdomain: Option<&'a str>,
    /// `spec.hostnameOverride`.
    pub hostname_override: Option<&'a str>,
    /// `spec.setHostnameAsFQDN`.
    pub fqdn_in_kernel: bool,
    /// The domain of the cluster, usually `cluster.local`.
    pub cluster_domain: &'a str,
}

/// Decides the name of a pod.
pub fn pod_hostname(fields: &HostnameFields<'_>) -> Result<PodHostname, HostnameError> {
    if let Some(name) = fields.hostname_override.filter(|name| !name.is_empty()) {
        return Ok(PodHostname { host: name.to_owned(), domain: String::new(), kernel: name.to_owned() });
    }
    let name = fields.hostname.filter(|name| !name.is_empty()).unwrap_or(fields.pod_name);
    let cut = name.char_indices().nth(LABEL_LENGTH).map_or(name, |(end, _)| &name[..end]);
    let host = cut.trim_end_matches(['-', '.']).to_owned();
    let domain = match fields.subdomain.filter(|subdomain| !subdomain.is_empty()) {
        Some(subdomain) => format!("{subdomain}.{}.svc.{}", fields.namespace, fields.cluster_domain),
        None => String::new(),
    };
    let mut kernel = host.clone();
    if fields.fqdn_in_kernel && !domain.is_empty() {
        kernel = format!("{host}.{domain}");
        if kernel.len() > KERNEL_LENGTH {
            return Err(HostnameError::TooLong { fqdn: kernel });
        }
    }
    Ok(PodHostname { host, domain, kernel })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: HostnameFields<'static> = HostnameFields {
        pod_name: "web-0",
        namespace: "shop",
        hostname: None,
        subdomain: None,
        hostname_override: None,
        fqdn_in_kernel: false,
        cluster_domain: "cluster.local",
    };

    fn check(fields: HostnameFields<'_>, host: &str, domain: &str, kernel: &str) {
        let expected = PodHostname { host: host.into(), domain: domain.into(), kernel: kernel.into() };
        assert_eq!(pod_hostname(&fields), Ok(expected), "{fields:?}");
    }

    #[test]
    fn the_pod_name_names_the_host_unless_the_pod_says_otherwise() {
        let fields = FIELDS;
        check(fields, "web-0", "", "web-0");
        check(HostnameFields { hostname: Some("db"), ..fields }, "db", "", "db");
        check(HostnameFields { hostname: Some(""), ..fields }, "web-0", "", "web-0");
        let domain = "sub.shop.svc.cluster.local";
        check(HostnameFields { subdomain: Some("sub"), ..fields }, "web-0", domain, "web-0");
        let full = HostnameFields { subdomain: Some("sub"), fqdn_in_kernel: true, ..fields };
        check(full, "web-0", domain, "web-0.sub.shop.svc.cluster.local");
        check(HostnameFields { hostname_override: Some("over.ride"), ..full }, "over.ride", "", "over.ride");
        check(HostnameFields { subdomain: None, ..full }, "web-0", "", "web-0");
    }

    #[test]
    fn a_long_name_is_cut_and_loses_its_trailing_marks() {
        let long = format!("{}-.-tail", "a".repeat(61));
        check(HostnameFields { pod_name: &long, ..FIELDS }, &"a".repeat(61), "", &"a".repeat(61));
    }

    #[test]
    fn a_full_name_that_the_kernel_cannot_hold_is_refused() {
        let subdomain = "s".repeat(60);
        let refused =
            pod_hostname(&HostnameFields { subdomain: Some(&subdomain), fqdn_in_kernel: true, ..FIELDS });
        let fqdn = format!("web-0.{subdomain}.shop.svc.cluster.local");
        let text = format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the \
             max, {} characters requested)",
            fqdn.len()
        );
        assert_eq!(refused.expect_err("too long").to_string(), text);
    }

    #[test]
    fn a_pod_finds_itself_and_its_aliases_in_the_file() {
        let ips = ["10.1.0.2".parse().expect("an address"), "fd00::2".parse().expect("an address")];
        let aliases = [
            HostAlias { ip: "10.9.0.1".into(), hostnames: vec!["foo.local".into(), "bar.local".into()] },
            HostAlias { ip: "10.9.0.2".into(), hostnames: vec!["baz".into()] },
        ];
        let file = HostsFile {
            pod_ips: &ips,
            host: "web",
            domain: "sub.shop.svc.x",
            aliases: &aliases,
            machine: None,
        };
        let expected = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
            fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n\
            10.1.0.2\tweb.sub.shop.svc.x\tweb\nfd00::2\tweb.sub.shop.svc.x\tweb\n\
            \n# Entries added by HostAliases.\n10.9.0.1\tfoo.local\tbar.local\n10.9.0.2\tbaz\n";
        assert_eq!(hosts_file(&file), expected);
        let plain = hosts_file(&HostsFile { pod_ips: &ips[..1], domain: "", aliases: &[], ..file });
        assert!(plain.ends_with("fe00::2\tip6-allrouters\n10.1.0.2\tweb\n"), "{plain}");
    }

    #[test]
    fn a_pod_in_the_machines_network_sees_the_machines_file() {
        let aliases = [HostAlias { ip: "10.9.0.1".into(), hostnames: vec!["foo".into()] }];
        let machine = Some("127.0.0.1 localhost\n192.0.2.2 box\n");
        let file = HostsFile { pod_ips: &[], host: "web", domain: "", aliases: &aliases, machine };
        let expected = "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n192.0.2.2 box\n\
            \n# Entries added by HostAliases.\n10.9.0.1\tfoo\n";
        assert_eq!(hosts_file(&file), expected);
    }
}
