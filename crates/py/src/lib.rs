//! Python bindings: thin wrappers around the other crates. Their comments are what `help` shows; signatures, comments and
//! types make `python/antiphon/_core.pyi` (`scripts/stubs.py`). A string in a signature is a type that Rust's does not say.

// Functions have as many arguments as in Python.
#![allow(clippy::too_many_arguments)]

mod builder;
mod closed_form;
mod configure;
mod convert;
mod energy;
mod execute;
mod fabric;
mod formats;
mod heartbeat;
mod noc;
mod operations;
mod parameter;
mod plugins;
mod rails;
mod replan;
mod replay;
mod schedule;
mod system;
mod training;

/// Large runs touch memory all over, and wait for addresses less on large pages, which this one asks for. Version 3 of
/// mimalloc crashes when the thread that imported the module has ended, so it is version 2.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native module behind the Python package `antiphon`.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::builder::ScheduleBuilder;
    #[pymodule_export]
    use super::closed_form::advise_trees;
    #[pymodule_export]
    use super::configure::configure;
    #[pymodule_export]
    use super::energy::area;
    #[pymodule_export]
    use super::execute::{Execution, Executor, Node};
    #[pymodule_export]
    use super::fabric::Fabric;
    #[pymodule_export]
    use super::formats::{export, format_of, formats, load, prove_file};
    #[pymodule_export]
    use super::noc::{noc, router_parameters, traffic_patterns};
    #[pymodule_export]
    use super::operations::{
        algorithm_scales, algorithms, build, bus_factor, busiest_link_ns, check_fidelity, collective_name, collectives,
        fabrics, fidelities, format_bytes, lower_bound, parse_bytes, shard, simulate, simulate_flights, systems,
        verify,
    };
    #[pymodule_export]
    use super::parameter::inputs;
    #[pymodule_export]
    use super::plugins::{add_algorithm, add_fabric, add_scheduler, remove_added};
    #[pymodule_export]
    use super::rails::{advise_rails, rails, rails_messages, rails_queues, rails_schedulers, rails_topologies};
    #[pymodule_export]
    use super::replan::replan;
    #[pymodule_export]
    use super::replay::{ExecutionTrace, chakra_files};
    #[pymodule_export]
    use super::schedule::Schedule;
    #[pymodule_export]
    use super::system::{System, endpoints, engine_parts};
    #[pymodule_export]
    use super::training::{TrainingPlan, Workload, compute_models, default_batch, iterations, settled, workloads};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::system::add_properties(module.py())
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
