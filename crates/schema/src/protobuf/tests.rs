use serde_json::{Value, json};

use super::{
    Envelope, ListWriter, ProtobufError, put_event, read_message, read_object, write_message, write_object,
    write_object_as,
};
use crate::builtin;

pub(super) fn tag(number: u64, kind: u64) -> Vec<u8> {
    varint(number << 3 | kind)
}

pub(super) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

pub(crate) fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [tag(number, 2), varint(content.len() as u64), content.to_vec()].concat()
}

pub(super) fn number(field: u64, value: i64) -> Vec<u8> {
    [tag(field, 0), varint(value.cast_unsigned())].concat()
}

pub(super) fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

fn written(value: &Value) -> Vec<u8> {
    write_object(value.to_string().as_bytes()).expect("an object of a known kind")
}

/// The metadata of an object as Go writes it.
fn metadata(name: &[u8], namespace: &[u8], version: &[u8], created: &[u8]) -> Vec<u8> {
    [
        field(1, name),
        field(2, b""),
        field(3, namespace),
        field(4, b""),
        field(5, b""),
        field(6, version),
        number(7, 0),
        field(8, created),
    ]
    .concat()
}

/// The metadata of an object that has a name only.
fn named(name: &[u8]) -> Vec<u8> {
    metadata(name, b"", b"", b"")
}

#[test]
fn a_config_map_of_kubectl_is_read() {
    let metadata = [field(1, b"cfg"), field(2, b""), field(3, b"default"), field(8, b"")].concat();
    let entry = |key: &[u8], value: &[u8]| [field(1, key), field(2, value)].concat();
    let raw = [
        field(1, &metadata),
        field(2, &entry(b"A", b"1")),
        field(2, &entry(b"B", b"")),
        field(3, &entry(b"bin", &[0, 255])),
    ]
    .concat();
    assert_eq!(
        read_object(&object("v1", "ConfigMap", &raw)).expect("well formed"),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cfg", "generateName": "", "namespace": "default", "creationTimestamp": null},
            "data": {"A": "1", "B": ""}, "binaryData": {"bin": "AP8="}})
    );
}

#[test]
fn a_config_map_is_written_byte_for_byte() {
    let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "namespace": "n",
        "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:09Z"},
        "data": {"z": "", "a": "1"}, "immutable": true, "unknown": {}});
    // Written out once, so that a mistake of the functions above cannot hide one of the writer.
    let bytes: &[u8] = b"k8s\0\
        \x0a\x0f\x0a\x02v1\x12\x09ConfigMap\
        \x12\x2a\
        \x0a\x17\x0a\x01c\x12\x00\x1a\x01n\x22\x00\x2a\x00\x32\x017\x38\x00\x42\x04\x08\x09\x10\x00\
        \x12\x06\x0a\x01a\x12\x011\
        \x12\x05\x0a\x01z\x12\x00\
        \x20\x01\
        \x1a\x00\x22\x00";
    assert_eq!(written(&value), bytes);
    let meta = metadata(b"c", b"n", b"7", &[number(1, 9), number(2, 0)].concat());
    let entry = |key: &[u8], value: &[u8]| [field(1, key), field(2, value)].concat();
    let raw =
        [field(1, &meta), field(2, &entry(b"a", b"1")), field(2, &entry(b"z", b"")), number(4, 1)].concat();
    assert_eq!(bytes, object("v1", "ConfigMap", &raw));
}

#[test]
fn messages_that_json_inlines_are_unfolded() {
    // volumes[0] = {name, volumeSource{secret{secretName, defaultMode}}}; containers[0].livenessProbe = {handler{httpGet{port}}}.
    let secret = [field(1, b"s"), number(3, 420)].concat();
    let volume = [field(1, b"v"), field(2, &field(6, &secret))].concat();
    let port = [number(1, 1), number(2, 0), field(3, b"http")].concat();
    let probe = [field(1, &field(2, &field(2, &port))), number(2, -5)].concat();
    let limit = [field(1, b"cpu"), field(2, &field(1, b"250m"))].concat();
    let container = [field(1, b"c"), field(8, &field(1, &limit)), field(10, &probe)].concat();
    let spec = [field(1, &volume), field(2, &container), number(4, 30)].concat();
    let pod = read_object(&object("v1", "Pod", &field(2, &spec))).expect("well formed");
    assert_eq!(
        pod["spec"],
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}],
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "250m"}},
                "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": -5}}],
            "terminationGracePeriodSeconds": 30})
    );
}

