//! Pulls: from Debian's `docker-registry`, and from registries that lie, break off, or want credentials.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use images::{
    CredentialSources, Credentials, ImageStore, Limits, PullImageError, PullOptions, PullProgress,
    RegistryRules, TransferEvent,
};
use testkit::image::{Compression, ImageMaker, MadeImage, descriptor};
use testkit::registry::{Answer, OddRegistry, TestRegistry};
use testkit::tar::TarMaker;

fn open() -> (tempfile::TempDir, ImageStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = ImageStore::open(directory.path()).unwrap();
    (directory, store)
}

fn app() -> MadeImage {
    ImageMaker::new()
        .layer(TarMaker::new().directory("etc/").file("etc/a", "1").file("etc/b", "1"))
        .layer(TarMaker::new().directory("etc/").file("etc/a", "2").file("etc/.wh.b", ""))
        .env(&["B=1", "A=2"])
        .build()
}

fn assert_nothing_left(store: &ImageStore) {
    assert_eq!(store.list().unwrap(), []);
    for name in ["ingest", "layers", "blobs/sha256", "images", "references"] {
        let left = fs::read_dir(store.directory().join(name)).unwrap().count();
        assert_eq!(left, 0, "{name}");
    }
}

#[derive(Default)]
struct Recorder(Mutex<Vec<TransferEvent>>);

