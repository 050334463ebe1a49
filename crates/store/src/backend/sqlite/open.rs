//! Opening the SQLite file: permissions, exclusive use, format, loading, and moving a damaged file aside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{CHECKPOINT_PAGES, Quarantine, RESERVE, SqliteBackend, checksum};
use crate::backend::{Backend, Change, Loaded};
use crate::error::OpenError;
use crate::key::{Collection, Key};
use crate::object::Object;

/// The format that this program writes, kept in `PRAGMA user_version`.
const FORMAT: i64 = 1;

/// How far the revision jumps when the last one given before a damage is not known for sure.
const REVISION_JUMP: u64 = 1_000_000;

const SCHEMA: &str = "
    CREATE TABLE object (
        id INTEGER PRIMARY KEY,
        grp TEXT NOT NULL,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        revision INTEGER NOT NULL,
        revision_at INTEGER NOT NULL,
        sum INTEGER NOT NULL,
        value BLOB NOT NULL
    ) STRICT;
    CREATE TABLE last (revision INTEGER NOT NULL) STRICT;
    INSERT INTO last (revision) VALUES (0);
    PRAGMA user_version = 1;
";

impl SqliteBackend {
    /// Opens the file, making it (0600) and its directory (0700) when missing. A damaged file is moved aside and a new
    /// one is begun with what could be read; see [`SqliteBackend::quarantine`].
    ///
    /// # Errors
    /// See [`OpenError`]; a file that another process uses or that is newer than this program is left untouched.
    pub fn open(path: &Path) -> Result<SqliteBackend, OpenError> {
        let claim = Claim::take(path)?;
        match open_once(path, &claim)? {
            Attempt::Sound { connection, loaded } => Ok(finish(path, claim, connection, loaded, None)),
            Attempt::Damaged { reason, loaded } => restart_from(path, reason, loaded),
        }
    }
}

/// The file, held open and locked for as long as the store lives.
///
/// SQLite's own lock is not enough: it is a POSIX lock, which the system drops as soon as this process closes any
/// descriptor of the file. This one is bound to the descriptor that is kept here.
pub(super) struct Claim(File);

impl Claim {
    fn take(path: &Path) -> Result<Claim, OpenError> {
        let file = prepare_file(path).map_err(|source| OpenError::File { path: path.to_owned(), source })?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Claim(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::InUse { path: path.to_owned() }),
            Err(error) => Err(OpenError::File { path: path.to_owned(), source: error.into() }),
        }
    }
}

fn finish(
    path: &Path,
    claim: Claim,
    connection: Connection,
    loaded: Loaded,
    quarantine: Option<Quarantine>,
) -> SqliteBackend {
    let mut backend = SqliteBackend {
        connection,
        _claim: claim,
        path: path.to_owned(),
        loaded: Some(loaded),
        quarantine,
        reserve_held: false,
    };
    backend.reserve_held = fs::metadata(backend.reserve_path()).is_ok_and(|found| found.len() == RESERVE)
        || backend.take_reserve();
    backend
}

enum Attempt {
    Sound { connection: Connection, loaded: Loaded },
    Damaged { reason: String, loaded: Loaded },
}

fn open_once(path: &Path, claim: &Claim) -> Result<Attempt, OpenError> {
    let connection = match connect(path) {
        Ok(connection) => connection,
        Err(error) => return classify(path, &error, Loaded::default()),
    };
    let format: i64 = match connection.query_row("PRAGMA user_version", [], |row| row.get(0)) {
        Ok(format) => format,
        Err(error) => return classify(path, &error, Loaded::default()),
    };
    if format > FORMAT {
        return Err(OpenError::NewerFormat { path: path.to_owned(), found: format, known: FORMAT });
    }
    if let Err(error) = configure(&connection, format) {
        return classify(path, &error, Loaded::default());
    }
    if format == FORMAT {
        return match load(&connection) {
            Reading::Whole(loaded) => Ok(Attempt::Sound { connection, loaded }),
            Reading::Unreadable { loaded, error } => classify(path, &error, loaded),
            Reading::Wrong { loaded, reason } => Ok(Attempt::Damaged { reason, loaded }),
        };
    }
    let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    let made = match tables {
        Ok(0) => match begin_store(&connection, path, claim) {
            Ok(outcome) => outcome,
            Err(source) => return Err(OpenError::File { path: path.to_owned(), source }),
        },
        Ok(_) => {
            let reason = "the file is a database, but not a store of coracle".to_owned();
            return Ok(Attempt::Damaged { reason, loaded: Loaded::default() });
        }
        Err(error) => Err(error),
    };
    match made {
        Ok(()) => Ok(Attempt::Sound { connection, loaded: Loaded::default() }),
        Err(error) => classify(path, &error, Loaded::default()),
    }
}

