//! Bearer tokens: what they prove, and when they stop proving it.
#![allow(missing_docs)]

mod support;

use std::sync::Arc;

use apiserver::{ApiServerConfig, FixedTokens, Identity, NoNodes};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use support::{Running, pod, request};

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const DEFAULT: &str = "/api/v1/namespaces/default";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// One request of nobody in particular, with an `Authorization` header.
async fn with(
    running: &Running,
    authorization: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let headers = [("authorization", authorization), ("content-type", "application/json")];
    let bytes = if body.is_null() { String::new() } else { body.to_string() };
    let response =
        running.send_as(Identity::anonymous(), request(method, path, &headers, bytes.as_bytes())).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Whom a token names; the status code when nobody.
async fn who(running: &Running, token: &str) -> Result<Value, u16> {
    match with(running, &format!("Bearer {token}"), "POST", WHO, &json!({})).await {
        (201, answer) => Ok(answer["status"]["userInfo"].clone()),
        (code, _) => Err(code),
    }
}

async fn made(running: &Running, path: &str, object: &Value) -> Value {
    let (code, answer) = running.post(path, object).await;
    assert_eq!(code.as_u16(), 201, "{answer}");
    answer
}

async fn token(running: &Running, account: &str, spec: Value) -> String {
    let path = format!("{DEFAULT}/serviceaccounts/{account}/token");
    let answer = made(running, &path, &json!({"spec": spec})).await;
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).expect("three parts");
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
}

async fn deleted(running: &Running, path: &str) {
    let (code, answer) = running.call("DELETE", path, &[], br#"{"gracePeriodSeconds": 0}"#).await;
    assert_eq!(code.as_u16(), 200, "{answer}");
}

#[tokio::test]
async fn a_token_proves_its_account_until_the_account_is_gone() {
    let running = Running::start().await;
    let account =
        made(&running, &format!("{DEFAULT}/serviceaccounts"), &json!({"metadata": {"name": "bot"}})).await;
    let first = token(&running, "bot", json!({})).await;
    let said = claims(&first);
    assert_eq!((&said["iss"], &said["aud"]), (&json!(ISSUER), &json!([ISSUER])));
    assert_eq!(said["exp"].as_i64().expect("one") - said["iat"].as_i64().expect("one"), 3600);
    let user = who(&running, &first).await.expect("good");
    assert_eq!(user["username"], "system:serviceaccount:default:bot");
    assert_eq!(user["uid"], account["metadata"]["uid"]);
    assert_eq!(
        user["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert_eq!(
        user["extra"]["authentication.kubernetes.io/credential-id"],
        json!([format!("JTI={}", said["jti"].as_str().expect("one"))])
    );
    deleted(&running, &format!("{DEFAULT}/serviceaccounts/bot")).await;
    assert_eq!(who(&running, &first).await, Err(401));
    made(&running, &format!("{DEFAULT}/serviceaccounts"), &json!({"metadata": {"name": "bot"}})).await;
    assert_eq!(who(&running, &first).await, Err(401), "another account of the same name");
}

#[tokio::test]
async fn a_token_of_a_pod_ends_with_its_pod_and_tells_its_node() {
    let running = Running::start().await;
    made(&running, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let mut own = pod("p");
    own["spec"]["nodeName"] = json!("n1");
    let uid = made(&running, &format!("{DEFAULT}/pods"), &own).await["metadata"]["uid"].clone();
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid});
    let bound = token(&running, "default", json!({"boundObjectRef": reference})).await;
    let user = who(&running, &bound).await.expect("good");
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-uid"], json!([uid]));
    assert_eq!(user["extra"]["authentication.kubernetes.io/node-name"], json!(["n1"]));
    deleted(&running, &format!("{DEFAULT}/pods/p")).await;
    assert_eq!(who(&running, &bound).await, Err(401));

    let path = format!("{DEFAULT}/serviceaccounts/default/token");
    let (code, _) = running.post(&path, &json!({"spec": {"boundObjectRef": reference}})).await;
    assert_eq!(code.as_u16(), 404, "the pod is gone");
    made(&running, &format!("{DEFAULT}/pods"), &own).await;
    let (code, _) = running.post(&path, &json!({"spec": {"boundObjectRef": reference}})).await;
    assert_eq!(code.as_u16(), 409, "another pod of the same name");
}

#[tokio::test]
async fn nodes_get_tokens_for_their_own_pods_only() {
    let running = Running::start().await;
    for (name, node) in [("own", "n1"), ("other", "n2")] {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = json!(node);
        made(&running, &format!("{DEFAULT}/pods"), &pod).await;
    }
    let path = format!("{DEFAULT}/serviceaccounts/default/token");
    let ask = async |spec: Value| {
        let body = json!({"spec": spec}).to_string();
        let headers = [("content-type", "application/json")];
        let response =
            running.send_as(Identity::node("n1"), request("POST", &path, &headers, body.as_bytes())).await;
        response.status().as_u16()
    };
    let to = |name: &str| json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name}});
    assert_eq!(ask(to("own")).await, 201);
    assert_eq!(ask(to("other")).await, 403);
    let mut meant = to("own");
    meant["audiences"] = json!(["vault"]);
    assert_eq!(ask(meant.clone()).await, 403, "the pod names no such audience");
    let mut pod = pod("asks");
    pod["spec"]["nodeName"] = json!("n1");
    pod["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}]);
    made(&running, &format!("{DEFAULT}/pods"), &pod).await;
    meant["boundObjectRef"]["name"] = json!("asks");
    assert_eq!(ask(meant).await, 201);
    assert_eq!(ask(json!({})).await, 403);
}

