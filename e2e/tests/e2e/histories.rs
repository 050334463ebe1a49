//! Histories of concurrent clients of the real server, which is killed again and again meanwhile: linearizable for each object, and
//! what a watcher sees is ordered, without gaps or repetitions, and can be resumed or says that it cannot.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use e2e::{Node, Place};
use serde_json::{Value, json};
use testkit::history::{Action, Operation, Outcome, Seen, check};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLIENTS: u64 = 5;
const OBJECTS: u64 = 3;
const ROUNDS: u64 = 4;
/// How many answers are waited for before the server is killed.
const ANSWERS: usize = 60;

/// What all clients and the watcher share.
#[derive(Default)]
struct Record {
    clock: AtomicU64,
    operations: Mutex<Vec<Operation>>,
    seen: Mutex<Vec<Seen>>,
}

impl Record {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// `kubectl proxy`: the API without TLS on a port of loopback.
struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    fn start(server: &Node) -> Proxy {
        let mut child = Command::new("kubectl")
            .args(["proxy", "--port=0"])
            .env("KUBECONFIG", &server.kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says its port");
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Proxy { child, port }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn begin(port: u16, method: &str, path: &str, media: &str, body: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    Some(stream)
}

/// Code and body; `None` when the answer did not come whole.
fn ask(port: u16, method: &str, path: &str, media: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = begin(port, method, path, media, body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn value(object: &Value) -> String {
    object["data"]["v"].as_str().unwrap_or_default().to_owned()
}

/// One client: does one thing after the other until the server is gone.
fn client(record: &Record, port: u16, name: &str, ended: &AtomicBool) {
    let mut state = name.bytes().fold(0x9e37_79b9_7f4a_7c15u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut roll = |sides: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % sides
    };
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    for count in 0u64.. {
        if ended.load(Ordering::SeqCst) {
            return;
        }
        let key = format!("n{}", roll(OBJECTS));
        let path = format!("{MAPS}/{key}");
        let text = format!("{name}-{count}");
        let object = |version: Option<u64>| {
            let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key}, "data": {"v": text}});
            if let Some(version) = version {
                object["metadata"]["resourceVersion"] = json!(version.to_string());
            }
            object.to_string()
        };
        let expected = known.get(&key).copied();
        let begun = record.now();
        const JSON: &str = "application/json";
        let (action, answer) = match (roll(10), expected) {
            (0..3, _) => (Action::Read, ask(port, "GET", &path, JSON, "")),
            (3..5, _) | (_, None) => (Action::Create, ask(port, "POST", MAPS, JSON, &object(None))),
            (5..7, Some(expected)) => {
                (Action::Update { expected }, ask(port, "PUT", &path, JSON, &object(Some(expected))))
            }
            (7..9, Some(_)) => {
                let patch = json!({"data": {"v": text}}).to_string();
                (Action::Overwrite, ask(port, "PATCH", &path, "application/merge-patch+json", &patch))
            }
            (_, Some(expected)) => {
                let options = json!({"preconditions": {"resourceVersion": expected.to_string()}}).to_string();
                (Action::Delete { expected }, ask(port, "DELETE", &path, JSON, &options))
            }
        };
        let ended_at = record.now();
        let outcome = match (&action, answer) {
            (Action::Delete { .. }, Some((200, _))) => Outcome::Deleted,
            (Action::Read, Some((200, found))) => {
                Outcome::Found { revision: revision(&found), value: value(&found) }
            }
            (_, Some((200 | 201, written))) => Outcome::Done(revision(&written)),
            (_, Some((404, _))) => Outcome::Absent,
            (Action::Create, Some((409, _))) => Outcome::Exists,
            (_, Some((409, _))) => Outcome::Conflict,
            // The proxy says 502 for a server that went away; then nobody knows.
            (_, Some((500..=599, _)) | None) => Outcome::Unknown,
            (action, Some((code, answer))) => panic!("{action:?} was answered {code}: {answer}"),
        };
        match &outcome {
            Outcome::Done(revision) | Outcome::Found { revision, .. } => {
                known.insert(key.clone(), *revision);
            }
            Outcome::Deleted | Outcome::Absent => {
                known.remove(&key);
            }
            Outcome::Exists | Outcome::Conflict | Outcome::Unknown => {}
        }
        let is_unknown = outcome == Outcome::Unknown;
        // A read that was not answered says nothing.
        if !(is_unknown && action == Action::Read) {
            let operation = Operation { key, action, value: text, begun, ended: ended_at, outcome };
            record.operations.lock().expect("no panic").push(operation);
        }
        if is_unknown {
            return;
        }
    }
}

/// What the watcher knows, across starts of the server.
#[derive(Default)]
struct Watcher {
    position: u64,
    states: BTreeMap<String, u64>,
    resumed: usize,
    gaps: usize,
}

impl Watcher {
    /// Watches until the stream ends; takes up where it was or, when that is forgotten, with the state.
    fn follow(&mut self, record: &Record, port: u16) {
        if self.position == 0 || !self.stream(record, port) {
            self.gaps += 1;
            self.list(record, port);
            self.stream(record, port);
        } else {
            self.resumed += 1;
        }
    }

    fn list(&mut self, record: &Record, port: u16) {
        let Some((200, list)) = ask(port, "GET", MAPS, "application/json", "") else { return };
        let mut seen = record.seen.lock().expect("no panic");
        let mut left = std::mem::take(&mut self.states);
        for object in list["items"].as_array().expect("a list") {
            let key = object["metadata"]["name"].as_str().expect("text").to_owned();
            if !key.starts_with('n') {
                continue;
            }
            if left.remove(&key) != Some(revision(object)) {
                let value = Some(value(object));
                seen.push(Seen { key: key.clone(), revision: revision(object), value, after_gap: true });
            }
            self.states.insert(key, revision(object));
        }
        self.position = revision(&list);
        for key in (0..OBJECTS).map(|number| format!("n{number}")) {
            if !self.states.contains_key(&key) {
                seen.push(Seen { key, revision: self.position, value: None, after_gap: true });
            }
        }
    }

    /// False when the position is forgotten.
    fn stream(&mut self, record: &Record, port: u16) -> bool {
        let path = format!("{MAPS}?watch=true&resourceVersion={}", self.position);
        let Some(stream) = begin(port, "GET", &path, "application/json", "") else { return true };
        let mut lines = BufReader::new(stream)
            .lines()
            .skip_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()));
        lines.next();
        for line in lines.map_while(Result::ok) {
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let object = &event["object"];
            let kind = event["type"].as_str().expect("a type");
            if kind == "ERROR" {
                assert_eq!(object["code"], 410, "{event}");
                return false;
            }
            let (at, key) = (revision(object), object["metadata"]["name"].as_str().expect("text"));
            assert!(
                at > self.position,
                "revisions go up, and none comes twice: {at} after {}",
                self.position
            );
            self.position = at;
            if !key.starts_with('n') {
                continue;
            }
            let value = (kind != "DELETED").then(|| value(object));
            match value {
                Some(_) => self.states.insert(key.to_owned(), at),
                None => self.states.remove(key),
            };
            let change = Seen { key: key.to_owned(), revision: at, value, after_gap: false };
            record.seen.lock().expect("no panic").push(change);
        }
        true
    }
}

