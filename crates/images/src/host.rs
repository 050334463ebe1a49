//! The machine itself as an image: `coracle.dev/host`, and what of it no container may see.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::image::Image;
use crate::reference::Reference;

/// The reserved reference of the machine's root file system.
pub const HOST_IMAGE: &str = "coracle.dev/host";

/// Whether a reference means the machine itself. Any tag but `latest`, and any digest, does not.
pub(crate) fn is_host(reference: &Reference) -> bool {
    reference.name() == HOST_IMAGE && reference.digest().is_none() && reference.tag() == Some("latest")
}

/// The machine as an image: one layer, `/`, and a configuration that says nothing.
pub(crate) fn host_image() -> Image {
    Image {
        id: Digest::of(HOST_IMAGE.as_bytes()),
        references: vec![format!("{HOST_IMAGE}:latest")],
        repo_digests: Vec::new(),
        config: ImageConfig::default(),
        architecture: crate::manifest::architecture().to_owned(),
        layers: vec![PathBuf::from("/")],
        size: 0,
        is_host: true,
    }
}

/// Something of the machine that containers on the host image must not see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaskedPath {
    /// Absolute, without links in it.
    pub path: PathBuf,
    /// What has to cover it.
    pub kind: MaskedPathKind,
}

/// What covers a masked path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MaskedPathKind {
    /// An empty directory that cannot be written.
    Directory,
    /// An empty file.
    File,
}

/// Paths with secrets on ordinary machines: homes, password hashes, private keys, states of other container tools.
const SECRET_PLACES: &[&str] = &[
    "/root",
    "/home",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/krb5.keytab",
    "/etc/ipsec.secrets",
    "/etc/ipsec.d/private",
    "/etc/swanctl/private",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ppp/chap-secrets",
    "/etc/ppp/pap-secrets",
    "/etc/NetworkManager/system-connections",
    "/etc/wpa_supplicant",
    "/etc/netplan",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/docker/certs.d",
    "/etc/containers/certs.d",
    "/etc/crypttab",
    "/etc/cryptsetup-keys.d",
    "/etc/credstore",
    "/etc/credstore.encrypted",
    "/etc/mysql/debian.cnf",
    "/etc/exim4/passwd.client",
    "/etc/postfix/sasl_passwd",
    "/etc/msmtprc",
    "/etc/samba",
    "/var/lib/samba/private",
    "/var/lib/cloud",
    "/var/lib/coracle",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/lib/rancher",
    "/var/lib/systemd/credential.secret",
    "/var/lib/NetworkManager",
    "/var/lib/iwd",
    "/var/lib/fprint",
    "/var/backups",
    "/var/mail",
    "/var/spool/mail",
    "/var/spool/cron",
    "/var/spool/anacron",
    "/boot/grub/grub.cfg",
    "/lost+found",
    "/run/coracle",
    "/run/containerd",
    "/run/docker.sock",
    "/run/crio",
    "/run/podman",
];

/// Directories of which files with these beginnings and ends are private keys.
const KEY_FILES: &[(&str, &str, &str)] = &[
    ("/etc/ssh", "ssh_host_", ""),
    ("/etc/ssh", "", "_key"),
    ("/etc/dropbear", "", "_host_key"),
    ("/etc", "kubeconfig", ""),
];

/// What must be covered in every container on the host image: only paths that exist, each once, sorted, none inside
/// another.
///
/// `private` are further places: the data directories of this node and its neighbours, the kubeconfig in use.
/// Homes of people (user numbers from 1,000) in other places than `/home` are found through `/etc/passwd`.
pub fn host_masked_paths(private: &[PathBuf]) -> Vec<MaskedPath> {
    let mut candidates: BTreeSet<PathBuf> = SECRET_PLACES.iter().map(PathBuf::from).collect();
    candidates.extend(private.iter().cloned());
    for (directory, beginning, end) in KEY_FILES {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        candidates.extend(entries.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(beginning) && name.ends_with(end) && !name.ends_with(".pub")
        }));
    }
    candidates.extend(homes(&read_capped(Path::new("/etc/passwd"), 1 << 20)));
    let existing = candidates.iter().filter_map(|path| {
        let path = path.canonicalize().ok()?;
        let kind = match std::fs::symlink_metadata(&path).ok()?.is_dir() {
            true => MaskedPathKind::Directory,
            false => MaskedPathKind::File,
        };
        // Covering the root would leave nothing; a data directory there is the caller's mistake.
        (path != Path::new("/")).then_some(MaskedPath { path, kind })
    });
    outermost(existing.collect())
}

/// Drops what lies inside another path of the list.
fn outermost(paths: BTreeSet<MaskedPath>) -> Vec<MaskedPath> {
    let mut kept: Vec<MaskedPath> = Vec::new();
    for path in paths {
        if !kept.iter().any(|above| path.path.starts_with(&above.path)) {
            kept.push(path);
        }
    }
    kept
}

/// Homes of people. Homes of services are often directories that everybody needs, such as `/bin`.
fn homes(passwd: &str) -> Vec<PathBuf> {
    passwd
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let uid: u32 = fields.get(2)?.parse().ok()?;
            let home = Path::new(*fields.get(5)?);
            let ordinary =
                (1000..65534).contains(&uid) && home.is_absolute() && home.components().count() > 2;
            ordinary.then(|| home.to_path_buf())
        })
        .collect()
}

fn read_capped(path: &Path, limit: u64) -> String {
    use std::io::Read;
    let mut text = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // What cannot be read names no homes.
        let _ = file.take(limit).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_of_people_only() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbin:x:2:2::/bin:/bin/sh\nann:x:1000:1000::/srv/people/ann:/bin/sh\n\
                      top:x:1001:1001::/opt:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\nbroken\n::::::\n";
        assert_eq!(homes(passwd), [PathBuf::from("/srv/people/ann")]);
    }

    #[test]
    fn password_hashes_and_data_directories_are_masked_once() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/etc/shadow", &link).unwrap();
        let masked = host_masked_paths(&[inner.clone(), directory.path().to_path_buf(), link, "/".into()]);
        let paths: Vec<&Path> = masked.iter().map(|it| it.path.as_path()).collect();
        assert!(paths.contains(&Path::new("/etc/shadow")));
        assert!(paths.contains(&Path::new("/root")));
        assert!(paths.contains(&directory.path()) || directory.path().starts_with("/root"));
        assert!(!paths.contains(&inner.as_path()));
        assert!(!paths.contains(&Path::new("/")));
        assert_eq!(paths.iter().filter(|path| **path == Path::new("/etc/shadow")).count(), 1);
    }

    #[test]
    fn only_the_bare_name_is_the_host() {
        let is_host = |text: &str| super::is_host(&Reference::parse(text).unwrap());
        assert!(is_host("coracle.dev/host"));
        assert!(is_host("coracle.dev/host:latest"));
        assert!(!is_host("coracle.dev/host:1"));
        assert!(!is_host("coracle.dev/hosts"));
        assert!(!is_host("docker.io/coracle.dev/host"));
    }
}
