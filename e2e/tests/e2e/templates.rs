//! Templates as people use them: processed on the command line and over the API, run, applied, exported, deleted.

use std::path::PathBuf;
use std::process::Command;

use e2e::{Node, Place, Said, finish, left_behind, privileged, project};
use serde_json::Value;

/// A value that must be nowhere but in the objects it was given for.
const CANARY: &str = "canary-8f3a1c";

/// Pods, ConfigMap, Secret and Service, with a generated password.
const SHOP: &str = r#"kind: Template
apiVersion: template.coracle.dev/v1
metadata: {name: shop, annotations: {description: A shop of two pods}}
message: |
  $(NAME) is open.
labels: {app.kubernetes.io/name: shop}
parameters:
- {name: NAME, description: Name of every object, value: shop, required: true}
- {name: PASSWORD, secret: true, generate: expression, from: "[a-zA-Z0-9]{16}"}
- {name: TOKEN, secret: true}
- {name: SECONDS, type: int, value: "1"}
objects:
- apiVersion: v1
  kind: Secret
  metadata: {name: $(NAME)}
  stringData: {password: $(PASSWORD), token: "t$(TOKEN)"}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: $(NAME)}
  data: {who: $(NAME)}
- apiVersion: v1
  kind: Service
  metadata: {name: $(NAME)}
  spec: {selector: {role: web}, ports: [{port: 80}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: $(NAME)-web, labels: {role: web}}
  spec: &pod
    terminationGracePeriodSeconds: $((SECONDS))
    restartPolicy: Never
    containers:
    - name: c
      image: coracle.dev/host
      command: [/bin/sh, -c, 'echo "$WHO has ${#PASSWORD}"; exec sleep 100000']
      env: &env
      - {name: WHO, valueFrom: {configMapKeyRef: {name: $(NAME), key: who}}}
      - {name: PASSWORD, valueFrom: {secretKeyRef: {name: $(NAME), key: password}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: $(NAME)-job}
  spec:
    <<: *pod
    containers:
    - {name: c, image: coracle.dev/host, command: [/bin/sh, -c, 'echo "$WHO is done"'], env: *env}
"#;

/// The fixture without the pod that goes on for ever.
fn short_lived() -> String {
    SHOP.replace("exec sleep 100000", "true")
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("text")
}

fn template(place: &Place, arguments: &[&str]) -> Said {
    let mut all = vec!["template"];
    all.extend(arguments);
    finish(&mut place.coracle(&all), "")
}

fn template_on(place: &Place, node: &Node, arguments: &[&str]) -> Said {
    let mut all = vec!["template"];
    all.extend(arguments);
    finish(place.coracle(&all).env("KUBECONFIG", &node.kubeconfig), "")
}

fn ok(said: Said) -> String {
    assert_eq!(said.status, 0, "{}", said.all());
    said.stdout
}

fn with_kubectl(test: &str) -> bool {
    let found = Command::new("kubectl").arg("--help").output().is_ok();
    if !found {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "{test} needs kubectl");
        eprintln!("skipped: {test} needs kubectl");
    }
    found && privileged(test)
}

/// The document's example with a password in it, so that a client needs nothing but the file.
fn mongodb(place: &Place) -> PathBuf {
    let example =
        std::fs::read_to_string(project().join("examples/templates/mongodb.json")).expect("the example");
    let about = "\"description\": \"Password for the MongoDB user\",";
    assert!(example.contains(about), "{example}");
    place.file("mongodb.json", &example.replace(about, &format!("{about}\n      \"value\": \"pa$$word\",")))
}

/// What curl gets, with the certificates of the kubeconfig.
fn curl(place: &Place, node: &Node, path: &str, body: &str) -> Option<String> {
    if Command::new("curl").arg("--version").output().is_err() {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "this test needs curl");
        return None;
    }
    let part = |name: &str, path: &str| {
        let data = node.kubectl_ok(&["config", "view", "--raw", "-o", &format!("jsonpath={{{path}}}")], "");
        let decoded = finish(Command::new("base64").arg("-d"), &data);
        place.file(name, &decoded.stdout)
    };
    let authority = part("ca.pem", ".clusters[0].cluster.certificate-authority-data");
    let certificate = part("client.pem", ".users[0].user.client-certificate-data");
    let key = part("key.pem", ".users[0].user.client-key-data");
    let server =
        node.kubectl_ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"], "");
    let mut command = Command::new("curl");
    command.args(["-sS", "--cacert", text(&authority), "--cert", text(&certificate), "--key", text(&key)]);
    command.args(["-H", "Content-Type: application/json", "--data-binary", "@-", &format!("{server}{path}")]);
    Some(ok(finish(&mut command, body)))
}

