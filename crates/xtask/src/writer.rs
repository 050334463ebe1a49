//! Facts to table bytes: interned strings, shapes and lists; fixed-size records that refer to each other by number.

use std::collections::BTreeMap;

use crate::TableError;
use crate::facts::{Facts, GoField, GoType};

/// "None" where a record refers to a string or list.
const NONE: u16 = u16::MAX;

/// Which Go package holds the types of a group and version. Where a group is not listed its first label is the
/// directory: `rbac.authorization.k8s.io/v1` is `api/rbac/v1`.
const PACKAGES: [(&str, &str); 5] = [
    ("v1", "api/core/v1"),
    ("meta.k8s.io/v1beta1", "apimachinery/pkg/apis/meta/v1beta1"),
    ("apiextensions.k8s.io/v1", "apiextensions-apiserver/pkg/apis/apiextensions/v1"),
    ("apiregistration.k8s.io/v1", "kube-aggregator/pkg/apis/apiregistration/v1"),
    ("template.coracle.dev/v1", "coracle/template/v1"),
];

/// Types with a JSON form of their own, by package and name; the numbers are those of `schema::table::Special`.
const SPECIAL: [(&str, &str, u8); 11] = [
    ("apimachinery/pkg/api/resource", "Quantity", 1),
    ("apimachinery/pkg/apis/meta/v1", "Time", 2),
    ("apimachinery/pkg/apis/meta/v1", "MicroTime", 3),
    ("apimachinery/pkg/util/intstr", "IntOrString", 4),
    ("apimachinery/pkg/runtime", "RawExtension", 5),
    ("apimachinery/pkg/apis/meta/v1", "FieldsV1", 6),
    ("apimachinery/pkg/apis/meta/v1", "Duration", 7),
    ("apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSON", 8),
    ("apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSONSchemaPropsOrArray", 9),
    ("apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSONSchemaPropsOrBool", 10),
    ("apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSONSchemaPropsOrStringArray", 11),
];

#[derive(Default)]
struct Writer {
    strings: Vec<String>,
    string_numbers: BTreeMap<String, u16>,
    shapes: Vec<(u16, u16, u16)>,
    lists: Vec<Vec<u16>>,
    list_numbers: BTreeMap<Vec<u16>, u16>,
    type_numbers: BTreeMap<(String, String), u16>,
}

/// The whole table.
pub(crate) fn write(facts: &Facts) -> Result<Vec<u8>, TableError> {
    let mut writer = Writer::default();
    for (package, types) in &facts.types {
        for name in types.keys() {
            let number = number(writer.type_numbers.len(), "types")?;
            writer.type_numbers.insert((package.clone(), name.clone()), number);
        }
    }
    let (mut types, mut fields, mut field_count) = (Vec::new(), Vec::new(), 0);
    for (package, package_types) in &facts.types {
        for (name, go_type) in package_types {
            writer.type_record(&mut types, package, name, go_type, number(field_count, "fields")?)?;
            for field in &go_type.fields {
                writer.field_record(&mut fields, package, field)?;
            }
            field_count += go_type.fields.len();
        }
    }
    let group_versions = writer.group_versions(facts)?;
    let groups = writer.groups(facts)?;
    let resources = writer.resources(facts)?;
    let columns = writer.columns(facts)?;
    let (mut shapes, mut list_offsets, mut list_items) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, first, second) in &writer.shapes {
        put(&mut shapes, &[*kind, *first, *second]);
    }
    for list in &writer.lists {
        put(&mut list_offsets, &[number(list_items.len() / 2, "list items")?]);
        put(&mut list_items, list);
    }
    put(&mut list_offsets, &[number(list_items.len() / 2, "list items")?]);
    let (mut string_offsets, mut string_bytes) = (Vec::new(), Vec::new());
    for text in &writer.strings {
        string_offsets.extend_from_slice(&offset(string_bytes.len())?);
        string_bytes.extend_from_slice(text.as_bytes());
    }
    string_offsets.extend_from_slice(&offset(string_bytes.len())?);
    assemble(&[
        string_offsets,
        string_bytes,
        types,
        fields,
        shapes,
        list_offsets,
        list_items,
        group_versions,
        groups,
        resources,
        columns,
    ])
}

/// Magic, the end of each section, the sections.
fn assemble(sections: &[Vec<u8>]) -> Result<Vec<u8>, TableError> {
    let mut table = b"CRCLTBL1".to_vec();
    let mut end = table.len() + sections.len() * 4;
    for section in sections {
        end += section.len();
        table.extend_from_slice(&offset(end)?);
    }
    for section in sections {
        table.extend_from_slice(section);
    }
    Ok(table)
}

