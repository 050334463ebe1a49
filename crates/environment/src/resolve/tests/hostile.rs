//! Manifests that are made to be large, slow or confusing (T11 to T16 of the threat model).

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::{codes, complete, config_map, errors, on_node, pod_with, pod_with_env, resolved, resolved_with};
use crate::{Finding, FindingCode, Limits, Options, Reveal, Sources, resolve};

/// Far more than any of these needs in a debug build on a busy machine, far less than quadratic time takes.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_doubling_chain_is_refused_with_name_and_size() {
    let mut env = vec![json!({"name": "A0", "value": "0123456789"})];
    for number in 1..10_000 {
        let before = number - 1;
        env.push(json!({"name": format!("A{number}"), "value": format!("$(A{before})$(A{before})")}));
    }
    let begin = Instant::now();
    let resolved = resolved(&pod_with_env(Json::Array(env)), &on_node());
    assert!(begin.elapsed() < SOON);
    assert_eq!(
        errors(&resolved),
        [
            "spec.containers[0].env[14].value: environment variable \"A14\" is too large: 163845 bytes with its name \
          and final NUL, the limit is 131072"
        ]
    );
    assert!(resolved.errors[0].is_too_large());
    let entries = resolved.resolution.environment.entries();
    let held: usize = entries.iter().filter_map(|entry| entry.value.exposed()).map(|value| value.len()).sum();
    assert!(held < 1 << 20, "the values take {held} bytes");
}

#[test]
fn a_doubling_chain_of_unknown_values_stays_small() {
    let mut env = vec![json!({"name": "A0", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})];
    for number in 1..3_000 {
        let before = number - 1;
        env.push(json!({"name": format!("A{number}"), "value": format!("$(A{before})-$(A{before})")}));
    }
    let resolved = resolved(&pod_with_env(Json::Array(env)), &on_node());
    let held: usize = resolved
        .resolution
        .environment
        .entries()
        .iter()
        .map(|entry| format!("{:?}", entry.value).len())
        .sum();
    assert!(held < 16 << 20, "the values take {held} bytes");
}

#[test]
fn values_behind_a_refused_one_are_told_in_one_finding() {
    let mut env = vec![json!({"name": "A0", "value": "0123456789"})];
    for number in 1..30 {
        let before = number - 1;
        env.push(json!({"name": format!("A{number}"), "value": format!("$(A{before})$(A{before})")}));
    }
    let found = resolved(&pod_with_env(Json::Array(env)), &on_node());
    let told: Vec<&Finding> = found
        .resolution
        .findings
        .iter()
        .filter(|each| each.code == FindingCode::ValueDependsOnError)
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        told[0].message,
        "the value of \"A15\" and 14 others is not known, because \"A14\" has an error"
    );
    let last = found.resolution.environment.get("A29").expect("it is there");
    assert!(last.value.is_refused() && last.value.display(Reveal::Nothing).starts_with("<!A25>"));
}

#[test]
fn values_that_are_shown_as_a_whole_are_told_in_one_finding() {
    let mut env = vec![json!({"name": "A0", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})];
    for number in 1..15 {
        let before = number - 1;
        env.push(json!({"name": format!("A{number}"), "value": format!("$(A{before})-$(A{before})")}));
    }
    let found = resolved(&pod_with_env(Json::Array(env)), &on_node());
    let told: Vec<&Finding> = found.resolution.findings.iter().collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].code, FindingCode::ValueSummedUp);
    assert!(told[0].message.contains("\"A10\""), "{told:?}");
}

#[test]
fn long_chains_and_many_redefinitions_take_linear_time() {
    let mut chain = vec![json!({"name": "A0", "value": "x"})];
    chain.extend(
        (1..10_000)
            .map(|number| json!({"name": format!("A{number}"), "value": format!("$(A{})", number - 1)})),
    );
    let redefinitions: Vec<_> = (0..10_000).map(|_| json!({"name": "A", "value": "$(A)"})).collect();
    for env in [chain, redefinitions] {
        let pod = pod_with_env(Json::Array(env));
        let begin = Instant::now();
        let resolved = resolved(&pod, &on_node());
        assert_eq!(errors(&resolved), [""; 0]);
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    }
}

