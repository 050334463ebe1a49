//! End-to-end tests, by the promise that each file guards. One binary, so that it links once.

#[path = "e2e/access.rs"]
mod access;
#[path = "e2e/both_families.rs"]
mod both_families;
#[path = "e2e/claims.rs"]
mod claims;
#[path = "e2e/clients.rs"]
mod clients;
#[path = "e2e/clock_jumps.rs"]
mod clock_jumps;
#[path = "e2e/configmap_secret.rs"]
mod configmap_secret;
#[path = "e2e/containers.rs"]
mod containers;
#[path = "e2e/control_plane.rs"]
mod control_plane;
#[path = "e2e/controller_kill_points.rs"]
mod controller_kill_points;
#[path = "e2e/crash_lane.rs"]
mod crash_lane;
#[path = "e2e/damage.rs"]
mod damage;
#[path = "e2e/deployments.rs"]
mod deployments;
#[path = "e2e/dns.rs"]
mod dns;
#[path = "e2e/downward_api.rs"]
mod downward_api;
#[path = "e2e/endpoints.rs"]
mod endpoints;
#[path = "e2e/ephemeral_containers.rs"]
mod ephemeral_containers;
#[path = "e2e/examples.rs"]
mod examples;
#[path = "e2e/expansion.rs"]
mod expansion;
#[path = "e2e/explain.rs"]
mod explain;
#[path = "e2e/explain_cluster.rs"]
mod explain_cluster;
#[path = "e2e/fault_points.rs"]
mod fault_points;
#[path = "e2e/file_key.rs"]
mod file_key;
#[path = "e2e/foreign_runtime.rs"]
mod foreign_runtime;
#[path = "e2e/histories.rs"]
mod histories;
#[path = "e2e/hooks.rs"]
mod hooks;
#[path = "e2e/host_network.rs"]
mod host_network;
#[path = "e2e/job_kill_points.rs"]
mod job_kill_points;
#[path = "e2e/jobs.rs"]
mod jobs;
#[path = "e2e/kill_points.rs"]
mod kill_points;
#[path = "e2e/kubectl_services.rs"]
mod kubectl_services;
#[path = "e2e/machine.rs"]
mod machine;
#[path = "e2e/namespace_kill_points.rs"]
mod namespace_kill_points;
#[path = "e2e/neighbours.rs"]
mod neighbours;
#[path = "e2e/node.rs"]
mod node;
#[path = "e2e/nodes.rs"]
mod nodes;
#[path = "e2e/output.rs"]
mod output;
#[path = "e2e/own_machine.rs"]
mod own_machine;
#[path = "e2e/pod_fields.rs"]
mod pod_fields;
#[path = "e2e/pod_life.rs"]
mod pod_life;
#[path = "e2e/pod_security.rs"]
mod pod_security;
#[path = "e2e/pod_volumes.rs"]
mod pod_volumes;
#[path = "e2e/policies.rs"]
mod policies;
#[path = "e2e/probes.rs"]
mod probes;
#[path = "e2e/pull_kill_points.rs"]
mod pull_kill_points;
#[path = "e2e/reboots.rs"]
mod reboots;
#[path = "e2e/run_workloads.rs"]
mod run_workloads;
#[path = "e2e/scheduling.rs"]
mod scheduling;
#[path = "e2e/separate_processes.rs"]
mod separate_processes;
#[path = "e2e/server_side_apply.rs"]
mod server_side_apply;
#[path = "e2e/service_kill_points.rs"]
mod service_kill_points;
#[path = "e2e/service_ranges.rs"]
mod service_ranges;
#[path = "e2e/service_ways.rs"]
mod service_ways;
#[path = "e2e/services.rs"]
mod services;
#[path = "e2e/shim_kill_points.rs"]
mod shim_kill_points;
#[path = "e2e/stateful_sets.rs"]
mod stateful_sets;
#[path = "e2e/static_pods.rs"]
mod static_pods;
#[path = "e2e/storage_kill_points.rs"]
mod storage_kill_points;
#[path = "e2e/streams.rs"]
mod streams;
#[path = "e2e/template_examples.rs"]
mod template_examples;
#[path = "e2e/templates.rs"]
mod templates;
#[path = "e2e/workloads.rs"]
mod workloads;
#[path = "e2e/wrong_input.rs"]
mod wrong_input;
