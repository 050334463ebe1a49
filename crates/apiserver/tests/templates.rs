//! Templates over the API: stored, listed, watched, refused, processed.
#![allow(missing_docs)]

mod support;

use apiserver::Identity;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use support::{Running, request};

const OWN: &str = "/apis/template.coracle.dev/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";
const JSON_TYPE: (&str, &str) = ("content-type", "application/json");
const YAML_TYPE: (&str, &str) = ("content-type", "application/yaml");

fn shop(api_version: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": "Template", "metadata": {"name": "shop"}, "labels": {"app": "shop"},
        "message": "reach $(NAME)",
        "parameters": [
            {"name": "NAME", "value": "shop"},
            {"name": "REPLICAS", "value": "1", "type": "int"},
            {"name": "PASSWORD", "secret": true, "required": true},
        ],
        "objects": [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "$(NAME)"}, "spec": {"selector": {"name": "$(NAME)"}}},
            {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "$(NAME)"},
             "spec": {"replicas": "$((REPLICAS))", "template": {"metadata": {"labels": {"name": "$(NAME)"}}}}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "$(NAME)"}, "stringData": {"password": "$(PASSWORD)"}},
        ],
    })
}

fn values(api_version: &str, values: &[(&str, &str)]) -> Value {
    let values: Vec<Value> =
        values.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({"apiVersion": api_version, "kind": "TemplateParameters", "parameters": values})
}

