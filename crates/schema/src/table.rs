//! The table of types, read in place from the checked-in file: no decoding, no allocation, nothing at start-up.
//!
//! Format, all numbers little-endian: the magic `CRCLTBL1`; eleven 32-bit numbers, the ends of the sections; the
//! sections. Records refer to each other by 16-bit numbers, 65,535 stands for none.
//!
//! | section | record |
//! |---|---|
//! | string offsets | 32-bit offsets into the string bytes, one more than strings |
//! | string bytes | UTF-8 |
//! | types | package, name, special form, 1 = atomic, first field, number of fields, underlying shape, list of constants; sorted by package and name |
//! | fields | Go name, JSON name, shape, flags, list type, wire kind as tagged (+16 repeated; not relied on), protobuf number, protobuf name, merge key, list keys, default, feature gate |
//! | shapes | kind (order of [`Shape`]), inner shape or type, key shape |
//! | list offsets | into the list items, one more than lists |
//! | list items | strings |
//! | group versions | name, package |
//! | groups | name, list of versions |
//! | resources | group, version, group version, name, singular, kind, namespaced, short names, categories, verbs, group and version of the kind |
//! | columns | resource, name, type, format, priority; sorted by resource |

mod field;
mod shape;

pub use field::{Field, ListType};
pub use shape::{Shape, ShapeRef};

const TABLE: &[u8] = include_bytes!("table.bin");

const NONE: u16 = u16::MAX;

const MAGIC: usize = 8;
const SECTIONS: usize = 11;

/// The sections, in file order.
#[derive(Clone, Copy)]
enum Section {
    StringOffsets,
    StringBytes,
    Types,
    Fields,
    Shapes,
    ListOffsets,
    ListItems,
    GroupVersions,
    Groups,
    Resources,
    Columns,
}

/// Every built-in type. There is one: [`builtin`].
#[derive(Debug)]
pub struct TypeTable {
    _private: (),
}

/// One type of the table; cheap to copy. The order is that of packages and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Type {
    index: u16,
}

/// Types with a JSON form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `resource.Quantity`: text or number, made canonical.
    Quantity,
    /// `metav1.Time`: RFC 3339, whole seconds.
    Time,
    /// `metav1.MicroTime`: RFC 3339 with six decimals.
    MicroTime,
    /// A number or text.
    IntOrString,
    /// An object of any kind.
    RawExtension,
    /// The field sets of `managedFields`.
    FieldsV1,
    /// Text such as `1m30s`.
    Duration,
    /// Any JSON value in a JSON schema.
    SchemaJson,
    /// A schema or a list of them.
    SchemaOrArray,
    /// A schema or a boolean.
    SchemaOrBool,
    /// A schema or a list of texts.
    SchemaOrStrings,
}

/// The table of built-in types.
#[must_use]
pub fn builtin() -> &'static TypeTable {
    static BUILTIN: TypeTable = TypeTable { _private: () };
    &BUILTIN
}

impl TypeTable {
    /// The type of a kind: `type_for("apps/v1", "Deployment")`. The kinds of `meta.k8s.io` (`DeleteOptions`,
    /// `Status`, `Table`, ...) are found under every group and version.
    #[must_use]
    pub fn type_for(&self, group_version: &str, kind: &str) -> Option<Type> {
        let own = (0..count(Section::GroupVersions, 4))
            .map(|index| record(Section::GroupVersions, index, 4))
            .find(|at| string(u16_at(*at)) == group_version)
            .and_then(|at| self.type_named(string(u16_at(at + 2)), kind));
        own.or_else(|| self.type_named("apimachinery/pkg/apis/meta/v1", kind))
    }

    /// The type with this Go package (below `k8s.io/`) and name: `type_named("api/core/v1", "PodSpec")`.
    #[must_use]
    pub fn type_named(&self, package: &str, name: &str) -> Option<Type> {
        let (mut low, mut high) = (0, count(Section::Types, 16));
        while low < high {
            let middle = low + (high - low) / 2;
            let found = Type { index: narrow(middle) };
            match (found.package(), found.name()).cmp(&(package, name)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(found),
            }
        }
        None
    }

