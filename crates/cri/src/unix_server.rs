//! Serving both CRI services on a Unix socket that only its owner may open.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::MAX_MESSAGE_BYTES;
use crate::v1::image_service_server::{ImageService, ImageServiceServer};
use crate::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};

/// Why the socket could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeUnixError {
    /// Another process listens there.
    #[error("another process serves {path}; stop it or choose another socket", path = path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The path holds something that is no socket.
    #[error("{path} exists and is no socket; remove it or choose another path", path = path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket could not be made.
    #[error("cannot listen on {path}", path = path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The server ended with an error.
    #[error("serving {path} failed", path = path.display())]
    Serve {
        /// The socket.
        path: PathBuf,
        /// What the transport said.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Listens on a Unix socket with mode 0600, in place of a socket that nobody serves any more.
///
/// # Errors
///
/// When the path is in use, is no socket, or cannot be made.
pub fn bind_unix(path: &Path) -> Result<UnixListener, ServeUnixError> {
    let failed = |source| ServeUnixError::Bind { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ServeUnixError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => return Err(ServeUnixError::InUse { path: path.to_owned() }),
            Err(_) => std::fs::remove_file(path).map_err(failed)?,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory).map_err(failed)?;
            }
        }
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Serves both services on a Unix socket until `shutdown` completes, then removes the socket.
///
/// # Errors
///
/// See [`ServeUnixError`].
pub async fn serve_unix<R: RuntimeService, I: ImageService>(
    path: &Path,
    runtime: R,
    images: I,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeUnixError> {
    let listener = bind_unix(path)?;
    let served = serve_unix_listener(listener, path, runtime, images, shutdown).await;
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "the socket was already gone");
    }
    served
}

/// Serves both services on a socket that [`bind_unix`] opened, until `shutdown` completes.
///
/// # Errors
///
/// [`ServeUnixError::Serve`].
pub async fn serve_unix_listener<R: RuntimeService, I: ImageService>(
    listener: UnixListener,
    path: &Path,
    runtime: R,
    images: I,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeUnixError> {
    let runtime = RuntimeServiceServer::new(runtime)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    Server::builder()
        .add_service(runtime)
        .add_service(ImageServiceServer::new(images))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown)
        .await
        .map_err(|source| ServeUnixError::Serve { path: path.to_owned(), source })
}