async fn text(running: &Running, path: &str, headers: &[(&str, &str)], body: &str) -> (StatusCode, String) {
    let response = running.send(request("POST", path, headers, body.as_bytes())).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn a_template_is_an_object_like_any_other() {
    let running = Running::start().await;
    let (status, created) = running.post(&format!("{OWN}/templates"), &shop("template.coracle.dev/v1")).await;
    assert_eq!(
        (status, created["metadata"]["name"].as_str()),
        (StatusCode::CREATED, Some("shop")),
        "{created}"
    );
    let (_, list) = running.get(&format!("{OWN}/templates?fieldSelector=metadata.name%3Dshop")).await;
    assert_eq!(
        (list["kind"].as_str(), list["items"].as_array().map(Vec::len)),
        (Some("TemplateList"), Some(1))
    );
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) = running.call("GET", &format!("{OWN}/templates"), &table, b"").await;
    assert_eq!(
        table["rows"][0]["cells"].as_array().expect("cells")[..4],
        [json!("shop"), json!(""), json!("3 (1 required)"), json!(3)]
    );
    let patch = json!({"parameters": [{"name": "REPLICAS", "value": "2"}]}).to_string();
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let (status, patched) =
        running.call("PATCH", &format!("{OWN}/templates/shop"), &strategic, patch.as_bytes()).await;
    assert_eq!((status, &patched["parameters"][1]["value"]), (StatusCode::OK, &json!("2")), "{patched}");
    assert_eq!(patched["parameters"].as_array().map(Vec::len), Some(3));
    let (_, watched) = running.get(&format!("{OWN}/templates?watch=true&timeoutSeconds=1")).await;
    assert!(watched["type"] == "ADDED" || watched.is_null(), "{watched}");
    let (status, _) = running.call("DELETE", &format!("{OWN}/templates/shop"), &[], b"").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(running.get(&format!("{OWN}/templates/shop")).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn discovery_names_our_group_and_not_the_core_paths() {
    let running = Running::start().await;
    let (_, own) = running.get("/apis/template.coracle.dev/v1").await;
    let names: Vec<&str> = own["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|each| each["name"].as_str())
        .collect();
    assert_eq!(names, ["processedtemplates", "templates", "templates/processed"]);
    let (_, core) = running.get("/api/v1").await;
    assert!(!core.to_string().replace("podtemplate", "").contains("template"), "{core}");
    assert_eq!(running.get("/openapi/v3/apis/template.coracle.dev/v1").await.0, StatusCode::OK);
}

#[tokio::test]
async fn processing_answers_with_the_template_or_a_list_and_creates_nothing() {
    let running = Running::start().await;
    running.post(&format!("{OWN}/templates"), &shop("template.coracle.dev/v1")).await;
    let given =
        values("template.coracle.dev/v1", &[("PASSWORD", "canary"), ("NAME", "one"), ("REPLICAS", "3")]);
    let (status, answer) = running.post(&format!("{OWN}/templates/shop/processed"), &given).await;
    assert_eq!((status, answer["kind"].as_str()), (StatusCode::CREATED, Some("Template")), "{answer}");
    assert_eq!(answer["message"], "reach one");
    assert_eq!(answer["objects"][1]["spec"]["replicas"], 3);
    assert_eq!(answer["objects"][0]["spec"]["selector"], json!({"name": "one", "app": "shop"}));
    assert_eq!(answer["objects"][2]["stringData"]["password"], "canary");
    assert_eq!(answer.to_string().matches("canary").count(), 1, "only the object has the value: {answer}");
    assert_eq!(
        answer["metadata"],
        json!({"name": "shop", "namespace": "default"}),
        "how it was stored is not said"
    );
    let (_, list) = running.post(&format!("{OWN}/templates/shop/processed?output=list"), &given).await;
    assert_eq!((list["kind"].as_str(), &list["items"]), (Some("List"), &answer["objects"]));
    for plural in ["services", "secrets", "replicationcontrollers"] {
        let (_, found) = running.get(&format!("{CORE}/{plural}")).await;
        assert!(!found.to_string().contains("\"one\""), "processing created something: {found}");
    }
    let (status, _) = running.get(&format!("{OWN}/processedtemplates")).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let (status, _) = running.post(&format!("{OWN}/templates/none/processed"), &given).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_paths_of_the_proposal_answer_the_same_objects_as_v1() {
    let running = Running::start().await;
    let (status, created) = running.post(&format!("{CORE}/templates"), &shop("v1")).await;
    assert_eq!((status, created["apiVersion"].as_str()), (StatusCode::CREATED, Some("v1")), "{created}");
    let (_, own) = running.get(&format!("{OWN}/templates/shop")).await;
    assert_eq!(own["apiVersion"], "template.coracle.dev/v1");
    let (_, list) = running.get(&format!("{CORE}/templates")).await;
    assert_eq!(
        (list["apiVersion"].as_str(), list["items"][0]["apiVersion"].as_str()),
        (Some("v1"), Some("v1"))
    );
    let (status, same) = running
        .call("PUT", &format!("{CORE}/templates/shop"), &[JSON_TYPE], created.to_string().as_bytes())
        .await;
    assert_eq!((status, &same), (StatusCode::OK, &created), "writing back what was read changes nothing");
    let (_, core) =
        running.post(&format!("{CORE}/templates/shop/processed"), &values("v1", &[("PASSWORD", "p")])).await;
    let (_, own) = running
        .post(
            &format!("{OWN}/templates/shop/processed"),
            &values("template.coracle.dev/v1", &[("PASSWORD", "p")]),
        )
        .await;
    assert_eq!((core["apiVersion"].as_str(), &core["objects"]), (Some("v1"), &own["objects"]));
    let mut whole = shop("v1");
    whole["parameters"][2]["value"] = json!("p");
    let (status, core) = running.post(&format!("{CORE}/processedtemplates"), &whole).await;
    assert_eq!((status, &core["objects"]), (StatusCode::CREATED, &own["objects"]));
}

#[tokio::test]
async fn a_template_of_openshift_under_v1_stays_one() {
    let running = Running::start().await;
    let template = json!({"apiVersion": "v1", "kind": "Template", "metadata": {"name": "t"},
        "parameters": [{"name": "N", "value": "x"}, {"name": "P", "generate": "expression", "from": "[a-z]{20}"}],
        "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${N}"}, "data": {"p": "${P}"}}]});
    let (status, answer) = running.post(&format!("{CORE}/templates"), &template).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let (_, answer) =
        running.call("POST", &format!("{OWN}/templates/t/processed?output=list"), &[], b"").await;
    assert_eq!(answer["items"][0]["metadata"]["name"], "x", "{answer}");
    assert_eq!(answer["items"][0]["data"]["p"].as_str().map(str::len), Some(20));
}

#[tokio::test]
async fn every_problem_is_a_cause_with_its_field() {
    let running = Running::start().await;
    let mut template = shop("template.coracle.dev/v1");
    template["objects"][0]["metadata"]["name"] = json!("$((NAM))");
    template["objects"][1]["kind"] = json!("$(NAME)");
    let (status, answer) = running.post(&format!("{OWN}/processedtemplates"), &template).await;
    assert_eq!(
        (status, answer["reason"].as_str()),
        (StatusCode::UNPROCESSABLE_ENTITY, Some("Invalid")),
        "{answer}"
    );
    let causes = answer["details"]["causes"].as_array().expect("causes");
    let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    for field in ["parameters[2]", "objects[0].metadata.name", "objects[1].kind"] {
        assert!(fields.contains(&field), "{field} is missing: {answer:#}");
    }
    assert_eq!(
        (answer["details"]["kind"].as_str(), answer["details"]["name"].as_str()),
        (Some("Template"), Some("shop"))
    );
    // At create only what no value could mend.
    let (status, answer) = running.post(&format!("{OWN}/templates"), &template).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let text = answer.to_string();
    assert!(!text.contains("parameters[2]") && text.contains("objects[1].kind"), "{answer:#}");
    let unknown = values("template.coracle.dev/v1", &[("PASWORD", "canary"), ("PASSWORD", "x")]);
    running.post(&format!("{OWN}/templates"), &shop("template.coracle.dev/v1")).await;
    let (status, answer) = running.post(&format!("{OWN}/templates/shop/processed"), &unknown).await;
    let text = answer.to_string();
    assert!(
        status == StatusCode::UNPROCESSABLE_ENTITY && text.contains("PASSWORD") && !text.contains("canary"),
        "{text}"
    );
}

#[tokio::test]
async fn a_stored_secret_parameter_has_no_default() {
    let running = Running::start().await;
    let mut template = shop("template.coracle.dev/v1");
    template["parameters"][2]["value"] = json!("canary");
    let (status, answer) = running.post(&format!("{OWN}/templates"), &template).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer["details"]["causes"][0]["field"], "parameters[2].value", "{answer:#}");
    assert!(!answer.to_string().contains("canary"), "{answer}");
    running.post(&format!("{OWN}/templates"), &shop("template.coracle.dev/v1")).await;
    let patch = json!({"parameters": [{"name": "PASSWORD", "value": "canary"}]}).to_string();
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let (status, answer) =
        running.call("PATCH", &format!("{OWN}/templates/shop"), &strategic, patch.as_bytes()).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(!answer.to_string().contains("canary"), "{answer}");
}

