//! The network under synthetic traffic: Bernoulli sources with unlimited queues, warm-up, steady
//! state, confidence interval (Dally and Towles, chapter 23).

use super::capacity::capacity;
use super::measure::{BATCH_CYCLES, Measure};
use super::network::{Network, Packet, Run};
use super::route::{COIN_SHIFT, Kind, Routes};
use super::traffic::{Pattern, Random, Waits};
use super::trend::{SAMPLES, Trend};
use super::wheel::{Event, Events, Wheel};
use crate::energy::{Energy, Moved};
use crate::error::{Code, Error, Result};
use crate::fabric::{Fabric, NodeId};
use crate::system::{RouterModel, System};
use serde::Serialize;
use std::ops::RangeInclusive;

/// Most cycles of warm-up and of a measurement that are not given.
const LONG_CYCLES: u64 = 1 << 26;
/// Fewest packets per node and cycle.
const LEAST_PACKETS: f64 = 1e-6;
/// The measurement goes on until the interval is this narrow, as a share of the mean,
const PRECISION: f64 = 0.005;
/// or going on would take more than this many flits times links, a matter of seconds.
const MAX_FLIT_HOPS: u64 = 10_000_000;
/// Cycles of a warm-up that may end before latencies settle, where they take too much work.
const LONG_WARM_UP: u64 = 9_000;
/// Mean latency from which a network counts as saturated, in units of the latency without load and
/// in cycles (BookSim 2: 500 cycles).
const SATURATED: (f64, f64) = (5.0, 500.0);
/// A run ends when its sources are behind by so many cycles and packets on average, or one of them by five
/// times as many.
const BEHIND: (u64, f64) = (2_000, 64.0);
/// Cycles measured of a network that is known to be beyond saturation, unless they are given.
const SATURATED_CYCLES: u64 = 2_000;

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Traffic, as in [`Pattern::parse`].
    pub traffic: String,
    /// Flits offered per node and cycle.
    pub rate: f64,
    /// Flits of every packet.
    pub packet_flits: u32,
    /// Routing; by the fabric if `None`.
    pub routing: Option<Kind>,
    /// Routers.
    pub router: RouterModel,
    /// Cycles on every link for one flit.
    pub link_cycles: u32,
    /// Cycles a flit travels after that.
    pub latency_cycles: u32,
    /// Cycles before measuring; until latencies settle if `None`.
    pub warm_up_cycles: Option<u64>,
    /// Cycles measured; until the confidence interval is narrow if `None`.
    pub cycles: Option<u64>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Mean, spread and percentiles of packet latencies, in cycles from creation to the arrival of the
/// last flit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean; `None` if it cannot be told.
    pub half_width: Option<f64>,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// From creation to the arrival of the last flit.
    pub packet_latency_cycles: Latency,
    /// From injection of the head to the arrival of the last flit, mean.
    pub network_latency_cycles: f64,
    /// Flits that left the network per node and cycle.
    pub accepted_flits_per_node_cycle: f64,
    /// Routers passed, those at both ends included.
    pub hops_mean: f64,
    /// Whether sources were kept up with and latencies stayed finite.
    pub stable: bool,
    /// Packets measured.
    pub packets: u64,
    /// Cycles of warm-up.
    pub warm_up_cycles: u64,
    /// Cycles measured.
    pub cycles: u64,
    /// Flits times links crossed in the whole run.
    pub flit_hops: u64,
    /// Cycles of the whole run.
    pub all_cycles: u64,
    /// Packets that entered the network in the whole run, and that left it.
    pub all_packets: [u64; 2],
    /// Events processed.
    pub events: u64,
}

