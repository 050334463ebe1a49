//! What stands at a place of an object, as server-side apply sees it: a scalar, a list, a struct, a map.

use serde_json::Value;

use crate::table::{Field, ListType, Shape, Special, Type};

/// A place: the shape of what stands there, and the field whose marks count for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    shape: Shape,
    field: Option<Field>,
}

/// What scalars a place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    Text,
    Boolean,
    /// Any of them: times, quantities, ports.
    Untyped,
}

/// How the items of a list that is merged are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// By themselves.
    Set,
    /// By the key fields of this list.
    Keys(Field),
}

/// What stands at a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom {
    Scalar(Scalar),
    /// A list; without identity it is replaced as a whole.
    List {
        item: Place,
        identity: Option<Identity>,
    },
    Struct {
        ty: Type,
        is_atomic: bool,
    },
    Map {
        value: Place,
        is_atomic: bool,
    },
    /// Anything: maps are merged, everything else is replaced.
    Deduced,
}

impl Place {
    /// A place that takes anything.
    pub(super) const ANY: Place = Place { shape: Shape::Any, field: None };

    /// The root of an object.
    pub(super) fn root(ty: Type) -> Place {
        Place { shape: Shape::Named(ty), field: None }
    }

    pub(super) fn of_field(field: Field) -> Place {
        Place { shape: field.shape(), field: Some(field) }
    }

    fn inner(shape: Shape) -> Place {
        Place { shape, field: None }
    }

    /// The place of a field of a struct, or of anything where it is not declared.
    pub(super) fn field_of(ty: Type, name: &str) -> Place {
        ty.field(name).map_or(Place::ANY, Place::of_field)
    }

    /// The struct that stands here, if any.
    pub(super) fn ty(self) -> Option<Type> {
        self.shape.named().filter(|ty| ty.special().is_none())
    }

    pub(super) fn atom(self) -> Atom {
        match self.shape.resolved() {
            Shape::String => Atom::Scalar(Scalar::Text),
            Shape::Bool => Atom::Scalar(Scalar::Boolean),
            Shape::Int32 | Shape::Int64 | Shape::Float64 => Atom::Scalar(Scalar::Numeric),
            Shape::Bytes => Atom::Scalar(Scalar::Untyped),
            // `resolved` leaves no pointer.
            Shape::Any | Shape::Pointer(_) => Atom::Deduced,
            Shape::Named(ty) => match ty.special() {
                Some(Special::Quantity | Special::Time | Special::MicroTime | Special::IntOrString) => {
                    Atom::Scalar(Scalar::Untyped)
                }
                Some(Special::Duration) => Atom::Scalar(Scalar::Text),
                Some(
                    Special::RawExtension
                    | Special::FieldsV1
                    | Special::SchemaJson
                    | Special::SchemaOrArray
                    | Special::SchemaOrBool
                    | Special::SchemaOrStrings,
                ) => Atom::Deduced,
                None => {
                    let is_atomic = self.field.and_then(Field::is_atomic).unwrap_or_else(|| ty.is_atomic());
                    Atom::Struct { ty, is_atomic }
                }
            },
            Shape::List(inner) => {
                let identity = match (self.field, self.field.and_then(Field::list_type)) {
                    (Some(field), Some(ListType::Map)) => Some(Identity::Keys(field)),
                    (_, Some(ListType::Set)) => Some(Identity::Set),
                    (_, Some(ListType::Atomic | ListType::Map) | None) => None,
                };
                Atom::List { item: Place::inner(inner.shape()), identity }
            }
            Shape::Map { value, .. } => Atom::Map {
                value: Place::inner(value.shape()),
                is_atomic: self.field.and_then(Field::is_atomic).unwrap_or(false),
            },
        }
    }

    /// The same, where a value says what it is.
    pub(super) fn atom_for(self, value: &Value) -> Atom {
        match (self.atom(), value) {
            (Atom::Deduced, Value::Array(_)) => Atom::List { item: Place::ANY, identity: None },
            (Atom::Deduced, Value::Object(_) | Value::Null) => {
                Atom::Map { value: Place::ANY, is_atomic: false }
            }
            (Atom::Deduced, Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                Atom::Scalar(Scalar::Untyped)
            }
            (atom, _) => atom,
        }
    }
}

/// The value of a key field that an item leaves out, by the table.
pub(super) fn key_default(item: Option<Type>, key: &str) -> Option<Value> {
    let told = item?.field(key)?.declared_default()?;
    serde_json::from_str(told).ok()
}

/// Whether two values say the same; numbers may be written differently.
pub(super) fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        (left, right) => left == right,
    }
}
