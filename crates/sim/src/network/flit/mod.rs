//! Flit fidelity: the schedule's messages through the routers of [`antiphon_noc::noc`].
//!
//! Every interface of a rank is a terminal of its node's router. Packets follow the routes of the
//! schedule. What a rank hands to an interface at time `t` can leave it in the first cycle after `t`.

mod arriving;
mod periodic;
mod routes;
mod terminals;

use super::Network;
use super::flow::Tail;
use crate::Fidelity;
use crate::clock::Ticks;
use crate::cost::CostModel;
use crate::endpoints::{Carrier, Endpoints};
use crate::flight::Ranking;
use crate::plan::RunPlan;
use crate::recorder::Traffic;
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::schedule::TransferId;
use antiphon_model::system::{RouterModel, Switching};
use antiphon_noc::{self as noc, PacketRun};
use arriving::Arriving;
use routes::SourceRoutes;
use terminals::Terminals;

/// Flits of the longest packet. O(kinds of messages).
///
/// # Errors
/// If a buffer has to take it as a whole and cannot.
fn longest_packet(plan: &RunPlan) -> Result<u32> {
    let (router, longest) = (&plan.system.router, plan.kinds.iter().map(|kind| kind.packets.flits).max().unwrap_or(0));
    if router.switching == Switching::CutThrough && longest > router.depth_flits.into() {
        let what = format!(
            "packets of {longest} flits do not fit into buffers of {}, as cut-through needs",
            router.depth_flits
        );
        return Err(Error::new(Code::BadSize, what));
    }
    Ok(longest as u32)
}

/// See the module: the network behind the interfaces of all ranks.
pub struct Flit<'a> {
    plan: &'a RunPlan<'a>,
    traffic: Traffic,
    network: noc::FlitNetwork<SourceRoutes<'a>>,
    ranking: Ranking,
    /// Terminal at which each transfer arrives.
    destination: Vec<u32>,
    /// Messages of which some packets have left, and some have arrived.
    left: Arriving,
    arrived: Arriving,
}

impl<'a> Network<'a> for Flit<'a> {
    const FIDELITY: Fidelity = Fidelity::Flit;
    const WORK: (&'static str, u64) = ("flit-hops", 4_000_000_000);

    fn new(plan: &'a RunPlan<'a>, endpoints: &Endpoints, _merge: bool) -> Result<Self> {
        let longest = longest_packet(plan)?;
        let Terminals { nodes, destination } = Terminals::new(plan, endpoints);
        let routes = SourceRoutes::new(plan);
        let router = &plan.system.router;
        // The network counts in ticks too.
        let router = &RouterModel { clock_ps: plan.clock.ticks(router.clock_ps), ..router.clone() };
        let network = noc::FlitNetwork::new(plan.fabric, router, &plan.flit, &plan.latency, &nodes, longest, routes)?;
        Ok(Flit {
            plan,
            traffic: Traffic::new(plan),
            network,
            ranking: endpoints.ranking().clone(),
            destination,
            left: Arriving::default(),
            arrived: Arriving::default(),
        })
    }

    fn hand_off(plan: &RunPlan) -> Ticks {
        plan.clock.ticks(CostModel::new(plan.system, Fidelity::Flit).hand_off_ps())
    }

    fn next_at(&self) -> Ticks {
        self.network.next_cycle().map_or(Ticks::MAX, |cycle| cycle * self.period())
    }

    fn step(&mut self, endpoints: &mut Endpoints) {
        if let Some(cycle) = self.network.next_cycle() {
            self.advance(cycle, endpoints);
        }
    }

    fn work(&self, _events: u64) -> u64 {
        self.network.flit_hops
    }

    fn events(&self, _events: u64) -> u64 {
        self.network.event_count
    }

    fn finish(&mut self, now: Ticks) -> Result<()> {
        if self.network.in_flight > 0 {
            let cycle = self.network.deadlock(self.plan.fabric).unwrap_or("no cycle of buffers".into());
            let channels = self.plan.system.router.virtual_channels;
            let what = format!(
                "deadlock in the network at {} ns: {cycle}; {channels} virtual channels are too few for these routes",
                self.plan.clock.picos(now) / 1000
            );
            return Err(Error::new(Code::Stalled, what));
        }
        self.network.flush();
        self.record();
        Ok(())
    }

    fn into_traffic(self) -> Traffic {
        self.traffic
    }
}

impl Flit<'_> {
    /// Time between cycles of the routers.
    fn period(&self) -> Ticks {
        self.network.clock_ps()
    }

    /// Processes a cycle of the network.
    fn advance(&mut self, cycle: u64, endpoints: &mut Endpoints) {
        let now = cycle * self.period();
        self.network.advance(cycle);
        self.record();
        for packet in &self.network.delivered {
            let (transfer, tail) = (packet.tag, Tail::of_word(packet.route));
            if self.arrived.come(self.plan, transfer, tail, now).is_some() {
                endpoints.arrived(transfer, tail.arrived(transfer, endpoints), now);
            }
        }
        for i in 0..self.network.departed.len() {
            let (terminal, transfer, route) = self.network.departed[i];
            let tail = Tail::of_word(route);
            if self.left.come(self.plan, transfer, tail, now).is_some() {
                endpoints.sent(transfer, tail.sent(transfer, endpoints), now);
            }
            endpoints.departed(terminal, now, self);
        }
    }

    /// Records the transmissions that ended.
    fn record(&mut self) {
        for (link, start, end) in self.network.transmissions.drain(..) {
            self.traffic.transmitted(link, None, start, end);
        }
    }
}

impl Carrier for Flit<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.network.backlog(interface) <= self.plan.system.interface.depth_packets
    }

    fn has_room(&self, interface: u32) -> bool {
        self.network.queued_runs(interface) < 2
    }

    fn send(&mut self, transfer: TransferId, chunk: u64, interface: u32, now: Ticks) -> Ticks {
        let job = &self.plan.jobs[transfer as usize];
        let packets = self.plan.kind(job).packets;
        let cycle = now / self.period() + 1;
        // Its route is that of its transfer.
        let (to, route) = (self.destination[transfer as usize], Tail::of(chunk).word());
        let mut packet = noc::FlitPacket::new(to, packets.flits as u32, transfer, route, cycle);
        packet.kind = job.flight;
        self.network.offer(interface, PacketRun { packet, count: packets.count }, cycle);
        // One packet an issue slot; the last is visible one slot later.
        now + (packets.count + 1) * self.plan.issue
    }

    fn launched(&mut self, flight: u32, rank: u64) {
        if self.plan.flights.len() > 1 {
            self.ranking.launched(flight, rank);
            self.network.classes = self.ranking.classes();
        }
    }
}
