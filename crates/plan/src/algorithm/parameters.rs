//! Every parameter of a system that changes what a schedule takes changes what its planner expects.
//!
//! The parameters are those that [`System::parameters`] lists, so a new one is tested without being named here.

use super::estimate::Recurrence;
use super::packing::PackingGraph;
use super::tree::{self, Planter, Priority, Table, Timetable, TreeWork, widths};
use super::{
    Collective, Fabric, Kind, Options, Request, Schedule, System, estimate, exchange, nested_ring, overlapped_tree,
};
use antiphon_base::parameter::{Field, Value};
use antiphon_base::watch::Watch;
use antiphon_bound::symmetric_edges;
use antiphon_model::schedule::Op;
use antiphon_model::system::Processor;
use antiphon_sim::{Fidelity, trial};

/// What estimates leave out: parameter, how the value begins, planner if it is not all, and why.
const LEFT_OUT: [(&str, &str, &str, &str); 5] = [
    (
        "endpoint",
        "ace",
        "",
        "an engine takes whole units on all ranks at a time; no estimate follows its SRAM and state machines",
    ),
    (
        "endpoint",
        "ideal",
        "steps",
        "where edges share a link it serves chunks by age, and hides the ways that steps wait for",
    ),
    (
        "packet_payload_bytes",
        "",
        "steps",
        "short packets leave a switch sooner; steps do not know how many of the others then hide them",
    ),
    ("launch_ns", "", "", "every plan begins with it"),
    ("link_arbitration", "", "steps", "who of two that meet goes first; in a plan by slots few do"),
];

/// A change of time that is a change.
const CHANGE: f64 = 0.08;
/// An estimate changes by this part of it at least, in logarithms.
const PART: f64 = 1.0 / 3.0;

/// What a planner expects of a plan that is the same on every system, and the plan.
type Estimated = fn(&Request) -> (u128, Schedule);

/// Planners with fabrics on which they choose.
const PLANNERS: [(&str, &[&str], Kind, Estimated); 5] = [
    ("recurrence", &["mesh:3x3", "fc:4"], Kind::AllReduce, recurrence),
    ("timetable", &["mesh:3x3", "switch:4"], Kind::AllReduce, timetable),
    ("steps", &["mesh:3x3", "switch:4"], Kind::AllReduce, overlapped_tree::estimated),
    ("nested-ring", &["mesh:4x4", "switch:4"], Kind::AllReduce, nested_ring::estimated),
    ("exchange", &["mesh:3x3", "torus:4x4"], Kind::AllToAll, exchange::estimated),
];

fn recurrence(request: &Request) -> (u128, Schedule) {
    let fabric = request.fabric;
    let edges = symmetric_edges(fabric, request.system).unwrap();
    let graph = PackingGraph::new(fabric.ranks(), edges.iter().map(|edge| (edge.0, edge.1)));
    let packing = graph.pack(&vec![1; edges.len()], 1, graph.centre()).unwrap();
    let trees = Planter::new(fabric, request.system).plant_all(packing);
    let widths = widths(&estimate::flit_times(request));
    let table = Table::listed(&trees, widths, Priority::Farthest, TreeWork::Overlapped);
    let mut builder = request.builder();
    table.lanes(&mut builder, |tree| table.piece(tree, (request.bytes, request.align), 8), 8);
    table.send(&mut builder, &[Op::Reduce, Op::Copy]).unwrap();
    (Recurrence::new(request, &table).time(8), builder.finish().unwrap())
}

fn timetable(request: &Request) -> (u128, Schedule) {
    let trees: Vec<_> = super::multitree::trees(request).unwrap();
    let sizes = vec![1; trees.len()];
    let part = request.bytes.div_ceil(trees.len() as u64);
    let piece = part.div_ceil(8).next_multiple_of(4);
    let options = Options::parse("test", &format!("piece={piece}"), &[tree::PIECE]).unwrap();
    let request = &Request { options, matrix: None, ..*request };
    let timetable = Timetable::new(request, &trees, sizes, TreeWork::Overlapped, false);
    let time_ps = timetable.timed(part.div_ceil(piece)).time_ps;
    (time_ps, tree::stream_timed(request, &[timetable], tree::Tried::All).unwrap())
}

