//! Header blocks: names and values, compressed over the whole life of a connection, each direction by itself.

use std::fmt;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use crate::dictionary::{DICTIONARY_NUMBER, dictionary};

/// Headers of a stream, in order. Names are lower case; several values of one name are several entries.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Without any.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// The first value of a name, whatever the case of the name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a peer sends as a value may be a secret.
        formatter.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// How much a peer may send as headers of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Bytes of a block once decompressed.
    pub bytes: usize,
    /// Names of a block.
    pub count: usize,
}

/// Why a header block cannot be read. Nothing after it can be read either: the compression has lost its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderBlockError {
    /// Not zlib, or with another dictionary.
    #[error("the headers are not compressed as SPDY/3 compresses them")]
    Compression,
    /// More than is borne.
    #[error("the headers are larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// More than is borne.
    #[error("there are more than {limit} headers")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Lengths and content do not fit.
    #[error("the headers are cut off or have something after their end")]
    Lengths,
    /// A name or value is not UTF-8, or a name is empty.
    #[error("a header is no text")]
    Text,
}

/// Compresses the header blocks of one direction.
pub(crate) struct Compressor(Compress);

impl Default for Compressor {
    fn default() -> Self {
        let mut compress = Compress::new(Compression::fast(), true);
        // It refuses a dictionary only after the first bytes.
        let set = compress.set_dictionary(&dictionary());
        debug_assert!(matches!(set, Ok(DICTIONARY_NUMBER)));
        Self(compress)
    }
}

