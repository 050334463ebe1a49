//! Profiles to programs.
//!
//! One program knows two answers, so a profile becomes a stack: the first lets everything pass that any group names and
//! answers the default otherwise; one more for each other action. The kernel takes the strictest answer, and among equally
//! strict ones that of the program stacked last.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::numbers::{AUDIT_ARCHITECTURE, largest, number};
use super::{Action, ArgumentCondition, CallGroup, Comparison, Filters, Profile};

/// Why a profile has no program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileFilterError {
    /// A condition that cannot be expressed.
    #[error("a condition of the profile cannot be expressed")]
    Condition(#[source] seccompiler::BackendError),
    /// More than the kernel takes.
    #[error("the profile does not fit into what the kernel takes (4096 instructions)")]
    Program(#[source] seccompiler::BackendError),
}

/// Rules by call; an empty list matches always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The stack for a profile.
pub(super) fn compile(profile: &Profile) -> Result<Filters, CompileFilterError> {
    let mut filters = Filters::new();
    if profile.default != Action::Allow {
        let passing = profile.groups.iter().filter(|group| group.action != profile.default);
        filters.push(program(rules(passing)?, Action::Allow, profile.default)?);
    }
    let mut actions: Vec<Action> = profile.groups.iter().map(|group| group.action).collect();
    actions.sort_unstable();
    actions.dedup();
    for action in actions.into_iter().filter(|action| *action != Action::Allow && *action != profile.default)
    {
        let meeting = rules(profile.groups.iter().filter(|group| group.action == action))?;
        if !meeting.is_empty() {
            filters.push(program(meeting, action, Action::Allow)?);
        }
    }
    match profile.default {
        Action::Fail(_) | Action::Trap | Action::KillThread | Action::KillProcess => {
            filters.push(unknown_calls())
        }
        Action::Allow | Action::Log | Action::Trace(_) => {}
    }
    Ok(filters)
}

fn rules<'a>(groups: impl Iterator<Item = &'a CallGroup>) -> Result<Rules, CompileFilterError> {
    let mut rules = Rules::new();
    let mut always = Vec::new();
    for group in groups {
        for call in group.names.iter().filter_map(|name| number(name)) {
            let list = rules.entry(call.into()).or_default();
            if group.conditions.is_empty() {
                always.push(i64::from(call));
                continue;
            }
            for alternative in alternatives(&group.conditions) {
                let conditions = alternative.iter().map(condition).collect::<Result<_, _>>()?;
                list.push(SeccompRule::new(conditions).map_err(CompileFilterError::Condition)?);
            }
        }
    }
    for call in always {
        rules.insert(call, Vec::new());
    }
    Ok(rules)
}

/// All conditions have to hold; but two of them on one argument are alternatives, as runc reads such profiles.
fn alternatives(conditions: &[ArgumentCondition]) -> Vec<Vec<ArgumentCondition>> {
    let repeated = conditions
        .iter()
        .enumerate()
        .any(|(place, condition)| conditions[..place].iter().any(|before| before.index == condition.index));
    if repeated {
        conditions.iter().map(|condition| vec![*condition]).collect()
    } else {
        vec![conditions.to_vec()]
    }
}

fn condition(condition: &ArgumentCondition) -> Result<SeccompCondition, CompileFilterError> {
    let length = if condition.narrow { SeccompCmpArgLen::Dword } else { SeccompCmpArgLen::Qword };
    let operator = match condition.comparison {
        Comparison::Equal => SeccompCmpOp::Eq,
        Comparison::NotEqual => SeccompCmpOp::Ne,
        Comparison::Less => SeccompCmpOp::Lt,
        Comparison::LessOrEqual => SeccompCmpOp::Le,
        Comparison::Greater => SeccompCmpOp::Gt,
        Comparison::GreaterOrEqual => SeccompCmpOp::Ge,
        Comparison::MaskedEqual(mask) => SeccompCmpOp::MaskedEq(mask),
    };
    SeccompCondition::new(condition.index, length, operator, condition.value)
        .map_err(CompileFilterError::Condition)
}

fn action(action: Action) -> SeccompAction {
    match action {
        Action::Allow => SeccompAction::Allow,
        Action::Log => SeccompAction::Log,
        Action::Fail(number) => SeccompAction::Errno(number.into()),
        Action::Trace(number) => SeccompAction::Trace(number.into()),
        Action::Trap => SeccompAction::Trap,
        Action::KillThread => SeccompAction::KillThread,
        Action::KillProcess => SeccompAction::KillProcess,
    }
}

#[cfg(target_arch = "x86_64")]
const TARGET: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const TARGET: TargetArch = TargetArch::aarch64;

fn program(
    rules: Rules,
    on_match: Action,
    otherwise: Action,
) -> Result<Vec<(u16, u8, u8, u32)>, CompileFilterError> {
    let filter = SeccompFilter::new(rules, action(otherwise), action(on_match), TARGET);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(CompileFilterError::Program)?;
    Ok(program.into_iter().map(|step| (step.code, step.jt, step.jf, step.k)).collect())
}

/// Calls that no name is known for do not exist rather than being forbidden: programs try a new call, and fall back to an
/// older one only when the kernel says ENOSYS.
fn unknown_calls() -> Vec<(u16, u8, u8, u32)> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const GREATER: u16 = 0x25;
    const GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    const ALLOW: u32 = 0x7fff_0000;
    const FAIL: u32 = 0x0005_0000;
    const NO_SUCH_CALL: u32 = libc::ENOSYS as u32;
    /// Above this are the calls of the x32 architecture, which the first program judges.
    const X32: u32 = 0x4000_0000;
    vec![
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 0, 4, AUDIT_ARCHITECTURE),
        (LOAD, 0, 0, NUMBER),
        (GREATER_OR_EQUAL, 2, 0, X32),
        (GREATER, 0, 1, largest()),
        (RETURN, 0, 0, FAIL | NO_SUCH_CALL),
        (RETURN, 0, 0, ALLOW),
    ]
}