#[test]
fn the_documents_example_is_the_same_by_command_line_curl_and_kubectl() {
    if !with_kubectl("the_documents_example_is_the_same_by_command_line_curl_and_kubectl") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let file = mongodb(&place);
    let here = ok(template(&place, &["process", "-f", text(&file), "-o", "json"]));
    let list: Value = serde_json::from_str(&here).expect("JSON");
    assert_eq!(list["items"][0]["spec"]["selector"]["template"], "mongodb-ephemeral-template");
    assert_eq!(list["items"][1]["spec"]["replicas"], 1);
    for form in
        [&["--kubeconfig", text(&node.kubeconfig)][..], &["--local", "--kubeconfig", text(&node.kubeconfig)]]
    {
        let mut arguments = vec!["process", "-f", text(&file), "-o", "json"];
        arguments.extend(form);
        assert_eq!(ok(template(&place, &arguments)), here, "{form:?}");
    }
    let query = "processedtemplates?output=list&pretty=true";
    for root in ["/api/v1/namespaces/default", "/apis/template.coracle.dev/v1/namespaces/default"] {
        let path = format!("{root}/{query}");
        assert_eq!(node.kubectl_ok(&["create", "--raw", &path, "-f", text(&file)], ""), here, "{path}");
        let body = std::fs::read_to_string(&file).expect("text");
        if let Some(answer) = curl(&place, &node, &path, &body) {
            assert_eq!(answer, here, "{path}");
        }
    }
    // Stored by the proposal's own path, then processed by name.
    let stored =
        std::fs::read_to_string(project().join("examples/templates/mongodb.json")).expect("the example");
    node.kubectl_ok(&["create", "--raw", "/api/v1/namespaces/default/templates", "-f", "-"], &stored);
    assert!(node.kubectl_ok(&["get", "templates"], "").contains("mongodb-ephemeral"));
    let by_name = ok(template_on(
        &place,
        &node,
        &["process", "mongodb-ephemeral", "MONGODB_PASSWORD=pa$$word", "-o", "json"],
    ));
    assert_eq!(by_name, here, "the order of keys is kept in the store");
    let parameters = r#"{"apiVersion": "v1", "kind": "TemplateParameters", "parameters": [{"name": "MONGODB_PASSWORD", "value": "pa$$word"}]}"#;
    let path = "/api/v1/namespaces/default/templates/mongodb-ephemeral/processed?output=list&pretty=true";
    assert_eq!(node.kubectl_ok(&["create", "--raw", path, "-f", "-"], parameters), by_name);
    let said = template_on(&place, &node, &["process", "mongodb-ephemeral"]);
    assert!(said.status == 2 && said.stderr.contains("MONGODB_PASSWORD is required"), "{}", said.all());
    assert!(
        node.kubectl_ok(&["get", "services", "-o", "name"], "").lines().count() == 1,
        "nothing was created"
    );
}

