//! The values: what a caller hands in before a revision exists, and what the store hands out afterwards.

use bytes::Bytes;

use crate::key::Key;

/// A value that waits for its revision: bytes, and the place where the decimal revision is to be inserted.
///
/// The finished bytes are what clients get, so that a read copies nothing and a watch event is encoded once.
#[derive(Clone)]
pub struct Draft {
    bytes: Vec<u8>,
    revision_at: usize,
}

/// A draft whose insertion point lies outside its bytes.
#[derive(Debug, thiserror::Error)]
#[error("the revision is to be inserted at byte {revision_at} of a value of {len} bytes")]
pub struct DraftError {
    /// Where the revision was to go.
    pub revision_at: usize,
    /// Length of the value in bytes.
    pub len: usize,
}

impl Draft {
    /// A draft of `bytes`, into which the decimal revision is inserted before byte `revision_at`.
    ///
    /// # Errors
    /// When `revision_at` is larger than the number of bytes.
    pub fn new(bytes: Vec<u8>, revision_at: usize) -> Result<Draft, DraftError> {
        if revision_at > bytes.len() || bytes.len() > u32::MAX as usize - 32 {
            return Err(DraftError { revision_at, len: bytes.len() });
        }
        Ok(Draft { bytes, revision_at })
    }

    /// Length in bytes, without the revision.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes with `revision` inserted; used for the answer of a dry run, which is never stored.
    pub fn preview(&self, revision: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + revision.len());
        bytes.extend_from_slice(&self.bytes[..self.revision_at]);
        bytes.extend_from_slice(revision.as_bytes());
        bytes.extend_from_slice(&self.bytes[self.revision_at..]);
        bytes
    }

    pub(crate) fn finish(&self, key: Key, revision: u64, created: u64) -> Object {
        let digits = revision.to_string();
        Object {
            key,
            revision,
            created,
            value: Bytes::from(self.preview(&digits)),
            // `new` has checked that offsets fit.
            revision_at: self.revision_at as u32,
        }
    }
}

/// One version of one object. Its value may hold secrets, so debug output shows only where it belongs.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    key: Key,
    revision: u64,
    created: u64,
    value: Bytes,
    revision_at: u32,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl Object {
    /// Which object this is a version of.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The revision of this version (of the deletion, for the object of a deletion event).
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision that created the object; unique over all objects there ever were.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// The bytes, revision included.
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// Byte offset of the decimal revision inside [`Object::value`].
    pub fn revision_at(&self) -> usize {
        self.revision_at as usize
    }

    /// Puts together a version that a backend has read back. `None` when the offset does not point at the revision.
    pub fn restore(
        key: Key,
        revision: u64,
        created: u64,
        value: Bytes,
        revision_at: usize,
    ) -> Option<Object> {
        let digits = revision.to_string();
        let at = value.get(revision_at..)?;
        if !at.starts_with(digits.as_bytes()) || created > revision {
            return None;
        }
        Some(Object { key, revision, created, value, revision_at: u32::try_from(revision_at).ok()? })
    }

    /// The same value under another revision, such as that of its deletion.
    pub fn at_revision(&self, revision: u64) -> Object {
        let old_digits = decimal_digits(self.revision);
        let digits = revision.to_string();
        let at = self.revision_at as usize;
        let mut bytes = Vec::with_capacity(self.value.len() + digits.len());
        bytes.extend_from_slice(&self.value[..at]);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.value[at + old_digits..]);
        Object {
            key: self.key.clone(),
            revision,
            created: self.created,
            value: Bytes::from(bytes),
            revision_at: self.revision_at,
        }
    }
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}
