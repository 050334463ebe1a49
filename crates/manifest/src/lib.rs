//! Bytes to positioned documents: YAML and JSON streams resolved as Kubernetes resolves them