#[test]
fn quantities_times_and_ports_of_a_pod_are_written_as_their_messages() {
    let value = json!({"resources": {"limits": {"memory": "64Mi", "cpu": "250m"}}, "name": "c",
        "livenessProbe": {"httpGet": {"port": "http", "scheme": "HTTP"}, "initialDelaySeconds": -1}});
    let container = builtin().type_named("api/core/v1", "Container").expect("known");
    let bytes = write_message(container, value.to_string().as_bytes()).expect("a container");
    let limit = |key: &[u8], text: &[u8]| field(1, &[field(1, key), field(2, &field(1, text))].concat());
    let port = [number(1, 1), number(2, 0), field(3, b"http")].concat();
    let get = [field(1, b""), field(2, &port), field(3, b""), field(4, b"HTTP")].concat();
    let probe =
        [field(1, &field(2, &get)), number(2, -1), number(3, 0), number(4, 0), number(5, 0), number(6, 0)];
    let want = [
        field(1, b"c"),
        field(2, b""),
        field(5, b""),
        // Keys sorted; no requests, so no field for them.
        field(8, &[limit(b"cpu", b"250m"), limit(b"memory", b"64Mi")].concat()),
        field(10, &probe.concat()),
        field(13, b""),
        field(14, b""),
        number(16, 0),
        number(17, 0),
        number(18, 0),
        field(20, b""),
    ];
    assert_eq!(bytes, want.concat());

    let lease = builtin().type_named("api/coordination/v1", "LeaseSpec").expect("known");
    let spec = json!({"renewTime": "1970-01-01T00:00:09.000002Z", "leaseTransitions": 0});
    assert_eq!(
        write_message(lease, spec.to_string().as_bytes()).expect("a spec"),
        [field(4, &[number(1, 9), number(2, 2000)].concat()), number(5, 0)].concat(),
        "what is pointed to is written when it is there, zero or not"
    );
}

#[test]
fn options_scales_and_statuses_are_written_byte_for_byte() {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
        "propagationPolicy": "Background", "dryRun": ["All"], "preconditions": {"uid": "u"}});
    let raw = [number(1, 0), field(2, &field(1, b"u")), field(4, b"Background"), field(5, b"All")].concat();
    assert_eq!(written(&options), object("v1", "DeleteOptions", &raw));
    assert_eq!(read_object(&object("v1", "DeleteOptions", &raw)), Ok(options));

    let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d"},
        "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}});
    let raw = [
        field(1, &named(b"d")),
        field(2, &number(1, 3)),
        field(3, &[number(1, 2), field(2, b"a=b")].concat()),
    ];
    assert_eq!(written(&scale), object("autoscaling/v1", "Scale", &raw.concat()));

    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "m", "reason": "NotFound", "details": {"name": "x", "kind": "pods"}, "code": 404});
    let details = [field(1, b"x"), field(2, b""), field(3, b"pods"), number(5, 0), field(6, b"")].concat();
    let raw = [
        field(1, &[field(1, b""), field(2, b""), field(3, b"")].concat()),
        field(2, b"Failure"),
        field(3, b"m"),
        field(4, b"NotFound"),
        field(5, &details),
        number(6, 404),
    ];
    assert_eq!(written(&status), object("v1", "Status", &raw.concat()));
}

