//! One dimension of a product after the other; a line stands for all that are parallel to it.
//!
//! The data are cut into chunks, which go along the dimensions in different orders, as the schedulers of `rails` say (Themis,
//! ISCA 2022), so that all dimensions are busy at once. A *stage* is one chunk along one dimension: the same collective on
//! every line. On one of these lines it is listed, proven and simulated.
//!
//! The time is that of a schedule with barriers. A dimension does one stage after another, a chunk as well, and a stage
//! begins when all ranks have ended those that it waits for; it takes the simulated time of its line. Without barriers
//! ranks would begin sooner, never later, so no more time is needed. Dimensions have links of their own; where they share more, such as
//! the adder of a rank, only one of them is busy at a time.

mod line;

use crate::{Described, ProvenRun};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Bytes, Picos};
use antiphon_base::watch::Watch;
use antiphon_bound::lower_bound;
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::{Dimension, Fabric};
use antiphon_model::system::{Attojoules, Endpoint, System};
use antiphon_sim::Fidelity;
use antiphon_sim::rails::orders::{Basic, Stage};
use antiphon_sim::rails::scheduler::OrderSearch;
use antiphon_sim::rails::stage_loop::StageLoop;
use antiphon_sim::rails::symmetry::check_stages;
use antiphon_sim::rails::{Expansion, QueuePolicy, RailsPlan};
use line::ProductLine;
use std::collections::HashMap;

/// Numbers of chunks that are tried.
const CHUNKS: [u32; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96];
/// StagedLines that a search for orders times, for each number of chunks.
const STAGES: u64 = 200_000;
/// A line's times for other numbers of bytes are estimated from those for two, one so many times the other.
const RATIO: Bytes = 4096;

/// A collective on a product of rings, lines, cliques and switches, one dimension after the other. A Broadcast or Reduce is an
/// AllReduce to which only the root brings something, or of which only the root keeps something: right, but half as fast as it could be.
///
/// Complexity: that of a few proofs and simulations of a line along every dimension; it does not grow with the lines.
///
/// # Errors
/// [`Code::NotApplicable`] for other fabrics and collectives, for lines that differ, and at fidelity `flit`; as
/// [`lower_bound`] and [`antiphon_sim::simulate`].
pub fn described(
    fabric: &Fabric,
    system: &System,
    kind: Kind,
    bytes: Bytes,
    fidelity: Fidelity,
    watch: Watch,
) -> Result<Described> {
    if fidelity == Fidelity::Flit {
        let what = "flits of one dimension share routers with those of others; time stages at packet or alpha-beta";
        return Err(Error::new(Code::NotApplicable, what));
    }
    if system.endpoint != Endpoint::System {
        let what =
            "an endpoint serves all dimensions of a rank, so they cannot be timed by themselves; leave endpoint out";
        return Err(Error::new(Code::NotApplicable, what));
    }
    let expansion = Expansion::of(fabric, system)?;
    let bound = lower_bound(fabric, system, Collective::new(kind), bytes, Some(fidelity))?;
    // That comes once, not with every stage.
    let without = System { launch_ps: 0, ..system.clone() };
    let mut stages = StagedLines::new(&expansion, &without, fidelity)?;
    let (staged, of) = match kind {
        Kind::Broadcast => (stages.best(Kind::AllReduce, bytes, watch)?, "an all-reduce of what the root has; "),
        Kind::Reduce => (stages.best(Kind::AllReduce, bytes, watch)?, "an all-reduce that only the root keeps; "),
        _ => (stages.best(kind, bytes, watch)?, ""),
    };
    check_stages(&expansion.topology, &staged.plan)?;
    Ok(Described {
        algorithm: format!("staged:chunks={}", staged.plan.orders.len()),
        time_ps: system.launch_ps + staged.time_ps,
        bound_ps: bound.time_ps,
        binding: bound.binding,
        messages: staged.messages,
        dynamic: staged.dynamic,
        proof: format!("{of}{}", stages.proof(&staged.plan)),
    })
}

/// What is done along a dimension, by its number, and with how many bytes.
type StageKey = (usize, Kind, Bytes);

