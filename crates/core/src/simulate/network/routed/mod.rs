//! Packet fidelity with routers: packets that wait in buffers of finite size and cross from inputs to outputs.
//!
//! - The *inputs* of a node are the links that end there, each with the buffers of its virtual channels, and the
//!   interfaces. Its *outputs* are the links that start there and, for every input, the way to the local port, unless a
//!   circuit leads there ([`Ejection::Circuit`]).
//! - A packet crosses from its input to its output at a flit a clock. An input and an output take part in one crossing at
//!   a time, as long as they have no speedup. Behind the output packets wait in a queue for the link, which is empty
//!   where a link is as fast as a crossing.
//! - It crosses to a link when a buffer at the other end has room for all of it. That buffer is free again when so much of
//!   the packet has left that the next one fits, and its credit has come back. Classes of channels keep packets from waiting
//!   for each other ([`SourceRoutes`]).
//! - Interfaces are those of the module `packet`.
//!
//! Every packet is an event a link: the cost grows with the packets.

mod crossing;
mod output;
mod periodic;
mod sending;

use super::Network;
use super::flow::{Flow, Hops};
use super::interface::Interface;
use super::routes::SourceRoutes;
use super::{expect_room, longest_packet};
use crate::error::{Code, Error, Result};
use crate::fabric::LinkId;
use crate::schedule::TransferId;
use crate::simulate::Fidelity;
use crate::simulate::agenda::Agenda;
use crate::simulate::clock::Ticks;
use crate::simulate::endpoints::Endpoints;
use crate::simulate::flight::Ranking;
use crate::simulate::plan::Plan;
use crate::simulate::recorder::Traffic;
use crate::system::{Arbitration, Ejection, Forwarding};
use output::{Output, Packet, Request};
use smallvec::SmallVec;

/// What is to happen; of simultaneous events the first first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet has crossed to an output from an input.
    Crossed { output: u32, input: u32 },
    /// A packet may ask for its next output.
    Arrived(Packet),
    /// A message whose ranks are on one node is there.
    Stayed { transfer: TransferId },
    /// Credit for a buffer has come back.
    Credit { buffer: u32 },
}

/// A link or an interface, as an input of its node.
#[derive(Default)]
struct Input {
    /// Crossings under way.
    crossing: u32,
    /// Outputs that what waits there asks for, and how often.
    wants: SmallVec<[(u32, u32); 4]>,
}

/// What the buffers at the end of a link hold, of one class.
struct Buffers {
    /// Packets of the longest kind.
    packets: u32,
    /// Flits of the first one that must have left before one more fits.
    flits_before_next: u64,
}

impl Buffers {
    /// Virtual channels of `depth` flits.
    fn new(channels: u32, depth: u64, longest: u64) -> Self {
        let of_channel = depth / longest.max(1);
        Buffers {
            packets: u64::from(channels).saturating_mul(of_channel).min(u32::MAX.into()) as u32,
            flits_before_next: ((of_channel + 1) * longest).saturating_sub(depth).max(1),
        }
    }
}

/// See the module.
pub struct Routed<'a> {
    plan: &'a Plan<'a>,
    traffic: Traffic,
    ranking: Ranking,
    /// The flight of every interface.
    flights: Vec<u32>,
    hops: Hops,
    routes: SourceRoutes<'a>,
    now: Ticks,
    agenda: Agenda<Event>,
    /// Links, then interfaces.
    inputs: Vec<Input>,
    /// Links, then the ways from links to the local ports of their nodes.
    outputs: Vec<Output>,
    /// Packets for which buffers have room, by link and class.
    room: Vec<u32>,
    buffers: Vec<Buffers>,
    interfaces: Vec<Interface>,
    /// Number of the next request.
    next_request: u64,
    /// Ticks of a flit through the crossbar, and of a credit at the end of its way.
    flit: Ticks,
    credit: Ticks,
    /// Stages of a router, where packets are cut through.
    stages: Option<Ticks>,
}