fn number(value: usize, what: &'static str) -> Result<u16, TableError> {
    u16::try_from(value).ok().filter(|number| *number != NONE).ok_or(TableError::TooMany { what })
}

fn offset(value: usize) -> Result<[u8; 4], TableError> {
    Ok(u32::try_from(value).map_err(|_| TableError::TooMany { what: "bytes" })?.to_le_bytes())
}

fn put(section: &mut Vec<u8>, numbers: &[u16]) {
    for number in numbers {
        section.extend_from_slice(&number.to_le_bytes());
    }
}

impl Writer {
    fn string(&mut self, text: &str) -> Result<u16, TableError> {
        if let Some(known) = self.string_numbers.get(text) {
            return Ok(*known);
        }
        let number = number(self.strings.len(), "strings")?;
        self.strings.push(text.to_owned());
        self.string_numbers.insert(text.to_owned(), number);
        Ok(number)
    }

    fn optional_string(&mut self, text: Option<&str>) -> Result<u16, TableError> {
        text.map_or(Ok(NONE), |text| self.string(text))
    }

    fn list(&mut self, items: &[String]) -> Result<u16, TableError> {
        let numbers = items.iter().map(|item| self.string(item)).collect::<Result<Vec<_>, _>>()?;
        if let Some(known) = self.list_numbers.get(&numbers) {
            return Ok(*known);
        }
        let number = number(self.lists.len(), "lists")?;
        self.lists.push(numbers.clone());
        self.list_numbers.insert(numbers, number);
        Ok(number)
    }

    fn shape(&mut self, shape: (u16, u16, u16)) -> Result<u16, TableError> {
        if let Some(known) = self.shapes.iter().position(|known| *known == shape) {
            return number(known, "shapes");
        }
        self.shapes.push(shape);
        number(self.shapes.len() - 1, "shapes")
    }

    /// A Go type as written in a package to the number of its shape.
    fn shape_of(&mut self, package: &str, text: &str) -> Result<u16, TableError> {
        let unknown = || TableError::UnknownType { package: package.to_owned(), text: text.to_owned() };
        let scalar = match text {
            "string" => Some(0),
            "bool" => Some(1),
            "int32" => Some(2),
            "int64" | "int" | "uint64" | "time.Duration" => Some(3),
            "float64" => Some(4),
            "[]byte" | "[]uint8" => Some(5),
            "interface" | "interface{}" => Some(6),
            _ => None,
        };
        if let Some(kind) = scalar {
            return self.shape((kind, 0, 0));
        }
        if let Some(inner) = text.strip_prefix('*') {
            let inner = self.shape_of(package, inner)?;
            return self.shape((8, inner, 0));
        }
        if let Some(inner) = text.strip_prefix("[]") {
            let inner = self.shape_of(package, inner)?;
            return self.shape((9, inner, 0));
        }
        if let Some(rest) = text.strip_prefix("map[") {
            let (key, value) = rest.split_once(']').ok_or_else(unknown)?;
            let (key, value) = (self.shape_of(package, key)?, self.shape_of(package, value)?);
            return self.shape((10, value, key));
        }
        let (home, name) = text.rsplit_once('.').unwrap_or((package, text));
        match self.type_numbers.get(&(home.to_owned(), name.to_owned())) {
            Some(number) => self.shape((7, *number, 0)),
            // A string type of a package without facts, such as `types.UID`.
            None if home == "apimachinery/pkg/types" => self.shape((0, 0, 0)),
            // Go's own interfaces and functions: nothing of these travels as JSON.
            None => self.shape((6, 0, 0)),
        }
    }

    fn type_record(
        &mut self,
        section: &mut Vec<u8>,
        package: &str,
        name: &str,
        go_type: &GoType,
        first_field: u16,
    ) -> Result<(), TableError> {
        let special = SPECIAL
            .iter()
            .find(|entry| entry.0 == package && entry.1 == name)
            .map_or(0, |entry| u16::from(entry.2));
        let underlying = match (&go_type.underlying, go_type.kind.as_str()) {
            (Some(text), "alias") => self.shape_of(package, text)?,
            _ => NONE,
        };
        let values: Vec<String> = go_type
            .values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let atomic = u16::from(go_type.struct_type.as_deref() == Some("atomic"));
        let record = [
            self.string(package)?,
            self.string(name)?,
            special,
            atomic,
            first_field,
            number(go_type.fields.len(), "fields")?,
            underlying,
            self.list(&values)?,
        ];
        put(section, &record);
        Ok(())
    }

