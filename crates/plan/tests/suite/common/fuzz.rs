//! How long random cases are tried.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use std::time::{Duration, Instant};

/// Seconds to go on for, instead of a fixed number of cases.
const SECONDS: &str = "ANTIPHON_FUZZ_SECONDS";

/// Tries `cases` random cases, or as many as [`SECONDS`] says; panics with the smallest one that fails. Returns how
/// many were tried.
pub fn fuzz<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value) -> TestCaseResult) -> u64 {
    let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().expect("ANTIPHON_FUZZ_SECONDS is a number"));
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let mut tried = 0;
    loop {
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        runner.run(&strategy, &test).unwrap_or_else(|failure| panic!("{failure}"));
        tried += u64::from(cases);
        if Instant::now() >= until {
            return tried;
        }
    }
}
