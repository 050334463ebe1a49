//! Profiles of type `Localhost`: a file in the JSON that docker and the OCI specification share.

use serde::Deserialize;

use super::numbers::DOCKER_ARCHITECTURES;
use super::{Action, ArgumentCondition, CallGroup, Comparison, CompileFilterError, Profile, ProfileFacts};

/// Larger files are refused.
const MAX_BYTES: usize = 1 << 20;

/// Why a profile file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileFileError {
    /// Over the limit.
    #[error("the seccomp profile has {0} bytes; at most 1048576 are read")]
    TooLarge(usize),
    /// Not the expected JSON.
    #[error("the seccomp profile is not valid")]
    Malformed(#[source] serde_json::Error),
    /// No such action.
    #[error("the seccomp profile uses the action `{0}`, which does not exist")]
    UnknownAction(String),
    /// An action that needs a program outside the container to answer.
    #[error("the seccomp profile uses SCMP_ACT_NOTIFY, which is not supported: nothing would answer")]
    Notify,
    /// No such comparison.
    #[error("the seccomp profile uses the operator `{0}`, which does not exist")]
    UnknownOperator(String),
    /// System calls have six arguments.
    #[error("the seccomp profile compares argument {0}; system calls have arguments 0 to 5")]
    ArgumentIndex(u32),
    /// No program could be made of it.
    #[error("the seccomp profile cannot be compiled")]
    Compile(#[source] CompileFilterError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProfileFile {
    default_action: String,
    default_errno_ret: Option<u16>,
    #[serde(default)]
    syscalls: Option<Vec<RuleFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleFile {
    name: Option<String>,
    names: Option<Vec<String>>,
    action: String,
    errno_ret: Option<u16>,
    args: Option<Vec<ArgumentFile>>,
    includes: Option<FilterFile>,
    excludes: Option<FilterFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArgumentFile {
    index: u32,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FilterFile {
    caps: Option<Vec<String>>,
    arches: Option<Vec<String>>,
    min_kernel: Option<String>,
}

/// Reads a profile, leaving out groups that do not concern this container on this machine.
pub(super) fn parse(content: &[u8], facts: ProfileFacts) -> Result<Profile, ProfileFileError> {
    if content.len() > MAX_BYTES {
        return Err(ProfileFileError::TooLarge(content.len()));
    }
    let file: ProfileFile = serde_json::from_slice(content).map_err(ProfileFileError::Malformed)?;
    let default = action(&file.default_action, file.default_errno_ret)?;
    let mut groups = Vec::new();
    for rule in file.syscalls.unwrap_or_default() {
        if !concerns(&rule, facts) {
            continue;
        }
        let conditions = rule.args.unwrap_or_default().iter().map(condition).collect::<Result<_, _>>()?;
        let action = action(&rule.action, rule.errno_ret)?;
        let names = rule.names.unwrap_or_default().into_iter().chain(rule.name).collect();
        groups.push(CallGroup { names, conditions, action });
    }
    Ok(Profile { default, groups })
}

fn concerns(rule: &RuleFile, facts: ProfileFacts) -> bool {
    let has = |name: &String| {
        name.parse::<caps::Capability>()
            .is_ok_and(|capability| facts.capabilities & capability.bitmask() != 0)
    };
    let here = |name: &String| DOCKER_ARCHITECTURES.contains(&name.as_str());
    let recent = |version: &String| {
        let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
        facts.kernel >= (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    };
    let included = rule.includes.as_ref().is_none_or(|filter| {
        filter.caps.iter().flatten().all(has)
            && filter.arches.as_ref().is_none_or(|arches| arches.is_empty() || arches.iter().any(here))
            && filter.min_kernel.as_ref().is_none_or(recent)
    });
    let excluded = rule.excludes.as_ref().is_some_and(|filter| {
        filter.caps.iter().flatten().any(has)
            || filter.arches.iter().flatten().any(here)
            || filter.min_kernel.as_ref().is_some_and(recent)
    });
    included && !excluded
}

fn action(name: &str, number: Option<u16>) -> Result<Action, ProfileFileError> {
    Ok(match name {
        "SCMP_ACT_ALLOW" => Action::Allow,
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_ERRNO" => Action::Fail(number.unwrap_or(libc::EPERM as u16)),
        "SCMP_ACT_TRACE" => Action::Trace(number.unwrap_or(libc::EPERM as u16)),
        "SCMP_ACT_TRAP" => Action::Trap,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_KILL_PROCESS" => Action::KillProcess,
        "SCMP_ACT_NOTIFY" => return Err(ProfileFileError::Notify),
        other => return Err(ProfileFileError::UnknownAction(other.to_owned())),
    })
}

fn condition(argument: &ArgumentFile) -> Result<ArgumentCondition, ProfileFileError> {
    let (comparison, value) = match argument.op.as_str() {
        "SCMP_CMP_EQ" => (Comparison::Equal, argument.value),
        "SCMP_CMP_NE" => (Comparison::NotEqual, argument.value),
        "SCMP_CMP_LT" => (Comparison::Less, argument.value),
        "SCMP_CMP_LE" => (Comparison::LessOrEqual, argument.value),
        "SCMP_CMP_GT" => (Comparison::Greater, argument.value),
        "SCMP_CMP_GE" => (Comparison::GreaterOrEqual, argument.value),
        "SCMP_CMP_MASKED_EQ" => (Comparison::MaskedEqual(argument.value), argument.value_two),
        other => return Err(ProfileFileError::UnknownOperator(other.to_owned())),
    };
    match u8::try_from(argument.index) {
        Ok(index @ 0..=5) => Ok(ArgumentCondition { index, narrow: false, comparison, value }),
        _ => Err(ProfileFileError::ArgumentIndex(argument.index)),
    }
}
