//! Networks: one per fidelity, behind one trait. A network carries messages between the interfaces of ranks.

mod alpha_beta;
mod flit;
mod flow;
mod packet;

pub use alpha_beta::AlphaBeta;
pub use flit::Flit;
pub use packet::{Border, Crossing, Packet};

use super::clock::Ticks;
use super::endpoints::Endpoints;
use super::flight::Order;
use super::machine::{Machine, Shortcuts};
use super::period::Recurrent;
use super::plan::RunPlan;
use super::recorder::Traffic;
use antiphon_base::error::Result;
use antiphon_base::parameter::Choice;
use antiphon_model::schedule::Issue;
use serde::{Deserialize, Serialize};

/// Declares every network: its type, which also names the fidelity, and the name that users know it by. Nothing else
/// lists them.
macro_rules! networks {
    ($($(#[$doc:meta])* $network:ident = $name:literal,)+) => {
        /// How closely the network is modelled.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Fidelity {
            $($(#[$doc])* $network,)+
        }

        impl Choice for Fidelity {
            const WHAT: &'static str = "fidelity";
            const ALL: &'static [(&'static str, Self)] = &[$(($name, Fidelity::$network)),+];
        }

        /// Gives a machine with the network of a fidelity to its client.
        pub(crate) fn with_machine<'a, C: Client<'a>>(
            plan: &'a RunPlan<'a>,
            order: Order,
            fidelity: Fidelity,
            shortcuts: Shortcuts,
            client: C,
        ) -> Result<C::Done> {
            match fidelity {
                $(Fidelity::$network => client.run(Machine::<$network>::new(plan, order, shortcuts)?),)+
            }
        }
    };
}

// Cheapest first.
networks! {
    /// Whole messages: latency plus size over rate, of those that have come to a link the first in schedule order.
    AlphaBeta = "alpha-beta",
    /// Packets with headers, FIFO links, network interfaces of finite depth.
    Packet = "packet",
    /// Flits through virtual-channel routers with finite buffers and credits.
    Flit = "flit",
}

/// Carries the messages of a [`RunPlan`].
pub trait Network<'a>: Recurrent + Sized {
    /// How the schedules' messages are issued, where that is the network's matter.
    const ISSUE: Option<Issue> = None;
    /// The fidelity that it is.
    const FIDELITY: Fidelity;
    /// What its work is counted in, and the most of a run: minutes.
    const WORK: (&'static str, u64);

    /// An idle network for interfaces of ranks. `merge` lets it make one event of many; never changes a result.
    ///
    /// # Errors
    /// For what it could not carry.
    fn new(plan: &'a RunPlan<'a>, endpoints: &Endpoints, merge: bool) -> Result<Self>;

    /// From the arrival of a message to the start of what waited for it.
    fn hand_off(plan: &RunPlan) -> Ticks {
        plan.hand_off
    }

    /// When its next event is; [`Ticks::MAX`] if there is none.
    fn next_at(&self) -> Ticks;

    /// Processes its next event.
    fn step(&mut self, endpoints: &mut Endpoints);

    /// The ranks are about to do something at `now`.
    fn before_ranks(&mut self, _now: Ticks) {}

    /// The ranks have done something: tells them what has followed.
    fn after_ranks(&mut self, _endpoints: &mut Endpoints) {}

    /// The work done, of `events` of ranks and network.
    fn work(&self, events: u64) -> u64 {
        events
    }

    /// The events of ranks and network together, as results report them.
    fn events(&self, events: u64) -> u64 {
        events
    }

    /// Everything was delivered, or nothing moves any more.
    ///
    /// # Errors
    /// If it still holds something.
    fn finish(&mut self, _now: Ticks) -> Result<()> {
        Ok(())
    }

    /// What it recorded.
    fn into_traffic(self) -> Traffic;
}

/// Who runs a machine, whatever its network.
pub(crate) trait Client<'a> {
    /// What comes of it.
    type Done;
    /// Runs it.
    fn run<N: Network<'a>>(self, machine: Machine<'a, N>) -> Result<Self::Done>;
}