    fn field_record(
        &mut self,
        section: &mut Vec<u8>,
        package: &str,
        field: &GoField,
    ) -> Result<(), TableError> {
        let strategy = field.patch_strategy.as_deref().unwrap_or_default();
        // The only field whose zero value Go leaves out although it is a struct.
        let omit_zero = field.json.as_deref() == Some("creationTimestamp");
        let flags = [
            (1, field.omitempty),
            (2, field.inline),
            (4, field.optional),
            (8, field.required),
            (16, omit_zero),
            (32, field.struct_type.as_deref() == Some("atomic")),
            (64, field.struct_type.as_deref() == Some("granular")),
            (128, field.map_type.as_deref() == Some("atomic")),
            (256, field.map_type.as_deref() == Some("granular")),
            (512, strategy.split(',').any(|word| word == "merge")),
            (1024, strategy.split(',').any(|word| word == "retainKeys")),
            (2048, strategy.split(',').any(|word| word == "replace")),
        ]
        .iter()
        .filter(|(_, on)| *on)
        .map(|(bit, _)| bit)
        .sum::<u16>();
        let list_type = match field.list_type.as_deref() {
            None => 0,
            Some("atomic") => 1,
            Some("map") => 2,
            Some("set") => 3,
            Some(other) => {
                return Err(TableError::UnknownType { package: package.to_owned(), text: other.to_owned() });
            }
        };
        let (wire, label) = field.proto.as_deref().and_then(|text| text.split_once(',')).unwrap_or_default();
        let wire = match wire {
            "varint" => 1,
            "bytes" => 2,
            "fixed64" => 3,
            "fixed32" => 4,
            _ => 0,
        } + if label.starts_with("rep") { 16 } else { 0 };
        let record = [
            self.string(&field.go)?,
            self.optional_string(field.json.as_deref())?,
            self.shape_of(package, &field.go_type)?,
            flags,
            list_type,
            wire,
            field.proto_number.unwrap_or(0),
            self.optional_string(field.proto_name.as_deref())?,
            self.optional_string(field.patch_merge_key.as_deref())?,
            self.list(&field.list_map_keys)?,
            self.optional_string(field.default.as_deref())?,
            self.optional_string(field.feature_gate.as_deref())?,
        ];
        put(section, &record);
        Ok(())
    }

    fn group_versions(&mut self, facts: &Facts) -> Result<Vec<u8>, TableError> {
        let mut section = Vec::new();
        for package in facts.types.keys() {
            let group_version = if let Some(entry) = PACKAGES.iter().find(|entry| entry.1 == package) {
                entry.0.to_owned()
            } else if let Some((directory, version)) =
                package.strip_prefix("api/").and_then(|rest| rest.split_once('/'))
            {
                let full = facts.resources.versions.iter().find(|name| {
                    name.split_once('/')
                        .is_some_and(|(group, v)| group.split('.').next() == Some(directory) && v == version)
                });
                full.cloned().unwrap_or_else(|| format!("{directory}.k8s.io/{version}"))
            } else {
                continue;
            };
            put(&mut section, &[self.string(&group_version)?, self.string(package)?]);
        }
        Ok(section)
    }

    fn groups(&mut self, facts: &Facts) -> Result<Vec<u8>, TableError> {
        let mut section = Vec::new();
        put(&mut section, &[self.string("")?, self.list(&["v1".to_owned()])?]);
        for group in &facts.resources.groups {
            let mut versions: Vec<String> = group
                .versions
                .iter()
                .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned())
                .collect();
            let preferred = group.preferred.rsplit('/').next().unwrap_or_default();
            versions.sort_by_key(|version| version != preferred);
            put(&mut section, &[self.string(&group.name)?, self.list(&versions)?]);
        }
        Ok(section)
    }

    /// Resources in the order of the versions; a subresource follows its resource.
    fn resources(&mut self, facts: &Facts) -> Result<Vec<u8>, TableError> {
        let mut section = Vec::new();
        for group_version in &facts.resources.versions {
            let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            for entry in facts.resources.resources.get(group_version).into_iter().flatten() {
                let record = [
                    self.string(group)?,
                    self.string(version)?,
                    self.string(group_version)?,
                    self.string(&entry.name)?,
                    self.string(&entry.singular_name)?,
                    self.string(&entry.kind)?,
                    u16::from(entry.namespaced),
                    self.list(&entry.short_names)?,
                    self.list(&entry.categories)?,
                    self.list(&entry.verbs)?,
                    self.string(&entry.group)?,
                    self.string(&entry.version)?,
                ];
                put(&mut section, &record);
            }
        }
        Ok(section)
    }

    fn columns(&mut self, facts: &Facts) -> Result<Vec<u8>, TableError> {
        let mut section = Vec::new();
        for (resource, columns) in &facts.columns {
            for column in columns {
                let record = [
                    self.string(resource)?,
                    self.string(&column.name)?,
                    self.string(&column.kind)?,
                    self.string(&column.format)?,
                    column.priority,
                ];
                put(&mut section, &record);
            }
        }
        Ok(section)
    }
}