#[test]
fn a_mebibyte_of_openers_or_of_unknown_references_is_survived() {
    for unit in ["$(", "$(NOPE)", "$()", "$(a b)"] {
        let text = unit.repeat((1 << 20) / unit.len());
        let pod = pod_with(json!({"env": [{"name": "X", "value": text}], "args": [text]}));
        let begin = Instant::now();
        let resolved = resolved(&pod, &on_node());
        assert!(begin.elapsed() < SOON, "{unit}: {:?}", begin.elapsed());
        assert_eq!(resolved.errors.len(), 2, "{unit}: {:?}", errors(&resolved));
        assert!(resolved.resolution.findings.len() <= 2, "{unit}");
    }
}

#[test]
fn findings_are_capped() {
    let references: String = (0..5_000).map(|number| format!("$(NOPE_{number}_X)")).collect();
    let resolved = resolved(&pod_with_env(json!([{"name": "X", "value": references}])), &on_node());
    let findings = resolved.findings();
    assert_eq!(findings.len(), 501);
    let last = findings.last().expect("findings");
    assert_eq!(
        (last.code.as_str(), last.message.as_str()),
        ("findings-truncated", "4500 more findings are not shown")
    );
    let kept = resolved.resolution.environment.entries()[0].references.len();
    assert_eq!(kept, crate::Entry::MAX_REFERENCES);
}

#[test]
fn one_string_may_have_as_many_bytes_as_the_kernel_accepts() {
    // `X=` and the NUL take three.
    let largest = "v".repeat(131_072 - 3);
    let fits = resolved(&pod_with_env(json!([{"name": "X", "value": largest}])), &on_node());
    assert_eq!(errors(&fits), [""; 0]);
    assert_eq!(codes(&fits.findings()), ["near-limit"]);
    let over = resolved(&pod_with_env(json!([{"name": "X", "value": largest + "v"}])), &on_node());
    assert_eq!(codes(&over.findings()), ["too-large"]);
    let argument = pod_with(json!({"args": ["v".repeat(131_072)]}));
    assert_eq!(
        errors(&resolved(&argument, &on_node())),
        [
            "spec.containers[0].args[0]: argument is too large: 131073 bytes with its name and final NUL, the limit is \
          131072"
        ]
    );
}

#[test]
fn the_total_counts_names_values_arguments_and_pointers() {
    let limits = Limits { string_bytes: 100, total_bytes: 2 * (3 + 1 + 8) };
    let options = Options { limits, ..Options::default() };
    // Two strings of three bytes with NUL and pointer: `A=1` and an argument.
    let fits = pod_with(json!({"env": [{"name": "A", "value": "1"}], "args": ["abc"]}));
    assert_eq!(errors(&resolved_with(&fits, &on_node(), &options)), [""; 0]);
    let over = pod_with(json!({"env": [{"name": "A", "value": "12"}], "args": ["abc"]}));
    assert_eq!(
        errors(&resolved_with(&over, &on_node(), &options)),
        [
            "spec.containers[0]: environment and arguments are too large: 25 bytes, the limit is 24; 1 variables, the \
          largest is \"A\" with 5 bytes"
        ]
    );
}

#[test]
fn a_service_with_absurdly_long_names_gives_no_variables() {
    let port = |name: &str, protocol: &str| crate::PortSource {
        name: name.to_owned(),
        port: 80,
        protocol: protocol.to_owned(),
    };
    let service = |name: &str, address: &str, port| crate::ServiceSource {
        namespace: "ns1".into(),
        name: name.into(),
        cluster_address: crate::ClusterAddress::Known(address.into()),
        ports: vec![port],
    };
    let long = "x".repeat(300);
    let list = [
        service(&long, "10.0.0.1", port("", "TCP")),
        service("b", &long, port("", "TCP")),
        service("c", "10.0.0.1", port("", &long)),
        service("d", "10.0.0.1", port(&long, "TCP")),
    ];
    let services = list.into_iter().map(std::sync::Arc::new).collect();
    let sources = Sources { services: crate::Services::Complete(services), ..on_node() };
    let found = resolved(&pod_with_env(json!([])), &sources);
    let names: Vec<&str> =
        found.resolution.environment.entries().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "C_SERVICE_HOST",
            "D_SERVICE_HOST",
            "D_SERVICE_PORT",
            "D_PORT",
            "D_PORT_80_TCP",
            "D_PORT_80_TCP_PROTO",
            "D_PORT_80_TCP_PORT",
            "D_PORT_80_TCP_ADDR"
        ]
    );
}

