use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Authority, Kubeconfig, ReplacedReason, files, write_kubeconfig};
use crate::identity::Identity;

#[test]
fn certificates_are_kept_until_something_about_them_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let pki = directory.path().join("pki");
    let authority = Authority::open(&pki).expect("made");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let server = authority.server(&names).expect("made");
    let admin = authority.client("admin", &Identity::admin()).expect("made");
    let again = Authority::open(&pki).expect("read");
    assert_eq!(again.certificate_pem(), authority.certificate_pem());
    assert_eq!(again.server(&names).expect("read"), server);
    assert_eq!(again.client("admin", &Identity::admin()).expect("read"), admin);
    assert_ne!(again.server(&["other".to_owned()]).expect("new names"), server);
    assert_ne!(again.client("admin", &Identity::node("n")).expect("somebody else"), admin);
    for entry in fs::read_dir(&pki).expect("a directory") {
        let entry = entry.expect("an entry");
        assert_eq!(
            entry.metadata().expect("there").permissions().mode() & 0o777,
            0o600,
            "{:?}",
            entry.path()
        );
    }
    assert_eq!(fs::metadata(&pki).expect("there").permissions().mode() & 0o777, 0o700);
    assert!(files::days_left(&server.certificate).expect("a certificate") > 300);
}

#[test]
fn a_client_certificate_names_user_and_groups() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::open(directory.path()).expect("made");
    for identity in [Identity::admin(), Identity::node("host-1")] {
        let credential = authority.client("c", &identity).expect("made");
        let der = files::der(credential.certificate_pem()).expect("PEM");
        assert_eq!(Identity::from_certificate(&der), Some(identity));
    }
}

#[test]
fn a_damaged_authority_is_moved_aside_and_everything_made_anew() {
    let other = tempfile::tempdir().expect("a directory");
    Authority::open(other.path()).expect("made");
    let foreign_key = fs::read(other.path().join("ca.key")).expect("there");
    for (name, damaged, reason, kept) in [
        ("ca.key", Some(b"nonsense".to_vec()), ReplacedReason::Damaged, 2),
        ("ca.key", Some(vec![0xff; 40]), ReplacedReason::Damaged, 2),
        ("ca.key", Some(foreign_key), ReplacedReason::Damaged, 2),
        ("ca.key", None, ReplacedReason::Incomplete, 1),
        ("ca.crt", Some(Vec::new()), ReplacedReason::Damaged, 2),
        ("ca.crt", None, ReplacedReason::Incomplete, 1),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let first = Authority::open(directory.path()).expect("made");
        assert_eq!(first.replaced(), None, "there was nothing to replace");
        let server = first.server(&["localhost".to_owned()]).expect("made");
        match &damaged {
            Some(bytes) => fs::write(directory.path().join(name), bytes).expect("writable"),
            None => fs::remove_file(directory.path().join(name)).expect("there"),
        }
        let second = Authority::open(directory.path()).expect("made anew");
        assert_ne!(second.certificate_pem(), first.certificate_pem());
        assert_ne!(second.server(&["localhost".to_owned()]).expect("of the new authority"), server);
        let replaced = second.replaced().expect("it is told");
        assert_eq!((replaced.reason, replaced.kept.len()), (reason, kept), "{name}");
        assert!(replaced.kept.iter().all(|path| path.exists()), "nothing is deleted");
        assert_eq!(Authority::open(directory.path()).expect("read").replaced(), None, "told once");
    }
}

#[test]
fn a_kubeconfig_is_private_and_holds_everything() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::open(directory.path()).expect("made");
    let credential = authority.client("admin", &Identity::admin()).expect("made");
    let path = directory.path().join("kubeconfig");
    let kubeconfig = Kubeconfig {
        name: "coracle",
        server: "https://127.0.0.1:6443",
        authority_pem: authority.certificate_pem(),
        credential: &credential,
    };
    write_kubeconfig(&path, &kubeconfig).expect("written");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).expect("readable");
    assert!(text.contains("    server: https://127.0.0.1:6443\n"), "{text}");
    assert!(text.ends_with("current-context: coracle\n"));
}
