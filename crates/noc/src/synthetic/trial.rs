//! How long to run, and what to measure: until latencies settle, until the mean is known well, or until it is clear that the
//! network does not keep up.

use super::sources::{Arrived, Sources, TrafficSetting};
use super::{Experiment, Latency, MeasuredTraffic};
use crate::capacity::capacity;
use crate::measure::{BATCH_CYCLES, Measure};
use crate::trend::{SAMPLES, Trend};
use antiphon_base::cores::Parts;
use antiphon_base::error::{Code, Error, Result};

/// Most cycles of warm-up and of a measurement that are not given.
const LONG_CYCLES: u64 = 1 << 26;
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
/// Cycles between two looks at the clock where there is one part.
const ALONE_CYCLES: u64 = 16;

/// Flits and packets delivered in a stretch of time.
#[derive(Default, Clone, Copy)]
struct Window {
    packets: u64,
    latency: u64,
}

/// See the module.
pub struct TrafficTrial<'a> {
    traffic: &'a TrafficSetting<'a>,
    parts: Parts<Sources<'a>>,
    threads: usize,
    /// See [`capacity`].
    capacity: f64,
    /// Cycle up to which it ran.
    reached: u64,
    /// Packets that have arrived.
    arrived: u64,
    /// By the cycle of creation, and for networks beyond saturation by that of delivery.
    measure: Measure,
    delivered: Measure,
    window: Window,
    progress: &'a mut dyn FnMut(f64) -> bool,
}

impl<'a> TrafficTrial<'a> {
    /// Sources and a network at their start, in so many parts, on up to so many threads.
    ///
    /// # Errors
    /// As [`crate::FlitNetwork::new`].
    pub fn new(
        traffic: &'a TrafficSetting<'a>,
        (parts, threads): (u32, usize),
        progress: &'a mut dyn FnMut(f64) -> bool,
    ) -> Result<Self> {
        let TrafficSetting { experiment, fabric, pattern, nodes, routes, .. } = traffic;
        let (mut sources, mut window) = (vec![], ALONE_CYCLES);
        for own in 0..parts {
            let (part, cycles) = Sources::new(traffic, own, parts)?;
            sources.push(part);
            window = window.min(cycles);
        }
        Ok(TrafficTrial {
            traffic,
            parts: Parts::new(sources, window),
            threads,
            capacity: capacity(fabric, nodes, routes, pattern, experiment.link_cycles),
            reached: 0,
            arrived: 0,
            measure: Measure::new(u64::MAX),
            delivered: Measure::new(u64::MAX),
            window: Window::default(),
            progress,
        })
    }