#[test]
fn too_many_service_variables_are_named_as_the_cause() {
    let services: Vec<_> = (0..8_000)
        .map(|number| json!({"namespace": "ns1", "name": format!("service-{number}"), "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}))
        .collect();
    let sources = Sources { services: complete(json!(services)), ..on_node() };
    let resolved = resolved(&pod_with_env(json!([])), &sources);
    let error = resolved.errors[0].to_string();
    assert!(error.contains("bytes of them are service variables"), "{error}");
    assert!(resolved.errors[0].hint().expect("a hint").contains("enableServiceLinks: false"));
}

#[test]
fn a_config_map_brought_in_a_thousand_times_does_not_fill_the_memory() {
    let big = "v".repeat(100_000);
    let mut sources = on_node();
    sources.config_maps.insert("cm".to_owned(), config_map(&[("a", &big), ("b", &big), ("c", &big)]));
    let env_from: Vec<_> = (0..1_000)
        .map(|number| json!({"prefix": format!("P{number}_"), "configMapRef": {"name": "cm"}}))
        .collect();
    let resolved = resolved(&pod_with(json!({"envFrom": env_from})), &sources);
    assert!(resolved.errors.iter().all(|error| error.is_too_large()));
    assert!(resolved.errors.len() <= 2, "{}", resolved.errors.len());
    let held: usize = resolved
        .resolution
        .environment
        .entries()
        .iter()
        .filter_map(|entry| entry.value.exposed())
        .map(|value| value.len())
        .sum();
    assert!(held <= 4 * Limits::default().total_bytes, "{held}");
}

#[test]
fn control_characters_of_names_do_not_reach_the_terminal() {
    let name = "\u{1b}[31mred";
    let env = json!([{"name": "X", "value": format!("$({name})")}]);
    let message = &resolved(&pod_with_env(env), &on_node()).findings()[0].message;
    assert!(!message.contains('\u{1b}') && message.contains("\\u{1b}[31mred"), "{message}");
}

fn any_env() -> impl Strategy<Value = Json> {
    let text = || "[$()AB =\u{0}é]{0,12}";
    let source = prop_oneof![
        ("[ab]", "[ab]", any::<bool>()).prop_map(|(name, key, optional)| json!({"configMapKeyRef": {"name": name, "key": key, "optional": optional}})),
        ("[ab]", "[ab]", any::<bool>()).prop_map(|(name, key, optional)| json!({"secretKeyRef": {"name": name, "key": key, "optional": optional}})),
        text().prop_map(|path| json!({"fieldRef": {"fieldPath": path}})),
        (text(), text()).prop_map(|(resource, divisor)| json!({"resourceFieldRef": {"resource": resource, "divisor": divisor}})),
        (text(), text(), text()).prop_map(|(volume, path, key)| json!({"fileKeyRef": {"volumeName": volume, "path": path, "key": key}})),
        Just(json!({})),
    ];
    let entry = prop_oneof![
        ("[AB$=]{0,2}", text()).prop_map(|(name, value)| json!({"name": name, "value": value})),
        ("[AB$=]{0,2}", source).prop_map(|(name, source)| json!({"name": name, "valueFrom": source})),
    ];
    proptest::collection::vec(entry, 0..8).prop_map(Json::Array)
}

proptest! {
    #[test]
    fn any_pod_is_resolved_and_every_name_stands_once(env in any_env(), args in proptest::collection::vec("[$()AB]{0,12}", 0..3)) {
        let pod = pod_with(json!({"env": env, "args": args, "envFrom": [{"configMapRef": {"name": "a"}}]}));
        for mut sources in [Sources::of_files(), Sources::of_node()] {
            sources.config_maps.insert("a".to_owned(), config_map(&[("A", "$(B)"), ("a", "x")]));
            let views = crate::containers(pod.spec.as_ref().expect("a spec"));
            let resolved = resolve(&pod, &views[0], &sources, &Options::default());
            let mut names: Vec<_> = resolved.resolution.environment.entries().iter().map(|entry| entry.name.to_string()).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), count);
            prop_assert!(names.iter().all(|name| !name.is_empty() && !name.contains(['=', '\0'])));
            let lengths = [resolved.resolution.args.map_or(0, |args| args.len()), args.len()];
            prop_assert_eq!(lengths[0], lengths[1]);
        }
    }
}