#[tokio::test]
async fn keys_keep_their_order_and_yaml_answers_yaml() {
    let running = Running::start().await;
    let yaml = "kind: Template\napiVersion: template.coracle.dev/v1\nmetadata: {name: t}\nparameters: [{name: NAME, value: shop}]\nobjects:\n- kind: ConfigMap\n  apiVersion: v1\n  metadata: {name: $(NAME)}\n  data: {z: '1', a: '2'}\n";
    let path = format!("{OWN}/processedtemplates?output=list");
    let (status, answer) = text(&running, &path, &[YAML_TYPE], yaml).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(
        answer,
        r#"{"apiVersion":"v1","kind":"List","items":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"shop"},"data":{"z":"1","a":"2"}}]}"#
    );
    let answer_in_json = answer;
    let (_, answer) = text(&running, &path, &[YAML_TYPE, ("accept", "application/yaml")], yaml).await;
    assert!(answer.contains("  data:\n    z: \"1\"\n    a: \"2\"\n"), "{answer}");
    // Stored, read and processed by name, they keep it too.
    text(&running, &format!("{OWN}/templates"), &[YAML_TYPE], yaml).await;
    let (_, by_name) = text(&running, &format!("{OWN}/templates/t/processed?output=list"), &[], "").await;
    assert_eq!(by_name, answer_in_json, "{by_name}");
    let merge = [("content-type", "application/merge-patch+json")];
    let (status, _) = running
        .call("PATCH", &format!("{OWN}/templates/t"), &merge, br#"{"metadata": {"labels": {"a": "b"}}}"#)
        .await;
    assert_eq!(status, StatusCode::OK);
    let (_, by_name) = text(&running, &format!("{OWN}/templates/t/processed?output=list"), &[], "").await;
    assert_eq!(by_name, answer_in_json, "{by_name}");
    let (_, pretty) = text(&running, &format!("{path}&pretty=true"), &[YAML_TYPE], yaml).await;
    assert!(pretty.starts_with("{\n    \"apiVersion\": \"v1\",\n"), "{pretty}");
}

#[tokio::test]
async fn hostile_templates_are_answered_and_nothing_else_suffers() {
    let running = Running::start().await;
    let process = async |template: Value| {
        running.post(&format!("{OWN}/processedtemplates?output=list"), &template).await
    };
    let of = |value: &str, reference: &str| {
        json!({"apiVersion": "template.coracle.dev/v1", "kind": "Template", "metadata": {"name": "t"},
            "parameters": [{"name": "P", "value": value}, {"name": "OTHER", "value": "other"}],
            "objects": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": reference, "y": "$(OTHER)"}}]})
    };
    // Only scalars come out of $((P)); anything else stays text.
    for value in
        [r#"{"privileged":true}"#, "[1]", "null", "1e400", "0x10", " 1", "NaN", "$(OTHER)", "\"\\\n</script>"]
    {
        let (status, answer) = process(of(value, "$((P))")).await;
        assert_eq!(
            (status, &answer["items"][0]["spec"]["x"]),
            (StatusCode::CREATED, &json!(value)),
            "{value}"
        );
    }
    let (_, answer) = process(of("x", "$(P)$(P)")).await;
    assert_eq!(answer["items"][0]["spec"]["x"], "xx");
    // Keys that collide, and fields that a template fixes.
    let mut template = of("a", "-");
    template["objects"][0]["spec"] = json!({"$(P)": 1, "a": 2, "$(OTHER)": "$(P)"});
    let (status, answer) = process(template).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    let mut template = of("Pod", "-");
    template["objects"][0]["kind"] = json!("$(P)");
    assert_eq!(process(template).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    // A small template with a large result, counts, and depth.
    let mut template = of(&"x".repeat(100_000), "-");
    template["objects"][0]["spec"]["x"] = json!("$(P)".repeat(1_000));
    let (status, answer) = process(template).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
    let mut template = of("x", "$(P)");
    template["parameters"] = (0..1_001).map(|index| json!({"name": format!("P{index}")})).collect();
    assert_eq!(process(template).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let deep = format!(
        r#"{{"apiVersion":"v1","kind":"Template","objects":[{{"a":{}1{}}}]}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let (status, _) = text(&running, &format!("{OWN}/processedtemplates"), &[JSON_TYPE], &deep).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _) =
        text(&running, &format!("{OWN}/processedtemplates"), &[JSON_TYPE], &" ".repeat(4 * 1024 * 1024))
            .await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    // A parameter and a variable of the container of one name.
    let mut template = of("x", "-");
    template["objects"][0]["spec"] = json!({"containers": [{"name": "c", "image": "i",
        "env": [{"name": "P", "value": "1"}, {"name": "Q", "value": "$(P)"}]}]});
    let (status, answer) = process(template).await;
    assert!(
        status == StatusCode::UNPROCESSABLE_ENTITY && answer.to_string().contains("env[1].value"),
        "{answer}"
    );
    assert_eq!(process(of("x", "$(P)")).await.0, StatusCode::CREATED);
}

/// Where nothing is ever processed, a body that cannot even be read must wait too: reading is part of the work.
#[tokio::test(flavor = "current_thread")]
async fn while_large_templates_wait_for_their_turn_other_requests_are_answered() {
    let limits = apiserver::Limits { templates_at_once: 0, ..apiserver::Limits::default() };
    let config = apiserver::ApiServerConfig { limits, ..apiserver::ApiServerConfig::default() };
    let running = Running::start_with(config, std::sync::Arc::new(apiserver::NoNodes)).await;
    let running = std::sync::Arc::new(running);
    let waiting: Vec<_> = [format!("{OWN}/processedtemplates"), format!("{OWN}/templates")]
        .into_iter()
        .flat_map(|path| [(path.clone(), many(1_000).to_string()), (path, "{".to_owned())])
        .map(|(path, body)| {
            let running = running.clone();
            tokio::spawn(async move { text(&running, &path, &[JSON_TYPE], &body).await.0 })
        })
        .collect();
    for _ in 0..50 {
        let ready = running.send(request("GET", "/readyz", &[], b"")).await;
        assert_eq!(ready.status(), StatusCode::OK);
    }
    assert!(waiting.iter().all(|each| !each.is_finished()));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn many_templates_as_large_as_they_may_be_are_all_processed() {
    let running = Running::start().await;
    let body = many(1_000);
    let path = format!("{OWN}/processedtemplates?output=list");
    let answers = futures::future::join_all((0..6).map(|_| running.post(&path, &body))).await;
    for (status, answer) in answers {
        assert_eq!((status, answer["items"].as_array().map(Vec::len)), (StatusCode::CREATED, Some(1_000)));
    }
    let (status, answer) = running.post(&path, &many(20_000)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
}

#[tokio::test]
async fn a_key_that_stands_twice_in_a_template_is_refused_with_both_places() {
    let running = Running::start().await;
    let body = "apiVersion: template.coracle.dev/v1\nkind: Template\nmetadata: {name: t}\nparameters: [{name: P, value: x}]\n\
        objects:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: \"$(P)\", a: two}}\n";
    for path in ["processedtemplates", "templates"] {
        let (status, answer) = text(&running, &format!("{OWN}/{path}"), &[YAML_TYPE], body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert!(answer.contains("objects[0].data.a") && answer.contains("at 6:65 and at 6:76"), "{answer}");
    }
}

/// A template of so many objects.
fn many(count: usize) -> Value {
    let object = |index: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{index}")}, "data": {"a": "$(P)"}});
    json!({"apiVersion": "template.coracle.dev/v1", "kind": "Template", "metadata": {"name": "many"},
        "parameters": [{"name": "P", "value": "1"}], "objects": (0..count).map(object).collect::<Vec<_>>()})
}

#[tokio::test]
async fn whoever_may_not_process_is_told_so_by_resource() {
    let running = Running::start().await;
    let node = Identity::node("n");
    let path = format!("{OWN}/processedtemplates");
    let body = shop("template.coracle.dev/v1").to_string();
    let response = running.send_as(node, request("POST", &path, &[JSON_TYPE], body.as_bytes())).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        answer.contains(
            r#"cannot create resource \"processedtemplates\" in API group \"template.coracle.dev\""#
        ),
        "{answer}"
    );
}
