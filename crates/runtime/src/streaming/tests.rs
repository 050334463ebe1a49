//! The server over real connections, with a fake process behind it.

use std::sync::{Arc, Mutex};

use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::*;

mod over_spdy;

/// The process behind one stream, in the hands of the test.
struct FakeProcess {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    resize: Option<watch::Receiver<Option<TerminalSize>>>,
    end: Option<oneshot::Sender<ProcessEnd>>,
}

impl FakeProcess {
    fn end(&mut self, end: ProcessEnd) {
        self.stdout = None;
        self.stderr = None;
        self.end.take().expect("ends once").send(end).expect("somebody waits");
    }
}

fn fake(streams: WantedStreams) -> (ExecIo, FakeProcess) {
    let pipe = |wanted: bool| if wanted { Some(duplex(1024)).unzip() } else { (None, None) };
    let ((stdin, in_far), (stdout, out_far), (stderr, err_far)) =
        (pipe(streams.stdin), pipe(streams.stdout), pipe(streams.stderr));
    let (resize, sizes) = watch::channel(None);
    let (end, ended) = oneshot::channel();
    let io = ExecIo {
        stdin: stdin.map(|pipe| Box::new(pipe) as _),
        stdout: stdout.map(|pipe| Box::new(pipe) as _),
        stderr: stderr.map(|pipe| Box::new(pipe) as _),
        resize: streams.terminal.then_some(resize),
        end: ended.map(|end| end.unwrap_or(ProcessEnd::Lost("gone".into()))).boxed(),
    };
    let process = FakeProcess {
        stdin: in_far,
        stdout: out_far,
        stderr: err_far,
        resize: streams.terminal.then_some(sizes),
        end: Some(end),
    };
    (io, process)
}

#[derive(Default)]
struct FakeSource {
    started: Mutex<Vec<FakeProcess>>,
    asked: Mutex<Vec<String>>,
}

impl FakeSource {
    fn start(
        &self,
        asked: String,
        streams: WantedStreams,
    ) -> BoxFuture<'static, Result<ExecIo, StartStreamError>> {
        self.asked.lock().unwrap().push(asked);
        let (io, process) = fake(streams);
        self.started.lock().unwrap().push(process);
        async { Ok(io) }.boxed()
    }

    fn take(&self) -> FakeProcess {
        self.started.lock().unwrap().pop().expect("a process was started")
    }
}

impl StreamSource for FakeSource {
    fn execute(
        &self,
        container: &str,
        command: &[String],
        streams: WantedStreams,
    ) -> BoxFuture<'static, Result<ExecIo, StartStreamError>> {
        if command == ["nope"] {
            return async { Err(StartStreamError { message: "no such file: nope".into() }) }.boxed();
        }
        self.start(format!("execute {container} {}", command.join(" ")), streams)
    }

    fn attach(
        &self,
        container: &str,
        streams: WantedStreams,
    ) -> BoxFuture<'static, Result<ExecIo, StartStreamError>> {
        self.start(format!("attach {container}"), streams)
    }

    fn connect_port(&self, sandbox: &str, port: u16) -> BoxFuture<'static, Result<PortIo, StartStreamError>> {
        let sandbox = sandbox.to_owned();
        async move {
            if port == 1 {
                return Err(StartStreamError { message: format!("nobody listens on port 1 of {sandbox}") });
            }
            // Whatever arrives at the port comes back.
            let (near, far) = duplex(1024);
            let (reader, writer) = tokio::io::split(near);
            tokio::spawn(async move {
                let (mut from, mut to) = tokio::io::split(far);
                tokio::io::copy(&mut from, &mut to).await
            });
            Ok(PortIo { reader: Box::new(reader), writer: Box::new(writer) })
        }
        .boxed()
    }
}

struct Fixture {
    server: StreamingServer,
    source: Arc<FakeSource>,
}

const ALL: WantedStreams = WantedStreams { stdin: true, stdout: true, stderr: true, terminal: false };

impl Fixture {
    async fn new() -> Self {
        Self::with(StreamingConfig::default()).await
    }

    async fn with(config: StreamingConfig) -> Self {
        let source = Arc::new(FakeSource::default());
        let server = StreamingServer::bind(config).await.expect("listens");
        server.serve(Arc::clone(&source) as _);
        Self { server, source }
    }

    fn execute_url(&self, command: &[&str], streams: WantedStreams) -> String {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let request =
            StreamRequest::Execute { sandbox: "pod".into(), container: "main".into(), command, streams };
        self.server.url_for(request).expect("a token")
    }

