//! Terminals: one flit a cycle into a free virtual channel, taken round robin.

use super::allocate::after;
use super::buffer::NONE;
use super::network::{FlitNetwork, FlitPacket, PacketRouting};
use antiphon_model::system::Switching;

impl<R: PacketRouting> FlitNetwork<R> {
    /// Sends one flit of a terminal, if it has one and there is room for it.
    pub(super) fn inject(&mut self, terminal: u32) {
        let channel = (self.router_of_out.len() + terminal as usize) as u32;
        let first = (channel as usize) << self.vc_bits;
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
                let next = state.next_vc as usize;
                let mut turn = (next..self.vcs).chain(0..next);
                let open = turn.find(|v| self.virtual_channels[first + v].is_open(needed));
                let Some(vc) = open else { return };
                state.next_vc = after(vc as u32, self.vcs);
                self.virtual_channels[first + vc].holder = terminal;
                run.count -= 1;
                let packet = FlitPacket { injected: self.now, ..run.packet };
                if run.count == 0 {
                    state.queue.pop_front();
                }
                (self.enter(packet), packet.flits, vc as u32)
            }
        };
        let state = &mut self.terminals[terminal as usize];
        let at = &mut self.virtual_channels[first + vc as usize];
        if at.credits == 0 {
            state.current = Some((id, left, vc));
            return;
        }
        at.credits -= 1;
        state.current = (left > 1).then_some((id, left - 1, vc));
        if left == 1 {
            at.holder = NONE;
            state.backlog -= 1;
            let FlitPacket { tag, route, .. } = self.packets[id as usize];
            self.departed.push((terminal, tag, route));
        }
        if state.current.is_some() || !state.queue.is_empty() {
            self.wake_terminal(terminal, self.now + 1);
        }
        self.transmit(channel, id, vc, self.now + 1, left == 1);
    }
}
