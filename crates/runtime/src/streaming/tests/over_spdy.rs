//! Clients that speak SPDY: older `kubectl`, and `crictl`.

use spdy::{Headers, Opener, Received, Stream, StreamReader, Streams};
use tokio::task::JoinHandle;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// The answer to a request for SPDY, and the connection after it.
async fn ask(url: &str, versions: &[&str]) -> (String, TcpStream) {
    let rest = url.trim_start_matches("http://");
    let (address, path) = rest.split_once('/').expect("a path");
    let mut connection = TcpStream::connect(address).await.expect("somebody listens");
    let mut request =
        format!("POST /{path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n");
    for version in versions {
        request.push_str(&format!("X-Stream-Protocol-Version: {version}\r\n"));
    }
    connection.write_all(format!("{request}\r\n").as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.expect("answered"));
    }
    (String::from_utf8(head).expect("text").to_ascii_lowercase(), connection)
}

/// A client whose connection was upgraded.
struct SpdyClient {
    opener: Opener,
    _streams: Streams,
    driver: JoinHandle<spdy::SessionEnd>,
}

impl SpdyClient {
    async fn connect(url: &str, version: &str) -> Self {
        let (head, connection) = ask(url, &["v9.channel.k8s.io", version]).await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        assert!(head.contains(&format!("x-stream-protocol-version: {version}\r\n")), "{head}");
        let (driver, streams, opener) =
            spdy::session(connection, spdy::Role::Client, spdy::Limits::default(), LONG);
        Self { opener, _streams: streams, driver: tokio::spawn(driver) }
    }

    async fn open(&self, kind: &str) -> Stream {
        self.opener.open(Headers::new().with("streamType", kind)).await.expect("taken")
    }

    async fn open_port(&self, kind: &str, port: u16, request: &str) -> Option<Stream> {
        let headers = Headers::new().with("streamType", kind).with("port", &port.to_string());
        self.opener.open(headers.with("requestID", request)).await
    }

    async fn connect_port(&self, port: u16, request: &str) -> (Stream, Stream) {
        let error = self.open_port("error", port, request).await.expect("taken");
        (error, self.open_port("data", port, request).await.expect("taken"))
    }
}

async fn everything(reader: &mut StreamReader) -> (String, Received) {
    let mut all = Vec::new();
    loop {
        match reader.next().await {
            Received::Data(bytes) => all.extend_from_slice(&bytes),
            end => return (String::from_utf8(all).expect("text"), end),
        }
    }
}

fn port_request() -> StreamRequest {
    StreamRequest::PortForward { sandbox: "pod".into(), ports: Vec::new() }
}

#[tokio::test]
async fn a_command_over_spdy_gets_its_input_and_the_client_its_outputs_and_exit_status() {
    let fixture = Fixture::new().await;
    let client = SpdyClient::connect(&fixture.execute_url(&["cat"], ALL), "v4.channel.k8s.io").await;
    let mut error = client.open("error").await;
    error.writer.finish().await.expect("read");
    let mut stdin = client.open("stdin").await;
    let mut stdout = client.open("stdout").await;
    assert!(fixture.source.asked.lock().unwrap().is_empty(), "nothing starts before all streams are there");
    let mut stderr = client.open("stderr").await;
    stdin.writer.send("typed".into()).await.expect("read");
    stdin.writer.finish().await.expect("read");
    let mut process = loop {
        let started = fixture.source.started.lock().unwrap().pop();
        match started {
            Some(process) => break process,
            None => tokio::task::yield_now().await,
        }
    };
    let mut typed = String::new();
    process.stdin.take().expect("wanted").read_to_string(&mut typed).await.expect("its input ends");
    assert_eq!(typed, "typed");
    process.stderr.as_mut().expect("wanted").write_all(b"oops").await.expect("written");
    process.stdout.as_mut().expect("wanted").write_all(b"done").await.expect("written");
    process.end(ProcessEnd::Exited(3));
    assert_eq!(everything(&mut stdout.reader).await, ("done".to_owned(), Received::Finished));
    assert_eq!(everything(&mut stderr.reader).await, ("oops".to_owned(), Received::Finished));
    let (status, end) = everything(&mut error.reader).await;
    assert_eq!(end, Received::Finished);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["details"]["causes"][0]["message"], "3");
    assert_eq!(everything(&mut stdin.reader).await.1, Received::Finished);
    assert!(matches!(client.driver.await, Ok(spdy::SessionEnd::PeerClosed)));
}