#[test]
fn lists_are_written_item_by_item_and_as_a_whole_alike() {
    let items = [
        json!({"metadata": {"name": "a"}, "kind": "ConfigMap", "apiVersion": "v1"}),
        json!({"data": {"k": "v"}}),
    ];
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5",
        "remainingItemCount": 2}, "items": items});
    let mut writer =
        ListWriter::begin("v1", "ConfigMapList", list["metadata"].to_string().as_bytes(), 0).expect("a list");
    for item in &items {
        writer.push(item.to_string().as_bytes()).expect("an item");
    }
    let bytes = writer.finish();
    assert_eq!(bytes, written(&list));
    let read = read_object(&bytes).expect("well formed");
    assert_eq!(
        read["metadata"],
        json!({"selfLink": "", "resourceVersion": "5", "continue": "", "remainingItemCount": 2})
    );
    assert_eq!(
        (&read["items"][0]["metadata"]["name"], &read["items"][1]["data"]),
        (&json!("a"), &json!({"k": "v"}))
    );
    // The numbers of the same list differ from version to version.
    let metadata = [field(1, b""), field(2, b"5"), field(3, b"")].concat();
    for (version, fields) in [
        ("meta.k8s.io/v1", [field(1, &metadata), field(2, &field(1, &named(b"a")))]),
        ("meta.k8s.io/v1beta1", [field(1, &field(1, &named(b"a"))), field(2, &metadata)]),
    ] {
        let mut writer =
            ListWriter::begin(version, "PartialObjectMetadataList", br#"{"resourceVersion":"5"}"#, 0)
                .expect("a list");
        writer.push(br#"{"metadata":{"name":"a"}}"#).expect("an item");
        assert_eq!(writer.finish(), object(version, "PartialObjectMetadataList", &fields.concat()));
    }
    let empty = ListWriter::begin("v1", "PodList", b"{}", 0).expect("a list").finish();
    assert_eq!(read_object(&empty).expect("well formed").get("items"), None);
    assert!(matches!(ListWriter::begin("v1", "Pod", b"{}", 0), Err(ProtobufError::NoForm { .. })));
}

#[test]
fn a_frame_of_a_watch_is_an_event_behind_its_length() {
    let object = object("v1", "ConfigMap", &field(2, &[field(1, b"k"), field(2, &[b'v'; 300])].concat()));
    let mut frames = b"before".to_vec();
    put_event(&mut frames, "ADDED", &object);
    let event = [field(1, b"ADDED"), field(2, &field(1, &object))].concat();
    let length = u32::try_from(event.len()).expect("small").to_be_bytes();
    assert_eq!(frames, [b"before".to_vec(), length.to_vec(), event.clone()].concat());
    let ty = builtin().type_for("v1", "WatchEvent").expect("known");
    let read = read_message(ty, &event).expect("well formed");
    assert_eq!((&read["type"], &read["object"]["kind"]), (&json!("ADDED"), &json!("ConfigMap")));
}

#[test]
fn metadata_is_written_from_the_whole_object() {
    let pod = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":[]}}"#;
    assert_eq!(
        write_object_as("meta.k8s.io/v1", "PartialObjectMetadata", pod),
        Ok(object("meta.k8s.io/v1", "PartialObjectMetadata", &field(1, &named(b"p"))))
    );
}

#[test]
fn verbs_are_a_message_of_their_own() {
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1",
        "resources": [{"name": "pods", "verbs": ["get", "list"], "shortNames": ["po"]}]});
    let resource = [
        field(1, b"pods"),
        number(2, 0),
        field(3, b""),
        field(4, &[field(1, b"get"), field(1, b"list")].concat()),
        field(5, b"po"),
        field(6, b""),
        field(8, b""),
        field(9, b""),
        field(10, b""),
    ];
    let raw = [field(1, b"v1"), field(2, &resource.concat())].concat();
    assert_eq!(written(&list), object("v1", "APIResourceList", &raw));
    assert_eq!(
        read_object(&object("v1", "APIResourceList", &raw)).expect("read")["resources"][0]["verbs"],
        json!(["get", "list"])
    );
}

#[test]
fn parts_of_a_message_are_one_message_and_packed_numbers_are_a_list() {
    let part = |bytes: &[u8]| field(2, &field(14, bytes));
    // spec.securityContext in two parts, the groups once packed and once not.
    let groups = [varint(1), varint(300)].concat();
    let raw =
        [part(&[number(2, 7), field(4, &groups)].concat()), part(&[number(4, -1), number(6, 8)].concat())];
    let pod = read_object(&object("v1", "Pod", &raw.concat())).expect("well formed");
    assert_eq!(
        pod["spec"]["securityContext"],
        json!({"runAsUser": 7, "supplementalGroups": [1, 300, -1], "runAsGroup": 8})
    );
}

#[test]
fn an_embedded_object_may_be_protobuf_itself() {
    let inner = object("v1", "ConfigMap", &field(1, &field(1, b"in")));
    let raw = [field(1, b""), field(2, &field(1, &inner)), field(2, &field(1, br#"{"kind":"X"}"#))].concat();
    let list = read_object(&object("v1", "List", &raw)).expect("well formed");
    assert_eq!(
        list["items"][0],
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "in"}})
    );
    assert_eq!(list["items"][1], json!({"kind": "X"}));
}

#[test]
fn go_zero_times_are_null_and_the_epoch_is_not() {
    let read = |time: &[u8]| {
        let raw = field(1, &field(8, time));
        read_object(&object("v1", "Pod", &raw)).map(|pod| pod["metadata"]["creationTimestamp"].clone())
    };
    assert_eq!(read(b""), Ok(Value::Null));
    assert_eq!(read(&[number(1, 0), number(2, 0)].concat()), Ok(json!("1970-01-01T00:00:00Z")));
    assert_eq!(read(&number(1, i64::MAX)), Err(ProtobufError::Time));
    assert_eq!(read(&[number(1, 1), number(2, i64::MIN)].concat()), Ok(json!("1970-01-01T00:00:01Z")));
    let micro = field(2, &field(4, &[number(1, 0), number(2, -1)].concat()));
    let lease = read_object(&object("coordination.k8s.io/v1", "Lease", &micro)).expect("well formed");
    assert_eq!(lease["spec"]["renewTime"], json!("1969-12-31T23:59:59.999999Z"));
    let pod =
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}});
    assert_eq!(written(&pod), written(&json!({"kind": "Pod", "apiVersion": "v1"})));
}

