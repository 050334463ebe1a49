//! Numbers that several parts must agree on. Sizes in bytes, times in seconds unless the name says otherwise.

/// Longest `NAME=value` string that `execve` takes, its NUL included (`MAX_ARG_STRLEN`, 32 pages).
pub const ENV_STRING: usize = 131_072;

/// Most bytes of arguments and environment together that `execve` takes under the usual 8 MiB stack limit, with the
/// pointers counted.
pub const ENV_TOTAL: usize = 2 * 1024 * 1024;

/// Largest env file.
pub const ENV_FILE: usize = 64 * 1024;

/// Longest name in an env file, in characters.
pub const ENV_FILE_NAME: usize = 128;

/// Longest value in an env file.
pub const ENV_FILE_VALUE: usize = 32 * 1024;

/// Most processes of a pod, by default.
pub const POD_PIDS: u64 = 4096;

/// Shortest time a container gets between its stop signal and the kill signal, unless it is killed at once.
pub const MINIMUM_STOP_SECONDS: i64 = 2;

/// Grace of a pod that names none.
pub const DEFAULT_GRACE_SECONDS: i64 = 30;

/// First delay of a restart back-off and of an image pull back-off.
pub const BACKOFF_INITIAL_SECONDS: i64 = 10;

/// Longest delay of these back-offs.
pub const BACKOFF_CAP_SECONDS: i64 = 300;

/// A container that ran for this long starts its restart back-off anew.
pub const BACKOFF_RESET_SECONDS: i64 = 600;

/// Most bytes kept of a termination message.
pub const TERMINATION_MESSAGE: usize = 4096;

/// Most bytes of a log that stand in for an empty termination message.
pub const TERMINATION_MESSAGE_LOG: usize = 2048;

/// Most lines of a log that stand in for an empty termination message.
pub const TERMINATION_MESSAGE_LOG_LINES: usize = 80;

/// Size at which a container's log file is rotated.
pub const LOG_FILE: u64 = 10 * 1024 * 1024;

/// Log files kept for each container, the current one included.
pub const LOG_FILES: u32 = 5;

/// Most bytes kept of a hook's output.
pub const HOOK_OUTPUT: usize = 64 * 1024;

/// Longest time for an HTTP hook that names none, so that an answer that never ends does.
pub const HTTP_HOOK_SECONDS: u64 = 60 * 60;

/// After this time an event says that a hook still runs.
pub const HOOK_RUNNING_SECONDS: u64 = 10;

/// Longest message of an event, as Kubernetes' API accepts it.
pub const EVENT_MESSAGE: usize = 1024;

/// Largest request or answer body between client and API server.
pub const API_BODY: usize = 3 * 1024 * 1024;

/// Most bytes of all values of a ConfigMap or a Secret together.
pub const KEYED_OBJECT: usize = 1024 * 1024;

/// Most bytes of all annotations of an object together.
pub const ANNOTATIONS: usize = 256 * 1024;
