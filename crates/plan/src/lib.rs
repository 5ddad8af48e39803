//! Schedules for a collective on a fabric: algorithms, configurations, what to do after failures, and what these leave.

pub mod algorithm;
pub mod closed_form;
pub mod configure;
mod cores;
pub mod replan;
pub mod survive;
