//! The address of an HTTP hook or probe: what a manifest's `path` means, where a redirect leads, how a parameter is added.
//! Pure.
//!
//! A path is read as Kubernetes reads it: as a URL, of which path and query are kept; text that is no URL is a plain path.

use std::fmt;

/// Plain or encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// The scheme of a manifest; anything but `HTTPS` is plain HTTP.
    pub(crate) fn of_manifest(text: Option<&str>) -> Self {
        match text {
            Some(text) if text.eq_ignore_ascii_case("https") => Self::Https,
            Some(_) | None => Self::Http,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpUrl {
    pub(crate) scheme: Scheme,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query as they are sent; begins with a slash.
    pub(crate) target: String,
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.scheme.as_str(), self.authority(), self.target)
    }
}

impl HttpUrl {
    /// The URL of a manifest's host, port and path.
    pub(crate) fn new(scheme: Scheme, host: &str, port: u16, path: &str) -> Self {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self { scheme, host: host.to_owned(), port, target: target_of(path) }
    }

    /// `HOST:PORT`, an IPv6 address in brackets: also what the header `Host` says.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Adds `name=value` to the query.
    pub(crate) fn add_parameter(&mut self, name: &str, value: &str) {
        let separator = match self.target.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some((_, query)) if query.ends_with('&') => "",
            Some(_) => "&",
        };
        self.target.push_str(separator);
        push_escaped(&mut self.target, name, is_plain_in_value);
        self.target.push('=');
        push_escaped(&mut self.target, value, is_plain_in_value);
    }

    /// Where a `Location` header leads from here; `None` if it is no HTTP address.
    pub(crate) fn redirect(&self, location: &str) -> Option<Self> {
        let location = location.trim();
        let lower = location.to_ascii_lowercase();
        let (scheme, rest) = if lower.starts_with("http://") {
            (Scheme::Http, &location[5..])
        } else if lower.starts_with("https://") {
            (Scheme::Https, &location[6..])
        } else if has_scheme(location) {
            return None;
        } else {
            (self.scheme, location)
        };
        if let Some(rest) = rest.strip_prefix("//") {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let (host, port) = split_authority(authority, scheme)?;
            return Some(Self { scheme, host, port, target: target_of(path) });
        }
        let path = match rest.chars().next() {
            None | Some('#') => self.target.clone(),
            Some('/') => rest.to_owned(),
            Some('?') => format!("{}{rest}", self.path()),
            Some(_) => {
                let directory = self.path().rsplit_once('/').map_or("", |(directory, _)| directory);
                format!("{directory}/{rest}")
            }
        };
        Some(Self { scheme, host: self.host.clone(), port: self.port, target: target_of(&path) })
    }

    fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path)
    }
}

fn split_authority(authority: &str, scheme: Scheme) -> Option<(String, u16)> {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = if port.is_empty() { scheme.default_port() } else { port.parse().ok()? };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Path and query of the text, escaped where they have to be.
fn target_of(path: &str) -> String {
    let is_url = escapes_are_valid(path.split(['?', '#']).next().unwrap_or_default())
        && !path.bytes().any(|byte| byte.is_ascii_control());
    if !is_url {
        let mut plain = String::from(if path.starts_with('/') { "" } else { "/" });
        push_escaped(&mut plain, path, |byte| byte != b'%' && byte != b'?' && is_plain_in_path(byte));
        return plain;
    }
    let without_fragment = path.split_once('#').map_or(path, |(before, _)| before);
    let lower = without_fragment.to_ascii_lowercase();
    let rest = match lower.find("://").filter(|_| has_scheme(&lower)) {
        Some(at) => &without_fragment[at + 1..],
        None => without_fragment,
    };
    let rest = match rest.strip_prefix("//") {
        Some(rest) => &rest[rest.find(['/', '?']).unwrap_or(rest.len())..],
        None => rest,
    };
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    let mut target = String::from(if path.starts_with('/') { "" } else { "/" });
    push_escaped(&mut target, path, is_plain_in_path);
    if let Some(query) = query {
        target.push('?');
        push_escaped(&mut target, query, |byte| byte.is_ascii_graphic());
    }
    target
}

fn escapes_are_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(at, _)| {
        bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

fn is_plain_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&byte)
}

