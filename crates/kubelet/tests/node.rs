//! The node agent between a real API server and a runtime that behaves like one.

#[path = "node/cluster.rs"]
mod cluster;
#[path = "node/fake_runtime.rs"]
mod fake_runtime;

#[path = "node/deaths.rs"]
mod deaths;
#[path = "node/environment.rs"]
mod environment;
#[path = "node/ephemeral.rs"]
mod ephemeral;
#[path = "node/faults.rs"]
mod faults;
#[path = "node/hooks.rs"]
mod hooks;
#[path = "node/hooks_and_probes.rs"]
mod hooks_and_probes;
#[path = "node/life.rs"]
mod life;
#[path = "node/pod_life.rs"]
mod pod_life;
#[path = "node/probes.rs"]
mod probes;
#[path = "node/restarts.rs"]
mod restarts;
#[path = "node/scheduling.rs"]
mod scheduling;
#[path = "node/served.rs"]
mod served;

#[path = "node/statics.rs"]
mod statics;

use serde_json::{Value, json};

/// A container of the image that is always there.
fn container(name: &str, command: &[&str]) -> Value {
    json!({"name": name, "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": command})
}

/// The same with further fields.
fn container_with(name: &str, command: &[&str], fields: Value) -> Value {
    let mut container = container(name, command);
    let (Value::Object(object), Value::Object(fields)) = (&mut container, fields) else {
        panic!("both are objects");
    };
    object.extend(fields);
    container
}
