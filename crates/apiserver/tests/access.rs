//! Who may do what: roles, bindings, what may be granted, impersonation, and the questions about it.
#![allow(missing_docs)]

mod support;

use apiserver::Identity;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use support::{Running, config_map, request};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn jane() -> Identity {
    Identity::new("jane", Vec::new())
}

async fn ask(
    running: &Running,
    identity: &Identity,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let bytes = if body.is_null() { String::new() } else { body.to_string() };
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    let response = running.send_as(identity.clone(), request(method, path, &all, bytes.as_bytes())).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn get(running: &Running, identity: &Identity, path: &str) -> (u16, Value) {
    ask(running, identity, "GET", path, &[], &Value::Null).await
}

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
}

fn role(name: &str, rules: &Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role, "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": user}]})
}

/// As the administrator; must work.
async fn made(running: &Running, path: &str, object: &Value) -> Value {
    let (code, answer) = running.post(path, object).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    answer
}

#[tokio::test]
async fn a_binding_counts_as_soon_as_it_is_acknowledged_and_no_longer_than_it_is_there() {
    let running = Running::start().await;
    for turn in 0..20 {
        let (code, status) = get(&running, &jane(), MAPS).await;
        assert_eq!(code, 403, "{turn}");
        assert_eq!(
            status["message"],
            r#"configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace "default""#
        );
        made(
            &running,
            &format!("{RBAC}/namespaces/default/rolebindings"),
            &binding("b", "ClusterRole", "view", "jane"),
        )
        .await;
        assert_eq!(get(&running, &jane(), MAPS).await.0, 200, "{turn}");
        assert_eq!(get(&running, &jane(), "/api/v1/namespaces/kube-system/configmaps").await.0, 403);
        assert_eq!(get(&running, &jane(), "/api/v1/configmaps").await.0, 403);
        let path = format!("{RBAC}/namespaces/default/rolebindings/b");
        assert_eq!(running.call("DELETE", &path, &[], b"").await.0, 200);
    }
}

#[tokio::test]
async fn a_new_cluster_has_the_roles_that_users_know_and_they_gather_each_other() {
    let running = Running::start().await;
    let (_, roles) = running.get(&format!("{RBAC}/clusterroles")).await;
    let names: Vec<&str> = roles["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|role| role["metadata"]["name"].as_str())
        .collect();
    for name in ["cluster-admin", "admin", "edit", "view", "system:discovery", "system:node"] {
        assert!(names.contains(&name), "{name}");
    }
    let extra = json!({"metadata": {"name": "crd-view", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}]});
    made(&running, &format!("{RBAC}/clusterroles"), &extra).await;
    let widgets = |role: &Value| {
        role["rules"].as_array().expect("rules").iter().any(|rule| rule["resources"] == json!(["widgets"]))
    };
    for name in ["view", "edit", "admin"] {
        let (_, role) = running.get(&format!("{RBAC}/clusterroles/{name}")).await;
        assert!(widgets(&role), "{name} has what was labelled for view");
    }
    running.call("DELETE", &format!("{RBAC}/clusterroles/crd-view"), &[], b"").await;
    let (_, role) = running.get(&format!("{RBAC}/clusterroles/admin")).await;
    assert!(!widgets(&role), "and no longer when it is gone");
}

