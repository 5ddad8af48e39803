//! Routers: route computation, allocation of virtual channels and of the crossbar, traversal.

use super::allocate::{Request, after, behind};
use super::buffer::{Buffer, NONE};
use super::channel::VirtualChannel;
use super::network::{Network, Packet, Routing};
use super::wheel::Event;
use crate::system::{Allocator, RouterModel, Switching};
use std::ops::Range;

/// Ports of one router, and the words of its sets of buffers: the first of each, and how many.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) first_in: u32,
    pub(super) ins: u32,
    pub(super) first_out: u32,
    pub(super) outs: u32,
    pub(super) first_word: u32,
    pub(super) words: u32,
}

impl Ports {
    fn words(&self) -> Range<usize> {
        self.first_word as usize..(self.first_word + self.words) as usize
    }
}

/// When a router works. Its buffers, sets and pointers are in lists of the whole network.
pub(super) struct Router {
    ports: Ports,
    /// Whether a head that found no virtual channel when it last looked might find one now.
    pub(super) vc_news: bool,
    /// Cycle it was last woken for, and last worked in.
    pub(super) woken: u64,
    pub(super) worked: u64,
}

impl Router {
    pub(super) fn new(ports: Ports) -> Router {
        Router { ports, vc_news: false, woken: u64::MAX, worked: u64::MAX }
    }
}

/// A head that may get a virtual channel: its buffer, and the one it would take if nobody else wants one
/// of the port.
pub(super) struct Head {
    local: u32,
    vc: u32,
}

/// Age of the first packet of a buffer, where the allocator asks for it.
fn age(model: &RouterModel, packets: &[Packet], buffer: &Buffer) -> u64 {
    if model.allocator == Allocator::Age { packets[buffer.packet as usize].created } else { 0 }
}

/// Class of the first packet of a buffer, where there are several.
fn class(classes: &[u16], packets: &[Packet], buffer: &Buffer) -> u16 {
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

/// To which of `places` things are dealt in turn.
fn dealt(number: u32, places: u32) -> u32 {
    // Mostly there is one, and dividing takes time.
    if places == 1 { 0 } else { number % places }
}

/// The bits of a word, as numbers from `64 * index` on.
fn bits(index: usize, mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| 64 * index as u32 + word.trailing_zeros());
        word &= word.wrapping_sub(1);
        bit
    })
}

impl<R: Routing> Network<R> {
    /// Word and bit of a buffer in the sets of its router.
    pub(super) fn bit(&self, router: u32, buffer: usize) -> (usize, u64) {
        let ports = &self.routers[router as usize].ports;
        let local = buffer - ((ports.first_in as usize) << self.vc_bits);
        (ports.first_word as usize + local / 64, 1 << (local % 64))
    }

    /// Port of a buffer and its virtual channel, or channel of a virtual channel and its place there.
    pub(super) fn port_and_vc(&self, id: usize) -> (usize, u32) {
        (id >> self.vc_bits, (id & ((1 << self.vc_bits) - 1)) as u32)
    }

    pub(super) fn is_wanting(&self, router: usize) -> bool {
        self.routers[router].ports.words().any(|word| (self.wants_vc[word] | self.wants_switch[word]) != 0)
    }

    /// The packet that is now first in a buffer is routed, from cycle `from` on.
    pub(super) fn route(&mut self, router: u32, id: usize, from: u64) {
        let packet = self.buffers[id].packet;
        let state = &mut self.packets[packet as usize];
        let hop = self.routing.next(state, router);
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
        let (word, bit) = self.bit(router, id);
        self.wants_vc[word] |= bit;
        self.delayed[word] |= bit;
        self.routers[router as usize].vc_news = true;
        let buffer = &mut self.buffers[id];
        buffer.wants = match hop.link {
            Some(_) => (share(hop.class), share(hop.class + 1)),
            None => (first, first + self.vcs as u32),
        };
        buffer.left = flits;
        buffer.ready = from + self.model.routing_cycles as u64;
    }

    /// One allocation of virtual channels and of the crossbar of a router.
    pub(super) fn allocate(&mut self, router: usize) {
        let ports = self.routers[router].ports;
        let buffers = &self.buffers[(ports.first_in as usize) << self.vc_bits..];
        for (buffers, delayed) in buffers.chunks(64).zip(&mut self.delayed[ports.words()]) {
            let mut left = *delayed;
            while left != 0 {
                let lowest = left & left.wrapping_neg();
                // Whether a delay is over is hard to foresee, so there is no branch on it.
                *delayed ^= if buffers[left.trailing_zeros() as usize].ready <= self.now { lowest } else { 0 };
                left ^= lowest;
            }
        }
        // The first cycle in which an output queue that is full now has room.
        let mut opens = u64::MAX;
        let granted = self.allocate_channels(router, ports)
            + match self.is_plain() {
                true => self.allocate_switch::<true>(router, ports, &mut opens),
                false => self.allocate_switch::<false>(router, ports, &mut opens),
            };
        if granted > 0 && self.is_wanting(router) {
            self.wake_router(router as u32, self.now + 1);
        } else if granted == 0 {
            // Nothing changes until a credit or a flit comes, a queue has room, or a delay is over.
            let next = self.first_ready(ports).min(opens);
            if next < u64::MAX {
                self.wake_router(router as u32, next);
            }
        }
    }

