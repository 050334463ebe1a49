//! Formats of credential files, precedence, helper programs, and that nothing secret is shown.

use std::os::unix::fs::PermissionsExt;

use super::*;

async fn find(text: &str, reference: &str) -> Result<Option<Credentials>, CredentialsError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    std::fs::write(&path, text).unwrap();
    CredentialSources::files(vec![path]).find(&Reference::parse(reference).unwrap()).await
}

#[tokio::test]
async fn entries_are_found_by_registry_and_by_path() {
    // "ann:secret" and "bob:other".
    let file = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"YW5uOnNlY3JldA=="},
        "quay.io/team":{"auth":"Ym9iOm90aGVy"},"quay.io":{"username":"u","password":"p:q"},"empty.io":{},
        "token.io":{"registrytoken":"t"}}}"#;
    for (reference, expected) in [
        ("busybox", Some(Credentials::basic("ann", "secret"))),
        ("quay.io/team/app", Some(Credentials::basic("bob", "other"))),
        ("quay.io/teams/app", Some(Credentials::basic("u", "p:q"))),
        ("token.io/a", Some(Credentials::bearer("t"))),
        ("empty.io/a", None),
        ("elsewhere.io/a", None),
    ] {
        assert!(find(file, reference).await.unwrap() == expected, "{reference}");
    }
}

#[tokio::test]
async fn damaged_files_say_where_and_never_what() {
    for text in [
        "{\"auths\":{\"a.io\":{\"auth\":\"c2VjcmV0LWNhbmFyeQ==\"}},\n canary",
        r#"{"auths":{"a.io":{"auth":"c2VjcmV0LWNhbmFyeQ=="}}}"#,
        r#"{"auths":{"a.io":{"auth":"%%canary"}}}"#,
        r#"{"auths":{"a.io":{"identitytoken":"canary"}}}"#,
        r#"{"auths":{"a.io":"canary"}}"#,
    ] {
        let error = find(text, "a.io/b").await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("canary") && !shown.contains("c2Vj"), "{shown}");
    }
    assert!(find(" \n", "a.io/b").await.unwrap().is_none());
    assert_eq!(format!("{:?}", Credentials::basic("user", "canary")), "Credentials");
}

#[tokio::test]
async fn a_helper_that_is_not_installed_is_named() {
    let error = find(r#"{"credHelpers":{"a.io":"coracle-test-absent"}}"#, "a.io/b").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "credential helper docker-credential-coracle-test-absent is not installed: install it or remove it from the credentials file"
    );
    assert!(find(r#"{"credsStore":"../../bin/sh"}"#, "a.io/b").await.is_err());
}

/// Helpers are found through PATH, which a test cannot change for itself alone: it runs itself again.
#[test]
fn helpers_answer_through_their_protocol() {
    const MARK: &str = "CORACLE_TEST_HELPER_DIRECTORY";
    let Some(directory) = std::env::var_os(MARK) else {
        let directory = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\nread server\ncase $server in\n\
            a.io) echo '{\"ServerURL\":\"a.io\",\"Username\":\"ann\",\"Secret\":\"secret\"}';;\n\
            https://index.docker.io/v1/) echo '{\"Username\":\"<token>\",\"Secret\":\"canary\"}';;\n\
            b.io) echo 'credentials not found in native keychain'; exit 1;;\n\
            *) echo canary; echo canary >&2; exit 1;;\nesac\n";
        let path = directory.path().join("docker-credential-fake");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let search = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "credentials::tests::helpers_answer_through_their_protocol", "--nocapture"])
            .env(MARK, directory.path())
            .env("PATH", search)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    };
    assert!(!directory.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = r#"{"auths":{"a.io":{}},"credsStore":"fake"}"#;
        assert!(find(store, "a.io/x").await.unwrap() == Some(Credentials::basic("ann", "secret")));
        assert!(find(store, "b.io/x").await.unwrap().is_none());
        for reference in ["busybox", "c.io/x"] {
            let error = find(store, reference).await.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"));
        }
    });
}