    async fn execute(&self, protocol: &str) -> (Client, FakeProcess) {
        let client = connect(&self.execute_url(&["cat"], ALL), protocol).await.expect("upgraded");
        // Once the server has said that the connection stands, the process is there.
        let mut client = Client(client);
        client.receive().await;
        (client, self.source.take())
    }
}

async fn connect(url: &str, protocol: &str) -> Result<WebSocketStream<TcpStream>, WebSocketError> {
    let mut request = url.replacen("http", "ws", 1).into_client_request()?;
    if !protocol.is_empty() {
        request.headers_mut().insert("Sec-WebSocket-Protocol", protocol.parse().expect("a header"));
    }
    let address = request.uri().authority().expect("an address").to_string();
    let connection = TcpStream::connect(address).await.expect("somebody listens");
    client_async(request, connection).await.map(|(client, _)| client)
}

async fn refusal(url: &str, protocol: &str) -> u16 {
    match connect(url, protocol).await {
        Err(WebSocketError::Http(response)) => response.status().as_u16(),
        other => panic!("refused, and not {other:?}"),
    }
}

struct Client(WebSocketStream<TcpStream>);

impl Client {
    async fn send(&mut self, bytes: &[u8]) {
        self.0.send(Message::binary(bytes.to_vec())).await.expect("sent");
    }

