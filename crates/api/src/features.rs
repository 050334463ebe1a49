//! The feature gates of Coracle as a value that is passed in, never a global: parsed from `A=true,B=false`.

use std::fmt;
use std::str::FromStr;

/// Name of the gate that admits every printable ASCII character but `=` in environment variable names.
pub const RELAXED_ENVIRONMENT_VARIABLE_VALIDATION: &str = "RelaxedEnvironmentVariableValidation";

/// Name of the gate that admits `valueFrom.fileKeyRef`.
pub const ENV_FILES: &str = "EnvFiles";

/// How far a feature has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// On by default, may still change.
    Beta,
    /// Finished.
    Stable,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Beta => "BETA",
            Self::Stable => "GA",
        })
    }
}

impl Stage {
    /// The label `stage` of the metric `kubernetes_feature_enabled`: empty for what is finished.
    pub fn metric_label(self) -> &'static str {
        match self {
            Self::Beta => "BETA",
            Self::Stable => "",
        }
    }
}

/// One gate: what help and metrics say of it.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// How far it has come in the followed version of Kubernetes.
    pub stage: Stage,
    /// Whether it is on when nobody says otherwise.
    pub default: bool,
    read: fn(&FeatureGates) -> bool,
    switch: fn(&mut FeatureGates) -> &mut bool,
}

/// Every gate.
pub const FEATURES: [Feature; 2] = [
    Feature {
        name: ENV_FILES,
        stage: Stage::Beta,
        default: true,
        read: |gates| gates.env_files,
        switch: |gates| &mut gates.env_files,
    },
    Feature {
        name: RELAXED_ENVIRONMENT_VARIABLE_VALIDATION,
        stage: Stage::Stable,
        default: true,
        read: |gates| gates.relaxed_environment_variable_validation,
        switch: |gates| &mut gates.relaxed_environment_variable_validation,
    },
];

impl Feature {
    /// Whether it is on.
    pub fn is_on(&self, gates: &FeatureGates) -> bool {
        (self.read)(gates)
    }
}

/// Which optional behaviour is on. Parsed by [`FromStr`] from the form that Kubernetes' `--feature-gates` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// `RelaxedEnvironmentVariableValidation`, on by default.
    pub relaxed_environment_variable_validation: bool,
    /// `EnvFiles`, on by default.
    pub env_files: bool,
}

/// Why a list of feature gates was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureGatesError {
    /// An item without `=`.
    #[error("feature gate {item:?} has no value: write {item}=true or {item}=false")]
    MissingValue {
        /// The item as written.
        item: String,
    },
    /// A value that is neither true nor false.
    #[error("feature gate {name} has the value {value:?}: write true or false")]
    InvalidValue {
        /// The gate.
        name: String,
        /// The value as written.
        value: String,
    },
    /// A gate that Coracle does not have.
    #[error(
        "unknown feature gate {name:?}: known are {RELAXED_ENVIRONMENT_VARIABLE_VALIDATION} and {ENV_FILES}"
    )]
    Unknown {
        /// The name as written.
        name: String,
    },
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { relaxed_environment_variable_validation: true, env_files: true }
    }
}

impl FeatureGates {
    /// The defaults, changed by `text`: `A=true,B=false`, blanks around items allowed, empty means no change.
    ///
    /// # Errors
    ///
    /// The first item that has no value, a value other than `true` or `false`, or an unknown name.
    pub fn parse(text: &str) -> Result<Self, FeatureGatesError> {
        let mut gates = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| FeatureGatesError::MissingValue { item: item.to_owned() })?;
            let (name, value) = (name.trim(), value.trim());
            let on = match value {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
                "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
                _ => {
                    return Err(FeatureGatesError::InvalidValue {
                        name: name.to_owned(),
                        value: value.to_owned(),
                    });
                }
            };
            let feature = FEATURES
                .iter()
                .find(|feature| feature.name == name)
                .ok_or_else(|| FeatureGatesError::Unknown { name: name.to_owned() })?;
            *(feature.switch)(&mut gates) = on;
        }
        Ok(gates)
    }
}

impl FromStr for FeatureGates {
    type Err = FeatureGatesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{RELAXED_ENVIRONMENT_VARIABLE_VALIDATION}={},{ENV_FILES}={}",
            self.relaxed_environment_variable_validation, self.env_files
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{FeatureGates, FeatureGatesError};

    #[test]
    fn empty_text_leaves_the_defaults() {
        assert_eq!(FeatureGates::parse(""), Ok(FeatureGates::default()));
        assert_eq!(FeatureGates::parse(" , "), Ok(FeatureGates::default()));
    }

    #[test]
    fn gates_are_switched_by_name_and_the_last_one_wins() {
        let gates =
            FeatureGates::parse("EnvFiles=true, RelaxedEnvironmentVariableValidation=false,EnvFiles=false")
                .expect("a valid list");
        assert!(!gates.env_files);
        assert!(!gates.relaxed_environment_variable_validation);
        assert_eq!(FeatureGates::parse(&gates.to_string()), Ok(gates));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            FeatureGates::parse("EnvFiles"),
            Err(FeatureGatesError::MissingValue { item: "EnvFiles".to_owned() })
        );
        assert_eq!(
            FeatureGates::parse("EnvFiles=maybe"),
            Err(FeatureGatesError::InvalidValue { name: "EnvFiles".to_owned(), value: "maybe".to_owned() })
        );
        assert_eq!(
            FeatureGates::parse("EnvFile=true"),
            Err(FeatureGatesError::Unknown { name: "EnvFile".to_owned() })
        );
    }
}