    /// Every type, sorted by package and name.
    pub fn types(&self) -> impl Iterator<Item = Type> + use<> {
        (0..count(Section::Types, 16)).map(|index| Type { index: narrow(index) })
    }
}

/// How many types there are.
pub(crate) fn type_count() -> usize {
    count(Section::Types, 16)
}

impl Type {
    /// Its place among all types.
    pub(crate) fn index(self) -> usize {
        self.index.into()
    }

    fn word(self, position: usize) -> u16 {
        u16_at(record(Section::Types, self.index.into(), 16) + position * 2)
    }

    /// The Go package below `k8s.io/`: `api/core/v1`.
    #[must_use]
    pub fn package(self) -> &'static str {
        string(self.word(0))
    }

    /// The Go name without its package: `PodSpec`.
    #[must_use]
    pub fn name(self) -> &'static str {
        string(self.word(1))
    }

    /// The form of its own that the type has in JSON, if any.
    #[must_use]
    pub fn special(self) -> Option<Special> {
        Some(match self.word(2) {
            1 => Special::Quantity,
            2 => Special::Time,
            3 => Special::MicroTime,
            4 => Special::IntOrString,
            5 => Special::RawExtension,
            6 => Special::FieldsV1,
            7 => Special::Duration,
            8 => Special::SchemaJson,
            9 => Special::SchemaOrArray,
            10 => Special::SchemaOrBool,
            11 => Special::SchemaOrStrings,
            _ => return None,
        })
    }

    /// Whether server-side apply replaces the struct as a whole.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        self.word(3) == 1
    }

    /// The fields as Go declares them, inlined structs as one field each.
    pub fn declared_fields(self) -> impl Iterator<Item = Field> {
        let first = self.word(4);
        (first..first + self.word(5)).map(|index| Field { index })
    }

    /// The JSON fields in Go's order, those of inlined structs in their place.
    #[must_use]
    pub fn fields(self) -> Vec<Field> {
        let mut fields = Vec::new();
        self.collect_fields(&mut fields);
        fields
    }

    fn collect_fields(self, fields: &mut Vec<Field>) {
        for field in self.declared_fields() {
            match field.inlined() {
                Some(inner) => inner.collect_fields(fields),
                None if field.word(1) != NONE => fields.push(field),
                None => {}
            }
        }
    }

    /// The field with this JSON name, inlined structs included.
    #[must_use]
    pub fn field(self, json: &str) -> Option<Field> {
        self.declared_fields().find_map(|field| match field.inlined() {
            Some(inner) => inner.field(json),
            None => {
                let name = field.word(1);
                (name != NONE && string_bytes(name) == json.as_bytes()).then_some(field)
            }
        })
    }

    /// The shape behind a named form such as `type RestartPolicy string`.
    #[must_use]
    pub fn underlying(self) -> Option<Shape> {
        let index = self.word(6);
        (index != NONE).then(|| ShapeRef { index }.shape())
    }

    /// The constants of a named text, in declaration order.
    pub fn constants(self) -> impl Iterator<Item = &'static str> {
        list(self.word(7))
    }

    /// How Go prints the type: `v1.PodSpec`.
    #[must_use]
    pub fn go_name(self) -> String {
        format!("{}.{}", self.package().rsplit('/').next().unwrap_or_default(), self.name())
    }
}

/// One row of a section as numbers, for the resource table.
pub(crate) fn group_rows() -> impl Iterator<Item = [u16; 2]> {
    rows(Section::Groups)
}

pub(crate) fn resource_rows() -> impl Iterator<Item = [u16; 12]> {
    rows(Section::Resources)
}

pub(crate) fn column_rows() -> impl Iterator<Item = [u16; 5]> {
    rows(Section::Columns)
}

fn rows<const N: usize>(section: Section) -> impl Iterator<Item = [u16; N]> {
    (0..count(section, N * 2)).map(move |index| {
        let at = record(section, index, N * 2);
        std::array::from_fn(|position| u16_at(at + position * 2))
    })
}

