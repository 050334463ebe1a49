//! The durable backend: one SQLite file in WAL mode, synced at each commit, readable by its owner only.
//!
//! One row an object; the row's id is the revision that created the object, so that inserts append and updates need no index.
//! Each row carries a checksum. A file that cannot be trusted is moved aside, never deleted, and what can be read of it is kept.
//! A small reserve file is given up when the disk is full, so that removals still find room for their log records.

mod open;

use std::fs::File;
use std::path::PathBuf;

use rusqlite::{Connection, ErrorCode, params};

use super::{Backend, BackendError, Change, Loaded};
use crate::object::Object;

/// Room that is kept back for a full disk, in bytes: as much as the log can hold, so that with it a checkpoint always
/// succeeds. After that the log is written again from its beginning, in room that it already has, and removals go on.
const RESERVE: u64 = 8 << 20;

/// Log pages (4 KiB) after which SQLite checkpoints by itself even when the writer is never idle. One batch may exceed it.
const CHECKPOINT_PAGES: i64 = 1024;

/// A damaged file that was moved aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// Where the damaged file is now; its log, if it had one, is beside it.
    pub moved_to: PathBuf,
    /// What was wrong.
    pub reason: String,
    /// How many objects could be read and are kept.
    pub kept: usize,
}

/// Objects in a SQLite file.
pub struct SqliteBackend {
    connection: Connection,
    /// Given up after the connection.
    _claim: open::Claim,
    path: PathBuf,
    loaded: Option<Loaded>,
    quarantine: Option<Quarantine>,
    reserve_held: bool,
}

impl std::fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteBackend").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteBackend {
    /// What was found damaged and moved aside while opening.
    pub fn quarantine(&self) -> Option<&Quarantine> {
        self.quarantine.as_ref()
    }

    fn reserve_path(&self) -> PathBuf {
        open::sibling(&self.path, "-reserve")
    }

    /// Writes the reserve file anew; true when the disk had room for it.
    fn take_reserve(&mut self) -> bool {
        let path = self.reserve_path();
        let made = open::write_reserve(&path, RESERVE).is_ok();
        if !made {
            // Half a reserve is of use to nobody and takes what a removal may need.
            let _ = File::create(&path);
        }
        self.reserve_held = made;
        made
    }

    fn give_up_reserve(&mut self) {
        if self.reserve_held {
            let _ = File::create(self.reserve_path());
            self.reserve_held = false;
        }
    }

    fn write(&mut self, revision: u64, changes: &[Change]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO object (id, grp, resource, namespace, name, revision, revision_at, sum, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            let mut replace = transaction.prepare_cached(
                "UPDATE object SET revision = ?2, revision_at = ?3, sum = ?4, value = ?5 WHERE id = ?1",
            )?;
            let mut remove = transaction.prepare_cached("DELETE FROM object WHERE id = ?1")?;
            for change in changes {
                match change {
                    Change::Insert(object) => {
                        let key = object.key();
                        insert.execute(params![
                            signed(object.created()),
                            key.collection().group(),
                            key.collection().resource(),
                            key.namespace(),
                            key.name(),
                            signed(object.revision()),
                            signed(object.revision_at() as u64),
                            checksum(object),
                            &object.value()[..],
                        ])?;
                    }
                    Change::Replace(object) => {
                        replace.execute(params![
                            signed(object.created()),
                            signed(object.revision()),
                            signed(object.revision_at() as u64),
                            checksum(object),
                            &object.value()[..],
                        ])?;
                    }
                    Change::Remove { created } => {
                        remove.execute(params![signed(*created)])?;
                    }
                }
            }
            transaction
                .prepare_cached("UPDATE last SET revision = ?1")?
                .execute(params![signed(revision)])?;
        }
        transaction.commit()
    }
}

impl Backend for SqliteBackend {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        Ok(self.loaded.take().unwrap_or_default())
    }

    fn commit(&mut self, revision: u64, changes: &[Change]) -> Result<(), BackendError> {
        match self.write(revision, changes) {
            Ok(()) => Ok(()),
            Err(error) if is_full(&error) => {
                // SQLite has rolled back. With the reserve given up, the same batch may fit; the caller decides which
                // writes are worth it, so the reserve is only released here.
                self.give_up_reserve();
                Err(BackendError::Full { reason: error.to_string() })
            }
            Err(error) => Err(BackendError::Failed { reason: error.to_string() }),
        }
    }

    fn has_room(&mut self) -> bool {
        if self.reserve_held {
            return true;
        }
        // What was removed is still in the files: move the log into the database, then give free pages back. Each step may
        // itself lack room, and then the next attempt starts where this one ended.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if self.connection.execute_batch("PRAGMA incremental_vacuum(2048)").is_ok() {
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        self.take_reserve()
    }

    fn idle(&mut self) -> Result<(), BackendError> {
        // The database file may grow here; a full disk only means that the log stays where it is.
        match self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            Ok(()) => Ok(()),
            Err(error) if is_full(&error) => Ok(()),
            Err(error) => Err(BackendError::Failed { reason: error.to_string() }),
        }
    }
}

impl Drop for SqliteBackend {
    fn drop(&mut self) {
        // A clean end leaves one file; a failure here loses nothing, the log is read at the next start.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

fn is_full(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.code == ErrorCode::DiskFull)
}

/// SQLite integers are signed; revisions stay far below the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// FNV-1a over everything that a row says, each part with its length. It finds accidents, not forgeries.
fn checksum(object: &Object) -> i64 {
    let key = object.key();
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    let mut mix = |bytes: &[u8]| {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            sum ^= u64::from(*byte);
            sum = sum.wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    mix(key.collection().group().as_bytes());
    mix(key.collection().resource().as_bytes());
    mix(key.namespace().as_bytes());
    mix(key.name().as_bytes());
    mix(&object.revision().to_le_bytes());
    mix(&object.created().to_le_bytes());
    mix(object.value());
    sum as i64
}
