//! The runtime over its socket, as a kubelet or `crictl` uses it: calls, figures, streams, and a daemon that dies.

#[path = "served/served_runtime.rs"]
mod served_runtime;

use std::process::ExitCode;

use cri::v1::{
    AttachRequest, ContainerStatsRequest, ContainerStatusRequest, ExecRequest, ImageSpec, ImageStatusRequest,
    ListContainersRequest, ListPodSandboxRequest, PodSandboxStatsRequest, PodSandboxStatusRequest,
    PortForwardRequest, StatusRequest, VersionRequest,
};
use futures::{SinkExt as _, StreamExt as _};
use served_runtime::{ServedRuntime, Test, script, waiting};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

const TESTS: &[Test] = &[
    ("a_kubelets_first_questions_are_answered", a_kubelets_first_questions_are_answered),
    ("a_container_is_seen_measured_and_gone", a_container_is_seen_measured_and_gone),
    (
        "a_bare_sandbox_shares_its_processes_as_the_interface_has_it",
        a_bare_sandbox_shares_its_processes_as_the_interface_has_it,
    ),
    ("a_command_streams_over_a_url", a_command_streams_over_a_url),
    ("a_terminal_has_a_size", a_terminal_has_a_size),
    ("a_client_attaches_to_a_container", a_client_attaches_to_a_container),
    ("a_port_of_the_pods_loopback_is_forwarded", a_port_of_the_pods_loopback_is_forwarded),
    ("crictl_executes_and_forwards_over_spdy", crictl_executes_and_forwards_over_spdy),
    ("a_daemon_that_dies_loses_nothing", a_daemon_that_dies_loses_nothing),
];

fn main() -> ExitCode {
    served_runtime::main(TESTS)
}

fn a_kubelets_first_questions_are_answered(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let version = served.runtime.version(VersionRequest::default()).await.expect("answered").into_inner();
        assert_eq!(version.runtime_api_version, "v1");
        let status = served.runtime.status(StatusRequest::default()).await.expect("answered").into_inner();
        let conditions = status.status.expect("a status").conditions;
        for wanted in ["RuntimeReady", "NetworkReady"] {
            assert!(
                conditions.iter().any(|condition| condition.r#type == wanted && condition.status),
                "{conditions:?}"
            );
        }
        let image = ImageSpec { image: images::HOST_IMAGE.to_owned(), ..Default::default() };
        let request = ImageStatusRequest { image: Some(image), verbose: false };
        let image = served.images.image_status(request).await.expect("answered").into_inner().image;
        assert!(image.is_some(), "the machine's own image");
        let pods = served.runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await.expect("answered");
        assert!(pods.into_inner().items.is_empty());
        served.end();
    });
}

fn a_container_is_seen_measured_and_gone(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("measured").await;
        let work = "head -c 200000 /dev/zero >/written; for i in 1 2 3 4 5 6 7 8 9; do :; done; \
            trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done";
        let container = served.start_container(&pod, "main", script(work)).await;
        let request = PodSandboxStatusRequest { pod_sandbox_id: pod.id.clone(), verbose: false };
        let status = served.runtime.pod_sandbox_status(request).await.expect("answered").into_inner().status;
        let address = status.and_then(|status| status.network).expect("a network").ip;
        let answer = served.execute(&container, &["/bin/sh", "-c", "cat /proc/net/fib_trie; hostname"]).await;
        let output = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(output.contains(&address), "{address} is the pod's: {output}");
        assert!(output.ends_with("measured\n"), "{output}");

        served
            .execute(&container, &["/bin/sh", "-c", "until [ $(wc -c </written) = 200000 ]; do :; done"])
            .await;
        let request = ContainerStatsRequest { container_id: container.clone() };
        let stats = served
            .runtime
            .container_stats(request)
            .await
            .expect("answered")
            .into_inner()
            .stats
            .expect("figures");
        let layer = stats.writable_layer.expect("a layer");
        assert!(layer.used_bytes.is_some_and(|bytes| bytes.value >= 200_000), "{:?}", layer.used_bytes);
        let request = PodSandboxStatsRequest { pod_sandbox_id: pod.id.clone() };
        let stats = served.runtime.pod_sandbox_stats(request).await.expect("answered").into_inner().stats;
        let linux = stats.and_then(|stats| stats.linux).expect("figures");
        assert_eq!(linux.containers.len(), 1);
        assert!(
            linux
                .network
                .and_then(|network| network.default_interface)
                .is_some_and(|link| link.name == "eth0")
        );
        if let Some(cpu) = linux.cpu {
            assert!(cpu.usage_core_nano_seconds.is_some_and(|time| time.value > 0));
        }

        served.remove(pod).await;
        let containers =
            served.runtime.list_containers(ListContainersRequest::default()).await.expect("answered");
        assert!(containers.into_inner().containers.is_empty());
        served.end();
    });
}

