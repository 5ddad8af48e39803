//! The machine: flights on one network, on one clock.
//!
//! One loop over the events of the network, of the ranks and of launches. Of simultaneous ones those of the network come
//! first, then those of the ranks, then launches.

use super::Progress;
use super::budget::Budget;
use super::clock::Ticks;
use super::division::Division;
use super::endpoints::Endpoints;
use super::flight::{FlightRow, Order};
use super::network::{Border, Crossing, Network, Packet};
use super::period::Periods;
use super::plan::RunPlan;
use super::result::{SimulationResult, collect};
use super::running::Running;
use antiphon_base::cores::{Parcel, Part};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};

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
    plan: &'a RunPlan<'a>,
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
    pub fn new(plan: &'a RunPlan<'a>, order: Order, shortcuts: Shortcuts) -> Result<Self> {
        let endpoints = Endpoints::new(plan, order, N::hand_off(plan), N::ISSUE)?;
        let network = N::new(plan, &endpoints, shortcuts.merge_runs)?;
        let (unit, most) = N::WORK;
        // What is aside is in no state that is written down; a state of many flights takes longer than what it saves.
        let skips_nothing = plan.units.is_some() || plan.trace || plan.flights.len() > 1 << 8;
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

    /// Lets what is next happen, and whole periods after it that end by `until`, if it is before `end`; whether there was
    /// anything.
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

    /// Says how far all flights are, now and then.
    ///
    /// # Errors
    /// As [`Budget::judge`].
    fn watch(&mut self, progress: &mut Progress) -> Result<()> {
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
    /// As [`Running::finish`] and [`Running::step`].
    pub fn run(&mut self, leaves: impl Fn(&Self) -> bool, progress: &mut Progress) -> Result<bool> {
        while self.step_before(Ticks::MAX, Ticks::MAX) {
            self.watch(progress)?;
            if self.events.is_multiple_of(EVENTS_A_LOOK) && leaves(self) {
                return Ok(false);
            }
        }
        self.finish().map(|()| true)
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
        let mut result = collect(
            self.plan,
            N::FIDELITY,
            self.endpoints.ranking(),
            &self.endpoints.deliveries,
            &mut traffic,
            flights,
            events,
        );
        for (row, bytes) in result.ranks.iter_mut().zip(self.endpoints.buffers.most(self.plan).into_iter().flatten()) {
            row.buffer_bytes = Some(bytes);
        }
        result.endpoint = self.endpoints.uses(&result);
        result
    }
}

impl<'a, N: Network<'a>> Running for Machine<'a, N> {
    fn next_ps(&self) -> Option<Picos> {
        let next = self.next_at();
        (next < Ticks::MAX).then(|| self.plan.clock.picos(next))
    }

    fn launch(&mut self, flight: u32, now: Picos) -> Result<()> {
        if now >= self.plan.clock.picos(Ticks::MAX / 2) {
            let what = "the run takes longer than the clock of the simulation holds; shorten what is computed";
            return Err(Error::new(Code::TooLarge, what));
        }
        self.now = self.plan.clock.ticks(now).max(self.now);
        self.network.before_ranks(self.now);
        self.endpoints.launch(flight, self.now, &mut self.network);
        self.network.after_ranks(&mut self.endpoints);
        Ok(())
    }

    fn step(&mut self, until: Option<Picos>, progress: &mut Progress) -> Result<()> {
        self.step_before(Ticks::MAX, until.map_or(Ticks::MAX, |until| self.plan.clock.ticks(until)));
        self.watch(progress)
    }

    fn ended(&mut self) -> Option<u32> {
        self.endpoints.ended()
    }

    fn count_chunks(&mut self) -> Result<()> {
        self.periods = None;
        self.endpoints.deliveries.count_chunks(self.plan)
    }

    fn raised(&mut self) -> Option<u32> {
        let lane = self.endpoints.deliveries.raised()?;
        Some(self.plan.flights.partition_point(|flight| flight.lanes.end <= lane) as u32)
    }

    fn has_part(&self, flight: u32, part: Bytes, bytes: Bytes) -> bool {
        let plan = self.plan;
        plan.flights[flight as usize].lanes.clone().all(|lane| {
            let chunks = plan.lane_chunks[lane as usize];
            let needed = (u128::from(part) * u128::from(chunks)).div_ceil(u128::from(bytes.max(1)));
            u128::from(self.endpoints.deliveries.reached(lane)) >= needed.min(chunks.into())
        })
    }

    fn buffer_bytes(&self) -> Option<Bytes> {
        self.endpoints.buffers.most(self.plan).map(|ranks| ranks.into_iter().max().unwrap_or(0))
    }

    fn finish(&mut self) -> Result<()> {
        self.network.finish(self.now)?;
        self.endpoints.finish(self.now)
    }
}

impl<'a> Machine<'a, Packet<'a>> {
    /// Part `own` of a fabric: of the only flight what its ranks send, until it crosses the border.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn of_part(plan: &'a RunPlan<'a>, shortcuts: Shortcuts, parts: &'a Division, own: u32) -> Result<Self> {
        let mut machine = Machine::<Packet>::new(plan, Order::default(), shortcuts)?;
        machine.periods = None;
        machine.endpoints.buffers.forget();
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
