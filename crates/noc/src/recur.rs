//! The part of the network's state that decides its future, so that a driver can tell when it recurs.
//!
//! Times are written relative to a cycle up to which all is processed; idle parts are left out. So
//! are wake-ups of routers and terminals: those that are needed follow from the rest, and others
//! change nothing (`noc/tests.rs` compares with a network that is always awake).

use super::buffer::NONE;
use super::network::{FlitNetwork, FlitPacket, PacketRouting};
use super::wheel::FlitEvent;
use antiphon_model::system::Allocator;

/// Ends a list of words, none of which it is.
const END: u64 = u64::MAX;

impl<R: PacketRouting> FlitNetwork<R> {
    /// Appends all that decides what happens after cycle `now`, the last one processed or a later one. Equal words mean
    /// equal futures; `route` gives the word that stands for a packet's routing word. O(virtual channels + packets in
    /// flight).
    pub fn write_state(&self, now: u64, route: &dyn Fn(&FlitPacket) -> u32, state: &mut Vec<u64>) {
        let mut writer = Writer {
            route,
            state,
            now,
            aged: self.model.allocator == Allocator::Age,
            packets: &self.packets,
            labels: vec![NONE; self.packets.len()],
            seen: 0,
        };
        self.write_buffers(&mut writer);
        self.write_channels(&mut writer);
        self.write_terminals(&mut writer);
        writer.list(self.virtual_channels.iter().map(|vc| vc.credits), |vc| self.depth_flits(vc));
        writer.list(self.virtual_channels.iter().map(|vc| vc.holder), |_| NONE);
        self.write_pointers(&mut writer);
        let credit = |(cycle, event)| match event {
            FlitEvent::Credit(vc) => Some((cycle - now, vc as u64)),
            FlitEvent::Arrival(..) | FlitEvent::Delivery(..) | FlitEvent::Terminal(_) | FlitEvent::Router(_) => None,
        };
        let mut credits: Vec<(u64, u64)> = self.wheel.pending().filter_map(credit).collect();
        credits.sort_unstable();
        state.extend(credits.into_iter().flat_map(|(after, vc)| [after, vc]));
    }

    /// Round-robin pointers, from the first number of their router on; one past its last number is as good as
    /// the first.
    fn write_pointers(&self, writer: &mut Writer) {
        let (is, os) = (self.model.input_speedup, self.model.output_speedup);
        let (vcs, unused) = (1 << self.vc_bits, (1 << self.vc_bits) - self.vcs as u32);
        let round = |pointer: u32, first: u32, count: u32| {
            let local = pointer.saturating_sub(first);
            if local == count { 0 } else { local }
        };
        // Pointers over what input ports have, `each` a port, of what output ports have, `of` a port; and back.
        let over_ins = |writer: &mut Writer, pointers: &[u32], of: u32, each: u32, unused: u32| {
            let local = |(number, &pointer): (u32, &u32)| {
                let ports = &self.routers[self.router_of_out[(number / of) as usize] as usize].ports;
                round(pointer, ports.first_in * each, ports.ins * each - unused)
            };
            writer.list((0..).zip(pointers).map(local), |_| 0);
        };
        let over_outs = |writer: &mut Writer, pointers: &[u32], of: u32, each: u32, unused: u32| {
            let local = |(number, &pointer): (u32, &u32)| {
                let ports = &self.routers[self.router_of_in[(number / of) as usize] as usize].ports;
                round(pointer, ports.first_out * each, ports.outs * each - unused)
            };
            writer.list((0..).zip(pointers).map(local), |_| 0);
        };
        over_ins(writer, &self.vc_next_input, vcs, vcs, unused);
        over_outs(writer, &self.vc_next_output, vcs, vcs, unused);
        over_ins(writer, &self.switch_next_input, os, is, 0);
        over_outs(writer, &self.switch_next_output, is, os, 0);
        writer.list(self.switch_next_vc.iter().copied(), |_| 0);
    }

