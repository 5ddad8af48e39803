//! Flights: schedules that are in the network at the same time, and which of them goes first.

use super::clock::Ticks;
use super::plan::RunPlan;
use antiphon_base::error::Result;
use antiphon_base::parameter::Choice;
use antiphon_base::units::Picos;
use antiphon_model::fabric::{Fabric, LinkId};
use antiphon_model::schedule::Schedule;
use antiphon_proof::Proven;
use serde::Serialize;
use std::ops::Deref;

/// A schedule that may be timed: a proven one, or what a planner tries ([`crate::trial`]).
#[derive(Debug, Clone, Copy)]
pub struct Timed<'a> {
    schedule: &'a Schedule,
    proven: Option<&'a Proven>,
}

impl Deref for Timed<'_> {
    type Target = Schedule;

    fn deref(&self) -> &Schedule {
        self.schedule
    }
}

impl Timed<'_> {
    /// Checks that it was proven for this fabric, unless it is only tried. O(links).
    pub(crate) fn check_fabric(self, fabric: &Fabric) -> Result<()> {
        self.proven.map_or(Ok(()), |proven| proven.check_fabric(fabric))
    }
}

/// A schedule, and when it starts.
#[derive(Debug, Clone)]
pub struct Flight<'a> {
    /// What is to be done; of all ranks of the fabric or of a group of them.
    pub schedule: Timed<'a>,
    /// When it is launched, at the earliest.
    pub start_ps: Picos,
    /// Flights that are to be over before.
    pub after: Vec<usize>,
    /// With [`Order::Priority`] flights of lower numbers go first.
    pub priority: u32,
    /// It is launched by a client of the machine only, as an exchange of a training, whatever its time.
    pub held: bool,
}

impl<'a> Flight<'a> {
    /// A schedule that is launched at time 0.
    pub fn new(proven: &'a Proven) -> Self {
        Flight { schedule: Timed { schedule: proven, proven: Some(proven) }, ..Flight::unproven(proven) }
    }

    /// A schedule that is tried, and timed without a proof.
    pub(crate) fn unproven(schedule: &'a Schedule) -> Self {
        let schedule = Timed { schedule, proven: None };
        Flight { schedule, start_ps: 0, after: vec![], priority: 0, held: false }
    }
}

/// Which flight's packets go first on links, and whose messages are added first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The one launched first; others fill the gaps it leaves.
    #[default]
    Fifo,
    /// The one launched last.
    Lifo,
    /// The one with the lowest priority number; of those the one launched first.
    Priority,
    /// That which the link has served least: see [`Shares`]. Beyond links, the one that came first.
    Fair,
}

impl Choice for Order {
    const WHAT: &'static str = "order";
    const ALL: &'static [(&'static str, Self)] =
        &[("fifo", Order::Fifo), ("lifo", Order::Lifo), ("priority", Order::Priority), ("fair", Order::Fair)];
}

impl Order {
    /// The rank of a flight: of two the lower goes first. `launched` flights were before it.
    pub fn rank(self, priority: u32, launched: u32) -> u64 {
        match self {
            Order::Fifo => launched.into(),
            Order::Lifo => (u32::MAX - launched).into(),
            Order::Priority => u64::from(priority) << 32 | u64::from(launched),
            Order::Fair => 0,
        }
    }
}

/// Which flights are to be told apart, and where: what the parts of a [`super::Machine`] ask for every message.
#[derive(Debug, Clone)]
pub(crate) struct Ranking {
    /// Rank of every flight that was launched.
    ranks: Vec<u64>,
    /// Links that several flights use, as first links of channels.
    shared: Vec<bool>,
    /// Whether flights share these equally.
    fair: bool,
}

impl Ranking {
    /// Of the flights of a plan, none launched. O(hops).
    pub fn new(plan: &RunPlan, order: Order) -> Self {
        let mut shared = vec![false; plan.fabric.links.len()];
        let mut used_by = vec![None; if plan.flights.len() > 1 { shared.len() } else { 0 }];
        for job in plan.jobs.iter().filter(|_| plan.flights.len() > 1) {
            for &link in plan.route(job) {
                let first = *used_by[link as usize].get_or_insert(job.flight);
                shared[link as usize] |= first != job.flight;
            }
        }
        Ranking { ranks: vec![u64::MAX; plan.flights.len()], shared, fair: order == Order::Fair }
    }

