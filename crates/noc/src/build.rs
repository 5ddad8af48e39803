//! A network from a fabric: ports, channels and buffers, all numbered through.

use super::allocate::Matching;
use super::buffer::{Buffer, NONE};
use super::channel::{Channel, End, VirtualChannel};
use super::network::{Feeder, Network, Routing, Terminal};
use super::router::{Ports, Router};
use super::wheel::{Events, Wheel};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Picos;
use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use antiphon_model::system::RouterModel;
use std::collections::VecDeque;

/// Most virtual-channel buffers of one network.
const MAX_BUFFERS: usize = 1 << 26;

impl<R: Routing> Network<R> {
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
        let (links, vcs) = (fabric.links.len(), model.virtual_channels as usize);
        let ports = links + terminals.len();
        if (ports + terminals.len()).saturating_mul(vcs * (2 + model.output_speedup as usize)) > MAX_BUFFERS {
            let what = format!("{ports} ports of {vcs} virtual channels are too many; use a smaller fabric or fewer");
            return Err(Error::new(Code::TooLarge, what));
        }
        let clock = flit_ps.iter().copied().min().unwrap_or(model.clock_ps).clamp(1, model.clock_ps);
        // Ways to and from terminals keep their time too.
        let (is_faster, wire_ps) = (clock < model.clock_ps, model.clock_ps - clock);
        let model = &model.with_ports_of(clock);
        let routers = fabric.nodes.len();
        let (mut ins, mut outs) = (vec![vec![]; routers], vec![vec![]; routers]);
        // Ports in the order of links, then terminals; a number past the links is a terminal's.
        for (id, link) in fabric.links.iter().enumerate() {
            outs[link.from as usize].push(id);
            ins[link.to as usize].push(id);
        }
        for (t, &node) in terminals.iter().enumerate() {
            outs[node as usize].push(links + t);
            ins[node as usize].push(links + t);
        }
        let base = |ports: &[Vec<usize>]| {
            let mut starts = vec![0u32];
            ports.iter().for_each(|list| starts.push(starts[starts.len() - 1] + list.len() as u32));
            starts
        };
        let owner = |ports: &[Vec<usize>]| -> Vec<u32> {
            ports.iter().enumerate().flat_map(|(router, list)| list.iter().map(move |_| router as u32)).collect()
        };
        let (first_in, first_out) = (base(&ins), base(&outs));
        let (mut channel_of_link, mut ejection) = (vec![0; links], vec![0; terminals.len()]);
        for (port, &what) in outs.iter().flatten().enumerate() {
            match what.checked_sub(links) {
                None => channel_of_link[what] = port as u32,
                Some(t) => ejection[t] = port as u32,
            }
        }
        let mut port_of = vec![0u32; ports];
        ins.iter().flatten().enumerate().for_each(|(port, &what)| port_of[what] = port as u32);
        let cycle = |ps: Picos| ps.div_ceil(clock).max(1);
        let credit = model.credit_cycles as u64;
        let in_router = model.routing_cycles + model.vc_allocation_cycles + model.switch_allocation_cycles;
        let channel = |to, link, flit_ps: Picos, latency_ps: Picos, credit_cycles: u64| {
            let there = model.traversal_cycles as u64 + 1 + cycle(flit_ps.saturating_add(latency_ps));
            let round_trip = (there + in_router as u64 + credit_cycles) as u128 * clock as u128;
            let needed = (longest as u128).saturating_add(round_trip.div_ceil(flit_ps.max(1) as u128));
            let needed = if is_faster { needed.min(u32::MAX as u128 / 2) as u32 } else { 0 };
            Channel {
                to,
                link,
                flit_ps,
                latency_ps,
                depth_flits: model.depth_flits.max(needed),
                crossing_cycles: flit_ps.saturating_add(latency_ps).div_ceil(clock),
                credit_cycles,
                free_ps: 0,
                run_start_ps: 0,
            }
        };
        let mut channels: Vec<Channel> = outs
            .iter()
            .flatten()
            .map(|&what| match what < links {
                true => {
                    let to = End::Router { port: port_of[what] };
                    let back = 1 + cycle(latency_ps[what]) + credit;
                    channel(to, Some(what as LinkId), flit_ps[what], latency_ps[what], back)
                }
                false => channel(End::Terminal, None, clock, wire_ps, 2 + credit),
            })
            .collect();
        // A terminal uses credits at once.
        channels.extend((0..terminals.len()).map(|t| {
            let to = End::Router { port: port_of[links + t] };
            channel(to, None, clock, 2 * wire_ps, 2)
        }));
        let mut feeder = vec![Feeder::default(); ports];
        for (id, channel) in channels.iter().enumerate() {
            if let End::Router { port } = channel.to {
                let credit_cycles = channel.credit_cycles;
                feeder[port as usize] = Feeder { channel: id as u32, credit_cycles, crosses: false };
            }
        }
        let in_router = u64::from(model.traversal_cycles) + 1;
        let ahead =
            |channel: &Channel| channel.crossing_cycles.saturating_add(channel.credit_cycles.saturating_add(in_router));
        let ahead = channels.iter().map(ahead).max().unwrap_or(0);
        let vc_bits = vcs.next_power_of_two().trailing_zeros();
        let mut word_count = 0;
        let routers: Vec<Router> = (0..routers)
            .map(|router| {
                let words = (ins[router].len() << vc_bits).div_ceil(64) as u32;
                word_count += words;
                Router::new(Ports {
                    first_in: first_in[router],
                    ins: ins[router].len() as u32,
                    first_out: first_out[router],
                    outs: outs[router].len() as u32,
                    first_word: word_count - words,
                    words,
                })
            })
            .collect();
        let places = routers
            .iter()
            .flat_map(|Router { ports, .. }| (0..ports.ins << vc_bits).map(|local| 64 * ports.first_word + local))
            .collect();
        let (is, os) = (model.input_speedup as usize, model.output_speedup as usize);
        // Flits for one output port cross in the order of their grants.
        let in_order = os > 1;
        let matching = Matching::new(ports * is.max(1 << vc_bits), ports * os.max(1 << vc_bits), in_order);
        Ok(Network {
            model: model.clone(),
            routing,
            vcs,
            vc_bits,
            wheel: Wheel::with_room(ahead),
            now: 0,
            router_of_in: owner(&ins),
            router_of_out: owner(&outs),
            routers,
            feeder,
            virtual_channels: channels
                .iter()
                .flat_map(|channel| vec![VirtualChannel { credits: channel.depth_flits, holder: NONE }; 1 << vc_bits])
                .collect(),
            channels,
            channel_of_link,
            ejection,
            buffers: (0..ports << vc_bits).map(|_| Buffer::new()).collect(),
            wants_vc: vec![0; word_count as usize],
            wants_switch: vec![0; word_count as usize],
            places,
            vc_next_input: vec![0; ports << vc_bits],
            vc_next_output: vec![0; ports << vc_bits],
            switch_next_input: vec![0; ports * os],
            switch_next_output: vec![0; ports * is],
            switch_next_vc: vec![0; ports * is],
            terminals: (0..terminals.len())
                .map(|_| Terminal {
                    queue: VecDeque::new(),
                    current: None,
                    next_vc: 0,
                    backlog: 0,
                    woken: u64::MAX,
                    worked: u64::MAX,
                })
                .collect(),
            packets: vec![],
            free: vec![],
            asking: vec![0; (ports * is).max(64 * fabric.nodes.len())],
            asked: vec![0; (ports * os).max(64 * fabric.nodes.len())],
            matching,
            requests: vec![],
            // One more, since whatever is looked at is written before it is known to count.
            heads: vec![0; (ports << vc_bits) + 1],
            bids: vec![0; (ports << vc_bits) + 1],
            offers: vec![],
            rivals: vec![0; ports],
            granted: vec![],
            events: Events::default(),
            due_routers: vec![],
            due_terminals: vec![],
            classes: vec![],
            delivered: vec![],
            departed: vec![],
            records: true,
            transmissions: vec![],
            event_count: 0,
            flit_hops: 0,
            in_flight: 0,
            border: None,
        })
    }
}
