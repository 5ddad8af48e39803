//! A run event by event, whatever its network: for those who do something beside it, as ranks that compute.

use crate::flight::{Flight, Order};
use crate::machine::{Machine, Shortcuts};
use crate::network::{Client, Network, with_machine};
use crate::plan::RunPlan;
use crate::{Fidelity, Progress, check_fabric};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::{Protocols, System};

/// Flights on a fabric, of which those that are held wait to be launched.
pub trait Running {
    /// When something happens next; `None` if nothing does before a flight is launched.
    fn next_ps(&self) -> Option<Picos>;

    /// Launches a flight that is held.
    ///
    /// # Errors
    /// [`Code::TooLarge`] past what the clock holds.
    fn launch(&mut self, flight: u32, now: Picos) -> Result<()>;

    /// Lets what is next happen, and whole periods after it that end by `until`.
    ///
    /// # Errors
    /// [`Code::TooLarge`] if the run needs too many events, [`Code::Interrupted`].
    fn step(&mut self, until: Option<Picos>, progress: &mut Progress) -> Result<()>;

    /// A flight that has ended since this was asked last.
    fn ended(&mut self) -> Option<u32>;

    /// Counts chunks that are complete, for [`Running::raised`] and [`Running::has_part`]. No periods are skipped then.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for too many chunks.
    fn count_chunks(&mut self) -> Result<()>;

    /// A flight of which chunks were completed since this was asked last.
    fn raised(&mut self) -> Option<u32>;

    /// Whether the first `part` of every `bytes` bytes of a flight is complete.
    fn has_part(&self, flight: u32, part: Bytes, bytes: Bytes) -> bool;

    /// The most that waited at any rank at a time to be added ([`crate::RankRow::buffer_bytes`]).
    fn buffer_bytes(&self) -> Option<Bytes>;

    /// Checks, when nothing is to happen, that every flight that was launched is over.
    ///
    /// # Errors
    /// [`Code::Stalled`] with the chain of waits, or the cycle of buffers.
    fn finish(&mut self) -> Result<()>;
}

/// Gives flights on a fabric to `client`, beside which at most `computing` picoseconds are computed.
///
/// # Errors
/// As [`crate::simulate_flights`], and those of `client`; [`Code::NotApplicable`] for a system with several protocols.
pub fn run_beside<T>(
    fabric: &Fabric,
    flights: &[Flight],
    order: Order,
    system: &System,
    fidelity: Fidelity,
    computing: Picos,
    client: impl FnOnce(&mut dyn Running) -> Result<T>,
) -> Result<T> {
    struct Beside<F>(F);
    impl<'a, T, F: FnOnce(&mut dyn Running) -> Result<T>> Client<'a> for Beside<F> {
        type Done = T;
        fn run<N: Network<'a>>(self, mut machine: Machine<'a, N>) -> Result<T> {
            (self.0)(&mut machine)
        }
    }
    check_fabric(fabric, flights)?;
    if let [.., _, last] = &system.protocols.0[..] {
        let what = format!(
            "exchanges of several sizes share the fabric, and each would take another of the system's protocols; \
             give it one, such as protocols={}",
            Protocols(vec![last.clone()]).spec()
        );
        return Err(Error::new(Code::NotApplicable, what));
    }
    let plan = RunPlan::beside(fabric, flights, system, computing)?;
    with_machine(&plan, order, fidelity, Shortcuts::default(), Beside(client))
}
