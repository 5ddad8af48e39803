//! A network from a fabric: ports, channels and buffers, all numbered through.

use super::allocate::Matching;
use super::buffer::VcBuffer;
use super::channel::{ChannelEnd, FlitChannel};
use super::network::{FlitNetwork, PacketRouting, PortFeeder, Terminal};
use super::router::{FlitRouter, PortSpans};
use super::wheel::{FlitEvents, Wheel};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use antiphon_model::system::RouterModel;

/// Most virtual-channel buffers of one network.
const MAX_BUFFERS: usize = 1 << 26;

impl<R: PacketRouting> FlitNetwork<R> {
    /// An empty network on `fabric` with a terminal on each node of `terminals` (several may share
    /// one). `flit_ps` and `latency_ps` are those of every link; injection and ejection take one cycle.
    /// No packet has more than `longest` flits.
    ///
    /// Where a link moves more than a flit a clock, all ports work at the time of its flit
    /// ([`RouterModel::with_ports_of`], [`Self::clock_ps`]), and a buffer holds at least a packet and a
    /// round trip of credits.
    ///
    /// # Errors
    /// As [`RouterModel::check`]; [`Code::TooLarge`] past 2^26 buffers.
    pub fn new(
        fabric: &Fabric,
        model: &RouterModel,
        flit_ps: &[Picos],
        latency_ps: &[Picos],
        terminals: &[NodeId],
        longest: u32,
        routing: R,
    ) -> Result<Self> {
        model.check()?;
        let (ports, vcs) = (fabric.links.len() + terminals.len(), model.virtual_channels as usize);
        if (ports + terminals.len()).saturating_mul(vcs * (2 + model.output_speedup as usize)) > MAX_BUFFERS {
            let what = format!("{ports} ports of {vcs} virtual channels are too many; use a smaller fabric or fewer");
            return Err(Error::new(Code::TooLarge, what));
        }
        let clock = flit_ps.iter().copied().min().unwrap_or(model.clock_ps).clamp(1, model.clock_ps);
        let ports = PortLists::of(fabric, terminals);
        // Channels to and from terminals keep their time too.
        let timing = ChannelTiming { wire_ps: model.clock_ps - clock, model: model.with_ports_of(clock), longest };
        let channels = timing.channels(&ports, flit_ps, latency_ps);
        Ok(Self::assembled(timing.model, routing, &ports, channels))
    }

    /// Puts a network together, of channels that leave from the output ports in order, then from terminals.
    fn assembled(model: RouterModel, routing: R, ports: &PortLists, channels: Vec<FlitChannel>) -> Self {
        let (count, slots, vcs) = (ports.count(), 64 * ports.ins.len(), model.virtual_channels as usize);
        let vc_bits = vcs.next_power_of_two().trailing_zeros();
        let mut channel_of_link = ports.numbers(&ports.outs);
        let ejection = channel_of_link.split_off(ports.links);
        let routers = ports.routers(vc_bits);
        let words = routers.last().map_or(0, |last| last.ports.first_word + last.ports.words) as usize;
        let (is, os) = (model.input_speedup as usize, model.output_speedup as usize);
        FlitNetwork {
            wheel: Wheel::with_room(longest_round_trip(&model, &channels)),
            // Flits for one output port cross in the order of their grants.
            matching: Matching::new(count * is.max(1 << vc_bits), count * os.max(1 << vc_bits), os > 1),
            model,
            routing,
            vcs,
            vc_bits,
            now: 0,
            router_of_in: owners(&ports.ins),
            router_of_out: owners(&ports.outs),
            feeder: feeders(count, &channels),
            virtual_channels: channels.iter().flat_map(|channel| channel.virtual_channels(vc_bits)).collect(),
            channels,
            channel_of_link,
            ejection,
            buffers: (0..count << vc_bits).map(|_| VcBuffer::new()).collect(),
            wants_vc: vec![0; words],
            wants_switch: vec![0; words],
            places: routers.iter().flat_map(|router| router.ports.places(vc_bits)).collect(),
            routers,
            vc_next_input: vec![0; count << vc_bits],
            vc_next_output: vec![0; count << vc_bits],
            switch_next_input: vec![0; count * os],
            switch_next_output: vec![0; count * is],
            switch_next_vc: vec![0; count * is],
            terminals: (0..ports.terminals).map(|_| Terminal::idle()).collect(),
            asking: vec![0; (count * is).max(slots)],
            asked: vec![0; (count * os).max(slots)],
            // One more, since an entry is written before it is known to count.
            heads: vec![0; (count << vc_bits) + 1],
            bids: vec![0; (count << vc_bits) + 1],
            rivals: vec![0; count],
            records: true,
            packets: vec![],
            free: vec![],
            requests: vec![],
            offers: vec![],
            granted: vec![],
            events: FlitEvents::default(),
            due_routers: vec![],
            due_terminals: vec![],
            classes: vec![],
            delivered: vec![],
            departed: vec![],
            transmissions: vec![],
            event_count: 0,
            flit_hops: 0,
            in_flight: 0,
            border: None,
        }
    }
}

/// The ports of all routers, by router: the links that come in or go out, then the terminals, numbered behind all
/// links.
struct PortLists {
    links: usize,
    terminals: usize,
    ins: Vec<Vec<usize>>,
    outs: Vec<Vec<usize>>,
}