#[test]
fn histories_hold_while_the_server_is_killed() {
    let place = Place::new();
    let directory = place.data().join("api");
    let arguments = ["--data-dir", directory.to_str().expect("the path is text")];
    let record = Arc::new(Record::default());
    let mut watcher = Watcher::default();
    for round in 0..ROUNDS {
        let mut server = Node::api_alone(&place, &format!("round{round}"), &arguments);
        let proxy = Proxy::start(&server);
        let port = proxy.port;
        let ended = AtomicBool::new(false);
        let before = record.operations.lock().expect("no panic").len();
        std::thread::scope(|scope| {
            let watching = scope.spawn(|| watcher.follow(&record, port));
            for number in 0..CLIENTS {
                let (record, ended) = (&record, &ended);
                scope.spawn(move || client(record, port, &format!("r{round}c{number}"), ended));
            }
            let begun = Instant::now();
            while record.operations.lock().expect("no panic").len() < before + ANSWERS {
                assert!(begun.elapsed() < Duration::from_secs(60), "{}", server.log());
                std::thread::yield_now();
            }
            server.kill();
            ended.store(true, Ordering::SeqCst);
            watching.join().expect("the watcher saw nothing wrong");
        });
    }
    // What is there in the end.
    let server = Node::api_alone(&place, "last", &arguments);
    let proxy = Proxy::start(&server);
    watcher.list(&record, proxy.port);
    let operations = record.operations.lock().expect("no panic");
    let seen = record.seen.lock().expect("no panic");
    assert!(operations.len() >= ANSWERS * 3 && !seen.is_empty());
    if let Err(problem) = check(&operations, &seen) {
        panic!("{problem}");
    }
}
