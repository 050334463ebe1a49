//! Schedules of cron as Kubernetes reads them: the five fields and the words that stand for them, time zones, and when a schedule is
//! due next. Pure: whoever asks brings the time.
//!
//! Grammar, sentences and times are those of the parser that Kubernetes uses (`robfig/cron`, version 3, standard form).

mod due;
mod schedule;
mod zone;

pub use schedule::Schedule;
pub use zone::{is_known, zone};
