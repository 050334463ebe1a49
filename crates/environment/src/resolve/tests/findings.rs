//! One table row for each thing that a finding or an error can say.

use serde_json::{Value as Json, json};

use super::{
    codes, complete, config_map, errors, lines, on_node, pod_with, pod_with_env, resolved, resolved_with,
    secret,
};
use crate::{
    Availability, EnvFileKey, EnvFileRefusal, EnvFileSource, FindingCode, Gates, ImageConfig, Options,
    SecretBytes, SecretSource, Severity, Sources, Unavailable,
};

fn image(env: &[&str]) -> Availability<ImageConfig> {
    let env = env.iter().map(|text| (*text).to_owned()).collect();
    Availability::Present(ImageConfig { env, ..ImageConfig::default() })
}

/// `severity code field_path[span]: message | hint` for each finding.
fn said(env: Json, sources: &Sources) -> Vec<String> {
    said_of(&pod_with_env(env), sources)
}

fn said_of(pod: &k8s_openapi::api::core::v1::Pod, sources: &Sources) -> Vec<String> {
    let findings = resolved(pod, sources).findings();
    let line = |finding: &crate::Finding| {
        let severity = match finding.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let span =
            finding.span.as_ref().map(|span| format!("[{}..{}]", span.start, span.end)).unwrap_or_default();
        let hint = finding.hint.as_deref().map(|hint| format!(" | {hint}")).unwrap_or_default();
        let field = finding.field_path.strip_prefix("spec.containers[0]").expect("below the container");
        format!("{severity} {} {field}{span}: {}{hint}", finding.code.as_str(), finding.message)
    };
    findings.iter().map(line).collect()
}

#[test]
fn an_undefined_reference_is_reported_with_its_place() {
    let env = json!([{"name": "URL", "value": "é://$(NOPE_X)/"}]);
    assert_eq!(
        said(env, &on_node()),
        [
            "warning reference-undefined .env[0].value[5..14]: $(NOPE_X) stays as it is: \"NOPE_X\" is not defined by \
          the pod or a service | declare \"NOPE_X\" above (a variable of the image cannot be referenced), or write \
          $$(NOPE_X) to keep the text"
        ]
    );
}

#[test]
fn without_the_image_nobody_says_that_a_variable_exists_nowhere() {
    let env = json!([{"name": "X", "value": "$(APP_HOME)"}]);
    let unknown = said(env.clone(), &on_node());
    assert!(unknown[0].contains("not defined by the pod or a service"), "{unknown:?}");
    assert!(unknown[0].contains("a variable of the image cannot be referenced"), "{unknown:?}");
    let with_it = said(env.clone(), &Sources { image: image(&["APP_HOME=/app"]), ..on_node() });
    assert!(with_it[0].contains("is set only by the image, which no reference can see"), "{with_it:?}");
    let without_it = said(env, &Sources { image: image(&[]), ..on_node() });
    assert!(without_it[0].contains("\"APP_HOME\" is not defined | "), "{without_it:?}");
}

#[test]
fn a_reference_to_a_later_variable_says_where_that_is() {
    let env =
        json!([{"name": "B", "value": "$(A)"}, {"name": "X", "value": ""}, {"name": "A", "value": "1"}]);
    assert_eq!(
        said(env, &on_node()),
        [
            "warning reference-declared-later .env[0].value[0..4]: $(A) stays as it is: \"A\" is declared later, at \
          env[2] | move env[2] above env[0]"
        ]
    );
}

#[test]
fn a_reference_that_differs_by_case_offers_the_name() {
    let env = json!([{"name": "Db_Host", "value": "h"}, {"name": "URL", "value": "$(DB_HOST)"}]);
    assert_eq!(
        said(env, &on_node()),
        ["warning reference-case-differs .env[1].value[0..10]: $(DB_HOST) stays as it is: names are \
          case-sensitive, and only \"Db_Host\" exists | write $(Db_Host)"]
    );
}

