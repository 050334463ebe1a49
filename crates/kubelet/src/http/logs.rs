//! `GET /containerLogs/NAMESPACE/POD/CONTAINER`: a container's log, as a stream while it is followed.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use cri::v1;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::HookKind;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::query::Query;
use super::{Body, HttpError, HttpInterface};
use crate::agent::SharedAgent;
use crate::container_config;
use crate::hook_log::HookLogs;
use crate::labels;
use crate::log_files::{LogOptions, LogReader, LogStream};
use crate::log_watch::LogWatch;

/// A followed log is looked at this often when nothing tells that it was written to: that of a hook, which is soon over.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is looked at when it is watched, should the kernel have dropped something.
const LOOK_WATCHED: Duration = Duration::from_secs(5);

pub(super) async fn answer(
    interface: &HttpInterface,
    (namespace, name, container): (&str, &str, &str),
    query: Option<&str>,
) -> Result<Response<Body>, HttpError> {
    let query = Query::parse(query);
    let options = options(&query)?;
    let pod = interface.find(namespace, name).await?;
    if lifecycle::container_role(&pod, container).is_none() {
        return Err(HttpError::NotFound(format!("container \"{container}\" in pod \"{name}\" not found")));
    }
    let previous = query.flag("previous");
    let log = match query.get("hook").filter(|name| !name.is_empty()) {
        Some(name) => find_hook_log(interface, &pod, container, name, previous)?,
        None => find_log(interface, &pod, container, previous).await?,
    };
    let reader = LogReader::open(&log.path, options);
    let reader = match reader {
        Ok(reader) => match log.writer {
            Writer::Container(_) => reader,
            Writer::Hook { .. } => reader.of_one_file(),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(HttpError::NotFound(format!(
                "the log of container \"{container}\" is not there (any more)"
            )));
        }
        Err(error) => return Err(HttpError::Internal(error.to_string())),
    };
    let (sender, receiver) = mpsc::channel(4);
    let follow = query.flag("follow");
    let agent = interface.agent.clone();
    interface.agent.spawn(async move {
        if let Err(error) = send(&agent, reader, &log, follow, &sender).await {
            let _ = sender.send(Err(error)).await;
        }
    });
    let stream = tokio_stream::StreamExt::map(ReceiverStream::new(receiver), |bytes| bytes.map(Frame::data));
    Ok(super::answer(StatusCode::OK, "text/plain; charset=utf-8", StreamBody::new(stream).boxed_unsync()))
}

fn options(query: &Query) -> Result<LogOptions, HttpError> {
    let number = |name: &str| query.number(name).map_err(HttpError::BadRequest);
    let since_seconds = number("sinceSeconds")?;
    let since_time = match query.get("sinceTime").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(text.parse::<Timestamp>().map_err(|_| {
            HttpError::BadRequest(format!("sinceTime: {text:?} is not a time like 2026-11-21T04:39:30Z"))
        })?),
    };
    let since = match since_seconds {
        Some(seconds) => {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            Timestamp::from_second(Timestamp::now().as_second().saturating_sub(seconds)).ok()
        }
        None => since_time,
    };
    let stream = match query.get("stream") {
        None | Some("" | "All") => None,
        Some("Stdout") => Some(LogStream::Stdout),
        Some("Stderr") => Some(LogStream::Stderr),
        Some(other) => {
            return Err(HttpError::BadRequest(format!("stream: {other:?} is none of All, Stdout, Stderr")));
        }
    };
    Ok(LogOptions {
        tail_lines: number("tailLines")?,
        since,
        timestamps: query.flag("timestamps"),
        limit_bytes: number("limitBytes")?,
        stream,
    })
}

/// A log and who writes it.
struct FoundLog {
    writer: Writer,
    path: PathBuf,
}

/// Who writes a log: as long as it does, there is more to come.
enum Writer {
    /// The container with that identifier.
    Container(String),
    /// A hook of a container of the pod with that UID.
    Hook { uid: String, container: String, kind: HookKind },
}

