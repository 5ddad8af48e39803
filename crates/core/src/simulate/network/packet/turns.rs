//! Inputs of links that take turns: the links before, and the interfaces of the node.
//!
//! Each has a FIFO. As the order of requests of different inputs does not matter, all are in the one queue of the link,
//! and a run of packets that waited ends where another input wants the link: the rest waits again.

use super::Packet;
use super::link::Request;
use super::service::{Flow, Service, Source};
use crate::fabric::LinkId;

/// Turns of the inputs of a link.
#[derive(Clone, Copy, Default)]
pub struct InputTurn {
    /// The input of which it sent last.
    pub last: u32,
    /// Packets of its service that waited when it began, the first ones.
    pub waited: u64,
}

impl Packet<'_> {
    /// See [`InputTurn::waited`]; none where inputs do not take turns.
    pub fn waited(&self, link: LinkId) -> u64 {
        self.turns.as_ref().map_or(0, |turns| turns[link as usize].waited)
    }

    /// A service has so many packets that waited when it began.
    pub fn set_waited(&mut self, link: LinkId, packets: u64) {
        if let Some(turns) = &mut self.turns {
            turns[link as usize].waited = packets;
        }
    }

    /// Of the packets that waited when a service began only the first `keep` are sent; `last` is whether the last of them is
    /// that of its message. The others are in front again.
    pub fn wait_again(&mut self, link: LinkId, flow: Flow, keep: u64, last: bool) {
        let count = (self.waited(link) - keep) as u32;
        self.set_waited(link, keep);
        self.links[link as usize].waiting.push_front(Request::Transit { flow, count, last });
    }

    /// Number of the input of a request: its link, or after those its interface.
    fn input(&self, request: &Request) -> u32 {
        match *request {
            Request::Interface(id) => self.links.len() as u32 + id,
            Request::Transit { flow, .. } => self.hops[flow.hop as usize - 1],
        }
    }

    /// Queues a request behind those of its input.
    pub fn queue_by_input(&mut self, link: LinkId, request: Request) {
        let own = self.input(&request);
        let before = self.links[link as usize].waiting.iter().rposition(|other| self.input(other) == own);
        let before = before.map(|place| &mut self.links[link as usize].waiting[place]);
        match (before, request) {
            (Some(Request::Transit { flow: f, count: c, last: l @ false }), Request::Transit { flow, count, last })
                if *f == flow =>
            {
                *c += count;
                *l = last;
            }
            _ => self.links[link as usize].waiting.push_back(request),
        }
    }

    /// Takes what a link sends next from those that wait: of the flight that goes first, the input whose turn it is.
    pub fn next_request(&mut self, link: LinkId) -> Option<Request> {
        let waiting = &self.links[link as usize].waiting;
        let Some(turns) = self.turns.as_ref().filter(|_| waiting.len() > 1) else {
            return self.links[link as usize].waiting.pop_front();
        };
        // Round from the one after the last.
        let turn = |request: &Request| self.input(request).wrapping_sub(turns[link as usize].last + 1);
        let alike = |request: &&Request| !self.ranking.is_shared(link) || self.rank(request) == self.rank(&waiting[0]);
        let place = (0..).zip(waiting.iter().take_while(alike)).min_by_key(|(_, request)| turn(request))?.0;
        self.links[link as usize].waiting.remove(place)
    }

    /// Whether packets of a request may not go one after the other, as other inputs want the link.
    pub fn has_rivals(&self, link: LinkId, request: Request) -> bool {
        let own = self.input(&request);
        self.turns.is_some() && self.links[link as usize].waiting.iter().any(|other| self.input(other) != own)
    }

    /// A service of a link is over: the next turn is another input's.
    pub fn took_turn(&mut self, link: LinkId, service: &Service) {
        let Some(turns) = self.turns.as_mut().filter(|_| service.packets > 0) else { return };
        turns[link as usize].last = match service.source {
            Source::Interface(id) | Source::Channel(id, _) => self.links.len() as u32 + id,
            Source::Queue | Source::Run(_) => self.hops[service.flow.hop as usize - 1],
        };
    }
}
