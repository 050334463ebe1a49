//! The bytes of protobuf: tags, numbers of variable length, lengths. It knows no type.

use super::ProtobufError;

/// The value of one field on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    Eight([u8; 8]),
    /// No field of Kubernetes has this form.
    Four,
}

/// The fields of a message, in order.
pub(super) struct Fields<'b>(pub(super) &'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// A number of at most ten bytes.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Eight bytes of a packed list of floating-point numbers.
    pub(super) fn eight(&mut self) -> Option<[u8; 8]> {
        self.take(8)?.try_into().ok()
    }

    fn field(&mut self) -> Option<(u64, Wire<'b>)> {
        let tag = self.number()?;
        // No message has a field 0, and nobody sends groups (3 and 4).
        if tag >> 3 == 0 {
            return None;
        }
        let wire = match tag & 7 {
            0 => Wire::Number(self.number()?),
            1 => Wire::Eight(self.eight()?),
            2 => {
                let len = usize::try_from(self.number()?).ok()?;
                Wire::Bytes(self.take(len)?)
            }
            5 => {
                self.take(4)?;
                Wire::Four
            }
            _ => return None,
        };
        Some((tag >> 3, wire))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Wire<'b>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or(ProtobufError::Malformed);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Appends a number.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Appends a field with a number; negative ones as their two's complement in 64 bits.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u16, number: i64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, number.cast_unsigned());
}

/// Appends a field with bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u16, bytes: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field with a floating-point number.
pub(super) fn put_float(out: &mut Vec<u8>, field: u16, number: f64) {
    put_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Begins a field whose length is known when it ends; [`end_nested`] takes what this returns.
pub(crate) fn begin_nested(out: &mut Vec<u8>, field: u16) -> usize {
    put_varint(out, u64::from(field) << 3 | 2);
    // Most messages are shorter than 128 bytes; the content of longer ones is moved by a byte or two.
    out.push(0);
    out.len()
}

/// Ends a field that begins at `start`: puts its length before it.
pub(crate) fn end_nested(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    if let Ok(short @ 0..0x80) = u8::try_from(length) {
        out[start - 1] = short;
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    put_varint(&mut prefix, length as u64);
    out.splice(start - 1..start, prefix);
}
