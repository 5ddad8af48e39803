//! Inputs of links that take turns: the links before, and the interfaces of the node. Or, where they share a link equally,
//! the flights ([`crate::flight::Shares`]).
//!
//! Each has a FIFO. A run of packets that waited ends where another input wants the link: the rest waits again.

use super::link::{LinkRequest, append};
use super::service::{PacketService, PacketSource};
use super::{Endpoints, Flow, Packet, Tail};
use antiphon_model::fabric::LinkId;
use antiphon_model::system::Arbitration;
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
    /// The inputs of a link, or its flights, where they take turns.
    #[inline]
    pub fn turns_of(&self, link: LinkId) -> Option<&Inputs> {
        let turns = self.turns.as_ref()?;
        let takes_turns = self.plan.system.arbitration == Arbitration::RoundRobin || self.ranking.is_fair(link);
        takes_turns.then(|| &turns[link as usize])
    }

    fn turns_of_mut(&mut self, link: LinkId) -> Option<&mut Inputs> {
        self.turns_of(link)?;
        self.turns.as_mut().map(|turns| &mut turns[link as usize])
    }

    /// See [`Inputs::waited`]; none where inputs do not take turns.
    pub fn waited(&self, link: LinkId) -> u64 {
        self.turns_of(link).map_or(0, |inputs| inputs.waited)
    }

    /// A service has so many packets that waited when it began.
    pub fn set_waited(&mut self, link: LinkId, packets: u64) {
        if let Some(inputs) = self.turns_of_mut(link) {
            inputs.waited = packets;
        }
    }

    /// Of the packets that waited when a service began only the first `keep` are sent; `last` is the message that ends with
    /// the last of them. The others are in front again.
    pub fn wait_again(&mut self, link: LinkId, flow: Flow, keep: u64, last: Option<Tail>) {
        let count = (self.waited(link) - keep) as u32;
        self.set_waited(link, keep);
        self.put_back(link, LinkRequest::Transit { flow, count, last });
    }

    /// Number of the input of a request: its link, or after those its interface. Or that of its flight.
    fn input(&self, link: LinkId, request: &LinkRequest) -> u32 {
        match *request {
            _ if self.ranking.is_fair(link) => self.flight(request),
            LinkRequest::Interface(id) => self.links.len() as u32 + id,
            LinkRequest::Transit { flow, .. } => self.hops.before(flow),
        }
    }

    /// What waits for a link, of an input that takes turns or of all.
    fn queue_of(&mut self, link: LinkId, request: &LinkRequest) -> &mut VecDeque<LinkRequest> {
        let input = self.input(link, request);
        if self.turns_of(link).is_none() {
            return &mut self.links[link as usize].waiting;
        }
        self.turns.as_mut().expect("a link takes turns")[link as usize].queue(input)
    }

    /// Whether anything waits for a link.
    pub fn is_wanted(&self, link: LinkId) -> bool {
        match self.turns_of(link) {
            Some(inputs) => inputs.queues.iter().any(|(_, queue)| !queue.is_empty()),
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

    /// Takes what a link sends next from those that wait: of the flight that goes first, the input whose turn it is; or of
    /// the flight that was served least.
    pub fn next_request(&mut self, link: LinkId) -> Option<LinkRequest> {
        let Some(Inputs { last, queues, .. }) = self.turns_of(link) else {
            return self.links[link as usize].waiting.pop_front();
        };
        let (shared, fair) = (self.ranking.is_shared(link), self.ranking.is_fair(link));
        let rank = |request: &LinkRequest| if shared { self.rank(request) } else { 0 };
        let turn = |(input, queue): &(u32, VecDeque<LinkRequest>)| match queue.front()? {
            _ if fair => Some((self.shares[link as usize].served(*input), *input)),
            // Round from the one after the last.
            first => Some((rank(first), input.wrapping_sub(last + 1))),
        };
        let (_, place) = (0..).zip(queues).filter_map(|(place, each)| Some((turn(each)?, place))).min()?;
        self.turns_of_mut(link)?.queues[place as usize].1.pop_front()
    }

    /// Whether packets of a request may not go one after the other, as other inputs want the link.
    pub fn has_rivals(&self, link: LinkId, request: LinkRequest) -> bool {
        let own = self.input(link, &request);
        let is_rival = |(input, queue): &(u32, VecDeque<LinkRequest>)| *input != own && !queue.is_empty();
        self.turns_of(link).is_some_and(|inputs| inputs.queues.iter().any(is_rival))
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