impl<'a> Network<'a> for Routed<'a> {
    const FIDELITY: Fidelity = Fidelity::Packet;
    const WORK: (&'static str, u64) = ("events", 8_000_000_000);

    fn new(plan: &'a Plan<'a>, endpoints: &Endpoints, _merge: bool) -> Result<Self> {
        let router = &plan.system.router;
        let longest = longest_packet(plan);
        expect_room(longest, router.depth_flits)?;
        let routes = SourceRoutes::new(plan);
        let links = plan.fabric.links.len();
        // As in flits, ports are as fast as the fastest link, and then buffers are large enough for it.
        let clock = plan.clock.ticks(router.clock_ps);
        let period = plan.flit.iter().copied().min().unwrap_or(clock).clamp(1, clock);
        let credit = clock * (1 + Ticks::from(router.credit_cycles));
        let channels = (router.virtual_channels / routes.classes).max(1);
        let of_link = |(&flit, &latency): (&Ticks, &Ticks)| {
            let round_trip = 2 * latency + plan.clock.ticks(router.stages_ps()) + credit;
            let needed = if period < clock { longest + round_trip.div_ceil(flit.max(1)) } else { 0 };
            Buffers::new(channels, needed.max(router.depth_flits.into()), longest)
        };
        let buffers: Vec<Buffers> = plan.flit.iter().zip(&plan.latency).map(of_link).collect();
        Ok(Routed {
            plan,
            traffic: Traffic::new(plan),
            ranking: endpoints.ranking().clone(),
            flights: (0..endpoints.interfaces() as u32).map(|id| endpoints.flight_of(id)).collect(),
            hops: Hops::new(plan),
            now: 0,
            agenda: Agenda::new(),
            inputs: (0..links + endpoints.interfaces()).map(|_| Input::default()).collect(),
            outputs: (0..2 * links).map(|_| Output::default()).collect(),
            room: buffers.iter().flat_map(|each| vec![each.packets; routes.classes as usize]).collect(),
            buffers,
            interfaces: (0..endpoints.interfaces()).map(|_| Interface::default()).collect(),
            next_request: 0,
            flit: period.div_ceil(router.internal_speedup.into()),
            credit,
            stages: (plan.system.forwarding == Forwarding::CutThrough).then(|| plan.clock.ticks(router.stages_ps())),
            routes,
        })
    }

    fn next_at(&self) -> Ticks {
        self.agenda.next_at()
    }

    fn before_ranks(&mut self, now: Ticks) {
        self.now = now;
    }

    fn step(&mut self, endpoints: &mut Endpoints) {
        let Some((now, event)) = self.agenda.pop() else { return };
        self.now = now;
        match event {
            Event::Crossed { output, input } => self.crossed(output, input, endpoints),
            Event::Stayed { transfer } => endpoints.arrived(transfer, now),
            Event::Arrived(packet) => {
                let before = self.hops.before(packet.flow);
                let output = self.hops.at(packet.flow).unwrap_or(before + self.plan.fabric.links.len() as LinkId);
                self.request(output, Request::Transit(packet));
            }
            Event::Credit { buffer } => {
                self.room[buffer as usize] += 1;
                self.serve(buffer / self.routes.classes);
            }
        }
    }

    fn finish(&mut self, now: Ticks) -> Result<()> {
        let class_count = self.routes.classes as usize;
        let is_used = |(buffer, &room): (usize, &u32)| room < self.buffers[buffer / class_count].packets;
        let Some(used) = self.room.iter().enumerate().position(is_used) else { return Ok(()) };
        let link = self.plan.fabric.link((used / class_count) as LinkId);
        let what = format!(
            "deadlock in the network at {} ns: packets in the buffers of link {}-{} and others wait for each other; {} virtual \
             channels are too few for these routes",
            self.plan.clock.picos(now) / 1000,
            link.from,
            link.to,
            self.plan.system.router.virtual_channels
        );
        Err(Error::new(Code::Stalled, what))
    }

    fn into_traffic(self) -> Traffic {
        self.traffic
    }
}

impl Routed<'_> {
    /// Links of the fabric, which are before interfaces among inputs, and before ways to local ports among outputs.
    fn links(&self) -> u32 {
        self.plan.fabric.links.len() as u32
    }

    /// Whether inputs take turns at an output.
    fn takes_turns(&self) -> bool {
        self.plan.system.arbitration == Arbitration::RoundRobin
    }

    /// Whether a packet crosses to the local port as it does to a link.
    fn ejects(&self) -> bool {
        self.plan.system.router.ejection == Ejection::Switched
    }

    /// The buffer at the end of a link that packets need which cross to it.
    fn buffer(&self, link: LinkId, flow: Flow) -> u32 {
        link * self.routes.classes + self.routes.class_of(flow.hop_of_plan())
    }
}
