//! Registries on loopback: Debian's `docker-registry`, fed over its plain interface; and one of our own that answers
//! whatever a test wants.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::image::{MadeImage, digest};
use crate::machine;

/// A running `docker-registry` with an empty store, ended when dropped.
#[derive(Debug)]
pub struct TestRegistry {
    process: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to save in it either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl TestRegistry {
    /// Starts a registry; `None` (printed, or failing under `REQUIRE_PRIVILEGED=1`) where Debian's package
    /// `docker-registry` is not installed.
    pub fn start() -> Option<TestRegistry> {
        TestRegistry::start_with(&[])
    }

    /// As [`TestRegistry::start`], with further settings as its environment.
    pub fn start_with(settings: &[(&str, &str)]) -> Option<TestRegistry> {
        let program = machine::require_program("docker-registry")?;
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let config = directory.path().join("config.yml");
        std::fs::write(
            &config,
            "version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: /nonexistent\n",
        )
        .expect("the file can be written");
        let mut process = Command::new(program)
            .arg("serve")
            .arg(&config)
            .env_clear()
            .env("REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY", directory.path().join("store"))
            .env("REGISTRY_HTTP_ADDR", "127.0.0.1:0")
            .env("OTEL_TRACES_EXPORTER", "none")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the registry can be started");
        let log = BufReader::new(process.stderr.take().expect("standard error is a pipe"));
        let mut said = String::new();
        let mut lines = log.lines();
        let address = loop {
            let Some(Ok(line)) = lines.next() else { panic!("the registry ended:\n{said}") };
            if let Some(address) = listening_on(&line) {
                break address;
            }
            said.push_str(&line);
            said.push('\n');
        };
        // Nobody reads the rest, but the pipe must not fill up. The thread ends with the registry.
        std::thread::spawn(move || lines.for_each(drop));
        Some(TestRegistry { process, address, _directory: directory })
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Pushes an image; answers its whole name.
    pub fn push(&self, repository: &str, tag: &str, image: &MadeImage) -> String {
        image.blobs().for_each(|blob| self.push_blob(repository, blob));
        self.push_manifest(repository, tag, "application/vnd.oci.image.manifest.v1+json", &image.manifest);
        format!("{}/{repository}:{tag}", self.address)
    }

    /// Pushes one blob.
    pub fn push_blob(&self, repository: &str, blob: &[u8]) {
        let (status, headers) = self.request("POST", &format!("/v2/{repository}/blobs/uploads/"), "", b"");
        assert_eq!(status, 202, "an upload can be begun");
        let location = &headers["location"];
        let path = location.split_once(&self.address).map_or(location.as_str(), |(_, path)| path);
        let joint = if path.contains('?') { '&' } else { '?' };
        let target = format!("{path}{joint}digest={}", digest(blob));
        let (status, _) = self.request("PUT", &target, "application/octet-stream", blob);
        assert_eq!(status, 201, "a blob can be uploaded");
    }

    /// Pushes a manifest or an index under a tag or digest.
    pub fn push_manifest(&self, repository: &str, tag: &str, media_type: &str, manifest: &[u8]) {
        let (status, _) =
            self.request("PUT", &format!("/v2/{repository}/manifests/{tag}"), media_type, manifest);
        assert_eq!(status, 201, "a manifest can be uploaded");
    }

    fn request(
        &self,
        method: &str,
        target: &str,
        media_type: &str,
        body: &[u8],
    ) -> (u16, BTreeMap<String, String>) {
        let mut stream = TcpStream::connect(&self.address).expect("the registry listens");
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the registry reads");
        stream.write_all(body).expect("the registry reads");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("the registry answers");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        (status, read_headers(&mut reader))
    }
}

/// The address in a line of the registry's log such as `msg="listening on 127.0.0.1:5000"`.
fn listening_on(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("listening on ")?;
    let address: String = rest.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
    address.parse::<SocketAddr>().ok().map(|address| address.to_string())
}

fn read_headers(reader: &mut impl BufRead) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        let count = reader.read_line(&mut line).expect("headers can be read");
        let Some((name, value)) = line.trim_end().split_once(':') else {
            assert!(count == 0 || line.trim_end().is_empty(), "a header line: {line:?}");
            return headers;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
}

/// What an [`OddRegistry`] is asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Path and query.
    pub target: String,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
}

/// What an [`OddRegistry`] answers.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header lines.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Bytes after which the connection breaks although more was announced.
    pub cut: Option<usize>,
}

impl Answer {
    /// 200 with a body.
    pub fn ok(body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, body: body.into(), ..Answer::default() }
    }

    /// Another status with a body.
    pub fn status(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status, body: body.into(), ..Answer::default() }
    }

    /// With a header.
    pub fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A registry that a test scripts. Plain HTTP on loopback; the listener lives as long as the process.
#[derive(Debug, Clone)]
pub struct OddRegistry {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl OddRegistry {
    /// Serves with this function until the process ends.
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> OddRegistry {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let registry = OddRegistry { address, asked: Arc::clone(&asked) };
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
                std::thread::spawn(move || serve(stream, &*answer, &asked));
            }
        });
        registry
    }

    /// A registry with one image under any name and tag; `change` may replace each answer.
    pub fn with_image(
        image: MadeImage,
        change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static,
    ) -> OddRegistry {
        OddRegistry::start(move |asked| {
            let path = asked.target.split('?').next().unwrap_or_default();
            let last = path.rsplit('/').next().unwrap_or_default();
            let right = if path == "/v2/" {
                Answer::ok("{}")
            } else if path.contains("/manifests/") {
                Answer::ok(image.manifest.clone())
                    .header("Content-Type", "application/vnd.oci.image.manifest.v1+json")
            } else {
                match image.blobs().find(|blob| digest(blob) == last) {
                    Some(blob) => Answer::ok(blob.to_vec()),
                    None => {
                        Answer::status(404, r#"{"errors":[{"code":"BLOB_UNKNOWN","message":"no blob"}]}"#)
                    }
                }
            };
            change(asked, right)
        })
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Everything that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no test panics while it holds this").clone()
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Asked) -> Answer, log: &Mutex<Vec<Asked>>) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut first = [0];
    // A client that tries TLS first is told that this is no such place.
    match stream.peek(&mut first) {
        Ok(1) if first[0].is_ascii_uppercase() => {}
        _ => return,
    }
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers = read_headers(&mut reader);
    let asked = Asked { target, headers };
    log.lock().expect("no test panics while it holds this").push(asked.clone());
    let answer = answer(&asked);
    let mut head = format!(
        "HTTP/1.1 {} Odd\r\nConnection: close\r\nContent-Length: {}\r\n",
        answer.status,
        answer.body.len()
    );
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let body = &answer.body[..answer.cut.unwrap_or(answer.body.len()).min(answer.body.len())];
    // The client may have gone: that is its right.
    let _ = writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(body));
    let _ = writer.shutdown(std::net::Shutdown::Write);
    let _ = reader.read_to_end(&mut Vec::new());
}