#[tokio::test]
async fn a_token_is_good_for_its_audiences_and_its_time() {
    let running = Running::start().await;
    let vault = token(&running, "default", json!({"audiences": ["vault"], "expirationSeconds": 600})).await;
    assert_eq!(who(&running, &vault).await, Err(401), "meant for somebody else");
    let review = async |token: &str, audiences: Value| {
        let body = json!({"spec": {"token": token, "audiences": audiences}});
        made(&running, "/apis/authentication.k8s.io/v1/tokenreviews", &body).await["status"].clone()
    };
    let status = review(&vault, json!(["vault", "other"])).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:default");
    let status = review(&vault, json!([])).await;
    assert!(status["authenticated"] != true && status["error"].is_string(), "{status}");
    let path = format!("{DEFAULT}/serviceaccounts/default/token");
    let (code, status) = running.post(&path, &json!({"spec": {"expirationSeconds": 60}})).await;
    assert_eq!(code.as_u16(), 422);
    assert_eq!(
        status["message"],
        "TokenRequest.authentication.k8s.io \"default\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes"
    );
}

#[tokio::test]
async fn whatever_proves_nothing_is_refused_and_never_ignored() {
    let running = Running::start().await;
    let good = token(&running, "default", json!({})).await;
    let parts: Vec<&str> = good.split('.').collect();
    let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let admin = BASE64_URL_SAFE_NO_PAD.encode(
        claims(&good)
            .to_string()
            .replace("serviceaccount:default:default", "serviceaccount:kube-system:admin"),
    );
    for header in [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer forged".to_owned(),
        "Basic YWRtaW46YWRtaW4=".to_owned(),
        format!("Bearer {}", &good[..good.len() - 4]),
        format!("Bearer {none}.{}.", parts[1]),
        format!("Bearer {}.{admin}.{}", parts[0], parts[2]),
        format!("Bearer {}", "a".repeat(20_000)),
    ] {
        let (code, status) = with(&running, &header, "GET", "/version", &Value::Null).await;
        assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")), "{}", header.len());
    }
    assert_eq!(with(&running, &format!("bearer {good}"), "GET", "/version", &Value::Null).await.0, 200);
    assert!(who(&running, &good).await.is_ok());
    let other = Running::start().await;
    assert_eq!(who(&other, &good).await, Err(401), "another server's");
}

