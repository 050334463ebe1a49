//! Every string with a grammar is a type: environment variable names, DNS labels and subdomains, config keys.
//!
//! A constructor answers the type or a [`NameError`] that lists every rule that the text breaks, in the words
//! and in the order of Kubernetes 1.36, because users and their tools know these sentences.
//! The crate decides on single strings only; which field wants which grammar is decided by its users.

mod dns;
mod env;
mod key;
mod label;
mod port;
mod problem;

pub use dns::{DnsLabel, DnsSubdomain, ServiceName, mask_trailing_dash};
pub use env::{EnvNameGrammar, EnvVarName, is_posix_shell_name};
pub use key::ConfigKey;
pub use label::{LabelValue, QualifiedName};
pub use port::PortName;
pub use problem::{EnvNameError, NameError, NamePart, NameProblem};

/// Writes the type of a grammar around `String`, with what all of them can do.
macro_rules! name_type {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text, given away.
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}
pub(crate) use name_type;

#[cfg(test)]
mod tests;
