//! Packet fidelity with routers: packets that wait in finite buffers and cross from inputs to outputs.
//!
//! - The *inputs* of a node are the links that end there and its interfaces. Each has virtual channels: FIFOs with room for
//!   as many packets of the longest kind as fit as a whole.
//! - Its *outputs* are the links that start there and the local ports at which messages arrive, unless a circuit leads
//!   there ([`Ejection::Circuit`]).
//! - The first packet of a channel asks for its output. It claims a channel at the other end of a link, one with room that nobody
//!   holds, and keeps it until it has crossed. An input and an output take part in one crossing at a time, unless they have a
//!   speedup; a crossing takes a clock a flit. Behind the output packets wait for the link, if it is slower.
//! - A channel has room again when so much of a packet has left that the next one fits, and the credit has come back.
//!   Classes of channels keep packets from waiting for each other ([`SourceRoutes`]).
//! - An interface moves its packets, one after the other, into its channels.
//!
//! It is the network of flits with packets for flits. Every packet is a few events a link: the cost grows with the packets.

mod channel;
mod crossing;
mod interface;
mod output;
mod periodic;

use super::Network;
use super::arriving::Arriving;
use super::flow::{Flow, Hops, Tail};
use super::routes::SourceRoutes;
use super::terminals::Terminals;
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
use crate::system::{Arbitration, Ejection};
use channel::{Channel, Input, Packet};
use interface::Interface;
use output::Output;

/// What is to happen; of simultaneous events the first first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet has crossed from a channel to an output.
    Crossed { output: u32, channel: u32 },
    /// A packet has left an interface.
    Left { interface: u32 },
    /// A packet may be first in a channel.
    Arrived { channel: u32, packet: Packet },
    /// A message whose ranks are on one node is there.
    Stayed { transfer: TransferId, tail: Tail },
    /// A channel has room for one more.
    Credit { channel: u32 },
}

/// See the module.
pub struct Routed<'a> {
    plan: &'a Plan<'a>,
    traffic: Traffic,
    ranking: Ranking,
    hops: Hops,
    routes: SourceRoutes<'a>,
    terminals: Terminals,
    now: Ticks,
    agenda: Agenda<Event>,
    /// Links, then interfaces.
    inputs: Vec<Input>,
    /// Those of every input.
    channels: Vec<Channel>,
    /// Links, then terminals.
    outputs: Vec<Output>,
    interfaces: Vec<Interface>,
    /// Messages of which some packets have come.
    arriving: Arriving,
    /// Virtual channels of an input.
    count: u32,
    /// Number of the next request.
    next_request: u64,
    /// Ticks of a flit through the crossbar, and of a credit at the end of its way.
    flit: Ticks,
    credit: Ticks,
    /// Ticks of the stages of a router.
    router: Ticks,
}

impl<'a> Network<'a> for Routed<'a> {
    const FIDELITY: Fidelity = Fidelity::Packet;
    const WORK: (&'static str, u64) = ("events", 8_000_000_000);

    fn new(plan: &'a Plan<'a>, endpoints: &Endpoints, _merge: bool) -> Result<Self> {
        let router = &plan.system.router;
        let longest = longest_packet(plan);
        expect_room(longest, router.depth_flits, "link_buffers=routers")?;
        // As in flits, ports are as fast as the fastest link, and then buffers are large enough for it.
        let clock = plan.clock.ticks(router.clock_ps);
        let period = plan.flit.iter().copied().min().unwrap_or(clock).clamp(1, clock);
        let credit = clock * (1 + Ticks::from(router.credit_cycles));
        let (depth, stages) = (u64::from(router.depth_flits), plan.clock.ticks(router.stages_ps()));
        let of_link = |(&flit, &latency): (&Ticks, &Ticks)| {
            let round_trip = 2 * latency + stages + credit;
            let needed = if period < clock { longest + round_trip.div_ceil(flit.max(1)) } else { 0 };
            Input::new(needed.max(depth), longest)
        };
        let of_links = plan.flit.iter().zip(&plan.latency).map(of_link);
        let inputs: Vec<Input> =
            of_links.chain((0..endpoints.interfaces()).map(|_| Input::new(depth, longest))).collect();
        let count = router.virtual_channels;
        let channels = inputs.iter().flat_map(|input| (0..count).map(|_| Channel::new(input.packets))).collect();
        let terminals = Terminals::new(plan, endpoints);
        Ok(Routed {
            plan,
            traffic: Traffic::new(plan),
            ranking: endpoints.ranking().clone(),
            hops: Hops::new(plan),
            routes: SourceRoutes::new(plan),
            now: 0,
            agenda: Agenda::new(),
            inputs,
            channels,
            outputs: (0..plan.fabric.links.len() + terminals.nodes.len()).map(|_| Output::default()).collect(),
            terminals,
            interfaces: (0..endpoints.interfaces()).map(|_| Interface::default()).collect(),
            arriving: Arriving::default(),
            count,
            next_request: 0,
            flit: period.div_ceil(router.internal_speedup.into()),
            credit,
            router: stages,
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
            Event::Crossed { output, channel } => self.crossed(output, channel, endpoints),
            Event::Left { interface } => self.left(interface, endpoints),
            Event::Arrived { channel, packet } => self.enter(channel, packet),
            Event::Stayed { transfer, tail } => endpoints.arrived(transfer, tail.arrived(transfer, endpoints), now),
            Event::Credit { channel } => {
                self.channels[channel as usize].room += 1;
                self.opened(channel);
            }
        }
    }

    fn finish(&mut self, now: Ticks) -> Result<()> {
        let Some(held) = self.channels.iter().position(|channel| !channel.waiting.is_empty()) else { return Ok(()) };
        let input = held as u32 / self.count;
        let place = match input.checked_sub(self.links()) {
            None => {
                let link = self.plan.fabric.link(input);
                format!("link {}-{}", link.from, link.to)
            }
            Some(interface) => format!("an interface of node {}", self.terminals.nodes[interface as usize]),
        };
        let what = format!(
            "deadlock in the network at {} ns: packets of {place} and others wait for each other's buffers; {} virtual \
             channels are too few for these routes",
            self.plan.clock.picos(now) / 1000,
            self.count
        );
        Err(Error::new(Code::Stalled, what))
    }

    fn into_traffic(self) -> Traffic {
        self.traffic
    }
}

impl Routed<'_> {
    /// Links of the fabric, which are before interfaces among inputs, and before terminals among outputs.
    fn links(&self) -> u32 {
        self.plan.fabric.links.len() as u32
    }

    /// Whether inputs take turns at an output.
    fn takes_turns(&self) -> bool {
        self.plan.system.arbitration == Arbitration::RoundRobin
    }

    /// Whether a packet crosses to a local port as it does to a link.
    fn ejects(&self) -> bool {
        self.plan.system.router.ejection == Ejection::Switched
    }

    /// Flits of a packet.
    fn flits(&self, flow: Flow) -> u64 {
        self.plan.kinds[flow.kind as usize].packets.flits
    }

    /// A channel can be asked for, perhaps: whoever waits for it is served.
    fn opened(&mut self, channel: u32) {
        let input = channel / self.count;
        match input.checked_sub(self.links()) {
            None => self.serve(input as LinkId),
            Some(interface) => self.inject(interface),
        }
    }
}
