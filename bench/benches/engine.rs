//! The engine: expansion, the composition of an environment, env files, manifests.
//!
//! `cargo bench -p bench`; what is to be reached stands beside each benchmark.

use std::collections::HashMap;
use std::fmt::Write;

use bench::{hostile_input, mixed_input, pod_with_variables, services, template_in_yaml};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use names::EnvNameGrammar;

fn main() {
    divan::main();
}

fn variables() -> HashMap<String, String> {
    (0..64).map(|number| (format!("VARIABLE_{number}"), format!("value of {number}"))).collect()
}

/// 64 KiB of text with a reference every hundred bytes: 1.5 GB/s.
#[divan::bench]
fn expansion_of_64_kib_mixed(bencher: Bencher<'_, '_>) {
    let variables = variables();
    let input = mixed_input(64 * 1024);
    bencher.counter(BytesCount::of_str(&input)).bench_local(|| {
        expansion::expand(black_box(&input), |name| variables.get(name).map(String::as_str), usize::MAX)
            .expect("no limit")
            .value
            .len()
    });
}

/// 1 MiB of `$(`: 10 ms.
#[divan::bench]
fn expansion_of_1_mib_hostile(bencher: Bencher<'_, '_>) {
    let variables = variables();
    let input = hostile_input(1024 * 1024);
    bencher.counter(BytesCount::of_str(&input)).bench_local(|| {
        expansion::expand(black_box(&input), |name| variables.get(name).map(String::as_str), usize::MAX)
            .expect("no limit")
            .value
            .len()
    });
}

/// 1,000 variables, half of them with references, beside 2,000 services: 2 ms.
#[divan::bench]
fn environment_of_1000_variables_and_2000_services(bencher: Bencher<'_, '_>) {
    let pod = pod_with_variables(1000);
    let sources = services(2000);
    let spec = pod.spec.as_ref().expect("a spec");
    let container = environment::ContainerView::of_container(0, &spec.containers[0]);
    let options = environment::Options::default();
    bencher.bench_local(|| {
        let resolved = environment::resolve(black_box(&pod), &container, &sources, &options);
        resolved.resolution.environment.entries().len()
    });
}

/// An env file of 64 KiB and 200 lookups: 200 us in all.
#[divan::bench]
fn env_file_of_64_kib_with_200_references(bencher: Bencher<'_, '_>) {
    let mut content = String::new();
    let mut number = 0;
    while content.len() < 64 * 1024 - 64 {
        let _ = writeln!(content, "VARIABLE_{number}='value number {number}'");
        number += 1;
    }
    let keys: Vec<String> = (0..200).map(|key| format!("VARIABLE_{}", key * number / 200)).collect();
    bencher.counter(BytesCount::of_str(&content)).bench_local(|| {
        let file =
            envfile::parse(black_box(content.as_bytes()), envfile::Syntax::Default, EnvNameGrammar::Relaxed)
                .expect("a valid file");
        let found =
            |key: &String| file.lookup(key).ok().flatten().map_or(0, |assignment| assignment.value.len());
        keys.iter().map(found).sum::<usize>()
    });
}

/// 1 MB of YAML as `helm template` writes it: 25 ms.
#[divan::bench]
fn manifest_of_1_mb_yaml(bencher: Bencher<'_, '_>) {
    let text = bench::deployments_in_yaml(1_000_000);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        manifest::parse_stream(black_box(text.as_bytes()), &manifest::Limits::default()).expect("valid").len()
    });
}

/// 1 MB of JSON as `kubectl get -o json` writes it: 25 ms.
#[divan::bench]
fn manifest_of_1_mb_json(bencher: Bencher<'_, '_>) {
    let text = bench::deployments_in_json(1_000_000);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        manifest::parse_stream(black_box(text.as_bytes()), &manifest::Limits::default()).expect("valid").len()
    });
}

fn processed(text: &str, bencher: Bencher<'_, '_>) {
    let documents =
        manifest::parse_stream(text.as_bytes(), &manifest::Limits::default()).expect("a document");
    bencher.bench_local(|| {
        let template = template::Template::read(black_box(&documents[0].root), None).expect("a template");
        let mut random = |bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        };
        template::process(&template, &template::Request::default(), &mut random)
            .expect("no problem")
            .objects
            .len()
    });
}

/// 100 objects, 200 parameters, 1 MiB of output: 10 ms.
#[divan::bench]
fn template_of_100_objects_and_200_parameters(bencher: Bencher<'_, '_>) {
    processed(&template_in_yaml(100, 200), bencher);
}

/// 1 MiB of `$((`: 10 ms.
#[divan::bench]
fn template_with_1_mib_hostile(bencher: Bencher<'_, '_>) {
    let hostile = "$((".repeat(1024 * 1024 / 3);
    let text = format!(
        "{{kind: Template, apiVersion: template.coracle.dev/v1, parameters: [{{name: ONE, value: v}}], objects: [{{apiVersion: v1, \
         kind: ConfigMap, metadata: {{name: $(ONE)}}, data: {{x: '{hostile}'}}}}]}}"
    );
    processed(&text, bencher);
}

/// Who manages the fields of a new ConfigMap of 1 KB: 20 us.
#[divan::bench]
fn managers_of_a_new_config_map(bencher: Bencher<'_, '_>) {
    let ty = schema::builtin().type_for("v1", "ConfigMap").expect("a core kind");
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": {"key": "x".repeat(900)},
    });
    let write = schema::apply::Write {
        ty,
        api_version: "v1",
        versions: &["v1"],
        manager: "bench",
        subresource: "",
        ignored: &[],
        now: "2026-01-01T00:00:00Z",
    };
    bencher.bench_local(|| {
        let mut managed = schema::apply::ManagedFields::default();
        managed.update(&write, None, black_box(&object));
        managed.into_value()
    });
}