    fn write_buffers(&self, writer: &mut Writer) {
        for (id, buffer) in self.buffers.iter().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
            writer.pair(id as u32, buffer.has);
            if buffer.has == NONE {
                writer.pair(buffer.wants.0, buffer.wants.1);
            }
            writer.pair(buffer.here, buffer.left);
            writer.later(buffer.ready);
            writer.packet(buffer.packet);
            for (packet, here) in buffer.behind() {
                writer.state.push(here as u64);
                writer.packet(packet);
            }
            writer.state.push(END);
        }
        writer.state.push(END);
    }

    fn write_channels(&self, writer: &mut Writer) {
        let now_ps = writer.now * self.model.clock_ps;
        let mut flights = self.flights().into_iter().peekable();
        for (id, channel) in (0..).zip(&self.channels) {
            let busy_ps = channel.free_ps.saturating_sub(now_ps);
            if busy_ps == 0 && flights.peek().is_none_or(|flight| flight.channel != id) {
                continue;
            }
            writer.state.extend([id as u64, busy_ps]);
            while let Some(flight) = flights.next_if(|flight| flight.channel == id) {
                writer.later(flight.arrives);
                writer.state.push(flight.vc as u64);
                writer.packet(flight.packet);
            }
            writer.state.push(END);
        }
        writer.state.push(END);
    }

    fn write_terminals(&self, writer: &mut Writer) {
        for (id, terminal) in self.terminals.iter().enumerate() {
            if terminal.queue.is_empty() && terminal.current.is_none() && terminal.next_vc == 0 {
                continue;
            }
            writer.pair(id as u32, terminal.next_vc);
            if let Some((packet, left, vc)) = terminal.current {
                writer.pair(left, vc);
                writer.packet(packet);
            }
            writer.state.push(END);
            for run in &terminal.queue {
                writer.state.push(run.count);
                writer.contents(&run.packet);
            }
            writer.state.push(END);
        }
        writer.state.push(END);
    }

    /// Makes everything happen `by` cycles later, and packets others, perhaps.
    pub fn delay(&mut self, by: u64, other: impl Fn(&mut FlitPacket)) {
        // `MAX` means never.
        let later = |cycle: &mut u64| *cycle = cycle.saturating_add(by);
        let by_ps = by * self.model.clock_ps;
        self.now += by;
        self.wheel.delay(by);
        self.buffers.iter_mut().for_each(|buffer| buffer.ready += by);
        for channel in &mut self.channels {
            channel.free_ps += by_ps;
            channel.run_start_ps += by_ps;
        }
        self.routers.iter_mut().flat_map(|router| [&mut router.woken, &mut router.worked]).for_each(later);
        for terminal in &mut self.terminals {
            [&mut terminal.woken, &mut terminal.worked].into_iter().for_each(later);
        }
        let queued = self.terminals.iter_mut().flat_map(|terminal| &mut terminal.queue).map(|run| &mut run.packet);
        for packet in queued.chain(&mut self.packets) {
            packet.created += by;
            packet.injected += by;
            other(packet);
        }
    }
}

/// Words of a state.
struct Writer<'a> {
    route: &'a dyn Fn(&FlitPacket) -> u32,
    state: &'a mut Vec<u64>,
    now: u64,
    /// Whether the age of packets decides anything.
    aged: bool,
    packets: &'a [FlitPacket],
    /// Place of every packet in the order in which they are first written, which unlike its number
    /// does not depend on which numbers were free.
    labels: Vec<u32>,
    seen: u32,
}

impl Writer<'_> {
    fn pair(&mut self, high: u32, low: u32) {
        self.state.push((high as u64) << 32 | low as u64);
    }

    /// A cycle; all that are past are alike.
    fn later(&mut self, cycle: u64) {
        self.state.push(cycle.saturating_sub(self.now));
    }

    /// A packet, with its contents when it is first met.
    fn packet(&mut self, id: u32) {
        let label = &mut self.labels[id as usize];
        if *label != NONE {
            return self.state.push(*label as u64);
        }
        *label = self.seen;
        self.state.push(self.seen as u64);
        self.seen += 1;
        self.contents(&self.packets[id as usize]);
    }

    fn contents(&mut self, packet: &FlitPacket) {
        self.pair(packet.tag, packet.hops);
        self.pair(packet.destination, packet.flits);
        self.pair(packet.ejected, (self.route)(packet));
        if self.aged {
            self.state.push(packet.created.wrapping_sub(self.now));
        }
    }

    /// A list of numbers, but for those that are `idle`.
    fn list(&mut self, numbers: impl Iterator<Item = u32>, idle: impl Fn(usize) -> u32) {
        for (index, number) in numbers.enumerate().filter(|&(index, number)| number != idle(index)) {
            self.pair(index as u32, number);
        }
        self.state.push(END);
    }
}
