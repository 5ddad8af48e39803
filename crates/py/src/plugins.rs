//! Algorithms, kinds of fabrics and schedulers that are functions of Python. `antiphon.plugins` makes the functions and checks
//! what they return; what they raise ends the core code that has called them.

use crate::heartbeat::end_with;
use crate::parameter::to_python;
use crate::prelude::*;
use antiphon_base::error::Result;
use antiphon_base::options::{Default, Opt};
use antiphon_base::parameter::{Domain, Parameter};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::spec::{self, AddedFabric};
use antiphon_model::schedule;
use antiphon_model::topology::Topology;
use antiphon_plan::algorithm::{self, Algorithm, Info, Request};
use antiphon_sim::rails::orders::StagePath;
use antiphon_sim::rails::scheduler::{self, Scheduler};
use antiphon_sim::rails::{ChunkOrder, RailsPlan};
use pyo3::types::PyDict;
use std::sync::Arc;

/// What comes of a function of Python.
fn called<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
    Python::attach(work).unwrap_or_else(|raised| end_with(raised))
}

/// Key, values, default and meaning of an option.
type OptionTuple = (String, String, Option<String>, String);

/// Adds an algorithm; one of the same name is replaced. `function` takes fabric, collective, bytes, system, root and a dictionary
/// of the options that are given, and returns a `Schedule`, or text that says why the algorithm does not apply. `options` has
/// tuples (key, its values in words, default, meaning): a flag has the values `yes or no`, all others come as text.
///
/// Raises AntiphonError: `unknown-name` for a collective.
#[pyfunction]
pub fn add_algorithm(
    name: String,
    summary: String,
    source: String,
    collectives: Vec<String>,
    options: Vec<OptionTuple>,
    function: Py<PyAny>,
) -> PyResult<()> {
    let kinds = collectives.iter().map(|kind| Kind::parse(kind)).collect::<Result<Vec<_>>>().map_err(raise)?;
    let info: &'static Info = Box::leak(Box::new(Info {
        name: name.leak(),
        summary: summary.leak(),
        options: options.into_iter().map(option).collect::<Vec<_>>().leak(),
        source: source.leak(),
        collectives: kinds.leak(),
    }));
    algorithm::ADDED.add(info.name, Box::new(PythonAlgorithm { info, function }));
    Ok(())
}

fn option((key, form, default, meaning): OptionTuple) -> Opt {
    let flag = form == Domain::Flag.to_string();
    let domain = if flag { Domain::Flag } else { Domain::Spec { form: form.leak(), check: |_| Ok(()) } };
    let default = default.map_or(Default::Derived("none"), |text| Default::Fixed(text.leak()));
    Opt { parameter: Parameter { key: key.leak(), domain, meaning: meaning.leak() }, default }
}

struct PythonAlgorithm {
    info: &'static Info,
    function: Py<PyAny>,
}

/// A schedule, or why there is none.
#[derive(FromPyObject)]
enum Built {
    Schedule(Py<Schedule>),
    Refusal(String),
}

impl Algorithm for PythonAlgorithm {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn build(&self, request: &Request) -> Result<schedule::Schedule> {
        let built = called(|py| {
            let options = PyDict::new(py);
            for (key, value) in request.given() {
                options.set_item(key, to_python(py, value)?)?;
            }
            let (fabric, system) = (Fabric(Arc::new(request.fabric.clone())), System(request.system.clone()));
            let (collective, root) = (request.collective.kind.name(), request.collective.root);
            self.function.call1(py, (fabric, collective, request.bytes, system, root, options))?.extract(py)
        });
        match built {
            Built::Refusal(why) => request.refuse(why),
            Built::Schedule(schedule) => {
                let mut schedule = (*schedule.get().0).clone();
                let place = |error: Error| error.at(format_args!("plugin {}", self.info.source));
                schedule.check(request.fabric).map_err(place)?;
                schedule.algorithm = request.spec.into();
                Ok(schedule)
            }
        }
    }
}

/// Adds a kind of fabric; one of the same name is replaced. `function` takes what stands behind the colon of a specification and
/// returns a `Fabric`.
#[pyfunction]
pub fn add_fabric(name: String, example: String, description: String, function: Py<PyAny>) {
    let build = move |size: &str| {
        Ok(called(|py| {
            let fabric: Py<Fabric> = function.call1(py, (size,))?.extract(py)?;
            Ok((*fabric.get().0).clone())
        }))
    };
    spec::ADDED.add(&name, Box::new(AddedFabric { example, description, build: Box::new(build) }));
}

/// Adds a scheduler of `rails`; one of the same name is replaced. `function` takes collective, number of a chunk, its bytes, the
/// dimensions as text and for how many ns each is busy with the chunks before, and returns the dimensions, from 0, in the order
/// before the AllGather and in that of the AllGather.
#[pyfunction]
pub fn add_scheduler(name: String, function: Py<PyAny>) {
    scheduler::ADDED.add(&name, Box::new(PythonScheduler(function)));
}

struct PythonScheduler(Py<PyAny>);

impl Scheduler for PythonScheduler {
    fn schedule(&self, topology: &Topology, plan: &mut RailsPlan) {
        let dimensions: Vec<String> = topology.dimensions.iter().map(|dimension| dimension.spec()).collect();
        let mut busy = vec![0; dimensions.len()];
        let bytes = plan.bytes.div_ceil(plan.orders.len() as u64);
        for chunk in 0..plan.orders.len() {
            let loads: Vec<f64> = busy.iter().map(|&busy: &Picos| nanos(busy)).collect();
            let [first, gather] = called(|py| {
                let given = (plan.kind.name(), chunk, bytes, dimensions.clone(), loads);
                let orders: [Vec<u64>; 2] = self.0.call1(py, given)?.extract(py)?;
                Ok(orders)
            })
            .map(|order| StagePath::of(&order, busy.len()).expect("Python has checked it"));
            let order = ChunkOrder { first, gather };
            for stage in plan.stages(topology, &order) {
                busy[usize::from(stage.dimension)] += stage.busy_ps;
            }
            plan.orders[chunk] = order;
        }
    }
}

/// Removes an algorithm, kind of fabric and scheduler of a name, if they were added.
#[pyfunction]
pub fn remove_added(name: &str) {
    algorithm::ADDED.remove(name);
    spec::ADDED.remove(name);
    scheduler::ADDED.remove(name);
}
