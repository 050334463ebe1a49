//! Ingresses: which paths of which hosts go to which services.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{messages, port_number, required_text, subdomain};
use crate::tree::{is_set, items, text};

/// What no absolute path of an ingress has inside, and how none ends.
const INSIDE: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const AT_THE_END: [&str; 2] = ["/..", "/."];

pub(crate) struct Ingress;

impl KindRules for Ingress {
    fn start(&self, object: &mut Value) {
        object["metadata"]["generation"] = 1.into();
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        let rules = items(&spec["rules"]);
        if rules.is_empty() && !is_set(&spec["defaultBackend"]) {
            errors.invalid(&path, rules.to_vec(), "either `defaultBackend` or `rules` must be specified");
        }
        if is_set(&spec["defaultBackend"]) {
            backend(errors, &path.child("defaultBackend"), &spec["defaultBackend"]);
        }
        for (index, rule) in rules.iter().enumerate() {
            let at = path.child("rules").index(index);
            host(errors, &at.child("host"), text(&rule["host"]));
            if !is_set(&rule["http"]) {
                continue;
            }
            let at = at.child("http").child("paths");
            let paths = items(&rule["http"]["paths"]);
            if paths.is_empty() {
                errors.required(&at, "");
            }
            for (index, one) in paths.iter().enumerate() {
                http_path(errors, &at.index(index), one);
            }
        }
        if is_set(&spec["ingressClassName"]) {
            subdomain(errors, &path.child("ingressClassName"), text(&spec["ingressClassName"]));
        }
    }
}

fn host(errors: &mut FieldErrors, path: &Path, host: &str) {
    if host.is_empty() {
        return;
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        return errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
    subdomain(errors, path, host.strip_prefix("*.").unwrap_or(host));
}

fn http_path(errors: &mut FieldErrors, path: &Path, one: &Value) {
    let written = text(&one["path"]);
    match text(&one["pathType"]) {
        "" => errors.required(&path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            let at = path.child("path");
            if !written.starts_with('/') {
                errors.invalid(&at, written, "must be an absolute path");
            }
            for part in INSIDE.into_iter().filter(|part| written.contains(part)) {
                errors.invalid(&at, written, format!("must not contain '{part}'"));
            }
            for part in AT_THE_END.into_iter().filter(|part| written.ends_with(part)) {
                errors.invalid(&at, written, format!("cannot end with '{part}'"));
            }
        }
        "ImplementationSpecific" => {
            if !written.is_empty() && !written.starts_with('/') {
                errors.invalid(&path.child("path"), written, "must be an absolute path");
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(&path.child("pathType"), other, &supported);
        }
    }
    backend(errors, &path.child("backend"), &one["backend"]);
}

fn backend(errors: &mut FieldErrors, path: &Path, backend: &Value) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (is_set(service), is_set(resource)) {
        (true, true) => return errors.invalid(path, "", "cannot set both resource and service backends"),
        (false, false) => return errors.invalid(path, "", "resource or service backend is required"),
        (false, true) => {
            required_text(errors, &path.child("resource").child("kind"), text(&resource["kind"]));
            required_text(errors, &path.child("resource").child("name"), text(&resource["name"]));
            return;
        }
        (true, false) => {}
    }
    let (at, name) = (path.child("service").child("name"), text(&service["name"]));
    if required_text(errors, &at, name) {
        errors.invalid_each(&at, name, messages(names::ServiceName::parse(name)));
    }
    let (at, port) = (path.child("service").child("port"), &service["port"]);
    let (name, number) = (text(&port["name"]), port["number"].as_i64().unwrap_or(0));
    match (name.is_empty(), number == 0) {
        (false, false) => errors.invalid(path, "", "cannot set both port name & port number"),
        (true, true) => errors.required(path, "port name or number is required"),
        (false, true) => {
            errors.invalid_each(&at.child("name"), name, messages(names::PortName::parse(name)));
        }
        (true, false) => port_number(errors, &at.child("number"), &port["number"]),
    }
}
