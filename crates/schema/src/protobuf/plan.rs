//! What the table says about the fields of a message, looked up once for each type that is used.

use std::sync::OnceLock;

use crate::table::{Field, Shape, Type, type_count};

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) number: u16,
    /// The JSON name; empty where [`Planned::form`] is inlined.
    pub(super) json: &'static str,
    pub(super) form: Form,
}

/// How a field travels.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// A message of its own whose fields stand in the parent's JSON object.
    Inlined(Type),
    /// Always written.
    Plain(Shape),
    /// Written when it is there.
    Optional(Shape),
    /// One field for each item.
    Repeated(Shape),
    /// One field for each entry, with the shape of its value.
    Map(Shape),
}

/// The fields of a message by ascending number.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) fields: Box<[Planned]>,
    /// Whether every field that JSON has is here.
    pub(super) has_form: bool,
}

impl Plan {
    pub(super) fn field(&self, number: u64) -> Option<&Planned> {
        let number = u16::try_from(number).ok()?;
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(at)
    }
}

/// The plan of a struct type, or of another name for one.
pub(super) fn plan(ty: Type) -> &'static Plan {
    let ty = Shape::Named(ty).named().unwrap_or(ty);
    static PLANS: OnceLock<Box<[OnceLock<Plan>]>> = OnceLock::new();
    let plans = PLANS.get_or_init(|| (0..type_count()).map(|_| OnceLock::new()).collect());
    plans[ty.index()].get_or_init(|| make(ty))
}

fn make(ty: Type) -> Plan {
    let mut has_form = true;
    let mut fields = Vec::new();
    for field in ty.declared_fields() {
        let (number, inlined) = (field.wire_number(), field.inlined());
        match (number, inlined) {
            (Some(number), Some(inner)) => {
                fields.push(Planned { number, json: "", form: Form::Inlined(inner) });
            }
            (Some(number), None) if !field.json().is_empty() => {
                fields.push(Planned { number, json: field.json(), form: form(field) });
            }
            // `TypeMeta` travels in the envelope.
            (None, Some(inner)) => has_form &= inner.name() == "TypeMeta",
            (None, None) => has_form &= field.json().is_empty(),
            (Some(_), None) => {}
        }
    }
    fields.sort_unstable_by_key(|field| field.number);
    Plan { fields: fields.into(), has_form }
}

fn form(field: Field) -> Form {
    let shape = field.shape();
    let resolved = shape.resolved();
    match (shape, resolved) {
        // A list of texts with a name is a message of its own: `Verbs`, `ExtraValue`.
        (Shape::Named(_), Shape::List(item)) if item.shape().resolved() == Shape::String => {
            Form::Optional(resolved)
        }
        (_, Shape::List(item)) => Form::Repeated(item.shape().resolved()),
        (_, Shape::Map { value, .. }) => Form::Map(value.shape().resolved()),
        (Shape::Pointer(_), _) | (_, Shape::Bytes) => Form::Optional(resolved),
        (_, plain) => Form::Plain(plain),
    }
}