#[tokio::test]
async fn what_every_cluster_has_is_completed_at_the_next_start_unless_an_annotation_says_no() {
    let running = Running::start().await;
    let path = |name: &str| format!("{RBAC}/clusterroles/{name}");
    assert_eq!(running.call("DELETE", &path("system:discovery"), &[], b"").await.0, 200);
    let merge = [("content-type", "application/merge-patch+json")];
    let emptied = json!({"rules": [rule(&["get"], &["mine"])]});
    let kept = json!({"rules": [], "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}});
    for (name, patch) in [("system:basic-user", &emptied), ("system:kube-dns", &kept)] {
        let (code, answer) = running.call("PATCH", &path(name), &merge, patch.to_string().as_bytes()).await;
        assert_eq!(code, 200, "{answer}");
    }
    let store = running.server.store().clone();
    let again = apiserver::ApiServer::new(
        apiserver::ApiServerConfig::default(),
        store,
        std::sync::Arc::new(apiserver::NoNodes),
    )
    .await
    .expect("starts");
    drop(again);
    let rules = async |name: &str| {
        let (code, role) = running.get(&path(name)).await;
        assert_eq!(code, 200, "{name}");
        role["rules"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(rules("system:discovery").await, 1, "made again");
    assert_eq!(rules("system:basic-user").await, 3, "completed, and what was added stays");
    assert_eq!(rules("system:kube-dns").await, 0, "left alone");
}

#[tokio::test]
async fn nobody_grants_what_he_does_not_have() {
    let running = Running::start().await;
    made(
        &running,
        &format!("{RBAC}/namespaces/default/rolebindings"),
        &binding("b", "ClusterRole", "admin", "jane"),
    )
    .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let post = async |path: &str, body: &Value| ask(&running, &jane(), "POST", path, &[], body).await;
    let (code, _) = post(&roles, &role("ok", &json!([rule(&["get", "delete"], &["pods", "secrets"])]))).await;
    assert_eq!(code, 201, "an administrator of the namespace has that");
    let (code, status) =
        post(&roles, &role("more", &json!([rule(&["get", "impersonate"], &["pods", "users"])]))).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"impersonate\"]}\n\
         {APIGroups:[\"\"], Resources:[\"users\"], Verbs:[\"get\" \"impersonate\"]}"
    );
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(post(&bindings, &binding("own", "ClusterRole", "edit", "joe")).await.0, 201);
    let (code, status) = post(&bindings, &binding("root", "ClusterRole", "cluster-admin", "jane")).await;
    assert_eq!(code, 403, "{status}");
    let message = status["message"].as_str().expect("one");
    assert!(message.contains("{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}"), "{message}");
    let (code, status) = post(&bindings, &binding("none", "Role", "missing", "jane")).await;
    assert_eq!(
        (code, &status["message"]),
        (404, &json!("roles.rbac.authorization.k8s.io \"missing\" not found"))
    );
    // An update must not do what a creation may not.
    let patch = json!({"rules": [rule(&["*"], &["*"])]}).to_string();
    let response = running
        .send_as(
            jane(),
            request(
                "PATCH",
                &format!("{roles}/ok"),
                &[("content-type", "application/merge-patch+json")],
                patch.as_bytes(),
            ),
        )
        .await;
    assert_eq!(response.status(), 403);
    // The verbs `escalate` and `bind` lift it.
    let lifted = json!([{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["cluster-admin"]}]);
    made(&running, &roles, &role("binder", &lifted)).await;
    made(&running, &bindings, &binding("binder", "Role", "binder", "jane")).await;
    assert_eq!(post(&bindings, &binding("root", "ClusterRole", "cluster-admin", "jane")).await.0, 201);
}

#[tokio::test]
async fn a_list_of_one_name_needs_the_right_to_that_name_only() {
    let running = Running::start().await;
    let rules = json!([{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]}]);
    made(&running, &format!("{RBAC}/namespaces/default/roles"), &role("one", &rules)).await;
    made(
        &running,
        &format!("{RBAC}/namespaces/default/rolebindings"),
        &binding("one", "Role", "one", "jane"),
    )
    .await;
    made(&running, MAPS, &config_map("mine")).await;
    for (path, code) in [
        (format!("{MAPS}/mine"), 200),
        (format!("{MAPS}/other"), 403),
        (MAPS.to_owned(), 403),
        (format!("{MAPS}?fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{MAPS}?fieldSelector=metadata.name%3Dother"), 403),
        (format!("{MAPS}?fieldSelector=metadata.name!%3Dmine"), 403),
    ] {
        assert_eq!(get(&running, &jane(), &path).await.0, code, "{path}");
    }
}

#[tokio::test]
async fn whoever_may_read_logs_may_read_the_environment_but_not_its_secrets() {
    let running = Running::start().await;
    made(
        &running,
        &format!("{RBAC}/namespaces/default/rolebindings"),
        &binding("b", "ClusterRole", "view", "jane"),
    )
    .await;
    made(&running, "/api/v1/namespaces/default/pods", &support::pod("p")).await;
    let pod = "/api/v1/namespaces/default/pods/p";
    assert_eq!(get(&running, &jane(), &format!("{pod}/log")).await.0, 200);
    assert_eq!(
        get(&running, &jane(), &format!("{pod}/environment")).await.0,
        400,
        "allowed; it is on no node yet"
    );
    assert_eq!(get(&running, &jane(), &format!("{pod}/environment?showSecrets=true")).await.0, 403);
    assert_eq!(get(&running, &jane(), &format!("{pod}/exec?command=id")).await.0, 403);
    for group in ["/api/v1", "/apis/template.coracle.dev/v1"] {
        let path = format!("{group}/namespaces/default/templates");
        assert_eq!(get(&running, &jane(), &path).await.0, 200, "{path}");
        assert_eq!(ask(&running, &jane(), "POST", &path, &[], &json!({})).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn a_socket_that_is_opened_with_a_get_needs_the_right_to_create() {
    let running = Running::start().await;
    made(
        &running,
        &format!("{RBAC}/namespaces/default/roles"),
        &role("looker", &json!([rule(&["get"], &["pods/exec"])])),
    )
    .await;
    made(
        &running,
        &format!("{RBAC}/namespaces/default/rolebindings"),
        &binding("b", "Role", "looker", "jane"),
    )
    .await;
    let (code, status) = get(&running, &jane(), "/api/v1/namespaces/default/pods/p/exec?command=id").await;
    assert_eq!(code, 403);
    assert!(
        status["message"].as_str().expect("one").contains(r#"cannot create resource "pods/exec""#),
        "{status}"
    );
}

#[tokio::test]
async fn reviews_answer_as_requests_would_be_answered() {
    let running = Running::start().await;
    made(
        &running,
        &format!("{RBAC}/namespaces/default/rolebindings"),
        &binding("b", "ClusterRole", "view", "jane"),
    )
    .await;
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let may = async |identity: &Identity, spec: Value| {
        let (code, answer) = ask(&running, identity, "POST", own, &[], &json!({"spec": spec})).await;
        assert_eq!(code, 201, "{answer}");
        answer["status"].clone()
    };
    let pods = |verb: &str, namespace: &str| json!({"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": namespace}});
    assert_eq!(
        may(&jane(), pods("list", "default")).await,
        json!({"allowed": true, "reason": "RBAC: allowed by RoleBinding \"b/default\" of ClusterRole \"view\" to User \"jane\""})
    );
    assert_eq!(may(&jane(), pods("delete", "default")).await["allowed"], false);
    assert_eq!(may(&jane(), pods("list", "kube-system")).await["allowed"], false);
    assert_eq!(may(&Identity::admin(), pods("*", "")).await["allowed"], true);
    let path = |path: &str| json!({"nonResourceAttributes": {"verb": "get", "path": path}});
    assert_eq!(may(&jane(), path("/version")).await["allowed"], true);
    assert_eq!(may(&jane(), path("/metrics")).await["allowed"], false);
    let other = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let mut spec = pods("list", "default");
    spec["user"] = json!("jane");
    let (code, answer) = ask(&running, &Identity::admin(), "POST", other, &[], &json!({"spec": spec})).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(true)));
    assert_eq!(ask(&running, &jane(), "POST", other, &[], &json!({"spec": spec})).await.0, 403);
    let (code, status) = ask(&running, &jane(), "POST", own, &[], &json!({"spec": {}})).await;
    assert_eq!(code, 422, "{status}");
    let local = "/apis/authorization.k8s.io/v1/namespaces/kube-system/localsubjectaccessreviews";
    let (code, _) = ask(&running, &Identity::admin(), "POST", local, &[], &json!({"spec": spec})).await;
    assert_eq!(code, 422, "another namespace than the path's");
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (_, answer) =
        ask(&running, &jane(), "POST", rules, &[], &json!({"spec": {"namespace": "default"}})).await;
    let status = &answer["status"];
    assert_eq!(status["incomplete"], false, "{status}");
    let lists = |kind: &str| status[kind].as_array().map_or(0, Vec::len);
    assert!(lists("resourceRules") > 5 && lists("nonResourceRules") >= 2, "{status}");
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, answer) = ask(&running, &jane(), "POST", who, &[], &json!({})).await;
    assert_eq!(answer["status"]["userInfo"], json!({"username": "jane", "groups": ["system:authenticated"]}));
}

#[tokio::test]
async fn impersonation_needs_the_right_to_each_thing_that_is_claimed() {
    let running = Running::start().await;
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let as_whom = async |identity: &Identity, headers: &[(&str, &str)]| {
        ask(&running, identity, "POST", who, headers, &json!({})).await
    };
    let (code, answer) = as_whom(
        &Identity::admin(),
        &[
            ("impersonate-user", "joe"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-team", "a"),
        ],
    )
    .await;
    assert_eq!(code, 201);
    assert_eq!(
        answer["status"]["userInfo"],
        json!({"username": "joe", "uid": "7", "groups": ["ops", "system:authenticated"], "extra": {"team": ["a"]}})
    );
    let (_, answer) = as_whom(&Identity::admin(), &[("impersonate-user", "system:serviceaccount:a:b")]).await;
    assert_eq!(
        answer["status"]["userInfo"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"])
    );
    let (code, status) = as_whom(&jane(), &[("impersonate-user", "joe")]).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        r#"users "joe" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope"#
    );
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["joe"]}]);
    made(&running, &format!("{RBAC}/clusterroles"), &role("as-joe", &rules)).await;
    made(
        &running,
        &format!("{RBAC}/clusterrolebindings"),
        &binding("as-joe", "ClusterRole", "as-joe", "jane"),
    )
    .await;
    assert_eq!(as_whom(&jane(), &[("impersonate-user", "joe")]).await.0, 201);
    for more in
        [("impersonate-group", "system:masters"), ("impersonate-uid", "7"), ("impersonate-extra-scopes", "x")]
    {
        assert_eq!(as_whom(&jane(), &[("impersonate-user", "joe"), more]).await.0, 403, "{more:?}");
    }
    assert_eq!(as_whom(&Identity::admin(), &[("impersonate-group", "ops")]).await.0, 400);
    let (code, _) =
        ask(&running, &Identity::admin(), "GET", MAPS, &[("impersonate-user", "joe")], &Value::Null).await;
    assert_eq!(code, 403, "an administrator in the name of a user has the user's rights");
}

