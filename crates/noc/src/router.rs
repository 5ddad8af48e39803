//! Routers: route computation, allocation of virtual channels and of the crossbar, traversal.

use super::allocate::{AllocationRequest, behind};
use super::buffer::{NONE, VcBuffer};
use super::channel::VirtualChannel;
use super::network::{FlitNetwork, FlitPacket, PacketRouting};
use antiphon_model::system::{Allocator, RouterModel, Switching};
use std::ops::Range;

/// Ports of one router, and the words of its sets of buffers: the first of each, and how many.
#[derive(Clone, Copy, Default)]
pub(super) struct PortSpans {
    pub(super) first_in: u32,
    pub(super) ins: u32,
    pub(super) first_out: u32,
    pub(super) outs: u32,
    pub(super) first_word: u32,
    pub(super) words: u32,
}

impl PortSpans {
    fn words(&self) -> Range<usize> {
        self.first_word as usize..(self.first_word + self.words) as usize
    }

    /// Numbers of the bits of its buffers.
    pub(super) fn places(&self, vc_bits: u32) -> Range<u32> {
        let first = 64 * self.first_word;
        first..first + (self.ins << vc_bits)
    }
}

/// When a router works. Its buffers, sets and pointers are in lists of the whole network.
pub(super) struct FlitRouter {
    pub(super) ports: PortSpans,
    /// Whether a head that found no virtual channel when it last looked might find one now.
    pub(super) vc_news: bool,
    /// Whether the last allocation granted anything, and the first cycle after it in which an output queue
    /// that was full has room.
    granted: bool,
    opens: u64,
    /// Cycle it was last woken for, and last worked in.
    pub(super) woken: u64,
    pub(super) worked: u64,
}

impl FlitRouter {
    pub(super) fn new(ports: PortSpans) -> FlitRouter {
        FlitRouter { ports, vc_news: false, granted: false, opens: u64::MAX, woken: u64::MAX, worked: u64::MAX }
    }
}

/// Age of the first packet of a buffer, where the allocator asks for it.
fn age(model: &RouterModel, packets: &[FlitPacket], buffer: &VcBuffer) -> u64 {
    if model.allocator == Allocator::Age { packets[buffer.packet as usize].created } else { 0 }
}

/// Class of the first packet of a buffer, where there are several.
fn class(classes: &[u16], packets: &[FlitPacket], buffer: &VcBuffer) -> u16 {
    if classes.is_empty() { 0 } else { classes[packets[buffer.packet as usize].kind as usize] }
}

/// The first open one of the virtual channels `from` up to `to`, round from `pointer` on.
fn first_open(outputs: &[VirtualChannel], (from, to): (u32, u32), pointer: u32, needed: u32) -> Option<u32> {
    let mut vc = if (from..to).contains(&pointer) { pointer } else { from };
    for _ in from..to {
        if outputs[vc as usize].is_open(needed) {
            return Some(vc);
        }
        vc = if vc + 1 == to { from } else { vc + 1 };
    }
    None
}

/// The one of `places` to which a number is dealt in turn.
fn dealt(number: u32, places: u32) -> u32 {
    // Mostly there is one, and dividing takes time.
    if places == 1 { 0 } else { number % places }
}

impl<R: PacketRouting> FlitNetwork<R> {
    /// Word and bit of a buffer in the sets.
    pub(super) fn bit(&self, buffer: usize) -> (usize, u64) {
        let place = self.places[buffer];
        (place as usize / 64, 1 << (place % 64))
    }

    /// Port of a buffer and its virtual channel, or channel of a virtual channel and its place there.
    pub(super) fn port_and_vc(&self, id: usize) -> (usize, u32) {
        (id >> self.vc_bits, (id & ((1 << self.vc_bits) - 1)) as u32)
    }

    /// Ports of the router of an input port.
    fn ports_of_in(&self, port: usize) -> PortSpans {
        self.routers[self.router_of_in[port] as usize].ports
    }

    pub(super) fn is_wanting(&self, router: usize) -> bool {
        self.routers[router].ports.words().any(|word| (self.wants_vc[word] | self.wants_switch[word]) != 0)
    }

