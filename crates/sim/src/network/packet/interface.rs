//! Network interfaces: queues of messages in front of the links of one node.

use super::{Endpoints, Flow, Tail};
use antiphon_model::fabric::LinkId;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A message, or what is left of it, in an interface.
#[derive(Clone, Copy)]
pub struct InterfaceMessage {
    /// Its packets on the first link of their route.
    pub flow: Flow,
    /// Its chunk.
    pub tail: Tail,
    /// That link.
    pub first: LinkId,
    /// Packets not yet sent.
    pub packets_left: u64,
    /// How it was dealt to channels: packets for each, and one more for so many from channel `start` on.
    each: u64,
    more: u32,
    start: u32,
}

impl InterfaceMessage {
    /// One of which nothing was sent.
    pub fn new(flow: Flow, tail: Tail, first: LinkId, packets: u64) -> Self {
        InterfaceMessage { flow, tail, first, packets_left: packets, each: 0, more: 0, start: 0 }
    }

    /// Packets that one of `count` channels got.
    fn share(&self, channel: usize, count: usize) -> u64 {
        let (channel, start) = (channel as u32, self.start);
        let turn = if channel < start { channel + count as u32 - start } else { channel - start };
        self.each + u64::from(turn < self.more)
    }
}

/// A virtual channel: a FIFO of what messages have dealt to it. All but its head follows from the messages.
#[derive(Clone, Copy, Default)]
pub struct Channel {
    /// The message at its head.
    pub number: u64,
    /// Its packets left here; none where nothing waits.
    pub packets: u64,
    /// First link of their route.
    pub link: LinkId,
}

/// A network interface. While all its messages leave over one link it is a plain FIFO. Otherwise
/// it is *mixed*: packets are dealt round robin to virtual channels, each a FIFO, so a packet only
/// waits for the packets before it in its own channel.
#[derive(Default)]
pub struct PacketInterface {
    /// Messages not fully sent, in order; when mixed, finished ones may stay behind the front.
    pub queue: VecDeque<InterfaceMessage>,
    /// Number of messages that have left the front of `queue`.
    pub gone: u64,
    /// Packets not yet sent.
    pub backlog: u64,
    /// Virtual channels; none unless mixed.
    pub channels: SmallVec<[Channel; 4]>,
    /// Channel that gets the next packet.
    next_channel: u32,
    /// When mixed: links asked for, each once.
    pub asked: SmallVec<[LinkId; 4]>,
}

impl PacketInterface {
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
    pub fn message(&mut self, number: u64) -> &mut InterfaceMessage {
        let index = (number - self.gone) as usize;
        &mut self.queue[index]
    }

    /// Deals `packets` packets of a message to the channels.
    pub fn deal(&mut self, number: u64, packets: u64) {
        let (count, start) = (self.channels.len(), self.next_channel);
        let (each, more) = (packets / count as u64, (packets % count as u64) as u32);
        let message = self.message(number);
        (message.each, message.more, message.start) = (each, more, start);
        let message = *message;
        for (index, channel) in self.channels.iter_mut().enumerate().filter(|(_, channel)| channel.packets == 0) {
            *channel = Channel { number, packets: message.share(index, count), link: message.first };
        }
        self.next_channel = (start + more) % count as u32;
    }

    /// What is in a channel: messages by number, and packets of each.
    fn waiting(&self, index: usize) -> impl Iterator<Item = (u64, &InterfaceMessage, u64)> {
        let Channel { number, packets, .. } = self.channels[index];
        let first = if packets > 0 { (number - self.gone) as usize } else { self.queue.len() };
        let messages = (number..).zip(self.queue.range(first..));
        let share = move |message: &InterfaceMessage| message.share(index, self.channels.len());
        let all = messages.map(move |(of, message)| (of, message, if of == number { packets } else { share(message) }));
        all.filter(|&(.., packets)| packets > 0)
    }

    /// The channel whose head is the oldest message that leaves over `link`.
    #[inline]
    pub fn channel_for(&self, link: LinkId) -> Option<usize> {
        let heads = (0..).zip(&self.channels).filter(|(_, head)| head.packets > 0 && head.link == link);
        heads.map(|(index, head)| (head.number, index)).min().map(|(_, index)| index)
    }

    /// Takes packets of the message at the head of a channel.
    pub fn take_from(&mut self, index: usize, packets: u64) {
        let head = &mut self.channels[index];
        head.packets -= packets;
        if head.packets == 0 {
            let number = head.number;
            self.channels[index] = self.head_after(index, number);
        }
    }

    /// The next head of a channel after a message.
    fn head_after(&self, index: usize, number: u64) -> Channel {
        let first = (number + 1 - self.gone) as usize;
        let messages = (number + 1..).zip(self.queue.range(first..));
        let mut heads = messages.map(|(number, message)| Channel {
            number,
            packets: message.share(index, self.channels.len()),
            link: message.first,
        });
        heads.find(|head| head.packets > 0).unwrap_or_default()
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

    /// Whether it is mixed only until the next packet has left.
    pub fn unmixes(&self) -> bool {
        self.asked.len() == 1 && self.single_link().is_some()
    }

    /// Appends what decides its future.
    pub fn write_state(&self, endpoints: &Endpoints, state: &mut Vec<u64>) {
        state.push((self.queue.len() as u64) << 32 | (self.asked.len() as u64) << 16 | self.channels.len() as u64);
        for message in &self.queue {
            let which = message.flow.word_of(Some(message.tail), endpoints);
            state.extend([(message.flow.transfer as u64) << 32 | message.first as u64, which, message.packets_left]);
        }
        for channel in 0..self.channels.len() {
            state.push(self.waiting(channel).count() as u64);
            self.waiting(channel).for_each(|(number, _, packets)| state.extend([number - self.gone, packets]));
        }
        state.push(self.next_channel.into());
        state.extend(self.asked.iter().map(|&link| link as u64));
    }
}