fn is_plain_in_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

fn push_escaped(into: &mut String, text: &str, is_plain: impl Fn(u8) -> bool) {
    for byte in text.bytes() {
        if is_plain(byte) {
            into.push(char::from(byte));
        } else {
            into.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpUrl, Scheme};

    fn url(path: &str) -> HttpUrl {
        HttpUrl::new(Scheme::Http, "10.0.0.1", 8080, path)
    }

    #[test]
    fn paths_are_read_as_urls_and_kept_as_far_as_they_can_be_sent() {
        let rows = [
            ("", "/"),
            ("/", "/"),
            ("healthz", "/healthz"),
            ("/a/b?x=1&y=%20#part", "/a/b?x=1&y=%20"),
            ("/a b", "/a%20b"),
            ("/ä", "/%C3%A4"),
            ("/a%2Fb", "/a%2Fb"),
            ("/100%", "/100%25"),
            ("/100%?x=1", "/100%25%3Fx=1"),
            ("/a\r\nHost: evil", "/a%0D%0AHost:%20evil"),
            ("/?q=a b", "/?q=a%20b"),
            ("http://other:9/x?y", "/x?y"),
            ("//other/x", "/x"),
            ("?only=query", "/?only=query"),
        ];
        for (path, expected) in rows {
            assert_eq!(url(path).target, expected, "{path:?}");
        }
    }

    #[test]
    fn addresses_of_version_six_stand_in_brackets() {
        assert_eq!(HttpUrl::new(Scheme::Https, "fd00::1", 1, "/").to_string(), "https://[fd00::1]:1/");
        assert_eq!(HttpUrl::new(Scheme::Https, "[fd00::1]", 1, "/").to_string(), "https://[fd00::1]:1/");
    }

    #[test]
    fn a_parameter_joins_the_query_that_is_there() {
        let rows = [
            ("/stop", "/stop?reason=Delete"),
            ("/stop?", "/stop?reason=Delete"),
            ("/stop?a=b", "/stop?a=b&reason=Delete"),
            ("/stop?a=b&", "/stop?a=b&reason=Delete"),
            ("/stop?a=b#f", "/stop?a=b&reason=Delete"),
        ];
        for (path, expected) in rows {
            let mut url = url(path);
            url.add_parameter("reason", "Delete");
            assert_eq!(url.target, expected, "{path:?}");
        }
        let mut odd = url("/");
        odd.add_parameter("a b", "c&d=e");
        assert_eq!(odd.target, "/?a%20b=c%26d%3De");
    }

    #[test]
    fn redirects_lead_where_a_browser_would_go() {
        let from = url("/a/b?x=1");
        let rows = [
            ("/c", Some("http://10.0.0.1:8080/c")),
            ("c?y", Some("http://10.0.0.1:8080/a/c?y")),
            ("?z", Some("http://10.0.0.1:8080/a/b?z")),
            ("", Some("http://10.0.0.1:8080/a/b?x=1")),
            ("//10.0.0.1/c", Some("http://10.0.0.1:80/c")),
            ("https://10.0.0.1/c", Some("https://10.0.0.1:443/c")),
            ("HTTP://other:99", Some("http://other:99/")),
            ("http://user:word@other/", Some("http://other:80/")),
            ("http://[fd00::1]:5/x", Some("http://[fd00::1]:5/x")),
            ("ftp://10.0.0.1/", None),
            ("http://:80/", None),
            ("http://a:99999/", None),
        ];
        for (location, expected) in rows {
            let found = from.redirect(location).map(|url| url.to_string());
            assert_eq!(found.as_deref(), expected, "{location:?}");
        }
    }
}
