//! A node that is measured from outside: started, asked, killed, ended.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, machine};

/// How long pods may take to end with their node.
const LAST_PODS: Duration = Duration::from_secs(30);

/// A node in a directory of its own, on a free port. Dropped, it ends with its pods.
#[derive(Debug)]
pub struct Node {
    child: Child,
    binary: PathBuf,
    data: PathBuf,
    kubeconfig: PathBuf,
}

impl Node {
    /// Starts `coracle up` on the directory and waits until the API is ready.
    ///
    /// # Errors
    ///
    /// When it does not become ready.
    pub fn up(binary: &Path, data: &Path) -> Outcome<Self> {
        let mut child = Command::new(binary)
            .args(["up", "--listen", "127.0.0.1:0", "--allow-host-image", "--data-dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let kubeconfig =
            line.trim().strip_prefix("export KUBECONFIG=").ok_or("the node did not become ready")?.into();
        Ok(Self { child, binary: binary.to_owned(), data: data.to_owned(), kubeconfig })
    }

    /// A client for the API with the administrator's rights.
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be used.
    pub async fn client(&self) -> Outcome<kube::Client> {
        let config = kube::Config::from_custom_kubeconfig(
            kube::config::Kubeconfig::read_from(&self.kubeconfig)?,
            &kube::config::KubeConfigOptions::default(),
        )
        .await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// The file by which clients reach it.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Its directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the daemon as a crash would; its pods go on.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// The processes that stand for the pods of this node.
    #[must_use]
    pub fn shims(&self) -> Vec<u32> {
        machine::processes(&["\0shim\0", &self.data.to_string_lossy()]).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // After a kill another daemon has the directory.
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // Pods that are being deleted end before their node does.
        let deadline = Instant::now() + LAST_PODS;
        while !self.shims().is_empty() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let mut down = Command::new(&self.binary);
        down.args(["down", "--data-dir"]).arg(&self.data).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = down.status();
    }
}
