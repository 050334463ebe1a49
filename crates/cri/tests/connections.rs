//! A client sees the same server in one process and over a socket.

use std::future::pending;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use cri::v1::image_service_server::ImageService;
use cri::v1::runtime_service_server::RuntimeService;
use cri::v1::{ListImagesRequest, StatusRequest, VersionRequest, VersionResponse};
use tonic::{Code, Request, Response, Status};

struct Named(&'static str);

#[tonic::async_trait]
impl RuntimeService for Named {
    async fn version(&self, request: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        if request.get_ref().version == "never" {
            return pending().await;
        }
        Ok(Response::new(VersionResponse { runtime_name: self.0.into(), ..Default::default() }))
    }
}

struct NoImages;

#[tonic::async_trait]
impl ImageService for NoImages {}

#[tokio::test]
async fn calls_arrive_in_one_process() {
    let (mut runtime, mut images) = cri::in_process(Named("here"), NoImages);
    let answer = runtime.version(VersionRequest::default()).await.unwrap().into_inner();
    assert_eq!(answer.runtime_name, "here");
    assert_eq!(runtime.status(StatusRequest::default()).await.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(
        images.list_images(ListImagesRequest::default()).await.unwrap_err().code(),
        Code::Unimplemented
    );
}

#[tokio::test]
async fn a_deadline_is_kept_in_one_process() {
    let (mut runtime, _) = cri::in_process(Named("here"), NoImages);
    let mut request = Request::new(VersionRequest { version: "never".into() });
    request.set_timeout(Duration::from_millis(20));
    assert_eq!(runtime.version(request).await.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn calls_arrive_over_a_private_socket_that_replaces_a_dead_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cri.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listener = cri::bind_unix(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(cri::bind_unix(&path), Err(cri::ServeUnixError::InUse { .. })));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served_path = path.clone();
    let server = tokio::spawn(async move {
        cri::serve_unix_listener(listener, &served_path, Named("there"), NoImages, async {
            let _ = stopped.await;
        })
        .await
    });
    let (mut runtime, _) = cri::connect(&path).await.unwrap();
    let answer = runtime.version(VersionRequest::default()).await.unwrap().into_inner();
    assert_eq!(answer.runtime_name, "there");
    drop(runtime);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_file_is_never_replaced_by_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    std::fs::write(&path, "kept").unwrap();
    assert!(matches!(cri::bind_unix(&path), Err(cri::ServeUnixError::NotASocket { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
}
