//! Proof of a plan by symmetry: what does not depend on the number of NPUs is proven once.
//!
//! A lowered plan does the same in every group of every dimension. It computes its collective if
//!
//! - every chunk goes through each dimension exactly once to be scattered and once to be gathered,
//!   one stage after the other, and
//! - the collective of each dimension alone is right for its group.
//!
//! For then, after a ReduceScatter along a set of dimensions, an NPU has the blocks with its own
//! coordinates there, each the sum over all NPUs that differ from it only there: true of no dimension,
//! and carried on to one more by the group's ReduceScatter, in which the summands are from disjoint
//! sets of NPUs. An AllGather takes a dimension away again, and an AllToAll exchanges the source's
//! coordinates for the destination's. Dimensions have links of their own, messages have one order that
//! dependencies follow and wait for what their sender has received before, and what overwrites a
//! contribution was made of it, or waits for it: there are neither deadlocks nor races but those of a dimension alone.

use super::fabric::Expansion;
use super::lower::lower;
use super::orders::{RailsPlan, Stage};
use super::stage_loop::{QueuePolicy, RailsTimes, run as time};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::Dimension;
use antiphon_model::topology::Topology;
use antiphon_proof::{Proof, verify};
use std::fmt;

/// A collective of one dimension, proven message by message at its full size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenDimension {
    /// The dimension.
    pub dimension: Dimension,
    /// What it does.
    pub kind: Kind,
    /// Its proof.
    pub proof: Proof,
}

/// A proof by symmetry: no message of the whole plan was followed. It displays as a statement of what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymmetryProof {
    /// NPUs of the topology.
    pub npus: u64,
    /// Chunks whose stages were checked.
    pub chunks: u64,
    /// Their stages.
    pub stages: u64,
    /// Collectives of single dimensions that were proven message by message; equal ones once.
    pub dimensions: Vec<ProvenDimension>,
}

impl fmt::Display for SymmetryProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alone: Vec<_> =
            self.dimensions.iter().map(|d| format!("{} on {}", d.kind.name(), d.dimension.spec())).collect();
        write!(
            f,
            "proven by symmetry for {} NPUs: {} chunks visit every dimension once, in {} stages; followed message by message only: {}",
            self.npus,
            self.chunks,
            self.stages,
            alone.join(", ")
        )
    }
}

/// Proves by symmetry what [`lower`] makes of `plan` and `run`, without making it.
///
/// Complexity: O(stages of all chunks) and, for every different dimension of size `P`, the proof of
/// O(P^2) transfers.
///
/// # Errors
/// [`Code::NotProven`] with the first chunk that misses or repeats a dimension, or that the run does not
/// serve in order; [`Code::TooLarge`] for dimensions too large to be proven alone; and as [`lower`].
pub fn prove_by_symmetry(topology: &Topology, plan: &RailsPlan, run: &RailsTimes) -> Result<SymmetryProof> {
    check_stages(topology, plan)?;
    let stages = check_service(topology, plan, run)?;
    // Both halves of an AllReduce, and that they do not race.
    let kinds: &[Kind] = match plan.kind {
        Kind::AllReduce => &[Kind::ReduceScatter, Kind::AllGather, Kind::AllReduce],
        _ => std::slice::from_ref(&plan.kind),
    };
    let mut proven: Vec<ProvenDimension> = Vec::new();
    for &dimension in &topology.dimensions {
        for &kind in kinds {
            let same = |other: &ProvenDimension| (other.dimension.shape, other.dimension.size, other.kind);
            if !proven.iter().any(|other| same(other) == (dimension.shape, dimension.size, kind)) {
                let proof = prove_alone(dimension, kind, plan)
                    .map_err(|error| error.at(format_args!("dimension {} alone", dimension.spec())))?;
                proven.push(ProvenDimension { dimension, kind, proof });
            }
        }
    }
    Ok(SymmetryProof { npus: topology.npus(), chunks: plan.orders.len() as u64, stages, dimensions: proven })
}

/// One chunk of one dimension, lowered as it is in the product.
fn prove_alone(dimension: Dimension, kind: Kind, plan: &RailsPlan) -> Result<Proof> {
    let topology = Topology { name: dimension.spec(), dimensions: vec![dimension] };
    let alone = RailsPlan::uniform(&topology, kind, plan.bytes, 1, plan.offload)?;
    let expansion = Expansion::new(&topology)?;
    let schedule = lower(&expansion, &alone, &time(&topology, &alone, QueuePolicy::Fifo, 1), 1)?;
    verify(&expansion.fabric, &schedule)
}

/// Checks that every chunk goes along every dimension once in each half of the collective.
///
/// # Errors
/// [`Code::NotProven`] with the first chunk that misses or repeats one.
pub fn check_stages(topology: &Topology, plan: &RailsPlan) -> Result<()> {
    for (chunk, order) in plan.orders.iter().enumerate() {
        let first = (plan.kind != Kind::AllGather).then_some((order.first, "scattered"));
        let gather = matches!(plan.kind, Kind::AllReduce | Kind::AllGather).then_some((order.gather, "gathered"));
        for (path, what) in [first, gather].into_iter().flatten() {
            let mut visits = vec![0; topology.dimensions.len()];
            for &number in path.as_slice() {
                match visits.get_mut(usize::from(number)) {
                    Some(count) => *count += 1,
                    None => return not_proven(format!("chunk {chunk} uses dimension {}", number + 1)),
                }
            }
            if let Some(number) = visits.iter().position(|&count| count != 1) {
                let times = visits[number];
                return not_proven(format!("chunk {chunk} is {what} {times} times along dimension {}", number + 1));
            }
        }
    }
    Ok(())
}

/// Every stage served once, on its dimension, and not before the one before it is complete. Returns how
/// many there are.
fn check_service(topology: &Topology, plan: &RailsPlan, run: &RailsTimes) -> Result<u64> {
    let stages: Vec<Vec<Stage>> = plan.orders.iter().map(|order| plan.stages(topology, order).collect()).collect();
    let mut starts: Vec<Vec<Option<Picos>>> = stages.iter().map(|stages| vec![None; stages.len()]).collect();
    for (number, spans) in run.spans.iter().enumerate() {
        for span in spans {
            let (chunk, stage) = (span.chunk as usize, span.stage as usize);
            let there = stages.get(chunk).and_then(|stages| stages.get(stage));
            if there.is_none_or(|there| usize::from(there.dimension) != number) {
                return not_proven(format!(
                    "dimension {} serves stage {stage} of chunk {chunk}, not its own",
                    number + 1
                ));
            }
            if starts[chunk][stage].replace(span.start_ps).is_some() {
                return not_proven(format!("stage {stage} of chunk {chunk} is served twice"));
            }
        }
    }
    for (chunk, (stages, starts)) in stages.iter().zip(&starts).enumerate() {
        let mut complete = 0;
        for (number, (stage, start)) in stages.iter().zip(starts).enumerate() {
            match start {
                None => return not_proven(format!("stage {number} of chunk {chunk} is never served")),
                Some(start) if *start < complete => {
                    return not_proven(format!("stage {number} of chunk {chunk} is served before the one before it"));
                }
                Some(start) => complete = start.saturating_add(stage.busy_ps + stage.latency_ps),
            }
        }
    }
    Ok(stages.iter().map(|stages| stages.len() as u64).sum())
}

fn not_proven<T>(what: String) -> Result<T> {
    Err(Error::new(Code::NotProven, what))
}
