//! Where an image is fetched from: the rules of `registries.conf` (version 2) applied to a reference.
//!
//! Mirrors, insecure and blocked registries are honoured. Short names are not looked up there: they mean what they mean
//! to docker and Kubernetes; an alias only gives a hint.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::reference::Reference;

/// Why rules cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesError {
    /// A file that exists and cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not TOML of the expected shape.
    #[error("{path} is not a valid registries.conf of version 2")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: Box<toml::de::Error>,
    },
}

/// The rules of all files together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryRules {
    registries: BTreeMap<String, Registry>,
    aliases: BTreeMap<String, String>,
}

/// One place to fetch an image from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Host and port.
    pub(crate) registry: String,
    pub(crate) repository: String,
    /// Certificates need not be valid, and plain HTTP will do.
    pub(crate) insecure: bool,
}

/// The rules forbid this registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocked;

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct RawFile {
    #[serde(default)]
    registry: Vec<Registry>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Registry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<Mirror>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Mirror {
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    pull_from_mirror: Option<String>,
}

impl RegistryRules {
    /// The rules of this machine and user; none where there are no files.
    pub fn of_user() -> Result<RegistryRules, RegistriesError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let user = variable("XDG_CONFIG_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".config")))
            .map(|config| config.join("containers/registries.conf"))
            .filter(|path| path.exists());
        let main = variable("CONTAINERS_REGISTRIES_CONF")
            .or(user)
            .unwrap_or_else(|| PathBuf::from("/etc/containers/registries.conf"));
        let mut files = vec![main];
        files.extend(drop_ins(Path::new("/etc/containers/registries.conf.d")));
        RegistryRules::read(&files)
    }

    /// The rules of these files, later ones replacing what earlier ones say of the same prefix.
    pub fn read(files: &[PathBuf]) -> Result<RegistryRules, RegistriesError> {
        let mut rules = RegistryRules::default();
        for path in files {
            let text = match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => return Err(RegistriesError::Read { path: path.clone(), source }),
            };
            rules
                .add(&text)
                .map_err(|source| RegistriesError::Syntax { path: path.clone(), source: Box::new(source) })?;
        }
        Ok(rules)
    }

    fn add(&mut self, text: &str) -> Result<(), toml::de::Error> {
        let file: RawFile = toml::from_str(text)?;
        for mut registry in file.registry {
            if registry.prefix.is_empty() {
                registry.prefix.clone_from(&registry.location);
            }
            if registry.prefix.is_empty() {
                continue;
            }
            self.registries.insert(registry.prefix.clone(), registry);
        }
        self.aliases.extend(file.aliases);
        Ok(())
    }

    /// Where to fetch a reference from, in this order.
    pub(crate) fn endpoints(&self, reference: &Reference) -> Result<Vec<Endpoint>, Blocked> {
        let name = reference.name();
        let rule = self
            .registries
            .values()
            .filter_map(|registry| matched(&registry.prefix, &name).map(|length| (length, registry)))
            .max_by_key(|(_, registry)| registry.prefix.len());
        let Some((length, registry)) = rule else {
            return Ok(vec![endpoint(&name, false)]);
        };
        if registry.blocked {
            return Err(Blocked);
        }
        let rest = &name[length..];
        let by_digest = reference.digest().is_some();
        let mirrors = registry.mirror.iter().filter(|mirror| match mirror.pull_from_mirror.as_deref() {
            Some("digest-only") => by_digest,
            Some("tag-only") => !by_digest,
            _ => by_digest || !registry.mirror_by_digest_only,
        });
        let mut endpoints: Vec<Endpoint> = mirrors
            .filter(|mirror| !mirror.location.is_empty())
            .map(|mirror| endpoint(&format!("{}{rest}", mirror.location), mirror.insecure))
            .collect();
        let origin = match registry.location.is_empty() {
            true => name.clone(),
            false => format!("{}{rest}", registry.location),
        };
        endpoints.push(endpoint(&origin, registry.insecure));
        Ok(endpoints)
    }

    /// The full name that the machine's rules have for a short one, when it is another one than docker's.
    pub(crate) fn alias(&self, text: &str) -> Option<&str> {
        let name = text.split(['@', ':']).next()?;
        self.aliases.get(name).map(String::as_str)
    }
}

fn drop_ins(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    paths.sort();
    paths
}

