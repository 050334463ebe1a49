//! The calls of the runtime that the agent makes, each as a boxed future of its own. The generated clients are generic over
//! their connection, and a task that holds their futures directly cannot be shown to be `Send`.

use cri::v1;
use futures::future::BoxFuture;
use tonic::{Response, Status, Streaming};

/// A call under way.
type Call<T> = BoxFuture<'static, Result<Response<T>, Status>>;

fn call<Client, Request, Answer>(
    client: Client,
    request: Request,
    method: impl for<'c> FnOnce(&'c mut Client, Request) -> BoxFuture<'c, Result<Response<Answer>, Status>>
    + Send
    + 'static,
) -> Call<Answer>
where
    Client: Send + 'static,
    Request: Send + 'static,
    Answer: 'static,
{
    Box::pin(async move {
        let mut client = client;
        method(&mut client, request).await
    })
}

macro_rules! calls {
    ($handle:ident { $($method:ident($request:ty) -> $answer:ty;)* }) => {
        impl $handle {
            $(
                pub(crate) fn $method(&self, request: $request) -> Call<$answer> {
                    call(self.client.clone(), request, |client, request| Box::pin(client.$method(request)))
                }
            )*
        }
    };
}

/// Sandboxes and containers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeCalls {
    client: cri::RuntimeClient,
}

impl RuntimeCalls {
    pub(crate) fn new(client: cri::RuntimeClient) -> Self {
        Self { client }
    }
}

calls!(RuntimeCalls {
    version(v1::VersionRequest) -> v1::VersionResponse;
    status(v1::StatusRequest) -> v1::StatusResponse;
    run_pod_sandbox(v1::RunPodSandboxRequest) -> v1::RunPodSandboxResponse;
    stop_pod_sandbox(v1::StopPodSandboxRequest) -> v1::StopPodSandboxResponse;
    remove_pod_sandbox(v1::RemovePodSandboxRequest) -> v1::RemovePodSandboxResponse;
    pod_sandbox_status(v1::PodSandboxStatusRequest) -> v1::PodSandboxStatusResponse;
    list_pod_sandbox(v1::ListPodSandboxRequest) -> v1::ListPodSandboxResponse;
    create_container(v1::CreateContainerRequest) -> v1::CreateContainerResponse;
    start_container(v1::StartContainerRequest) -> v1::StartContainerResponse;
    stop_container(v1::StopContainerRequest) -> v1::StopContainerResponse;
    remove_container(v1::RemoveContainerRequest) -> v1::RemoveContainerResponse;
    list_containers(v1::ListContainersRequest) -> v1::ListContainersResponse;
    container_status(v1::ContainerStatusRequest) -> v1::ContainerStatusResponse;
    list_container_stats(v1::ListContainerStatsRequest) -> v1::ListContainerStatsResponse;
    exec_sync(v1::ExecSyncRequest) -> v1::ExecSyncResponse;
    exec(v1::ExecRequest) -> v1::ExecResponse;
    attach(v1::AttachRequest) -> v1::AttachResponse;
    port_forward(v1::PortForwardRequest) -> v1::PortForwardResponse;
    get_container_events(v1::GetEventsRequest) -> Streaming<v1::ContainerEventResponse>;
});

/// Images. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ImageCalls {
    client: cri::ImageClient,
}

impl ImageCalls {
    pub(crate) fn new(client: cri::ImageClient) -> Self {
        Self { client }
    }
}

calls!(ImageCalls {
    image_status(v1::ImageStatusRequest) -> v1::ImageStatusResponse;
    pull_image(v1::PullImageRequest) -> v1::PullImageResponse;
});
