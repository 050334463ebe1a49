//! The decision: one pure function from what is wanted, seen and remembered to what is done next.
//!
//! ```text
//!            accepted                      told to stop, deadline over,
//!               |                          or everything has ended
//!      +--------v---------+                +---------------------------+
//!      | start (start.rs) +--------------->| stop (stop.rs)            |
//!      | sandbox          |                | containers, then sidecars |
//!      | init, sidecars   |                | sandbox                   |
//!      | containers       |                | volumes                   |
//!      +------------------+                | object deleted? forget    |
//!                                          +---------------------------+
//! ```
//!
//! A pod that stops never starts anything again.

mod hooks;
mod start;
mod stop;

use crate::action::Plan;
use crate::hooks::next_look;
use crate::stop_orders::stop_order;
use crate::view::PodView;

/// Decides what to do next. Calling it again with the same view gives the same plan.
pub fn plan(view: PodView<'_>) -> Plan {
    let mut plan = match stop_order(&view) {
        Some(order) => stop::plan_stop(&view, order),
        None => start::plan_start(&view),
    };
    // The status says for how long a hook has been running.
    for record in view.under_way.hooks.iter().filter_map(|key| view.memory.hook(key)) {
        plan.wake(next_look(record.began, view.now));
    }
    plan
}

/// Whether the pod is on its way out and not there yet: something of it stands, or there is something to do.
pub fn is_ending(view: &PodView<'_>, plan: &Plan) -> bool {
    let stands = view.runtime.ready_sandbox().is_some();
    stop_order(view).is_some() && (stands || !plan.actions.is_empty())
}