async fn open(served: &ServedRuntime, url: &str, protocol: &str) -> WebSocketStream<TcpStream> {
    let mut request = url.replacen("http", "ws", 1).into_client_request().expect("a URL");
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocol.parse().expect("a header"));
    let address = request.uri().authority().expect("an address").to_string();
    assert!(address.starts_with("127.0.0.1:"), "streams are served on loopback only: {address}");
    let connection = served.connect(&address).await;
    client_async(request, connection).await.expect("upgraded").0
}

/// Everything until the server closes: standard output and the last word.
async fn rest(client: &mut WebSocketStream<TcpStream>) -> (String, String) {
    let (mut output, mut last) = (Vec::new(), Vec::new());
    while let Some(Ok(Message::Binary(bytes))) = client.next().await {
        match bytes[0] {
            1 => output.extend_from_slice(&bytes[1..]),
            3 => last = bytes[1..].to_vec(),
            _ => {}
        }
    }
    (String::from_utf8_lossy(&output).into_owned(), String::from_utf8_lossy(&last).into_owned())
}

/// What `crictl` sends when its files name nothing but names and an image.
fn a_bare_sandbox_shares_its_processes_as_the_interface_has_it(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.bare_pod("bare").await;
        let command = ["/bin/sh", "-c", "tr '\\0' ' ' </proc/1/cmdline; echo; echo $$"];
        let container = cri::v1::ContainerConfig {
            command: command.map(str::to_owned).to_vec(),
            ..cri::v1::ContainerConfig::default()
        };
        let said = served.run_to_end(&pod, "main", container).await;
        let lines: Vec<&str> = said.lines().collect();
        // The first process is the sandbox's own; it says nothing about the machine's directories.
        assert_eq!(lines[0].trim(), "coracle: pod", "{said}");
        assert_ne!(lines[1], "1", "{said}");
        served.remove(pod).await;
        served.end();
    });
}

fn a_command_streams_over_a_url(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("streamed").await;
        let container = served.start_container(&pod, "main", waiting()).await;
        let request = ExecRequest {
            container_id: container.clone(),
            cmd: ["/bin/sh", "-c", "tr a-z A-Z; exit 3"].map(str::to_owned).to_vec(),
            stdin: true,
            stdout: true,
            stderr: true,
            tty: false,
        };
        let url = served.runtime.exec(request).await.expect("a URL").into_inner().url;
        let mut client = open(&served, &url, "v5.channel.k8s.io").await;
        client.send(Message::binary(b"\0shout".to_vec())).await.expect("sent");
        client.send(Message::binary(vec![255, 0])).await.expect("sent");
        let (output, last) = rest(&mut client).await;
        assert_eq!(output, "SHOUT");
        assert!(last.contains("NonZeroExitCode") && last.contains("\"message\":\"3\""), "{last}");

        let request = ExecRequest {
            container_id: container.clone(),
            cmd: vec!["/no/such/program".to_owned()],
            stdout: true,
            ..Default::default()
        };
        let url = served.runtime.exec(request).await.expect("a URL").into_inner().url;
        let (_, last) = rest(&mut open(&served, &url, "v4.channel.k8s.io").await).await;
        assert!(last.contains("/no/such/program"), "{last}");
        served.remove(pod).await;
        served.end();
    });
}