#[test]
fn a_template_is_created_shown_applied_refused_and_deleted_by_kubectl() {
    if !with_kubectl("a_template_is_created_shown_applied_refused_and_deleted_by_kubectl") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SHOP);
    let table = node.kubectl_ok(&["get", "templates"], "");
    assert!(table.contains("DESCRIPTION") && table.contains("A shop of two pods"), "{table}");
    assert!(node.kubectl_ok(&["describe", "template", "shop"], "").contains("Parameters"));
    let changed = SHOP.replace("A shop of two pods", "Another shop");
    assert!(node.kubectl_ok(&["apply", "-f", "-"], &changed).contains("configured"));
    assert!(node.kubectl_ok(&["apply", "-f", "-"], &changed).contains("unchanged"));
    let wrong = SHOP
        .replace("{who: $(NAME)}", "{who: $((NAM))}")
        .replace("secret: true}", &format!("secret: true, value: {CANARY}}}"));
    let said = node.kubectl(&["apply", "-f", "-"], &wrong);
    assert!(said.status != 0 && said.stderr.contains("objects[1].data.who"), "{}", said.all());
    assert!(said.stderr.contains("parameters[2].value") && !said.stderr.contains(CANARY), "{}", said.all());
    // By name.
    let shown = ok(template_on(&place, &node, &["parameters", "shop"]));
    assert!(shown.contains("NAME") && shown.contains("generated from [a-zA-Z0-9]{16}"), "{shown}");
    let names = ok(template_on(&place, &node, &["process", "shop", "-p", "NAME=x", "-o", "name"]));
    assert_eq!(
        names.lines().collect::<Vec<_>>(),
        ["secret/x", "configmap/x", "service/x", "pod/x-web", "pod/x-job"]
    );
    assert_eq!(node.kubectl_ok(&["get", "pods", "-o", "name"], ""), "", "processing creates nothing");
    node.kubectl_ok(&["delete", "template", "shop"], "");
    let said = template_on(&place, &node, &["process", "shop"]);
    assert!(
        said.status == 2 && said.stderr.contains("template \"shop\" could not be found"),
        "{}",
        said.all()
    );
}

#[test]
fn two_instances_live_side_by_side_and_keep_their_generated_values() {
    if !with_kubectl("two_instances_live_side_by_side_and_keep_their_generated_values") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let file = place.file("shop.yaml", SHOP);
    let apply = |instance: &str, more: &[&str]| {
        let name = format!("NAME={instance}");
        let token = format!("TOKEN={CANARY}");
        let mut arguments =
            vec!["apply", "-f", text(&file), "--instance", instance, "-p", &name, "-p", &token];
        arguments.extend(more);
        template_on(&place, &node, &arguments)
    };
    let password =
        |instance: &str| node.kubectl_ok(&["get", "secret", instance, "-o", "jsonpath={.data.password}"], "");
    let said = ok(apply("one", &[]));
    for line in [
        "parameter/PASSWORD generated",
        "secret/one-parameters created",
        "service/one created",
        "pod/one-web created",
        "one is open.",
    ] {
        assert!(said.lines().any(|each| each == line), "{line} is missing in {said}");
    }
    ok(apply("two", &[]));
    for instance in ["one", "two"] {
        node.wait_for(&["logs", &format!("{instance}-web")], |out| out == format!("{instance} has 16\n"));
        let selector = node.kubectl_ok(&["get", "service", instance, "-o", "jsonpath={.spec.selector}"], "");
        let pods = format!("role=web,template.coracle.dev/instance={instance}");
        assert!(
            selector.contains(&format!("\"template.coracle.dev/instance\":\"{instance}\"")),
            "{selector}"
        );
        assert_eq!(
            node.kubectl_ok(&["get", "pods", "-l", &pods, "-o", "name"], ""),
            format!("pod/{instance}-web\n")
        );
    }
    let first = password("one");
    assert_ne!(first, password("two"), "each has its own");
    // Applied again: nothing changes; with another password only what asks for it.
    let said = ok(apply("one", &[]));
    assert!(
        said.contains("parameter/PASSWORD kept")
            && said.contains("service/one unchanged")
            && said.contains("pod/one-web unchanged"),
        "{said}"
    );
    assert_eq!(password("one"), first);
    // Without its own Secret the live one says what the value is.
    node.kubectl_ok(&["delete", "secret", "one-parameters"], "");
    assert!(ok(apply("one", &[])).contains("parameter/PASSWORD kept"));
    assert_eq!(password("one"), first);
    let said = ok(apply("one", &["--regenerate", "PASSWORD"]));
    assert!(
        said.contains("parameter/PASSWORD generated") && said.contains("secret/one configured"),
        "{said}"
    );
    assert_ne!(password("one"), first);
    // What another instance owns is not taken.
    let said =
        template_on(&place, &node, &["apply", "-f", text(&file), "--instance", "three", "-p", "NAME=two"]);
    assert!(said.status == 1 && said.stderr.contains("secret/two belongs to instance two"), "{}", said.all());
    let list = ok(template_on(&place, &node, &["list"]));
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[1].starts_with("one ") && lines[2].starts_with("two ") && lines.len() == 3, "{list}");
    // The secret value is where it was asked for, and nowhere else.
    let events = node.kubectl_ok(&["get", "events", "-A", "-o", "yaml"], "");
    for place in [&events, &node.log(), &list] {
        assert!(!place.contains(CANARY), "{place}");
    }
    let said = ok(template_on(&place, &node, &["delete", "one"]));
    assert!(
        said.contains("pod \"one-web\" deleted") && said.contains("secret \"one-parameters\" deleted"),
        "{said}"
    );
    let left = node.kubectl_ok(&["get", "pods,services,configmaps,secrets", "-o", "name"], "");
    assert!(!left.contains("/one") && left.contains("pod/two-web"), "{left}");
    let said = template_on(&place, &node, &["delete", "one"]);
    assert!(said.status == 1 && said.stderr.contains("there is no instance one"), "{}", said.all());
    ok(template_on(&place, &node, &["delete", "two"]));
    drop(node);
    assert_eq!(left_behind(text(&place.data())), std::collections::BTreeSet::new());
}

