//! Why nothing moves: the cycle of buffers that wait for each other.

use super::buffer::NONE;
use super::network::{FlitNetwork, PacketRouting};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::Switching;

/// The wait of a buffer's first packet.
enum BufferWait {
    /// For nothing, or for something that is on its way.
    Passing,
    /// For the first packet of one of these buffers to move.
    For(Vec<usize>),
}

impl<R: PacketRouting> FlitNetwork<R> {
    /// A cycle of buffers that wait for each other for ever, in words, whatever else still moves;
    /// `None` if there is none. O(buffers x longest chain of waits).
    pub fn deadlock(&self, fabric: &Fabric) -> Option<String> {
        let (buffer_of, carries) = (self.buffers_of_channels(), self.carrying_channels());
        let mut waits: Vec<(usize, Vec<usize>)> = vec![];
        let mut stuck = vec![false; self.buffers.len()];
        for id in (0..self.buffers.len()).filter(|&id| !self.buffers[id].is_empty()) {
            if let BufferWait::For(others) = self.waits_for(id, &buffer_of, &carries) {
                stuck[id] = true;
                waits.push((id, others));
            }
        }
        // A buffer that waits for a moving one will move; those left never do.
        loop {
            let before = waits.len();
            waits.retain(|(id, others)| {
                stuck[*id] = others.iter().all(|&other| stuck[other]);
                stuck[*id]
            });
            if waits.len() == before {
                break;
            }
        }
        let next = |at: usize| waits.binary_search_by_key(&at, |(id, _)| *id).ok().and_then(|i| waits[i].1.first());
        let mut at = waits.first()?.0;
        let mut path: Vec<usize> = vec![];
        while !path.contains(&at) {
            path.push(at);
            at = *next(at)?;
        }
        let start = path.iter().position(|&id| id == at)?;
        let cycle: Vec<String> = path[start..].iter().map(|&id| self.name(fabric, id)).collect();
        let shown = cycle.iter().take(12).cloned().collect::<Vec<_>>().join(" waits for ");
        let rest = if cycle.len() > 12 { format!(" waits for ... ({} buffers)", cycle.len()) } else { String::new() };
        Some(format!("{shown}{rest} waits for {}", cycle[0]))
    }

    /// First buffer at the end of every channel; `None` for ejection channels.
    fn buffers_of_channels(&self) -> Vec<Option<usize>> {
        let mut buffers = vec![None; self.channels.len()];
        for (port, feeder) in self.feeder.iter().enumerate() {
            buffers[feeder.channel as usize] = Some(port << self.vc_bits);
        }
        buffers
    }

    /// Whether flits are on each channel.
    fn carrying_channels(&self) -> Vec<bool> {
        let mut carries = vec![false; self.channels.len()];
        self.flights().iter().for_each(|flight| carries[flight.channel as usize] = true);
        carries
    }

    /// What the first packet of a buffer that is not empty waits for.
    fn waits_for(&self, id: usize, buffer_of: &[Option<usize>], carries: &[bool]) -> BufferWait {
        let buffer = &self.buffers[id];
        if buffer.has != NONE && buffer.here == 0 {
            // Flits that are still behind: on the channel, or in the buffer before.
            let (port, vc) = self.port_and_vc(id);
            let channel = self.feeder[port].channel;
            let holder = self.holder_at_router((channel << self.vc_bits) + vc);
            return match holder {
                Some(holder) if !carries[channel as usize] => BufferWait::For(vec![holder]),
                _ => BufferWait::Passing,
            };
        }
        let (vcs, needed) = match buffer.has {
            NONE if self.model.switching == Switching::CutThrough => (buffer.wants.0..buffer.wants.1, buffer.left),
            NONE => (buffer.wants.0..buffer.wants.1, 0),
            has => (has..has + 1, 1),
        };
        let mut others = vec![];
        for vc in vcs {
            let (channel, lane) = self.port_and_vc(vc as usize);
            let holder = self.holder_at_router(vc).filter(|&holder| holder != id);
            let Some(first) = buffer_of[channel] else {
                // The terminal takes everything; only its virtual channel may be another packet's.
                match holder {
                    Some(holder) => others.push(holder),
                    None => return BufferWait::Passing,
                }
                continue;
            };
            let next = &self.buffers[first + lane as usize];
            let coming = carries[channel]
                || self.virtual_channels[vc as usize].credits + next.flits() < self.depth_flits(vc as usize);
            match holder {
                Some(holder) => others.push(holder),
                None if self.virtual_channels[vc as usize].credits >= needed || coming || next.is_empty() => {
                    return BufferWait::Passing;
                }
                None => others.push(first + lane as usize),
            }
        }
        BufferWait::For(others)
    }

    /// The buffer whose first packet has a virtual channel, unless a terminal's has.
    fn holder_at_router(&self, vc: u32) -> Option<usize> {
        let at_router = (vc as usize) < self.router_of_out.len() << self.vc_bits;
        let holder = self.virtual_channels[vc as usize].holder;
        (at_router && holder != NONE).then_some(holder as usize)
    }

    fn name(&self, fabric: &Fabric, id: usize) -> String {
        let (port, vc) = self.port_and_vc(id);
        let channel = self.feeder[port].channel as usize;
        match self.channels[channel].link {
            Some(link) => {
                let link = fabric.link(link);
                let name = |node: u32| &fabric.nodes[node as usize].name;
                format!("link {}->{} vc {vc}", name(link.from), name(link.to))
            }
            None => format!("terminal {} vc {vc}", channel - self.router_of_out.len()),
        }
    }
}