/// Other values of a parameter.
fn values(field: &Field<System>, system: &System) -> Vec<Value> {
    let (domain, now) = (field.parameter.domain, field.get(system));
    let mut values = domain.choices();
    match (field.parameter.key, domain.range(), &now) {
        ("endpoint", ..) => {
            let specs = ["ideal:delay_ns=3000", "npu:memory_gb_per_s=2", "ace:alu_gb_per_s=1"];
            values.extend(specs.map(|spec| Value::Text(spec.into())));
        }
        ("processor", ..) => values.extend(Processor::models().map(|(model, _)| Value::Text(model.spec()))),
        ("protocols", ..) => values.extend(["a:0:0:1", "a:0:3000:0.125"].map(|spec| Value::Text(spec.into()))),
        ("routing", ..) => values.extend(["spread", "first", "hash:1"].map(|spec| Value::Text(spec.into()))),
        (_, Some((Value::Whole(least), Value::Whole(most))), Value::Whole(now)) => {
            values.extend([now / 8, now * 8].map(|value| Value::Whole(value.clamp(least, most))));
        }
        (_, Some((Value::Number(least), Value::Number(most))), Value::Number(now)) => {
            let now = if now.is_finite() && *now > 0.0 { *now } else { 10.0 };
            let others = if domain.unit() == "ns" { [0.0, now * 8.0 + 2000.0] } else { [now / 8.0, now * 8.0] };
            values.extend(others.map(|value| Value::Number(value.clamp(least, most))));
        }
        (_, Some((Value::Whole(least), Value::Whole(_))), _) => values.push(Value::Whole(least)),
        (_, Some((Value::Number(_), Value::Number(most))), _) => values.push(Value::Number(most)),
        (key, None, _) => assert!(!values.is_empty(), "give values for {key} here"),
        (key, range, now) => panic!("{key}: {now:?} is not in {range:?}"),
    }
    values.retain(|value| *value != now);
    values
}

/// What a planner expects, and what it takes in packets; `None` if that is refused.
fn times(fabric: &Fabric, system: &System, kind: Kind, bytes: u64, estimated: Estimated) -> Option<[f64; 2]> {
    let request = Request {
        fabric,
        system,
        collective: Collective::new(kind),
        bytes,
        matrix: None,
        align: antiphon_model::collective::Align::default(),
        spec: "test",
        options: Options::parse("test", "", &[]).unwrap(),
        watch: Watch::default(),
    };
    let (estimate, schedule) = estimated(&request);
    let time = trial::time(fabric, &schedule, system, Fidelity::Packet, &mut |_| true).ok()?;
    Some([estimate as f64, time as f64])
}

#[test]
fn every_parameter_that_matters_is_in_every_estimate() {
    let mut wrong = vec![];
    let changes: [&[(&str, &str)]; 3] = [
        &[],
        &[("link_switching", "cut-through"), ("router_ejection", "circuit"), ("router_routing_cycles", "200")],
        &[("reduce_rate_gb_per_s", "50")],
    ];
    for (name, fabrics, kind, estimated) in PLANNERS {
        for (spec, bytes) in fabrics.iter().flat_map(|spec| [1 << 13, 1 << 18].map(|bytes| (*spec, bytes))) {
            let fabric = Fabric::parse(spec).unwrap();
            for (preset, changes) in ["generic", "tto"].into_iter().flat_map(|preset| changes.map(|of| (preset, of))) {
                let mut base = System::preset(preset).unwrap();
                changes.iter().for_each(|(key, value)| base.set(key, value).unwrap());
                let Some(before) = times(&fabric, &base, kind, bytes, estimated) else { continue };
                for field in System::parameters() {
                    for value in values(field, &base) {
                        let mut system = base.clone();
                        system.assign(field.parameter.key, &value).unwrap();
                        let Some(after) = times(&fabric, &system, kind, bytes, estimated) else { continue };
                        let [expected, time] = std::array::from_fn(|at| (after[at] / before[at]).ln());
                        let is_missed = time.abs() > CHANGE.ln_1p() && expected * time.signum() < PART * time.abs();
                        let key = field.parameter.key;
                        let value = value.to_string();
                        let is_left_out = LEFT_OUT.iter().any(|(left, values, planner, _)| {
                            *left == key && value.starts_with(values) && name.starts_with(planner)
                        });
                        if is_missed && !is_left_out {
                            wrong.push(format!(
                                "{name} {spec} {bytes} {preset} {changes:?}: {key}={value} changes the time by {:.3}, what is expected by {:.3}",
                                time.exp(),
                                expected.exp()
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}