#[test]
fn a_template_of_which_one_object_is_refused_leaves_nothing_half_done() {
    if !with_kubectl("a_template_of_which_one_object_is_refused_leaves_nothing_half_done") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let head = "kind: Template\napiVersion: template.coracle.dev/v1\nmetadata: {name: t}\nobjects:\n";
    let file = place.file(
        "t.yaml",
        &format!(
            "{head}- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: first}}, data: {{a: b}}}}\n\
             - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: Second}}}}\n\
             - apiVersion: v1\n  kind: Pod\n  metadata: {{name: third}}\n  spec: {{containers: []}}\n"
        ),
    );
    let said = template_on(&place, &node, &["apply", "-f", text(&file)]);
    assert_eq!((said.status, said.stdout.as_str()), (1, ""), "{}", said.all());
    for wanted in ["Second", "t.yaml:6:", "third", "t.yaml:10:", "nothing was written"] {
        assert!(said.stderr.contains(wanted), "{wanted} is missing in {}", said.all());
    }
    let left = |what: &str| {
        node.kubectl_ok(&["get", what, "-l", "template.coracle.dev/instance=t", "-o", "name"], "")
    };
    assert_eq!(left("configmaps,pods"), "");
    // What only the writes themselves can find out: two services that want the same port.
    let service = |name: &str| {
        format!(
            "- {{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{clusterIP: 10.43.0.77, ports: [{{port: 80}}]}}}}\n"
        )
    };
    let file = place.file("t.yaml", &format!("{head}{}{}{}", service("one"), service("two"), service("six")));
    let said = template_on(&place, &node, &["apply", "-f", text(&file)]);
    assert_eq!((said.status, said.stdout.as_str()), (1, "service/one created\n"), "{}", said.all());
    assert!(
        said.stderr.contains("written: service/one\n")
            && said.stderr.contains("not written: service/two, service/six"),
        "{}",
        said.all()
    );
    assert_eq!(left("services"), "service/one\n");
    ok(template_on(&place, &node, &["delete", "t"]));
    // A namespace, an account and a pod that needs both come into being together.
    let file = place.file(
        "t.yaml",
        &format!(
            "{head}- {{apiVersion: v1, kind: Namespace, metadata: {{name: new}}}}\n\
             - {{apiVersion: v1, kind: ServiceAccount, metadata: {{name: runner, namespace: new}}}}\n\
             - apiVersion: v1\n  kind: Pod\n  metadata: {{name: p, namespace: new}}\n  spec:\n    serviceAccountName: runner\n    \
             containers: [{{name: c, image: coracle.dev/host, command: [/bin/true]}}]\n    restartPolicy: Never\n"
        ),
    );
    let said = ok(template_on(&place, &node, &["apply", "-f", text(&file)]));
    assert!(said.contains("namespace/new created") && said.contains("pod/p created"), "{said}");
    node.kubectl_ok(&["delete", "pod", "p", "-n", "new"], "");
}

