//! Where a variable comes from, in the words of the table; `docs/environment-record.md` has the fields.

use environment::record::{OriginRecord, SourceKind};

/// One line such as `env[2] secretKeyRef db key password @71`.
pub(super) fn origin_text(origin: &OriginRecord) -> String {
    match origin {
        OriginRecord::Runtime => "runtime".to_owned(),
        OriginRecord::Image => "image".to_owned(),
        OriginRecord::Service { name, .. } => format!("service {name}"),
        OriginRecord::EnvFrom { index, source, name, key, resource_version } => {
            let source = match source {
                SourceKind::ConfigMap => "configMap",
                SourceKind::Secret => "secret",
            };
            format!("envFrom[{index}] {source} {name} key {key}{}", version(resource_version.as_deref()))
        }
        OriginRecord::Value { index } => format!("env[{index}] value"),
        OriginRecord::FieldRef { index, field_path } => format!("env[{index}] fieldRef {field_path}"),
        OriginRecord::ResourceFieldRef { index, container, resource, divisor } => {
            // An API server writes a divisor that is not set as 0.
            let divisor = divisor.as_ref().filter(|divisor| *divisor != "0");
            let divisor = divisor.map(|divisor| format!(" / {divisor}")).unwrap_or_default();
            format!("env[{index}] resourceFieldRef {resource} of {container}{divisor}")
        }
        OriginRecord::ConfigMapKeyRef { index, name, key, resource_version } => {
            format!("env[{index}] configMapKeyRef {name} key {key}{}", version(resource_version.as_deref()))
        }
        OriginRecord::SecretKeyRef { index, name, key, resource_version } => {
            format!("env[{index}] secretKeyRef {name} key {key}{}", version(resource_version.as_deref()))
        }
        OriginRecord::FileKeyRef { index, volume_name, path, key, line } => {
            let line = line.map(|line| format!(" line {line}")).unwrap_or_default();
            format!("env[{index}] fileKeyRef {volume_name}:{path} key {key}{line}")
        }
    }
}

fn version(resource_version: Option<&str>) -> String {
    resource_version.map(|version| format!(" @{version}")).unwrap_or_default()
}