/// The stages of a product, by the runs of their lines.
struct StagedLines<'a> {
    expansion: &'a Expansion,
    system: &'a System,
    lines: Vec<ProductLine<'a>>,
}

/// A plan, and what it takes.
struct Staged {
    plan: RailsPlan,
    time_ps: Picos,
    messages: u128,
    dynamic: Attojoules,
}

impl<'a> StagedLines<'a> {
    fn new(expansion: &'a Expansion, system: &'a System, fidelity: Fidelity) -> Result<StagedLines<'a>> {
        let numbers = 0..expansion.topology.dimensions.len();
        let lines =
            numbers.map(|number| ProductLine::new(expansion, number, system, fidelity)).collect::<Result<_>>()?;
        Ok(StagedLines { expansion, system, lines })
    }

    /// The plan that is over soonest, of one for each number of chunks.
    ///
    /// # Errors
    /// As [`RailsPlan::uniform`] and [`ProductLine::run`].
    fn best(&mut self, kind: Kind, bytes: Bytes, watch: Watch) -> Result<Staged> {
        let estimates = self.estimates(kind, bytes, watch)?;
        let topology = &self.expansion.topology;
        let mut best: Option<(Picos, RailsPlan)> = None;
        for (done, &chunks) in CHUNKS.iter().enumerate() {
            watch.step(CHUNKS.len() + done, 3 * CHUNKS.len())?;
            let mut plan = RailsPlan::uniform(topology, kind, bytes, chunks, false)?;
            OrderSearch { stages: STAGES, ..OrderSearch::default() }.best(topology, &mut plan);
            let time_ps = self.through(&plan, |key| estimates[&(key.0, key.1)].of(key.2));
            if best.as_ref().is_none_or(|(least, _)| time_ps < *least) {
                best = Some((time_ps, plan));
            }
        }
        let (_, plan) = best.expect("several numbers of chunks are tried");
        self.timed(plan, watch)
    }

    /// What the lines take for any number of bytes, from two of them.
    fn estimates(&mut self, kind: Kind, bytes: Bytes, watch: Watch) -> Result<HashMap<(usize, Kind), LineEstimate>> {
        let kinds = match kind {
            Kind::AllReduce => vec![Kind::ReduceScatter, Kind::AllGather],
            _ => vec![kind],
        };
        let (mut estimates, count) = (HashMap::new(), self.lines.len());
        for (number, line) in self.lines.iter_mut().enumerate() {
            let beat = |_| watch.step(number, 3 * count).is_ok();
            for &kind in &kinds {
                let [few, many] = [bytes / RATIO, bytes].map(|bytes| line.run(kind, bytes, Watch::new(&beat)));
                estimates.insert((number, kind), LineEstimate { few: few?, many: many? });
            }
        }
        Ok(estimates)
    }

    /// A plan, timed by the runs of its lines.
    fn timed(&mut self, plan: RailsPlan, watch: Watch) -> Result<Staged> {
        let keys: Vec<StageKey> = self.keys(&plan).into_iter().flatten().map(|(key, _)| key).collect();
        let (mut runs, mut messages, mut dynamic) = (HashMap::new(), 0, 0);
        for (done, &key) in keys.iter().enumerate() {
            let (number, kind, bytes) = key;
            let line = &mut self.lines[number];
            let beat = |_| watch.step(2 * keys.len() + done, 3 * keys.len()).is_ok();
            let run = line.run(kind, bytes, Watch::new(&beat))?;
            let lines = u128::from(self.expansion.topology.npus() / line.dimension.size);
            messages += lines * u128::from(run.messages);
            dynamic += lines * run.dynamic;
            runs.insert(key, run.time_ps);
        }
        let time_ps = self.through(&plan, |key| runs[&key]);
        Ok(Staged { plan, time_ps, messages, dynamic })
    }

    /// The stages of every chunk of a plan, and what each is.
    fn keys(&self, plan: &RailsPlan) -> Vec<Vec<(StageKey, Stage)>> {
        let chunks = plan.orders.len() as u64;
        let key = |stage: Stage| {
            let kind = match stage.basic {
                Basic::Reduce => Kind::ReduceScatter,
                Basic::Gather => Kind::AllGather,
                Basic::Exchange => Kind::AllToAll,
            };
            ((usize::from(stage.dimension), kind, plan.bytes.div_ceil(stage.parts * chunks)), stage)
        };
        plan.orders.iter().map(|order| plan.stages(&self.expansion.topology, order).map(key).collect()).collect()
    }

    /// When all chunks of a plan are through, if every stage takes so long, with the best queue policy.
    fn through(&self, plan: &RailsPlan, time: impl Fn(StageKey) -> Picos) -> Picos {
        let alone = self.system.reduce_rate.is_some() && matches!(plan.kind, Kind::AllReduce | Kind::ReduceScatter);
        let stages = self.keys(plan).into_iter().map(|chunk| {
            let of = |(key, stage): (StageKey, Stage)| {
                let dimension = if alone { 0 } else { stage.dimension };
                Stage { dimension, busy_ps: time(key), latency_ps: 0, ..stage }
            };
            chunk.into_iter().map(of).collect::<Vec<_>>()
        });
        let stages: Vec<Vec<Stage>> = stages.collect();
        let timed = QueuePolicy::ALL.iter().map(|&(_, queue)| {
            let mut times = StageLoop::new(self.lines.len(), queue, 1);
            for chunk in &stages {
                times.submit(0, chunk.iter().copied());
            }
            let mut end = 0;
            while let Some(now) = times.next() {
                times.step(|_, _| (), |_| end = now);
            }
            end
        });
        timed.min().expect("there are queue policies")
    }

    /// What was checked of a plan.
    fn proof(&self, plan: &RailsPlan) -> String {
        let mut alone: Vec<String> = vec![];
        for (number, kind, _) in self.keys(plan).into_iter().flatten().map(|(key, _)| key) {
            let Dimension { shape, size, .. } = self.lines[number].dimension;
            let what = format!("{} on a {} of {size}", kind.name(), shape.name());
            if !alone.contains(&what) {
                alone.push(what);
            }
        }
        format!(
            "by symmetry, a line for all that are parallel to it: {} proven message by message; every chunk goes along \
             every dimension once",
            alone.join(", ")
        )
    }
}

