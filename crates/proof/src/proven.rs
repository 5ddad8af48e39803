//! A schedule with its proof: only this is timed, replayed and trained with.

use super::{Proof, assume, verify_watched};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Watch;
use antiphon_model::fabric::Fabric;
use antiphon_model::schedule::Schedule;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A schedule that was proven for a fabric. It cannot be changed; only this module makes one.
#[derive(Debug, Clone)]
pub struct Proven {
    schedule: Arc<Schedule>,
    proof: Proof,
    /// The links that it was proven on.
    links: u64,
}

impl Proven {
    /// What was proven.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Checks that it was proven on the links of a fabric. The ranks of a group are checked where it is run. O(links).
    ///
    /// # Errors
    /// [`Code::NotProven`].
    pub fn check_fabric(&self, fabric: &Fabric) -> Result<()> {
        if self.links == links(fabric) {
            return Ok(());
        }
        let (schedule, other) = (&self.schedule.algorithm, &fabric.name);
        Err(Error::new(Code::NotProven, format!("schedule {schedule} was proven on other links than those of {other}")))
    }

    /// A schedule that can run to its end, though it may not compute its collective: for reproductions of what others ran.
    /// Its proof may be incomplete, and then says why.
    ///
    /// # Errors
    /// As [`assume`].
    pub fn assumed(fabric: &Fabric, schedule: impl Into<Arc<Schedule>>, watch: Watch) -> Result<Proven> {
        let schedule = schedule.into();
        let proof = assume(fabric, &schedule, watch)?;
        Ok(Proven { schedule, proof, links: links(fabric) })
    }
}

impl Deref for Proven {
    type Target = Schedule;

    fn deref(&self) -> &Schedule {
        &self.schedule
    }
}

/// Proves a schedule, for whoever times it.
///
/// # Errors
/// As [`super::verify`].
pub fn prove(fabric: &Fabric, schedule: impl Into<Arc<Schedule>>) -> Result<Proven> {
    prove_watched(fabric, schedule, Watch::default())
}

/// [`prove`], reporting to `watch`.
///
/// # Errors
/// As [`verify_watched`].
pub fn prove_watched(fabric: &Fabric, schedule: impl Into<Arc<Schedule>>, watch: Watch) -> Result<Proven> {
    let schedule = schedule.into();
    let proof = verify_watched(fabric, &schedule, watch)?;
    Ok(Proven { schedule, proof, links: links(fabric) })
}

/// A hash of the fabric's links; rates do not count, since no proof rests on them.
fn links(fabric: &Fabric) -> u64 {
    let mut hasher = DefaultHasher::new();
    fabric.nodes.len().hash(&mut hasher);
    fabric.links.iter().for_each(|link| (link.from, link.to).hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;

    #[test]
    fn a_proof_is_for_the_links_of_one_fabric() {
        let (fabric, ring) = ring_all_reduce(4, 64, 1);
        let proven = prove(&fabric, ring).unwrap();
        assert!(proven.proof().complete && proven.check_fabric(&fabric).is_ok());
        let slower = Fabric::parse("ring:4@1").unwrap();
        assert!(proven.check_fabric(&slower).is_ok());
        let error = proven.check_fabric(&Fabric::parse("mesh:2x2").unwrap()).unwrap_err();
        assert_eq!((error.code, error.message.contains("other links than those of mesh:2x2")), (Code::NotProven, true));
    }
}
