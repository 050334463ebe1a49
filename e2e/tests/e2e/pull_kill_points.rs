//! Kill -9 of the daemon at each named point of the transfer of an image: nothing half-made is ever used, the next life of the
//! daemon pulls what is missing, and the pod runs; when it and the image are gone, so is everything of them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;
use testkit::image::{Compression, ImageMaker};
use testkit::registry::TestRegistry;
use testkit::tar::TarMaker;

use super::crash_lane::{Lane, Outcome, ensure};
use super::kill_points::has_points;
use super::node::with_kubectl;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The image has two layers; one of them comes in several pieces.
const KILLS: [(&str, u32); 14] = [
    ("pull.manifest_read", 1),
    ("pull.configuration_read", 1),
    ("pull.piece_received", 1),
    ("pull.piece_received", 3),
    ("pull.layer_received", 1),
    ("pull.layer_unpacked", 1),
    ("pull.layer_received", 2),
    ("pull.layer_unpacked", 2),
    ("pull.layers_unpacked", 1),
    ("image.locked", 1),
    ("image.layers_adopted", 1),
    ("image.described", 1),
    ("image.named", 1),
    ("image.present", 1),
];

/// The points of this table.
pub(crate) fn points() -> BTreeSet<String> {
    KILLS.iter().map(|kill| kill.0.to_owned()).collect()
}

#[test]
fn kill_9_at_any_point_of_a_pull_uses_nothing_half_made_and_pulls_again() {
    let test = "kill_9_at_any_point_of_a_pull_uses_nothing_half_made_and_pulls_again";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let Some(registry) = TestRegistry::start() else { return };
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let mut lane = Lane::new();
    let mut failures = Vec::new();
    for (number, (point, visit)) in KILLS.into_iter().enumerate() {
        let shown = format!("{point} {visit}");
        if !shown.contains(&only) {
            continue;
        }
        if let Err(problem) = survive(&mut lane, &registry, (point, visit), number) {
            failures.push(format!("{shown}: {problem}\n--- node\n{}", lane.last_of_log()));
            eprintln!("{}", failures.last().expect("one"));
            // What is wrong here must not spoil the next case.
            lane = Lane::new();
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), KILLS.len(), failures.join("\n"));
}

/// One pull with one kill.
fn survive(
    lane: &mut Lane,
    registry: &TestRegistry,
    (point, visit): (&'static str, u32),
    number: usize,
) -> Outcome {
    // No case has a layer in common with another. What does not compress comes in pieces.
    let noise: Vec<u8> = (0..1_000_000_u64)
        .map(|at| (at.wrapping_add(number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect();
    let made = ImageMaker::busybox()
        .ok_or("busybox is missing")?
        .layer(TarMaker::new().file("noise", noise).file("word", format!("whole {number}")))
        .env(&[&format!("NUMBER={number}")])
        .compression(Compression::Plain)
        .build();
    let image = registry.push("team/app", &number.to_string(), &made);
    let name = format!("i{number}");
    let path = format!("{PODS}/{name}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": image, "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "cat /word; wc -c < /noise; exec sleep 100000"],
            }],
        },
    });
    lane.arm_lines(&format!("kill {point} {visit}\n"));
    lane.ask("POST", PODS, &pod.to_string());
    lane.wait_for_death()?;
    let is_named = matches!(point, "image.named" | "image.present");
    let list = lane.image(&["list"])?;
    ensure(list.contains("team/app") == is_named, || format!("after the kill there is {list}"))?;
    lane.up();
    let log = format!("{path}/log");
    lane.wait("the pod does not say what its image has", || {
        let (code, text) = lane.ask("GET", &log, "").ok_or("nobody answers")?;
        let expected = format!("whole {number}1000000\n");
        ensure(code == 200 && text == expected, || format!("{code} {text}"))
    })?;
    let images = lane.data().join("images");
    ensure_empty(&images, &["ingest", "quarantine"])?;
    lane.ask("DELETE", &path, "");
    lane.wait("the pod is still there", || {
        ensure(lane.ask("GET", &path, "").is_some_and(|(code, _)| code == 404), String::new)
    })?;
    lane.image(&["remove", &image])?;
    // The object may be gone a moment before the container is, which holds its image.
    let kept = ["layers", "blobs/sha256", "images", "references", "holds", "ingest", "quarantine"];
    lane.wait("something stays", || ensure_empty(&images, &kept))
}

fn ensure_empty(images: &Path, names: &[&str]) -> Outcome {
    for name in names {
        let entries = std::fs::read_dir(images.join(name)).into_iter().flatten().flatten();
        let left: Vec<_> = entries.map(|entry| entry.path()).collect();
        ensure(left.is_empty(), || format!("left in the store: {left:?}"))?;
    }
    Ok(())
}