/// The runs of a line with few bytes and with many; between them times are near a straight line.
struct LineEstimate {
    few: ProvenRun,
    many: ProvenRun,
}

impl LineEstimate {
    fn of(&self, bytes: Bytes) -> Picos {
        let [few, many] = [&self.few, &self.many].map(|run| run.bytes as f64);
        let share = (bytes as f64 - few) / (many - few).max(1.0);
        let [least, most] = [&self.few, &self.many].map(|run| run.time_ps as f64);
        // No number of bytes takes no time.
        (least + share * (most - least)).max(1.0) as Picos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_proof::prove;
    use antiphon_sim::rails::{lower, run};
    use antiphon_sim::{dynamic_energy, simulate};

    const KINDS: [Kind; 4] = [Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::AllReduce];

    #[test]
    fn it_takes_as_long_as_the_listed_schedule() {
        let system = System::default();
        for spec in ["torus:4x4", "mesh:4x4", "mesh:3x5", "fbfly:3x4"] {
            let fabric = Fabric::parse(spec).unwrap();
            let expansion = Expansion::of(&fabric, &system).unwrap();
            for (kind, fidelity) in KINDS
                .into_iter()
                .flat_map(|kind| [Fidelity::AlphaBeta, Fidelity::Packet].map(|fidelity| (kind, fidelity)))
            {
                let mut stages = StagedLines::new(&expansion, &system, fidelity).unwrap();
                let staged = stages.best(kind, 16 << 20, Watch::default()).unwrap();
                let times = run(&expansion.topology, &staged.plan, QueuePolicy::Tail, 1);
                // The same stages move the right data; messages are cut where lanes do not adjoin, and ranks wait for no others.
                let listed = prove(&fabric, lower(&expansion, &staged.plan, &times, 1).unwrap()).unwrap();
                let timed = simulate(&fabric, &listed, &system, fidelity, &mut |_| true).unwrap();
                let by_listed = staged.time_ps as f64 / timed.time_ps as f64;
                assert!((0.99..1.1).contains(&by_listed), "{spec} {kind:?} {fidelity:?}: {by_listed}");
                let energy = dynamic_energy(&fabric, &listed, &system).unwrap().dynamic() as f64;
                assert!((staged.dynamic as f64 / energy - 1.0).abs() < 0.01, "{spec} {kind:?}");
            }
        }
    }

    #[test]
    fn near_the_bound_where_all_ranks_are_alike() {
        for (spec, share) in [("torus:4x4x4", 0.98), ("dgx-h100:4,switches=plain", 0.9), ("mesh:8x8", 0.97)] {
            let fabric = Fabric::parse(spec).unwrap();
            for kind in KINDS {
                let found =
                    described(&fabric, &System::default(), kind, 1 << 30, Fidelity::Packet, Watch::default()).unwrap();
                let reached = found.bound_ps as f64 / found.time_ps as f64;
                // Half of a mesh's links are idle in either half of an AllReduce.
                let least = if spec == "mesh:8x8" && kind == Kind::AllReduce { 0.55 } else { share };
                assert!((least..=1.0).contains(&reached), "{spec} {kind:?}: {reached}");
                assert!(found.proof.contains("message by message"), "{}", found.proof);
            }
        }
    }

    #[test]
    fn what_ranks_share_is_used_by_one_dimension_at_a_time() {
        let fabric = Fabric::parse("torus:4x4").unwrap();
        let time = |system: &System| {
            let kind = Kind::ReduceScatter;
            described(&fabric, system, kind, 16 << 20, Fidelity::Packet, Watch::default()).unwrap().time_ps
        };
        let free = time(&System::default());
        let mut system = System::default();
        system.set("reduce_rate_gb_per_s", "100000").unwrap();
        assert!(time(&system) > free * 19 / 10, "{} {free}", time(&system));
        system.set("launch_ns", "1000").unwrap();
        assert_eq!(time(&system), time(&System { launch_ps: 0, ..system.clone() }) + 1_000_000);
    }

    #[test]
    fn rooted_collectives_are_all_reduces() {
        let fabric = Fabric::parse("torus:4x4").unwrap();
        let of =
            |kind| described(&fabric, &System::default(), kind, 16 << 20, Fidelity::Packet, Watch::default()).unwrap();
        let all_reduce = of(Kind::AllReduce);
        for kind in [Kind::Broadcast, Kind::Reduce] {
            let found = of(kind);
            assert_eq!((found.time_ps, found.messages), (all_reduce.time_ps, all_reduce.messages));
            assert!(found.proof.starts_with("an all-reduce ") && found.proof.ends_with(&all_reduce.proof));
            assert!((0.45..0.55).contains(&(found.bound_ps as f64 / found.time_ps as f64)), "{found:?}");
        }
    }

    #[test]
    fn what_is_not_described_is_said() {
        let refused = |spec: &str, system: &str, kind, fidelity| {
            let fabric = Fabric::parse(spec).unwrap();
            let mut endpoint = System::default();
            endpoint.set("endpoint", system).unwrap();
            described(&fabric, &endpoint, kind, 1 << 20, fidelity, Watch::default()).unwrap_err().message
        };
        let (gather, packet) = (Kind::AllGather, Fidelity::Packet);
        assert!(refused("mesh:3x3", "system", gather, Fidelity::Flit).contains("share routers"));
        assert!(refused("mesh:3x3", "ace", gather, packet).contains("endpoint"));
        assert!(refused("mesh:3x3,drop=0-1", "system", gather, packet).contains("no intact product"));
        assert!(refused("mesh:3x3,slow=0-1:0.5", "system", gather, packet).contains("differ"));
    }

    /// Prints what 4,096 ranks take, and how long that takes to find.
    #[test]
    #[ignore = "takes a minute"]
    fn four_thousand_ranks() {
        for spec in ["torus:16x16x16", "mesh:64x64", "dgx-h100:512"] {
            let fabric = Fabric::parse(spec).unwrap();
            for kind in KINDS {
                let before = std::time::Instant::now();
                let found =
                    described(&fabric, &System::default(), kind, 4 << 30, Fidelity::Packet, Watch::default()).unwrap();
                let reached = found.bound_ps as f64 / found.time_ps as f64;
                println!("{spec} {kind:?} {reached:.4} {:?} {found:?}", before.elapsed());
            }
        }
    }
}