    /// The packet that is now first in a buffer is routed, from cycle `from` on.
    pub(super) fn route(&mut self, router: u32, id: usize, from: u64) {
        let packet = self.buffers[id].packet;
        let state = &mut self.packets[packet as usize];
        let hop = self.routing.next(state, router);
        state.hops += u32::from(hop.link.is_some());
        let flits = state.flits;
        let channel = match hop.link {
            Some(link) => self.channel_of_link[link as usize],
            None => self.ejection[state.destination as usize],
        };
        let first = channel << self.vc_bits;
        let share = |class: u32| match hop.classes {
            1 => first + class * self.vcs as u32,
            classes => first + class * self.vcs as u32 / classes,
        };
        let (word, bit) = self.bit(id);
        self.wants_vc[word] |= bit;
        self.routers[router as usize].vc_news = true;
        let buffer = &mut self.buffers[id];
        buffer.wants = match hop.link {
            Some(_) => (share(hop.class), share(hop.class + 1)),
            None => (first, first + self.vcs as u32),
        };
        buffer.left = flits;
        buffer.ready = from + self.model.routing_cycles as u64;
    }

    /// One allocation of virtual channels and of the crossbars of routers. All routers go through each stage
    /// together: the loops are long, and their branches alike.
    pub(super) fn allocate(&mut self, routers: &[u32]) {
        let (heads, bids) = self.list_ready(routers);
        self.allocate_channels(heads);
        match self.is_plain() {
            true => self.allocate_switches::<true>(bids),
            false => self.allocate_switches::<false>(bids),
        }
        for &router in routers {
            let state = &self.routers[router as usize];
            // Without a grant nothing changes until a credit or a flit comes, a queue has room, or a delay is over.
            let next = match state.granted {
                true if self.is_wanting(router as usize) => self.now + 1,
                true => u64::MAX,
                false => self.first_ready(state.ports).min(state.opens),
            };
            if next < u64::MAX {
                self.wake_router(router, next);
            }
        }
    }

    /// Lists the buffers of routers whose delays are over: [`Self::heads`] that want a virtual channel and
    /// may find one, and [`Self::bids`] for the crossbar; returns how many. Whether a delay is over is hard
    /// to foresee, so there is no branch on it.
    fn list_ready(&mut self, routers: &[u32]) -> (usize, usize) {
        let (buffers, wants_vc, wants_switch) = (&self.buffers[..], &self.wants_vc[..], &self.wants_switch[..]);
        let (heads, bids, now) = (&mut self.heads[..], &mut self.bids[..], self.now);
        let (mut head_count, mut bid_count) = (0, 0);
        for &router in routers {
            let state = &mut self.routers[router as usize];
            (state.granted, state.opens) = (false, u64::MAX);
            let news = std::mem::take(&mut state.vc_news);
            let mut first = state.ports.first_in << self.vc_bits;
            for word in state.ports.words() {
                let mut left = if news { wants_vc[word] } else { 0 };
                while left != 0 {
                    let id = first + left.trailing_zeros();
                    left &= left - 1;
                    let is_ready = buffers[id as usize].ready <= now;
                    heads[head_count] = id;
                    head_count += usize::from(is_ready);
                    state.vc_news |= !is_ready;
                }
                let mut left = wants_switch[word];
                while left != 0 {
                    let id = first + left.trailing_zeros();
                    left &= left - 1;
                    bids[bid_count] = id;
                    bid_count += usize::from(buffers[id as usize].ready <= now);
                }
                first += 64;
            }
        }
        (head_count, bid_count)
    }

    /// The end of the first delay among a router's waiting packets.
    fn first_ready(&self, ports: PortSpans) -> u64 {
        let first = (ports.first_in as usize) << self.vc_bits;
        let waits = |&id: &usize| {
            let (word, bit) = self.bit(id);
            (self.wants_vc[word] | self.wants_switch[word]) & bit != 0
        };
        let ready =
            (first..first + ((ports.ins as usize) << self.vc_bits)).filter(waits).map(|id| self.buffers[id].ready);
        ready.filter(|&ready| ready > self.now).min().unwrap_or(u64::MAX)
    }