#[test]
fn an_exported_namespace_processes_to_what_it_was_exported_from() {
    if !with_kubectl("an_exported_namespace_processes_to_what_it_was_exported_from") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let file = place.file("shop.yaml", &short_lived());
    ok(template_on(&place, &node, &["apply", "-f", text(&file), "-p", "TOKEN=x"]));
    let exported = ok(template_on(&place, &node, &["export", "--as-template", "copy"]));
    assert!(!exported.contains("managedFields"), "{exported}");
    assert!(
        !exported.contains("nodeName") && !exported.contains("clusterIP") && !exported.contains("status:"),
        "{exported}"
    );
    let copy = place.file("copy.yaml", &exported);
    assert_eq!(template(&place, &["lint", text(&copy), "--strict"]).status, 0);
    let again = ok(template(&place, &["process", "-f", text(&copy)]));
    let objects = place.file("objects.yaml", &again);
    // What it processes to exports to the same template again.
    let twice = ok(template(&place, &["export", "-f", text(&objects), "--as-template", "copy"]));
    assert_eq!(twice, exported);
    node.kubectl_ok(&["create", "namespace", "other"], "");
    let said = ok(template_on(&place, &node, &["apply", "-f", text(&copy), "-n", "other"]));
    assert!(said.contains("pod/shop-web created") && said.contains("service/shop created"), "{said}");
    node.wait_for(&["logs", "-n", "other", "shop-job"], |out| out == "shop is done\n");
    let some = ok(template_on(
        &place,
        &node,
        &["export", "svc/shop", "cm", "-l", "app.kubernetes.io/name=shop", "-o", "name"],
    ));
    assert_eq!(some.lines().collect::<Vec<_>>(), ["configmap/shop", "service/shop"]);
    let said = ok(template_on(&place, &node, &["export", "--parameterize"]));
    let parameterized = place.file("parameterized.yaml", &said);
    assert!(said.contains("parameters:"), "{said}");
    assert!(ok(template(&place, &["parameters", text(&parameterized)])).lines().count() > 1);
    let said = template_on(&place, &node, &["export", "-l", "no=such"]);
    assert!(
        said.status == 2 && said.stderr.contains("no resources found - nothing to export"),
        "{}",
        said.all()
    );
}

#[test]
fn a_template_runs_with_its_values_and_says_its_message() {
    if !privileged("a_template_runs_with_its_values_and_says_its_message") {
        return;
    }
    let place = Place::new();
    let said = place
        .run(&short_lived(), &["-p", "NAME=corner", "-p", &format!("TOKEN={CANARY}"), "--instance", "x"]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(
        said.stdout.contains("corner has 16") && said.stdout.contains("corner is done"),
        "{}",
        said.all()
    );
    assert!(said.stderr.contains("corner is open.") && !said.all().contains(CANARY), "{}", said.all());
    // Two instances on one node, in one namespace.
    let file = place.file("shop.yaml", &short_lived());
    let one = |name: &str| {
        ok(template(
            &place,
            &["process", "-f", text(&file), "-p", &format!("NAME={name}"), "--instance", name],
        ))
    };
    let both = format!("{}---\n{}", one("left"), one("right"));
    let said = place.run(&both, &["--quiet"]);
    assert_eq!(said.status, 0, "{}", said.all());
    let mut lines = said.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["left has 16", "left is done", "right has 16", "right is done"]);
    let said = place.run(&short_lived(), &["-p", "NAM=x", "-p", "SECONDS=soon"]);
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(
        said.stderr.contains("unknown parameter name \"NAM\"") && said.stderr.contains("did you mean NAME?"),
        "{}",
        said.all()
    );
    assert!(
        said.stderr.contains("the value of parameter SECONDS is not") && !said.stderr.contains("soon"),
        "{}",
        said.all()
    );
    assert_eq!(left_behind(text(&place.data())), std::collections::BTreeSet::new());
}