/// Makes the tables. Nothing is promised to anybody yet, so the disk is waited for once at the end instead of at each step.
fn begin_store(connection: &Connection, path: &Path, claim: &Claim) -> io::Result<rusqlite::Result<()>> {
    let made = connection
        .execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))
        .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    if made.is_ok() {
        claim.0.sync_all()?;
        sync_directory(path)?;
    }
    Ok(made.and_then(|()| connection.execute_batch("PRAGMA synchronous = FULL")))
}

/// Sorts a database error: damage leads to quarantine, everything else is handed to the caller.
fn classify(path: &Path, error: &rusqlite::Error, loaded: Loaded) -> Result<Attempt, OpenError> {
    let code = match error {
        rusqlite::Error::SqliteFailure(failure, _) => Some(failure.code),
        _ => None,
    };
    match code {
        // Wrong column types, missing tables and the like: the file is a database, but not ours any more.
        None | Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) => {
            Ok(Attempt::Damaged { reason: error.to_string(), loaded })
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Err(OpenError::InUse { path: path.to_owned() })
        }
        Some(_) => Err(OpenError::Database { path: path.to_owned(), reason: error.to_string() }),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    // Exclusive use for the whole life of the connection; it also spares the shared-memory file.
    connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    Ok(connection)
}

fn configure(connection: &Connection, format: i64) -> rusqlite::Result<()> {
    if format == 0 {
        // Only possible before the first page is written. Lets a full disk get back what was removed.
        connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA auto_vacuum = INCREMENTAL;")?;
    } else {
        connection.execute_batch("PRAGMA synchronous = FULL")?;
    }
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;")?;
    connection.query_row(&format!("PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"), [], |_| Ok(()))
}

enum Reading {
    Whole(Loaded),
    /// The database stopped answering after some objects.
    Unreadable {
        loaded: Loaded,
        error: rusqlite::Error,
    },
    /// The database answers, but what it says cannot be right.
    Wrong {
        loaded: Loaded,
        reason: String,
    },
}

fn load(connection: &Connection) -> Reading {
    let mut loaded = Loaded::default();
    let mut bad_rows = 0usize;
    let outcome = read_rows(connection, &mut loaded, &mut bad_rows);
    let newest = loaded.objects.iter().map(Object::revision).max().unwrap_or(0);
    let last = connection.query_row("SELECT revision FROM last", [], |row| row.get(0)).map(unsigned);
    loaded.revision = newest.max(last.as_ref().copied().unwrap_or(0));
    match (outcome, last) {
        (Err(error), _) | (Ok(()), Err(error)) => Reading::Unreadable { loaded, error },
        (Ok(()), Ok(_)) if bad_rows > 0 => {
            Reading::Wrong { loaded, reason: format!("{bad_rows} objects do not match their checksum") }
        }
        (Ok(()), Ok(last)) if newest > last => Reading::Wrong {
            loaded,
            reason: format!("an object has revision {newest}, but the last one given is {last}"),
        },
        (Ok(()), Ok(_)) => Reading::Whole(loaded),
    }
}

