//! The dependency rules of `ARCHITECTURE.md`, read from the workspace itself.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const PURE: [&str; 8] =
    ["manifest", "names", "quantity", "expansion", "envfile", "environment", "template", "lifecycle"];
const MODEL: [&str; 4] = ["api", "schema", "cron", "admission"];
const ENGINES: [&str; 15] = [
    "store",
    "apiserver",
    "cri",
    "images",
    "network",
    "runtime",
    "kubelet",
    "informer",
    "events",
    "controllers",
    "proxy",
    "dns",
    "spdy",
    "sys",
    "fault",
];

/// What a pure crate may use from outside: no IO, no async, no clock, no logging.
const PURE_OUTSIDE: [&str; 9] = [
    "granit-parser",
    "base64",
    "serde",
    "serde_json",
    "thiserror",
    "memchr",
    "k8s-openapi",
    "jiff",
    "zeroize",
];

/// Ordinary dependencies of each crate of the workspace.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let ordinary = |package: &serde_json::Value| -> BTreeSet<String> {
        let all = package["dependencies"].as_array().expect("dependencies");
        let ordinary = all.iter().filter(|each| each["kind"].is_null());
        ordinary.map(|each| each["name"].as_str().expect("a name").to_owned()).collect()
    };
    packages.iter().map(|each| (each["name"].as_str().expect("a name").to_owned(), ordinary(each))).collect()
}

fn ring(name: &str) -> Option<usize> {
    let rings: [&[&str]; 3] = [&PURE, &MODEL, &ENGINES];
    rings.iter().position(|ring| ring.contains(&name))
}

#[test]
fn arrows_point_down_the_rings_only() {
    let edges = edges();
    for (name, uses) in &edges {
        let Some(from) = ring(name) else { continue };
        for used in uses {
            if let Some(to) = ring(used) {
                assert!(to <= from, "{name} must not depend on {used}: that points up the rings");
            }
            assert!(!["coracle", "testkit"].contains(&used.as_str()), "{name} must not depend on {used}");
        }
    }
}

#[test]
fn the_three_parts_meet_at_the_seams_only() {
    let edges = edges();
    let parts = ["apiserver", "kubelet", "runtime", "controllers", "proxy", "dns"];
    for part in parts {
        for other in parts.iter().filter(|other| **other != part) {
            assert!(!edges[part].contains(*other), "{part} must not depend on {other}");
        }
    }
    for below in ["store", "images", "network", "spdy", "informer", "events", "fault"] {
        for part in parts {
            assert!(!edges[below].contains(part), "{below} must not depend on {part}");
        }
    }
    assert!(!edges["kubelet"].contains("store") && !edges["kubelet"].contains("images"));
    assert!(!edges["runtime"].contains("kube") && !edges["runtime"].contains("k8s-openapi"));
}

#[test]
fn pure_crates_use_only_what_is_pure() {
    for (name, uses) in edges().iter().filter(|(name, _)| PURE.contains(&name.as_str())) {
        for used in uses {
            let known = PURE.contains(&used.as_str()) || PURE_OUTSIDE.contains(&used.as_str());
            assert!(known, "{name} is pure and must not depend on {used}");
        }
    }
}

#[test]
fn every_crate_is_in_a_ring_or_in_the_assembly() {
    let assembly = ["coracle", "testkit", "xtask", "e2e", "bench"];
    for name in edges().keys() {
        assert!(
            ring(name).is_some() || assembly.contains(&name.as_str()),
            "{name} has no place in ARCHITECTURE.md"
        );
    }
}
