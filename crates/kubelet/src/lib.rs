//! The node agent: pod workers, volumes, env files, status, events, records
