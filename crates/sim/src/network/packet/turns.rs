//! Inputs of links that take turns: the links before, and the interfaces of the node.
//!
//! Each has a FIFO. A run of packets that waited ends where another input wants the link: the rest waits again.

use super::link::{LinkRequest, append};
use super::service::{PacketService, PacketSource};
use super::{Endpoints, Flow, Packet, Tail};
use antiphon_model::fabric::LinkId;
use std::collections::VecDeque;

/// The inputs of a link.
#[derive(Clone, Default)]
pub struct Inputs {
    /// That of which it sent last.
    last: u32,
    /// Packets of its service that waited when it began, the first ones.
    waited: u64,
    /// What waits, by number of the input; of flights that go first, in front.
    queues: Vec<(u32, VecDeque<LinkRequest>)>,
}

impl Inputs {
    fn queue(&mut self, input: u32) -> &mut VecDeque<LinkRequest> {
        let place = self.queues.iter().position(|&(number, _)| number == input).unwrap_or_else(|| {
            self.queues.push((input, VecDeque::new()));
            self.queues.len() - 1
        });
        &mut self.queues[place].1
    }

    /// All requests that wait.
    pub fn requests(&mut self) -> impl Iterator<Item = &mut LinkRequest> {
        self.queues.iter_mut().flat_map(|(_, queue)| queue)
    }

    /// Of what decides the future: turns, and all that waits.
    pub fn write_state(&self, endpoints: &Endpoints, state: &mut Vec<u64>) {
        state.extend([self.last.into(), self.waited]);
        for (input, queue) in &self.queues {
            state.push(u64::from(*input) << 32 | queue.len() as u64);
            queue.iter().for_each(|&request| state.extend(request.words(endpoints)));
        }
    }
}

impl Packet<'_> {
    /// See [`Inputs::waited`]; none where inputs do not take turns.
    pub fn waited(&self, link: LinkId) -> u64 {
        self.turns.as_ref().map_or(0, |turns| turns[link as usize].waited)
    }

    /// A service has so many packets that waited when it began.
    pub fn set_waited(&mut self, link: LinkId, packets: u64) {
        if let Some(turns) = &mut self.turns {
            turns[link as usize].waited = packets;
        }
    }

    /// Of the packets that waited when a service began only the first `keep` are sent; `last` is the message that ends with
    /// the last of them. The others are in front again.
    pub fn wait_again(&mut self, link: LinkId, flow: Flow, keep: u64, last: Option<Tail>) {
        let count = (self.waited(link) - keep) as u32;
        self.set_waited(link, keep);
        self.put_back(link, LinkRequest::Transit { flow, count, last });
    }

    /// Number of the input of a request: its link, or after those its interface.
    fn input(&self, request: &LinkRequest) -> u32 {
        match *request {
            LinkRequest::Interface(id) => self.links.len() as u32 + id,
            LinkRequest::Transit { flow, .. } => self.hops.before(flow),
        }
    }

    /// What waits for a link, of an input that takes turns or of all.
    fn queue_of(&mut self, link: LinkId, request: &LinkRequest) -> &mut VecDeque<LinkRequest> {
        let input = self.input(request);
        match &mut self.turns {
            Some(turns) => turns[link as usize].queue(input),
            None => &mut self.links[link as usize].waiting,
        }
    }

    /// Whether anything waits for a link.
    pub fn is_wanted(&self, link: LinkId) -> bool {
        match &self.turns {
            Some(turns) => turns[link as usize].queues.iter().any(|(_, queue)| !queue.is_empty()),
            None => !self.links[link as usize].waiting.is_empty(),
        }
    }

    /// A request keeps its place at the front.
    pub fn put_back(&mut self, link: LinkId, request: LinkRequest) {
        self.queue_of(link, &request).push_front(request);
    }

    /// Queues a request behind those of its input, and of flights that go first.
    pub fn queue_by_input(&mut self, link: LinkId, request: LinkRequest) {
        let shared = self.ranking.is_shared(link).then(|| self.rank(&request));
        let mut queue = std::mem::take(self.queue_of(link, &request));
        let behind = shared.map_or(0, |own| queue.iter().rev().take_while(|other| self.rank(other) > own).count());
        match behind {
            0 => append(&mut queue, request),
            _ => queue.insert(queue.len() - behind, request),
        }
        *self.queue_of(link, &request) = queue;
    }

    /// Takes what a link sends next from those that wait: of the flight that goes first, the input whose turn it is.
    pub fn next_request(&mut self, link: LinkId) -> Option<LinkRequest> {
        let Some(turns) = &self.turns else { return self.links[link as usize].waiting.pop_front() };
        let (shared, Inputs { last, queues, .. }) = (self.ranking.is_shared(link), &turns[link as usize]);
        let rank = |request: &LinkRequest| if shared { self.rank(request) } else { 0 };
        // Round from the one after the last.
        let turn =
            |(input, queue): &(u32, VecDeque<LinkRequest>)| Some((rank(queue.front()?), input.wrapping_sub(last + 1)));
        let (_, place) = (0..).zip(queues).filter_map(|(place, each)| Some((turn(each)?, place))).min()?;
        self.turns.as_mut()?[link as usize].queues[place as usize].1.pop_front()
    }

    /// Whether packets of a request may not go one after the other, as other inputs want the link.
    pub fn has_rivals(&self, link: LinkId, request: LinkRequest) -> bool {
        let own = self.input(&request);
        let is_rival = |(input, queue): &(u32, VecDeque<LinkRequest>)| *input != own && !queue.is_empty();
        self.turns.as_ref().is_some_and(|turns| turns[link as usize].queues.iter().any(is_rival))
    }

    /// A service of a link is over: the next turn is another input's.
    pub fn took_turn(&mut self, link: LinkId, service: &PacketService) {
        let Some(turns) = self.turns.as_mut().filter(|_| service.packets > 0) else { return };
        turns[link as usize].last = match service.source {
            PacketSource::Interface(id) | PacketSource::Channel(id, _) => self.links.len() as u32 + id,
            PacketSource::Queue | PacketSource::Run(_) => self.hops.before(service.flow),
        };
    }
}
