//! The machine: flights on one network, on one clock.
//!
//! One loop over the events of the network, of the ranks and of launches. Of simultaneous ones those of the network come
//! first, then those of the ranks, then launches.

use super::Progress;
use super::budget::Budget;
use super::clock::Ticks;
use super::endpoints::Endpoints;
use super::flight::{FlightRow, Order};
use super::network::{Border, Crossing, Network, Packet};
use super::parts::Division;
use super::period::Periods;
use super::plan::Plan;
use super::recorder::Deliveries;
use super::result::{SimulationResult, collect};
use crate::error::Result;
use crate::parts::{Parcel, Part};
use crate::units::Picos;

/// What makes runs faster and never changes a result.
#[derive(Debug, Clone, Copy)]
pub struct Shortcuts {
    /// Runs of packets that nothing interrupts are one event.
    pub merge_runs: bool,
    /// Whole periods are skipped.
    pub skip_periods: bool,
    /// Cores that a long run in parts may use.
    pub cores: usize,
    /// Events after which a run may start again in parts.
    pub alone: u64,
}

impl Default for Shortcuts {
    fn default() -> Self {
        Shortcuts { merge_runs: true, skip_periods: true, cores: 1, alone: 1 << 23 }
    }
}

/// See the module.
pub struct Machine<'a, N> {
    plan: &'a Plan<'a>,
    endpoints: Endpoints<'a>,
    network: N,
    periods: Option<Periods>,
    budget: Budget,
    now: Ticks,
    /// Events of the network and the ranks.
    events: u64,
}

/// Events between two looks at the clock of the one who waits.
const EVENTS_A_LOOK: u64 = 1 << 13;

