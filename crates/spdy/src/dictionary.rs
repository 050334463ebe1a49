//! The dictionary with which both sides prime the compression of headers: words that are common in them. It is part of the
//! protocol (SPDY/3, section 2.6.10.1): lengths as four bytes before each of the first words, then text without separators.

/// The words that stand with their length.
const WORDS: [&str; 64] = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
];

/// What follows them. `origin` still has its length.
const REST: &str = concat!(
    "\0\0\0\x06origin",
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized",
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable",
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT",
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,",
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
);

/// The number by which a compressed block says which dictionary it needs (Adler-32).
pub(crate) const DICTIONARY_NUMBER: u32 = 0xe3c6_a7c2;

/// The dictionary as both sides feed it to zlib.
pub(crate) fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1423);
    for word in WORDS {
        // The longest has 19 letters.
        bytes.extend_from_slice(&(word.len() as u32).to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend_from_slice(REST.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adler32(bytes: &[u8]) -> u32 {
        let (mut low, mut high) = (1_u32, 0_u32);
        for byte in bytes {
            low = (low + u32::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        high << 16 | low
    }

    #[test]
    fn the_dictionary_is_the_one_of_the_protocol() {
        assert_eq!(dictionary().len(), 1423);
        assert_eq!(adler32(&dictionary()), DICTIONARY_NUMBER);
    }
}