impl Compressor {
    /// The next block.
    pub(crate) fn compress(&mut self, headers: &Headers) -> Vec<u8> {
        let mut plain = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in &headers.0 {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        put_length(&mut plain, names.len());
        for name in names {
            let values: Vec<&str> =
                headers.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect();
            let value = values.join("\0");
            put_length(&mut plain, name.len());
            plain.extend_from_slice(name.as_bytes());
            put_length(&mut plain, value.len());
            plain.extend_from_slice(value.as_bytes());
        }
        let mut block = Vec::with_capacity(plain.len() / 2 + 64);
        let before = self.0.total_in();
        loop {
            if block.capacity() - block.len() < 64 {
                block.reserve(256);
            }
            let done = (self.0.total_in() - before) as usize;
            // Memory to memory, with room: there is nothing that could fail.
            let status = self.0.compress_vec(&plain[done..], &mut block, FlushCompress::Sync);
            let consumed = (self.0.total_in() - before) as usize == plain.len();
            if status.is_err() || (consumed && block.len() < block.capacity()) {
                return block;
            }
        }
    }
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

/// Decompresses the header blocks of one direction.
pub(crate) struct Decompressor(Decompress);

impl Default for Decompressor {
    fn default() -> Self {
        Self(Decompress::new(true))
    }
}

impl Decompressor {
    /// Reads the next block. After an error the connection has to end.
    pub(crate) fn decompress(
        &mut self,
        block: &[u8],
        limits: HeaderLimits,
    ) -> Result<Headers, HeaderBlockError> {
        parse(&self.inflate(block, limits.bytes)?, limits.count)
    }

    fn inflate(&mut self, block: &[u8], limit: usize) -> Result<Vec<u8>, HeaderBlockError> {
        let before = self.0.total_in();
        let mut plain = Vec::with_capacity((block.len() * 2).clamp(64, 4096));
        loop {
            if plain.len() > limit {
                return Err(HeaderBlockError::TooLarge { limit });
            }
            if plain.len() == plain.capacity() {
                plain.reserve(plain.len().max(64));
            }
            let done = (self.0.total_in() - before) as usize;
            let produced = plain.len();
            match self.0.decompress_vec(&block[done..], &mut plain, FlushDecompress::Sync) {
                Ok(flate2::Status::StreamEnd) => return Err(HeaderBlockError::Compression),
                Ok(flate2::Status::Ok | flate2::Status::BufError) => {}
                Err(error) if error.needs_dictionary() == Some(DICTIONARY_NUMBER) => {
                    self.0.set_dictionary(&dictionary()).map_err(|_| HeaderBlockError::Compression)?;
                    continue;
                }
                Err(_) => return Err(HeaderBlockError::Compression),
            }
            let consumed = (self.0.total_in() - before) as usize;
            let moved = consumed > done || plain.len() > produced;
            if consumed == block.len() && plain.len() < plain.capacity() {
                return if plain.len() > limit {
                    Err(HeaderBlockError::TooLarge { limit })
                } else {
                    Ok(plain)
                };
            }
            if !moved && plain.len() < plain.capacity() {
                return Err(HeaderBlockError::Compression);
            }
        }
    }
}

fn parse(mut plain: &[u8], limit: usize) -> Result<Headers, HeaderBlockError> {
    let count = take_length(&mut plain)?;
    if count > limit {
        return Err(HeaderBlockError::TooMany { limit });
    }
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = take_text(&mut plain)?;
        if name.is_empty() {
            return Err(HeaderBlockError::Text);
        }
        let values = take_text(&mut plain)?;
        for value in values.split('\0') {
            if headers.0.len() >= limit {
                return Err(HeaderBlockError::TooMany { limit });
            }
            headers.0.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }
    if plain.is_empty() { Ok(headers) } else { Err(HeaderBlockError::Lengths) }
}

fn take_length(plain: &mut &[u8]) -> Result<usize, HeaderBlockError> {
    let (length, rest) = plain.split_first_chunk::<4>().ok_or(HeaderBlockError::Lengths)?;
    *plain = rest;
    usize::try_from(u32::from_be_bytes(*length)).map_err(|_| HeaderBlockError::Lengths)
}

fn take_text<'a>(plain: &mut &'a [u8]) -> Result<&'a str, HeaderBlockError> {
    let length = take_length(plain)?;
    let (text, rest) = plain.split_at_checked(length).ok_or(HeaderBlockError::Lengths)?;
    *plain = rest;
    std::str::from_utf8(text).map_err(|_| HeaderBlockError::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeaderLimits = HeaderLimits { bytes: 16 * 1024, count: 64 };

    #[test]
    fn blocks_of_one_connection_are_read_back_in_order() {
        let (mut there, mut back) = (Compressor::default(), Decompressor::default());
        for headers in [
            Headers::new(),
            Headers::new().with("streamType", "error").with("port", "8080").with("requestID", "0"),
            Headers::new().with("a", "1").with("b", "").with("a", "2"),
            Headers::new().with("long", &"x".repeat(9000)),
        ] {
            let block = there.compress(&headers);
            let read = back.decompress(&block, LIMITS).expect("a block");
            for (name, value) in &headers.0 {
                assert!(read.0.contains(&(name.clone(), value.clone())), "{name}");
            }
            assert_eq!(read.0.len(), headers.0.len());
        }
    }

    #[test]
    fn a_block_begins_as_zlib_with_the_dictionary_of_the_protocol() {
        let block = Compressor::default().compress(&Headers::new());
        assert_eq!(block[0], 0x78);
        assert_eq!(block[2..6], DICTIONARY_NUMBER.to_be_bytes());
        assert_eq!(block[block.len() - 4..], [0, 0, 0xff, 0xff], "flushed to a byte");
    }

    #[test]
    fn headers_that_swell_when_decompressed_are_refused() {
        let bomb = Compressor::default().compress(&Headers::new().with("bomb", &"0".repeat(4 << 20)));
        assert!(bomb.len() < 64 * 1024, "{}", bomb.len());
        assert_eq!(
            Decompressor::default().decompress(&bomb, LIMITS),
            Err(HeaderBlockError::TooLarge { limit: 16 * 1024 })
        );
    }

    #[test]
    fn more_headers_than_are_borne_are_refused() {
        let many = (0..65).fold(Headers::new(), |all, number| all.with(&format!("h{number}"), ""));
        let refused = Decompressor::default().decompress(&Compressor::default().compress(&many), LIMITS);
        assert_eq!(refused, Err(HeaderBlockError::TooMany { limit: 64 }));
        let values = (0..65).fold(Headers::new(), |all, _| all.with("same", ""));
        let refused = Decompressor::default().decompress(&Compressor::default().compress(&values), LIMITS);
        assert_eq!(refused, Err(HeaderBlockError::TooMany { limit: 64 }));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for (plain, expected) in [
            (&b""[..], HeaderBlockError::Lengths),
            (b"\0\0\0", HeaderBlockError::Lengths),
            (b"\0\0\0\x01", HeaderBlockError::Lengths),
            (b"\0\0\0\x01\xff\xff\xff\xff", HeaderBlockError::Lengths),
            (b"\0\0\0\x01\0\0\0\x01a\0\0\0\x02b", HeaderBlockError::Lengths),
            (b"\0\0\0\0x", HeaderBlockError::Lengths),
            (b"\0\0\0\x01\0\0\0\0\0\0\0\0", HeaderBlockError::Text),
            (b"\0\0\0\x01\0\0\0\x01\xff\0\0\0\0", HeaderBlockError::Text),
            (b"\xff\xff\xff\xff", HeaderBlockError::TooMany { limit: 64 }),
        ] {
            assert_eq!(parse(plain, 64), Err(expected), "{plain:?}");
        }
    }

    #[test]
    fn what_is_not_zlib_or_has_another_dictionary_is_refused() {
        for block in [&b"hello"[..], b"\x78\x9c\x03\0\0\0\0\x01", b"\x78\xbb\0\0\0\x01", b""] {
            let read = Decompressor::default().decompress(block, LIMITS);
            assert!(
                matches!(read, Err(HeaderBlockError::Compression | HeaderBlockError::Lengths)),
                "{block:?}: {read:?}"
            );
        }
    }

    #[test]
    fn values_do_not_show_in_debug_output() {
        let headers = Headers::new().with("authorization", "secret");
        assert!(!format!("{headers:?}").contains("secret"));
    }
}