impl<'a, N: Network<'a>> Machine<'a, N> {
    /// The flights of a plan, none launched.
    ///
    /// # Errors
    /// As [`Network::new`].
    pub fn new(plan: &'a Plan<'a>, order: Order, shortcuts: Shortcuts) -> Result<Self> {
        let endpoints = Endpoints::new(plan, order, N::hand_off(plan), N::ISSUE)?;
        let network = N::new(plan, &endpoints, shortcuts.merge_runs)?;
        let (unit, most) = N::WORK;
        // What is aside is in no state that is written down.
        let skips_nothing = plan.units.is_some() || plan.trace;
        Ok(Machine {
            plan,
            endpoints,
            network,
            periods: (shortcuts.skip_periods && !skips_nothing).then(Periods::new),
            budget: Budget::new(most, unit),
            now: 0,
            events: 0,
        })
    }

    /// When something happens next; [`Ticks::MAX`] if nothing does before a flight is launched.
    pub fn next_at(&self) -> Ticks {
        self.network.next_at().min(self.endpoints.next_at()).min(self.endpoints.next_launch())
    }

    /// Launches a flight that is held, at `now` or when the last event was.
    pub fn launch(&mut self, flight: u32, now: Ticks) {
        let now = now.max(self.now);
        self.now = now;
        self.network.before_ranks(now);
        self.endpoints.launch(flight, now, &mut self.network);
        self.network.after_ranks(&mut self.endpoints);
    }

    /// Lets what is next happen, and whole periods after it that end by `until`; whether there was anything.
    pub fn step(&mut self, until: Ticks) -> bool {
        self.step_before(Ticks::MAX, until)
    }

    /// As [`Machine::step`], if it is before `end`.
    #[inline]
    fn step_before(&mut self, end: Ticks, until: Ticks) -> bool {
        let (network_at, ranks_at) = (self.network.next_at(), self.endpoints.next_at());
        let launch_at = self.endpoints.next_launch();
        if network_at.min(ranks_at).min(launch_at) >= end {
            return false;
        }
        if launch_at < network_at.min(ranks_at) {
            self.now = launch_at;
            self.network.before_ranks(launch_at);
            self.endpoints.launch_next(&mut self.network);
            self.network.after_ranks(&mut self.endpoints);
            return true;
        }
        if network_at <= ranks_at {
            self.now = network_at;
            self.network.step(&mut self.endpoints);
        } else {
            self.now = ranks_at;
            self.network.before_ranks(ranks_at);
            self.endpoints.step(&mut self.network);
            self.network.after_ranks(&mut self.endpoints);
            if let Some(periods) = &mut self.periods {
                let events = self.network.events(self.events);
                periods.look(ranks_at, until.min(launch_at), events, &mut self.endpoints, &mut self.network);
            }
        }
        self.events += 1;
        true
    }

    /// Counts chunks that are complete ([`Machine::deliveries`]); no periods are skipped, since each may be waited for.
    ///
    /// # Errors
    /// As [`Deliveries::count_chunks`].
    pub fn count_chunks(&mut self) -> Result<()> {
        self.periods = None;
        self.endpoints.deliveries.count_chunks(self.plan)
    }

    /// What was received and added.
    pub fn deliveries(&mut self) -> &mut Deliveries {
        &mut self.endpoints.deliveries
    }

    /// The plan that it runs.
    pub fn plan(&self) -> &'a Plan<'a> {
        self.plan
    }

    /// A flight that has ended since this was asked last.
    pub fn ended(&mut self) -> Option<u32> {
        self.endpoints.ended()
    }

    /// Says how far all flights are, now and then.
    ///
    /// # Errors
    /// As [`Budget::judge`].
    pub fn watch(&mut self, progress: &mut Progress) -> Result<()> {
        if !self.events.is_multiple_of(EVENTS_A_LOOK) {
            return Ok(());
        }
        self.budget.judge(self.network.work(self.events), self.endpoints.progress(), progress)
    }

    /// Events of the network and the ranks until now.
    pub fn events(&self) -> u64 {
        self.network.events(self.events)
    }

    /// When the last event was.
    pub fn now_ps(&self) -> Picos {
        self.plan.clock.picos(self.now)
    }

    /// Share of messages applied, 0 to 1.
    pub fn share(&self) -> f64 {
        self.endpoints.progress()
    }

    /// Messages applied.
    pub fn done(&self) -> u64 {
        self.endpoints.done()
    }

    /// Runs to the end, or until `leaves` says so, which is asked now and then; whether that was the end.
    ///
    /// # Errors
    /// As [`Machine::finish`] and [`Machine::watch`].
    pub fn run(&mut self, leaves: impl Fn(&Self) -> bool, progress: &mut Progress) -> Result<bool> {
        while self.step(Ticks::MAX) {
            self.watch(progress)?;
            if self.events.is_multiple_of(EVENTS_A_LOOK) && leaves(self) {
                return Ok(false);
            }
        }
        self.finish().map(|()| true)
    }

    /// Checks, when nothing is to happen, that every flight that was launched is over.
    ///
    /// # Errors
    /// [`crate::error::Code::Stalled`] with the chain of waits, or the cycle of buffers.
    pub fn finish(&mut self) -> Result<()> {
        self.network.finish(self.now)?;
        self.endpoints.finish(self.now)
    }

    /// The result tables.
    pub fn into_result(self) -> SimulationResult {
        self.into_joint_result(vec![])
    }

    /// The result tables of this and other parts of a fabric.
    pub fn into_joint_result(mut self, others: Vec<Self>) -> SimulationResult {
        let mut events = self.network.events(self.events);
        let mut traffic = self.network.into_traffic();
        for other in others {
            events += other.network.events(other.events);
            self.endpoints.join(other.endpoints);
            traffic.join(other.network.into_traffic());
        }
        let span = |flight| {
            let span = self.endpoints.span_of(flight);
            FlightRow { start_ps: self.plan.clock.picos(span.start), finish_ps: self.plan.clock.picos(span.finish) }
        };
        let flights = (0..self.plan.flights.len() as u32).map(span).collect();
        collect(self.plan, N::FIDELITY, &self.endpoints.deliveries, &mut traffic, flights, events)
    }
}

impl<'a> Machine<'a, Packet<'a>> {
    /// Part `own` of a fabric: of the only flight what its ranks send, until it crosses the border.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn of_part(plan: &'a Plan<'a>, shortcuts: Shortcuts, parts: &'a Division, own: u32) -> Result<Self> {
        let mut machine = Machine::<Packet>::new(plan, Order::default(), shortcuts)?;
        machine.periods = None;
        machine.endpoints.keep(|rank| parts.of_rank(rank) == own);
        machine.network.enclose(Border::new(parts));
        Ok(machine)
    }
}

impl<'a> Part for Machine<'a, Packet<'a>> {
    type Content = Crossing;

    fn next_at(&self) -> Ticks {
        Machine::next_at(self)
    }

    fn run_before(&mut self, end: Ticks) {
        while self.step_before(end, end) {}
    }

    fn left(&mut self) -> &mut [Vec<Parcel<Crossing>>] {
        self.network.left()
    }

    fn accept(&mut self, parcel: Parcel<Crossing>) {
        self.network.accept(parcel, &mut self.endpoints);
    }

    fn counts(&self) -> [u64; 2] {
        [self.events(), self.done()]
    }
}
