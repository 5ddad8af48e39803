//! Routers: route computation, allocation of virtual channels and of the crossbar, traversal.

use super::allocate::{Request, after, behind};
use super::buffer::{Buffer, NONE};
use super::network::{Network, Routing};
use super::wheel::Event;
use crate::system::{Allocator, Switching};
use std::ops::Range;

/// Ports of one router, and the words of its sets of buffers.
struct Ports {
    ins: Range<usize>,
    outs: Range<usize>,
    words: Range<usize>,
}

/// A head that may get a virtual channel: its buffer and output port (local numbers), and the credits
/// it needs.
pub(super) struct Head {
    local: u32,
    port: u32,
    needed: u32,
    class: u16,
    age: u64,
}

impl<R: Routing> Network<R> {
    /// Word and bit of a buffer in the sets of its router.
    pub(super) fn bit(&self, router: u32, buffer: usize) -> (usize, u64) {
        let local = buffer - self.in_base[router as usize] as usize * self.vcs;
        (self.words[router as usize] as usize + local / 64, 1 << (local % 64))
    }

    pub(super) fn word_range(&self, router: usize) -> Range<usize> {
        let count = ((self.in_base[router + 1] - self.in_base[router]) as usize * self.vcs).div_ceil(64);
        let first = self.words[router] as usize;
        first..first + count
    }

    pub(super) fn is_wanting(&self, router: usize) -> bool {
        self.word_range(router).any(|word| (self.wants_vc[word] | self.wants_switch[word]) != 0)
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
        let first = channel * self.vcs as u32;
        let share = |class: u32| first + class * self.vcs as u32 / hop.classes;
        let (word, bit) = self.bit(router, id);
        self.wants_vc[word] |= bit;
        self.vc_news[router as usize] = true;
        let buffer = &mut self.buffers[id];
        buffer.wants = match hop.link {
            Some(_) => (share(hop.class), share(hop.class + 1)),
            None => (first, first + self.vcs as u32),
        };
        buffer.left = flits;
        buffer.ready = from + self.model.routing_cycles as u64;
    }

    /// Age of the first packet of a buffer, where the allocator asks for it.
    fn age(&self, buffer: &Buffer) -> u64 {
        if self.model.allocator == Allocator::Age { self.packets[buffer.packet as usize].created } else { 0 }
    }

    /// Class of the first packet of a buffer, where there are several.
    fn class(&self, buffer: &Buffer) -> u16 {
        if self.classes.is_empty() { 0 } else { self.classes[self.packets[buffer.packet as usize].kind as usize] }
    }

    /// One allocation of virtual channels and of the crossbar of a router.
    pub(super) fn allocate(&mut self, router: usize) {
        let ports = Ports {
            ins: self.in_base[router] as usize..self.in_base[router + 1] as usize,
            outs: self.out_base[router] as usize..self.out_base[router + 1] as usize,
            words: self.word_range(router),
        };
        // Without a grant nothing changes until a credit or a flit comes, or a delay is over.
        let mut later = u64::MAX;
        let granted =
            self.allocate_channels(router, &ports, &mut later) + self.allocate_switch(router, &ports, &mut later);
        if granted > 0 && self.is_wanting(router) {
            later = self.now + 1;
        }
        if later < u64::MAX {
            self.wake_router(router as u32, later);
        }
    }

    /// Gives virtual channels to heads; returns how many. Heads that alone want an output port, most
    /// of them, need no matching. O(heads x virtual channels).
    fn allocate_channels(&mut self, router: usize, ports: &Ports, later: &mut u64) -> usize {
        if !std::mem::take(&mut self.vc_news[router]) {
            return 0;
        }
        let (first, first_out) = (ports.ins.start * self.vcs, ports.outs.start * self.vcs);
        let cut_through = self.model.switching == Switching::CutThrough;
        self.heads.clear();
        for word in ports.words.clone() {
            let mut bits = self.wants_vc[word];
            while bits != 0 {
                let local = (word - ports.words.start) * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let buffer = &self.buffers[first + local];
                if buffer.ready > self.now {
                    *later = buffer.ready.min(*later);
                    self.vc_news[router] = true;
                    continue;
                }
                let needed = if cut_through { buffer.left } else { 0 };
                let (class, age) = (self.class(buffer), self.age(buffer));
                let (from, to) = (buffer.wants.0 as usize, buffer.wants.1 as usize);
                if (from..to).any(|vc| self.holder[vc] == NONE && self.credits[vc] >= needed) {
                    let port = from / self.vcs - ports.outs.start;
                    self.heads.push(Head { local: local as u32, port: port as u32, needed, class, age });
                    self.heads_of_port[port] += 1;
                }
            }
        }
        let heads = std::mem::take(&mut self.heads);
        let (ins, outs) = (ports.ins.len() * self.vcs, ports.outs.len() * self.vcs);
        self.requests.clear();
        self.granted.clear();
        for head in &heads {
            let id = first + head.local as usize;
            let (from, to) = self.buffers[id].wants;
            let (holder, credits) = (&self.holder, &self.credits);
            let open = (from..to).filter(|&vc| holder[vc as usize] == NONE && credits[vc as usize] >= head.needed);
            if self.heads_of_port[head.port as usize] == 1 {
                let pointer = self.vc_next_output[id];
                let vc = open.min_by_key(|&vc| behind(vc - first_out as u32, pointer, outs)).expect("one is open");
                self.vc_next_input[vc as usize] = after(head.local, ins);
                self.vc_next_output[id] = after(vc - first_out as u32, outs);
                self.granted.push((head.local, vc));
            } else {
                let &Head { local: input, class, age, .. } = head;
                let request = |vc| Request { input, output: vc - first_out as u32, tie: 0, class, age, tag: vc };
                self.requests.extend(open.map(request));
            }
        }
        heads.iter().for_each(|head| self.heads_of_port[head.port as usize] = 0);
        self.heads = heads;
        if !self.requests.is_empty() {
            self.matching.allocate(
                self.model.allocator,
                self.model.iterations,
                &self.requests,
                &mut self.vc_next_input[first_out..first_out + outs],
                &mut self.vc_next_output[first..first + ins],
                |r| self.granted.push((r.input, r.tag)),
            );
        }
        // Who lost tries again.
        self.vc_news[router] |= self.granted.len() < self.heads.len();
        let wait = (self.model.vc_allocation_cycles + self.model.switch_allocation_cycles - 1) as u64;
        for &(local, vc) in &self.granted {
            let (word, bit) = (ports.words.start + local as usize / 64, 1 << (local % 64));
            self.wants_vc[word] &= !bit;
            if self.credits[vc as usize] > 0 {
                self.wants_switch[word] |= bit;
            }
            self.holder[vc as usize] = (first + local as usize) as u32;
            let buffer = &mut self.buffers[first + local as usize];
            buffer.has = vc;
            buffer.ready = self.now + wait;
        }
        self.granted.len()
    }

