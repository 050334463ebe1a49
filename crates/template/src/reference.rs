//! The two languages of references: text into literal runs and references. The only place that knows what `$` means.
//!
//! The proposal's: `$(P)` and `$((P))`; `$$(P)` and `$$((P))` of a declared parameter are escapes; any other `$$` is a
//! pair that stays, so that the `$` of Kubernetes' own escapes never begins a reference. OpenShift's: `${P}` anywhere,
//! `${{P}}` as a whole value only, no escape.
//!
//! Linear on every input: no byte of a name is looked at for more than one `$`.

use std::ops::Range;

use memchr::memchr;

use crate::Dialect;

/// How a reference is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `$(P)`, `${P}`: gives a string.
    Quoted,
    /// `$((P))`, `${{P}}`: gives a scalar.
    Unquoted,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// Text that stays.
    Text(&'t str),
    /// A reference to a declared parameter, by its place in the list.
    Parameter { parameter: usize, style: Style, span: Range<usize> },
    /// An escaped reference; `text` is what it stands for.
    Escaped { text: &'t str, parameter: usize },
    /// What has the form of a reference and names no parameter; it stays.
    Unknown { name: &'t str, style: Style, span: Range<usize> },
}

/// Splits `text`. `declared` gives the place of a parameter.
pub(crate) fn scan<'t, D: Fn(&str) -> Option<usize>>(
    text: &'t str,
    dialect: Dialect,
    declared: D,
) -> Tokens<'t, D> {
    Tokens { text, dialect, declared, at: 0, pending: None }
}

/// Whether there is anything to scan at all.
pub(crate) fn may_refer(text: &str) -> bool {
    memchr(b'$', text.as_bytes()).is_some()
}

/// The iterator of [`scan`].
pub(crate) struct Tokens<'t, D> {
    text: &'t str,
    dialect: Dialect,
    declared: D,
    at: usize,
    pending: Option<Token<'t>>,
}

impl<'t, D: Fn(&str) -> Option<usize>> Iterator for Tokens<'t, D> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        if let Some(token) = self.pending.take() {
            return Some(token);
        }
        let start = self.at;
        if start >= self.text.len() {
            return None;
        }
        let mut search = start;
        while let Some(offset) = memchr(b'$', &self.text.as_bytes()[search..]) {
            let sign = search + offset;
            let (token, end) = match self.dialect {
                Dialect::Proposal => self.proposal(sign),
                Dialect::OpenShift => self.openshift(sign),
            };
            let Some(token) = token else {
                search = end;
                continue;
            };
            self.at = end;
            if sign == start {
                return Some(token);
            }
            self.pending = Some(token);
            return Some(Token::Text(&self.text[start..sign]));
        }
        self.at = self.text.len();
        Some(Token::Text(&self.text[start..]))
    }
}

impl<'t, D: Fn(&str) -> Option<usize>> Tokens<'t, D> {
    /// What begins at a `$`, and where it ends; or where to go on.
    fn proposal(&self, sign: usize) -> (Option<Token<'t>>, usize) {
        if self.text.as_bytes().get(sign + 1) == Some(&b'$') {
            let escaped = form(self.text, sign + 1, Dialect::Proposal);
            let known = escaped.and_then(|form| Some(((self.declared)(form.name)?, form.span.end)));
            return match known {
                Some((parameter, end)) => {
                    (Some(Token::Escaped { text: &self.text[sign + 1..end], parameter }), end)
                }
                None => (None, sign + 2),
            };
        }
        match form(self.text, sign, Dialect::Proposal) {
            Some(form) => {
                let end = form.span.end;
                (Some(self.token(form)), end)
            }
            None => (None, sign + 1),
        }
    }

    fn openshift(&self, sign: usize) -> (Option<Token<'t>>, usize) {
        match form(self.text, sign, Dialect::OpenShift) {
            // Inside of other text the double form is text.
            Some(form) if form.style == Style::Unquoted && form.span != (0..self.text.len()) => {
                (None, form.span.end)
            }
            Some(form) => {
                let end = form.span.end;
                (Some(self.token(form)), end)
            }
            None => (None, sign + 1),
        }
    }

    fn token(&self, form: Form<'t>) -> Token<'t> {
        match (self.declared)(form.name) {
            Some(parameter) => Token::Parameter { parameter, style: form.style, span: form.span },
            None => Token::Unknown { name: form.name, style: form.style, span: form.span },
        }
    }
}

/// What has the form of a reference.
pub(crate) struct Form<'t> {
    pub(crate) name: &'t str,
    pub(crate) style: Style,
    pub(crate) span: Range<usize>,
}

/// The reference that begins at the `$` at `sign`, by its form alone.
pub(crate) fn form(text: &str, sign: usize, dialect: Dialect) -> Option<Form<'_>> {
    let (open, close) = match dialect {
        Dialect::Proposal => (b'(', ")"),
        Dialect::OpenShift => (b'{', "}"),
    };
    let bytes = text.as_bytes();
    if bytes.get(sign + 1) != Some(&open) {
        return None;
    }
    let is_double = bytes.get(sign + 2) == Some(&open);
    let start = if is_double { sign + 3 } else { sign + 2 };
    let is_name = |byte: &u8| match dialect {
        // What others write between such signs may have these characters too, and may be a slip of the pen.
        Dialect::Proposal => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        Dialect::OpenShift => byte.is_ascii_alphanumeric() || *byte == b'_',
    };
    let length = bytes[start..].iter().take_while(|byte| is_name(byte)).count();
    let name = &text[start..start + length];
    let behind = text[start + length..].strip_prefix(close).filter(|_| length > 0)?;
    let (style, closers) = match is_double {
        false => (Style::Quoted, 1),
        true => {
            behind.strip_prefix(close)?;
            (Style::Unquoted, 2)
        }
    };
    Some(Form { name, style, span: sign..start + length + closers })
}

/// Whether a text can be the name of a parameter: `^[a-zA-Z0-9_]+$`, as OpenShift has it.
pub(crate) fn is_parameter_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