#[tokio::test]
async fn a_secret_gets_a_token_that_ends_with_it_and_goes_with_its_account() {
    let running = Running::start().await;
    made(&running, &format!("{DEFAULT}/serviceaccounts"), &json!({"metadata": {"name": "bot"}})).await;
    let secret = |name: &str, account: &str| {
        json!({"metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
            "type": "kubernetes.io/service-account-token"})
    };
    let secrets = format!("{DEFAULT}/secrets");
    let held = async |name: &str| {
        let stored = made(&running, &secrets, &secret(name, "bot")).await;
        let token = BASE64_STANDARD.decode(stored["data"]["token"].as_str().expect("one")).expect("base64");
        assert!(stored["data"]["ca.crt"].is_string() && stored["data"]["namespace"].is_string());
        String::from_utf8(token).expect("text")
    };
    let (first, second) = (held("first").await, held("second").await);
    assert_eq!(who(&running, &first).await.expect("good")["username"], "system:serviceaccount:default:bot");
    deleted(&running, &format!("{secrets}/first")).await;
    assert_eq!(who(&running, &first).await, Err(401));
    assert!(who(&running, &second).await.is_ok());
    deleted(&running, &format!("{DEFAULT}/serviceaccounts/bot")).await;
    assert_eq!(who(&running, &second).await, Err(401));
    assert_eq!(running.get(&format!("{secrets}/second")).await.0.as_u16(), 404);
    assert_eq!(running.post(&secrets, &secret("third", "bot")).await.0.as_u16(), 403);
}

#[tokio::test]
async fn tokens_of_a_file_name_whom_the_file_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tokens.csv");
    std::fs::write(&path, "s3cret,jane,7,\"ops,system:masters\"\n").expect("written");
    let fixed_tokens = FixedTokens::read(&path).expect("read");
    let config = ApiServerConfig { fixed_tokens, ..ApiServerConfig::default() };
    let running = Running::start_with(config, Arc::new(NoNodes)).await;
    assert_eq!(
        who(&running, "s3cret").await.expect("good"),
        json!({"username": "jane", "uid": "7", "groups": ["ops", "system:masters", "system:authenticated"]})
    );
    assert_eq!(with(&running, "Bearer s3cret", "GET", &format!("{DEFAULT}/pods"), &Value::Null).await.0, 200);
    assert_eq!(who(&running, "s3cre").await, Err(401));
    std::fs::write(&path, "s3cret\n").expect("written");
    let error = FixedTokens::read(&path).expect_err("wrong").to_string();
    assert!(error.contains("tokens.csv:1") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn others_can_verify_tokens_by_the_published_key() {
    let running = Running::start().await;
    let token = token(&running, "default", json!({})).await;
    let bearer = format!("Bearer {token}");
    let (code, about) =
        with(&running, &bearer, "GET", "/.well-known/openid-configuration", &Value::Null).await;
    assert_eq!((code, &about["issuer"]), (200, &json!(ISSUER)));
    assert!(about["jwks_uri"].as_str().expect("one").ends_with("/openid/v1/jwks"));
    let (code, keys) = with(&running, &bearer, "GET", "/openid/v1/jwks", &Value::Null).await;
    assert_eq!(code, 200);
    let key = &keys["keys"][0];
    let bytes = |value: &Value| BASE64_URL_SAFE_NO_PAD.decode(value.as_str().expect("text")).expect("base64");
    let point = [vec![4], bytes(&key["x"]), bytes(&key["y"])].concat();
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    let public = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point);
    public.verify(message.as_bytes(), &bytes(&json!(signature))).expect("the key is the token's");
    let jane = Identity::new("jane", Vec::new());
    let response = running.send_as(jane, request("GET", "/openid/v1/jwks", &[], b"")).await;
    assert_eq!(response.status().as_u16(), 403, "service accounts may read it, users by a role");
}

#[tokio::test]
async fn the_token_that_admission_asks_for_lives_as_long_as_its_pod() {
    let running = Running::start().await;
    made(&running, &format!("{DEFAULT}/pods"), &pod("p")).await;
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let path = format!("{DEFAULT}/serviceaccounts/default/token");
    let answer =
        made(&running, &path, &json!({"spec": {"expirationSeconds": 3607, "boundObjectRef": reference}}))
            .await;
    let said = claims(answer["status"]["token"].as_str().expect("one"));
    assert_eq!(said["exp"].as_i64().expect("one") - said["iat"].as_i64().expect("one"), 365 * 24 * 3600);
    assert_eq!(said["kubernetes.io"]["warnafter"].as_i64(), said["iat"].as_i64().map(|time| time + 3607));
    let end: jiff::Timestamp =
        answer["status"]["expirationTimestamp"].as_str().expect("one").parse().expect("a time");
    assert!(
        (end.as_second() - jiff::Timestamp::now().as_second() - 3607).abs() < 10,
        "the short life is told"
    );
}
