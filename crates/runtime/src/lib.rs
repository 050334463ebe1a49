//! The container runtime: a CRI server over a shim for each pod