impl Measured {
    /// What the whole run took on `fabric`, with the energies, the flits and the clock of `system`.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] if links differ in energy or length: here all are alike.
    pub fn energy(&self, fabric: &Fabric, system: &System, packet_flits: u32) -> Result<Energy> {
        let of_link = fabric.links.first().map_or(0, |link| system.link_energy(link));
        if fabric.links.iter().any(|link| system.link_energy(link) != of_link) {
            let what = "links have energies or lengths of their own, but here all are alike; leave them out";
            return Err(Error::new(Code::NotApplicable, format!("fabric {}: {what}", fabric.name)));
        }
        let [entered, left] = self.all_packets.map(|packets| u128::from(packets) * u128::from(packet_flits));
        let moved = Moved {
            link_flits: vec![self.flit_hops],
            router_flits: u128::from(self.flit_hops) + entered,
            interface_flits: entered + left,
            ..Moved::default()
        };
        let time_ps = self.all_cycles.saturating_mul(system.router.clock_ps);
        let energy = moved.energy(system, |_| of_link, system.static_power_of(fabric), time_ps);
        Ok(Energy { per_link: vec![], ..energy })
    }
}

impl Experiment {
    /// Flits that a packet may have.
    pub const PACKET_FLITS: RangeInclusive<u32> = 1..=1 << 16;
    /// Cycles that a link may take for a flit.
    pub const LINK_CYCLES: RangeInclusive<u32> = 1..=1 << 20;
    /// Cycles that a flit may travel after that.
    pub const LATENCY_CYCLES: RangeInclusive<u32> = 0..=1 << 20;
    /// Cycles that a warm-up may take.
    pub const WARM_UP_CYCLES: RangeInclusive<u64> = 0..=1 << 30;
    /// Cycles that may be measured: none measure nothing.
    pub const CYCLES: RangeInclusive<u64> = 1..=1 << 30;

    /// Uniform traffic of single flits on [`RouterModel::textbook`] routers.
    pub fn new(rate: f64) -> Experiment {
        Experiment {
            traffic: "uniform".into(),
            rate,
            packet_flits: 1,
            routing: None,
            router: RouterModel::textbook(),
            link_cycles: 1,
            latency_cycles: 0,
            warm_up_cycles: None,
            cycles: None,
            seed: 1,
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(Code::BadSize, what));
        let widened = |range: RangeInclusive<u32>| u64::from(*range.start())..=u64::from(*range.end());
        for (name, range, value) in [
            ("packet_flits", widened(Self::PACKET_FLITS), Some(self.packet_flits.into())),
            ("link_cycles", widened(Self::LINK_CYCLES), Some(self.link_cycles.into())),
            ("latency_cycles", widened(Self::LATENCY_CYCLES), Some(self.latency_cycles.into())),
            ("warm_up_cycles", Self::WARM_UP_CYCLES, self.warm_up_cycles),
            ("cycles", Self::CYCLES, self.cycles),
        ] {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                let (least, most) = range.into_inner();
                return wrong(format!("{name} is a whole number from {least} to {most}, not {value}"));
            }
        }
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return wrong(format!("the rate is above 0 and at most 1 flit per node and cycle, not {}", self.rate));
        }
        let least = LEAST_PACKETS * self.packet_flits as f64;
        if self.rate < least {
            return wrong(format!("at rate {} hardly a packet would be sent; use at least {least}", self.rate));
        }
        let depth = self.router.depth_flits;
        if self.router.switching == crate::system::Switching::CutThrough && depth < self.packet_flits {
            return wrong(format!(
                "cut-through needs buffers of a whole packet: {} flits, not {depth}",
                self.packet_flits
            ));
        }
        Ok(())
    }

    /// Runs the network until the measurement is done. `progress` is called now and then with the
    /// share of the work done at most, 0 to 1; returning `false` ends the run.
    ///
    /// # Errors
    /// [`Code::BadSize`] for values out of range, [`Code::NotApplicable`] if links have rates of their
    /// own, those of [`Pattern::parse`], [`Routes::new`] and
    /// [`Network::new`]; [`Code::Stalled`] with the cycle of buffers of a deadlock;
    /// [`Code::Interrupted`].
    pub fn run(&self, fabric: &Fabric, progress: &mut dyn FnMut(f64) -> bool) -> Result<Measured> {
        self.check()?;
        if fabric.links.iter().any(|l| l.rate.is_some() || l.latency.is_some() || l.speed_permille != 1000) {
            let what = "links have rates, latencies or slow-downs of their own, but here all are alike, in cycles";
            return Err(Error::new(Code::NotApplicable, format!("fabric {}: {what}; leave them out", fabric.name)));
        }
        if fabric.configurations() > 1 {
            let what = "has several configurations, and traffic has no phases; give one";
            return Err(Error::new(Code::NotApplicable, format!("fabric {} {what}", fabric.name)));
        }
        let pattern = Pattern::parse(&self.traffic, fabric)?;
        let ranks = fabric.ranks() as u32;
        let nodes: Vec<NodeId> = (0..ranks).map(|rank| fabric.node_of_rank(rank)).collect();
        let kind = self.routing.unwrap_or(Kind::of(fabric));
        let routes = Routes::new(kind, fabric, &nodes, self.router.virtual_channels)?;
        let clock = self.router.clock_ps;
        let flit_ps = vec![self.link_cycles as u64 * clock; fabric.links.len()];
        let latency_ps = vec![self.latency_cycles as u64 * clock; fabric.links.len()];
        let capacity = capacity(fabric, &nodes, &routes, &pattern, self.link_cycles);
        let mut network = Network::new(fabric, &self.router, &flit_ps, &latency_ps, &nodes, self.packet_flits, routes)?;
        network.records = false;
        let mut sources = Sources {
            experiment: self,
            fabric,
            pattern,
            ranks,
            waits: Waits::new(self.rate / self.packet_flits as f64),
            random: (0..ranks as u64).map(|rank| Random::new(self.seed, rank)).collect(),
            next: vec![0; ranks as usize],
            waiting: Wheel::with_room(64),
            due: Events::default(),
            network,
            capacity,
            reached: 0,
            created: 0,
            outstanding: 0,
            steps: 0,
            measure: Measure::new(u64::MAX),
            delivered: Measure::new(u64::MAX),
            window: Window::default(),
            progress,
        };
        sources.run()
    }
}