    /// Lets flits cross the router; returns how many.
    fn allocate_switch(&mut self, router: usize, ports: &Ports, later: &mut u64) -> usize {
        let (first, ins, outs) = (ports.ins.start * self.vcs, &ports.ins, &ports.outs);
        self.requests.clear();
        let (is, os) = (self.model.input_speedup, self.model.output_speedup);
        for word in ports.words.clone() {
            let mut bits = self.wants_switch[word];
            while bits != 0 {
                let local = (word - ports.words.start) * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let buffer = &self.buffers[first + local];
                if buffer.ready > self.now {
                    *later = buffer.ready.min(*later);
                    continue;
                }
                let has = buffer.has as usize;
                let channel = has / self.vcs;
                if let Some(open) = self.output_opens(channel)
                    && open > self.now
                {
                    *later = open.min(*later);
                    continue;
                }
                let (port, vc) = ((local / self.vcs) as u32, (local % self.vcs) as u32);
                let input = port * is + vc % is;
                let pointer = self.switch_next_vc[ins.start * is as usize + input as usize];
                self.requests.push(Request {
                    input,
                    output: (channel - outs.start) as u32 * os + port % os,
                    tie: if vc >= pointer { vc - pointer } else { vc + self.vcs as u32 - pointer },
                    class: self.class(buffer),
                    age: self.age(buffer),
                    tag: local as u32,
                });
            }
        }
        let mut granted = std::mem::take(&mut self.granted);
        granted.clear();
        if !self.requests.is_empty() {
            self.matching.allocate(
                self.model.allocator,
                self.model.iterations,
                &self.requests,
                &mut self.switch_next_input[outs.start * os as usize..outs.end * os as usize],
                &mut self.switch_next_output[ins.start * is as usize..ins.end * is as usize],
                |r| granted.push((r.input, r.tag)),
            );
        }
        for &(input, local) in &granted {
            let (vc, id) = (local % self.vcs as u32, first + local as usize);
            // Output speed-up may have granted more flits than there are places.
            if self.output_opens(self.buffers[id].has as usize / self.vcs).is_some_and(|open| open > self.now) {
                continue;
            }
            self.switch_next_vc[ins.start * is as usize + input as usize] = (vc + is) % self.vcs as u32;
            self.forward(router as u32, id);
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

    /// The first flit of a buffer crosses the router.
    fn forward(&mut self, router: u32, id: usize) {
        let port = id / self.vcs;
        let (word, bit) = self.bit(router, id);
        let buffer = &mut self.buffers[id];
        let (packet, has) = (buffer.packet, buffer.has);
        buffer.here -= 1;
        buffer.left -= 1;
        self.credits[has as usize] -= 1;
        let last = buffer.left == 0;
        if last {
            self.holder[has as usize] = NONE;
            self.vc_news[router as usize] = true;
            buffer.advance();
            self.wants_switch[word] &= !bit;
            if !buffer.is_empty() {
                self.route(router, id, self.now + 1);
            }
        } else {
            buffer.ready = self.now + self.model.switch_allocation_cycles as u64;
            if buffer.here == 0 || self.credits[has as usize] == 0 {
                self.wants_switch[word] &= !bit;
            }
        }
        let feeder = self.feeder[port];
        let back = self.now + self.channels[feeder as usize].credit_cycles;
        self.wheel.push(back, Event::Credit(feeder * self.vcs as u32 + (id % self.vcs) as u32));
        let ready = (self.now + 1 + self.model.traversal_cycles as u64) * self.model.clock_ps;
        self.transmit(has / self.vcs as u32, packet, has % self.vcs as u32, ready, last);
    }
}
