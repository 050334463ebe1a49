//! Addresses of a pod and of its node in the status: the single field and the list agree, and no family is there twice.
//!
//! Source: the conversions and validation of Kubernetes 1.36.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::errors::FieldErrors;
use crate::ip_family::IpFamily;
use crate::path::Path;
use crate::scalars::ip_address;
use crate::tree::{default_field, items, text};

/// Lets `podIP` and `podIPs` say the same: the first of the list is the single one, and where both are given and differ, the single
/// one counts.
pub(crate) fn settle(status: &mut Value) {
    let one = text(&status["podIP"]).to_owned();
    let first = items(&status["podIPs"]).first().map(|first| text(&first["ip"]).to_owned());
    match first {
        Some(first) => {
            default_field(status, "podIP", first.as_str());
            if !one.is_empty() && one != first {
                status["podIPs"] = json!([{"ip": one}]);
            }
        }
        None if !one.is_empty() => status["podIPs"] = json!([{"ip": one}]),
        None => {}
    }
}

/// Checks the addresses of a status.
pub(crate) fn validate(errors: &mut FieldErrors, status: &Value) {
    let path = Path::root("status");
    let hosts = items(&status["hostIPs"]);
    if let Some(first) = hosts.first()
        && text(&first["ip"]) != text(&status["hostIP"])
    {
        let at = path.child("hostIPs").index(0).child("ip");
        errors.invalid(&at, text(&first["ip"]), "must be equal to `hostIP`");
    }
    for name in ["podIPs", "hostIPs"] {
        let (at, all) = (path.child(name), items(&status[name]));
        for (index, address) in all.iter().enumerate() {
            ip_address(errors, &at.index(index), text(&address["ip"]));
        }
        let families: BTreeSet<_> =
            all.iter().map(|address| IpFamily::of_text(text(&address["ip"]))).collect();
        if all.len() > 1 && (families.len() < 2 || all.len() > 2) {
            errors.invalid(&at, all.to_vec(), "may specify no more than one IP for each IP family");
        }
    }
}
