//! Schedules for a collective on a fabric: algorithms, configurations, what to do after a failure.

pub mod algorithm;
pub mod closed_form;
pub mod configure;
pub mod replan;
