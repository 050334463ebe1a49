//! The controllers against an API server in memory, with a node that only pretends to run pods.

mod claims;
mod cluster;
mod daemon_sets;
mod endpoints;
mod informers;
mod jobs;
mod namespaces;
mod nodes;
mod replicas;
mod scheduling;
mod stateful_sets;