/// The log of a container's hook, which is there when the container is not any more.
fn find_hook_log(
    interface: &HttpInterface,
    pod: &Pod,
    container: &str,
    name: &str,
    previous: bool,
) -> Result<FoundLog, HttpError> {
    let Some(kind) = HookKind::parse(name) else {
        let names = HookKind::ALL.map(HookKind::as_str).join(", ");
        return Err(HttpError::BadRequest(format!("hook: {name:?} is none of {names}")));
    };
    let metadata = &pod.metadata;
    let uid = metadata.uid.clone().unwrap_or_default();
    let pod_name = metadata.name.as_deref().unwrap_or_default();
    let dir =
        interface.agent.config.log_dir(metadata.namespace.as_deref().unwrap_or_default(), pod_name, &uid);
    match HookLogs::new(&dir, container).find(kind, previous) {
        Some(path) => {
            Ok(FoundLog { writer: Writer::Hook { uid, container: container.to_owned(), kind }, path })
        }
        None => {
            let which = if previous { "previous " } else { "" };
            Err(HttpError::BadRequest(format!(
                "no {which}{name} hook of container \"{container}\" in pod \"{pod_name}\" has begun"
            )))
        }
    }
}

async fn find_log(
    interface: &HttpInterface,
    pod: &Pod,
    container: &str,
    previous: bool,
) -> Result<FoundLog, HttpError> {
    let metadata = &pod.metadata;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let selector = std::collections::BTreeMap::from([
        (labels::POD_UID.to_owned(), uid.to_owned()),
        (labels::CONTAINER_NAME.to_owned(), container.to_owned()),
    ]);
    let filter = v1::ContainerFilter { label_selector: selector, ..v1::ContainerFilter::default() };
    let request = v1::ListContainersRequest { filter: Some(filter) };
    let answer = interface.agent.runtime.list_containers(request).await;
    let answer = answer.map_err(|status| HttpError::Internal(status.message().to_owned()))?.into_inner();
    let mut instances: Vec<(u32, i32, String)> = answer
        .containers
        .into_iter()
        .filter(|one| one.state != v1::ContainerState::ContainerCreated as i32)
        .map(|one| (one.metadata.map_or(0, |metadata| metadata.attempt), one.state, one.id))
        .collect();
    instances.sort();
    let instance = if previous { instances.iter().rev().nth(1) } else { instances.last() };
    let Some((attempt, _, id)) = instance else {
        let name = metadata.name.as_deref().unwrap_or_default();
        let what = if previous { "previous terminated container" } else { "container" };
        let state = if previous { "not found" } else { "is waiting to start" };
        return Err(HttpError::BadRequest(format!("{what} \"{container}\" in pod \"{name}\" {state}")));
    };
    let dir = interface.agent.config.log_dir(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
        uid,
    );
    Ok(FoundLog {
        writer: Writer::Container(id.clone()),
        path: dir.join(container_config::log_path(container, *attempt)),
    })
}

type Sender = mpsc::Sender<std::io::Result<Bytes>>;

/// Sends what is there, and what comes as long as the container runs and somebody reads.
async fn send(
    agent: &SharedAgent,
    mut reader: LogReader,
    FoundLog { writer, path }: &FoundLog,
    follow: bool,
    sender: &Sender,
) -> std::io::Result<()> {
    let mut changes = agent.runtime_changes.subscribe();
    let watch = match writer {
        Writer::Container(_) if follow => path.parent().and_then(|dir| LogWatch::new(dir).ok()),
        Writer::Container(_) | Writer::Hook { .. } => None,
    };
    let mut running = follow;
    loop {
        changes.mark_unchanged();
        // Whether it runs is asked before the log is read to its end: what it wrote last is then part of what is read.
        if running {
            running = match writer {
                Writer::Container(id) => is_running(agent, id).await,
                Writer::Hook { uid, container, kind } => agent.running_hooks.contains(uid, container, *kind),
            };
        }
        loop {
            let (back, more) = tokio::task::spawn_blocking(move || {
                let more = reader.read_more();
                (reader, more)
            })
            .await
            .map_err(|error| std::io::Error::other(error.to_string()))?;
            reader = back;
            let more = more?;
            if more.is_empty() {
                break;
            }
            if sender.send(Ok(Bytes::from(more))).await.is_err() {
                return Ok(());
            }
        }
        if !running || reader.is_done() {
            return Ok(());
        }
        let written = async {
            match &watch {
                Some(watch) if watch.changed().await.is_ok() => {}
                Some(_) | None => tokio::time::sleep(LOOK).await,
            }
        };
        tokio::select! {
            _ = changes.changed() => {}
            () = written => {}
            () = tokio::time::sleep(LOOK_WATCHED) => {}
            () = sender.closed() => return Ok(()),
        }
    }
}

async fn is_running(agent: &SharedAgent, id: &str) -> bool {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    match agent.runtime.container_status(request).await {
        Ok(answer) => answer
            .into_inner()
            .status
            .is_some_and(|status| status.state == v1::ContainerState::ContainerRunning as i32),
        Err(_) => false,
    }
}
