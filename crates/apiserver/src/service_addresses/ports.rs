//! Ports on nodes: those of services, and those at which balancers ask nodes for their health.

use std::ops::Range;

use admission::{BadValue, FieldError, FieldErrorKind};
use serde_json::{Value, json};

use super::{Allocation, Taken};
use crate::object::{at, list, text};

/// All ports that services may have on nodes.
pub(super) const NODE_PORTS: Range<u32> = 30_000..32_768;
/// The first port that is given to those who ask for none, as long as there are others: those below are for who asks by
/// number (<https://kubernetes.io/docs/concepts/services-networking/service/#avoid-nodeport-collisions>).
const FIRST_GIVEN: u32 = NODE_PORTS.start + 86;

/// Fills in the ports that the type of a service wants.
pub(super) fn allocate_ports(
    taken: &mut Taken,
    service: &mut Value,
    old: Option<&Value>,
    allocation: &mut Allocation<'_>,
) -> Result<(), FieldError> {
    let wants_ports = match text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => {
            at(service, &["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true)
        }
        _ => false,
    };
    let kept: Vec<u16> = old.map(|old| node_ports(old).collect()).unwrap_or_default();
    let Some(ports) = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut) else { return Ok(()) };
    for (index, port) in ports.iter_mut().enumerate() {
        let wanted = port.get("nodePort").and_then(Value::as_u64).unwrap_or(0);
        let invalid = |detail: String| FieldError {
            kind: FieldErrorKind::Invalid,
            field: format!("spec.ports[{index}].nodePort"),
            bad_value: BadValue::Json(json!(wanted)),
            detail,
        };
        if wanted == 0 && !wants_ports {
            continue;
        }
        let number = if wanted == 0 {
            free_port(taken)
                .ok_or_else(|| invalid(format!("failed to allocate a nodePort: {}", ports_are_full())))?
        } else {
            let is_own = |number| kept.contains(&number) || allocation.ports.contains(&number);
            // The same number may serve TCP and UDP of one service.
            wanted_port(taken, wanted, is_own).map_err(invalid)?
        };
        if !kept.contains(&number) && taken.ports.take(number.into()) {
            allocation.ports.push(number);
        }
        port["nodePort"] = json!(number);
    }
    allocate_health_check(taken, service, old, allocation)
}

/// A balancer that keeps to nodes with endpoints asks each node for them at a port.
fn allocate_health_check(
    taken: &mut Taken,
    service: &mut Value,
    old: Option<&Value>,
    allocation: &mut Allocation<'_>,
) -> Result<(), FieldError> {
    let spec = &service["spec"];
    if spec["type"] != "LoadBalancer" || spec["externalTrafficPolicy"] != "Local" {
        return Ok(());
    }
    let wanted = spec["healthCheckNodePort"].as_u64().unwrap_or(0);
    let kept = old.and_then(|old| old["spec"]["healthCheckNodePort"].as_u64()).unwrap_or(0);
    if wanted != 0 && wanted == kept {
        return Ok(());
    }
    let invalid = |detail: String| FieldError {
        kind: FieldErrorKind::Invalid,
        field: "spec.healthCheckNodePort".to_owned(),
        bad_value: BadValue::Json(json!(wanted)),
        detail,
    };
    let number = if wanted == 0 {
        free_port(taken).ok_or_else(|| {
            invalid(format!("failed to allocate a health check nodePort: {}", ports_are_full()))
        })?
    } else {
        wanted_port(taken, wanted, |_| false).map_err(invalid)?
    };
    taken.ports.take(number.into());
    allocation.ports.push(number);
    service["spec"]["healthCheckNodePort"] = json!(number);
    Ok(())
}

fn free_port(taken: &Taken) -> Option<u16> {
    let free = taken.ports.some_free(FIRST_GIVEN..NODE_PORTS.end);
    free.or_else(|| taken.ports.some_free(NODE_PORTS.start..FIRST_GIVEN))
        .and_then(|port| u16::try_from(port).ok())
}

/// The port that a client wants, unless another service has it.
fn wanted_port(taken: &Taken, wanted: u64, is_own: impl Fn(u16) -> bool) -> Result<u16, String> {
    let last = NODE_PORTS.end - 1;
    let number = u16::try_from(wanted).ok().filter(|number| NODE_PORTS.contains(&(*number).into()));
    let number = number.ok_or_else(|| {
        let first = NODE_PORTS.start;
        format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
    })?;
    if taken.ports.has(number.into()) && !is_own(number) {
        return Err("provided port is already allocated".to_owned());
    }
    Ok(number)
}

fn ports_are_full() -> String {
    format!(
        "range {}-{} is full; delete a service of type NodePort or LoadBalancer, or set allocateLoadBalancerNodePorts: \
         false",
        NODE_PORTS.start,
        NODE_PORTS.end - 1
    )
}

/// The ports that a service holds on nodes, with the one for health checks.
pub(super) fn node_ports(service: &Value) -> impl Iterator<Item = u16> + '_ {
    let health_check = at(service, &["spec", "healthCheckNodePort"]).and_then(Value::as_u64);
    list(service, &["spec", "ports"])
        .iter()
        .filter_map(|port| port.get("nodePort").and_then(Value::as_u64))
        .chain(health_check)
        .filter_map(|port| u16::try_from(port).ok())
        .filter(|port| *port > 0)
}
