//! The tokens of a file (`--token-auth-file`): lines of `TOKEN,USER,UID,"GROUP,GROUP"`, as kube-apiserver reads them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Digest, digest_of};
use crate::identity::Identity;

/// Largest file that is read.
const LARGEST: u64 = 4 << 20;

/// Why a file of tokens cannot be used. Never shows a token.
#[derive(Debug, thiserror::Error)]
pub enum FixedTokensError {
    /// The file cannot be read.
    #[error("cannot read the token file {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("the token file {} is larger than {LARGEST} bytes", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// A line is wrong.
    #[error("{}:{line}: {problem}; a line is TOKEN,USER,UID[,\"GROUP,GROUP\"]", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Tokens that never change, with whom they name.
#[derive(Clone, Default)]
pub struct FixedTokens(HashMap<Digest, Identity>);

impl std::fmt::Debug for FixedTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FixedTokens({})", self.0.len())
    }
}

impl FixedTokens {
    /// Reads a file.
    ///
    /// # Errors
    /// See [`FixedTokensError`].
    pub fn read(path: &Path) -> Result<FixedTokens, FixedTokensError> {
        let failed = |source| FixedTokensError::File { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > LARGEST {
            return Err(FixedTokensError::TooLarge { path: path.to_owned() });
        }
        let content = std::fs::read_to_string(path).map_err(failed)?;
        FixedTokens::parse(&content).map_err(|(line, problem)| FixedTokensError::Line {
            path: path.to_owned(),
            line,
            problem,
        })
    }

    /// Reads the lines of a file.
    fn parse(content: &str) -> Result<FixedTokens, (usize, &'static str)> {
        let mut tokens = HashMap::new();
        for (index, line) in content.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |problem| (index + 1, problem);
            let fields = fields(line).ok_or_else(|| wrong("a quote has no end"))?;
            let [token, user, uid, rest @ ..] = fields.as_slice() else {
                return Err(wrong("there are less than three fields"));
            };
            if token.is_empty() {
                return Err(wrong("the token is empty"));
            }
            if user.is_empty() {
                return Err(wrong("the user is empty"));
            }
            let groups = rest.first().map(String::as_str).unwrap_or_default().split(',');
            let groups = groups.map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned).collect();
            let identity = Identity::new(user.as_str(), groups).with_uid(uid).authenticated();
            tokens.insert(digest_of(token), identity);
        }
        Ok(FixedTokens(tokens))
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<&Identity> {
        self.0.get(digest)
    }
}

/// The fields of a line; a quoted one may hold commas, and a quote that stands twice.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        let field = fields.last_mut()?;
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if field.trim().is_empty() => {
                field.clear();
                quoted = true;
            }
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::FixedTokens;
    use crate::tokens::digest_of;

    #[test]
    fn lines_are_read_as_kube_apiserver_reads_them() {
        let tokens =
            FixedTokens::parse("abc,jane,7,\"ops, dev\"\r\n\nd\"e,joe,\nx,admin,1,system:masters,more\n")
                .expect("read");
        let jane = tokens.get(&digest_of("abc")).expect("known");
        assert_eq!(jane.user_info()["uid"], "7");
        assert_eq!(jane.groups(), ["ops", "dev", "system:authenticated"]);
        assert!(tokens.get(&digest_of("d\"e")).is_some());
        assert!(tokens.get(&digest_of("")).is_none());
        for (text, line) in [("a,b", 1), ("\n,b,c", 2), ("a,,c", 1), ("a,b,c,\"d", 1)] {
            assert_eq!(FixedTokens::parse(text).expect_err("wrong").0, line, "{text}");
        }
        let shown = format!("{tokens:?}");
        assert!(!shown.contains("abc"), "{shown}");
    }
}