    /// Runs it to the end of the measurement.
    ///
    /// # Errors
    /// As [`super::Experiment::run`].
    pub fn run(mut self) -> Result<MeasuredTraffic> {
        let (mut now, overload) = self.warm_up()?;
        let mut saturated = overload || self.is_beyond_capacity();
        let warm_up_cycles = now;
        self.measure = Measure::new(now);
        self.delivered = Measure::new(now);
        let (cycles, window, trend) = self.measure_long_enough(&mut now, &mut saturated)?;
        let end = warm_up_cycles + cycles;
        saturated = saturated || !self.keeps_up(trend, now, warm_up_cycles)?;
        // Some packets may be stuck while others still pass.
        let (flit_hops, events) = (self.flit_hops(), self.total(|part| part.network.event_count));
        let created = self.total(|part| part.created);
        if let Some(waits) = saturated.then(|| self.deadlock()).flatten() {
            return Err(stalled(self.traffic.experiment.rate, now, &waits));
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
        Ok(MeasuredTraffic {
            packet_latency_cycles: Latency {
                mean,
                half_width: (half_width.is_finite() && !saturated).then_some(half_width),
                p50: measure.percentile(0.5),
                p99: measure.percentile(0.99),
            },
            network_latency_cycles: network,
            accepted_flits_per_node_cycle: self.flits(window.packets) / (cycles * self.traffic.ranks() as u64) as f64,
            hops_mean,
            stable: !saturated,
            packets,
            warm_up_cycles,
            cycles,
            flit_hops,
            all_cycles: self.reached,
            all_packets: [created, self.arrived],
            events,
        })
    }

    /// Measures from the present cycle on, until the mean is known well or the network is saturated. Gives the cycles
    /// measured, the last window and the trend in it.
    fn measure_long_enough(&mut self, now: &mut u64, saturated: &mut bool) -> Result<(u64, Window, Trend)> {
        let start = *now;
        let batches = |cycles: u64| cycles.div_ceil(BATCH_CYCLES).max(1) * BATCH_CYCLES;
        let usual = if *saturated { SATURATED_CYCLES } else { 20 * BATCH_CYCLES };
        let mut cycles = self.traffic.experiment.cycles.map_or(usual, batches);
        self.window = Window::default();
        loop {
            let end = (*now).max(start + cycles);
            self.measure.extend(end);
            self.delivered.extend(end);
            let trend = self.watch(now, end, end)?;
            cycles = *now - start;
            let (end, window) = (*now, self.window);
            *saturated |= self.is_behind(*now);
            // Packets created in time are awaited, under unchanged load.
            while !*saturated && !self.all_delivered(end) {
                self.advance(*now + BATCH_CYCLES, end)?;
                *now += BATCH_CYCLES;
                *saturated = self.is_behind(*now) || *now - end > (cycles + 100_000) * 4;
            }
            let (mean, ..) = self.measure.means(end);
            *saturated |= mean > self.limit();
            let narrow = self.measure.half_width(end) <= PRECISION * mean;
            let long = 2 * self.flit_hops() > MAX_FLIT_HOPS || 2 * cycles > LONG_CYCLES;
            if *saturated || narrow || long || self.traffic.experiment.cycles.is_some() {
                return Ok((cycles, window, trend));
            }
            cycles *= 2;
        }
    }

    /// Runs until latency and throughput change by less than 2 % from one window to the next, longer
    /// one. Returns the cycle, and whether the network is saturated.
    fn warm_up(&mut self) -> Result<(u64, bool)> {
        if let Some(cycles) = self.traffic.experiment.warm_up_cycles {
            let mut now = 0;
            self.watch(&mut now, cycles, 0)?;
            return Ok((now, now < cycles));
        }
        let (mut now, mut length) = (0, 2_000);
        let mut before: Option<(f64, f64)> = None;
        loop {
            let behind = self.behind(now);
            self.window = Window::default();
            self.advance(now + length, 0)?;
            now += length;
            if self.is_beyond_capacity() || self.is_behind(now) {
                return Ok((now, true));
            }
            let mean = self.window.latency as f64 / self.window.packets.max(1) as f64;
            let rate = self.flits(self.window.packets) / length as f64;
            let near = |a: f64, b: f64| (a - b).abs() <= 0.02 * a.max(b);
            let settled = before.is_some_and(|(m, r)| near(m, mean) && near(r, rate)) && self.window.packets > 0;
            let growth = self.behind(now).saturating_sub(behind) as f64 / (length * self.traffic.ranks() as u64) as f64;
            // Overload shows at once in sources that fall behind; its throughput still has to settle.
            let overload = growth > 0.05 && before.is_some_and(|(_, r)| near(r, rate));
            let long = self.flit_hops() > MAX_FLIT_HOPS / 2 && now > LONG_WARM_UP;
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
            self.advance(next, end)?;
            *now = next;
            while start + (until - start) * sample / SAMPLES <= next && sample <= SAMPLES {
                trend.waiting.push(self.waiting_packets(next));
                sample += 1;
            }
            if next == next_batch && self.is_behind(next) {
                break;
            }
        }
        trend.offered = (*now - start) as f64 * self.traffic.ranks() as f64 * self.packet_rate();
        Ok(trend)
    }

    /// Whether the network keeps up with its sources. Where the measurement, whose trend is given, cannot
    /// tell, it is watched on for as long as it has been since `start`, again and again.
    fn keeps_up(&mut self, mut trend: Trend, mut now: u64, start: u64) -> Result<bool> {
        loop {
            // Far below capacity a rise would show soon.
            let far_below = self.capacity.is_finite() && self.traffic.experiment.rate <= self.capacity / 2.0;
            if (far_below || trend.is_clear()) && !trend.rises() {
                return Ok(true);
            }
            let length = now - start;
            let settled = trend.is_clear() && length >= 40 * BATCH_CYCLES;
            let much = 2 * self.flit_hops() > MAX_FLIT_HOPS && length >= 2 * SATURATED_CYCLES;
            if settled || much || length >= LONG_CYCLES || self.is_behind(now) {
                return Ok(!trend.rises() && !self.is_behind(now));
            }
            // Nothing from here on is in a figure.
            trend = self.watch(&mut now, start + 2 * length, start)?;
        }
    }

    /// A sum over all parts.
    fn total(&self, of: impl Fn(&Sources) -> u64) -> u64 {
        self.parts.each().map(|part| of(&part)).sum()
    }

    /// Flits of so many packets.
    fn flits(&self, packets: u64) -> f64 {
        (packets * u64::from(self.traffic.experiment.packet_flits)) as f64
    }

    fn flit_hops(&self) -> u64 {
        self.total(|part| part.network.flit_hops)
    }

    /// Whether some link would have to carry more than it can, rounding aside.
    fn is_beyond_capacity(&self) -> bool {
        self.traffic.experiment.rate > self.capacity * (1.0 + 1e-9)
    }

    /// Packets a source creates in a cycle, on average.
    fn packet_rate(&self) -> f64 {
        self.traffic.experiment.rate / self.traffic.experiment.packet_flits as f64
    }

    /// Packets that wait at sources (of those that are not yet created, as many as are likely) or are in
    /// flight.
    fn waiting_packets(&self, now: u64) -> f64 {
        (self.total(|part| part.created) - self.arrived) as f64 + self.behind(now) as f64 * self.packet_rate()
    }

    /// Whether sources are so far behind that they never catch up.
    fn is_behind(&self, now: u64) -> bool {
        let packets = (BEHIND.1 / self.packet_rate()) as u64;
        let average = BEHIND.0.max(packets).max(2 * self.limit() as u64);
        self.behind(now) > average * self.traffic.ranks() as u64
            || self.parts.each().any(|part| part.next().any(|next| now.saturating_sub(next) > 5 * average))
    }

    /// Latency at which the network counts as saturated.
    fn limit(&self) -> f64 {
        let e = self.traffic.experiment;
        let router = &e.router;
        let stages = router.routing_cycles + router.vc_allocation_cycles + router.switch_allocation_cycles;
        let hop = (stages + router.traversal_cycles + e.link_cycles + e.latency_cycles) as f64;
        let (_, _, hops) = self.measure.means(u64::MAX);
        let unloaded = 2.0 + hop * hops + (e.packet_flits - 1) as f64 * e.link_cycles as f64;
        (SATURATED.0 * unloaded).max(SATURATED.1)
    }

    /// Cycles by which all sources together are behind with creating packets.
    fn behind(&self, now: u64) -> u64 {
        self.total(|part| part.next().map(|next| now.saturating_sub(next)).sum())
    }

    /// Whether every packet created before `end` has been delivered.
    fn all_delivered(&self, end: u64) -> bool {
        self.parts.each().all(|part| {
            part.next().all(|next| next >= end) && part.network.oldest_created().is_none_or(|created| created >= end)
        })
    }

    /// Runs the cycles up to `until`; the measurement ends at `end` for now.
    fn advance(&mut self, until: u64, end: u64) -> Result<()> {
        while self.reached < until {
            // In batches, so that the list of arrivals takes little memory.
            self.run_up_to(until.min(self.reached + BATCH_CYCLES), end)?;
        }
        Ok(())
    }

    /// As [`Self::advance`], and takes stock.
    fn run_up_to(&mut self, until: u64, end: u64) -> Result<()> {
        let (mut goes_on, progress) = (true, &mut self.progress);
        let (reached, experiment) = (self.reached, self.traffic.experiment);
        self.parts.run_before(until, self.threads, &mut |[_, flit_hops]| {
            goes_on = progress(share_done(experiment, reached, flit_hops));
            goes_on
        });
        if !goes_on {
            return Err(Error::new(Code::Interrupted, "interrupted"));
        }
        self.reached = until;
        let mut stuck = true;
        for mut part in self.parts.each() {
            stuck &= part.network.next_cycle().is_none();
            for Arrived { created, injected, cycle, hops } in part.arrived.drain(..) {
                self.arrived += 1;
                self.window.packets += 1;
                self.window.latency += cycle - created;
                let (latency, network) = (cycle - created, cycle - injected);
                let routers = u64::from(hops) + 1;
                self.measure.deliver(created, latency, network, routers, end);
                self.delivered.deliver(cycle, latency, network, routers, end);
            }
        }
        if stuck && self.parts.each().any(|part| part.network.in_flight > 0) {
            let cycle = self.parts.each().map(|part| part.cycle).max().unwrap_or(0);
            let waits = self.deadlock().unwrap_or("no cycle found".into());
            return Err(stalled(experiment.rate, cycle, &waits));
        }
        Ok(())
    }

    /// See [`crate::FlitNetwork::deadlock`]; the parts are put together for it.
    fn deadlock(&mut self) -> Option<String> {
        let mut parts = std::mem::replace(&mut self.parts, Parts::new(vec![], 1)).into_parts().into_iter();
        let mut first = parts.next()?.network;
        let of = self.traffic;
        let count = parts.len() as u32 + 1;
        for (own, part) in (1..).zip(parts) {
            first.take_over(part.network, |node| of.part(node, count) == own);
        }
        first.deadlock(of.fabric)
    }
}

/// Share of the work done, at most.
fn share_done(experiment: &Experiment, cycle: u64, flit_hops: u64) -> f64 {
    let share = match (experiment.warm_up_cycles, experiment.cycles) {
        (Some(warm_up), Some(cycles)) => cycle as f64 / (warm_up + cycles) as f64,
        _ => flit_hops as f64 / MAX_FLIT_HOPS as f64,
    };
    share.min(1.0)
}

fn stalled(rate: f64, cycle: u64, waits: &str) -> Error {
    Error::new(Code::Stalled, format!("deadlock at rate {rate}, found in cycle {cycle}: {waits}"))
}