fn a_terminal_has_a_size(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("terminal").await;
        let container = served.start_container(&pod, "main", waiting()).await;
        let wait = "trap 'stty size; exit 0' WINCH; [ -t 0 ] && echo terminal; while :; do sleep 0.1; done";
        let request = ExecRequest {
            container_id: container,
            cmd: ["/bin/sh", "-c", wait].map(str::to_owned).to_vec(),
            stdin: true,
            stdout: true,
            stderr: false,
            tty: true,
        };
        let url = served.runtime.exec(request).await.expect("a URL").into_inner().url;
        let mut client = open(&served, &url, "v4.channel.k8s.io").await;
        let mut said = String::new();
        while !said.contains("terminal") {
            let Some(Ok(Message::Binary(bytes))) = client.next().await else { panic!("it ended: {said}") };
            said.push_str(&String::from_utf8_lossy(&bytes[1..]));
        }
        client.send(Message::binary(b"\x04{\"Width\":132,\"Height\":43}".to_vec())).await.expect("sent");
        let (output, last) = rest(&mut client).await;
        assert!(output.contains("43 132"), "{output} {last}");
        assert!(last.contains("Success"), "{last}");
        served.remove(pod).await;
        served.end();
    });
}

fn a_client_attaches_to_a_container(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("attached").await;
        let mut container = script("read line; echo \"got $line\"");
        container.stdin = true;
        container.stdin_once = true;
        let container = served.start_container(&pod, "main", container).await;
        let request =
            AttachRequest { container_id: container, stdin: true, stdout: true, stderr: true, tty: false };
        let url = served.runtime.attach(request).await.expect("a URL").into_inner().url;
        let mut client = open(&served, &url, "v4.channel.k8s.io").await;
        client.send(Message::binary(b"\0hello\n".to_vec())).await.expect("sent");
        let (output, _) = rest(&mut client).await;
        assert_eq!(output, "got hello\n");
        served.remove(pod).await;
        served.end();
    });
}

fn a_port_of_the_pods_loopback_is_forwarded(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("forwarded").await;
        let serve = "use IO::Socket::INET; $| = 1; \
            my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 8080, Listen => 5) or die; \
            while (my $c = $s->accept) { my $l = <$c>; print $c \"echo $l\"; close $c }";
        let mut container = script("");
        container.command = ["perl", "-e", serve].map(str::to_owned).to_vec();
        let container = served.start_container(&pod, "main", container).await;
        // 0x1F90 is 8080; state 0A is listening.
        let listening = "until grep -q ':1F90 00000000:0000 0A' /proc/net/tcp; do :; done";
        served.execute(&container, &["/bin/sh", "-c", listening]).await;
        let request = PortForwardRequest { pod_sandbox_id: pod.id.clone(), port: vec![8080] };
        let url = served.runtime.port_forward(request).await.expect("a URL").into_inner().url;
        let mut client = open(&served, &url, "v4.channel.k8s.io").await;
        client.send(Message::binary(b"\0hello\n".to_vec())).await.expect("sent");
        let mut received = Vec::new();
        while let Some(Ok(Message::Binary(bytes))) = client.next().await {
            if bytes[0] == 0 {
                received.extend_from_slice(&bytes[1..]);
            }
        }
        assert_eq!(String::from_utf8_lossy(&received[2..]), "echo hello\n", "behind the number of the port");
        served.remove(pod).await;
        served.end();
    });
}

