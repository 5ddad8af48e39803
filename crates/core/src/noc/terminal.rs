//! Terminals: one flit a cycle into a free virtual channel, taken round robin.

use super::buffer::NONE;
use super::network::{Network, Packet, Routing};
use crate::system::Switching;

impl<R: Routing> Network<R> {
    /// Sends one flit of a terminal, if it has one and there is room for it.
    pub(super) fn inject(&mut self, terminal: u32) {
        let channel = (self.router_of_out.len() + terminal as usize) as u32;
        let first = channel as usize * self.vcs;
        let state = &mut self.terminals[terminal as usize];
        if std::mem::replace(&mut state.worked, self.now) == self.now {
            return;
        }
        let (id, left, vc) = match state.current {
            Some(current) => current,
            None => {
                let Some(run) = state.queue.front_mut() else { return };
                let needed = match self.model.switching {
                    Switching::Wormhole => 1,
                    Switching::CutThrough => run.packet.flits,
                };
                let turn = (0..self.vcs).map(|i| (state.next_vc as usize + i) % self.vcs);
                let mut open = turn.filter(|v| self.holder[first + v] == NONE && self.credits[first + v] >= needed);
                let Some(vc) = open.next() else { return };
                state.next_vc = ((vc + 1) % self.vcs) as u32;
                self.holder[first + vc] = terminal;
                run.count -= 1;
                let packet = Packet { injected: self.now, ..run.packet };
                if run.count == 0 {
                    state.queue.pop_front();
                }
                self.in_flight += 1;
                let id = self.free.pop().unwrap_or_else(|| {
                    self.packets.push(packet);
                    self.packets.len() as u32 - 1
                });
                self.packets[id as usize] = packet;
                (id, packet.flits, vc as u32)
            }
        };
        let at = first + vc as usize;
        if self.credits[at] == 0 {
            state.current = Some((id, left, vc));
            return;
        }
        self.credits[at] -= 1;
        state.current = (left > 1).then_some((id, left - 1, vc));
        if left == 1 {
            self.holder[at] = NONE;
            state.backlog -= 1;
            self.departed.push((terminal, self.packets[id as usize].tag));
        }
        if state.current.is_some() || !state.queue.is_empty() {
            self.wake_terminal(terminal, self.now + 1);
        }
        self.transmit(channel, id, vc, (self.now + 1) * self.model.clock_ps, left == 1);
    }
}
