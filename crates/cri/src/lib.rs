//! The messages and services of the container runtime interface (CRI) v1
