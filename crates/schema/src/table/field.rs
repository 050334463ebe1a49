//! The fields of struct types: names, flags, merge and list keys, protobuf numbers.

use super::shape::{Shape, ShapeRef};
use super::{NONE, Section, Type, list, record, string, u16_at};

/// One field of a struct type; cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub(super) index: u16,
}

/// What identifies the items of a list for server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Items are objects with key fields.
    Map,
    /// Items are scalars, each once.
    Set,
}

impl Field {
    pub(super) fn word(self, position: usize) -> u16 {
        u16_at(record(Section::Fields, self.index.into(), 24) + position * 2)
    }

    fn flag(self, bit: u16) -> bool {
        self.word(3) & bit != 0
    }

    fn text(self, position: usize) -> Option<&'static str> {
        let number = self.word(position);
        (number != NONE).then(|| string(number))
    }

    /// The Go name: `RestartPolicy`.
    #[must_use]
    pub fn go(self) -> &'static str {
        string(self.word(0))
    }

    /// The JSON name: `restartPolicy`; empty for fields that are not in JSON.
    #[must_use]
    pub fn json(self) -> &'static str {
        self.text(1).unwrap_or_default()
    }

    /// The shape of the field.
    #[must_use]
    pub fn shape(self) -> Shape {
        ShapeRef { index: self.word(2) }.shape()
    }

    /// The struct whose fields stand in the parent's JSON object, where this is such a field.
    #[must_use]
    pub fn inlined(self) -> Option<Type> {
        if self.flag(2) { self.shape().named() } else { None }
    }

    /// Whether Go leaves an empty value out.
    #[must_use]
    pub fn omits_empty(self) -> bool {
        self.flag(1)
    }

    /// Whether Go leaves a zero struct out, too.
    #[must_use]
    pub fn omits_zero(self) -> bool {
        self.flag(16)
    }

    /// Whether the field is marked optional.
    #[must_use]
    pub fn is_optional(self) -> bool {
        self.flag(4)
    }

    /// Whether the field is marked required.
    #[must_use]
    pub fn is_required(self) -> bool {
        self.flag(8)
    }

    /// Whether server-side apply replaces the struct or map of this field as a whole; `None`: as its type says.
    #[must_use]
    pub fn is_atomic(self) -> Option<bool> {
        if self.flag(32) || self.flag(128) {
            Some(true)
        } else if self.flag(64) || self.flag(256) {
            Some(false)
        } else {
            None
        }
    }

    /// How server-side apply identifies items.
    #[must_use]
    pub fn list_type(self) -> Option<ListType> {
        match self.word(4) {
            1 => Some(ListType::Atomic),
            2 => Some(ListType::Map),
            3 => Some(ListType::Set),
            _ => None,
        }
    }

    /// The key fields of a list of type [`ListType::Map`].
    pub fn list_keys(self) -> impl Iterator<Item = &'static str> {
        list(self.word(9))
    }

    /// Whether a strategic merge patch merges the list instead of replacing it.
    #[must_use]
    pub fn merges(self) -> bool {
        self.flag(512)
    }

    /// Whether `$retainKeys` is meaningful in this field's objects.
    #[must_use]
    pub fn retains_keys(self) -> bool {
        self.flag(1024)
    }

    /// Whether a strategic merge patch replaces the value as a whole.
    #[must_use]
    pub fn replaces(self) -> bool {
        self.flag(2048)
    }

    /// The field that identifies items in a strategic merge patch.
    #[must_use]
    pub fn merge_key(self) -> Option<&'static str> {
        self.text(8)
    }

    /// The default that the Go source declares, as Go text: `"TCP"`, `1`.
    #[must_use]
    pub fn declared_default(self) -> Option<&'static str> {
        self.text(10)
    }

    /// The feature gate that the field needs, where its source names one.
    #[must_use]
    pub fn feature_gate(self) -> Option<&'static str> {
        self.text(11)
    }

    /// The field's number in protobuf; `None`: it does not travel there. How its value is written follows from its
    /// shape alone, a list being repeated: the kind and label in Go's own tags are wrong in places (`tolerations`).
    #[must_use]
    pub fn wire_number(self) -> Option<u16> {
        let number = self.word(6);
        (number != 0).then_some(number)
    }

    /// The protobuf name where it differs from the JSON name.
    #[must_use]
    pub fn wire_name(self) -> Option<&'static str> {
        self.text(7)
    }
}
