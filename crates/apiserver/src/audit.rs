//! The audit log: one line of JSON for each request (`audit.k8s.io/v1`, level Metadata): who asked for what, and what came of it.
//! Bodies are never in it. It is written by a thread of its own: a full disk, or a reader that stalls, costs lines of the log
//! and never a request; that is said once, and again when it is over.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use http::header::USER_AGENT;
use http::{Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::authorize::Decision;
use crate::identity::Identity;
use crate::request::{ResourceTarget, Verb};

/// How many lines may wait for the disk.
const WAITING: usize = 8192;
/// Most characters of what a client chose freely.
const SHOWN: usize = 4096;

/// Where the lines go.
#[derive(Clone)]
pub struct AuditLog(Arc<Inner>);

struct Inner {
    lines: SyncSender<String>,
    lost: Arc<AtomicU64>,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditLog")
    }
}

impl AuditLog {
    /// Appends to a file, which is made for its owner only.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread cannot be started.
    pub fn to_file(path: &Path) -> io::Result<AuditLog> {
        AuditLog::to(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?)
    }

    /// Writes to standard output.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn to_standard_output() -> io::Result<AuditLog> {
        AuditLog::to(io::stdout())
    }

    /// Writes to anything.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn to(target: impl Write + Send + 'static) -> io::Result<AuditLog> {
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || Writer { target, lost: counted, is_failing: false }.run(&waiting))?;
        Ok(AuditLog(Arc::new(Inner { lines, lost })))
    }

    fn write(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.0.lines.try_send(line) {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The thread that writes.
struct Writer<W> {
    target: W,
    lost: Arc<AtomicU64>,
    is_failing: bool,
}

impl<W: Write> Writer<W> {
    fn run(mut self, lines: &Receiver<String>) {
        while let Ok(line) = lines.recv() {
            // After a failure there may be half a line: the next one begins on its own.
            let text = if self.is_failing { format!("\n{line}\n") } else { format!("{line}\n") };
            match self.target.write_all(text.as_bytes()).and_then(|()| self.target.flush()) {
                Ok(()) => {
                    let lost = self.lost.swap(0, Ordering::Relaxed);
                    if lost > 0 {
                        tracing::warn!(lost, "the audit log is written again; lines of it are missing");
                    }
                    self.is_failing = false;
                }
                Err(error) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    if !self.is_failing {
                        tracing::error!(%error, "the audit log cannot be written; requests go on without it");
                    }
                    self.is_failing = true;
                }
            }
        }
    }
}

/// What is known of one request; nothing, when nobody listens.
#[derive(Debug, Default)]
pub(crate) struct Trail(Option<Box<Known>>);

#[derive(Debug)]
struct Known {
    log: AuditLog,
    received: Timestamp,
    uri: String,
    verb: String,
    user_agent: String,
    source: Option<IpAddr>,
    user: Value,
    impersonated: Option<Value>,
    object: Option<Value>,
    decision: Option<Decision>,
    is_long: bool,
}

impl Trail {
    /// A request of which only its head is known.
    pub(crate) fn new<B>(log: Option<&AuditLog>, source: Option<IpAddr>, request: &Request<B>) -> Trail {
        let Some(log) = log else { return Trail(None) };
        let uri = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let agent = request.headers().get(USER_AGENT).map(http::HeaderValue::as_bytes).unwrap_or_default();
        Trail(Some(Box::new(Known {
            log: log.clone(),
            received: Timestamp::now(),
            uri: shortened(&uri),
            verb: request.method().as_str().to_ascii_lowercase(),
            user_agent: shortened(&String::from_utf8_lossy(agent)),
            source,
            user: json!({}),
            impersonated: None,
            object: None,
            decision: None,
            is_long: false,
        })))
    }

    /// Whether somebody listens.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Who asks, and in whose name if in another's.
    pub(crate) fn user(&mut self, identity: &Identity, impersonated: Option<&Identity>) {
        if let Some(known) = &mut self.0 {
            known.user = identity.user_info();
            known.impersonated = impersonated.map(Identity::user_info);
        }
    }

    /// What it is asked for.
    pub(crate) fn object(&mut self, verb: Verb, target: &ResourceTarget) {
        let Some(known) = &mut self.0 else { return };
        verb.as_str().clone_into(&mut known.verb);
        let mut object = json!({"resource": target.resource, "apiVersion": target.version});
        let parts = [
            ("namespace", target.namespace.as_deref()),
            ("name", target.name.as_deref()),
            ("apiGroup", Some(target.group.as_str())),
            ("subresource", target.subresource.as_deref()),
        ];
        for (field, value) in parts {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                object[field] = json!(shortened(value));
            }
        }
        known.object = Some(object);
    }

    /// Whether it was allowed, and why.
    pub(crate) fn decision(&mut self, decision: Decision) {
        if let Some(known) = &mut self.0 {
            known.decision = Some(decision);
        }
    }

    /// The answer lasts; its beginning is what is noted.
    pub(crate) fn lasts(&mut self) {
        if let Some(known) = &mut self.0 {
            known.is_long = true;
        }
    }

    /// Writes the line.
    pub(crate) fn answered(self, code: StatusCode, panicked: bool) {
        let Some(known) = self.0 else { return };
        let log = known.log.clone();
        log.write(line(&known.event(code, panicked)));
    }
}

