//! Kubernetes quantities: exact parse, compare, divide, format, in integers only
