//! Python bindings: thin wrappers around the other crates. Their comments are what `help` shows; signatures, comments and
//! types make `python/antiphon/_core.pyi` (`scripts/stubs.py`). A string in a signature is a type that Rust's does not say.

// Functions have as many arguments as in Python.
#![allow(clippy::too_many_arguments)]

mod beside;
mod builder;
mod carrier;
mod closed_form;
mod configure;
mod convert;
mod energy;
mod execute;
mod fabric;
mod formats;
mod heartbeat;
mod inference;
mod llm;
mod noc;
mod operations;
mod parameter;
mod plugins;
mod rails;
mod replan;
mod replay;
mod scale;
mod schedule;
mod search;
mod survive;
mod system;
mod training;
mod wires;

/// What most modules use.
mod prelude {
    pub use crate::convert::*;
    pub use crate::energy::energy_record;
    pub use crate::fabric::Fabric;
    pub use crate::heartbeat::{Progress, run, run_watched, run_with_progress};
    pub use crate::operations::SystemLike;
    pub use crate::parameter::{fill, inputs_of, listed, values};
    pub use crate::schedule::Schedule;
    pub use crate::system::System;
    pub use antiphon_base::error::{Code, Error};
    pub use antiphon_base::parameter::Choice;
    pub use antiphon_base::units::Picos;
    pub use antiphon_base::watch::Watch;
    pub use antiphon_macros::literal_defaults;
    pub use pyo3::prelude::*;
}

/// Large runs touch memory all over, and wait for addresses less on large pages, which this one asks for. Version 3 of
/// mimalloc crashes when the thread that imported the module has ended, so it is version 2.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native module behind the Python package `antiphon`.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::{
        beside::{beside, time_on, varied},
        builder::ScheduleBuilder,
        carrier::{Carrier, Operation, Plan},
        closed_form::advise_trees,
        configure::configure,
        energy::area,
        energy::cost,
        execute::{Execution, Executor},
        fabric::Fabric,
        formats::{export, format_of, formats, load, prove_file},
        inference::infer,
        llm::{ModelShape, constants_presets, large_models, plan_options, step_exchanges, time_step},
        noc::{noc, router_parameters, traffic_patterns},
        operations::{
            algorithm_scales, algorithms, build, bus_factor, busiest_link_ns, check_fidelity, collective_name,
            collectives, fabrics, fidelities, flights_bound, format_bytes, least_energy, lower_bound, parse_bytes,
            relieved_times, shard, simulate, simulate_flights, systems, verify,
        },
        parameter::inputs,
        plugins::{add_algorithm, add_fabric, add_scheduler, remove_added},
        rails::{advise_rails, rails, rails_flights, rails_messages, rails_queues, rails_schedulers, rails_topologies},
        replan::replan,
        replay::{ExecutionTrace, chakra_files},
        scale::at_scale,
        schedule::Schedule,
        search::best_plans,
        survive::survive,
        system::{System, endpoints, engine_parts},
        training::{TrainingPlan, Workload, compute_models, default_batch, iterations, settled, workloads},
        wires::{Joiner, Wires},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::system::add_properties(module.py())
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