#[test]
fn a_mistyped_reference_offers_the_nearest_name() {
    let env = json!([{"name": "DATABASE_HOST", "value": "h"}, {"name": "URL", "value": "$(DATABSE_HOST)"}]);
    assert_eq!(
        said(env, &on_node()),
        [
            "warning reference-undefined .env[1].value[0..15]: $(DATABSE_HOST) stays as it is: \"DATABSE_HOST\" is not \
          defined by the pod or a service | did you mean $(DATABASE_HOST)?"
        ]
    );
}

#[test]
fn variables_of_image_and_runtime_cannot_be_referenced() {
    let sources = Sources { image: image(&["APP_HOME=/app"]), ..on_node() };
    let env = json!([{"name": "X", "value": "$(APP_HOME)"}, {"name": "PATH", "value": "/x:$(PATH)"}]);
    let found = said(env, &sources);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("reference-image-only") && found[0].contains("only by the image"), "{found:?}");
    assert!(
        found[1].contains("reference-image-only") && found[1].contains("only by the runtime"),
        "{found:?}"
    );
}

#[test]
fn command_substitutions_are_no_mistyped_variables() {
    for text in ["$(date)", "$(cat /etc/x)", "$((1+2))", "$(nproc)", "$(hostname -f)", "$(< /f)", "$(ls|wc)"]
    {
        let found = said(json!([{"name": "X", "value": text}]), &on_node());
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("info shell-substitution"), "{text}: {found:?}");
        // In a script of a shell it is what it looks like, and nothing is to be said.
        let script = pod_with(json!({"command": ["/bin/sh", "-ec", format!("echo {text}")]}));
        assert_eq!(said_of(&script, &on_node()), [""; 0], "{text}");
    }
    // Unless a variable of nearly that name exists.
    let env = json!([{"name": "DATE", "value": "x"}, {"name": "X", "value": "$(date)"}]);
    assert!(said(env, &on_node())[0].contains("reference-case-differs"));
    // A single word in capitals is a variable.
    assert!(said(json!([{"name": "X", "value": "$(DATE)"}]), &on_node())[0].contains("reference-undefined"));
}

#[test]
fn nested_and_self_references_get_their_own_hint() {
    let env = json!([{"name": "A", "value": "a"}, {"name": "X", "value": "$(VAR_A$(A))"}]);
    assert!(said(env, &on_node())[0].contains("references cannot be nested"));
    let env = json!([{"name": "COUNTER", "value": "$(COUNTER)1"}]);
    assert!(said(env, &on_node())[0].contains("an earlier definition of its own name"));
}

#[test]
fn each_name_is_reported_once_a_value() {
    let env = json!([{"name": "X", "value": "$(NOPE)$(NOPE)$(NOPE)"}]);
    assert_eq!(said(env, &on_node()).len(), 1);
}

#[test]
fn duplicates_are_reported_as_kubernetes_does() {
    let rows = [
        (json!({"name": "A", "value": "2"}), true),
        (json!({"name": "A", "value": "$(A)"}), true),
        (json!({"name": "A", "value": "$(A)2"}), false),
        (json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}), true),
    ];
    for (second, warned) in rows {
        let found = said(json!([{"name": "A", "value": "1"}, second]), &on_node());
        let expected = "warning duplicate-name .env[1]: hides previous definition of \"A\", which may be dropped \
                        when using apply";
        assert_eq!(found.iter().any(|line| line.starts_with(expected)), warned, "{found:?}");
    }
}