    /// Gives virtual channels to the first `heads` of [`Self::heads`]. Those that alone want an output port,
    /// most of them, need no matching. O(heads x virtual channels).
    fn allocate_channels(&mut self, heads: usize) {
        let cut_through = self.model.switching == Switching::CutThrough;
        let needed = |buffer: &VcBuffer| if cut_through { buffer.left } else { 0 };
        let (buffers, channels, pointers) = (&self.buffers[..], &self.virtual_channels[..], &self.vc_next_output[..]);
        let (rivals, vc_bits) = (&mut self.rivals[..], self.vc_bits);
        self.offers.clear();
        for &id in &self.heads[..heads] {
            let buffer = &buffers[id as usize];
            if let Some(vc) = first_open(channels, buffer.wants, pointers[id as usize], needed(buffer)) {
                rivals[(vc >> vc_bits) as usize] += 1;
                self.offers.push((id, vc));
            }
        }
        let ready = self.now + (self.model.vc_allocation_cycles + self.model.switch_allocation_cycles - 1) as u64;
        let mut contended = 0;
        for index in 0..self.offers.len() {
            let (id, vc) = self.offers[index];
            let rivals = &mut self.rivals[(vc >> self.vc_bits) as usize];
            if *rivals == 1 {
                *rivals = 0;
                self.vc_next_input[vc as usize] = id + 1;
                self.vc_next_output[id as usize] = vc + 1;
                self.take_channel(id, vc, ready);
            } else {
                self.heads[contended] = id;
                contended += 1;
            }
        }
        let (buffers, channels) = (&self.buffers[..], &self.virtual_channels[..]);
        let requests = self.heads[..contended].iter().flat_map(|&id| {
            let buffer = &buffers[id as usize];
            let class = class(&self.classes, &self.packets, buffer);
            let age = age(&self.model, &self.packets, buffer);
            let is_open = move |&vc: &u32| channels[vc as usize].is_open(needed(buffer));
            let request = move |vc| AllocationRequest { input: id, output: vc, tie: 0, class, age, tag: vc };
            (buffer.wants.0..buffer.wants.1).filter(is_open).map(request)
        });
        self.granted.clear();
        let (next_input, next_output) = (&mut self.vc_next_input, &mut self.vc_next_output);
        let grant = |r: &AllocationRequest| self.granted.push((r.input, r.tag));
        let RouterModel { allocator, iterations, .. } = self.model;
        self.matching.allocate(allocator, iterations, requests, next_input, next_output, grant);
        for index in 0..self.granted.len() {
            let (id, vc) = self.granted[index];
            self.take_channel(id, vc, ready);
        }
        for &id in &self.heads[..contended] {
            let buffer = &self.buffers[id as usize];
            self.rivals[(buffer.wants.0 >> self.vc_bits) as usize] = 0;
            // The losers try again.
            self.routers[self.router_of_in[id as usize >> self.vc_bits] as usize].vc_news |= buffer.has == NONE;
        }
    }

    /// The first packet of a buffer has got a virtual channel, and may bid for the crossbar from `ready` on.
    #[inline(always)]
    fn take_channel(&mut self, id: u32, vc: u32, ready: u64) {
        let (word, bit) = self.bit(id as usize);
        let output = &mut self.virtual_channels[vc as usize];
        output.holder = id;
        self.wants_vc[word] &= !bit;
        self.wants_switch[word] |= if output.credits > 0 { bit } else { 0 };
        let buffer = &mut self.buffers[id as usize];
        (buffer.has, buffer.ready) = (vc, ready);
        self.routers[self.router_of_in[id as usize >> self.vc_bits] as usize].granted = true;
    }

    /// Whether crossbars have one input and one output a port, queues are unlimited, and neither age nor
    /// class decides.
    fn is_plain(&self) -> bool {
        let RouterModel { input_speedup, output_speedup, output_queue_flits, allocator, .. } = self.model;
        (input_speedup, output_speedup, output_queue_flits) == (1, 1, None)
            && allocator != Allocator::Age
            && self.classes.is_empty()
    }

    /// Lets flits of the first `bids` of [`Self::bids`] cross their routers. `PLAIN` is whether
    /// [`Self::is_plain`].
    fn allocate_switches<const PLAIN: bool>(&mut self, bids: usize) {
        let (is, os) = if PLAIN { (1, 1) } else { (self.model.input_speedup, self.model.output_speedup) };
        for &id in &self.bids[..bids] {
            let buffer = &self.buffers[id as usize];
            let (channel, _) = self.port_and_vc(buffer.has as usize);
            let (port, vc) = self.port_and_vc(id as usize);
            let mut output = channel as u32 * os;
            if !PLAIN {
                output += dealt(port as u32 - self.ports_of_in(port).first_in, os);
                if let Some(open) = self.output_opens(channel)
                    && open > self.now
                {
                    let state = &mut self.routers[self.router_of_in[port] as usize];
                    state.opens = open.min(state.opens);
                    continue;
                }
            }
            let input = port as u32 * is + dealt(vc, is);
            let request = AllocationRequest {
                input,
                output,
                tie: behind(vc, self.switch_next_vc[input as usize], self.vcs as u32),
                class: if PLAIN { 0 } else { class(&self.classes, &self.packets, buffer) },
                age: if PLAIN { 0 } else { age(&self.model, &self.packets, buffer) },
                tag: id,
            };
            let (input, output) = self.slots::<PLAIN>(&request);
            self.asking[input] += 1;
            self.asked[output] += 1;
            self.requests.push(request);
        }
        let (mut granted, mut requests) = (std::mem::take(&mut self.granted), std::mem::take(&mut self.requests));
        // A request that shares neither its input nor its output wins under every policy.
        let mut contended = 0;
        for index in 0..requests.len() {
            let r = requests[index];
            let (input, output) = self.slots::<PLAIN>(&r);
            if self.asking[input] == 1 && self.asked[output] == 1 {
                self.switch_next_input[r.output as usize] = r.input + 1;
                self.switch_next_output[r.input as usize] = r.output + 1;
                (self.asking[input], self.asked[output]) = (0, 0);
                self.cross::<PLAIN>(r.input, r.tag);
            } else {
                requests[contended] = r;
                contended += 1;
            }
        }
        requests.truncate(contended);
        let (next_input, next_output) = (&mut self.switch_next_input, &mut self.switch_next_output);
        granted.clear();
        let grant = |r: &AllocationRequest| granted.push((r.input, r.tag));
        let RouterModel { allocator, iterations, .. } = self.model;
        self.matching.allocate(allocator, iterations, &requests, next_input, next_output, grant);
        granted.iter().for_each(|&(input, id)| self.cross::<PLAIN>(input, id));
        for r in requests.drain(..) {
            let (input, output) = self.slots::<PLAIN>(&r);
            (self.asking[input], self.asked[output]) = (0, 0);
        }
        (self.granted, self.requests) = (granted, requests);
    }