    /// The end of the first delay of what waits in a router.
    fn first_ready(&self, ports: Ports) -> u64 {
        let buffers = &self.buffers[(ports.first_in as usize) << self.vc_bits..];
        let waiting = |(index, word)| {
            bits(index, self.delayed[word] & (self.wants_vc[word] | self.wants_switch[word]))
        };
        let ready = ports.words().enumerate().flat_map(waiting).map(|local| buffers[local as usize].ready);
        ready.min().unwrap_or(u64::MAX)
    }

    /// Gives virtual channels to heads; returns how many. Heads that alone want an output port, most
    /// of them, need no matching. O(heads x virtual channels).
    fn allocate_channels(&mut self, router: usize, ports: Ports) -> usize {
        if !std::mem::take(&mut self.routers[router].vc_news) {
            return 0;
        }
        // The router's own part of every list, so that the loops keep to it.
        let (first, first_out) = ((ports.first_in as usize) << self.vc_bits, ports.first_out << self.vc_bits);
        let (local_ins, local_outs) = ((ports.ins as usize) << self.vc_bits, (ports.outs as usize) << self.vc_bits);
        let buffers = &mut self.buffers[first..][..local_ins];
        let outputs = &mut self.virtual_channels[first_out as usize..][..local_outs];
        // Up to the last virtual channel of the last port.
        let unused = (1 << self.vc_bits) - self.vcs;
        let next_input = &mut self.vc_next_input[first_out as usize..][..local_outs - unused];
        let next_output = &mut self.vc_next_output[first..][..local_ins - unused];
        let wants_vc = &mut self.wants_vc[ports.words()];
        let wants_switch = &mut self.wants_switch[ports.words()];
        let delayed = &mut self.delayed[ports.words()];
        let cut_through = self.model.switching == Switching::CutThrough;
        let vc_bits = self.vc_bits;
        self.heads.clear();
        let mut waiting = 0;
        // Ports that heads want, and that several want, by the last six bits of their numbers.
        let (mut wanted, mut contended) = (0u64, 0u64);
        for (index, (&heads, &delayed)) in wants_vc.iter().zip(&*delayed).enumerate() {
            waiting |= heads & delayed;
            for local in bits(index, heads & !delayed) {
                let buffer = &buffers[local as usize];
                let needed = if cut_through { buffer.left } else { 0 };
                let wants = (buffer.wants.0 - first_out, buffer.wants.1 - first_out);
                if let Some(vc) = first_open(outputs, wants, next_output[local as usize], needed) {
                    let port = 1 << ((vc >> vc_bits) % 64);
                    contended |= wanted & port;
                    wanted |= port;
                    self.heads.push(Head { local, vc });
                }
            }
        }
        self.granted.clear();
        self.requests.clear();
        for &Head { local, vc } in &self.heads {
            if contended >> ((vc >> vc_bits) % 64) & 1 == 0 {
                next_input[vc as usize] = after(local, next_output.len());
                next_output[local as usize] = after(vc, next_input.len());
                self.granted.push((local, vc));
            } else {
                let buffer = &buffers[local as usize];
                let needed = if cut_through { buffer.left } else { 0 };
                let (class, age) =
                    (class(&self.classes, &self.packets, buffer), age(&self.model, &self.packets, buffer));
                let wants = buffer.wants.0 - first_out..buffer.wants.1 - first_out;
                let open = wants.filter(|&vc| outputs[vc as usize].is_open(needed));
                let request = |vc| Request { input: local, output: vc, tie: 0, class, age, tag: vc };
                self.requests.extend(open.map(request));
            }
        }
        if !self.requests.is_empty() {
            let (allocator, iterations) = (self.model.allocator, self.model.iterations);
            let grant = |r: &Request| self.granted.push((r.input, r.tag));
            self.matching.contend(allocator, iterations, &self.requests, next_input, next_output, grant);
        }
        let ready = self.now + (self.model.vc_allocation_cycles + self.model.switch_allocation_cycles - 1) as u64;
        for &(local, vc) in &self.granted {
            let (word, bit) = (local as usize / 64, 1 << (local % 64));
            let output = &mut outputs[vc as usize];
            wants_vc[word] &= !bit;
            delayed[word] |= bit;
            wants_switch[word] |= if output.credits > 0 { bit } else { 0 };
            output.holder = first as u32 + local;
            let buffer = &mut buffers[local as usize];
            (buffer.has, buffer.ready) = (first_out + vc, ready);
        }
        // Who waits or lost tries again.
        self.routers[router].vc_news |= waiting != 0 || self.granted.len() < self.heads.len();
        self.granted.len()
    }

