//! Why nothing moves: the cycle of buffers that wait for each other.

use super::buffer::NONE;
use super::network::{Network, Routing};
use crate::fabric::Fabric;

impl<R: Routing> Network<R> {
    /// The cycle of waiting buffers of a network in which nothing can move any more, in words;
    /// `None` if nothing waits. O(buffers).
    pub fn deadlock(&self, fabric: &Fabric) -> Option<String> {
        let mut at = (0..self.buffers.len()).find(|&id| !self.buffers[id].is_empty())?;
        let mut path: Vec<usize> = vec![];
        while !path.contains(&at) {
            path.push(at);
            at = self.waits_for(at)?;
        }
        let start = path.iter().position(|&id| id == at)?;
        let cycle: Vec<String> = path[start..].iter().map(|&id| self.name(fabric, id)).collect();
        let shown = cycle.iter().take(12).cloned().collect::<Vec<_>>().join(" waits for ");
        let rest = if cycle.len() > 12 { format!(" waits for ... ({} buffers)", cycle.len()) } else { String::new() };
        Some(format!("{shown}{rest} waits for {}", cycle[0]))
    }

    /// A buffer whose first packet has to move before that of `id` can.
    fn waits_for(&self, id: usize) -> Option<usize> {
        let buffer = &self.buffers[id];
        if buffer.is_empty() {
            return None;
        }
        let port = id / self.vcs;
        let downstream = |vc: u32| -> Option<usize> {
            let channel = vc as usize / self.vcs;
            let port = self.feeder.iter().position(|&feeder| feeder as usize == channel)?;
            Some(port * self.vcs + vc as usize % self.vcs)
        };
        match buffer.has {
            // Flits that are still behind.
            has if has != NONE && buffer.here == 0 => {
                let vc = self.feeder[port] * self.vcs as u32 + (id % self.vcs) as u32;
                self.holder_at_router(vc)
            }
            vc if vc != NONE => downstream(vc),
            _ => (buffer.wants.0..buffer.wants.1).find_map(|vc| self.holder_at_router(vc).or_else(|| downstream(vc))),
        }
    }

    /// The buffer whose first packet has a virtual channel, unless a terminal's has.
    fn holder_at_router(&self, vc: u32) -> Option<usize> {
        let at_router = (vc as usize) < self.router_of_out.len() * self.vcs;
        let holder = self.holder[vc as usize];
        (at_router && holder != NONE).then_some(holder as usize)
    }

    fn name(&self, fabric: &Fabric, id: usize) -> String {
        let channel = self.feeder[id / self.vcs] as usize;
        let vc = id % self.vcs;
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