    /// A crossbar input is granted to the first flit of a buffer.
    fn cross<const PLAIN: bool>(&mut self, input: u32, id: u32) {
        let ((port, vc), has) = (self.port_and_vc(id as usize), self.buffers[id as usize].has);
        let router = self.router_of_in[port];
        self.routers[router as usize].granted = true;
        // Output speed-up may have granted more flits than there are places.
        if !PLAIN && self.output_opens(self.port_and_vc(has as usize).0).is_some_and(|open| open > self.now) {
            return;
        }
        let next = vc + if PLAIN { 1 } else { self.model.input_speedup };
        let next = if next < self.vcs as u32 { next } else { next % self.vcs as u32 };
        self.switch_next_vc[input as usize] = next;
        self.forward(router, id as usize);
    }

    /// Where a bid for the crossbar is counted among those of its input, and for its output. Flits for one
    /// output port cross in the order of their grants, rivals last, so with output speed-up it matters who
    /// counts as one: as ever, also whose number has the same last six bits.
    fn slots<const PLAIN: bool>(&self, r: &AllocationRequest) -> (usize, usize) {
        let (is, os) = (self.model.input_speedup, self.model.output_speedup);
        if PLAIN || os == 1 {
            return (r.input as usize, r.output as usize);
        }
        let router = self.router_of_in[(r.input / is) as usize];
        let ports = self.routers[router as usize].ports;
        let slot = |local: u32| (router * 64 + local % 64) as usize;
        (slot(r.input - ports.first_in * is), slot(r.output - ports.first_out * os))
    }

    /// With output queues of finite length: the first cycle in which one takes another flit.
    fn output_opens(&self, channel: usize) -> Option<u64> {
        let room = self.model.output_queue_flits?;
        let channel = &self.channels[channel];
        // A flit granted at `t` waits from `t + 1 + traversal` on, behind those before it.
        let free = channel.free_ps.saturating_sub((room as u64).saturating_mul(channel.flit_ps).saturating_sub(1));
        Some(free.div_ceil(self.model.clock_ps).saturating_sub(1 + self.model.traversal_cycles as u64))
    }

    /// The first flit of a buffer crosses the router.
    #[inline(always)]
    fn forward(&mut self, router: u32, id: usize) {
        let (word, bit) = self.bit(id);
        let (port, vc) = self.port_and_vc(id);
        let buffer = &mut self.buffers[id];
        let (packet, has) = (buffer.packet, buffer.has as usize);
        buffer.here -= 1;
        buffer.left -= 1;
        let state = &mut self.virtual_channels[has];
        state.credits -= 1;
        let last = buffer.left == 0;
        if last {
            state.holder = NONE;
            self.routers[router as usize].vc_news = true;
            buffer.advance();
            self.wants_switch[word] &= !bit;
            if !buffer.is_empty() {
                self.route(router, id, self.now + 1);
            }
        } else {
            buffer.ready = self.now + self.model.switch_allocation_cycles as u64;
            if buffer.here == 0 || state.credits == 0 {
                self.wants_switch[word] &= !bit;
            }
        }
        self.give_back(port, vc);
        let (channel, vc) = self.port_and_vc(has);
        let ready = self.now + 1 + self.model.traversal_cycles as u64;
        self.transmit(channel as u32, packet, vc, ready, last);
    }
}