    /// The next message, or `None` when the server closed.
    async fn receive(&mut self) -> Option<Vec<u8>> {
        match self.0.next().await {
            Some(Ok(Message::Binary(bytes))) => Some(bytes.to_vec()),
            Some(Ok(Message::Text(text))) => Some(text.as_bytes().to_vec()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => None,
            Some(Ok(other)) => panic!("{other:?}"),
        }
    }

    /// All bytes of one channel and the message of the error channel, until the server closes.
    async fn rest(&mut self, channel: u8) -> (Vec<u8>, Option<String>) {
        let (mut bytes, mut error) = (Vec::new(), None);
        while let Some(message) = self.receive().await {
            match message[0] {
                found if found == channel => bytes.extend_from_slice(&message[1..]),
                3 => error = Some(String::from_utf8(message[1..].to_vec()).expect("text")),
                _ => {}
            }
        }
        (bytes, error)
    }
}

#[tokio::test]
async fn a_command_gets_its_input_and_the_client_its_outputs_and_exit_status() {
    let fixture = Fixture::new().await;
    let (mut client, mut process) = fixture.execute("v4.channel.k8s.io").await;
    assert_eq!(*fixture.source.asked.lock().unwrap(), ["execute main cat"]);

    client.send(b"\0typed").await;
    let mut typed = [0; 5];
    process.stdin.as_mut().expect("wanted").read_exact(&mut typed).await.expect("arrives");
    assert_eq!(&typed, b"typed");
    process.stderr.as_mut().expect("wanted").write_all(b"oops").await.expect("written");
    assert_eq!(client.receive().await.as_deref(), Some(&b"\x02oops"[..]));
    process.stdout.as_mut().expect("wanted").write_all(b"done").await.expect("written");
    process.end(ProcessEnd::Exited(3));
    let (stdout, error) = client.rest(1).await;
    assert_eq!(stdout, b"done");
    let status: serde_json::Value = serde_json::from_str(&error.expect("a last word")).expect("JSON");
    assert_eq!(status["details"]["causes"][0]["message"], "3");
}

#[tokio::test]
async fn large_output_arrives_whole_although_the_process_has_ended() {
    let fixture = Fixture::new().await;
    let (mut client, mut process) = fixture.execute("v5.channel.k8s.io").await;
    let large: Vec<u8> = (0..2_000_000_u32).map(|number| (number % 251) as u8).collect();
    let sent = large.clone();
    let mut stdout = process.stdout.take().expect("wanted");
    let writer = tokio::spawn(async move { stdout.write_all(&sent).await });
    process.end(ProcessEnd::Exited(0));
    let (received, error) = client.rest(1).await;
    writer.await.expect("no panic").expect("all of it was read");
    assert_eq!(received.len(), large.len());
    assert!(received == large, "in order");
    assert_eq!(error.as_deref(), Some(r#"{"metadata":{},"status":"Success"}"#));
}

#[tokio::test]
async fn closing_the_input_reaches_the_process_from_version_5_on() {
    let fixture = Fixture::new().await;
    let (mut client, mut process) = fixture.execute("v5.channel.k8s.io").await;
    client.send(b"\0last words").await;
    client.send(&[255, 0]).await;
    let mut typed = String::new();
    process.stdin.take().expect("wanted").read_to_string(&mut typed).await.expect("ends");
    assert_eq!(typed, "last words");
    process.end(ProcessEnd::Exited(0));
    assert_eq!(client.rest(1).await.1.as_deref(), Some(r#"{"metadata":{},"status":"Success"}"#));
}

#[tokio::test]
async fn a_terminal_learns_the_latest_size_and_lets_go_of_the_client_at_the_end() {
    let fixture = Fixture::new().await;
    let streams = WantedStreams { terminal: true, ..ALL };
    let client =
        connect(&fixture.execute_url(&["sh"], streams), "v4.channel.k8s.io").await.expect("upgraded");
    let mut client = Client(client);
    client.receive().await;
    let mut process = fixture.source.take();
    assert!(process.stderr.is_none(), "a terminal has one output");
    for width in 1..=1000 {
        client.send(format!("\x04{{\"Width\":{width},\"Height\":24}}").as_bytes()).await;
    }
    let sizes = process.resize.as_mut().expect("a terminal");
    let last = sizes.wait_for(|size| size.is_some_and(|size| size.width == 1000)).await.map(|size| *size);
    assert_eq!(last.expect("it comes"), Some(TerminalSize { width: 1000, height: 24 }));
    process.end(ProcessEnd::Exited(0));
    client.rest(1).await;
    let sizes = process.resize.as_mut().expect("a terminal");
    while sizes.changed().await.is_ok() {}
}

#[tokio::test]
async fn old_protocols_speak_base64_and_plain_text() {
    let fixture = Fixture::new().await;
    let (mut client, mut process) = fixture.execute("base64.channel.k8s.io").await;
    client.0.send(Message::text("0dHlwZWQ=")).await.expect("sent");
    let mut typed = [0; 5];
    process.stdin.as_mut().expect("wanted").read_exact(&mut typed).await.expect("arrives");
    assert_eq!(&typed, b"typed");
    process.stdout.as_mut().expect("wanted").write_all(b"hi").await.expect("written");
    assert_eq!(client.receive().await.as_deref(), Some(&b"1aGk="[..]));
    process.end(ProcessEnd::Exited(2));
    let error = client.receive().await.expect("a last word");
    assert_eq!(error[0], b'3');
    assert_eq!(client.receive().await, None);

    let (mut client, mut process) = fixture.execute("").await;
    process.end(ProcessEnd::Exited(0));
    assert_eq!(client.rest(1).await, (Vec::new(), None), "success needs no words");
}

#[tokio::test]
async fn a_command_that_cannot_start_is_reported_on_the_error_channel() {
    let fixture = Fixture::new().await;
    let client = connect(&fixture.execute_url(&["nope"], ALL), "v5.channel.k8s.io").await.expect("upgraded");
    let (_, error) = Client(client).rest(1).await;
    assert!(error.as_deref().is_some_and(|error| error.contains("no such file: nope")), "{error:?}");
}

#[tokio::test]
async fn a_client_that_goes_away_lets_go_of_the_process() {
    let fixture = Fixture::new().await;
    let (client, process) = fixture.execute("v4.channel.k8s.io").await;
    drop(client);
    process.end.expect("not ended").closed().await;
    let mut rest = Vec::new();
    process.stdin.expect("wanted").read_to_end(&mut rest).await.expect("its input ends");
}

#[tokio::test]
async fn output_held_open_by_a_process_left_behind_does_not_hold_the_client() {
    let config = StreamingConfig { quiet_after_end: Duration::from_millis(50), ..StreamingConfig::default() };
    let fixture = Fixture::with(config).await;
    let (mut client, mut process) = fixture.execute("v4.channel.k8s.io").await;
    process.stdout.as_mut().expect("wanted").write_all(b"before").await.expect("written");
    process.end.take().expect("once").send(ProcessEnd::Exited(0)).expect("somebody waits");
    let (stdout, error) = client.rest(1).await;
    assert_eq!(stdout, b"before");
    assert!(error.is_some_and(|error| error.contains("Success")));
}

#[tokio::test]
async fn a_stream_on_which_nothing_moves_is_closed() {
    let config = StreamingConfig { idle_timeout: Duration::from_millis(50), ..StreamingConfig::default() };
    let fixture = Fixture::with(config).await;
    let (mut client, process) = fixture.execute("v4.channel.k8s.io").await;
    let (_, error) = client.rest(1).await;
    assert!(
        error.as_deref().is_some_and(|error| error.contains("nothing was sent or received")),
        "{error:?}"
    );
    process.end.expect("not ended").closed().await;
}

#[tokio::test]
async fn a_pod_has_only_so_many_streams() {
    let fixture =
        Fixture::with(StreamingConfig { max_streams_per_pod: 2, ..StreamingConfig::default() }).await;
    let (first, _one) = fixture.execute("v4.channel.k8s.io").await;
    let (_second, _two) = fixture.execute("v4.channel.k8s.io").await;
    assert_eq!(refusal(&fixture.execute_url(&["cat"], ALL), "v4.channel.k8s.io").await, 429);
    let other = StreamRequest::Attach { sandbox: "other".into(), container: "main".into(), streams: ALL };
    connect(&fixture.server.url_for(other).expect("a token"), "").await.expect("another pod has its own");

    drop(first);
    _one.end.expect("not ended").closed().await;
    // The place is given back when the session's task has ended, just after it let go of the process.
    loop {
        match connect(&fixture.execute_url(&["cat"], ALL), "").await {
            Ok(_) => break,
            Err(WebSocketError::Http(response)) => assert_eq!(response.status(), 429),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn what_is_no_proper_request_is_refused_and_costs_no_token() {
    let fixture = Fixture::new().await;
    let url = fixture.execute_url(&["cat"], ALL);
    assert_eq!(refusal(&url, "chat").await, 403, "an unknown subprotocol");
    let unknown = url.rsplit_once('/').expect("a token").0;
    assert_eq!(refusal(&format!("{unknown}/0123"), "").await, 404, "an unknown token");
    for head in ["GET / HTTP/1.1", "POST /exec/x HTTP/1.1"] {
        let address = url.trim_start_matches("http://").split('/').next().expect("an address");
        let mut connection = TcpStream::connect(address).await.expect("somebody listens");
        let upgrade =
            if head.starts_with("POST") { "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n" } else { "" };
        let request = format!("{head}\r\nHost: x\r\n{upgrade}Connection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.expect("sent");
        let mut response = String::new();
        connection.read_to_string(&mut response).await.expect("answered");
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    }
    connect(&url, "v5.channel.k8s.io").await.expect("still good");
    assert_eq!(refusal(&url, "v5.channel.k8s.io").await, 404, "but only once");
}

#[tokio::test]
async fn attaching_reaches_the_containers_own_process() {
    let fixture = Fixture::new().await;
    let request = StreamRequest::Attach { sandbox: "pod".into(), container: "main".into(), streams: ALL };
    let url = fixture.server.url_for(request).expect("a token");
    assert!(url.contains("/attach/"));
    let mut client = Client(connect(&url, "v4.channel.k8s.io").await.expect("upgraded"));
    client.receive().await;
    assert_eq!(*fixture.source.asked.lock().unwrap(), ["attach main"]);
    fixture.source.take().end(ProcessEnd::Exited(1));
    assert_eq!(client.rest(1).await.1.as_deref(), Some(r#"{"metadata":{},"status":"Success"}"#));
}

#[tokio::test]
async fn ports_are_forwarded_each_over_two_channels() {
    let fixture = Fixture::new().await;
    let request = StreamRequest::PortForward { sandbox: "pod".into(), ports: vec![8080, 1] };
    let url = fixture.server.url_for(request).expect("a token");
    let mut client = Client(connect(&url, "v4.channel.k8s.io").await.expect("upgraded"));
    let mut first = Vec::new();
    for _ in 0..5 {
        first.push(client.receive().await.expect("the heads of four channels and one error"));
    }
    assert_eq!(first[..2], [vec![0, 0x90, 0x1f], vec![1, 0x90, 0x1f]]);
    assert_eq!(first[2..4], [vec![2, 1, 0], vec![3, 1, 0]]);
    assert_eq!(first[4], b"\x03nobody listens on port 1 of pod");
    client.send(b"\0echo").await;
    assert_eq!(client.receive().await.as_deref(), Some(&b"\0echo"[..]));
}

#[tokio::test]
async fn dropping_the_server_closes_everything() {
    let fixture = Fixture::new().await;
    let (mut client, process) = fixture.execute("v4.channel.k8s.io").await;
    drop(fixture.server);
    assert_eq!(client.rest(1).await, (Vec::new(), None));
    process.end.expect("not ended").closed().await;
}