/// The strings of a list.
pub(crate) fn list(number: u16) -> impl Iterator<Item = &'static str> {
    let offsets = record(Section::ListOffsets, number.into(), 2);
    (u16_at(offsets)..u16_at(offsets + 2))
        .map(|index| string(u16_at(record(Section::ListItems, index.into(), 2))))
}

/// A string of the pool.
pub(crate) fn string(number: u16) -> &'static str {
    std::str::from_utf8(string_bytes(number))
        .expect("the table is made from strings, and a test compares it with its source")
}

/// The bytes of a string: to compare it costs less than to read it.
fn string_bytes(number: u16) -> &'static [u8] {
    let at = record(Section::StringOffsets, number.into(), 4);
    let start = bounds(Section::StringBytes).0;
    &TABLE[start + u32_at(at)..start + u32_at(at + 4)]
}

fn bounds(section: Section) -> (usize, usize) {
    let index = section as usize;
    let end = u32_at(MAGIC + index * 4);
    let start = if index == 0 { MAGIC + SECTIONS * 4 } else { u32_at(MAGIC + (index - 1) * 4) };
    (start, end)
}

fn count(section: Section, size: usize) -> usize {
    let (start, end) = bounds(section);
    (end - start) / size
}

fn record(section: Section, index: usize, size: usize) -> usize {
    bounds(section).0 + index * size
}

fn u16_at(at: usize) -> u16 {
    u16::from_le_bytes([TABLE[at], TABLE[at + 1]])
}

fn u32_at(at: usize) -> usize {
    u32::from_le_bytes([TABLE[at], TABLE[at + 1], TABLE[at + 2], TABLE[at + 3]]) as usize
}

fn narrow(index: usize) -> u16 {
    u16::try_from(index).expect("the format counts with 16 bits")
}

#[cfg(test)]
mod tests {
    use super::{ListType, Shape, Special, builtin};

    #[test]
    fn kinds_are_found_by_group_version() {
        let pod = builtin().type_for("v1", "Pod").expect("Pod is built in");
        assert_eq!((pod.package(), pod.name()), ("api/core/v1", "Pod"));
        let role = builtin().type_for("rbac.authorization.k8s.io/v1", "Role").expect("Role is built in");
        assert_eq!(role.go_name(), "v1.Role");
        assert!(builtin().type_for("apps/v1", "DeleteOptions").is_some());
        assert!(builtin().type_for("apps/v1", "Pod").is_none());
        assert!(builtin().type_for("flowcontrol.apiserver.k8s.io/v1", "FlowSchema").is_some());
        assert!(builtin().type_for("apiextensions.k8s.io/v1", "CustomResourceDefinition").is_some());
    }

    #[test]
    fn fields_know_their_merge_and_list_keys() {
        let spec = builtin().type_named("api/core/v1", "PodSpec").expect("PodSpec is built in");
        let containers = spec.field("containers").expect("a pod has containers");
        assert!(containers.merges() && !containers.omits_empty());
        assert_eq!(containers.merge_key(), Some("name"));
        assert_eq!(containers.list_type(), Some(ListType::Map));
        assert_eq!(containers.shape().go_name(), "[]v1.Container");
        let volumes = spec.field("volumes").expect("a pod has volumes");
        assert!(volumes.merges() && volumes.retains_keys());
        assert_eq!(spec.field("tolerations").and_then(super::Field::list_type), Some(ListType::Atomic));
    }

    #[test]
    fn inlined_structs_are_looked_through() {
        let volume = builtin().type_named("api/core/v1", "Volume").expect("Volume is built in");
        assert!(volume.field("emptyDir").is_some());
        assert_eq!(volume.fields().first().map(|field| field.json()), Some("name"));
        let probe = builtin().type_named("api/core/v1", "Probe").expect("Probe is built in");
        assert!(probe.field("httpGet").is_some());
    }

    #[test]
    fn special_forms_are_known() {
        let quantity = builtin().type_named("apimachinery/pkg/api/resource", "Quantity");
        assert_eq!(quantity.and_then(super::Type::special), Some(Special::Quantity));
        let resources = builtin().type_named("api/core/v1", "ResourceList").expect("a map of quantities");
        assert!(matches!(resources.underlying(), Some(Shape::Map { .. })));
    }
}
