//! Network interfaces: queues of messages in front of the links of one node.

use super::service::Flow;
use crate::fabric::LinkId;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A message, or what is left of it, in an interface.
#[derive(Clone, Copy)]
pub struct Message {
    /// Its packets on the first link of their route.
    pub flow: Flow,
    /// That link.
    pub first: LinkId,
    /// Packets not yet sent.
    pub packets_left: u64,
}

/// Packets of one message in a virtual channel.
#[derive(Clone, Copy)]
pub struct Dealt {
    /// Number of the message.
    pub number: u64,
    /// How many.
    pub packets: u64,
    /// First link of their route.
    pub link: LinkId,
}

/// A virtual channel: a FIFO, whose head every packet of the interface looks at.
#[derive(Clone, Default)]
pub struct Channel {
    pub head: Option<Dealt>,
    behind: VecDeque<Dealt>,
}

impl Channel {
    fn push(&mut self, dealt: Dealt) {
        match self.head {
            None => self.head = Some(dealt),
            Some(_) => self.behind.push_back(dealt),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Dealt> {
        self.head.iter().chain(&self.behind)
    }
}

/// A network interface. While all its messages leave over one link it is a plain FIFO. Otherwise
/// it is *mixed*: packets are dealt round robin to virtual channels, each a FIFO, so a packet only
/// waits for the packets before it in its own channel.
#[derive(Default)]
pub struct Interface {
    /// Messages not fully sent, in order; when mixed, finished ones may stay behind the front.
    pub queue: VecDeque<Message>,
    /// Number of messages that have left the front of `queue`.
    pub gone: u64,
    /// Packets not yet sent.
    pub backlog: u64,
    /// Virtual channels; none unless mixed.
    pub channels: Vec<Channel>,
    /// Channel that gets the next packet.
    next_channel: usize,
    /// When mixed: links asked for, each once.
    pub asked: SmallVec<[LinkId; 4]>,
}

impl Interface {
    /// Whether packets are in virtual channels.
    pub fn is_mixed(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Makes it a plain FIFO again.
    pub fn unmix(&mut self) {
        self.channels.clear();
        self.next_channel = 0;
        self.queue.retain(|m| m.packets_left > 0);
    }

    /// The message with a number.
    pub fn message(&mut self, number: u64) -> &mut Message {
        let index = (number - self.gone) as usize;
        &mut self.queue[index]
    }

    /// Deals `packets` packets of a message to the channels.
    pub fn deal(&mut self, number: u64, packets: u64) {
        let count = self.channels.len() as u64;
        let link = self.message(number).first;
        for i in 0..count.min(packets) {
            let packets = packets / count + u64::from(i < packets % count);
            let channel = (self.next_channel + i as usize) % self.channels.len();
            self.channels[channel].push(Dealt { number, packets, link });
        }
        self.next_channel = (self.next_channel + (packets % count) as usize) % self.channels.len();
    }

    /// The channel whose head is the oldest message that leaves over `link`.
    pub fn channel_for(&self, link: LinkId) -> Option<usize> {
        let heads = self.channels.iter().enumerate().filter_map(|(i, channel)| Some((channel.head?, i)));
        heads.filter(|(head, _)| head.link == link).map(|(head, i)| (head.number, i)).min().map(|(_, i)| i)
    }

    /// Takes a packet from a channel; returns the number of its message.
    pub fn take_from(&mut self, channel: usize) -> u64 {
        let Channel { head, behind } = &mut self.channels[channel];
        let dealt = head.as_mut().expect("served from this channel");
        dealt.packets -= 1;
        let number = dealt.number;
        if dealt.packets == 0 {
            *head = behind.pop_front();
        }
        number
    }

    /// Drops finished messages from the front.
    pub fn trim(&mut self) {
        while self.queue.front().is_some_and(|m| m.packets_left == 0) {
            self.queue.pop_front();
            self.gone += 1;
        }
    }

    /// The only link its unfinished messages leave over, if there is only one.
    pub fn single_link(&self) -> Option<LinkId> {
        let mut links = self.queue.iter().filter(|m| m.packets_left > 0).map(|m| m.first);
        let first = links.next()?;
        links.all(|link| link == first).then_some(first)
    }

    /// Appends what decides its future.
    pub fn write_state(&self, state: &mut Vec<u64>) {
        state.push((self.queue.len() as u64) << 32 | (self.asked.len() as u64) << 16 | self.channels.len() as u64);
        for message in &self.queue {
            state.extend([(message.flow.transfer as u64) << 32 | message.first as u64, message.packets_left]);
        }
        for channel in &self.channels {
            state.push(channel.iter().count() as u64);
            channel.iter().for_each(|dealt| state.extend([dealt.number - self.gone, dealt.packets]));
        }
        state.push(self.next_channel as u64);
        state.extend(self.asked.iter().map(|&link| link as u64));
    }
}