#[tokio::test]
async fn older_protocols_over_spdy_say_errors_as_text() {
    for version in ["v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"] {
        let fixture = Fixture::new().await;
        let streams = WantedStreams { stdin: false, stderr: false, ..ALL };
        let client = SpdyClient::connect(&fixture.execute_url(&["nope"], streams), version).await;
        let (mut error, mut stdout) = (client.open("error").await, client.open("stdout").await);
        assert_eq!(everything(&mut stdout.reader).await, (String::new(), Received::Finished));
        let text = "Internal error occurred: error executing command in container: no such file: nope";
        assert_eq!(everything(&mut error.reader).await, (text.to_owned(), Received::Finished), "{version}");
    }
}

#[tokio::test]
async fn a_terminal_over_spdy_learns_its_size() {
    let fixture = Fixture::new().await;
    let streams = WantedStreams { terminal: true, ..ALL };
    let client = SpdyClient::connect(&fixture.execute_url(&["sh"], streams), "v4.channel.k8s.io").await;
    let (_error, _stdin, _stdout) =
        (client.open("error").await, client.open("stdin").await, client.open("stdout").await);
    let mut resize = client.open("resize").await;
    for piece in ["{\"Width\":80,\"Hei", "ght\":24}\n{\"Width\":100,\"Height\":50}\n"] {
        resize.writer.send(piece.into()).await.expect("read");
    }
    let mut process = loop {
        let started = fixture.source.started.lock().unwrap().pop();
        match started {
            Some(process) => break process,
            None => tokio::task::yield_now().await,
        }
    };
    let sizes = process.resize.as_mut().expect("a terminal");
    let last = sizes.wait_for(|size| size.is_some_and(|size| size.width == 100)).await.map(|size| *size);
    assert_eq!(last.expect("it comes"), Some(TerminalSize { width: 100, height: 50 }));
}

#[tokio::test]
async fn a_client_over_spdy_that_goes_away_lets_go_of_the_process() {
    let fixture = Fixture::new().await;
    let streams = WantedStreams { stderr: false, stdout: false, ..ALL };
    let client = SpdyClient::connect(&fixture.execute_url(&["cat"], streams), "v4.channel.k8s.io").await;
    let (_error, _stdin) = (client.open("error").await, client.open("stdin").await);
    let process = loop {
        let started = fixture.source.started.lock().unwrap().pop();
        match started {
            Some(process) => break process,
            None => tokio::task::yield_now().await,
        }
    };
    client.driver.abort();
    process.end.expect("not ended").closed().await;
}

#[tokio::test]
async fn streams_that_nobody_asked_for_are_refused() {
    let fixture = Fixture::new().await;
    let streams = WantedStreams { stderr: false, ..ALL };
    let client = SpdyClient::connect(&fixture.execute_url(&["cat"], streams), "v4.channel.k8s.io").await;
    let _error = client.open("error").await;
    for kind in ["stderr", "resize", "nonsense", "error", ""] {
        assert!(client.opener.open(Headers::new().with("streamType", kind)).await.is_none(), "{kind}");
    }
    assert!(client.opener.open(Headers::new()).await.is_none());
}