impl PortLists {
    fn of(fabric: &Fabric, terminals: &[NodeId]) -> Self {
        let (links, routers) = (fabric.links.len(), fabric.nodes.len());
        let (mut ins, mut outs) = (vec![vec![]; routers], vec![vec![]; routers]);
        for (id, link) in fabric.links.iter().enumerate() {
            outs[link.from as usize].push(id);
            ins[link.to as usize].push(id);
        }
        for (id, &node) in (links..).zip(terminals) {
            outs[node as usize].push(id);
            ins[node as usize].push(id);
        }
        PortLists { links, terminals: terminals.len(), ins, outs }
    }

    /// Ports of one side.
    fn count(&self) -> usize {
        self.links + self.terminals
    }

    /// The port of every link, then of every terminal, among the ports of one side.
    fn numbers(&self, side: &[Vec<usize>]) -> Vec<u32> {
        let mut numbers = vec![0; self.count()];
        (0..).zip(side.iter().flatten()).for_each(|(port, &id)| numbers[id] = port);
        numbers
    }

    fn routers(&self, vc_bits: u32) -> Vec<FlitRouter> {
        let mut ports = PortSpans::default();
        let router = |(ins, outs): (&Vec<usize>, &Vec<usize>)| {
            ports = PortSpans {
                first_in: ports.first_in + ports.ins,
                ins: ins.len() as u32,
                first_out: ports.first_out + ports.outs,
                outs: outs.len() as u32,
                first_word: ports.first_word + ports.words,
                words: (ins.len() << vc_bits).div_ceil(64) as u32,
            };
            FlitRouter::new(ports)
        };
        self.ins.iter().zip(&self.outs).map(router).collect()
    }
}

/// The router of every port of one side.
fn owners(side: &[Vec<usize>]) -> Vec<u32> {
    (0..).zip(side).flat_map(|(router, list)| vec![router; list.len()]).collect()
}

/// The channel that feeds each input port.
fn feeders(ports: usize, channels: &[FlitChannel]) -> Vec<PortFeeder> {
    let mut feeders = vec![PortFeeder::default(); ports];
    for (id, channel) in (0..).zip(channels) {
        if let ChannelEnd::Router { port } = channel.to {
            feeders[port as usize] = PortFeeder { channel: id, credit_cycles: channel.credit_cycles, crosses: false };
        }
    }
    feeders
}

/// Cycles from a grant to the use of its credit on the longest channel.
fn longest_round_trip(model: &RouterModel, channels: &[FlitChannel]) -> u64 {
    let in_router = u64::from(model.traversal_cycles) + 1;
    let round_trip =
        |channel: &FlitChannel| channel.crossing_cycles.saturating_add(channel.credit_cycles.saturating_add(in_router));
    channels.iter().map(round_trip).max().unwrap_or(0)
}

/// What decides times and depths of channels, beside the links.
struct ChannelTiming {
    model: RouterModel,
    /// By how much the clock of ports is shorter than the routers' own.
    wire_ps: Picos,
    /// Flits of the longest packet.
    longest: u32,
}

impl ChannelTiming {
    /// Channels of all output ports, then of all terminals.
    fn channels(&self, ports: &PortLists, flit_ps: &[Picos], latency_ps: &[Picos]) -> Vec<FlitChannel> {
        let (links, clock, credit) = (ports.links, self.model.clock_ps, self.model.credit_cycles as u64);
        let port_of = ports.numbers(&ports.ins);
        let leaving = ports.outs.iter().flatten().map(|&id| match id < links {
            true => {
                let to = ChannelEnd::Router { port: port_of[id] };
                let back = 1 + self.cycles(latency_ps[id]) + credit;
                self.channel(to, Some(id as LinkId), flit_ps[id], latency_ps[id], back)
            }
            false => self.channel(ChannelEnd::Terminal, None, clock, self.wire_ps, 2 + credit),
        });
        // A terminal uses credits at once.
        let injection = port_of[links..].iter().map(|&port| {
            let to = ChannelEnd::Router { port };
            self.channel(to, None, clock, 2 * self.wire_ps, 2)
        });
        leaving.chain(injection).collect()
    }

    fn cycles(&self, ps: Picos) -> u64 {
        ps.div_ceil(self.model.clock_ps).max(1)
    }

    fn channel(
        &self,
        to: ChannelEnd,
        link: Option<LinkId>,
        flit_ps: Picos,
        latency_ps: Picos,
        credit_cycles: u64,
    ) -> FlitChannel {
        let (model, crossing_ps) = (&self.model, flit_ps.saturating_add(latency_ps));
        let there = model.traversal_cycles as u64 + 1 + self.cycles(crossing_ps);
        let in_router = model.routing_cycles + model.vc_allocation_cycles + model.switch_allocation_cycles;
        let round_trip = (there + in_router as u64 + credit_cycles) as u128 * model.clock_ps as u128;
        let needed = (self.longest as u128).saturating_add(round_trip.div_ceil(flit_ps.max(1) as u128));
        let needed = if self.wire_ps > 0 { needed.min(u32::MAX as u128 / 2) as u32 } else { 0 };
        FlitChannel {
            to,
            link,
            flit_ps,
            latency_ps,
            depth_flits: model.depth_flits.max(needed),
            crossing_cycles: crossing_ps.div_ceil(model.clock_ps),
            credit_cycles,
            free_ps: 0,
            run_start_ps: 0,
        }
    }
}
