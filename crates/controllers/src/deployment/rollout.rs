//! How many pods each replica set of a deployment gets next. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/> (rolling update, recreate, proportional scaling).

use std::cmp::Ordering;

use super::history::{self, number};
use super::limits::{Limits, Strategy};
use super::sets::{Set, Sets};

/// One step of a rolling update: the new replica set grows as far as there is room; when there is none, old ones shrink as far
/// as enough pods stay available.
pub(super) fn roll(sets: &mut Sets, limits: &Limits) {
    if !grow(sets, limits) {
        shrink(sets, limits);
    }
}

/// Gives the new replica set what it may have; tells whether that is other than it has.
fn grow(sets: &mut Sets, limits: &Limits) -> bool {
    let Some(new) = sets.new else { return false };
    let has = sets.all[new].replicas;
    let gets = if has > limits.replicas { limits.replicas } else { sets.room_for_new(limits) };
    if gets != has {
        sets.scale(new, gets, limits);
    }
    gets != has
}

/// Takes from old replica sets what may go: first what is not available anyway.
fn shrink(sets: &mut Sets, limits: &Limits) {
    let old = sets.active_old();
    let new_unavailable = sets.new_one().map_or(0, |set| (set.replicas - set.available()).max(0));
    let mut may_go = sets.total() - limits.least_available() - new_unavailable;
    if old.is_empty() || may_go <= 0 {
        return;
    }
    for index in &old {
        let set = &sets.all[*index];
        let unhealthy = (set.replicas - set.available()).clamp(0, may_go);
        if unhealthy > 0 {
            sets.scale(*index, set.replicas - unhealthy, limits);
            may_go -= unhealthy;
        }
    }
    // A set that was scaled down a moment ago still counts pods as available that are on their way out.
    let available = sets.sum(|set| set.available().min(set.replicas));
    let mut may_go = available - limits.least_available();
    for index in old {
        let has = sets.all[index].replicas;
        let going = has.min(may_go);
        if going > 0 {
            sets.scale(index, has - going, limits);
            may_go -= going;
        }
    }
}

/// What is left to do when everything old must have ended before anything new begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recreation {
    /// Old pods are ending.
    Clearing,
    /// There are no old pods: the new replica set may be created and grow.
    Clear,
}

/// One step of a recreation. `old_pods_live` says whether pods of former templates still live.
pub(super) fn clear(sets: &mut Sets, limits: &Limits, old_pods_live: bool) -> Recreation {
    let active = sets.active_old();
    for index in &active {
        sets.scale(*index, 0, limits);
    }
    let counted = sets.old().into_iter().any(|index| sets.all[index].actual() > 0);
    if active.is_empty() && !counted && !old_pods_live { Recreation::Clear } else { Recreation::Clearing }
}

/// Gives the new replica set everything.
pub(super) fn grow_fully(sets: &mut Sets, limits: &Limits) {
    if let Some(new) = sets.new
        && sets.all[new].replicas != limits.replicas
    {
        sets.scale(new, limits.replicas, limits);
    }
}

/// Whether the deployment was scaled since its replica sets were, and they can be scaled before anything else is done: several of a
/// deployment that recreates cannot, for all but one of them are to go.
pub(super) fn is_scaled(sets: &Sets, limits: &Limits) -> bool {
    let can_be = match limits.strategy {
        Strategy::Rolling => true,
        Strategy::Recreate => sets.single().is_some(),
    };
    can_be
        && sets.all.iter().filter(|set| set.replicas > 0).any(|set| {
            number::<i32>(&set.annotations, history::DESIRED)
                .is_some_and(|desired| desired != limits.replicas)
        })
}

/// Spreads a new number of replicas over the replica sets, without going on with a rollout.
pub(super) fn scale(sets: &mut Sets, limits: &Limits) {
    if let Some(single) = sets.single() {
        return sets.scale(single, limits.replicas, limits);
    }
    if sets.new_one().is_some_and(|set| is_saturated(set, limits)) {
        for index in sets.active_old() {
            sets.scale(index, 0, limits);
        }
        return;
    }
    match limits.strategy {
        Strategy::Rolling => in_proportion(sets, limits),
        Strategy::Recreate => {}
    }
}

/// Whether the new replica set does all the work already.
fn is_saturated(set: &Set, limits: &Limits) -> bool {
    set.replicas == limits.replicas
        && set.available() == limits.replicas
        && number(&set.annotations, history::DESIRED) == Some(limits.replicas)
}

/// Each replica set that has pods keeps its share, so that a rollout that goes wrong is not made larger by being scaled.
fn in_proportion(sets: &mut Sets, limits: &Limits) {
    let allowed = if limits.replicas > 0 { limits.most() } else { 0 };
    let change = allowed - sets.total();
    let order = match change.cmp(&0) {
        Ordering::Greater => sets.by_size(true),
        Ordering::Less | Ordering::Equal => sets.by_size(false),
    };
    let mut done = 0;
    let mut sizes: Vec<(usize, i32)> = Vec::new();
    for index in order {
        let set = &sets.all[index];
        let left = change - done;
        let share = share(set, limits);
        let part = if change > 0 { share.clamp(0, left.max(0)) } else { share.clamp(left.min(0), 0) };
        let part = if left == 0 { 0 } else { part };
        done += part;
        sizes.push((index, set.replicas + part));
    }
    // What rounding leaves over goes to the largest.
    if let Some((_, size)) = sizes.first_mut() {
        *size += change - done;
    }
    for (index, size) in sizes {
        sets.scale(index, size, limits);
    }
}

/// By how much a replica set grows or shrinks for its share of pods to stay what it was.
fn share(set: &Set, limits: &Limits) -> i32 {
    if limits.replicas == 0 {
        return -set.replicas;
    }
    let before = number::<i32>(&set.annotations, history::MAX).filter(|most| *most > 0);
    let Some(before) = before.map(i64::from) else { return 0 };
    let product = i64::from(set.replicas) * i64::from(limits.most());
    // Rounded half up; nothing here is negative.
    let size = (2 * product + before) / (2 * before);
    i32::try_from(size).unwrap_or(i32::MAX) - set.replicas
}