impl Known {
    fn event(&self, code: StatusCode, panicked: bool) -> Value {
        let time = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let stage = match (panicked, self.is_long && code.as_u16() < 400) {
            (true, _) => "Panic",
            (false, true) => "ResponseStarted",
            (false, false) => "ResponseComplete",
        };
        let mut status = json!({"metadata": {}, "code": code.as_u16()});
        if code.as_u16() >= 400 {
            status["status"] = json!("Failure");
        }
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": uuid::Uuid::new_v4().to_string(),
            "stage": stage,
            "requestURI": self.uri,
            "verb": self.verb,
            "user": self.user,
            "responseStatus": status,
            "requestReceivedTimestamp": time(self.received),
            "stageTimestamp": time(Timestamp::now()),
        });
        if let Some(user) = &self.impersonated {
            event["impersonatedUser"] = user.clone();
        }
        if let Some(source) = self.source {
            event["sourceIPs"] = json!([source.to_string()]);
        }
        if !self.user_agent.is_empty() {
            event["userAgent"] = json!(self.user_agent);
        }
        if let Some(object) = &self.object {
            event["objectRef"] = object.clone();
        }
        if let Some(decision) = &self.decision {
            event["annotations"] = json!({
                "authorization.k8s.io/decision": if decision.allowed { "allow" } else { "forbid" },
                "authorization.k8s.io/reason": decision.reason,
            });
        }
        event
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// One line, whatever is in it: JSON escapes what would end it, and what terminals obey is escaped as well.
fn line(event: &Value) -> String {
    let text = event.to_string();
    let obeyed = |character: char| ('\u{7f}'..='\u{9f}').contains(&character);
    if !text.contains(obeyed) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if obeyed(character) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, atomic::AtomicUsize};

    use http::{Request, StatusCode};
    use serde_json::{Value, json};

    use super::{AuditLog, Trail, line};

    #[test]
    fn nothing_that_a_client_writes_begins_a_line_or_moves_a_cursor() {
        let text = line(&json!({"userAgent": "a\n{\"kind\":\"Event\"}\r\u{1b}[2J\u{9b}2J\u{7f}"}));
        assert!(text.chars().all(|character| !character.is_control()), "{text:?}");
        let back: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(back["userAgent"], "a\n{\"kind\":\"Event\"}\r\u{1b}[2J\u{9b}2J\u{7f}");
    }

    /// A disk that is full for a while, and tells each attempt.
    struct Disk {
        is_full: Arc<AtomicBool>,
        attempts: Arc<AtomicUsize>,
        written: Sender<String>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.attempts.fetch_add(1, Ordering::SeqCst);
            if self.is_full.load(Ordering::SeqCst) {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            self.written.send(String::from_utf8_lossy(bytes).into_owned()).expect("read");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_stops_nothing_and_the_log_goes_on_when_there_is_room() {
        let (is_full, attempts) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (written, lines) = channel();
        let disk = Disk { is_full: is_full.clone(), attempts: attempts.clone(), written };
        let log = AuditLog::to(disk).expect("a thread");
        let ask = || {
            let request = Request::get("/api/v1/pods?limit=1").body(()).expect("a request");
            Trail::new(Some(&log), None, &request).answered(StatusCode::OK, false);
        };
        ask();
        while attempts.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        is_full.store(false, Ordering::SeqCst);
        ask();
        let text = lines.recv().expect("written");
        let event: Value = serde_json::from_str(text.trim()).expect("one line of JSON");
        assert_eq!(
            (&event["requestURI"], &event["stage"]),
            (&json!("/api/v1/pods?limit=1"), &json!("ResponseComplete"))
        );
    }
}
