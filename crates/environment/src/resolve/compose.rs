//! Building one value out of literal text and the values of other variables, measured before it is copied.

use crate::text::short_label;
use crate::{Part, SecretText, Value};

/// A piece of a value to be built.
pub(super) enum Piece<'p> {
    /// Text as it stands.
    Text(&'p str),
    /// The value of a variable that was referenced.
    Variable { name: &'p str, value: &'p Value },
    /// A reference that may find something in a source that is not known here.
    Open { name: &'p str, missing: bool },
}

/// A value that was put together.
pub(super) struct Composition {
    pub(super) value: Value,
    /// Whether it no longer tells which piece is which.
    pub(super) is_summed_up: bool,
}

/// Parts that one value may have before it is summed up as one.
const MAX_PARTS: usize = 1024;

/// Bytes of the value as far as it is known.
pub(super) fn measure(pieces: &[Piece<'_>]) -> usize {
    pieces.iter().fold(0usize, |size, piece| size.saturating_add(piece_size(piece)))
}

fn piece_size(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Text(text) => text.len(),
        Piece::Variable { value, .. } => known_size(value),
        Piece::Open { .. } => 0,
    }
}

/// Bytes of `value` as far as it is known.
pub(super) fn known_size(value: &Value) -> usize {
    match value {
        Value::Plain(text) => text.len(),
        Value::Composed(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Plain(text) => text.len(),
                Part::Secret(text) => text.expose().len(),
                Part::UnknownUntilRun { .. } | Part::Missing { .. } | Part::Refused { .. } => 0,
            })
            .sum(),
    }
}

/// Puts the pieces together. `size` is what [`measure`] said. `parts_left` bounds the parts of all values of a
/// container together; where it or [`MAX_PARTS`] does not suffice, a value keeps its bytes or its state, but no
/// longer tells which piece is which.
pub(super) fn compose(
    pieces: &[Piece<'_>],
    size: usize,
    own_name: &str,
    parts_left: &mut usize,
) -> Composition {
    let is_plain = |piece: &Piece<'_>| match piece {
        Piece::Text(_) => true,
        Piece::Variable { value, .. } => matches!(value, Value::Plain(_)),
        Piece::Open { .. } => false,
    };
    if pieces.iter().all(is_plain) {
        let mut whole = String::with_capacity(size);
        for piece in pieces {
            match piece {
                Piece::Text(text) => whole.push_str(text),
                Piece::Variable { value: Value::Plain(text), .. } => whole.push_str(text),
                Piece::Variable { value: Value::Composed(_), .. } | Piece::Open { .. } => {}
            }
        }
        return Composition { value: Value::plain(whole), is_summed_up: false };
    }
    let count: usize = pieces.iter().map(part_count).sum();
    if count > MAX_PARTS.min(*parts_left) {
        return Composition { value: summed_up(pieces, size, own_name), is_summed_up: true };
    }
    *parts_left -= count;
    let mut parts = Vec::with_capacity(count);
    for piece in pieces {
        match piece {
            Piece::Text(text) => push_plain(&mut parts, text),
            Piece::Variable { value: Value::Plain(text), .. } => push_plain(&mut parts, text),
            Piece::Variable { name, value: Value::Composed(inner) } => match inner.as_slice() {
                // What is wholly unknown is shown by the name that people wrote.
                [Part::UnknownUntilRun { .. }] => {
                    parts.push(Part::UnknownUntilRun { label: short_label(name) });
                }
                [Part::Missing { .. }] => parts.push(Part::Missing { label: short_label(name) }),
                [Part::Refused { .. }] => parts.push(Part::Refused { label: short_label(name) }),
                several => {
                    for part in several {
                        match part {
                            Part::Plain(text) => push_plain(&mut parts, text),
                            other => parts.push(other.clone()),
                        }
                    }
                }
            },
            Piece::Open { name, missing: true } => parts.push(Part::Missing { label: short_label(name) }),
            Piece::Open { name, missing: false } => {
                parts.push(Part::UnknownUntilRun { label: short_label(name) });
            }
        }
    }
    Composition { value: Value::Composed(parts), is_summed_up: false }
}

fn push_plain(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Plain(last)) => last.push_str(text),
        _ => parts.push(Part::Plain(text.to_owned())),
    }
}

fn part_count(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Text(_) | Piece::Open { .. } | Piece::Variable { value: Value::Plain(_), .. } => 1,
        Piece::Variable { value: Value::Composed(parts), .. } => parts.len(),
    }
}

fn summed_up(pieces: &[Piece<'_>], size: usize, own_name: &str) -> Value {
    let mut whole = String::with_capacity(size);
    let (mut missing, mut unknown, mut refused) = (false, false, false);
    for piece in pieces {
        match piece {
            Piece::Text(text) => whole.push_str(text),
            Piece::Variable { value: Value::Plain(text), .. } => whole.push_str(text),
            Piece::Open { missing: open_missing, .. } => {
                missing |= open_missing;
                unknown |= !open_missing;
            }
            Piece::Variable { value: Value::Composed(parts), .. } => {
                for part in parts {
                    match part {
                        Part::Plain(text) => whole.push_str(text),
                        Part::Secret(text) => whole.push_str(text.expose()),
                        Part::UnknownUntilRun { .. } => unknown = true,
                        Part::Missing { .. } => missing = true,
                        Part::Refused { .. } => refused = true,
                    }
                }
            }
        }
    }
    let label = short_label(own_name);
    Value::Composed(vec![match (refused, missing, unknown) {
        (true, _, _) => Part::Refused { label },
        (false, true, _) => Part::Missing { label },
        (false, false, true) => Part::UnknownUntilRun { label },
        (false, false, false) => Part::Secret(SecretText::new(whole)),
    }])
}