#[tokio::test]
async fn a_client_that_knows_no_protocol_of_ours_is_told_which_there_are_and_keeps_its_url() {
    let fixture = Fixture::new().await;
    let url = fixture.execute_url(&["cat"], ALL);
    let (head, _) = ask(&url, &["v9.channel.k8s.io"]).await;
    assert!(head.starts_with("http/1.1 403 "), "{head}");
    assert_eq!(head.matches("x-accepted-stream-protocol-versions: ").count(), 4, "{head}");
    let (head, _) = ask(&url, &[]).await;
    assert!(head.starts_with("http/1.1 400 "), "{head}");
    SpdyClient::connect(&url, "v4.channel.k8s.io").await;
    let (head, _) = ask(&url, &["v4.channel.k8s.io"]).await;
    assert!(head.starts_with("http/1.1 404 "), "only once: {head}");
}

#[tokio::test]
async fn connections_to_ports_over_spdy_come_and_go() {
    let fixture = Fixture::new().await;
    let client =
        SpdyClient::connect(&fixture.server.url_for(port_request()).expect("a token"), "portforward.k8s.io")
            .await;
    let mut open = Vec::new();
    for number in 0..200 {
        let (error, mut data) = client.connect_port(8080, &number.to_string()).await;
        data.writer.send(format!("hello {number}").into()).await.expect("read");
        open.push((error, data));
    }
    for (number, (mut error, mut data)) in open.into_iter().enumerate() {
        error.writer.finish().await.expect("read");
        data.writer.finish().await.expect("read");
        let echo = everything(&mut data.reader).await;
        assert_eq!(echo, (format!("hello {number}"), Received::Finished));
        assert_eq!(everything(&mut error.reader).await, (String::new(), Received::Finished));
    }
}

#[tokio::test]
async fn a_port_on_which_nobody_listens_is_told_and_other_connections_go_on() {
    let fixture = Fixture::new().await;
    let client =
        SpdyClient::connect(&fixture.server.url_for(port_request()).expect("a token"), "portforward.k8s.io")
            .await;
    let (mut error, mut data) = client.connect_port(1, "0").await;
    let text = "error forwarding port 1 to pod pod, uid : nobody listens on port 1 of pod";
    assert_eq!(everything(&mut error.reader).await, (text.to_owned(), Received::Finished));
    assert_eq!(everything(&mut data.reader).await, (String::new(), Received::Finished));
    let (_error, mut data) = client.connect_port(80, "1").await;
    data.writer.send("still here".into()).await.expect("read");
    assert_eq!(data.reader.next().await, Received::Data("still here".into()));
}

#[tokio::test]
async fn streams_of_ports_that_make_no_sense_are_refused() {
    let fixture = Fixture::new().await;
    let client =
        SpdyClient::connect(&fixture.server.url_for(port_request()).expect("a token"), "portforward.k8s.io")
            .await;
    let headers = Headers::new();
    for nonsense in [
        headers.clone(),
        headers.clone().with("streamType", "data"),
        headers.clone().with("streamType", "data").with("port", "0"),
        headers.clone().with("streamType", "data").with("port", "65536"),
        headers.clone().with("streamType", "stdin").with("port", "80"),
    ] {
        assert!(client.opener.open(nonsense.clone()).await.is_none(), "{nonsense:?}");
    }
    let first = client.open_port("error", 80, "a").await;
    assert!(client.open_port("error", 80, "a").await.is_none(), "two for errors");
    assert_eq!(first.expect("taken").reader.next().await, Received::Lost, "with the first");
    // Those that wait for their other half have a limit.
    let mut waiting = Vec::new();
    for number in 0..256 {
        waiting.push(client.open_port("error", 80, &format!("w{number}")).await.expect("taken"));
    }
    assert!(client.open_port("error", 80, "one too many").await.is_none());
}

#[tokio::test]
async fn a_connection_that_the_client_gives_up_lets_go_of_the_port() {
    let fixture = Fixture::new().await;
    let client =
        SpdyClient::connect(&fixture.server.url_for(port_request()).expect("a token"), "portforward.k8s.io")
            .await;
    let (mut error, mut data) = client.connect_port(8080, "0").await;
    data.writer.send("x".into()).await.expect("read");
    data.reader.next().await;
    drop(data);
    assert_eq!(error.reader.next().await, Received::Lost);
}

