//! The forms of values: scalars, named types, pointers, lists, maps.

use super::{Section, Type, record, u16_at};

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text.
    String,
    /// `true` or `false`.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Float64,
    /// Bytes, base64 in JSON.
    Bytes,
    /// Any JSON value.
    Any,
    /// A struct, or a named form of another shape.
    Named(Type),
    /// A value that may be absent.
    Pointer(ShapeRef),
    /// A list.
    List(ShapeRef),
    /// A map with text keys.
    Map {
        /// The shape of values.
        value: ShapeRef,
        /// The shape of keys; always text or a named form of it.
        key: ShapeRef,
    },
}

/// A shape inside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeRef {
    pub(super) index: u16,
}

impl ShapeRef {
    /// The shape.
    #[must_use]
    pub fn shape(self) -> Shape {
        let at = record(Section::Shapes, self.index.into(), 6);
        let inner = u16_at(at + 2);
        match u16_at(at) {
            0 => Shape::String,
            1 => Shape::Bool,
            2 => Shape::Int32,
            3 => Shape::Int64,
            4 => Shape::Float64,
            5 => Shape::Bytes,
            7 => Shape::Named(Type { index: inner }),
            8 => Shape::Pointer(ShapeRef { index: inner }),
            9 => Shape::List(ShapeRef { index: inner }),
            10 => Shape::Map { value: ShapeRef { index: inner }, key: ShapeRef { index: u16_at(at + 4) } },
            _ => Shape::Any,
        }
    }
}

impl Shape {
    /// The struct or special type behind pointers and named forms.
    #[must_use]
    pub fn named(self) -> Option<Type> {
        match self {
            Self::Named(ty) => match ty.underlying() {
                Some(underlying) => underlying.named(),
                None => Some(ty),
            },
            Self::Pointer(inner) => inner.shape().named(),
            _ => None,
        }
    }

    /// The shape behind pointers and named forms; a struct or special type stays as it is.
    #[must_use]
    pub fn resolved(self) -> Self {
        match self {
            Self::Named(ty) => match ty.underlying() {
                Some(underlying) if ty.special().is_none() => underlying.resolved(),
                _ => self,
            },
            Self::Pointer(inner) => inner.shape().resolved(),
            other => other,
        }
    }

    /// How Go prints the type: `[]v1.EnvVar`, `map[string]string`.
    #[must_use]
    pub fn go_name(self) -> String {
        match self {
            Self::String => "string".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Float64 => "float64".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Any => "interface {}".to_owned(),
            Self::Named(ty) => ty.go_name(),
            Self::Pointer(inner) => format!("*{}", inner.shape().go_name()),
            Self::List(inner) => format!("[]{}", inner.shape().go_name()),
            Self::Map { value, key } => format!("map[{}]{}", key.shape().go_name(), value.shape().go_name()),
        }
    }
}
