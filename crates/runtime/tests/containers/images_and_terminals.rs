//! Containers of real images, their terminals and streams, their figures and limits.

use std::time::Duration;

use cri::v1::{
    AttachRequest, ContainerConfig, ContainerStatsRequest, ExecRequest, ImageSpec, ImageStatusRequest,
    LinuxContainerResources, PodSandboxStatsRequest, UpdateContainerResourcesRequest,
};
use futures::{SinkExt as _, StreamExt as _};
use images::{ImageStore, ImportOptions};
use testkit::image::ImageMaker;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::harness::Test;
use crate::node::{Node, info, script, security, texts};

pub(crate) const TESTS: [Test; 7] = [
    ("an image decides command, variables, user, directory and stop signal", || {
        Box::pin(image_configuration())
    }),
    ("a working directory never leads out of the container", || Box::pin(working_directories())),
    ("layers are never written", || Box::pin(layers_stay())),
    ("a container has a terminal when it asks for one", || Box::pin(terminal())),
    ("a command is executed over a terminal and a connection", || Box::pin(streamed_execution())),
    ("a client attaches and speaks to the container", || Box::pin(attaching())),
    ("figures are kept and limits are changed", || Box::pin(figures_and_limits())),
];

/// Imports an image under a name; false when the machine lacks what it is made from.
fn import(node: &Node, name: &str, change: impl FnOnce(ImageMaker) -> ImageMaker) -> bool {
    let Some(maker) = ImageMaker::busybox() else {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "busybox-static is not installed");
        print!("(left out: busybox-static is not installed) ");
        return false;
    };
    let path = node.directory.path().join("image.tar");
    std::fs::write(&path, change(maker).build().docker_archive(&[name])).unwrap();
    let store = ImageStore::open(node.directory.path().join("images")).unwrap();
    store.import(&path, &ImportOptions::new()).unwrap();
    true
}

fn of_image(image: &str, mut config: ContainerConfig) -> ContainerConfig {
    config.image = Some(ImageSpec { image: image.to_owned(), ..Default::default() });
    config
}

async fn image_configuration() {
    let mut node = Node::start().await;
    let made = import(&node, "made:1", |maker| {
        maker
            .env(&["PATH=/bin", "B=image", "A=image"])
            .entrypoint(&["/bin/sh", "-c"])
            .cmd(&[
                "env; pwd; id -u; id -G; trap 'echo int; exit 5' INT; echo up; while :; do sleep 0.05; done",
            ])
            .user("user")
            .working_dir("/srv/app")
            .set("StopSignal", serde_json::json!("SIGINT"))
    });
    if made {
        let sandbox = node.sandbox(node.pod("image", true)).await;
        let mut config = of_image("made:1", script(""));
        config.command.clear();
        config.envs = crate::node::variables(&[("B", "pod")]);
        let id = node.launch(&sandbox, config).await;
        node.logged(&id, "up").await;
        node.stop(&id, 20).await;
        let status = node.status(&id).await;
        assert_eq!(status.exit_code, 5);
        assert_eq!(status.stop_signal(), cri::v1::Signal::Sigint);
        let log = crate::node::read_log(std::path::Path::new(&status.log_path));
        let seen = texts(&log);
        // The shell has an order of its own.
        for variable in ["PATH=/bin", "A=image", "B=pod", "HOME=/home/user"] {
            assert!(seen.contains(&variable), "{seen:?}");
        }
        assert!(!seen.contains(&"B=image"), "{seen:?}");
        assert!(seen.ends_with(&["/srv/app", "1000", "1000 2000", "up", "int"]), "{seen:?}");
        let request = ImageStatusRequest {
            image: Some(ImageSpec { image: "made:1".into(), ..Default::default() }),
            verbose: true,
        };
        let answer = node.images.image_status(request).await.unwrap().into_inner();
        let image = answer.image.unwrap();
        assert_eq!((image.username.as_str(), image.id), ("user", status.image_id));
        let verbose: serde_json::Value = serde_json::from_str(&answer.info["info"]).unwrap();
        assert_eq!(verbose["imageSpec"]["config"]["Env"][2], "A=image");
    }
    node.end().await;
}