#[tokio::test]
async fn a_node_keeps_to_itself() {
    let running = Running::start().await;
    let node = Identity::node("n1");
    let object = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(ask(&running, &node, "POST", "/api/v1/nodes", &[], &object("n1")).await.0, 201);
    let (code, status) = ask(&running, &node, "POST", "/api/v1/nodes", &[], &object("n2")).await;
    assert_eq!(code, 403);
    assert!(
        status["message"].as_str().expect("one").ends_with(r#"node "n1" is not allowed to modify node "n2""#),
        "{status}"
    );
    let pods = "/api/v1/namespaces/default/pods";
    let on = |name: &str, node: &str| {
        let mut pod = support::pod(name);
        pod["spec"]["nodeName"] = json!(node);
        pod
    };
    made(&running, pods, &on("own", "n1")).await;
    made(&running, pods, &on("other", "n2")).await;
    assert_eq!(ask(&running, &node, "POST", pods, &[], &on("new", "n1")).await.0, 403, "mirrors only");
    let status = json!({"status": {"phase": "Running"}});
    let patch = [("content-type", "application/merge-patch+json")];
    for (name, code) in [("own", 200), ("other", 403)] {
        let path = format!("{pods}/{name}/status");
        let bytes = status.to_string();
        let response = running.send_as(node.clone(), request("PATCH", &path, &patch, bytes.as_bytes())).await;
        assert_eq!(response.status().as_u16(), code, "{name}");
    }
    made(&running, pods, &support::pod("free")).await;
    for (target, code) in [("n2", 403), ("n1", 201)] {
        let binding = json!({"metadata": {"name": "free"}, "target": {"kind": "Node", "name": target}});
        let (answered, _) =
            ask(&running, &node, "POST", &format!("{pods}/free/binding"), &[], &binding).await;
        assert_eq!(answered, code, "{target}");
    }
    assert_eq!(ask(&running, &node, "DELETE", &format!("{pods}/other"), &[], &Value::Null).await.0, 403);
}

#[tokio::test]
async fn somebody_without_a_name_has_no_rights_whatever_roles_say() {
    let running = Running::start().await;
    let group = json!({"metadata": {"name": "open"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "Group", "name": "system:unauthenticated"}, {"kind": "User", "name": "system:anonymous"}]});
    made(&running, &format!("{RBAC}/clusterrolebindings"), &group).await;
    let nobody = Identity::anonymous();
    assert_eq!(get(&running, &nobody, "/version").await.0, 200);
    assert_eq!(get(&running, &nobody, MAPS).await.0, 403);
    assert_eq!(ask(&running, &nobody, "POST", MAPS, &[], &config_map("c")).await.0, 403);
}