fn endpoint(name: &str, insecure: bool) -> Endpoint {
    let (registry, repository) = name.split_once('/').unwrap_or((name, ""));
    Endpoint {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        insecure: insecure || is_loopback(registry),
    }
}

/// How many bytes of a name a prefix covers: whole components only; `*.` stands for any host below a domain.
fn matched(prefix: &str, name: &str) -> Option<usize> {
    if let Some(domain) = prefix.strip_prefix("*.") {
        let (host_suffix, path) = domain.split_once('/').unwrap_or((domain, ""));
        let host = name.split('/').next()?;
        let plain = host.rsplit_once(':').map_or(host, |(plain, _)| plain);
        let fits = path.is_empty()
            && [host, plain]
                .iter()
                .any(|host| host.strip_suffix(host_suffix).is_some_and(|rest| rest.ends_with('.')));
        return fits.then_some(host.len());
    }
    let rest = name.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(prefix.len())
}

/// Whether traffic to this host never leaves the machine.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
unqualified-search-registries = ["example.com"]
short-name-mode = "enforcing"

[[registry]]
prefix = "docker.io"
location = "docker.io"
[[registry.mirror]]
location = "mirror.local:5000/hub"
insecure = true
[[registry.mirror]]
location = "second.local"
pull-from-mirror = "digest-only"

[[registry]]
location = "bad.example"
blocked = true

[[registry]]
prefix = "*.corp.example"
insecure = true

[[registry]]
prefix = "quay.io/team"
location = "internal.example/quay"

[[registry]]
location = "digests.example"
mirror-by-digest-only = true
[[registry.mirror]]
location = "m.example/d"

[aliases]
"fedora" = "registry.fedoraproject.org/fedora"
"#;

    fn endpoints(text: &str) -> Vec<String> {
        let mut rules = RegistryRules::default();
        rules.add(RULES).unwrap();
        let reference = Reference::parse(text).unwrap();
        match rules.endpoints(&reference) {
            Err(Blocked) => vec!["blocked".to_owned()],
            Ok(endpoints) => endpoints
                .into_iter()
                .map(|it| {
                    format!("{}/{}{}", it.registry, it.repository, if it.insecure { " insecure" } else { "" })
                })
                .collect(),
        }
    }

    #[test]
    fn rules_decide_where_to_fetch_from() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (reference, expected) in [
            (
                "busybox".to_owned(),
                vec!["mirror.local:5000/hub/library/busybox insecure", "docker.io/library/busybox"],
            ),
            (
                format!("busybox@{digest}"),
                vec![
                    "mirror.local:5000/hub/library/busybox insecure",
                    "second.local/library/busybox",
                    "docker.io/library/busybox",
                ],
            ),
            ("bad.example/a".to_owned(), vec!["blocked"]),
            ("bad.example.org/a".to_owned(), vec!["bad.example.org/a"]),
            ("a.corp.example:5000/b".to_owned(), vec!["a.corp.example:5000/b insecure"]),
            ("xcorp.example/b".to_owned(), vec!["xcorp.example/b"]),
            ("quay.io/team/app".to_owned(), vec!["internal.example/quay/app"]),
            ("quay.io/teams/app".to_owned(), vec!["quay.io/teams/app"]),
            ("digests.example/a".to_owned(), vec!["digests.example/a"]),
            (format!("digests.example/a@{digest}"), vec!["m.example/d/a", "digests.example/a"]),
            ("localhost:5000/a".to_owned(), vec!["localhost:5000/a insecure"]),
            ("[::1]:5000/a".to_owned(), vec!["[::1]:5000/a insecure"]),
            ("127.8.8.8/a".to_owned(), vec!["127.8.8.8/a insecure"]),
        ] {
            assert_eq!(endpoints(&reference), expected, "{reference}");
        }
    }

    #[test]
    fn short_names_stay_dockers_and_aliases_are_hints() {
        let mut rules = RegistryRules::default();
        rules.add(RULES).unwrap();
        assert_eq!(rules.alias("fedora:40"), Some("registry.fedoraproject.org/fedora"));
        assert_eq!(rules.alias("busybox"), None);
    }

    #[test]
    fn damaged_rules_are_an_error_with_their_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registries.conf");
        assert_eq!(RegistryRules::read(std::slice::from_ref(&path)).unwrap(), RegistryRules::default());
        std::fs::write(&path, "[[registry]\n").unwrap();
        assert!(matches!(RegistryRules::read(&[path]), Err(RegistriesError::Syntax { .. })));
    }
}