impl PullProgress for Recorder {
    fn report(&self, event: TransferEvent) {
        self.0.lock().unwrap().push(event);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_registry_serves_every_compression_and_what_is_there_is_not_fetched_again() {
    let Some(registry) = TestRegistry::start() else { return };
    let (_directory, store) = open();
    for (tag, compression) in
        [("plain", Compression::Plain), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)]
    {
        let made = ImageMaker::new()
            .layer(TarMaker::new().file(format!("only-{tag}"), vec![b'x'; 1 << 20]))
            .layer(TarMaker::new().file("shared", "x"))
            .compression(compression)
            .build();
        let name = registry.push("team/app", tag, &made);
        let recorder = Arc::new(Recorder::default());
        let image = store.pull(&name, &PullOptions::bare().with_progress(recorder.clone())).await.unwrap();
        assert_eq!(image.id.to_string(), made.id());
        assert_eq!(image.references, [name.as_str()]);
        assert_eq!(fs::metadata(image.layers[0].join(format!("only-{tag}"))).unwrap().len(), 1 << 20);
        assert_eq!(store.resolve(&name).unwrap(), Some(image.clone()));
        let events = recorder.0.lock().unwrap().clone();
        let present =
            events.iter().filter(|event| matches!(event, TransferEvent::Layer { present: true, .. })).count();
        assert_eq!(present, usize::from(tag != "plain"), "the shared layer is fetched once: {events:?}");
        let bytes: u64 = events
            .iter()
            .map(|event| if let TransferEvent::Received { bytes, .. } = event { *bytes } else { 0 })
            .sum();
        assert!(bytes >= made.layers[0].len() as u64);
        // By digest, from what the first pull recorded.
        assert_eq!(store.resolve(&image.repo_digests[0]).unwrap(), Some(image.clone()));
        let again = store.pull(&image.repo_digests[0], &PullOptions::bare()).await.unwrap();
        assert_eq!(again.id, image.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn busybox_from_the_registry_is_an_image_that_runs() {
    let Some(registry) = TestRegistry::start() else { return };
    let Some(maker) = ImageMaker::busybox() else {
        testkit::machine::require(false, "Debian's busybox-static");
        return;
    };
    let name = registry.push("library/busybox", "latest", &maker.build());
    let (_directory, store) = open();
    let image = store.pull(&name, &PullOptions::bare()).await.unwrap();
    if !testkit::machine::require_root() {
        return;
    }
    let output = std::process::Command::new("chroot")
        .arg(&image.layers[0])
        .args(["/bin/sh", "-c", "grep -c user /etc/passwd; stat -c %a /tmp"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n1777\n", "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machines_platform_is_chosen_from_a_list() {
    let Some(registry) = TestRegistry::start() else { return };
    let maker = ImageMaker::new().layer(TarMaker::new().file("f", "x"));
    let (own, other) = (maker.build(), maker.build_for("s390x"));
    let (_directory, store) = open();
    registry.push("multi", "other", &other);
    let single = registry.push("multi", "own", &own);
    let architecture = store.pull(&single, &PullOptions::bare()).await.unwrap().architecture;
    let entry = |image: &MadeImage, architecture: &str| {
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &image.manifest);
        entry["platform"] = serde_json::json!({ "os": "linux", "architecture": architecture });
        entry
    };
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    let index = |manifests: Vec<serde_json::Value>| {
        serde_json::json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests }).to_string()
    };
    registry.push_manifest(
        "multi",
        "both",
        INDEX,
        index(vec![entry(&other, "s390x"), entry(&own, &architecture)]).as_bytes(),
    );
    let name = format!("{}/multi:both", registry.address());
    assert_eq!(store.pull(&name, &PullOptions::bare()).await.unwrap().id.to_string(), own.id());
    registry.push_manifest("multi", "none", INDEX, index(vec![entry(&other, "s390x")]).as_bytes());
    let error =
        store.pull(&format!("{}/multi:none", registry.address()), &PullOptions::bare()).await.unwrap_err();
    assert!(error.to_string().contains("only for linux/s390x"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_with_what_was_nearly_meant() {
    let Some(registry) = TestRegistry::start() else { return };
    let (_directory, store) = open();
    let name = registry.push("team/shop", "1", &app());
    store.pull(&name, &PullOptions::bare()).await.unwrap();
    let options = PullOptions::bare();
    for missing in [name.replace(":1", ":2"), name.replace("team/shop:1", "shop")] {
        let error = store.pull(&missing, &options).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert!(!error.is_retryable());
        assert_eq!(
            store.pull_hint(&missing, &options, &error).unwrap(),
            format!("did you mean the imported image {name}?")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_taken_from_options_and_files_and_go_nowhere_else() {
    let made = app();
    // Basic authentication as `user:secret`.
    let registry = OddRegistry::with_image(made.clone(), |asked, right| {
        match asked.headers.get("authorization").map(String::as_str) {
            Some("Basic dXNlcjpzZWNyZXQ=") => right,
            _ => Answer::status(401, r#"{"errors":[{"code":"UNAUTHORIZED","message":"no"}]}"#)
                .header("WWW-Authenticate", "Basic realm=\"odd\""),
        }
    });
    let name = format!("{}/team/app:1", registry.address());
    let (directory, store) = open();
    let error = store.pull(&name, &PullOptions::bare()).await.unwrap_err();
    assert!(matches!(error, PullImageError::Unauthorized { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("docker login"));
    let wrong = PullOptions::bare().with_credentials(Credentials::basic("user", "wrong-canary"));
    let error = store.pull(&name, &wrong).await.unwrap_err();
    assert!(matches!(error, PullImageError::Unauthorized { .. }));
    assert!(!format!("{error} {error:?} {wrong:?}").contains("canary"));
    let right = PullOptions::bare().with_credentials(Credentials::basic("user", "secret"));
    assert_eq!(store.pull(&name, &right).await.unwrap().id.to_string(), made.id());
    store.remove(&name).unwrap();
    let file = directory.path().join("auth.json");
    fs::write(
        &file,
        format!(r#"{{"auths":{{"{}/team":{{"auth":"dXNlcjpzZWNyZXQ="}}}}}}"#, registry.address()),
    )
    .unwrap();
    let from_file = PullOptions::bare().with_sources(CredentialSources::files(vec![file]));
    store.pull(&name, &from_file).await.unwrap();
    let elsewhere = OddRegistry::with_image(made, |_, right| right);
    store.pull(&format!("{}/team/app:1", elsewhere.address()), &from_file).await.unwrap();
    assert!(elsewhere.asked().iter().all(|asked| !asked.headers.contains_key("authorization")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_service_is_asked_with_the_credentials() {
    let made = app();
    let service = OddRegistry::start(|asked| match asked.headers.get("authorization").map(String::as_str) {
        Some("Basic dXNlcjpzZWNyZXQ=")
            if asked.target.contains("repository%3Ateam%2Fapp%3Apull")
                || asked.target.contains("repository:team/app:pull") =>
        {
            Answer::ok(r#"{"token":"the-token"}"#).header("Content-Type", "application/json")
        }
        _ => Answer::status(401, "{}"),
    });
    let realm = format!("Bearer realm=\"http://{}/token\",service=\"odd\"", service.address());
    let registry = OddRegistry::with_image(made.clone(), move |asked, right| {
        match asked.headers.get("authorization").map(String::as_str) {
            Some("Bearer the-token") => right,
            _ => Answer::status(401, "{}").header("WWW-Authenticate", &realm),
        }
    });
    let (_directory, store) = open();
    let name = format!("{}/team/app:1", registry.address());
    assert!(matches!(
        store.pull(&name, &PullOptions::bare()).await,
        Err(PullImageError::Unauthorized { .. })
    ));
    let options = PullOptions::bare().with_credentials(Credentials::basic("user", "secret"));
    assert_eq!(store.pull(&name, &options).await.unwrap().id.to_string(), made.id());
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_lead_to_mirrors_and_blocks() {
    let made = app();
    let mirror = OddRegistry::with_image(made.clone(), |_, right| right);
    let broken = OddRegistry::start(|_| Answer::status(503, "down"));
    let (directory, store) = open();
    let path = directory.path().join("registries.conf");
    fs::write(
        &path,
        format!(
            "[[registry]]\nprefix = \"registry.example\"\nlocation = \"registry.example\"\n\
             [[registry.mirror]]\nlocation = \"{}/a\"\n[[registry.mirror]]\nlocation = \"{}/b\"\n\
             [[registry]]\nlocation = \"bad.example\"\nblocked = true\n",
            broken.address(),
            mirror.address()
        ),
    )
    .unwrap();
    let recorder = Arc::new(Recorder::default());
    let options = PullOptions::bare()
        .with_rules(RegistryRules::read(&[path]).unwrap())
        .with_credentials(Credentials::basic("user", "secret"))
        .with_progress(recorder.clone());
    let image = store.pull("registry.example/team/app:1", &options).await.unwrap();
    assert_eq!(image.references, ["registry.example/team/app:1"], "the name is the one that was asked for");
    assert!(mirror.asked().iter().any(|asked| asked.target == "/v2/b/team/app/manifests/1"));
    assert!(
        mirror
            .asked()
            .iter()
            .chain(&broken.asked())
            .all(|asked| !asked.headers.contains_key("authorization"))
    );
    let retried = recorder
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|event| matches!(event, TransferEvent::Retrying { .. }))
        .count();
    assert_eq!(retried, 1);
    let error = store.pull("bad.example/app", &options).await.unwrap_err();
    assert!(matches!(error, PullImageError::Blocked { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_transfer_is_resumed_where_it_broke() {
    let made = ImageMaker::new()
        .layer(TarMaker::new().file("f", (0..300_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()))
        .compression(Compression::Plain)
        .build();
    for resumes in [true, false] {
        let layer = made.layers[0].clone();
        let digest = testkit::image::digest(&layer);
        let asked_for = AtomicUsize::new(0);
        let registry = OddRegistry::with_image(made.clone(), move |asked, right| {
            if !asked.target.ends_with(&digest) {
                return right;
            }
            let count = asked_for.fetch_add(1, Ordering::Relaxed);
            let from: usize = match asked.headers.get("range").filter(|_| resumes) {
                Some(range) => range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap(),
                None => 0,
            };
            let rest = layer[from..].to_vec();
            let cut = (count < 2).then_some(if resumes { 400_000 } else { 400_000 + count });
            let status = if from > 0 { 206 } else { 200 };
            let range = format!("bytes {from}-{}/{}", layer.len() - 1, layer.len());
            Answer { cut, ..Answer::status(status, rest).header("Content-Range", &range) }
        });
        let (_directory, store) = open();
        let recorder = Arc::new(Recorder::default());
        let options = PullOptions::bare().with_progress(recorder.clone());
        let image = store.pull(&format!("{}/app", registry.address()), &options).await.unwrap();
        assert_eq!(fs::metadata(image.layers[0].join("f")).unwrap().len(), 1_200_000);
        let ranges: Vec<String> =
            registry.asked().iter().filter_map(|asked| asked.headers.get("range").cloned()).collect();
        assert_eq!(ranges.len(), 2, "{ranges:?}");
        let bytes: u64 = recorder
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|event| if let TransferEvent::Received { bytes, .. } = event { *bytes } else { 0 })
            .sum();
        if resumes {
            assert_eq!(bytes, made.layers[0].len() as u64, "nothing came twice");
        }
    }
}

/// Registries that lie (T62): nothing becomes visible, nothing stays.
#[tokio::test(flavor = "multi_thread")]
async fn lies_of_registries_are_found_before_anything_is_visible() {
    type Change = fn(&MadeImage, &str, Answer) -> Answer;
    let cases: Vec<(&str, Change, &str)> = vec![
        (
            "another layer",
            |made, target, right| {
                if target.ends_with(&testkit::image::digest(&made.layers[0])) {
                    Answer { body: vec![0; right.body.len()], ..right }
                } else {
                    right
                }
            },
            "in place of",
        ),
        (
            "a longer layer",
            |made, target, mut right| {
                if target.ends_with(&testkit::image::digest(&made.layers[0])) {
                    right.body.extend_from_slice(b"more");
                }
                right
            },
            "at most",
        ),
        (
            "a shorter layer",
            |made, target, mut right| {
                if target.ends_with(&testkit::image::digest(&made.layers[0])) {
                    right.body.truncate(10);
                }
                right
            },
            "in place of",
        ),
        (
            "another configuration",
            |made, target, right| {
                if target.ends_with(&made.id()) {
                    Answer { body: br#"{"rootfs":{"diff_ids":[]}}"#.to_vec(), ..right }
                } else {
                    right
                }
            },
            "in place of",
        ),
        (
            "an endless configuration",
            |made, target, right| {
                if target.ends_with(&made.id()) {
                    Answer { body: vec![b' '; 5 << 20], ..right }
                } else {
                    right
                }
            },
            "at most 4194304",
        ),
        (
            "a manifest of 5 MiB",
            |_, target, right| {
                if target.contains("/manifests/") {
                    Answer { body: vec![b' '; 5 << 20], ..right }
                } else {
                    right
                }
            },
            "at most 4194304",
        ),
        (
            "a manifest that is no JSON",
            |_, target, right| {
                if target.contains("/manifests/") {
                    Answer { body: b"<html>".to_vec(), ..right }
                } else {
                    right
                }
            },
            "not readable",
        ),
        (
            "a manifest of 2015",
            |_, target, right| {
                if target.contains("/manifests/") {
                    Answer { body: br#"{"schemaVersion":1}"#.to_vec(), ..right }
                } else {
                    right
                }
            },
            "schema version 1",
        ),
        (
            "a chart",
            |made, target, right| {
                if target.contains("/manifests/") {
                    let text = String::from_utf8(made.manifest.clone()).unwrap();
                    Answer {
                        body: text.replace("vnd.oci.image.config", "vnd.cncf.helm.config").into_bytes(),
                        ..right
                    }
                } else {
                    right
                }
            },
            "artifact",
        ),
        (
            "a list of itself",
            |_, target, right| {
                if target.contains("/manifests/") {
                    // The digest cannot be right; were it, the depth would end it.
                    let index = format!(
                        r#"{{"schemaVersion":2,"manifests":[{{"digest":"sha256:{}","size":1}}]}}"#,
                        "0".repeat(64)
                    );
                    Answer { body: index.into_bytes(), ..right }
                } else {
                    right
                }
            },
            "in place of",
        ),
        (
            "a layer that claims 2^60 bytes",
            |made, target, right| {
                if target.contains("/manifests/") {
                    let mut manifest: serde_json::Value = serde_json::from_slice(&made.manifest).unwrap();
                    manifest["layers"][0]["size"] = serde_json::json!(1_u64 << 60);
                    Answer { body: manifest.to_string().into_bytes(), ..right }
                } else {
                    right
                }
            },
            "at most",
        ),
        (
            "fewer layers than the configuration has",
            |made, target, right| {
                if target.contains("/manifests/") {
                    let mut manifest: serde_json::Value = serde_json::from_slice(&made.manifest).unwrap();
                    manifest["layers"].as_array_mut().unwrap().pop();
                    Answer { body: manifest.to_string().into_bytes(), ..right }
                } else {
                    right
                }
            },
            "the configuration 2",
        ),
        (
            "layers in the wrong order",
            |made, target, right| {
                if target.contains("/manifests/") {
                    let mut manifest: serde_json::Value = serde_json::from_slice(&made.manifest).unwrap();
                    manifest["layers"].as_array_mut().unwrap().reverse();
                    Answer { body: manifest.to_string().into_bytes(), ..right }
                } else {
                    right
                }
            },
            "layer",
        ),
        (
            "a digest of another kind",
            |made, target, right| {
                if target.contains("/manifests/") {
                    let text = String::from_utf8(made.manifest.clone()).unwrap();
                    Answer { body: text.replacen("sha256:", "md5:", 1).into_bytes(), ..right }
                } else {
                    right
                }
            },
            "not readable",
        ),
        ("out of order", |_, _, right| Answer { status: 500, ..right }, "status 500"),
        (
            "too many requests",
            |_, _, right| Answer {
                status: 429,
                body: br#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow\u001b[2J down"}]}"#.to_vec(),
                ..right
            },
            "down",
        ),
        (
            "no layer",
            |made, target, right| {
                if target.ends_with(&testkit::image::digest(&made.layers[0])) {
                    Answer { status: 404, body: Vec::new(), ..right }
                } else {
                    right
                }
            },
            "not found",
        ),
        (
            "endless redirects",
            |_, _, right| Answer { status: 307, ..right }.header("Location", "/v2/again"),
            "",
        ),
    ];
    for (name, change, expected) in cases {
        let made = app();
        let inner = made.clone();
        let registry =
            OddRegistry::with_image(made, move |asked, right| change(&inner, &asked.target, right));
        let (_directory, store) = open();
        let store = store.with_limits(Limits::DEFAULT);
        let error = match store.pull(&format!("{}/app", registry.address()), &PullOptions::bare()).await {
            Err(error) => error,
            Ok(image) => panic!("{name}: {image:?}"),
        };
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let text = format!("{error}: {source}");
        assert!(text.contains(expected), "{name}: {text}");
        assert!(!text.contains('\u{1b}'), "{name}: {text:?}");
        assert_nothing_left(&store);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_with_a_digest_gets_that_or_nothing() {
    let made = app();
    let registry = OddRegistry::with_image(made.clone(), |_, right| right);
    let (_directory, store) = open();
    let right = format!("{}/app@{}", registry.address(), testkit::image::digest(&made.manifest));
    assert_eq!(store.pull(&right, &PullOptions::bare()).await.unwrap().repo_digests, [right.as_str()]);
    store.remove(&right).unwrap();
    let wrong = format!("{}/app@{}", registry.address(), testkit::image::digest(b"other"));
    store.pull(&wrong, &PullOptions::bare()).await.unwrap_err();
    assert_nothing_left(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_not_there_is_named_with_what_to_do() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (_directory, store) = open();
    let error = store.pull(&format!("127.0.0.1:{port}/app"), &PullOptions::bare()).await.unwrap_err();
    assert!(error.is_registry_unavailable() && error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(error.hint().unwrap().contains("coracle image import"));
    let error = store.pull("UPPER", &PullOptions::bare()).await.unwrap_err();
    assert!(error.is_invalid_name());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_is_given_up_leaves_nothing() {
    let made = ImageMaker::new()
        .layer(TarMaker::new().file("f", vec![b'x'; 1 << 20]))
        .compression(Compression::Plain)
        .build();
    let digest = testkit::image::digest(&made.layers[0]);
    // The first half of the layer arrives; then the registry says nothing more until the test lets go.
    let (started, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let registry = OddRegistry::with_image(made, move |asked, right| {
        if asked.target.ends_with(&digest) {
            started.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        right
    });
    let (_directory, store) = open();
    let task = {
        let (store, name) = (store.clone(), format!("{}/app", registry.address()));
        tokio::spawn(async move { store.pull(&name, &PullOptions::bare()).await })
    };
    begun.recv().await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    drop(release);
    assert_nothing_left(&store);
}

/// The certificate is checked unless the registry is on loopback or named insecure.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_strangers_are_refused() {
    let Some(openssl) = testkit::machine::require_program("openssl") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (key, certificate) = (directory.path().join("key.pem"), directory.path().join("cert.pem"));
    let made = std::process::Command::new(openssl)
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let settings =
        [("REGISTRY_HTTP_TLS_KEY", text(&key)), ("REGISTRY_HTTP_TLS_CERTIFICATE", text(&certificate))];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let Some(registry) = TestRegistry::start_with(&settings) else { return };
    let (_store_directory, store) = open();
    // On loopback its own certificate will do; there is no image, and only a registry can say so.
    let error = store.pull(&format!("{}/app", registry.address()), &PullOptions::bare()).await.unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    // Under another name for the same address it will not.
    let port = registry.address().rsplit(':').next().unwrap();
    let rules = directory.path().join("registries.conf");
    let mut file = fs::File::create(&rules).unwrap();
    writeln!(
        file,
        "[[registry]]\nprefix = \"insecure.example\"\nlocation = \"0.0.0.0:{port}\"\ninsecure = true"
    )
    .unwrap();
    writeln!(file, "[[registry]]\nprefix = \"secure.example\"\nlocation = \"0.0.0.0:{port}\"").unwrap();
    let options = PullOptions::bare().with_rules(RegistryRules::read(&[rules]).unwrap());
    let error = store.pull("insecure.example/app", &options).await.unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    let error = store.pull("secure.example/app", &options).await.unwrap_err();
    assert!(matches!(error, PullImageError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}