    /// Whether crossbars have one input and one output a port, queues are unlimited, and neither age nor
    /// class decides.
    fn is_plain(&self) -> bool {
        let RouterModel { input_speedup, output_speedup, output_queue_flits, allocator, .. } = self.model;
        (input_speedup, output_speedup, output_queue_flits) == (1, 1, None)
            && allocator != Allocator::Age
            && self.classes.is_empty()
    }

    /// Lets flits cross the router; returns how many. `PLAIN` is whether [`Self::is_plain`].
    fn allocate_switch<const PLAIN: bool>(&mut self, router: usize, ports: Ports, opens: &mut u64) -> usize {
        let first = (ports.first_in as usize) << self.vc_bits;
        let (is, os) = if PLAIN { (1, 1) } else { (self.model.input_speedup, self.model.output_speedup) };
        let (first_input, first_output) = ((ports.first_in * is) as usize, (ports.first_out * os) as usize);
        let buffers = &self.buffers[first..][..(ports.ins as usize) << self.vc_bits];
        let next_vc = &self.switch_next_vc[first_input..][..(ports.ins * is) as usize];
        self.requests.clear();
        for (index, word) in ports.words().enumerate() {
            for local in bits(index, self.wants_switch[word] & !self.delayed[word]) {
                let buffer = &buffers[local as usize];
                let (channel, _) = self.port_and_vc(buffer.has as usize);
                if !PLAIN
                    && let Some(open) = self.output_opens(channel)
                    && open > self.now
                {
                    *opens = open.min(*opens);
                    continue;
                }
                let (port, vc) = self.port_and_vc(local as usize);
                let input = port as u32 * is + dealt(vc, is);
                self.requests.push(Request {
                    input,
                    output: (channel as u32 - ports.first_out) * os + dealt(port as u32, os),
                    tie: behind(vc, next_vc[input as usize], self.vcs),
                    class: if PLAIN { 0 } else { class(&self.classes, &self.packets, buffer) },
                    age: if PLAIN { 0 } else { age(&self.model, &self.packets, buffer) },
                    tag: local,
                });
            }
        }
        if self.requests.is_empty() {
            return 0;
        }
        let mut granted = std::mem::take(&mut self.granted);
        granted.clear();
        self.matching.allocate(
            self.model.allocator,
            self.model.iterations,
            &self.requests,
            &mut self.switch_next_input[first_output..][..(ports.outs * os) as usize],
            &mut self.switch_next_output[first_input..][..(ports.ins * is) as usize],
            |r| granted.push((r.input, r.tag)),
        );
        for &(input, local) in &granted {
            let id = first + local as usize;
            let ((_, vc), (channel, _)) = (self.port_and_vc(id), self.port_and_vc(self.buffers[id].has as usize));
            // Output speed-up may have granted more flits than there are places.
            if !PLAIN && self.output_opens(channel).is_some_and(|open| open > self.now) {
                continue;
            }
            let next = vc + is;
            let next = if next < self.vcs as u32 { next } else { next % self.vcs as u32 };
            self.switch_next_vc[first_input + input as usize] = next;
            let at = (ports.first_word as usize + local as usize / 64, 1 << (local % 64));
            self.forward(router as u32, id, at);
        }
        self.granted = granted;
        self.granted.len()
    }

    /// With output queues of finite length: the first cycle in which one takes another flit.
    fn output_opens(&self, channel: usize) -> Option<u64> {
        let room = self.model.output_queue_flits?;
        let channel = &self.channels[channel];
        // A flit granted at `t` waits from `t + 1 + traversal` on, behind those before it.
        let free = channel.free_ps.saturating_sub((room as u64).saturating_mul(channel.flit_ps).saturating_sub(1));
        Some(free.div_ceil(self.model.clock_ps).saturating_sub(1 + self.model.traversal_cycles as u64))
    }

    /// The first flit of a buffer, whose word and bit are given, crosses the router.
    fn forward(&mut self, router: u32, id: usize, (word, bit): (usize, u64)) {
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
            self.delayed[word] |= bit;
            if buffer.here == 0 || state.credits == 0 {
                self.wants_switch[word] &= !bit;
            }
        }
        let feeder = self.feeder[port];
        let back = self.now + self.channels[feeder as usize].credit_cycles;
        self.wheel.push(back, Event::Credit((feeder << self.vc_bits) + vc));
        let (channel, vc) = self.port_and_vc(has);
        let ready = self.now + 1 + self.model.traversal_cycles as u64;
        self.transmit(channel as u32, packet, vc, ready, last);
    }
}
