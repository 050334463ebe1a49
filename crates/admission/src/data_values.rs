//! The values of ConfigMaps and Secrets: how large they are, and how large they may be.

/// Most bytes of all values of one object together.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Bytes that base64 text stands for; the text is canonical after decoding.
pub(crate) fn decoded_size(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}
