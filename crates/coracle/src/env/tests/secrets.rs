//! Mistakes in Secrets: the key and the place are told, the value never.

use super::*;

#[test]
fn a_mistake_in_a_secret_shows_its_place_and_nothing_of_it() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: m}\nstringData:\n  PIN: 48151623\n";
    let explanation = explanation(text);
    let shown = mistakes(&explanation).join("\n");
    assert!(shown.contains("f.yaml:5:8") && shown.contains("put the value in quotes"), "{shown}");
    assert!(!shown.contains("48151623"), "{shown}");
    let text = text.replace("stringData", "data").replace("48151623", "\"not base64 48151623\"");
    assert!(!mistakes(&super::explanation(&text)).join("\n").contains("48151623"));
}

#[test]
fn illegal_base64_names_the_key_and_points_at_the_value() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: m}\ndata:\n  USER: YXBw\n  PASSWORD: not-base64!canary\n";
    let explanation = explanation(text);
    insta::assert_snapshot!(mistakes(&explanation).join("\n"), @r#"
    error: data.PASSWORD: illegal base64 data at input byte 3
    --> f.yaml:6:13
     = help: write the text under stringData, or encode it with base64
    "#);
    let text = text.replace("kind: Secret", "kind: ConfigMap").replace("data:", "binaryData:");
    let shown = mistakes(&super::explanation(&text)).join("\n");
    assert!(shown.contains("binaryData.PASSWORD: illegal base64"), "{shown}");
    assert!(shown.contains("f.yaml:6:13") && shown.contains("write the text under data"), "{shown}");
}

#[test]
fn an_unknown_field_of_a_secret_shows_its_key_and_nothing_of_the_value() {
    for text in [
        "apiVersion: v1\nkind: Secret\nmetadata: {name: m}\nstringdata: {PASSWORD: canary}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: m}\nstringdata:\n  PASSWORD: canary\n",
        "{apiVersion: v1, kind: Secret, metadata: {name: m}, data: {A: canary01}, stringdata: {PASSWORD: canary}}",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\nstringData: {P: canary}\n",
    ] {
        let explanation = explanation(text);
        let shown = [table::render(&explanation, false), output::json(&explanation)].concat();
        assert!(shown.contains("unknown-field") && !shown.contains("canary"), "{shown}");
    }
}