#[test]
fn every_template_of_pods_runs_and_prints_what_its_comment_says() {
    if !privileged("every_template_of_pods_runs_and_prints_what_its_comment_says") {
        return;
    }
    let place = Place::new();
    let directory = project().join("examples/templates");
    let mut count = 0;
    let mut names: Vec<_> =
        std::fs::read_dir(&directory).expect("examples").flatten().map(|entry| entry.path()).collect();
    names.sort();
    for path in names {
        let example = std::fs::read_to_string(&path).expect("text");
        let promised: Vec<&str> = example
            .lines()
            .take_while(|line| line.starts_with('#'))
            .filter_map(|line| line.strip_prefix("#     "))
            .collect();
        let Some((command, lines)) =
            promised.split_first().filter(|(command, _)| command.starts_with("coracle run"))
        else {
            continue;
        };
        let mut words: Vec<&str> = command.split(' ').skip(1).collect();
        let data = place.data();
        words.extend(["--quiet", "--data-dir", text(&data)]);
        let said = finish(place.coracle(&words).current_dir(project()), "");
        assert_eq!(said.status, 0, "{}: {}", path.display(), said.all());
        for line in lines {
            assert!(said.lines().contains(line), "{}: no line {line:?} in {}", path.display(), said.all());
        }
        count += 1;
    }
    assert!(count >= 2, "the examples are there");
}

#[test]
fn lint_points_at_everything_and_shows_no_secret() {
    let place = Place::new();
    let wrong = SHOP
        .replace("{who: $(NAME)}", "{who: $(NAMES)}")
        .replace("TOKEN, secret: true}", &format!("TOKEN, secret: true, type: int, value: {CANARY}}}"));
    let file = place.file("wrong.yaml", &wrong);
    let said = template(&place, &["lint", text(&file)]);
    assert_eq!(said.status, 2, "{}", said.all());
    for part in [
        "template-reference-near",
        "wrong.yaml:20:15",
        "did you mean NAME?",
        "template-value-type",
        "wrong.yaml:10",
    ] {
        assert!(said.stderr.contains(part), "{part} is missing in {}", said.all());
    }
    assert!(!said.all().contains(CANARY), "{}", said.all());
    let odd = place.file("odd.yaml", &SHOP.replace("- {name: SECONDS", "- {name: UNUSED}\n- {name: SECONDS"));
    let said = template(&place, &["lint", text(&odd)]);
    assert_eq!(
        (said.status, said.stdout.as_str()),
        (0, "1 template: 0 errors, 1 warning\n"),
        "{}",
        said.all()
    );
    assert_eq!(template(&place, &["lint", "--strict", text(&odd)]).status, 1);
    assert!(said.stderr.contains("nothing refers to parameter UNUSED"), "{}", said.all());
}

