//! Walkers 5 and 6: Kubernetes' protobuf to a JSON tree and back, by the field numbers of the table.
//!
//! What is written is byte for byte what Go's generated code writes: fields by ascending number; plain texts, numbers,
//! booleans and structs always, even when empty; pointers, lists, maps and bytes only when there is something; maps by
//! sorted keys; lists of numbers unpacked. What is read may come from anybody: fields that the table does not have are
//! skipped, parts of one message are merged, packed numbers are understood, and nothing that is read makes more than a
//! bounded amount of work and memory.
//!
//! An object travels in an envelope: the four bytes `k8s\0`, then the message `runtime.Unknown` with the fields
//! 1 (`TypeMeta`: 1 apiVersion, 2 kind), 2 (the object's own message), 3 (content encoding) and 4 (content type).
//! The event of a watch travels without one, as the message `WatchEvent` (1 type, 2 object), behind its length in four
//! bytes, big end first; its object is an envelope again.

mod forms;
mod plan;
mod read;
pub(crate) mod wire;
mod write;

use serde_json::Value;

use crate::json::Json;
use crate::table::Type;

pub use write::ListWriter;

/// What every object begins with.
pub const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may be nested.
pub const DEPTH: usize = 100;
/// How many values one object may have; no real one comes near, and a byte of packed numbers makes one.
pub const VALUES: usize = 500_000;

/// Why bytes are no object in protobuf, or an object cannot be written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// Other first bytes than [`MAGIC`].
    #[error("the body does not begin with the four bytes of Kubernetes' protobuf")]
    Magic,
    /// The bytes end inside a field, or a field has an impossible tag or length.
    #[error("the message ends in the middle of a field, or a field has an impossible form")]
    Malformed,
    /// A known field in a form that its type does not have.
    #[error("the field {field} has the wrong wire type")]
    WireType {
        /// Its JSON name.
        field: &'static str,
    },
    /// Text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A point in time that no calendar has.
    #[error("a time is out of range")]
    Time,
    /// Nesting beyond the limit.
    #[error("messages are nested deeper than {DEPTH} levels")]
    Depth,
    /// More values than any object has.
    #[error("the message has more than {VALUES} values")]
    TooMany,
    /// A kind that the table does not have.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    Kind {
        /// As the envelope says.
        api_version: String,
        /// As the envelope says.
        kind: String,
    },
    /// A kind whose fields have no numbers: tables, and kinds that are not Kubernetes' own.
    #[error("{type_name} has no form in protobuf")]
    NoForm {
        /// As Go names it.
        type_name: String,
    },
    /// An embedded object that is neither JSON nor protobuf.
    #[error("an embedded object is not JSON")]
    Embedded,
    /// Bytes to be written that are not JSON.
    #[error("{message}")]
    Syntax {
        /// What the parser expected.
        message: String,
    },
    /// A value of another type than its field has.
    #[error("the field {field} has a value of the wrong type")]
    Mismatch {
        /// Its JSON name.
        field: &'static str,
    },
}

/// What stands around an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// `v1`, `apps/v1`.
    pub api_version: &'b str,
    /// `Pod`.
    pub kind: &'b str,
    /// The object's own message.
    pub raw: &'b [u8],
}

impl<'b> Envelope<'b> {
    /// Opens an envelope.
    ///
    /// # Errors
    ///
    /// Another beginning, or a damaged envelope.
    pub fn open(bytes: &'b [u8]) -> Result<Self, ProtobufError> {
        read::envelope(bytes)
    }

    /// The envelope as bytes.
    #[must_use]
    pub fn seal(&self) -> Vec<u8> {
        write::envelope(self)
    }
}

/// Whether objects of the type can travel as protobuf.
#[must_use]
pub fn has_form(ty: Type) -> bool {
    plan::plan(ty).has_form
}

/// Reads an object in its envelope, with `apiVersion` and `kind` as the envelope has them.
///
/// Empty texts and zero numbers are there as they were sent; [`decode_value`](crate::decode_value) makes of the tree what
/// Go would write.
///
/// # Errors
///
/// See [`ProtobufError`].
pub fn read_object(bytes: &[u8]) -> Result<Value, ProtobufError> {
    read::object(bytes)
}

/// Reads the message of a type, without an envelope.
///
/// # Errors
///
/// See [`ProtobufError`].
pub fn read_message(ty: Type, bytes: &[u8]) -> Result<Value, ProtobufError> {
    read::message(ty, bytes)
}

/// Writes the JSON of an object in the envelope of its `apiVersion` and `kind`.
///
/// # Errors
///
/// Bytes that are no JSON object of a type with a form in protobuf.
pub fn write_object(json: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let tree = Json::parse(json).map_err(|message| ProtobufError::Syntax { message })?;
    write::object(&tree)
}

/// Writes those fields of the JSON of an object that another kind has, in that kind's envelope: with
/// `PartialObjectMetadata` an object's metadata.
///
/// # Errors
///
/// As [`write_object`].
pub fn write_object_as(api_version: &str, kind: &str, json: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let tree = Json::parse(json).map_err(|message| ProtobufError::Syntax { message })?;
    write::object_as(api_version, kind, &tree)
}

/// Writes the JSON of an object as the message of a type, without an envelope. Fields that the type does not have are
/// left out.
///
/// # Errors
///
/// Bytes that are no JSON, a value of the wrong type, and types without a form in protobuf.
pub fn write_message(ty: Type, json: &[u8]) -> Result<Vec<u8>, ProtobufError> {
    let tree = Json::parse(json).map_err(|message| ProtobufError::Syntax { message })?;
    let mut out = Vec::with_capacity(json.len());
    write::message_into(&mut out, ty, &tree)?;
    Ok(out)
}

/// Appends one frame of a watch: the length in four bytes, big end first, and the event (`ADDED`, ...) with its object
/// in its envelope.
pub fn put_event(out: &mut Vec<u8>, kind: &str, object: &[u8]) {
    write::put_event(out, kind, object);
}

#[cfg(test)]
mod every_field;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
pub(crate) mod tests;
