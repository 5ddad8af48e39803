//! Channels, their two ends, and signals through them.

use super::{ChannelEnds, ChannelKind, PlanLowering, ThreadResource, Wire, WireEnds};
use crate::mscclpp::model::{MscclppPlan, PlanBlock};
use crate::{bad, fail};
use antiphon_base::error::{Code, Result};
use std::collections::HashMap;

impl PlanLowering<'_> {
    /// The number at its GPU of a channel of a thread block, through which a thread sends, or at which it waits.
    pub(super) fn channel(
        &mut self,
        block: &PlanBlock,
        way: ChannelKind,
        id: u32,
        thread: usize,
        waits: bool,
    ) -> Result<u32> {
        let own = block.channels.iter().filter(|channels| channels.channel_type == way.name());
        let mut own = own.flat_map(|channels| &channels.channel_ids);
        let Some(&channel) = own.nth(id as usize) else {
            return bad(format!("no {} channel {id} in its thread block", way.name()));
        };
        let gpu = self.at.0;
        if channel as usize >= self.channels[&(gpu, way)].len() {
            return bad(format!("no {} channel {channel} on gpu {gpu}", way.name()));
        }
        let user = *self.users.entry((gpu, way, channel, waits)).or_insert(block.id);
        if user != block.id {
            let what = format!(
                "thread block {user} {} {} channel {channel} of gpu {gpu} too: whose signals come first is not known",
                if waits { "waits at" } else { "sends through" },
                way.name()
            );
            return fail(Code::NotApplicable, what);
        }
        self.used_by(ThreadResource::Channel(way), channel, waits, thread)?;
        Ok(channel)
    }

    /// The wire of a port channel, which must lead to a peer.
    pub(super) fn port(&mut self, channel: u32, peer: u32) -> Result<WireEnds> {
        let (connected, _) = self.channels[&(self.at.0, ChannelKind::Port)][channel as usize];
        if connected != peer {
            return bad(format!("port channel {channel} leads to gpu {connected}, the buffer is of gpu {peer}"));
        }
        Ok(self.wire(Wire::Port(channel), peer))
    }

    pub(super) fn signal(&mut self, way: ChannelKind, channel: u32, relaxed: bool) -> Result<()> {
        let (peer, other) = self.channels[&(self.at.0, way)][channel as usize];
        let Some(other) = other else {
            let what = format!("{} channel {channel} to gpu {peer} has no other end there that could wait", way.name());
            return fail(Code::NotProven, what);
        };
        let ends = match way {
            ChannelKind::Memory => self.wire(Wire::Signal(channel), peer),
            ChannelKind::Port => self.wire(Wire::Port(channel), peer),
        };
        let after = self.wait(None);
        let receipt = self.notify(ends, after);
        self.signals.entry((peer, way, other)).or_default().0.push((receipt, relaxed));
        Ok(())
    }

    /// Waits for all that has been put into a port channel.
    pub(super) fn flush(&mut self, way: ChannelKind, channel: u32) -> Result<()> {
        let (gpu, block, ..) = self.at;
        if way != ChannelKind::Port {
            return bad("only port channels are flushed");
        }
        let Some(&ends) = self.wires.get(&(gpu, block, Wire::Port(channel))) else { return Ok(()) };
        let done = self.acknowledge(ends);
        self.wait(Some(done));
        Ok(())
    }
}

/// By GPU and kind: the peer of every channel, and which of its channels there is the other end.
pub(super) fn ends(plan: &MscclppPlan) -> Result<ChannelEnds> {
    let mut lists = ChannelEnds::new();
    // By GPU, kind and peer: its channels in order.
    let mut by_peer: HashMap<(u32, ChannelKind, u32), Vec<u32>> = HashMap::new();
    for gpu in &plan.gpus {
        for way in ChannelKind::ALL {
            let list = lists.entry((gpu.id, way)).or_default();
            let of_kind = gpu.channels.iter().filter(|channels| channels.channel_type == way.name());
            for &peer in of_kind.flat_map(|channels| &channels.connected_to) {
                if peer == gpu.id || peer as usize >= plan.gpus.len() {
                    return bad(format!("gpu {}: a {} channel is connected to gpu {peer}", gpu.id, way.name()));
                }
                by_peer.entry((gpu.id, way, peer)).or_default().push(list.len() as u32);
                list.push((peer, None));
            }
        }
    }
    for (&(gpu, way, peer), own) in &by_peer {
        let Some(others) = by_peer.get(&(peer, way, gpu)) else { continue };
        for (&channel, &other) in own.iter().zip(others) {
            lists.get_mut(&(gpu, way)).expect("it was made above")[channel as usize].1 = Some(other);
        }
    }
    Ok(lists)
}
