//! Formats of other tools, what is damaged, what is interrupted.

mod chakra;
mod formats;
mod fuzz;
#[path = "../../../plan/tests/suite/common/fuzz.rs"]
mod fuzzing;
mod interrupted;
#[path = "../../../plan/tests/suite/common/prelude.rs"]
mod prelude;
#[path = "../../../plan/tests/suite/common/sweep.rs"]
mod sweep;
#[path = "../../../plan/tests/suite/common/timed.rs"]
mod timed;
#[path = "../../../model/tests/suite/topologies.rs"]
mod topologies;
