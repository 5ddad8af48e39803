//! Flit fidelity: the schedule's messages through the routers of [`crate::noc`].
//!
//! Every interface of a rank is a terminal of its node's router. Packets follow the routes of the
//! schedule. What a rank hands to an interface at time `t` can leave it in the first cycle after `t`.

mod periodic;
mod routes;

use super::budget::Budget;
use super::endpoints::{Carrier, Endpoints};
use super::period::Periods;
use super::plan::Plan;
use super::recorder::{Recorder, Traffic};
use super::{Engine, Progress};
use crate::error::{Code, Error, Result};
use crate::fabric::{LinkId, NodeId};
use crate::noc::{Network, Packet, Run};
use crate::schedule::{Issue, TransferId};
use crate::simulate::clock::Ticks;
use crate::system::{RouterModel, Switching};
use routes::SourceRoutes;
use std::collections::HashMap;

/// Most flits times links of one run: minutes.
const MAX_FLIT_HOPS: u64 = 4_000_000_000;

/// See the module.
pub struct Flit {
    /// Whether whole periods are skipped; never changes a result.
    pub skip_periods: bool,
}

impl Default for Flit {
    fn default() -> Self {
        Flit { skip_periods: true }
    }
}

impl Engine for Flit {
    fn run(&self, plan: &Plan, recorder: &mut Recorder, progress: &mut Progress) -> Result<u64> {
        check(plan)?;
        let router = &plan.system.router;
        let hand_off = plan.clock.ticks(router.hand_off_ps);
        let mut endpoints = Endpoints::new(plan, &mut recorder.deliveries, hand_off, plan.schedule.endpoint.issue);
        let mut carrier = Interfaces::new(plan, &mut recorder.traffic, &endpoints)?;
        let mut periods = self.skip_periods.then(Periods::new);
        let period = carrier.period();
        let mut budget = Budget::new(MAX_FLIT_HOPS, "flit-hops");
        let (mut now, mut steps) = (0, 0u64);
        endpoints.begin(&mut carrier);
        loop {
            let cycle = carrier.network.next_cycle();
            let at = cycle.map_or(Ticks::MAX, |cycle| cycle * period);
            now = match at.min(endpoints.next_at()) {
                Ticks::MAX => break,
                next => next,
            };
            match cycle {
                Some(cycle) if at == now => carrier.advance(cycle, &mut endpoints),
                _ => {
                    endpoints.step(&mut carrier);
                    if let Some(periods) = &mut periods {
                        periods.look(now, carrier.network.event_count, &mut endpoints, &mut carrier);
                    }
                }
            }
            steps += 1;
            if steps.is_multiple_of(1 << 14) {
                budget.judge(carrier.network.flit_hops, endpoints.progress(), progress)?;
            }
        }
        let network = &mut carrier.network;
        if network.in_flight > 0 {
            let cycle = network.deadlock(plan.fabric).unwrap_or("no cycle of buffers".into());
            let channels = plan.system.router.virtual_channels;
            let what = format!(
                "deadlock in the network at {} ns: {cycle}; {channels} virtual channels are too few for these routes",
                plan.clock.picos(now) / 1000
            );
            return Err(Error::new(Code::Stalled, what));
        }
        endpoints.finish(now)?;
        network.flush();
        carrier.record();
        Ok(carrier.network.event_count)
    }
}

/// Refuses what the network could not carry.
fn check(plan: &Plan) -> Result<()> {
    let router = &plan.system.router;
    let longest = plan.jobs.iter().map(|job| job.packets.flits).max().unwrap_or(0);
    if longest > u32::MAX as u64 || (router.switching == Switching::CutThrough && longest > router.depth_flits as u64) {
        let depth = router.depth_flits;
        let what = format!("packets of {longest} flits do not fit into buffers of {depth}, as cut-through needs");
        return Err(Error::new(Code::BadSize, what));
    }
    Ok(())
}

