//! Query strings: names and values, percent-decoded, in order.

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads a query string; what cannot be decoded is left out.
    pub(super) fn parse(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
        });
        Self { pairs: pairs.collect() }
    }

    /// The first value of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of that name.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// Whether a flag is set: `true`, `1`, or there without a value.
    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("" | "true" | "True" | "1"))
    }

    /// A number, or the text that is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{name}: {text:?} is not a number of zero or more")),
            },
        }
    }
}

/// Decodes `%XX`; `None` if the result is no text.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{Query, decode};

    #[test]
    fn queries_are_decoded() {
        let query =
            Query::parse(Some("command=sh&command=-c&command=echo+a%26b&tty&follow=true&tailLines=x"));
        assert_eq!(query.all("command"), ["sh", "-c", "echo a&b"]);
        assert!(query.flag("tty") && query.flag("follow") && !query.flag("stdin"));
        assert!(query.number("tailLines").is_err());
        assert_eq!(query.number("limitBytes"), Ok(None));
        assert_eq!(decode("%zz"), None);
        assert_eq!(decode("%f"), None);
        assert_eq!(decode("%ff"), None);
    }
}
