//! The network under synthetic traffic: Bernoulli sources with unlimited queues, warm-up, steady
//! state, confidence interval (Dally and Towles, chapter 23).

mod sources;
#[cfg(test)]
mod tests;
mod trial;

use super::route::{Routes, RoutingKind};
use super::traffic::{GeometricWaits, Pattern};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Choice, Domain, Value, request};
use antiphon_model::energy::{Energy, Moved};
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::system::{RouterModel, System};
use serde::Serialize;
use sources::TrafficSetting;
use trial::TrafficTrial;

/// Fewest nodes of a part, and fewest flits offered in a cycle to a network in parts.
const FEWEST_NODES: usize = 32;
const FEWEST_FLITS: f64 = 8.0;
/// Most parts, and most buffers of all: each has the state of all.
const MOST_PARTS: usize = 8;
const MOST_BUFFERS: usize = 1 << 22;
/// Fewest packets per node and cycle.
const LEAST_PACKETS: f64 = 1e-6;

request! {
    /// What to simulate.
    pub struct Experiment {
        /// Traffic, as in [`Pattern::parse`].
        pub traffic: String = "uniform".into(),
        /// Flits offered per node and cycle.
        pub rate: f64 = 0.1,
        /// Flits of every packet.
        #[input(Domain::count(1, 1 << 16, ""))]
        pub packet_flits: u32 = 1,
        /// How packets go.
        #[input(Domain::Unless("xy on grids, else minimal", &Domain::Choice(RoutingKind::NAMES)))]
        pub routing: Option<RoutingKind> = None,
        /// Routers.
        pub router: RouterModel = RouterModel::textbook(),
        /// Cycles that a link takes for one flit.
        #[input(Domain::count(1, 1 << 20, ""))]
        pub link_cycles: u32 = 1,
        /// Cycles that a flit travels after that.
        #[input(Domain::count(0, 1 << 20, ""))]
        pub latency_cycles: u32 = 0,
        /// Cycles before the measurement.
        #[input(Domain::Unless("until latency and throughput settle", &Domain::count(0, 1 << 30, "")))]
        pub warm_up_cycles: Option<u64> = None,
        /// Cycles measured, rounded up to 500.
        #[input(Domain::Unless("until the mean latency is known well", &Domain::count(1, 1 << 30, "")))]
        pub cycles: Option<u64> = None,
        /// Seed of all random numbers.
        #[input(Domain::count(0, u64::MAX, ""))]
        pub seed: u64 = 1,
    }
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

/// Results of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredTraffic {
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

impl MeasuredTraffic {
    /// Energy of the whole run on `fabric`, with the energies, the flits and the clock of `system`.
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
    /// Uniform traffic of single flits on [`RouterModel::textbook`] routers.
    pub fn new(rate: f64) -> Experiment {
        Experiment { rate, ..Experiment::default() }
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(Code::BadSize, what));
        for field in Self::INPUTS {
            match field.get(self) {
                // What need not be given.
                Value::Text(_) => {}
                value => field.parameter.check(&value)?,
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
        if self.router.switching == antiphon_model::system::Switching::CutThrough && depth < self.packet_flits {
            return wrong(format!(
                "cut-through needs buffers of a whole packet: {} flits, not {depth}",
                self.packet_flits
            ));
        }
        Ok(())
    }

    /// Runs the network until the measurement is done, on up to `cores` cores, on which the result does not depend.
    /// `progress` is called now and then with the share of the work done at most, 0 to 1; returning `false` ends the
    /// run.
    ///
    /// # Errors
    /// [`Code::BadSize`] for values out of range, [`Code::NotApplicable`] if links have rates of their
    /// own, those of [`Pattern::parse`], [`Routes::new`] and
    /// [`FlitNetwork::new`](super::FlitNetwork::new); [`Code::Stalled`] with the cycle of buffers of a deadlock;
    /// [`Code::Interrupted`].
    pub fn run(&self, fabric: &Fabric, cores: usize, progress: &mut dyn FnMut(f64) -> bool) -> Result<MeasuredTraffic> {
        self.run_in(self.parts(fabric, cores), fabric, cores, progress)
    }

    /// As [`Self::run`], in so many parts.
    pub(super) fn run_in(
        &self,
        parts: u32,
        fabric: &Fabric,
        threads: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<MeasuredTraffic> {
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
        let nodes: Vec<NodeId> = (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect();
        let kind = self.routing.unwrap_or(RoutingKind::of(fabric));
        let routes = Routes::new(kind, fabric, &nodes, self.router.virtual_channels)?;
        let waits = GeometricWaits::new(self.rate / self.packet_flits as f64);
        let traffic = TrafficSetting { experiment: self, fabric, pattern, nodes, routes, waits };
        match TrafficTrial::new(&traffic, (parts, threads), progress)?.run() {
            // Only a single part tells the cycle of the deadlock.
            Err(error) if error.code == Code::Stalled && parts > 1 => {
                TrafficTrial::new(&traffic, (1, 1), progress)?.run()
            }
            result => result,
        }
    }

    /// The number of parts in which a run is faster, though parts wait for each other.
    pub(super) fn parts(&self, fabric: &Fabric, cores: usize) -> u32 {
        let ports = (fabric.links.len() + fabric.ranks()).max(1);
        let room =
            MOST_BUFFERS / ports.saturating_mul(self.router.virtual_channels.next_power_of_two() as usize).max(1);
        let most = (fabric.nodes.len() / FEWEST_NODES).min(cores).min(MOST_PARTS).min(room);
        if self.rate * fabric.ranks() as f64 >= FEWEST_FLITS { most.max(1) as u32 } else { 1 }
    }
}
