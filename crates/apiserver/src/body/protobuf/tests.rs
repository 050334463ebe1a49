use serde_json::json;

use super::{ProtobufError, decode};

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

pub(super) fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [tag(number, 2), varint(content.len() as u64), content.to_vec()].concat()
}

pub(super) fn number(field: u64, value: i64) -> Vec<u8> {
    [tag(field, 0), varint(value.cast_unsigned())].concat()
}

pub(super) fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat()
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
        decode(&object("v1", "ConfigMap", &raw)).expect("well formed"),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cfg", "generateName": "", "namespace": "default", "creationTimestamp": null},
            "data": {"A": "1", "B": ""}, "binaryData": {"bin": "AP8="}})
    );
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
    let pod = decode(&object("v1", "Pod", &field(2, &spec))).expect("well formed");
    assert_eq!(
        pod["spec"],
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}],
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "250m"}},
                "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": -5}}],
            "terminationGracePeriodSeconds": 30})
    );
}

#[test]
fn damaged_bodies_are_refused() {
    let good = object("v1", "ConfigMap", &field(1, &field(1, b"cfg")));
    assert_eq!(decode(b"{}"), Err(ProtobufError::Magic));
    assert_eq!(decode(&good[..good.len() - 5]), Err(ProtobufError::Malformed));
    assert!(matches!(decode(&object("v1", "Nonsense", b"")), Err(ProtobufError::Kind { .. })));
    assert_eq!(decode(&object("v1", "ConfigMap", &field(1, &field(1, &[0xff])))), Err(ProtobufError::Text));
    assert_eq!(decode(&object("v1", "ConfigMap", &[0xff; 12])), Err(ProtobufError::Malformed));
    for cut in 0..good.len() {
        // Whatever it is, it is an answer.
        let _ = decode(&good[..cut]);
    }
}