/// Lines that were written, for tests to wait for.
#[derive(Clone)]
struct Lines(std::sync::mpsc::Sender<String>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_audit_log_says_who_did_what_and_holds_no_secret() {
    let (sender, lines) = std::sync::mpsc::channel();
    let audit = apiserver::AuditLog::to(Lines(sender)).expect("a thread");
    let config = apiserver::ApiServerConfig { audit: Some(audit), ..apiserver::ApiServerConfig::default() };
    let running = Running::start_with(config, std::sync::Arc::new(apiserver::NoNodes)).await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    made(&running, "/api/v1/namespaces/default/secrets", &secret).await;
    let agent = [("user-agent", "evil\u{9b}2J"), ("impersonate-user", "jane")];
    let (code, _) = ask(
        &running,
        &Identity::admin(),
        "GET",
        "/api/v1/namespaces/default/secrets/s",
        &agent,
        &Value::Null,
    )
    .await;
    assert_eq!(code, 403);
    let refused = [("authorization", "Bearer s3cret-token")];
    assert_eq!(ask(&running, &Identity::anonymous(), "GET", MAPS, &refused, &Value::Null).await.0, 401);
    let mut events: Vec<Value> = Vec::new();
    while events.len() < 3 {
        let line = lines.recv().expect("written");
        assert!(
            !line.contains("hunter2") && !line.contains("s3cret-token") && !line.contains('\u{9b}'),
            "{line:?}"
        );
        events.push(serde_json::from_str(&line).expect("a line of JSON"));
    }
    let [create, read, failed] = events.as_slice() else { panic!("three") };
    assert_eq!(
        (&create["verb"], &create["level"], &create["apiVersion"], &create["responseStatus"]["code"]),
        (&json!("create"), &json!("Metadata"), &json!("audit.k8s.io/v1"), &json!(201))
    );
    assert_eq!(
        create["objectRef"],
        json!({"resource": "secrets", "apiVersion": "v1", "namespace": "default"})
    );
    assert_eq!(create["user"]["username"], "kubernetes-admin");
    assert_eq!(read["impersonatedUser"]["username"], "jane");
    assert_eq!(read["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(failed["responseStatus"]["code"], 401);
}

#[tokio::test]
async fn an_update_that_creates_needs_the_right_to_create() {
    let running = Running::start().await;
    let role = json!({"metadata": {"name": "updaters"}, "rules": [
        {"apiGroups": [""], "resources": ["services"], "verbs": ["update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]}]});
    let binding = json!({"metadata": {"name": "updaters"}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "updaters"}});
    // Both are made by updates: of these kinds, what is not there is created.
    let admin = Identity::admin();
    for (plural, object) in [("clusterroles", &role), ("clusterrolebindings", &binding)] {
        let (code, answer) =
            ask(&running, &admin, "PUT", &format!("{RBAC}/{plural}/updaters"), &[], object).await;
        assert_eq!(code, 201, "{answer}");
    }
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let path = "/api/v1/namespaces/default/services/s";
    let (code, answer) = ask(&running, &jane(), "PUT", path, &[], &service).await;
    assert_eq!(code, 403, "{answer}");
    assert!(
        answer["message"].as_str().is_some_and(|text| text.contains("cannot create resource \"services\"")),
        "{answer}"
    );
    let (code, answer) = ask(&running, &admin, "PUT", path, &[], &service).await;
    assert_eq!((code, answer["spec"]["clusterIP"].is_string()), (201, true), "{answer}");
    assert_eq!(ask(&running, &jane(), "PUT", path, &[], &answer).await.0, 200);
    let (code, _) = ask(&running, &admin, "PUT", &format!("{MAPS}/m"), &[], &config_map("m")).await;
    assert_eq!(code, 404, "a ConfigMap is not created by an update");
}