    /// Whether several flights share any link equally.
    pub fn is_any_fair(&self) -> bool {
        self.fair && self.shared.contains(&true)
    }

    /// Whether several flights share a link equally.
    #[inline]
    pub fn is_fair(&self, link: LinkId) -> bool {
        self.fair && self.is_shared(link)
    }

    /// Whether several flights use a link.
    #[inline]
    pub fn is_shared(&self, link: LinkId) -> bool {
        self.shared[link as usize]
    }

    /// The rank of a flight.
    pub fn of(&self, flight: u32) -> u64 {
        self.ranks[flight as usize]
    }

    /// Places of all flights in the order of their ranks, as classes of packets. O(flights * log flights).
    pub fn classes(&self) -> Vec<u16> {
        let mut sorted = self.ranks.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let place = |rank: &u64| sorted.partition_point(|other| other < rank).min(u16::MAX.into()) as u16;
        self.ranks.iter().map(place).collect()
    }

    /// A flight was launched.
    pub fn launched(&mut self, flight: u32, rank: u64) {
        self.ranks[flight as usize] = rank;
    }
}

/// What each flight has had of a link that several use, and how long it waited there.
///
/// With [`Order::Fair`] the next is the flight that the link has served for the shortest time; one that comes anew counts
/// as served as long as the one served last (P. Goyal, H. M. Vin and H. Cheng, "Start-time fair queueing", SIGCOMM 1996).
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    /// How long the one served last had been served before.
    level: Ticks,
    of: Vec<Share>,
}

/// That of one flight.
#[derive(Debug, Clone, Copy)]
struct Share {
    flight: u32,
    served: Ticks,
    /// Messages, packets or interfaces that wait, and since when the next of them waits for others.
    waiting: u32,
    since: Ticks,
}

impl Shares {
    /// Without those of links that only one flight uses.
    pub fn all(ranking: &Ranking) -> Vec<Shares> {
        if ranking.shared.contains(&true) { vec![Shares::default(); ranking.shared.len()] } else { vec![] }
    }

    fn share(&mut self, flight: u32) -> &mut Share {
        let place = self.of.iter().position(|share| share.flight == flight).unwrap_or_else(|| {
            self.of.push(Share { flight, served: 0, waiting: 0, since: 0 });
            self.of.len() - 1
        });
        &mut self.of[place]
    }

    /// Something of a flight waits from now on; returns how long the flight has been served.
    pub fn come(&mut self, flight: u32, now: Ticks) -> Ticks {
        let level = self.level;
        let share = self.share(flight);
        share.served = share.served.max(level);
        if share.waiting == 0 {
            share.since = share.since.max(now);
        }
        share.waiting += 1;
        share.served
    }

    /// How long a flight has been served.
    pub fn served(&self, flight: u32) -> Ticks {
        self.of.iter().find(|share| share.flight == flight).map_or(0, |share| share.served)
    }

    /// A flight is served for some time more.
    pub fn add(&mut self, flight: u32, time: Ticks) {
        self.share(flight).served += time;
    }

    /// What waits of a flight that had been served for `level` begins at `now`, and takes `time`; returns how long it waited for
    /// others.
    pub fn begin(&mut self, flight: u32, level: Ticks, now: Ticks, time: Ticks) -> Ticks {
        self.level = level;
        let share = self.share(flight);
        share.waiting = share.waiting.saturating_sub(1);
        now.saturating_sub(std::mem::replace(&mut share.since, now + time))
    }

    /// Appends what decides the future.
    pub fn write_state(&self, now: Ticks, state: &mut Vec<u64>) {
        let words = |share: &Share| {
            let since = if share.waiting > 0 { share.since.wrapping_sub(now) } else { share.since.saturating_sub(now) };
            [share.flight.into(), share.waiting.into(), share.served.saturating_sub(self.level), since]
        };
        state.extend(self.of.iter().flat_map(words));
    }

    /// Everything happens later by `by`.
    pub fn delay(&mut self, by: Ticks) {
        self.of.iter_mut().for_each(|share| share.since += by);
    }

    /// How long a level of service is above that of the one served last.
    pub fn above(&self, level: Ticks) -> Ticks {
        level.saturating_sub(self.level)
    }
}

/// Start and end of a flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FlightRow {
    /// When it was launched.
    pub start_ps: Picos,
    /// When the last of its messages had been received and added.
    pub finish_ps: Picos,
}

/// Start and end in ticks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlightSpan {
    pub start: Ticks,
    pub finish: Ticks,
}
