//! One table of every built-in Kubernetes type and the walkers over it