async fn working_directories() {
    let mut node = Node::start().await;
    for directory in ["/proc/self/fd/8", "/proc/self/fd/3/../../..", "/proc/1/root/../../etc"] {
        let mut config =
            script("cat /proc/self/environ > /dev/null; readlink /proc/self/cwd; ls -d /proc/self/cwd/..");
        config.working_dir = directory.to_owned();
        let sandbox = node.sandbox(node.pod("cwd", true)).await;
        match node.create(&sandbox, config).await {
            Err(_) => {}
            Ok(id) => match node.start_container(&id).await {
                Err(error) => assert!(error.message().contains("working directory"), "{error}"),
                Ok(()) => {
                    let status = node.ended(&id).await;
                    let log = std::fs::read_to_string(&status.log_path).unwrap();
                    assert!(!log.contains("unreachable") && !log.contains("runtime"), "{log}");
                }
            },
        }
        node.remove(&sandbox).await;
    }
    node.end().await;
}

async fn layers_stay() {
    let mut node = Node::start().await;
    if import(&node, "made:1", |maker| maker) {
        let text = "echo changed > /etc/passwd; rm -r /home; touch /new; ls / | tr '\\n' ' '";
        let (_, log) = node.run(of_image("made:1", script(text))).await;
        let seen = texts(&log).join(" ");
        assert!(seen.contains("new") && !seen.contains("home"), "{seen}");
        let (_, log) =
            node.run(of_image("made:1", script("head -1 /etc/passwd; ls /new; ls -d /home"))).await;
        let output: Vec<&str> =
            log.iter().filter(|line| line.stream == "stdout").map(|line| line.text.as_str()).collect();
        assert_eq!(output, ["root:x:0:0:root:/root:/bin/sh", "/home"]);
    }
    node.end().await;
}

async fn terminal() {
    let mut node = Node::start().await;
    let mut config = script(
        "test -t 0 && test -t 1 && test -t 2 && echo terminal; echo $TERM; tty; echo seen > /dev/console",
    );
    config.tty = true;
    security(&mut config).run_as_user = Some(cri::v1::Int64Value { value: 0 });
    let (status, log) = node.run(config).await;
    let seen: Vec<&str> = log.iter().map(|line| line.text.trim_end_matches('\r')).collect();
    assert_eq!(seen, ["terminal", "xterm", "/dev/pts/0", "seen"]);
    assert_eq!(status.exit_code, 0);
    node.end().await;
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(url: &str) -> Socket {
    let mut request = url.replacen("http://", "ws://", 1).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
    tokio_tungstenite::connect_async(request).await.unwrap().0
}

async fn send(socket: &mut Socket, channel: u8, content: &[u8]) {
    let mut message = vec![channel];
    message.extend_from_slice(content);
    socket.send(Message::Binary(message.into())).await.unwrap();
}

/// Reads until the output contains a text; answers what came on the status channel, if it did.
async fn read_until(socket: &mut Socket, text: &str) -> (String, Option<serde_json::Value>) {
    let (mut output, mut status) = (String::new(), None);
    let reading = async {
        while let Some(Ok(message)) = socket.next().await {
            let Message::Binary(message) = message else { continue };
            match message.split_first() {
                Some((1, content)) => output.push_str(&String::from_utf8_lossy(content)),
                Some((3, content)) => {
                    status = Some(serde_json::from_slice(content).unwrap());
                    break;
                }
                Some(_) | None => {}
            }
            if !text.is_empty() && output.contains(text) {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading).await.expect("the stream hangs");
    (output, status)
}

async fn streamed_execution() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("streams", true)).await;
    let id = node.launch(&sandbox, script("exec sleep 1000")).await;
    let request = ExecRequest {
        container_id: id.clone(),
        cmd: vec!["/bin/sh".into()],
        tty: true,
        stdin: true,
        stdout: true,
        stderr: false,
    };
    let url = node.runtime.exec(request).await.unwrap().into_inner().url;
    let mut socket = connect(&url).await;
    send(&mut socket, 4, br#"{"Width":101,"Height":37}"#).await;
    send(&mut socket, 0, b"test -t 0 && echo is-$((6*7))\n").await;
    read_until(&mut socket, "is-42").await;
    send(&mut socket, 0, b"stty size; exit 3\n").await;
    let (output, status) = read_until(&mut socket, "").await;
    assert!(output.contains("37 101"), "{output}");
    let status = status.expect("the exit status");
    assert_eq!(status["details"]["causes"][0]["message"], "3", "{status}");

    let request = ExecRequest {
        container_id: id.clone(),
        cmd: vec!["/bin/sh".into(), "-c".into(), "cat; exit 4".into()],
        tty: false,
        stdin: true,
        stdout: true,
        stderr: true,
    };
    let url = node.runtime.exec(request).await.unwrap().into_inner().url;
    let mut socket = connect(&url).await;
    send(&mut socket, 0, b"through the pipe\n").await;
    read_until(&mut socket, "through the pipe").await;
    send(&mut socket, 255, &[0]).await;
    let (_, status) = read_until(&mut socket, "").await;
    assert_eq!(status.expect("the exit status")["details"]["causes"][0]["message"], "4");
    node.end().await;
}

async fn attaching() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("attach", true)).await;
    let mut config = script("while read line; do echo got $line; done; echo end");
    config.stdin = true;
    config.stdin_once = true;
    let id = node.launch(&sandbox, config).await;
    let request =
        AttachRequest { container_id: id.clone(), stdin: true, tty: false, stdout: true, stderr: true };
    let url = node.runtime.attach(request).await.unwrap().into_inner().url;
    let mut socket = connect(&url).await;
    send(&mut socket, 0, b"one\n").await;
    read_until(&mut socket, "got one").await;
    // The only client closes its side, and with it the container's standard input.
    send(&mut socket, 255, &[0]).await;
    let status = node.ended(&id).await;
    assert_eq!(status.exit_code, 0);
    let log = crate::node::read_log(std::path::Path::new(&status.log_path));
    assert_eq!(texts(&log), ["got one", "end"]);
    node.end().await;
}