/// A SPDY session at a URL of the runtime, as `crictl` opens one.
async fn open_spdy(
    served: &ServedRuntime,
    url: &str,
    protocol: &str,
) -> (spdy::Opener, tokio::task::JoinHandle<spdy::SessionEnd>) {
    let rest = url.trim_start_matches("http://");
    let (address, path) = rest.split_once('/').expect("a path");
    let mut connection = served.connect(address).await;
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.expect("answered"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    let limits = spdy::Limits::default();
    let (driver, streams, opener) =
        spdy::session(connection, spdy::Role::Client, limits, std::time::Duration::from_secs(600));
    let driver = tokio::spawn(async move {
        let _streams = streams;
        driver.await
    });
    (opener, driver)
}

async fn everything(reader: &mut spdy::StreamReader) -> String {
    let mut all = Vec::new();
    while let spdy::Received::Data(bytes) = reader.next().await {
        all.extend_from_slice(&bytes);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn crictl_executes_and_forwards_over_spdy(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("spdy").await;
        let serve = "use IO::Socket::INET; $| = 1; \
            my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 8080, Listen => 5) or die; \
            while (my $c = $s->accept) { my $l = <$c>; print $c \"echo $l\"; close $c }";
        let mut container = script("");
        container.command = ["perl", "-e", serve].map(str::to_owned).to_vec();
        let container = served.start_container(&pod, "main", container).await;

        let cmd = ["/bin/sh", "-c", "cat; exit 3"].map(str::to_owned).to_vec();
        let request = ExecRequest {
            container_id: container.clone(),
            cmd,
            stdin: true,
            stdout: true,
            ..Default::default()
        };
        let url = served.runtime.exec(request).await.expect("a URL").into_inner().url;
        let (opener, driver) = open_spdy(&served, &url, "v4.channel.k8s.io").await;
        let named = |name: &str| spdy::Headers::new().with("streamType", name);
        let mut error = opener.open(named("error")).await.expect("taken");
        let mut stdin = opener.open(named("stdin")).await.expect("taken");
        let mut stdout = opener.open(named("stdout")).await.expect("taken");
        stdin.writer.send("typed".into()).await.expect("read");
        stdin.writer.finish().await.expect("read");
        assert_eq!(everything(&mut stdout.reader).await, "typed");
        let status = everything(&mut error.reader).await;
        assert!(status.contains("NonZeroExitCode") && status.contains("\"3\""), "{status}");
        assert!(matches!(driver.await, Ok(spdy::SessionEnd::PeerClosed)));

        // 0x1F90 is 8080; state 0A is listening.
        let listening = "until grep -q ':1F90 00000000:0000 0A' /proc/net/tcp; do :; done";
        served.execute(&container, &["/bin/sh", "-c", listening]).await;
        let request = PortForwardRequest { pod_sandbox_id: pod.id.clone(), port: Vec::new() };
        let url = served.runtime.port_forward(request).await.expect("a URL").into_inner().url;
        let (opener, driver) = open_spdy(&served, &url, "portforward.k8s.io").await;
        for number in 0..20 {
            let named = |kind: &str| named(kind).with("port", "8080").with("requestID", &number.to_string());
            let mut error = opener.open(named("error")).await.expect("taken");
            let mut data = opener.open(named("data")).await.expect("taken");
            data.writer.send(format!("{number}\n").into()).await.expect("read");
            assert_eq!(everything(&mut data.reader).await, format!("echo {number}\n"));
            assert_eq!(everything(&mut error.reader).await, "");
        }
        driver.abort();
        served.remove(pod).await;
        served.end();
    });
}

fn a_daemon_that_dies_loses_nothing(executor: &tokio::runtime::Runtime) {
    executor.block_on(async {
        let mut served = ServedRuntime::start().await;
        let pod = served.pod("survivor").await;
        let work = "i=0; trap 'echo last; exit 7' TERM; while :; do i=$((i + 1)); echo $i; sleep 0.05 & wait $!; done";
        let container = served.start_container(&pod, "main", script(work)).await;
        let log = std::path::Path::new(&pod.config.log_directory).join("main.log");
        let lines = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
        served.kill_daemon();
        let before = lines();
        // The shim goes on writing while nobody serves.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while lines() < before + 3 {
            assert!(std::time::Instant::now() < deadline, "the log stands still");
            tokio::task::yield_now().await;
        }
        served.restart().await;
        let request = ContainerStatusRequest { container_id: container.clone(), verbose: false };
        let status = served.runtime.container_status(request.clone()).await.expect("adopted").into_inner();
        assert_eq!(status.status.expect("a status").state(), cri::v1::ContainerState::ContainerRunning);
        let answer = served.execute(&container, &["/bin/echo", "still here"]).await;
        assert_eq!(String::from_utf8_lossy(&answer.stdout), "still here\n");
        let stop = cri::v1::StopContainerRequest { container_id: container, timeout: 20 };
        served.runtime.stop_container(stop).await.expect("stopped");
        let status = served.runtime.container_status(request).await.expect("known").into_inner();
        assert_eq!(status.status.expect("a status").exit_code, 7);
        served.remove(pod).await;
        served.end();
    });
}
