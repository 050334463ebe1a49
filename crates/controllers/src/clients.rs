//! As whom controllers speak to the API: each as itself, with the rights that the bootstrap roles give it.

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Who lists and watches for all controllers: `system:kube-controller-manager`.
    ControllerManager,
    /// The scheduler: `system:kube-scheduler`.
    Scheduler,
    /// A controller, by the name of its service account in `kube-system`, such as `replicaset-controller`.
    Controller(&'static str),
}

impl Speaker {
    /// What it calls itself in events and as the manager of what it writes.
    pub fn component(self) -> &'static str {
        match self {
            Speaker::ControllerManager => "kube-controller-manager",
            Speaker::Scheduler => "default-scheduler",
            Speaker::Controller(name) => name,
        }
    }
}

/// Gives each speaker its client.
pub trait Clients: Send + Sync {
    /// The client on which `speaker` speaks.
    fn client(&self, speaker: Speaker) -> kube::Client;
}

/// One client for all: what a kubeconfig gives.
#[derive(Clone)]
pub struct OneClient(
    /// The client.
    pub kube::Client,
);

impl std::fmt::Debug for OneClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneClient")
    }
}

impl Clients for OneClient {
    fn client(&self, _: Speaker) -> kube::Client {
        self.0.clone()
    }
}