#[test]
fn values_come_from_flags_files_and_the_environment() {
    let place = Place::new();
    let file = place.file("shop.yaml", SHOP);
    place.file("values.env", "NAME=from-file\nSECONDS=7\n");
    place.file("token", "from a file\n");
    let arguments = [
        "template",
        "process",
        text(&file),
        "-p",
        "TOKEN=@token",
        "--param-file",
        "values.env",
        "--param-env-prefix",
        "SHOP_",
        "-l",
        "tier=x",
        "-o",
        "json",
    ];
    let said =
        finish(place.coracle(&arguments).env("SHOP_PASSWORD", "from-env").env("SHOP_NAME", "loses"), "");
    let list: Value = serde_json::from_str(&ok(said)).expect("JSON");
    let secret = &list["items"][0];
    assert_eq!(secret["metadata"]["name"], "from-file");
    assert_eq!(secret["metadata"]["labels"]["tier"], "x");
    assert_eq!(secret["stringData"], serde_json::json!({"password": "from-env", "token": "tfrom a file"}));
    assert_eq!(list["items"][3]["spec"]["terminationGracePeriodSeconds"], 7);
    let said = template(
        &place,
        &["process", text(&file), "-p", "OTHER=1", "--ignore-unknown-parameters", "-o", "name"],
    );
    assert_eq!(ok(said).lines().count(), 5);
    let said = template(&place, &["process", text(&file), "--parameters", "-p", "NAME=x"]);
    assert!(
        said.stderr
            .contains("The --parameters flag does not process the template, can't be used with --param"),
        "{}",
        said.all()
    );
    let said = template(&place, &["process", "--local", "shop"]);
    assert!(
        said.status == 2 && said.stderr.contains("when running this command with --local"),
        "{}",
        said.all()
    );
    let parameters = ok(template(&place, &["parameters", text(&file), "-o", "json"]));
    let parameters: Value = serde_json::from_str(&parameters).expect("JSON");
    assert_eq!((&parameters[1]["name"], &parameters[1]["secret"]), (&"PASSWORD".into(), &true.into()));
}

/// Runs a command that asks: each answer is given when its question has been shown. What the command showed.
fn answer(command: &mut Command, answers: &[(&str, &str)]) -> String {
    use std::io::{Read, Write};
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("script starts");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut shown = String::new();
    let mut byte = [0];
    for (question, answer) in answers {
        while !shown.contains(question) {
            assert!(
                stdout.read(&mut byte).is_ok_and(|count| count > 0),
                "no question {question:?} in {shown:?}"
            );
            shown.push(char::from(byte[0]));
        }
        stdin.write_all(format!("{answer}\n").as_bytes()).expect("script reads");
    }
    stdout.read_to_string(&mut shown).expect("text");
    assert!(child.wait().expect("it ends").success(), "{shown}");
    shown
}

#[test]
fn a_missing_value_is_asked_for_on_a_terminal_and_a_secret_is_not_shown() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!(
            "skipped: a_missing_value_is_asked_for_on_a_terminal_and_a_secret_is_not_shown needs script"
        );
        return;
    }
    let place = Place::new();
    let template = "kind: Template\napiVersion: template.coracle.dev/v1\nmetadata: {name: t}\nparameters:\n- {name: WHO, required: true}\n- {name: WORD, description: the word, required: true, secret: true}\nobjects:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: $(WHO)}, data: {length: \"$(WORD)\"}}\n";
    let file = place.file("t.yaml", template);
    let out = place.file("out", "");
    let line = format!("{} template process {} > {}", e2e::binary().display(), file.display(), out.display());
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]);
    let said = answer(&mut command, &[("WHO: ", "me"), ("WORD, the word (not shown): ", CANARY)]);
    assert!(said.contains("me") && !said.contains(CANARY), "{said}");
    let written = std::fs::read_to_string(&out).expect("text");
    assert!(written.contains("name: me") && written.contains(CANARY), "{written}");
}

