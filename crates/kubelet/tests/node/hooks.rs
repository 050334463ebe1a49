//! Hooks between a real API server and a runtime that behaves like one: delivery, reasons, logs, what they hold up.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::hooks_and_probes::serve;
use super::{container, container_with};

fn exec(command: &str) -> Value {
    json!({"exec": {"command": [command]}})
}

async fn reaches_call(cluster: &Cluster, call: &str) {
    let look = async {
        while !cluster.runtime.calls().iter().any(|made| made.starts_with(call)) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), look)
        .await
        .unwrap_or_else(|_| panic!("no call {call:?} among {:#?}", cluster.runtime.calls()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_an_agent_did_not_finish_is_delivered_again_by_the_next_and_says_attempt_2() {
    let mut cluster = Cluster::new().await;
    cluster.runtime.hold_exec("hello");
    let hooks = json!({"lifecycle": {"postStart": exec("hello")}});
    let spec = json!({"containers": [container_with("a", &["run"], hooks), container("b", &["run"])]});
    cluster.create_pod("p", spec).await;
    reaches_call(&cluster, "exec_sync hello").await;
    let waiting = cluster.waiting("p", "ContainerCreating").await;
    assert!(waiting.is_empty() || waiting.starts_with("running postStart hook for"), "{waiting}");
    cluster
        .pod_becomes("p", "told", |pod| {
            let message = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
            message.as_str().is_some_and(|text| text.starts_with("running postStart hook for"))
        })
        .await;
    assert!(cluster.runtime.container("b").is_none(), "the next container waits");
    cluster.stop().await;
    cluster.runtime.release_exec("hello");
    cluster.start();
    cluster.phase("p", "Running").await;
    let event =
        cluster.event("HookFinished spec.containers{a}: postStart hook finished: exit status 0").await;
    assert!(
        event.contains("attempt 2") && event.contains("coracle logs pod/p -n default -c a --hook postStart")
    );
    let environments = cluster.runtime.exec_environments("hello");
    assert_eq!(
        environments,
        [["HOOK_NAME=postStart", "HOOK_ATTEMPT=1"], ["HOOK_NAME=postStart", "HOOK_ATTEMPT=2"]]
    );
    assert_eq!(cluster.runtime.container("a").expect("it runs").starts, 1);
    cluster.stop().await;
    cluster.start();
    cluster.phase("p", "Running").await;
    cluster.event("HookFinished").await;
    assert_eq!(cluster.runtime.exec_environments("hello").len(), 2, "what ended is not delivered again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_stop_hook_that_an_agent_did_not_finish_is_delivered_again_with_the_same_reason() {
    let mut cluster = Cluster::new().await;
    cluster.runtime.hold_exec("bye");
    let hooks = json!({"lifecycle": {"preStop": exec("bye")}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], hooks)]})).await;
    cluster.phase("p", "Running").await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    reaches_call(&cluster, "exec_sync bye").await;
    cluster.stop().await;
    cluster.runtime.release_exec("bye");
    cluster.start();
    cluster.gone("p").await;
    let environments = cluster.runtime.exec_environments("bye");
    assert_eq!(
        environments,
        [
            ["HOOK_NAME=preStop", "HOOK_ATTEMPT=1", "HOOK_REASON=Delete"],
            ["HOOK_NAME=preStop", "HOOK_ATTEMPT=2", "HOOK_REASON=Delete"],
        ]
    );
    let calls = cluster.runtime.calls();
    let place = |text: &str| calls.iter().rposition(|call| call.starts_with(text)).expect("called");
    assert!(place("exec_sync bye") < place("stop_container a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_its_health_check_hears_health() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("check", 1);
    let fields = json!({"lifecycle": {"preStop": exec("bye")},
        "livenessProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1}});
    let annotations = json!({"hooks.coracle.dev/parameters": "true"});
    let spec = json!({"containers": [container_with("a", &["run"], fields)]});
    cluster.create_annotated("p", annotations, spec).await;
    reaches_call(&cluster, "exec_sync bye --reason=Health").await;
    cluster.event("HookFinished spec.containers{a}: preStop hook finished").await;
    let environments = cluster.runtime.exec_environments("bye --reason=Health");
    assert_eq!(environments[0], ["HOOK_NAME=preStop", "HOOK_ATTEMPT=1", "HOOK_REASON=Health"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_sandbox_died_hears_dependency() {
    let cluster = Cluster::new().await;
    let hooks = json!({"lifecycle": {"preStop": exec("bye")}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], hooks)]})).await;
    cluster.phase("p", "Running").await;
    cluster.runtime.kill_sandboxes();
    reaches_call(&cluster, "exec_sync bye").await;
    let environments = cluster.runtime.exec_environments("bye");
    assert_eq!(environments[0], ["HOOK_NAME=preStop", "HOOK_ATTEMPT=1", "HOOK_REASON=Dependency"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_hook_is_its_own_and_hides_secrets_and_events_show_no_output() {
    let cluster = Cluster::new().await;
    cluster.create_secret("s", json!({"password": "hunter22"})).await;
    cluster.runtime.print_on_exec("hello", "password hunter22\n\u{1b}[2J\n", "to stderr");
    cluster.runtime.answer_exec("hello", 3);
    let fields = json!({"lifecycle": {"postStart": exec("hello")},
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}]});
    let spec = json!({"restartPolicy": "Never", "containers": [container_with("a", &["run"], fields)]});
    cluster.create_pod("p", spec).await;
    let event = cluster.event("FailedPostStartHook spec.containers{a}: PostStartHook failed").await;
    assert!(event.contains("exit status 3 after") && event.contains("attempt 1"), "{event}");
    let pod = cluster.phase("p", "Failed").await;
    let (status, text) = cluster.http("/containerLogs/default/p/a?hook=postStart").await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("password ****\n\\u{1b}[2J\n") && text.contains("to stderr\n"), "{text}");
    assert!(text.contains("[postStart hook, attempt 1]") && text.contains("failed: exit status 3"), "{text}");
    let (_, own) = cluster.http("/containerLogs/default/p/a").await;
    assert!(!own.contains("password"), "the container's own log is apart: {own}");
    let events = cluster.event_texts().await.join("\n");
    assert!(!events.contains("hunter22") && !events.contains("to stderr"), "{events}");
    assert!(!pod.to_string().contains("hunter22"));
    let (status, text) = cluster.http("/containerLogs/default/p/a?hook=preStop").await;
    assert_eq!((status, text.contains("no preStop hook")), (400, true), "{text}");
    let (status, text) = cluster.http("/containerLogs/default/p/a?hook=afterwards").await;
    assert_eq!((status, text.contains("none of preStart")), (400, true), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_documents_contract_a_hook_succeeds_when_it_prints_ok() {
    for (printed, code, succeeds) in [("ok\n", 7, true), ("fine\n", 0, false), ("", 0, false)] {
        let cluster = Cluster::new().await;
        cluster.runtime.print_on_exec("hello", printed, "");
        cluster.runtime.answer_exec("hello", code);
        let hooks = json!({"lifecycle": {"postStart": exec("hello")}});
        let annotations = json!({"hooks.coracle.dev/contract": "document"});
        let spec = json!({"restartPolicy": "Never", "containers": [container_with("a", &["run"], hooks)]});
        cluster.create_annotated("p", annotations, spec).await;
        let wanted = if succeeds { "HookFinished" } else { "FailedPostStartHook" };
        cluster.event(wanted).await;
        cluster.phase("p", if succeeds { "Running" } else { "Failed" }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_with_a_timeout_fails_after_it() {
    let cluster = Cluster::new().await;
    cluster.runtime.hold_exec("hello");
    let hooks = json!({"lifecycle": {"postStart": exec("hello")}});
    let annotations = json!({"hooks.coracle.dev/timeouts": "{\"a\": {\"postStart\": \"200ms\"}}"});
    let spec = json!({"restartPolicy": "Never", "containers": [container_with("a", &["run"], hooks)]});
    cluster.create_annotated("p", annotations, spec).await;
    let event = cluster.event("FailedPostStartHook").await;
    assert!(event.contains("timed out after 0.2 s"), "{event}");
    cluster.phase("p", "Failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_hook_never_ends_can_be_deleted() {
    let cluster = Cluster::new().await;
    cluster.runtime.hold_exec("hello");
    let hooks = json!({"lifecycle": {"postStart": exec("hello"), "preStop": {"sleep": {"seconds": 0}}}});
    let spec =
        json!({"terminationGracePeriodSeconds": 3, "containers": [container_with("a", &["run"], hooks)]});
    cluster.create_pod("p", spec).await;
    reaches_call(&cluster, "exec_sync hello").await;
    let began = std::time::Instant::now();
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    cluster.gone("p").await;
    assert!(began.elapsed().as_secs() < 10);
    let events = cluster.event_texts().await;
    assert!(!events.iter().any(|event| event.contains("FailedPostStartHook")), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_start_hook_comes_before_the_container_and_its_failure_keeps_it_from_being_created() {
    let cluster = Cluster::new().await;
    let (port, requests) = serve("HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n").await;
    let handler = json!({"a": {"preStart": {"httpGet": {"path": "/soon", "port": port}}}});
    let annotations = json!({"hooks.coracle.dev/handlers": handler.to_string(),
        "hooks.coracle.dev/contract": "document"});
    let spec = json!({"hostNetwork": true, "containers": [container("a", &["run"])]});
    cluster.create_annotated("p", annotations, spec.clone()).await;
    let message = cluster.waiting("p", "PreStartHookError").await;
    assert!(message.starts_with("HTTP lifecycle hook (/soon) for Container \"a\""), "{message}");
    assert!(message.ends_with("failed - error: HTTP status 500"), "{message}");
    cluster.event("FailedPreStartHook spec.containers{a}: PreStartHook failed: HTTP status 500").await;
    assert!(cluster.runtime.container("a").is_none());
    assert!(requests.lock().expect("not poisoned").join("").contains("GET /soon"));
    // The same under today's rule: any answer is a success.
    let annotations = json!({"hooks.coracle.dev/handlers": handler.to_string()});
    cluster.create_annotated("q", annotations, spec).await;
    cluster.phase("q", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_runs_post_restart_before_post_start() {
    let cluster = Cluster::new().await;
    let hooks = json!({"lifecycle": {"postStart": exec("started")}});
    let handlers = json!({"a": {"postRestart": exec("restarted")}});
    let annotations = json!({"hooks.coracle.dev/handlers": handlers.to_string()});
    let spec = json!({"containers": [container_with("a", &["run"], hooks)]});
    cluster.create_annotated("p", annotations, spec).await;
    cluster.phase("p", "Running").await;
    cluster.runtime.end("a", 1);
    cluster
        .pod_becomes("p", "restarted", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["ready"] == true
        })
        .await;
    let calls = cluster.runtime.calls();
    let hooks: Vec<&str> = calls.iter().filter_map(|call| call.strip_prefix("exec_sync ")).collect();
    assert_eq!(hooks, ["started", "restarted", "started"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn references_in_hooks_are_expanded_where_the_pod_asks() {
    let cluster = Cluster::new().await;
    let (port, requests) = serve("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let fields = json!({"env": [{"name": "A", "value": "x y"}], "lifecycle": {
        "postStart": {"httpGet": {"path": "/start?a=1", "port": port,
            "httpHeaders": [{"name": "X-A", "value": "$(A)"}, {"name": "Host", "value": "web.local"}]}},
        "preStop": {"exec": {"command": ["bye", "$(A)", "$(NOBODY)"]}}}});
    let spec = json!({"hostNetwork": true, "containers": [container_with("a", &["run"], fields)]});
    cluster.create_annotated("p", json!({"hooks.coracle.dev/expand": "true"}), spec).await;
    cluster.phase("p", "Running").await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    cluster.gone("p").await;
    let requests = requests.lock().expect("not poisoned").join("");
    assert!(requests.contains("GET /start?a=1 HTTP/1.1"), "{requests}");
    assert!(requests.contains("X-A: x y") && requests.contains("Host: web.local"), "{requests}");
    reaches_call(&cluster, "exec_sync bye x y $(NOBODY)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn link_local_hosts_are_refused_with_an_event() {
    let cluster = Cluster::new().await;
    let hooks = json!({"lifecycle": {"postStart": {"httpGet": {"host": "169.254.169.254", "path": "/", "port": 80}}}});
    let spec = json!({"restartPolicy": "Never", "hostNetwork": true, "containers": [container_with("a", &["run"], hooks)]});
    cluster.create_pod("p", spec).await;
    cluster.event("HostRefused spec.containers{a}: 169.254.169.254 is the link-local address").await;
    cluster.phase("p", "Failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_https_hook_that_is_answered_in_plain_http_is_repeated_so() {
    let cluster = Cluster::new().await;
    let (port, requests) = serve_plain().await;
    let hooks = json!({"lifecycle": {"postStart": {"httpGet": {"scheme": "HTTPS", "path": "/tls", "port": port,
        "httpHeaders": [{"name": "Authorization", "value": "Bearer x"}]}}}});
    let spec = json!({"hostNetwork": true, "containers": [container_with("a", &["run"], hooks)]});
    cluster.create_pod("p", spec).await;
    cluster.phase("p", "Running").await;
    let event = cluster.event("LifecycleHTTPFallback").await;
    assert!(event.contains(&format!(":{port} got HTTP response, retry with HTTP succeeded")), "{event}");
    let requests = requests.lock().expect("not poisoned").join("");
    assert!(requests.contains("GET /tls") && !requests.contains("Authorization"), "{requests}");
}

/// A server that answers whatever comes, a handshake too, in plain HTTP.
async fn serve_plain() -> (u16, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let requests = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4096];
            let count = stream.read(&mut bytes).await.unwrap_or(0);
            kept.lock().expect("not poisoned").push(String::from_utf8_lossy(&bytes[..count]).into_owned());
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    (port, requests)
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_documents_contract_health_checks_pause_while_a_hook_runs() {
    let cluster = Cluster::new().await;
    cluster.runtime.hold_exec("bye");
    let fields = json!({"lifecycle": {"preStop": exec("bye")},
        "readinessProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1}});
    let annotations = json!({"hooks.coracle.dev/contract": "document"});
    let spec =
        json!({"terminationGracePeriodSeconds": 20, "containers": [container_with("a", &["run"], fields)]});
    cluster.create_annotated("p", annotations, spec).await;
    cluster.pod_becomes("p", "ready", |pod| pod["status"]["containerStatuses"][0]["ready"] == true).await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    reaches_call(&cluster, "exec_sync bye").await;
    let checks = || cluster.runtime.calls().iter().filter(|call| *call == "exec_sync check").count();
    // One that was under way may still come; after that there is none for more than two periods.
    let before = checks() + 1;
    cluster
        .pod_becomes("p", "told", |pod| {
            pod["status"]["message"]
                .as_str()
                .is_some_and(|text| text.contains("running preStop hook for 3 s"))
        })
        .await;
    assert!(checks() <= before, "{} checks before, {} now", before, checks());
    cluster.runtime.release_exec("bye");
    cluster.gone("p").await;
}

/// A server that answers with this head, and then with bytes without end.
async fn serve_endlessly(head: String) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = head.clone();
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(&[b'x'; 1024]).await.is_ok() {}
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_ends_holds_up_nobody_and_an_endless_head_is_refused() {
    let cluster = Cluster::new().await;
    let body = serve_endlessly("HTTP/1.1 200 OK\r\n\r\n".to_owned()).await;
    let head = serve_endlessly("HTTP/1.1 200 OK\r\nx-long: ".to_owned()).await;
    for (name, port, phase) in [("body", body, "Running"), ("head", head, "Failed")] {
        let hooks = json!({"lifecycle": {"postStart": {"httpGet": {"path": "/", "port": port}}}});
        let spec = json!({"restartPolicy": "Never", "hostNetwork": true,
            "containers": [container_with("a", &["run"], hooks)]});
        cluster.create_pod(name, spec).await;
        cluster.phase(name, phase).await;
    }
    let (_, text) = cluster.http("/containerLogs/default/body/a?hook=postStart").await;
    assert!(text.len() < 12 * 1024 && text.contains("HTTP status 200"), "{} bytes", text.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_within_the_host_ten_times_and_not_to_another() {
    let cluster = Cluster::new().await;
    let (again, asked) = serve("HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n").await;
    let away = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
    let (away, _) = serve(away).await;
    for (name, port, phase, told) in [
        ("again", again, "Failed", "PostStartHook failed: stopped after 10 redirects"),
        ("away", away, "Running", "postStart hook finished: HTTP status 302"),
    ] {
        let hooks = json!({"lifecycle": {"postStart": {"httpGet": {"path": "/", "port": port}}}});
        let spec = json!({"restartPolicy": "Never", "hostNetwork": true,
            "containers": [container_with("a", &["run"], hooks)]});
        cluster.create_pod(name, spec).await;
        cluster.phase(name, phase).await;
        cluster.event(told).await;
    }
    assert_eq!(asked.lock().expect("not poisoned").len(), 11, "the first and ten redirects");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_a_hook_runs_is_a_failure_of_that_hook_and_of_nothing_else() {
    let cluster = Cluster::new().await;
    cluster.runtime.fail_once("exec_sync", "panic");
    let hooks = json!({"lifecycle": {"postStart": exec("hello")}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], hooks)]})).await;
    cluster.event("FailedPostStartHook spec.containers{a}: PostStartHook failed: the node agent met an internal error").await;
    cluster.create_pod("q", json!({"containers": [container("b", &["run"])]})).await;
    cluster.phase("q", "Running").await;
    // The next instance's hook is a new one, and succeeds.
    cluster.event("HookFinished spec.containers{a}: postStart hook finished: exit status 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn https_hooks_and_probes_take_any_certificate() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let dir = tempfile::tempdir().expect("a directory");
    let authority = apiserver::authority::Authority::open(dir.path()).expect("an authority");
    let credential = authority.server(&["somebody.else".to_owned()]).expect("a certificate");
    let tls = apiserver::server_tls(authority.certificate_pem(), &credential).expect("a configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(tls);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap_or(0);
            let asked = String::from_utf8_lossy(&request[..count]).into_owned();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {count}\r\n\r\n{asked}");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let cluster = Cluster::new().await;
    let action = json!({"httpGet": {"scheme": "HTTPS", "path": "/secure", "port": port}});
    let fields = json!({"lifecycle": {"postStart": action},
        "readinessProbe": {"httpGet": {"scheme": "HTTPS", "path": "/ready", "port": port}, "periodSeconds": 1}});
    let spec = json!({"hostNetwork": true, "containers": [container_with("a", &["run"], fields)]});
    cluster.create_pod("p", spec).await;
    cluster.pod_becomes("p", "ready", |pod| pod["status"]["containerStatuses"][0]["ready"] == true).await;
    let (_, text) = cluster.http("/containerLogs/default/p/a?hook=postStart").await;
    assert!(text.contains("GET /secure HTTP/1.1") && text.contains("HTTP status 200"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_documents_contract_a_container_whose_volume_fails_hears_dependency_and_waits_for_it() {
    let cluster = Cluster::new().await;
    let disk = cluster.dir.path().join("disk");
    std::fs::create_dir(&disk).expect("made");
    cluster.runtime.print_on_exec("bye", "ok", "");
    let fields = json!({"lifecycle": {"preStop": exec("bye")}, "volumeMounts": [{"name": "disk", "mountPath": "/disk"}]});
    let spec = json!({"containers": [container_with("a", &["run"], fields), container("b", &["run"])],
        "volumes": [{"name": "disk", "hostPath": {"path": disk, "type": "Directory"}}]});
    cluster.create_annotated("p", json!({"hooks.coracle.dev/contract": "document"}), spec).await;
    cluster.phase("p", "Running").await;
    std::fs::remove_dir(&disk).expect("removed");
    cluster
        .event("Killing spec.containers{a}: Container a has lost its volume disk, will be restarted")
        .await;
    reaches_call(&cluster, "exec_sync bye").await;
    let environments = cluster.runtime.exec_environments("bye");
    assert_eq!(environments[0], ["HOOK_NAME=preStop", "HOOK_ATTEMPT=1", "HOOK_REASON=Dependency"]);
    cluster.event("FailedMount").await;
    std::fs::create_dir(&disk).expect("made");
    cluster
        .pod_becomes("p", "restarted", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["ready"] == true
        })
        .await;
    assert_eq!(cluster.runtime.container("b").expect("it runs").attempt(), 0, "the other one goes on");
}
