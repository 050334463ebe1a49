//! Names in archives: what may be the path of an entry. Pure.

use crate::limits::Limits;

/// Why a path in an archive is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A `..` component. Harmless or not, no honest layer has one.
    #[error("path contains '..'")]
    ParentComponent,
    /// A NUL byte.
    #[error("path contains a NUL byte")]
    Nul,
    /// Longer than the kernel takes.
    #[error("path is too long")]
    TooLong,
    /// One component is longer than the kernel takes.
    #[error("a component of the path is too long")]
    NameTooLong,
    /// Too many components.
    #[error("path is too deep")]
    TooDeep,
}

/// A relative path without empty, `.` and `..` components. Empty for the root of the layer itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CleanPath(Vec<u8>);

impl CleanPath {
    /// Cleans a path of an archive. A leading slash means the root of the layer.
    pub(crate) fn parse(path: &[u8], limits: &Limits) -> Result<CleanPath, NameError> {
        if path.contains(&0) {
            return Err(NameError::Nul);
        }
        if path.len() > limits.path_bytes {
            return Err(NameError::TooLong);
        }
        let mut clean = Vec::with_capacity(path.len());
        let mut depth = 0;
        for component in path.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => continue,
                b".." => return Err(NameError::ParentComponent),
                _ if component.len() > limits.name_bytes => return Err(NameError::NameTooLong),
                _ => {}
            }
            depth += 1;
            if depth > limits.path_depth {
                return Err(NameError::TooDeep);
            }
            if !clean.is_empty() {
                clean.push(b'/');
            }
            clean.extend_from_slice(component);
        }
        Ok(CleanPath(clean))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The directory and the last component; `None` for the root.
    pub(crate) fn split(&self) -> Option<(&[u8], &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (b"", &self.0),
        })
    }
}

/// What the last component of a path means in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameMeaning<'a> {
    /// An ordinary file.
    File,
    /// This name of a lower layer is gone.
    Whiteout(&'a [u8]),
    /// Everything that lower layers have in this directory is gone.
    Opaque,
    /// Book-keeping of a file system of the past.
    Reserved,
    /// A whiteout of nothing, `.` or `..`.
    Malformed,
}

/// Reads the last component of a path.
pub(crate) fn meaning(name: &[u8]) -> NameMeaning<'_> {
    match name.strip_prefix(b".wh.") {
        None => NameMeaning::File,
        Some(b".wh..opq") => NameMeaning::Opaque,
        Some(rest) if rest.starts_with(b".wh.") => NameMeaning::Reserved,
        Some(b"" | b"." | b"..") => NameMeaning::Malformed,
        Some(rest) => NameMeaning::Whiteout(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_or_refused() {
        let clean = |path: &[u8]| CleanPath::parse(path, &Limits::DEFAULT).map(|it| it.0);
        assert_eq!(clean(b"./a//b/./c/"), Ok(b"a/b/c".to_vec()));
        assert_eq!(clean(b"/etc/passwd"), Ok(b"etc/passwd".to_vec()));
        assert_eq!(clean(b"./"), Ok(Vec::new()));
        assert_eq!(clean(b"a/..b/...c"), Ok(b"a/..b/...c".to_vec()));
        assert_eq!(clean(b"a/../b"), Err(NameError::ParentComponent));
        assert_eq!(clean(b".."), Err(NameError::ParentComponent));
        assert_eq!(clean(b"a\0b"), Err(NameError::Nul));
        assert_eq!(clean(&[b'a'; 256]), Err(NameError::NameTooLong));
        assert_eq!(clean(&b"a/".repeat(300)), Err(NameError::TooDeep));
        assert_eq!(clean(&b"a/".repeat(2048)), Err(NameError::TooLong));
    }

    #[test]
    fn whiteouts_are_told_from_files() {
        assert_eq!(meaning(b"a"), NameMeaning::File);
        assert_eq!(meaning(b".wh"), NameMeaning::File);
        assert_eq!(meaning(b".wh.a"), NameMeaning::Whiteout(b"a"));
        assert_eq!(meaning(b".wh..wh..opq"), NameMeaning::Opaque);
        assert_eq!(meaning(b".wh..wh.plnk"), NameMeaning::Reserved);
        for name in [&b".wh."[..], b".wh..", b".wh..."] {
            assert_eq!(meaning(name), NameMeaning::Malformed);
        }
    }
}