#[tokio::test]
async fn ports_are_forwarded_through_a_tunnel_in_a_websocket() {
    let fixture = Fixture::new().await;
    let url = fixture.server.url_for(port_request()).expect("a token");
    let socket = connect(&url, spdy::TUNNEL_PORT_FORWARD).await.expect("upgraded");
    let (near, far) = duplex(4096);
    tokio::spawn(spdy::tunnel(socket, far));
    let (driver, _streams, opener) = spdy::session(near, spdy::Role::Client, spdy::Limits::default(), LONG);
    let client = SpdyClient { opener, _streams, driver: tokio::spawn(driver) };
    let (mut error, mut data) = client.connect_port(8080, "0").await;
    data.writer.send("through".into()).await.expect("read");
    data.writer.finish().await.expect("read");
    assert_eq!(everything(&mut data.reader).await, ("through".to_owned(), Received::Finished));
    assert_eq!(everything(&mut error.reader).await, (String::new(), Received::Finished));
}

/// Waits until no more tasks live than before.
async fn until_tasks_are(before: usize) {
    while tokio::runtime::Handle::current().metrics().num_alive_tasks() > before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn clients_that_stop_half_way_leave_no_task_behind() {
    let config = StreamingConfig { idle_timeout: Duration::from_millis(100), ..StreamingConfig::default() };
    let fixture = Fixture::with(config).await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut kept = Vec::new();
    for round in 0..20 {
        // Upgraded, and then nothing; a stream too few; garbage; a frame that never ends; gone in the middle.
        let (_, connection) = ask(&fixture.execute_url(&["cat"], ALL), &["v4.channel.k8s.io"]).await;
        kept.push(connection);
        let client = SpdyClient::connect(&fixture.execute_url(&["cat"], ALL), "v4.channel.k8s.io").await;
        let error = client.open("error").await;
        drop(error);
        client.driver.abort();
        let url = fixture.server.url_for(port_request()).expect("a token");
        let (_, mut connection) = ask(&url, &["portforward.k8s.io"]).await;
        let garbage: &[u8] =
            if round % 2 == 0 { b"\x80\x02\0\x01\0\0\0\0" } else { b"\x80\x03\0\x01\0\0\xff\xff" };
        connection.write_all(garbage).await.expect("sent");
        kept.push(connection);
        let url = fixture.server.url_for(port_request()).expect("a token");
        let client = SpdyClient::connect(&url, "portforward.k8s.io").await;
        let _waiting = client.open_port("error", 80, "alone").await;
        let (_error, mut data) = client.connect_port(8080, "1").await;
        data.writer.send("x".into()).await.expect("read");
        client.driver.abort();
    }
    // Those that are still connected say nothing: silence ends them.
    until_tasks_are(before).await;
    drop(kept);
}

#[tokio::test]
async fn a_flood_of_streams_is_refused_one_by_one_and_ends_with_its_client() {
    let fixture = Fixture::new().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let url = fixture.server.url_for(port_request()).expect("a token");
    let client = SpdyClient::connect(&url, "portforward.k8s.io").await;
    let (mut taken, mut refused) = (Vec::new(), 0);
    for number in 0..3000 {
        // The ends of the connections stay open: nobody says anything on them.
        let kind = if number % 2 == 0 { "error" } else { "data" };
        match client.open_port(kind, 8080, &(number / 2).to_string()).await {
            Some(stream) => taken.push(stream),
            None => refused += 1,
        }
    }
    assert_eq!(taken.len(), spdy::Limits::default().streams);
    assert_eq!(refused, 3000 - taken.len());
    client.driver.abort();
    drop(taken);
    drop(client.opener);
    until_tasks_are(before).await;
}
