//! Debug output of the messages that carry secrets: names are shown, values never.

use std::fmt;

use crate::v1::{AuthConfig, KeyValue};

impl fmt::Debug for KeyValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyValue").field("key", &self.key).finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AuthConfig")
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_names_and_no_values() {
        let variable = KeyValue { key: "TOKEN".into(), value: "hunter2".into() };
        let login = AuthConfig {
            username: "ann".into(),
            password: "hunter2".into(),
            auth: "hunter2".into(),
            ..Default::default()
        };
        let shown = format!("{variable:?} {login:?}");
        assert!(shown.contains("TOKEN"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
