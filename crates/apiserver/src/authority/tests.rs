use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Authority, Kubeconfig, files, write_kubeconfig};
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
    let directory = tempfile::tempdir().expect("a directory");
    let first = Authority::open(directory.path()).expect("made");
    let server = first.server(&["localhost".to_owned()]).expect("made");
    fs::write(directory.path().join("ca.key"), "nonsense").expect("writable");
    let second = Authority::open(directory.path()).expect("made anew");
    assert_ne!(second.certificate_pem(), first.certificate_pem());
    assert_ne!(second.server(&["localhost".to_owned()]).expect("of the new authority"), server);
    let kept = fs::read_dir(directory.path())
        .expect("a directory")
        .filter(|entry| entry.as_ref().expect("an entry").file_name().to_string_lossy().contains(".old-"))
        .count();
    assert_eq!(kept, 2);
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
