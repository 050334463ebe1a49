//! System call filters: the default profile (containerd's, which depends on the capabilities of the container), profiles from
//! files of the node, and both compiled to the programs that the kernel takes.
//!
//! The programs are stacked in the given order by a container's first process, after which nothing removes them. They are
//! compiled here, in the daemon, once for each set of capabilities that matters.

mod compile;
mod default_profile;
mod numbers;
mod profile_file;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use compile::CompileFilterError;
pub(crate) use profile_file::ProfileFileError;

/// Programs to stack, first to last; an instruction is its code, both jumps and the operand.
pub(crate) type Filters = Vec<Vec<(u16, u8, u8, u32)>>;

/// What a system call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Allow,
    /// Allowed, and noted in the kernel's log.
    Log,
    /// Fails with this error number.
    Fail(u16),
    /// Asks whoever traces the process, with this number.
    Trace(u16),
    /// SIGSYS.
    Trap,
    KillThread,
    KillProcess,
}

/// How an argument is compared, as an unsigned number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// The bits of this mask, and only they, are compared.
    MaskedEqual(u64),
}

/// A condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArgumentCondition {
    /// 0 to 5.
    pub(crate) index: u8,
    /// The kernel takes the argument as 32 bits: what stands above them must not change the answer.
    pub(crate) narrow: bool,
    pub(crate) comparison: Comparison,
    pub(crate) value: u64,
}

/// Calls that meet the same action when all conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallGroup {
    pub(crate) names: Vec<String>,
    pub(crate) conditions: Vec<ArgumentCondition>,
    pub(crate) action: Action,
}

/// A whole profile. Where several groups name a call, the strictest action whose conditions hold counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    /// What calls meet that no group names.
    pub(crate) default: Action,
    pub(crate) groups: Vec<CallGroup>,
}

/// What groups of a profile may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProfileFacts {
    /// The container's bounding set, one bit for each capability.
    pub(crate) capabilities: u64,
    /// Major and minor version of the running kernel.
    pub(crate) kernel: (u32, u32),
}

impl ProfileFacts {
    /// The facts of this machine.
    pub(crate) fn of_this_machine(capabilities: u64) -> Self {
        let name = rustix::system::uname();
        let release = name.release().to_string_lossy().into_owned();
        let mut numbers =
            release.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok());
        Self { capabilities, kernel: (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) }
    }
}

/// Compiled default profiles by the capabilities on which they depend. A pure function's answers, so never out of date.
static COMPILED: Mutex<BTreeMap<u64, Arc<Filters>>> = Mutex::new(BTreeMap::new());

/// The default profile for a container with these capabilities in its bounding set.
pub(crate) fn default_filters(capabilities: u64) -> Arc<Filters> {
    let relevant = capabilities & default_profile::RELEVANT_CAPABILITIES;
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = compiled.entry(relevant).or_insert_with(|| {
        let profile = default_profile::default_profile(relevant);
        Arc::new(compile::compile(&profile).expect("every default profile compiles: a test tries them all"))
    });
    Arc::clone(entry)
}

/// A profile file of the node, in the form that docker and the OCI specification share.
///
/// # Errors
///
/// See [`ProfileFileError`].
pub(crate) fn file_filters(content: &[u8], facts: ProfileFacts) -> Result<Filters, ProfileFileError> {
    let profile = profile_file::parse(content, facts)?;
    compile::compile(&profile).map_err(ProfileFileError::Compile)
}

#[cfg(test)]
mod tests;
