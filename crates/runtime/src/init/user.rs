//! Which user and groups a process gets, and where its home is.
//!
//! `/etc/passwd` and `/etc/group` come from the image: they are opened inside the container's root, must be regular
//! files, and are read up to a limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use crate::launch::UserRequest;

/// Larger files are not looked at.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Largest user or group number: the next one means "unchanged" to the kernel.
const MAX_ID: u32 = u32::MAX - 1;

/// What the process runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedUser {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Without the primary group unless it was asked for.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

/// Why the user could not be determined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveUserError {
    #[error("the image has no user {name:?} in its /etc/passwd; use a number, or an image that has the user")]
    NoUser { name: String },
    #[error(
        "the image has no group {name:?} in its /etc/group; use a number, or an image that has the group"
    )]
    NoGroup { name: String },
    #[error("{number} is no user or group number: the largest is {MAX_ID}")]
    OutOfRange { number: String },
    #[error("cannot read {file} of the image: {}", super::error::plain(source))]
    Read {
        file: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{file} of the image is larger than {MAX_FILE_BYTES} bytes; it is not read")]
    TooLarge { file: &'static str },
}

/// The accounts of an image; a file that cannot be used only matters once a name must be looked up in it.
pub(crate) struct Accounts {
    passwd: Result<String, ResolveUserError>,
    group: Result<String, ResolveUserError>,
}

impl Accounts {
    /// Reads both files below `root`.
    pub(crate) fn read(root: BorrowedFd<'_>) -> Self {
        Self { passwd: read_capped(root, "/etc/passwd"), group: read_capped(root, "/etc/group") }
    }

    fn passwd(&self) -> impl Iterator<Item = PasswdLine<'_>> {
        self.passwd.as_deref().unwrap_or_default().lines().filter_map(PasswdLine::parse)
    }

    fn group(&self) -> impl Iterator<Item = GroupLine<'_>> {
        self.group.as_deref().unwrap_or_default().lines().filter_map(GroupLine::parse)
    }
}

struct PasswdLine<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

impl<'a> PasswdLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).unwrap_or_default();
        Some(Self { name, uid, gid, home })
    }
}

struct GroupLine<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

impl<'a> GroupLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let gid = fields.nth(1)?.parse().ok()?;
        Some(Self { name, gid, members: fields.next().unwrap_or_default() })
    }
}

/// Decides user, groups and home.
pub(crate) fn resolve_user(
    request: &UserRequest,
    accounts: &Accounts,
) -> Result<ResolvedUser, ResolveUserError> {
    let (image_user, image_group) = match request.image_user.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (request.image_user.as_str(), None),
    };
    let named = request.name.as_deref().filter(|name| !name.is_empty());
    // The pod's word comes first; then the image's; then root.
    let (wanted, group) = match (request.uid, named) {
        (Some(uid), _) => (uid.to_string(), None),
        (None, Some(name)) => (name.to_owned(), None),
        (None, None) if image_user.is_empty() => ("0".to_owned(), image_group),
        (None, None) => (image_user.to_owned(), image_group),
    };
    let entry = match parse_id(&wanted)? {
        Some(uid) => accounts.passwd().find(|line| line.uid == uid).map_or_else(
            || Account { uid, gid: 0, name: None, home: String::new() },
            |line| Account {
                uid,
                gid: line.gid,
                name: Some(line.name.to_owned()),
                home: line.home.to_owned(),
            },
        ),
        None => {
            let found = accounts.passwd().find(|line| line.name == wanted);
            match (found, &accounts.passwd) {
                (Some(line), _) => Account {
                    uid: line.uid,
                    gid: line.gid,
                    name: Some(line.name.to_owned()),
                    home: line.home.to_owned(),
                },
                (None, Err(error)) => return Err(error.repeated()),
                (None, Ok(_)) => return Err(ResolveUserError::NoUser { name: wanted }),
            }
        }
    };
    let gid = match (request.gid, group.filter(|group| !group.is_empty())) {
        (Some(gid), _) => in_range(gid)?,
        (None, None) => entry.gid,
        (None, Some(group)) => match parse_id(group)? {
            Some(gid) => gid,
            None => match (accounts.group().find(|line| line.name == group), &accounts.group) {
                (Some(line), _) => line.gid,
                (None, Err(error)) => return Err(error.repeated()),
                (None, Ok(_)) => return Err(ResolveUserError::NoGroup { name: group.to_owned() }),
            },
        },
    };
    let mut groups = vec![gid];
    if request.merge_image_groups
        && let Some(name) = &entry.name
    {
        groups.extend(
            accounts
                .group()
                .filter(|line| line.members.split(',').any(|member| member == name))
                .map(|line| line.gid),
        );
    }
    for group in &request.supplemental_groups {
        groups.push(in_range(*group)?);
    }
    let mut unique = Vec::with_capacity(groups.len());
    for group in groups {
        if !unique.contains(&group) {
            unique.push(group);
        }
    }
    let home = if entry.home.is_empty() { "/".to_owned() } else { entry.home };
    Ok(ResolvedUser { uid: in_range(entry.uid)?, gid, groups: unique, home })
}

struct Account {
    uid: u32,
    gid: u32,
    name: Option<String>,
    home: String,
}

/// A number, or nothing when it is a name.
fn parse_id(text: &str) -> Result<Option<u32>, ResolveUserError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let number = text.parse().map_err(|_| ResolveUserError::OutOfRange { number: text.to_owned() })?;
    in_range(number).map(Some)
}