#[test]
fn ctrl_c_at_the_question_for_a_value_ends_with_130() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: ctrl_c_at_the_question_for_a_value_ends_with_130 needs script");
        return;
    }
    let place = Place::new();
    for (secret, question) in [(true, "WORD (not shown): "), (false, "WORD: ")] {
        let file = place.file(
            "t.yaml",
            &format!("kind: Template\napiVersion: template.coracle.dev/v1\nmetadata: {{name: t}}\nparameters:\n- {{name: WORD, required: true, secret: {secret}}}\nobjects: []\n"),
        );
        // The shell goes on after the signal, and says the status that it saw.
        let line = format!(
            "trap : INT; {} template process {}; echo status $?",
            e2e::binary().display(),
            file.display()
        );
        // Who runs the tests in the background of a shell has it ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "script", "-qec", &line, "/dev/null"]);
        let said = answer(&mut command, &[(question, "\u{3}")]);
        assert!(said.contains("status 130"), "secret {secret}: {said}");
    }
}

#[test]
fn mistakes_on_the_command_line_name_what_is_mistaken() {
    let place = Place::new();
    let file = place.file("shop.yaml", SHOP);
    let said = template(&place, &["process", text(&file), "--instance", "No Name"]);
    assert!(
        said.status == 2 && said.stderr.contains("--instance") && !said.stderr.contains("metadata.name"),
        "{}",
        said.all()
    );
    let given = ["apply", text(&file), "--regenerate", "PASSWORD", "-p", "PASSWORD=abc"];
    let said = template(&place, &given);
    assert!(
        said.status == 2 && said.stderr.contains("--regenerate PASSWORD has no effect"),
        "{}",
        said.all()
    );
    let said = finish(&mut place.coracle(&["env"]), "");
    assert!(
        said.status == 2 && said.stderr.contains("-f FILE") && said.stderr.contains("pod/NAME"),
        "{}",
        said.all()
    );
    let said = template(&place, &["export", "-f", text(&file), "bogus", "pods/nonexist"]);
    assert!(
        said.status == 2 && said.stderr.contains("\"bogus\"") && said.stderr.contains("\"pods\""),
        "{}",
        said.all()
    );
}

#[test]
fn process_says_the_message_on_standard_error_only() {
    let place = Place::new();
    let file = place.file("shop.yaml", SHOP);
    let said = template(&place, &["process", text(&file)]);
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.stderr.contains("shop is open.") && !said.stdout.contains("is open"), "{}", said.all());
    let said = template(&place, &["process", text(&file), "--raw"]);
    assert!(said.stdout.contains("shop is open.") && !said.stderr.contains("is open"), "{}", said.all());
}

#[test]
fn the_environment_of_a_template_is_explained_where_it_stands() {
    let place = Place::new();
    let odd = SHOP.replace("- {name: WHO, valueFrom", "- {name: URL, value: \"http://$(NAME)/$(LATER)\"}\n      - {name: PW, value: \"x$(TOKEN)\"}\n      - {name: LATER, value: \"1\"}\n      - {name: WHO, valueFrom");
    let file = place.file("shop.yaml", &odd);
    let said = finish(
        &mut place.coracle(&[
            "env",
            "-f",
            text(&file),
            "-p",
            "NAME=corner",
            "-p",
            &format!("TOKEN={CANARY}"),
        ]),
        "",
    );
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(
        said.stdout.contains("pod default/corner-web") && said.stdout.contains("http://corner/$(LATER)"),
        "{}",
        said.all()
    );
    assert!(said.stdout.contains("shop.yaml:36:44") && said.stdout.contains("x****"), "{}", said.all());
    assert!(!said.all().contains(CANARY), "{}", said.all());
    let said = finish(&mut place.coracle(&["env", "-f", text(&file), "-p", "NAMES=x"]), "");
    assert!(said.status == 2 && said.stderr.contains("did you mean NAME?"), "{}", said.all());
}

#[test]
fn the_binary_is_a_kubectl_plugin_for_templates() {
    let place = Place::new();
    let file = place.file("shop.yaml", SHOP);
    let plugin = place.data().with_file_name("kubectl-template");
    std::os::unix::fs::symlink(e2e::binary(), &plugin).expect("a link");
    let said = finish(Command::new(&plugin).args(["process", text(&file), "-o", "name"]), "");
    assert_eq!(ok(said).lines().count(), 5);
}