#[test]
fn damaged_bodies_are_refused() {
    let good = object("v1", "ConfigMap", &field(1, &field(1, b"cfg")));
    assert_eq!(read_object(b"{}"), Err(ProtobufError::Magic));
    assert_eq!(read_object(&good[..good.len() - 5]), Err(ProtobufError::Malformed));
    assert!(matches!(read_object(&object("v1", "Nonsense", b"")), Err(ProtobufError::Kind { .. })));
    for kind in ["Table", "Template"] {
        assert!(matches!(read_object(&object("v1", kind, b"")), Err(ProtobufError::NoForm { .. })), "{kind}");
    }
    let map = |raw: &[u8]| read_object(&object("v1", "ConfigMap", raw));
    let cases = [
        ("text that is not UTF-8", field(1, &field(1, &[0xff])), ProtobufError::Text),
        ("a key that is not UTF-8", field(2, &field(1, &[0xff])), ProtobufError::Text),
        ("a number without an end", vec![0xff; 12], ProtobufError::Malformed),
        ("a length past the end", vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f], ProtobufError::Malformed),
        ("the longest length", [vec![0x0a], vec![0xff; 9], vec![1]].concat(), ProtobufError::Malformed),
        ("the field 0", vec![0x02, 0x00], ProtobufError::Malformed),
        ("a group", vec![0x0b, 0x0c], ProtobufError::Malformed),
        ("a flag as text", field(4, b"x"), ProtobufError::WireType { field: "immutable" }),
        ("an entry as a number", number(2, 1), ProtobufError::WireType { field: "data" }),
        ("four bytes", [vec![0x0d], vec![0; 4]].concat(), ProtobufError::WireType { field: "metadata" }),
    ];
    for (what, raw, error) in cases {
        assert_eq!(map(&raw), Err(error), "{what}");
    }
    assert_eq!(
        map(&[number(99, 1), field(98, b"x"), [vec![0xe5, 6], vec![0; 4]].concat()].concat())
            .map(|read| read["kind"].clone()),
        Ok(json!("ConfigMap")),
        "what nobody knows is skipped"
    );
    for cut in 0..good.len() {
        // Whatever it is, it is an answer.
        let _ = read_object(&good[..cut]);
    }
}

#[test]
fn depth_and_number_of_values_are_bounded() {
    // A schema in a schema in a schema ...: `not`.
    let mut schema = field(5, b"string");
    for _ in 0..150 {
        schema = field(28, &schema);
    }
    let version = [field(1, b"v1"), field(4, &field(1, &schema))].concat();
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, &field(7, &version)));
    assert_eq!(read_object(&crd), Err(ProtobufError::Depth));
    // An envelope in an envelope in an envelope ...
    let mut list = object("v1", "List", b"");
    for _ in 0..150 {
        list = object("v1", "List", &field(2, &field(1, &list)));
    }
    assert_eq!(read_object(&list), Err(ProtobufError::Depth));
    let packed = object("v1", "Pod", &field(2, &field(14, &field(4, &vec![1; 600_000]))));
    assert_eq!(read_object(&packed), Err(ProtobufError::TooMany));
    let empty = object("v1", "Pod", &field(2, &[0x12, 0].repeat(600_000)));
    assert_eq!(read_object(&empty), Err(ProtobufError::TooMany));
}

#[test]
fn what_cannot_be_written_is_told() {
    let map = |value: Value| write_object(value.to_string().as_bytes());
    assert_eq!(
        map(json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": 1}})),
        Err(ProtobufError::Mismatch { field: "data" })
    );
    assert_eq!(
        map(json!({"kind": "ConfigMap", "apiVersion": "v1", "binaryData": {"a": "!"}})),
        Err(ProtobufError::Mismatch { field: "binaryData" })
    );
    assert!(matches!(
        map(json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"})),
        Err(ProtobufError::NoForm { .. })
    ));
    assert!(matches!(map(json!([])), Err(ProtobufError::Kind { .. })));
    assert!(matches!(write_object(b"{"), Err(ProtobufError::Syntax { .. })));
}

#[test]
fn an_envelope_is_sealed_as_it_was_opened() {
    let bytes = object("apps/v1", "Deployment", b"raw");
    let envelope = Envelope::open(&bytes).expect("well formed");
    assert_eq!(envelope, Envelope { api_version: "apps/v1", kind: "Deployment", raw: b"raw" });
    assert_eq!(envelope.seal(), bytes);
}
