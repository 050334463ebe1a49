//! Relays exec, attach and port-forward: the runtime names a URL for each stream, the request goes there as it came, and
//! after the upgrade bytes pass in both directions.

use std::sync::Arc;

use bytes::Bytes;
use cri::v1;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;

use super::query::Query;
use super::runtime_stream::{ask_runtime, hand_back};
use super::{Body, HttpError, HttpInterface, port_tunnel};
use crate::labels;

fn refused(status: tonic::Status) -> HttpError {
    match status.code() {
        tonic::Code::NotFound => HttpError::NotFound(status.message().to_owned()),
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition => {
            HttpError::BadRequest(status.message().to_owned())
        }
        _ => HttpError::Internal(status.message().to_owned()),
    }
}

/// What the client wants to be connected to. Both the API's and the kubelet's names of the parameters are understood.
struct Wanted {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Wanted {
    fn read(query: &Query) -> Result<Self, HttpError> {
        let flag = |one: &str, other: &str| query.flag(one) || query.flag(other);
        let tty = query.flag("tty");
        let wanted = Self {
            stdin: flag("stdin", "input"),
            stdout: flag("stdout", "output"),
            // A terminal has one output.
            stderr: flag("stderr", "error") && !tty,
            tty,
        };
        if !(wanted.stdin || wanted.stdout || wanted.stderr) {
            let message = "you must specify at least one of stdin, stdout, stderr";
            return Err(HttpError::BadRequest(message.to_owned()));
        }
        Ok(wanted)
    }
}

pub(super) async fn exec(
    interface: &HttpInterface,
    target: (&str, &str, &str),
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let query = Query::parse(request.uri().query());
    let wanted = Wanted::read(&query)?;
    let cmd = query.all("command");
    if cmd.is_empty() {
        return Err(HttpError::BadRequest("you must specify a command".to_owned()));
    }
    let container_id = running_container(interface, target).await?;
    let exec = v1::ExecRequest {
        container_id,
        cmd,
        tty: wanted.tty,
        stdin: wanted.stdin,
        stdout: wanted.stdout,
        stderr: wanted.stderr,
    };
    let answer = interface.agent.runtime.exec(exec).await.map_err(refused)?;
    relay(interface, &answer.into_inner().url, request).await
}

pub(super) async fn attach(
    interface: &HttpInterface,
    target: (&str, &str, &str),
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let query = Query::parse(request.uri().query());
    let wanted = Wanted::read(&query)?;
    let container_id = running_container(interface, target).await?;
    let attach = v1::AttachRequest {
        container_id,
        tty: wanted.tty,
        stdin: wanted.stdin,
        stdout: wanted.stdout,
        stderr: wanted.stderr,
    };
    let answer = interface.agent.runtime.attach(attach).await.map_err(refused)?;
    relay(interface, &answer.into_inner().url, request).await
}

pub(super) async fn port_forward(
    interface: &HttpInterface,
    (namespace, name): (&str, &str),
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let query = Query::parse(request.uri().query());
    let mut port = Vec::new();
    for text in query.all("port").iter().chain(&query.all("ports")).flat_map(|text| text.split(',')) {
        let number = text.parse::<u16>().ok().filter(|number| *number > 0);
        let number =
            number.ok_or_else(|| HttpError::BadRequest(format!("port: {text:?} is not a port number")))?;
        port.push(i32::from(number));
    }
    let pod = interface.find(namespace, name).await?;
    let sandbox = ready_sandbox(interface, &pod)
        .await?
        .ok_or_else(|| HttpError::BadRequest(format!("pod {name} does not run")))?;
    let forward = v1::PortForwardRequest { pod_sandbox_id: sandbox, port };
    let answer = interface.agent.runtime.port_forward(forward).await.map_err(refused)?.into_inner();
    if port_tunnel::is_asked_for(request.headers()) {
        return port_tunnel::answer(interface, &answer.url, request).await;
    }
    relay(interface, &answer.url, request).await
}

/// The sandbox of a pod that is ready.
pub(super) async fn ready_sandbox(interface: &HttpInterface, pod: &Pod) -> Result<Option<String>, HttpError> {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let filter = v1::PodSandboxFilter {
        label_selector: std::collections::BTreeMap::from([(labels::POD_UID.to_owned(), uid)]),
        ..v1::PodSandboxFilter::default()
    };
    let list = v1::ListPodSandboxRequest { filter: Some(filter) };
    let sandboxes = interface.agent.runtime.list_pod_sandbox(list).await.map_err(refused)?;
    let mut sandboxes = sandboxes.into_inner().items.into_iter();
    let ready = sandboxes.find(|sandbox| sandbox.state == v1::PodSandboxState::SandboxReady as i32);
    Ok(ready.map(|sandbox| sandbox.id))
}

/// The running instance of a container; of the pod's only or first one if none is named.
async fn running_container(
    interface: &HttpInterface,
    (namespace, name, container): (&str, &str, &str),
) -> Result<String, HttpError> {
    let pod: Arc<Pod> = interface.find(namespace, name).await?;
    if lifecycle::container_role(&pod, container).is_none() {
        return Err(HttpError::NotFound(format!("container {container} is not valid for pod {name}")));
    }
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let selector = std::collections::BTreeMap::from([
        (labels::POD_UID.to_owned(), uid),
        (labels::CONTAINER_NAME.to_owned(), container.to_owned()),
    ]);
    let filter = v1::ContainerFilter {
        label_selector: selector,
        state: Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning as i32 }),
        ..v1::ContainerFilter::default()
    };
    let list = v1::ListContainersRequest { filter: Some(filter) };
    let answer = interface.agent.runtime.list_containers(list).await.map_err(refused)?;
    let running = answer.into_inner().containers.into_iter().next();
    running
        .map(|container| container.id)
        .ok_or_else(|| HttpError::NotFound(format!("container not found (\"{container}\")")))
}

/// Sends the request to the runtime's URL and joins both connections when it is answered with an upgrade.
async fn relay(
    interface: &HttpInterface,
    url: &str,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let mut answer = ask_runtime(interface, url, request.method().clone(), request.headers().clone()).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(hand_back(answer));
    }
    join(interface, hyper::upgrade::on(&mut request), hyper::upgrade::on(&mut answer));
    let mut response = Response::new(super::full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().clone_from(answer.headers());
    Ok(response)
}

/// Joins two connections once both are upgraded, in a task of its own.
pub(super) fn join(interface: &HttpInterface, near: OnUpgrade, far: OnUpgrade) {
    interface.agent.spawn(async move {
        // The near side is upgraded once its answer has been sent.
        let (Ok(far), Ok(near)) = tokio::join!(far, near) else {
            return;
        };
        let (mut far, mut near) = (TokioIo::new(far), TokioIo::new(near));
        if let Err(error) = tokio::io::copy_bidirectional(&mut near, &mut far).await {
            tracing::debug!(%error, "a stream ended early");
        }
    });
}
