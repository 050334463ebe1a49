//! The command `coracle apiserver`: the API server alone, without a node. Many run side by side on free ports, each with its own
//! objects; nodes join with `coracle kubelet --kubeconfig`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use crate::control_plane::{ControlPlane, ControlPlaneConfig, Listening, Objects, ServerOptions};
use crate::data_directory;
use crate::failure::{CANNOT_START, Failure, INPUT, exit_code};
use crate::flag_values;
use crate::interrupt::Interrupts;
use crate::standard_output;

/// Arguments of `coracle apiserver`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle apiserver &                            an API server in memory, on a free port, gone when it ends
  coracle apiserver --data-dir ./api --listen 127.0.0.1:6443
  coracle kubelet --kubeconfig ./api/kubeconfig --data-dir ./node-1     a node of it")]
pub(crate) struct ApiserverArgs {
    /// Address of the API; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Directory for objects, certificates and kubeconfig [default: objects in memory, the rest in a directory that goes
    /// with the process].
    #[arg(long, value_name = "DIR", value_parser = flag_values::directory())]
    data_dir: Option<PathBuf>,
    /// Further names and addresses by which clients reach the API.
    #[arg(long, value_name = "NAME", value_parser = flag_values::certificate_name)]
    tls_san: Vec<String>,
    /// Address at which pods of the nodes reach the API, for the endpoints of default/kubernetes [default: that of --listen,
    /// unless it is loopback].
    #[arg(long, value_name = "ADDR")]
    advertise_address: Option<IpAddr>,
    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the command.
pub(crate) fn run(args: ApiserverArgs) -> ExitCode {
    exit_code(crate::prerequisites::stay(stay(&args)))
}

async fn stay(args: &ApiserverArgs) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    if let Some(address) = args.advertise_address
        && (address.is_loopback() || address.is_unspecified())
    {
        return Err(Failure::text(INPUT, format!("{address} is no address at which pods reach anything"))
            .hint("name an address of this machine with --advertise-address, or leave the flag out"));
    }
    let listening = Listening::on(args.listen).await?;
    let (directory, objects) = match &args.data_dir {
        Some(directory) => {
            data_directory::make_private(directory)
                .map_err(|error| data_directory::cannot_use(directory, &error))?;
            (Place::Kept(directory.clone()), Objects::OnDisk)
        }
        None => (Place::Passing(PassingDirectory::create()?), Objects::InMemory),
    };
    let config = ControlPlaneConfig {
        directory: directory.path(),
        objects,
        listening: Some(listening),
        names: names(args),
        advertise: args.advertise_address,
        options: &args.server,
        own_node: None,
    };
    let mut control_plane = ControlPlane::start(config).await?;
    if let Some(kubeconfig) = &control_plane.kubeconfig
        && standard_output::line(format_args!("export KUBECONFIG={}", kubeconfig.display())).is_err()
    {
        tracing::warn!(kubeconfig = %kubeconfig.display(), "standard output cannot be written; the API is ready all the same");
    }
    let housekeeping_end = CancellationToken::new();
    let housekeeping = control_plane.start_housekeeping(&housekeeping_end);
    let ended = tokio::select! {
        () = interrupts.next() => Ok(()),
        failure = control_plane.failed() => Err(failure),
    };
    housekeeping_end.cancel();
    housekeeping.stopped().await;
    control_plane.stop_listening().await;
    control_plane.close().await;
    ended
}

/// What clients may call it besides where it listens.
fn names(args: &ApiserverArgs) -> Vec<String> {
    let advertised = args.advertise_address.iter().map(IpAddr::to_string);
    args.tls_san.iter().cloned().chain(advertised).collect()
}

/// Where its files lie.
enum Place {
    Kept(PathBuf),
    Passing(PassingDirectory),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Passing(directory) => &directory.path,
        }
    }
}

/// A directory of one process, which goes with it.
struct PassingDirectory {
    path: PathBuf,
}

impl PassingDirectory {
    /// Makes one that nobody else can have made: in the user's own directory of the session, or else with a name that
    /// cannot be guessed among the temporary files.
    fn create() -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let mut random = [0_u8; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::new(CANNOT_START, &error))?;
        let path = parent.join(format!("coracle-apiserver-{:016x}", u64::from_ne_bytes(random)));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| data_directory::cannot_use(&path, &error))?;
        Ok(Self { path })
    }
}

impl Drop for PassingDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(directory = %self.path.display(), %error, "the directory could not be removed");
        }
    }
}
