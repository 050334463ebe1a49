//! Writes the files of a volume so that a container sees either all of the old or all of the new ones:
//!
//! ```text
//! volume/..2026_11_21_04_50_07.123/dir/key    the files
//! volume/..data -> ..2026_11_21_04_50_07.123  swapped by one rename
//! volume/dir -> ..data/dir                    what containers open
//! ```

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use super::VolumeError;
use super::payload::Payload;
use crate::files;

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";

/// Writes `payload` unless the volume holds exactly that already.
pub(super) fn write(dir: &Path, payload: &Payload, fs_group: Option<u32>) -> Result<(), VolumeError> {
    files::create_dirs(dir).map_err(VolumeError::fs("cannot make the directory of the volume"))?;
    open_to(dir, fs_group).map_err(VolumeError::fs("cannot set the mode of the volume"))?;
    if is_current(dir, payload, fs_group) {
        return Ok(());
    }
    replace(dir, payload, fs_group).map_err(VolumeError::fs("cannot write the files of the volume"))
}

fn open_to(dir: &Path, fs_group: Option<u32>) -> io::Result<()> {
    if let Some(gid) = fs_group {
        chown(dir, None, Some(gid))?;
    }
    let mode = if fs_group.is_some() { 0o2755 } else { 0o755 };
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode))
}

/// The mode that a file gets: with an fsGroup its group may read it.
fn effective_mode(mode: u32, fs_group: Option<u32>) -> u32 {
    match fs_group {
        Some(_) => mode | 0o040,
        None => mode,
    }
}

fn is_current(dir: &Path, payload: &Payload, fs_group: Option<u32>) -> bool {
    let data = dir.join(DATA);
    let Ok(mut present) = files_below(&data, Path::new("")) else {
        return false;
    };
    for (path, file) in payload.files() {
        let full = data.join(path);
        let same = std::fs::read(&full).is_ok_and(|bytes| bytes == file.bytes.expose())
            && std::fs::metadata(&full).is_ok_and(|metadata| {
                metadata.permissions().mode() & 0o7777 == effective_mode(file.mode, fs_group)
            });
        if !same || !present.remove(Path::new(path)) {
            return false;
        }
    }
    present.is_empty() && data.exists()
}

fn files_below(dir: &Path, prefix: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir.join(prefix))? {
        let entry = entry?;
        let path = prefix.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files_below(dir, &path)?);
        } else {
            found.insert(path);
        }
    }
    Ok(found)
}

fn replace(dir: &Path, payload: &Payload, fs_group: Option<u32>) -> io::Result<()> {
    let old = std::fs::read_link(dir.join(DATA)).ok();
    let name = fresh_name(dir);
    let new = dir.join(&name);
    make_dir(&new, fs_group)?;
    for (path, file) in payload.files() {
        let full = new.join(path);
        make_parents(&new, Path::new(path), fs_group)?;
        let mut handle = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&full)?;
        io::Write::write_all(&mut handle, file.bytes.expose())?;
        if fs_group.is_some() || file.owner.is_some() {
            std::os::unix::fs::fchown(&handle, file.owner, fs_group)?;
        }
        // Set after the owner: a change of owner clears set-ID bits, and umask plays no part here.
        handle.set_permissions(std::fs::Permissions::from_mode(effective_mode(file.mode, fs_group)))?;
    }
    let link = dir.join(DATA_NEW);
    remove_if_there(&link)?;
    symlink(&name, &link)?;
    std::fs::rename(&link, dir.join(DATA))?;
    link_names(dir, payload)?;
    remove_stale(dir, payload, &name)?;
    if let Some(old) = old.filter(|old| *old != Path::new(&name)) {
        files::remove_dir_all(&dir.join(old))?;
    }
    Ok(())
}

fn fresh_name(dir: &Path) -> String {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let stamp = now.strftime("..%Y_%m_%d_%H_%M_%S").to_string();
    (0_u64..)
        .map(|number| format!("{stamp}.{:09}", now.subsec_nanosecond() as u64 + number))
        .find(|name| !dir.join(name).exists())
        .expect("there are more numbers than directories")
}

fn make_dir(dir: &Path, fs_group: Option<u32>) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        result => result?,
    }
    open_to(dir, fs_group)
}

fn make_parents(root: &Path, path: &Path, fs_group: Option<u32>) -> io::Result<()> {
    let mut dir = root.to_owned();
    for component in path.parent().into_iter().flat_map(Path::components) {
        dir.push(component);
        make_dir(&dir, fs_group)?;
    }
    Ok(())
}

/// The names that containers see, one for each first component.
fn visible_names(payload: &Payload) -> BTreeSet<String> {
    payload
        .files()
        .filter_map(|(path, _)| path.split('/').find(|part| !part.is_empty()).map(str::to_owned))
        .collect()
}

fn link_names(dir: &Path, payload: &Payload) -> io::Result<()> {
    for name in visible_names(payload) {
        let link = dir.join(&name);
        let target = Path::new(DATA).join(&name);
        if std::fs::read_link(&link).ok().as_deref() == Some(target.as_path()) {
            continue;
        }
        remove_if_there(&link)?;
        symlink(target, link)?;
    }
    Ok(())
}

fn remove_stale(dir: &Path, payload: &Payload, current: &str) -> io::Result<()> {
    let wanted = visible_names(payload);
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name == DATA || name == current || wanted.contains(&name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            files::remove_dir_all(&entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
