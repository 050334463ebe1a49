//! Checks of single values that many fields share: names, numbers, ports, paths, addresses.

use names::{DnsLabel, DnsSubdomain, NameError, PortName, QualifiedName};
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::tree::{entries, is_set, text};

const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// The sentences of a name check.
pub(crate) fn messages<T>(parsed: Result<T, NameError>) -> Vec<String> {
    parsed.err().map(|error| error.messages()).unwrap_or_default()
}

pub(crate) fn label(errors: &mut FieldErrors, path: &Path, value: &str) {
    errors.invalid_each(path, value, messages(DnsLabel::parse(value)));
}

pub(crate) fn subdomain(errors: &mut FieldErrors, path: &Path, value: &str) {
    errors.invalid_each(path, value, messages(DnsSubdomain::parse(value)));
}

/// A label that must be there.
pub(crate) fn required_label(errors: &mut FieldErrors, path: &Path, value: &str) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        label(errors, path, value);
    }
}

/// Text that must be there; tells whether it is.
pub(crate) fn required_text(errors: &mut FieldErrors, path: &Path, value: &str) -> bool {
    if value.is_empty() {
        errors.required(path, "");
    }
    !value.is_empty()
}

/// Keys and values of labels; errors stand at the map, as upstream has them.
pub(crate) fn labels(errors: &mut FieldErrors, path: &Path, labels: &Value) {
    for (key, value) in entries(labels) {
        errors.invalid_each(path, key, messages(QualifiedName::parse(key)));
        let value = text(value);
        errors.invalid_each(path, value, messages(names::LabelValue::parse(value)));
    }
}

/// A number in a range, both ends included.
pub(crate) fn in_range(errors: &mut FieldErrors, path: &Path, value: &Value, low: i64, high: i64) {
    if let Some(number) = value.as_i64()
        && !(low..=high).contains(&number)
    {
        errors.invalid(path, number, format!("must be between {low} and {high}, inclusive"));
    }
}

pub(crate) fn not_negative(errors: &mut FieldErrors, path: &Path, value: &Value) {
    if let Some(number) = value.as_i64()
        && number < 0
    {
        errors.invalid(path, number, "must be greater than or equal to 0");
    }
}

pub(crate) fn port_number(errors: &mut FieldErrors, path: &Path, value: &Value) {
    in_range(errors, path, value, 1, 65_535);
}

/// A port by number or name.
pub(crate) fn port(errors: &mut FieldErrors, path: &Path, value: &Value) {
    match value {
        Value::String(name) => errors.invalid_each(path, name, messages(PortName::parse(name))),
        Value::Null => errors.invalid(path, 0, "must be between 1 and 65535, inclusive"),
        number => port_number(errors, path, number),
    }
}

/// One of an enumeration, given or not.
pub(crate) fn one_of(errors: &mut FieldErrors, path: &Path, value: &Value, supported: &[&str]) {
    let value = text(value);
    if value.is_empty() {
        errors.required(path, "");
    } else if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

/// One of an enumeration, if given.
pub(crate) fn optional_one_of(errors: &mut FieldErrors, path: &Path, value: &Value, supported: &[&str]) {
    if is_set(value) && !supported.contains(&text(value)) {
        errors.not_supported(path, text(value), supported);
    }
}

pub(crate) fn no_backsteps(errors: &mut FieldErrors, path: &Path, value: &str) {
    if value.split('/').any(|element| element == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// A relative path that stays below its root.
pub(crate) fn descending_path(errors: &mut FieldErrors, path: &Path, value: &str) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    no_backsteps(errors, path, value);
}

/// A relative path of a projected file.
pub(crate) fn projected_path(errors: &mut FieldErrors, path: &Path, value: &str) {
    descending_path(errors, path, value);
    // Leading dots are reserved for the writer; `..` itself is told above.
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

pub(crate) fn file_mode(errors: &mut FieldErrors, path: &Path, value: &Value) {
    if let Some(mode) = value.as_i64()
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

pub(crate) fn ip_address(errors: &mut FieldErrors, path: &Path, value: &str) {
    if value.parse::<std::net::IpAddr>().is_err() {
        errors.invalid(path, value, IP);
    }
}