fn in_range(number: u32) -> Result<u32, ResolveUserError> {
    if number <= MAX_ID {
        Ok(number)
    } else {
        Err(ResolveUserError::OutOfRange { number: number.to_string() })
    }
}

impl ResolveUserError {
    /// The same answer again: the error of a file is kept, and may be needed more than once.
    fn repeated(&self) -> Self {
        match self {
            Self::NoUser { name } => Self::NoUser { name: name.clone() },
            Self::NoGroup { name } => Self::NoGroup { name: name.clone() },
            Self::OutOfRange { number } => Self::OutOfRange { number: number.clone() },
            Self::Read { file, source } => {
                Self::Read { file, source: io::Error::new(source.kind(), source.to_string()) }
            }
            Self::TooLarge { file } => Self::TooLarge { file },
        }
    }
}

fn read_capped(root: BorrowedFd<'_>, file: &'static str) -> Result<String, ResolveUserError> {
    let failed = |source: io::Error| ResolveUserError::Read { file, source };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let opened = match rustix::fs::openat2(root, file, flags, Mode::empty(), resolve) {
        Ok(opened) => opened,
        // An image without accounts knows nobody.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(String::new()),
        Err(error) => return Err(failed(error.into())),
    };
    let status = rustix::fs::fstat(&opened).map_err(|error| failed(error.into()))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let mut content = Vec::new();
    File::from(opened).take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(ResolveUserError::TooLarge { file });
    }
    // A line in another encoding is a line about somebody else.
    Ok(String::from_utf8_lossy(&content).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        Accounts {
            passwd: Ok(
                "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1000:1001:App:/srv/app:/bin/sh\n".to_owned()
            ),
            group: Ok("root:x:0:\nstaff:x:50:app,other\nwheel:x:10:other\n".to_owned()),
        }
    }

    fn request(image_user: &str) -> UserRequest {
        UserRequest { image_user: image_user.to_owned(), merge_image_groups: true, ..Default::default() }
    }

    #[test]
    fn the_image_decides_where_the_pod_says_nothing() {
        let rows = [
            ("", (0, 0, vec![0], "/root")),
            ("app", (1000, 1001, vec![1001, 50], "/srv/app")),
            ("1000", (1000, 1001, vec![1001, 50], "/srv/app")),
            ("app:staff", (1000, 50, vec![50], "/srv/app")),
            ("app:7", (1000, 7, vec![7, 50], "/srv/app")),
            ("4242", (4242, 0, vec![0], "/")),
            (":staff", (0, 50, vec![50], "/root")),
        ];
        for (image_user, (uid, gid, groups, home)) in rows {
            let found = resolve_user(&request(image_user), &accounts()).unwrap();
            assert_eq!(found, ResolvedUser { uid, gid, groups, home: home.to_owned() }, "{image_user}");
        }
    }

    #[test]
    fn the_pods_word_comes_first() {
        let wish = UserRequest {
            uid: Some(1000),
            gid: Some(3000),
            supplemental_groups: vec![2000, 3000, 2000],
            ..request("root")
        };
        let found = resolve_user(&wish, &accounts()).unwrap();
        assert_eq!((found.uid, found.gid, found.groups), (1000, 3000, vec![3000, 50, 2000]));
        let strict = UserRequest { merge_image_groups: false, ..wish };
        assert_eq!(resolve_user(&strict, &accounts()).unwrap().groups, vec![3000, 2000]);
    }

    #[test]
    fn nobody_becomes_root_by_a_number_that_wraps() {
        for number in ["4294967295", "4294967296", "18446744073709551616"] {
            assert!(
                matches!(
                    resolve_user(&request(number), &accounts()),
                    Err(ResolveUserError::OutOfRange { .. })
                ),
                "{number}"
            );
        }
        let wish = UserRequest { uid: Some(u32::MAX), ..Default::default() };
        assert!(resolve_user(&wish, &accounts()).is_err());
    }

    #[test]
    fn a_missing_name_is_an_error_and_a_missing_number_is_not() {
        assert!(matches!(
            resolve_user(&request("nobody"), &accounts()),
            Err(ResolveUserError::NoUser { .. })
        ));
        assert!(matches!(
            resolve_user(&request("app:none"), &accounts()),
            Err(ResolveUserError::NoGroup { .. })
        ));
        assert!(matches!(resolve_user(&request("-1"), &accounts()), Err(ResolveUserError::NoUser { .. })));
    }

    #[test]
    fn a_file_that_is_too_large_matters_only_when_a_name_is_looked_up() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("etc")).unwrap();
        std::fs::write(directory.path().join("etc/passwd"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
        let root = File::open(directory.path()).unwrap();
        let accounts = Accounts::read(std::os::fd::AsFd::as_fd(&root));
        assert_eq!(resolve_user(&request("5"), &accounts).unwrap().uid, 5);
        assert!(matches!(resolve_user(&request("app"), &accounts), Err(ResolveUserError::TooLarge { .. })));
    }

    #[test]
    fn accounts_are_never_read_from_outside_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::write(directory.path().join("secret"), "app:x:7:7::/:\n").unwrap();
        std::os::unix::fs::symlink("../../secret", root.join("etc/passwd")).unwrap();
        let root = File::open(&root).unwrap();
        let accounts = Accounts::read(std::os::fd::AsFd::as_fd(&root));
        assert!(matches!(resolve_user(&request("app"), &accounts), Err(ResolveUserError::NoUser { .. })));
    }
}
