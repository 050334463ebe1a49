//! The workload and cluster controllers and the scheduler.
