//! The command `coracle cri`: the container runtime alone, for a kubelet or `crictl` on the same machine.
//!
//! It is the same runtime that `run` and `up` use; only the way to it differs. Containers outlive it: the next start on the
//! same data directory adopts them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use images::ImageStore;
use network::{Network, NetworkConfig};
use runtime::{Runtime, RuntimeConfig};

use crate::data_directory;
use crate::failure::{CANNOT_START, Failure, INPUT, exit_code};
use crate::flag_values::{self, PodPids};
use crate::interrupt::Interrupts;

/// Where the interface is served when nobody says otherwise.
const DEFAULT_SOCKET: &str = "unix:///run/coracle/cri.sock";

/// Arguments of `coracle cri`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle cri &                                  the runtime on its usual socket
  crictl --runtime-endpoint unix:///run/coracle/cri.sock pods
  kubelet --container-runtime-endpoint=unix:///run/coracle/cri.sock ...")]
pub(crate) struct CriArgs {
    /// Socket to serve on; only its owner (root) may open it.
    #[arg(long, value_name = "unix:///PATH", default_value = DEFAULT_SOCKET)]
    listen: String,
    /// Directory for images and containers [default: /var/lib/coracle].
    #[arg(long, value_name = "DIR", value_parser = flag_values::directory())]
    data_dir: Option<PathBuf>,
    /// Most processes in a pod, or `unlimited`.
    #[arg(long, value_name = "COUNT", default_value = "4096")]
    pod_max_pids: PodPids,
    /// Whether a container that names no seccomp profile gets the default one; the interface gives it none.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set)]
    seccomp_default: bool,
    /// Allow containers to use the machine's own root file system as image `coracle.dev/host`.
    #[arg(long)]
    allow_host_image: bool,
}

/// Runs the command.
pub(crate) fn run(args: CriArgs) -> ExitCode {
    exit_code(start(&args))
}

fn start(args: &CriArgs) -> Result<(), Failure> {
    let socket = socket_path(&args.listen)?;
    crate::prerequisites::require_root("cri")?;
    crate::logging::start("info");
    crate::prerequisites::async_runtime()?.block_on(serve(args, &socket))
}

/// The path of a `unix://` address, which kubelet and `crictl` write with three slashes; a bare path will do.
fn socket_path(address: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(address.strip_prefix("unix://").unwrap_or(address));
    if path.is_absolute() && !address.contains('\0') {
        return Ok(path.to_owned());
    }
    Err(Failure::text(INPUT, format!("`{address}` is not the address of a Unix socket"))
        .place("--listen")
        .hint(format!("write it as {DEFAULT_SOCKET}; the interface is not served over the network")))
}

async fn serve(args: &CriArgs, socket: &Path) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let data_dir = args.data_dir.clone().unwrap_or_else(|| data_directory::DEFAULT.into());
    let failed = |error: &dyn std::error::Error| Failure::new(CANNOT_START, error);
    let in_use = |error: &dyn std::error::Error| {
        failed(error).place(data_dir.display().to_string()).hint("choose another directory with --data-dir")
    };
    std::fs::create_dir_all(&data_dir).map_err(|error| in_use(&error))?;
    data_directory::released(&data_dir, data_directory::RUNTIME, data_directory::RELEASE).await;
    let mut images = ImageStore::open(data_dir.join("images")).map_err(|error| in_use(&error))?;
    if args.allow_host_image {
        images = images.with_host_image();
    }
    let network = Network::open(NetworkConfig::new(&data_dir)).map_err(|error| in_use(&error))?;
    let config = RuntimeConfig {
        pod_max_pids: args.pod_max_pids.most(),
        private_directories: vec![data_dir.clone()],
        seccomp_default: args.seccomp_default,
        ..RuntimeConfig::new(data_dir.join("runtime"))
    };
    let runtime = Runtime::open(config, images, network).await.map_err(|error| in_use(&error))?;
    tracing::info!(socket = %socket.display(), data_dir = %data_dir.display(), "serving the container runtime interface");
    let ended = async { interrupts.next().await };
    cri::serve_unix(socket, runtime.clone(), runtime, ended)
        .await
        .map_err(|error| failed(&error).place("--listen"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_an_absolute_path_with_or_without_its_scheme() {
        for (address, expected) in [
            ("unix:///run/coracle/cri.sock", Some("/run/coracle/cri.sock")),
            ("/run/x.sock", Some("/run/x.sock")),
            ("unix://run/x.sock", None),
            ("x.sock", None),
            ("tcp://127.0.0.1:1", None),
            ("", None),
        ] {
            assert_eq!(socket_path(address).ok().as_deref(), expected.map(Path::new), "{address}");
        }
    }
}