fn read_rows(connection: &Connection, loaded: &mut Loaded, bad_rows: &mut usize) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(
        "SELECT id, grp, resource, namespace, name, revision, revision_at, sum, value FROM object ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    // Collections repeat for thousands of rows; share their names.
    let mut collection = Collection::new("", "");
    let mut seen = std::collections::BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (group, resource) = (text(row, 1)?, text(row, 2)?);
        if collection.group() != group || collection.resource() != resource {
            collection = Collection::new(group, resource);
        }
        let key = Key::new(&collection, text(row, 3)?, text(row, 4)?);
        let value = Bytes::copy_from_slice(row.get_ref(8)?.as_blob().unwrap_or_default());
        let (created, revision) = (unsigned(row.get(0)?), unsigned(row.get(5)?));
        let revision_at = usize::try_from(row.get::<_, i64>(6)?).unwrap_or(usize::MAX);
        match Object::restore(key, revision, created, value, revision_at) {
            Some(object)
                if checksum(&object) == row.get::<_, i64>(7)? && seen.insert(object.key().clone()) =>
            {
                loaded.objects.push(object);
            }
            _ => *bad_rows += 1,
        }
    }
    Ok(())
}

/// A text column; what is no text cannot match the checksum, so it is read as empty.
fn text<'row>(row: &'row rusqlite::Row<'_>, column: usize) -> rusqlite::Result<&'row str> {
    Ok(row.get_ref(column)?.as_str().unwrap_or_default())
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Moves the damaged file aside and begins a new one with the objects that could be read.
fn restart_from(path: &Path, reason: String, mut loaded: Loaded) -> Result<SqliteBackend, OpenError> {
    let io = |source| OpenError::File { path: path.to_owned(), source };
    let moved_to = move_aside(path).map_err(io)?;
    // Nobody may ever be given a revision twice, and the true last one may be lost with the damage: take one that no
    // store reaches by counting.
    let by_clock = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
    loaded.revision = (loaded.revision + REVISION_JUMP).max(by_clock);
    let claim = Claim::take(path)?;
    let connection = match open_once(path, &claim)? {
        Attempt::Sound { connection, .. } => connection,
        Attempt::Damaged { reason, .. } => {
            return Err(OpenError::Database { path: path.to_owned(), reason });
        }
    };
    let quarantine = Quarantine { moved_to, reason, kept: loaded.objects.len() };
    let inserts: Vec<Change> =
        loaded.objects.iter().map(|object| Change::Insert(Arc::new(object.clone()))).collect();
    let revision = loaded.revision;
    let mut backend = finish(path, claim, connection, loaded, Some(quarantine));
    backend
        .commit(revision, &inserts)
        .map_err(|error| OpenError::Database { path: path.to_owned(), reason: error.to_string() })?;
    Ok(backend)
}

fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut target = sibling(path, &format!(".damaged-{stamp}"));
    let mut count = 1;
    while target.exists() {
        target = sibling(path, &format!(".damaged-{stamp}-{count}"));
        count += 1;
    }
    fs::rename(path, &target)?;
    for suffix in ["-wal", "-shm", "-journal"] {
        match fs::rename(sibling(path, suffix), sibling(&target, suffix)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    sync_directory(path)?;
    Ok(target)
}

/// The file, made when it is missing, readable by its owner only.
fn prepare_file(path: &Path) -> io::Result<File> {
    if let Some(directory) = parent(path)
        && !directory.exists()
    {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // A new file's directory entry is synced once the tables are in it.
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mut permissions = file.metadata()?.permissions();
    if permissions.mode() & 0o777 != 0o600 {
        permissions.set_mode(0o600);
        file.set_permissions(permissions)?;
    }
    Ok(file)
}

pub(super) fn write_reserve(path: &Path, len: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    let block = [0x2e_u8; 64 << 10];
    let mut left = len;
    while left > 0 {
        let count = left.min(block.len() as u64);
        file.write_all(&block[..count as usize])?;
        left -= count;
    }
    Ok(())
}

/// `path` with `suffix` added to its last part.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn parent(path: &Path) -> Option<&Path> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty())
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(parent(path).unwrap_or(Path::new(".")))?.sync_all()
}