/// Flits and packets delivered in a stretch of time.
#[derive(Default, Clone, Copy)]
struct Window {
    packets: u64,
    flits: u64,
    latency: u64,
}

struct Sources<'a> {
    experiment: &'a Experiment,
    fabric: &'a Fabric,
    pattern: Pattern,
    ranks: u32,
    /// Between the packets of a source.
    waits: Waits,
    random: Vec<Random>,
    /// Cycle in which each source creates its next packet. It is created when it can be injected,
    /// so that a source's queue takes no memory.
    next: Vec<u64>,
    /// Idle sources by that cycle, and those of the present one.
    waiting: Wheel,
    due: Events,
    network: Network<Routes>,
    /// See [`capacity`].
    capacity: f64,
    /// Cycle up to which it ran.
    reached: u64,
    /// Packets created.
    created: u64,
    /// Of these, not delivered.
    outstanding: u64,
    steps: u32,
    /// By the cycle of creation, and for networks beyond saturation by that of delivery.
    measure: Measure,
    delivered: Measure,
    window: Window,
    progress: &'a mut dyn FnMut(f64) -> bool,
}

impl Sources<'_> {
    fn run(&mut self) -> Result<Measured> {
        for rank in 0..self.ranks {
            self.schedule(rank, 0);
            self.waiting.push(self.next[rank as usize], Event::Terminal(rank));
        }
        let (mut now, overload) = self.warm_up()?;
        let mut saturated = overload || self.is_beyond_capacity();
        let warm_up_cycles = now;
        self.measure = Measure::new(now);
        self.delivered = Measure::new(now);
        let batches = |cycles: u64| cycles.div_ceil(BATCH_CYCLES).max(1) * BATCH_CYCLES;
        let usual = if saturated { SATURATED_CYCLES } else { 20 * BATCH_CYCLES };
        let mut cycles = self.experiment.cycles.map_or(usual, batches);
        self.window = Window::default();
        let (window, trend) = loop {
            let end = now.max(warm_up_cycles + cycles);
            self.measure.extend(end);
            self.delivered.extend(end);
            let trend = self.watch(&mut now, end, end)?;
            cycles = now - warm_up_cycles;
            let (end, window) = (now, self.window);
            saturated |= self.is_behind(now);
            // Packets created in time are awaited, under unchanged load.
            while !saturated && !self.all_delivered(end) {
                self.advance(now, now + BATCH_CYCLES, end)?;
                now += BATCH_CYCLES;
                saturated = self.is_behind(now) || now - end > (cycles + 100_000) * 4;
            }
            let (mean, ..) = self.measure.means(end);
            saturated |= mean > self.limit();
            let narrow = self.measure.half_width(end) <= PRECISION * mean;
            let long = 2 * self.network.flit_hops > MAX_FLIT_HOPS || 2 * cycles > LONG_CYCLES;
            if saturated || narrow || long || self.experiment.cycles.is_some() {
                break (window, trend);
            }
            cycles *= 2;
        };
        let end = warm_up_cycles + cycles;
        saturated = saturated || !self.keeps_up(trend, now, warm_up_cycles)?;
        // Some packets may be stuck while others still pass.
        if let Some(waits) = saturated.then(|| self.network.deadlock(self.fabric)).flatten() {
            return Err(stalled(self.experiment.rate, now, &waits));
        }
        // Beyond saturation packets of one time may never arrive.
        let measure = if saturated { &self.delivered } else { &self.measure };
        let packets = measure.packets(end);
        if packets == 0 {
            let what = format!("no packet arrived in the {cycles} cycles of the measurement; measure longer");
            return Err(Error::new(Code::BadSize, what));
        }
        let (mean, network, hops_mean) = measure.means(end);
        let half_width = measure.half_width(end);
        Ok(Measured {
            packet_latency_cycles: Latency {
                mean,
                half_width: (half_width.is_finite() && !saturated).then_some(half_width),
                p50: measure.percentile(0.5),
                p99: measure.percentile(0.99),
            },
            network_latency_cycles: network,
            accepted_flits_per_node_cycle: window.flits as f64 / (cycles * self.ranks as u64) as f64,
            hops_mean,
            stable: !saturated,
            packets,
            warm_up_cycles,
            cycles,
            flit_hops: self.network.flit_hops,
            all_cycles: self.reached,
            all_packets: [self.created, self.created - self.outstanding],
            events: self.network.event_count,
        })
    }

    /// Runs until latency and throughput change by less than 2 % from one window to the next, longer
    /// one. Returns the cycle, and whether the network is saturated.
    fn warm_up(&mut self) -> Result<(u64, bool)> {
        if let Some(cycles) = self.experiment.warm_up_cycles {
            let mut now = 0;
            self.watch(&mut now, cycles, 0)?;
            return Ok((now, now < cycles));
        }
        let (mut now, mut length) = (0, 2_000);
        let mut before: Option<(f64, f64)> = None;
        loop {
            let behind = self.behind(now);
            self.window = Window::default();
            self.advance(now, now + length, 0)?;
            now += length;
            if self.is_beyond_capacity() || self.is_behind(now) {
                return Ok((now, true));
            }
            let mean = self.window.latency as f64 / self.window.packets.max(1) as f64;
            let rate = self.window.flits as f64 / length as f64;
            let near = |a: f64, b: f64| (a - b).abs() <= 0.02 * a.max(b);
            let settled = before.is_some_and(|(m, r)| near(m, mean) && near(r, rate)) && self.window.packets > 0;
            let growth = self.behind(now).saturating_sub(behind) as f64 / (length * self.ranks as u64) as f64;
            // Overload shows at once in sources that fall behind; its throughput still has to settle.
            let overload = growth > 0.05 && before.is_some_and(|(_, r)| near(r, rate));
            let long = self.network.flit_hops > MAX_FLIT_HOPS / 2 && now > LONG_WARM_UP;
            if settled || overload || long || now > LONG_CYCLES {
                return Ok((now, overload));
            }
            before = Some((mean, rate));
            length = length * 3 / 2;
        }
    }

    /// Runs up to `until`, or to the end of a batch in which sources are too far behind, and samples how
    /// many packets wait; the measurement ends at `end` for now.
    fn watch(&mut self, now: &mut u64, until: u64, end: u64) -> Result<Trend> {
        let start = *now;
        let mut trend = Trend { waiting: vec![self.waiting_packets(start)], offered: 0.0 };
        // The ends of samples and of batches.
        let mut sample = 1;
        while *now < until {
            let next_sample = start + (until - start) * sample / SAMPLES;
            let next_batch = start + ((*now - start) / BATCH_CYCLES + 1) * BATCH_CYCLES;
            let next = next_sample.min(next_batch).min(until);
            self.advance(*now, next, end)?;
            *now = next;
            while start + (until - start) * sample / SAMPLES <= next && sample <= SAMPLES {
                trend.waiting.push(self.waiting_packets(next));
                sample += 1;
            }
            if next == next_batch && self.is_behind(next) {
                break;
            }
        }
        trend.offered = (*now - start) as f64 * self.ranks as f64 * self.packet_rate();
        Ok(trend)
    }

    /// Whether the network keeps up with its sources. Where the measurement, whose trend is given, cannot
    /// tell, it is watched on for as long as it has been since `start`, again and again.
    fn keeps_up(&mut self, mut trend: Trend, mut now: u64, start: u64) -> Result<bool> {
        loop {
            // Far below capacity a rise would show soon.
            let far_below = self.capacity.is_finite() && self.experiment.rate <= self.capacity / 2.0;
            if (far_below || trend.is_clear()) && !trend.rises() {
                return Ok(true);
            }
            let length = now - start;
            let settled = trend.is_clear() && length >= 40 * BATCH_CYCLES;
            let much = 2 * self.network.flit_hops > MAX_FLIT_HOPS && length >= 2 * SATURATED_CYCLES;
            if settled || much || length >= LONG_CYCLES || self.is_behind(now) {
                return Ok(!trend.rises() && !self.is_behind(now));
            }
            // What happens from here on is in no figure.
            trend = self.watch(&mut now, start + 2 * length, start)?;
        }
    }

    /// Whether some link would have to carry more than it can, rounding aside.
    fn is_beyond_capacity(&self) -> bool {
        self.experiment.rate > self.capacity * (1.0 + 1e-9)
    }

    /// Packets a source creates in a cycle, on average.
    fn packet_rate(&self) -> f64 {
        self.experiment.rate / self.experiment.packet_flits as f64
    }

    /// Packets that wait at sources (of those that are not yet created, as many as are likely) or are in
    /// flight.
    fn waiting_packets(&self, now: u64) -> f64 {
        self.outstanding as f64 + self.behind(now) as f64 * self.packet_rate()
    }

    /// Whether sources are so far behind that they never catch up.
    fn is_behind(&self, now: u64) -> bool {
        let packets = (BEHIND.1 / self.packet_rate()) as u64;
        let average = BEHIND.0.max(packets).max(2 * self.limit() as u64);
        self.behind(now) > average * self.ranks as u64
            || self.next.iter().any(|&next| now.saturating_sub(next) > 5 * average)
    }

    /// Latency at which the network counts as saturated.
    fn limit(&self) -> f64 {
        let e = self.experiment;
        let router = &e.router;
        let stages = router.routing_cycles + router.vc_allocation_cycles + router.switch_allocation_cycles;
        let hop = (stages + router.traversal_cycles + e.link_cycles + e.latency_cycles) as f64;
        let (_, _, hops) = self.measure.means(u64::MAX);
        let unloaded = 2.0 + hop * hops + (e.packet_flits - 1) as f64 * e.link_cycles as f64;
        (SATURATED.0 * unloaded).max(SATURATED.1)
    }

    /// Cycles by which all sources together are behind with creating packets.
    fn behind(&self, now: u64) -> u64 {
        self.next.iter().map(|&next| now.saturating_sub(next)).sum()
    }

    /// Whether every packet created before `end` has been delivered.
    fn all_delivered(&self, end: u64) -> bool {
        self.next.iter().all(|&next| next >= end) && self.network.oldest_created().is_none_or(|created| created >= end)
    }

    /// Draws the cycle of the next packet of a source, `from` at the earliest.
    fn schedule(&mut self, rank: u32, from: u64) {
        self.next[rank as usize] = from + self.waits.draw(&mut self.random[rank as usize]);
    }

    /// Creates the next packet of a source, to be injected from `cycle` on.
    fn create(&mut self, rank: u32, cycle: u64) {
        let created = self.next[rank as usize];
        let random = &mut self.random[rank as usize];
        let destination = self.pattern.destination(rank, self.ranks, random);
        let coins = random.bits() >> COIN_SHIFT << COIN_SHIFT;
        self.schedule(rank, created + 1);
        self.outstanding += 1;
        self.created += 1;
        let packet = Packet::new(destination, self.experiment.packet_flits, rank, coins, created);
        self.network.offer(rank, Run { packet, count: 1 }, cycle);
    }

    /// Runs the cycles from `from` up to `until`; the measurement ends at `end` for now.
    fn advance(&mut self, from: u64, until: u64, end: u64) -> Result<()> {
        let mut cycle = from;
        self.reached = until;
        loop {
            let source = self.waiting.next_cycle();
            let network = self.network.next_cycle();
            if network.is_none() && self.network.in_flight > 0 {
                let waits = self.network.deadlock(self.fabric).unwrap_or("no cycle found".into());
                return Err(stalled(self.experiment.rate, cycle, &waits));
            }
            cycle = match (source, network) {
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) | (None, Some(a)) => a,
                (None, None) => return Ok(()),
            };
            if cycle >= until {
                return Ok(());
            }
            if source == Some(cycle) {
                let mut due = std::mem::take(&mut self.due);
                self.waiting.take(cycle, &mut due);
                due.terminals.iter().for_each(|&rank| self.create(rank, cycle));
                self.due = due;
            }
            self.network.advance(cycle);
            self.outstanding -= self.network.delivered.len() as u64;
            for i in 0..self.network.delivered.len() {
                let p = self.network.delivered[i];
                self.window.packets += 1;
                self.window.flits += p.flits as u64;
                self.window.latency += cycle - p.created;
                let (latency, network) = (cycle - p.created, cycle - p.injected);
                let routers = p.hops as u64 + 1;
                self.measure.deliver(p.created, latency, network, routers, end);
                self.delivered.deliver(cycle, latency, network, routers, end);
            }
            for i in 0..self.network.departed.len() {
                let (rank, _) = self.network.departed[i];
                let next = self.next[rank as usize];
                if next <= cycle {
                    self.create(rank, cycle + 1);
                } else {
                    self.waiting.push(next, Event::Terminal(rank));
                }
            }
            self.steps = self.steps.wrapping_add(1);
            if self.steps.is_multiple_of(1 << 8) {
                let share = self.share_done(cycle);
                if !(self.progress)(share) {
                    return Err(Error::new(Code::Interrupted, "interrupted"));
                }
            }
        }
    }

    fn share_done(&self, cycle: u64) -> f64 {
        let e = self.experiment;
        let share = match (e.warm_up_cycles, e.cycles) {
            (Some(warm_up), Some(cycles)) => cycle as f64 / (warm_up + cycles) as f64,
            _ => self.network.flit_hops as f64 / MAX_FLIT_HOPS as f64,
        };
        share.min(1.0)
    }
}

fn stalled(rate: f64, cycle: u64, waits: &str) -> Error {
    Error::new(Code::Stalled, format!("deadlock at rate {rate}, found in cycle {cycle}: {waits}"))
}
