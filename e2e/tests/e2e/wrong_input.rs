//! Wrong input to `coracle run`: what, where and what to do; nothing is started.

use e2e::{Place, Said, privileged};

fn refused(name: &str, manifest: &str, expected: &[&str]) -> Option<Said> {
    if !privileged(name) {
        return None;
    }
    let said = Place::new().run(manifest, &[]);
    assert_eq!(said.status, 2, "{}", said.all());
    for each in expected {
        assert!(said.stderr.contains(each), "no {each:?} in {}", said.all());
    }
    assert!(!said.stderr.contains("panicked"), "{}", said.all());
    Some(said)
}

#[test]
fn malformed_yaml_names_the_line() {
    refused("malformed_yaml_names_the_line", "apiVersion: v1\nkind: [Pod\n", &["-:"]);
}

#[test]
fn an_unknown_field_is_named() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, image: coracle.dev/host, comand: [x]}\n";
    refused("an_unknown_field_is_named", manifest, &["unknown field \"spec.containers[0].comand\""]);
}

#[test]
fn a_kind_that_nothing_runs_is_refused_before_anything_starts() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: coracle.dev/host, command: [/bin/echo, RAN]}]\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n";
    let said =
        refused("a_kind_that_nothing_runs_is_refused_before_anything_starts", manifest, &["Deployment", "7"]);
    if let Some(said) = said {
        assert!(!said.stdout.contains("RAN"), "{}", said.all());
    }
}

#[test]
fn an_unknown_kind_is_refused() {
    refused("an_unknown_kind_is_refused", "apiVersion: v1\nkind: Pot\nmetadata: {name: p}\n", &["Pot"]);
}

#[test]
fn a_number_as_value_is_refused_with_the_hint_to_quote_it() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    image: coracle.dev/host\n    env: [{name: A, value: no}]\n";
    refused("a_number_as_value_is_refused_with_the_hint_to_quote_it", manifest, &["bool", "quote"]);
}

#[test]
fn a_value_over_the_kernels_limit_is_named_before_exec() {
    if !privileged("a_value_over_the_kernels_limit_is_named_before_exec") {
        return;
    }
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: c\n    image: coracle.dev/host\n    command: [/bin/true]\n    env: [{{name: HUGE, value: \"{}\"}}]\n",
        "x".repeat(200_000)
    );
    let said = Place::new().run(&manifest, &[]);
    assert_eq!(
        said.status,
        125,
        "status {}: {}",
        said.status,
        said.stderr.chars().take(4000).collect::<String>()
    );
    assert!(said.stderr.contains("HUGE") && said.stderr.contains("EnvTooLarge"), "{}", said.stderr);
    assert!(!said.stderr.contains("xxxxxxxx"), "the value was printed");
}

#[test]
fn a_nul_byte_is_refused_by_name() {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    image: coracle.dev/host\n    env: [{name: A, value: \"canary\\0x\"}]\n";
    let said = refused("a_nul_byte_is_refused_by_name", manifest, &["spec.containers[0].env[0].value"]);
    if let Some(said) = said {
        assert!(!said.stderr.contains("Invalid value: \"canary"), "{}", said.all());
    }
}