#[test]
fn what_services_and_images_hide_is_reported() {
    let services =
        json!([{"namespace": "ns1", "name": "app", "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}]);
    let sources =
        Sources { services: complete(services), image: image(&["APP_PORT=8080", "MODE=a"]), ..on_node() };
    let env = json!([{"name": "MODE", "value": "b"}, {"name": "APP_SERVICE_HOST", "value": "fixed"}]);
    let found = resolved(&pod_with_env(env), &sources).findings();
    assert_eq!(
        codes(&found),
        ["service-variable-shadowed", "service-shadows-image", "image-variable-shadowed"]
    );
    assert_eq!(found[1].severity, Severity::Warning);
    assert!(
        found[1].message.contains("the variable \"APP_PORT\" of service \"app\""),
        "{}",
        found[1].message
    );
}

#[test]
fn services_that_give_the_same_variable_are_reported() {
    let services = json!([
        {"namespace": "ns1", "name": "foo", "clusterIP": "10.0.0.1", "ports": [{"port": 80}]},
        {"namespace": "ns1", "name": "foo-service", "clusterIP": "10.0.0.2", "ports": [{"port": 81}]},
    ]);
    let sources = Sources { services: complete(services), ..on_node() };
    let resolved = resolved(&pod_with_env(json!([])), &sources);
    assert_eq!(codes(&resolved.findings()), ["services-collide"]);
    assert!(lines(&resolved).contains(&"FOO_SERVICE_PORT=tcp://10.0.0.2:81".to_owned()));
}

#[test]
fn names_that_a_shell_cannot_read_are_an_info() {
    let env = json!([{"name": "Logging:LogLevel:Default", "value": "Debug"}]);
    let found = said(env, &on_node());
    assert!(found.len() == 1 && found[0].starts_with("info name-not-posix .env[0].name"), "{found:?}");
    let env =
        json!([{"name": "\u{e9}", "value": ""}, {"name": "A=B", "value": ""}, {"name": "", "value": ""}]);
    let resolved = resolved(&pod_with_env(env), &on_node());
    assert_eq!(codes(&resolved.findings()), ["name-invalid", "name-invalid", "name-not-accepted"]);
    let strict = Options { gates: Gates { relaxed_names: false, ..Gates::default() }, ..Options::default() };
    let pod = pod_with_env(json!([{"name": "a:b", "value": ""}]));
    assert_eq!(codes(&resolved_with(&pod, &on_node(), &strict).findings()), ["name-not-accepted"]);
}

#[test]
fn keys_that_a_shell_cannot_read_are_reported_once_a_source() {
    let mut sources = on_node();
    sources
        .config_maps
        .insert("cm".to_owned(), config_map(&[("MODE", "1"), ("app.conf", "2"), ("b-c", "3")]));
    let found = said_of(&pod_with(json!({"envFrom": [{"configMapRef": {"name": "cm"}}]})), &sources);
    let expected = "info name-not-posix .envFrom[0]: a POSIX shell cannot read variables called \"app.conf\" and one other";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
}

#[test]
fn sub_paths_that_no_run_can_use_are_errors() {
    let mount = |expression: &str| json!({"name": "v", "mountPath": "/v", "subPathExpr": expression});
    let pod = pod_with(json!({
        "env": [
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "UP", "value": ".."},
            {"name": "EMPTY", "value": ""},
        ],
        "volumeMounts": [mount("$(IP)/$(NOPE)"), mount("$(UP)/x"), mount("$(EMPTY)$(NOPE)"), mount("x/$$(NOPE)")],
    }));
    assert_eq!(
        errors(&resolved(&pod, &on_node())),
        [
            "spec.containers[0].volumeMounts[1].subPathExpr: unable to provision SubPath `../x`: must not contain '..'",
            "spec.containers[0].volumeMounts[2].subPathExpr: missing value for EMPTY, NOPE",
        ]
    );
}

#[test]
fn optional_sources_that_are_absent_are_skipped_with_an_info() {
    let env = json!([
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": true}}},
        {"name": "B", "value": "$(A)"},
    ]);
    let resolved = resolved(&pod_with_env(env), &on_node());
    assert_eq!(codes(&resolved.findings()), ["optional-skipped", "reference-skipped"]);
    assert_eq!(lines(&resolved), ["B=$(A)"]);
}

#[test]
fn missing_objects_and_keys_are_errors_in_the_words_of_kubernetes() {
    let mut sources = on_node();
    sources.config_maps.insert("cm".to_owned(), config_map(&[("Key", "v")]));
    sources.secrets.insert("sec".to_owned(), secret(&[("k", "v")]));
    sources.config_maps.insert("late".to_owned(), Availability::Unavailable(Unavailable::NotSynced));
    sources.secrets.insert("far".to_owned(), Availability::Unavailable(Unavailable::NotRegistered));
    let pod = pod_with(json!({
        "envFrom": [{"configMapRef": {"name": "gone"}}, {"secretRef": {"name": "far"}}, {"prefix": "P_"}],
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "key"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "nope"}}},
            {"name": "C", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k"}}},
            {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k", "optional": true}}},
            {"name": "E", "valueFrom": {}},
        ],
    }));
    let resolved = resolved(&pod, &sources);
    assert_eq!(
        errors(&resolved),
        [
            "spec.containers[0].envFrom[0].configMapRef.name: configmap \"gone\" not found",
            "spec.containers[0].envFrom[1].secretRef.name: object \"ns1\"/\"far\" not registered",
            "spec.containers[0].envFrom: must specify one of: `configMapRef` or `secretRef`",
            "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: couldn't find key key in ConfigMap ns1/cm",
            "spec.containers[0].env[1].valueFrom.secretKeyRef.key: couldn't find key nope in Secret ns1/sec",
            "spec.containers[0].env[2].valueFrom.secretKeyRef.name: secret \"gone\" not found",
            "spec.containers[0].env[3].valueFrom.configMapKeyRef.name: failed to sync configmap cache: timed out \
             waiting for the condition",
            "spec.containers[0].env[4].valueFrom: must specify one of: `fieldRef`, `resourceFieldRef`, \
             `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ]
    );
    let hint = resolved.errors[3].hint().expect("a hint");
    assert_eq!(hint, "the key is called \"Key\"; keys are case-sensitive");
    // What failed is shown as missing, so that people see the whole list.
    assert_eq!(lines(&resolved), ["A=<!A>", "B=<!B>", "C=<!C>", "D=<!D>"]);
}

#[test]
fn fields_and_resources_that_cannot_be_read_are_errors() {
    let field = |path: &str| json!({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let rows = [
        (field("spec.image"), "field label not supported: spec.image"),
        (field("metadata.name['x']"), "field label does not support subscript: metadata.name"),
        (field("status.phase"), "unsupported fieldPath: status.phase"),
        (field("metadata.labels"), "unsupported fieldPath: metadata.labels"),
        (field(""), "field label not supported: "),
        (
            json!({"name": "X", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}}),
            "unsupported pod version: v2",
        ),
        (
            json!({"name": "X", "valueFrom": {"resourceFieldRef": {"containerName": "no", "resource": "limits.cpu"}}}),
            "container no not found",
        ),
        (
            json!({"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}),
            "unsupported container resource : cpu",
        ),
    ];
    for (entry, expected) in rows {
        let resolved = resolved(&pod_with_env(json!([entry])), &on_node());
        assert_eq!(resolved.errors.len(), 1, "{expected}");
        assert_eq!(resolved.errors[0].to_string(), expected);
    }
    let entry = json!({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['none']"}}});
    let resolved = resolved(&pod_with_env(json!([entry])), &on_node());
    assert_eq!((codes(&resolved.findings()), lines(&resolved)), (vec!["field-empty"], vec!["X=".to_owned()]));
}

fn with_file(content: EnvFileSource) -> Sources {
    let key = EnvFileKey { volume: "v".to_owned(), path: "dir/f.env".to_owned() };
    let mut sources = on_node();
    sources.env_files.insert(key, content);
    sources
}

fn text(content: &str) -> EnvFileSource {
    EnvFileSource::Content(SecretBytes::new(content.as_bytes()))
}

fn file_entry(optional: bool) -> Json {
    json!({"name": "X", "valueFrom": {"fileKeyRef": {
        "volumeName": "v", "path": "dir/f.env", "key": "KEY", "optional": optional}}})
}

#[test]
fn env_files_answer_with_path_and_line_but_never_with_content_or_a_host_path() {
    let rows = [
        (EnvFileSource::VolumeNotFound, "cannot find the volume \"v\" referenced by FileKeyRef", false),
        (
            EnvFileSource::NotFound,
            "couldn't parse env file \"dir/f.env\" of volume \"v\": there is no such file",
            true,
        ),
        (
            EnvFileSource::Refused(EnvFileRefusal::NotRegular),
            "couldn't parse env file \"dir/f.env\" of volume \"v\": it is not a regular file",
            false,
        ),
        (
            EnvFileSource::Refused(EnvFileRefusal::NotReadable { uid: 1000 }),
            "couldn't parse env file \"dir/f.env\" of volume \"v\": the container's user 1000 may not read it",
            false,
        ),
        (
            text("A=1\nsecret garbage\n"),
            "couldn't parse env file \"dir/f.env\" of volume \"v\": invalid environment variable format at line 2, \
             column 1: missing '='",
            false,
        ),
        (
            text("A='1'\n"),
            "environment variable key \"KEY\" not found in file \"dir/f.env\" of volume \"v\"",
            true,
        ),
    ];
    for (content, expected, excused) in rows {
        let strict = resolved(&pod_with_env(json!([file_entry(false)])), &with_file(content.clone()));
        assert_eq!(strict.errors[0].to_string(), expected);
        assert!(!strict.errors[0].to_string().contains("garbage"));
        let optional = resolved(&pod_with_env(json!([file_entry(true)])), &with_file(content));
        assert_eq!(optional.errors.is_empty(), excused, "{expected}");
        if excused {
            assert_eq!((lines(&optional).len(), codes(&optional.findings())), (0, vec!["optional-skipped"]));
        }
    }
}

#[test]
fn an_env_file_says_what_kubernetes_would_read_differently() {
    let quoted = resolved(&pod_with_env(json!([file_entry(false)])), &with_file(text("KEY='v'\n")));
    assert_eq!((lines(&quoted), codes(&quoted.findings())), (vec!["X=v".to_owned()], vec![]));
    let plain = resolved(&pod_with_env(json!([file_entry(false)])), &with_file(text("# c\nKEY=v\n")));
    assert_eq!(lines(&plain), ["X=v"]);
    assert_eq!(codes(&plain.findings()), ["env-file-differs"]);
    assert_eq!(plain.findings()[0].severity, Severity::Info);
    assert!(plain.findings()[0].message.contains("line 2"), "{}", plain.findings()[0].message);
    let exported = resolved(&pod_with_env(json!([file_entry(false)])), &with_file(text("export KEY='v'\n")));
    assert_eq!(codes(&exported.findings()), ["env-file-key-not-found", "env-file-export"]);
    assert!(exported.errors[0].hint().expect("a hint").contains("no export keyword"));
    let empty = resolved(&pod_with_env(json!([file_entry(false)])), &with_file(text("KEY=\n")));
    assert_eq!((lines(&empty), errors(&empty)), (vec!["X=".to_owned()], vec![]), "empty is a value");
}

#[test]
fn a_reference_to_what_the_gate_leaves_out_names_the_gate() {
    let options = Options { gates: Gates { env_files: false, ..Gates::default() }, ..Options::default() };
    let pod = pod_with_env(json!([file_entry(true), {"name": "Y", "value": "$(X)"}]));
    let findings = resolved_with(&pod, &with_file(text("KEY=v\n")), &options).findings();
    assert_eq!(codes(&findings), ["env-files-disabled", "reference-skipped"]);
    assert!(
        findings.iter().all(|finding| finding.message.contains("feature gate EnvFiles is off")),
        "{findings:?}"
    );
}

#[test]
fn with_the_gate_off_env_files_are_skipped() {
    let options = Options { gates: Gates { env_files: false, ..Gates::default() }, ..Options::default() };
    let pod = pod_with_env(json!([{"name": "X", "value": "before"}, file_entry(false)]));
    let resolved = resolved_with(&pod, &with_file(text("KEY=v\n")), &options);
    assert_eq!(lines(&resolved), ["X=before"]);
    assert_eq!(codes(&resolved.findings()), ["duplicate-name", "env-files-disabled"]);
}

#[test]
fn an_env_file_volume_mounted_elsewhere_is_a_warning() {
    let mut pod =
        pod_with(json!({"env": [file_entry(false)], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}));
    let found = resolved(&pod, &with_file(text("KEY='v'\n"))).findings();
    assert_eq!(codes(&found), ["env-file-volume-mounted"]);
    assert!(found[0].message.contains("both mounts"));
    let spec = pod.spec.as_mut().expect("a spec");
    spec.containers[0].volume_mounts = None;
    let other = json!({"name": "other", "restartPolicy": "Always", "volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    spec.init_containers = Some(vec![serde_json::from_value(other).expect("a container")]);
    let views = crate::containers(pod.spec.as_ref().expect("a spec"));
    let found =
        crate::resolve(&pod, &views[1], &with_file(text("KEY='v'\n")), &Options::default()).findings();
    assert!(found[0].message.contains("also mounted by sidecar \"other\""), "{found:?}");
}

#[test]
fn a_shell_script_with_a_foreign_value_is_a_warning() {
    let pod = pod_with(json!({
        "command": ["sh"], "args": ["-c", "echo $(X) $(Y)"], "env": [file_entry(false), {"name": "Y", "value": "1"}],
    }));
    let found = resolved(&pod, &with_file(text("KEY='v'\n"))).findings();
    assert_eq!(codes(&found), ["shell-script-expansion"]);
    assert_eq!(found[0].field_path, "spec.containers[0].args[1]");
    assert_eq!(found[0].span, Some(5..9));
}

#[test]
fn binary_values_and_nul_bytes_are_refused_by_name_only() {
    let mut sources = on_node();
    let binary = SecretSource {
        resource_version: None,
        data: [
            ("bin".to_owned(), SecretBytes::new(vec![0xff, 0xfe])),
            ("nul".to_owned(), SecretBytes::new(b"s3cr\0et".to_vec())),
        ]
        .into(),
    };
    sources.secrets.insert("s".to_owned(), Availability::Present(binary));
    let pod = pod_with(json!({
        "envFrom": [{"secretRef": {"name": "s"}}],
        "env": [{"name": "A", "value": "a\u{0}b"}],
        "args": ["x\u{0}y"],
    }));
    let resolved = resolved(&pod, &sources);
    assert_eq!(
        errors(&resolved),
        [
            "spec.containers[0].envFrom[0]: environment variable \"bin\" is not valid UTF-8",
            "spec.containers[0].envFrom[0]: environment variable \"nul\" contains a NUL byte",
            "spec.containers[0].env[0].value: environment variable \"A\" contains a NUL byte",
            "spec.containers[0].args[0]: argument contains a NUL byte",
        ]
    );
    let printed = format!("{resolved:?}");
    assert!(!printed.contains("s3cr"), "{printed}");
}

#[test]
fn codes_are_stable_and_unique() {
    let mut texts: Vec<_> = FindingCode::ALL.iter().map(|code| code.as_str()).collect();
    let kebab = |text: &&str| {
        text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    assert!(texts.iter().all(kebab));
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), FindingCode::ALL.len());
}

#[test]
fn warning_headers_leave_out_what_a_service_may_still_give() {
    let env = json!([{"name": "X", "value": "$(DB_SERVICE_HOST)$(MY_PORT)$(NOPE_X)"}]);
    let found = resolved(&pod_with_env(env), &on_node()).findings();
    let shown: Vec<_> = found.iter().map(|finding| finding.belongs_in_warning_header()).collect();
    assert_eq!(shown, [false, false, true], "{found:?}");
}

#[test]
fn every_code_is_documented() {
    let text = include_str!("../../../../../docs/findings.md");
    for code in FindingCode::ALL {
        let code = code.as_str();
        assert!(text.contains(&format!("| [`{code}`](#{code}) |")), "the table lacks {code}");
        assert!(text.contains(&format!("## `{code}`\n")), "{code} has no section");
    }
}
