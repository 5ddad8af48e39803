//! Collectives on more ranks than a schedule can list, up to a wafer of 65,536: each is described instead.
//!
//! A [`periodic`] schedule on a grid is a rule for all its messages, repeated for chunk after chunk; a [`staged`] one goes
//! along one dimension after the other, where one line stands for all that are parallel to it. The trees of a broadcast or a reduction
//! are [`listed`], since chunk after chunk goes along them.

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{Bytes, Picos, clip};
use antiphon_base::watch::Watch;
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{Fabric, MAX_RANKS};
use antiphon_model::schedule::Schedule;
use antiphon_model::system::{Attojoules, System};
use antiphon_proof::prove_watched;
use antiphon_sim::{Fidelity, dynamic_energy, simulate};

pub mod listed;
pub mod periodic;
pub mod staged;

/// A collective that was proven, bounded and timed without a list of its transfers for every chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// The algorithm, with the options that matter.
    pub algorithm: String,
    /// When it is over.
    pub time_ps: Picos,
    /// What no schedule is below.
    pub bound_ps: Picos,
    /// What that rests on: `latency`, `strength`, `cut`, `volume` or `prices`.
    pub binding: &'static str,
    /// Messages of all ranks.
    pub messages: u128,
    /// Energy of what moves, in attojoules.
    pub dynamic: Attojoules,
    /// What was checked, in one line.
    pub proof: String,
}

impl Described {
    /// What is in the place of a list of transfers.
    pub fn in_place(&self) -> &'static str {
        match self.algorithm.split(':').next() {
            Some(STAGED) => "a line of every dimension, which stands for all that are parallel to it",
            Some(OPTIMAL) => "trees, along which chunk after chunk goes",
            _ => "a rule for all messages, repeated for chunk after chunk",
        }
    }
}

/// The name of what [`staged::described`] does.
pub const STAGED: &str = "staged";
/// The name of what [`listed::described`] does.
pub const OPTIMAL: &str = "optimal";

/// A schedule, proven and simulated.
#[derive(Debug, Clone, Copy)]
struct ProvenRun {
    /// The buffer of the collective.
    bytes: Bytes,
    /// When its last rank is done.
    time_ps: Picos,
    messages: u64,
    /// Energy of what moves.
    dynamic: Attojoules,
}

impl ProvenRun {
    /// # Errors
    /// As [`prove_watched`] and [`simulate`].
    fn of(fabric: &Fabric, schedule: Schedule, system: &System, fidelity: Fidelity, watch: Watch) -> Result<ProvenRun> {
        let proven = prove_watched(fabric, schedule, watch)?;
        let mut goes_on = |share: f64| watch.step((share * 1024.0) as usize, 1024).is_ok();
        let timed = simulate(fabric, &proven, system, fidelity, &mut goes_on)?;
        let dynamic = dynamic_energy(fabric, &proven, system)?.dynamic();
        Ok(ProvenRun { bytes: proven.bytes, time_ps: timed.time_ps, messages: proven.messages(), dynamic })
    }
}

/// A description by every algorithm, and why others have none.
#[derive(Debug, Clone, PartialEq)]
pub struct AtScale {
    /// Ranks of the fabric.
    pub ranks: u64,
    /// The fastest first.
    pub runs: Vec<Described>,
    /// Algorithms that do not apply, and why.
    pub refused: Vec<(String, Error)>,
}

/// A collective on a fabric by each of some algorithms, or by all that are known, without a list of transfers for every chunk. A fabric of
/// more than 4,096 ranks is its specification alone.
///
/// # Errors
/// [`Code::UnknownName`] for an algorithm; the first refusal if none applies; [`Code::Interrupted`].
pub fn at_scale(
    (name, fabric): (&str, Option<&Fabric>),
    system: &System,
    (kind, bytes): (Kind, Bytes),
    algorithms: &[String],
    fidelity: Fidelity,
    watch: Watch,
) -> Result<AtScale> {
    let known = || [STAGED, OPTIMAL].into_iter().chain(periodic::ALGORITHMS);
    let specs: Vec<&str> = match algorithms {
        [] => known().filter(|name| *name != OPTIMAL || kind.rooted()).collect(),
        given => given.iter().map(String::as_str).collect(),
    };
    for spec in &specs {
        let name = spec.split(':').next().unwrap_or(spec);
        if !known().any(|known| known == name) {
            let names = known().collect::<Vec<_>>().join(", ");
            let what = format!("nothing describes '{}'{}; known: {names}", clip(name), nearest(name, known()));
            return Err(Error::new(Code::UnknownName, what));
        }
        if [STAGED, OPTIMAL].contains(&name) && *spec != name {
            let what = format!("'{}': {name} has no options here; it finds trees and chunks itself", clip(spec));
            return Err(Error::new(Code::BadSpec, what));
        }
    }
    let grid = periodic::Grid::parse(name);
    let ranks = match (fabric, &grid) {
        (Some(fabric), _) => fabric.ranks() as u64,
        (None, Ok(grid)) => grid.ranks().into(),
        (None, Err(error)) => return Err(error.clone()),
    };
    let (mut runs, mut refused): (Vec<Described>, Vec<(String, Error)>) = (vec![], vec![]);
    for &spec in &specs {
        let described = match (spec, fabric, &grid) {
            (STAGED, Some(fabric), _) => staged::described(fabric, system, kind, bytes, fidelity, watch),
            (OPTIMAL, Some(fabric), _) => listed::described(fabric, system, kind, bytes, fidelity, watch),
            (STAGED | OPTIMAL, None, _) => {
                let what = format!("{spec} is for fabrics of at most {MAX_RANKS} ranks");
                Err(Error::new(Code::TooLarge, what))
            }
            (_, _, Err(error)) => Err(error.clone()),
            (_, _, Ok(_)) if kind != Kind::AllReduce => {
                let what = format!("{spec} is described for all-reduce, not for {}", kind.name());
                Err(Error::new(Code::NotApplicable, what))
            }
            (_, _, Ok(grid)) => periodic::described(grid, system, bytes, spec, fidelity, watch),
        };
        match described {
            Ok(described) => runs.push(described),
            Err(error) if error.code == Code::Interrupted => return Err(error),
            Err(error) => refused.push((spec.into(), error)),
        }
    }
    if runs.is_empty()
        && let Some((_, error)) = refused.first()
    {
        let all: Vec<String> = refused.iter().map(|(spec, error)| format!("{spec}: {}", error.message)).collect();
        let message = if refused.len() == 1 { error.message.clone() } else { all.join("; ") };
        return Err(Error::new(error.code, message));
    }
    runs.sort_by_key(|run| run.time_ps);
    Ok(AtScale { ranks, runs, refused })
}
