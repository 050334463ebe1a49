use http::Method;

use super::{NotAPath, Target, Verb, parse_path, verb_for};
use crate::query::Query;

fn shown(path: &str) -> String {
    match parse_path(path) {
        Ok(Target::Resource(target)) => format!(
            "{}/{} {} ns={:?} name={:?} sub={:?} rest={}",
            target.group,
            target.version,
            target.resource,
            target.namespace,
            target.name,
            target.subresource,
            target.rest
        ),
        Ok(Target::Path(path)) => format!("path {path}"),
        Err(NotAPath) => "nothing".to_owned(),
    }
}

#[test]
fn paths_are_read_as_kubernetes_reads_them() {
    let table = [
        ("/api/v1/pods", r#"/v1 pods ns=None name=None sub=None rest="#),
        ("/api/v1/namespaces/a/pods", r#"/v1 pods ns=Some("a") name=None sub=None rest="#),
        ("/api/v1/namespaces/a/pods/p", r#"/v1 pods ns=Some("a") name=Some("p") sub=None rest="#),
        ("/api/v1/namespaces/a/pods/p/log", r#"/v1 pods ns=Some("a") name=Some("p") sub=Some("log") rest="#),
        (
            "/api/v1/namespaces/a/pods/p/proxy/x/y",
            r#"/v1 pods ns=Some("a") name=Some("p") sub=Some("proxy") rest=/x/y"#,
        ),
        (
            "/api/v1/namespaces/a/pods/p:80/proxy/x//y%2f/../z/",
            r#"/v1 pods ns=Some("a") name=Some("p:80") sub=Some("proxy") rest=/x//y%2f/../z/"#,
        ),
        (
            "/api/v1/namespaces/a/services/https:s:web/proxy/",
            r#"/v1 services ns=Some("a") name=Some("https:s:web") sub=Some("proxy") rest=/"#,
        ),
        ("/api/v1/nodes/n/proxy", r#"/v1 nodes ns=None name=Some("n") sub=Some("proxy") rest="#),
        ("/api/v1/nodes/n/proxy/pods", r#"/v1 nodes ns=None name=Some("n") sub=Some("proxy") rest=/pods"#),
        ("/api/v1/namespaces/proxy/pods", r#"/v1 pods ns=Some("proxy") name=None sub=None rest="#),
        ("/api/v1/namespaces", r#"/v1 namespaces ns=None name=None sub=None rest="#),
        ("/api/v1/namespaces/a", r#"/v1 namespaces ns=None name=Some("a") sub=None rest="#),
        ("/api/v1/namespaces/a/status", r#"/v1 namespaces ns=None name=Some("a") sub=Some("status") rest="#),
        (
            "/api/v1/namespaces/a/finalize",
            r#"/v1 namespaces ns=None name=Some("a") sub=Some("finalize") rest="#,
        ),
        ("/api/v1/nodes/n/status", r#"/v1 nodes ns=None name=Some("n") sub=Some("status") rest="#),
        (
            "/apis/apps/v1/namespaces/a/deployments/d/scale",
            r#"apps/v1 deployments ns=Some("a") name=Some("d") sub=Some("scale") rest="#,
        ),
        ("/api/v1", "path /api/v1"),
        ("/apis/apps/v1/", "path /apis/apps/v1"),
        ("/", "path /"),
        ("/healthz", "path /healthz"),
    ];
    for (path, expected) in table {
        assert_eq!(shown(path), expected, "{path}");
    }
}

#[test]
fn tricks_with_paths_name_nothing() {
    for path in [
        "/api/v1/namespaces/a/pods/..%2f..%2fsecrets",
        "/api/v1//pods",
        "/api/v1/nodes//proxy/x",
        "/api/v1/nodes/../proxy/x",
        "/api/v1/namespaces/a/pods/%2e%2e/b",
        "/api/v1/namespaces/../pods",
        "/api/v1/namespaces/a/pods/x%00y",
        "/api/v1/namespaces/a/pods/%zz",
        "/api/v1/namespaces/a/pods/%ff",
        "api/v1/pods",
        "",
    ] {
        assert_eq!(shown(path), "nothing", "{path}");
    }
}

#[test]
fn methods_become_verbs() {
    let verb = |method: Method, path: &str, query: &str| {
        let Ok(Target::Resource(target)) = parse_path(path) else { panic!("{path}") };
        verb_for(&method, &target, &Query::parse(query))
    };
    assert_eq!(verb(Method::GET, "/api/v1/pods", ""), Some(Verb::List));
    assert_eq!(verb(Method::GET, "/api/v1/pods", "watch=1"), Some(Verb::Watch));
    assert_eq!(verb(Method::GET, "/api/v1/pods", "watch=false"), Some(Verb::List));
    assert_eq!(verb(Method::GET, "/api/v1/nodes/n", ""), Some(Verb::Get));
    assert_eq!(verb(Method::DELETE, "/api/v1/nodes", ""), Some(Verb::DeleteCollection));
    assert_eq!(verb(Method::DELETE, "/api/v1/nodes/n", ""), Some(Verb::Delete));
    assert_eq!(verb(Method::OPTIONS, "/api/v1/nodes/n/proxy", ""), Some(Verb::Get));
    assert_eq!(verb(Method::OPTIONS, "/api/v1/nodes/n", ""), None);
    assert_eq!(verb(Method::TRACE, "/api/v1/nodes/n", ""), None);
}