/// The network behind the interfaces of all ranks. Terminal `i` is interface `i`; those after the
/// last interface only receive.
struct Interfaces<'a> {
    plan: &'a Plan<'a>,
    traffic: &'a mut Traffic,
    network: Network<SourceRoutes<'a>>,
    /// Terminal at which each transfer arrives.
    destination: Vec<u32>,
    /// Packets that have left of the message that each transfer is sending, and that have arrived of the one that it is
    /// receiving.
    left: Vec<u64>,
    arrived: Vec<u64>,
}

impl<'a> Interfaces<'a> {
    fn new(plan: &'a Plan<'a>, traffic: &'a mut Traffic, endpoints: &Endpoints) -> Result<Self> {
        let node = |rank: u32| plan.schedule.node_of(plan.fabric, rank);
        let mut terminals: Vec<NodeId> = vec![0; endpoints.interfaces()];
        for rank in 0..plan.fabric.ranks() as u32 {
            endpoints.interfaces_of(rank).for_each(|interface| terminals[interface as usize] = node(rank));
        }
        // An interface for every outgoing link comes with one for every incoming link; shared
        // interfaces receive from the links in turn.
        let by_link = plan.schedule.endpoint.issue == Issue::Links;
        let mut of_link: HashMap<(u32, Option<LinkId>), u32> = HashMap::new();
        let mut received = vec![0usize; plan.fabric.ranks()];
        let mut destination = Vec::with_capacity(plan.jobs.len());
        for job in &plan.jobs {
            let terminal = *of_link.entry((job.to, plan.route(job).last().copied())).or_insert_with(|| {
                let turn = &mut received[job.to as usize];
                *turn += 1;
                let count = if by_link { 0 } else { endpoints.interfaces_of(job.to).count() };
                if count > 0 {
                    return endpoints.interfaces_of(job.to).nth((*turn - 1) % count).expect("below the count");
                }
                terminals.push(node(job.to));
                terminals.len() as u32 - 1
            });
            destination.push(terminal);
        }
        let routes = SourceRoutes::new(plan);
        let router = &plan.system.router;
        // The network counts in ticks too.
        let router = &RouterModel { clock_ps: plan.clock.ticks(router.clock_ps), ..router.clone() };
        let longest = plan.jobs.iter().map(|job| job.packets.flits).max().unwrap_or(0) as u32;
        let network = Network::new(plan.fabric, router, &plan.flit, &plan.latency, &terminals, longest, routes)?;
        Ok(Interfaces {
            plan,
            traffic,
            network,
            destination,
            left: vec![0; plan.jobs.len()],
            arrived: vec![0; plan.jobs.len()],
        })
    }

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
            let arrived = &mut self.arrived[packet.tag as usize];
            *arrived += 1;
            if *arrived == self.plan.jobs[packet.tag as usize].packets.count {
                *arrived = 0;
                endpoints.arrived(packet.tag, now);
            }
        }
        for i in 0..self.network.departed.len() {
            let (terminal, transfer) = self.network.departed[i];
            let left = &mut self.left[transfer as usize];
            *left += 1;
            if *left == self.plan.jobs[transfer as usize].packets.count {
                *left = 0;
                endpoints.sent(transfer, now);
            }
            endpoints.departed(terminal, now, self);
        }
    }

    /// Records the transmissions that ended.
    fn record(&mut self) {
        for (link, start, end) in self.network.transmissions.drain(..) {
            self.traffic.transmitted(link, start, end);
        }
    }
}

impl Carrier for Interfaces<'_> {
    fn is_free(&self, interface: u32) -> bool {
        self.network.backlog(interface) <= self.plan.system.interface.depth_packets
    }

    fn has_room(&self, interface: u32) -> bool {
        self.network.queued_runs(interface) < 2
    }

    fn send(&mut self, transfer: TransferId, interface: u32, now: Ticks) -> Ticks {
        let job = &self.plan.jobs[transfer as usize];
        let cycle = now / self.period() + 1;
        let packet = Packet::new(self.destination[transfer as usize], job.packets.flits as u32, transfer, 0, cycle);
        self.network.offer(interface, Run { packet, count: job.packets.count }, cycle);
        // One packet an issue slot; the last is visible one slot later.
        now + (job.packets.count + 1) * self.plan.issue
    }
}
