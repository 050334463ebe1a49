//! Packs a directory as a layer: sorted, on one file system, with attributes and hard links.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::ImportError;

/// Packs everything below `root` into a new tar file; `except` (the store itself) is left out wherever it lies.
pub(super) fn pack(root: &Path, to: &Path, except: &Path) -> Result<(), ImportError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ImportError::Io { action: "read", path, source }
    };
    let root = root.canonicalize().map_err(failed(root))?;
    let device = root.metadata().map_err(failed(&root))?.dev();
    let file = File::create_new(to).map_err(failed(to))?;
    let mut packer = Packer {
        archive: tar::Builder::new(BufWriter::with_capacity(256 * 1024, file)),
        linked: BTreeMap::new(),
        device,
        except,
    };
    packer.directory(&root, Path::new("."))?;
    let written = packer
        .archive
        .into_inner()
        .and_then(|writer| writer.into_inner().map_err(|error| error.into_error()));
    written.map(drop).map_err(failed(to))
}

struct Packer<'a> {
    archive: tar::Builder<BufWriter<File>>,
    /// Files with several names: device and number to the first name.
    linked: BTreeMap<(u64, u64), PathBuf>,
    device: u64,
    except: &'a Path,
}

impl Packer<'_> {
    fn directory(&mut self, path: &Path, name: &Path) -> Result<(), ImportError> {
        let failed = |source| ImportError::Io { action: "read", path: path.to_path_buf(), source };
        let metadata = path.symlink_metadata().map_err(failed)?;
        self.entry(path, name, &metadata).map_err(failed)?;
        // Mounted file systems (`/proc`, other disks) are not part of this one.
        if metadata.dev() != self.device {
            return Ok(());
        }
        let mut names: Vec<_> = std::fs::read_dir(path)
            .map_err(failed)?
            .map(|entry| entry.map(|it| it.file_name()))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        names.sort();
        for child in names {
            let (path, name) = (path.join(&child), name.join(&child));
            if path == self.except {
                continue;
            }
            let failed = |source| ImportError::Io { action: "read", path: path.clone(), source };
            let metadata = match path.symlink_metadata() {
                Ok(metadata) => metadata,
                // Removed meanwhile: the directory is in use.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            match metadata.is_dir() {
                true => self.directory(&path, &name)?,
                false => self.entry(&path, &name, &metadata).map_err(failed)?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &Path, metadata: &std::fs::Metadata) -> io::Result<()> {
        let kind = metadata.file_type();
        if kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
            return Ok(());
        }
        let mut header = tar::Header::new_gnu();
        header.set_mode(metadata.mode() & 0o7777);
        header.set_uid(metadata.uid().into());
        header.set_gid(metadata.gid().into());
        header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
        header.set_size(0);
        if kind.is_symlink() {
            header.set_entry_type(tar::EntryType::Symlink);
            return self.archive.append_link(&mut header, name, std::fs::read_link(path)?);
        }
        if kind.is_fifo() {
            header.set_entry_type(tar::EntryType::Fifo);
            return self.archive.append_data(&mut header, name, io::empty());
        }
        if metadata.is_file() && metadata.nlink() > 1 {
            match self.linked.get(&(metadata.dev(), metadata.ino())) {
                Some(first) => {
                    header.set_entry_type(tar::EntryType::Link);
                    return self.archive.append_link(&mut header, name, first);
                }
                None => drop(self.linked.insert((metadata.dev(), metadata.ino()), name.to_path_buf())),
            }
        }
        let file = File::open(path)?;
        self.attributes(&file)?;
        match metadata.is_dir() {
            true => {
                header.set_entry_type(tar::EntryType::Directory);
                self.archive.append_data(&mut header, name, io::empty())
            }
            false => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(metadata.len());
                // A file that shrinks meanwhile is filled up, one that grows is cut: the header is written already.
                let content = file.chain(io::repeat(0)).take(metadata.len());
                self.archive.append_data(&mut header, name, content)
            }
        }
    }

    fn attributes(&mut self, file: &File) -> io::Result<()> {
        let mut names = vec![0; 64 * 1024];
        let Ok(length) = rustix::fs::flistxattr(file, &mut names) else { return Ok(()) };
        let mut records: Vec<(String, Vec<u8>)> = Vec::new();
        let mut value = vec![0; 64 * 1024];
        for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let Ok(size) = rustix::fs::fgetxattr(file, OsStr::from_bytes(name), &mut value) else { continue };
            if let Ok(name) = std::str::from_utf8(name) {
                records.push((format!("SCHILY.xattr.{name}"), value[..size].to_vec()));
            }
        }
        // Their order on the disk is no part of the content.
        records.sort();
        match records.is_empty() {
            true => Ok(()),
            false => self
                .archive
                .append_pax_extensions(records.iter().map(|(key, value)| (key.as_str(), &value[..]))),
        }
    }
}