async fn figures_and_limits() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("figures", false)).await;
    let mut config = script("head -c 100000 /dev/zero > /tmp/file; echo up; exec sleep 1000");
    config.linux.as_mut().unwrap().resources = Some(LinuxContainerResources {
        memory_limit_in_bytes: 64 << 20,
        cpu_quota: 50_000,
        cpu_period: 100_000,
        cpu_shares: 512,
        ..Default::default()
    });
    let id = node.launch(&sandbox, config).await;
    node.logged(&id, "up").await;
    let group =
        info(&mut node, &id).await["runtimeSpec"]["linux"]["cgroupsPath"].as_str().unwrap().to_owned();
    let read = |controller: &str, file: &str| {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{controller}{group}/{file}"))
            .map(|text| text.trim().to_owned())
    };
    let version1 = std::path::Path::new("/sys/fs/cgroup/memory").exists();
    let limits = || {
        if version1 {
            (read("memory", "memory.limit_in_bytes").unwrap(), read("cpu", "cpu.cfs_quota_us").unwrap())
        } else {
            (
                read("", "memory.max").unwrap(),
                read("", "cpu.max").unwrap().split(' ').next().unwrap().to_owned(),
            )
        }
    };
    assert_eq!(limits(), ("67108864".to_owned(), "50000".to_owned()));
    let change =
        LinuxContainerResources { memory_limit_in_bytes: 96 << 20, cpu_quota: 70_000, ..Default::default() };
    let request = UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(change),
        ..Default::default()
    };
    node.runtime.update_container_resources(request).await.unwrap();
    assert_eq!(limits(), ("100663296".to_owned(), "70000".to_owned()));
    let resources = node.status(&id).await.resources.unwrap().linux.unwrap();
    assert_eq!((resources.memory_limit_in_bytes, resources.cpu_shares), (96 << 20, 512));

    let stats =
        node.runtime.container_stats(ContainerStatsRequest { container_id: id.clone() }).await.unwrap();
    let stats = stats.into_inner().stats.unwrap();
    assert!(stats.cpu.unwrap().usage_core_nano_seconds.unwrap().value > 0);
    assert!(stats.memory.unwrap().usage_bytes.unwrap().value > 0);
    assert!(stats.writable_layer.unwrap().used_bytes.unwrap().value >= 100_000);
    let request = PodSandboxStatsRequest { pod_sandbox_id: sandbox.clone() };
    let stats = node.runtime.pod_sandbox_stats(request).await.unwrap().into_inner().stats.unwrap();
    let linux = stats.linux.unwrap();
    assert_eq!(linux.containers.len(), 1);
    assert_eq!(linux.network.unwrap().default_interface.unwrap().name, "eth0");
    node.end().await;
}
