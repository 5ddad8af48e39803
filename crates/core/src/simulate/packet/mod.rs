//! Packet fidelity: packets on FIFO links, network interfaces, barriers, serial reduction.
//!
//! - A link sends one packet at a time. What wants to use it waits in one FIFO: packets in transit
//!   each once, a network interface once for the packet at its head (so interfaces take turns).
//! - A packet is stored and forwarded at every node on its route; transit buffers are unlimited.
//! - [`Issue::Links`]: one interface for every outgoing link, messages in schedule order.
//!   [`Issue::Steps`]: a rank goes through its slots; a send takes the lowest free interface; an
//!   interface is free when its last packet has entered its queue of finite depth, and different
//!   destinations share that queue (head-of-line blocking).
//! - A message counts as received `hand_off` after its last packet; reductions of a rank run one
//!   at a time.
//!
//! A run of packets that no other can interrupt is one event: on routes of a single link the cost
//! of a run grows with the messages, not with the packets.

mod events;
mod interface;

use super::plan::Plan;
use super::recorder::Recorder;
use super::{Engine, Progress};
use crate::error::{Code, Error, Result};
use crate::fabric::LinkId;
use crate::schedule::{Issue, Pacing, TransferId};
use crate::units::Picos;
use events::{Event, Events};
use interface::{Interface, Message};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// See the module.
pub struct Packet {
    /// Whether runs of packets that nothing interrupts are one event; never changes a result.
    pub merge_runs: bool,
}

impl Engine for Packet {
    fn run(&self, plan: &Plan, recorder: &mut Recorder, progress: &mut Progress) -> Result<u64> {
        let mut network = Network::new(plan, recorder);
        network.merge_runs = self.merge_runs;
        network.run(progress)
    }
}

/// What waits for a link.
#[derive(Clone, Copy)]
enum Request {
    /// The packet at the head of an interface.
    Interface(u32),
    /// Packets in transit: the next `count` packets of a transfer at hop `hop` of its route. Only the
    /// last of them may be the `last` of its message. There can be millions of these; a run has
    /// fewer than 2^32 packets on routes of several links.
    Transit { transfer: TransferId, hop: u32, count: u32, last: bool },
}

/// What a link is transmitting.
#[derive(Clone, Copy)]
struct Service {
    request: Request,
    transfer: TransferId,
    start: Picos,
    packet_ps: Picos,
    packets: u64,
    /// Channel it comes from, if from a mixed interface.
    channel: Option<usize>,
}

#[derive(Default)]
struct Link {
    waiting: VecDeque<Request>,
    service: Option<Service>,
}

/// Transfers of one sender (a link or a rank) still to be started, in schedule order.
struct Queue {
    rank: u32,
    heap: BinaryHeap<Reverse<(u32, u64, TransferId)>>,
    /// Transfers of the current slot that have not started (step order only).
    slot: Vec<TransferId>,
    /// Messages sent but not received (stop-and-wait only).
    outstanding: u32,
    /// First interface and number of interfaces.
    interfaces: std::ops::Range<u32>,
}

struct Network<'a, 'r> {
    plan: &'a Plan<'a>,
    recorder: &'r mut Recorder,
    now: Picos,
    /// Rank of the event being processed.
    turn: (u64, u32),
    events: Events,
    links: Vec<Link>,
    interfaces: Vec<Interface>,
    /// Queue that fills each interface.
    interface_queue: Vec<u32>,
    queues: Vec<Queue>,
    /// Queues of each rank.
    rank_queues: Vec<Vec<u32>>,
    /// Queue each transfer is sent from.
    transfer_queue: Vec<u32>,
    /// Chunks started and applied, and dependencies known to be met for the next chunk.
    started: Vec<u64>,
    applied: Vec<u64>,
    met: Vec<u32>,
    reducer_free: Vec<Picos>,
    /// Messages of each phase not yet applied, and the first phase still behind a barrier.
    phase_left: Vec<u64>,
    gate: u32,
    by_link: bool,
    strict: bool,
    stop_and_wait: bool,
    merge_runs: bool,
}

impl<'a, 'r> Network<'a, 'r> {
    fn new(plan: &'a Plan<'a>, recorder: &'r mut Recorder) -> Self {
        let ranks = plan.fabric.ranks();
        let by_link = plan.schedule.issue == Issue::Links;
        let mut network = Network {
            plan,
            recorder,
            now: 0,
            turn: (0, 0),
            events: Events::new(plan.fabric.links.len()),
            links: (0..plan.fabric.links.len()).map(|_| Link::default()).collect(),
            interfaces: vec![],
            interface_queue: vec![],
            queues: vec![],
            rank_queues: vec![vec![]; ranks],
            transfer_queue: vec![0; plan.jobs.len()],
            started: vec![0; plan.jobs.len()],
            applied: vec![0; plan.jobs.len()],
            met: vec![0; plan.jobs.len()],
            reducer_free: vec![0; ranks],
            phase_left: plan.phase_messages.clone(),
            gate: 0,
            by_link,
            strict: plan.schedule.issue == Issue::StrictSteps,
            stop_and_wait: by_link && plan.schedule.pacing == Pacing::StopAndWait,
            merge_runs: true,
        };
        let count = plan.system.interface.count.min(plan.schedule.interfaces.unwrap_or(u32::MAX)).max(1);
        if !by_link {
            (0..ranks as u32).for_each(|rank| network.add_queue(rank, count));
        }
        // With an interface for every link, a sender is a (rank, first link) pair.
        let mut of_link = vec![u32::MAX; plan.fabric.links.len()];
        for (id, job) in plan.jobs.iter().enumerate() {
            let queue = match plan.route(job).first() {
                _ if !by_link => job.from,
                Some(&link) if of_link[link as usize] != u32::MAX => of_link[link as usize],
                first => {
                    network.add_queue(job.from, 1);
                    let queue = network.queues.len() as u32 - 1;
                    if let Some(&link) = first {
                        of_link[link as usize] = queue;
                    }
                    queue
                }
            };
            network.transfer_queue[id] = queue;
            network.queues[queue as usize].heap.push(Reverse((job.phase, job.step, id as TransferId)));
        }
        network
    }

    fn add_queue(&mut self, rank: u32, interfaces: u32) {
        let id = self.queues.len() as u32;
        let first = self.interfaces.len() as u32;
        self.interfaces.extend((0..interfaces).map(|_| Interface::default()));
        self.interface_queue.resize(self.interfaces.len(), id);
        self.rank_queues[rank as usize].push(id);
        self.queues.push(Queue {
            rank,
            heap: BinaryHeap::new(),
            slot: vec![],
            outstanding: 0,
            interfaces: first..first + interfaces,
        });
    }

    fn run(&mut self, progress: &mut Progress) -> Result<u64> {
        let total = self.plan.messages().max(1);
        let mut done = 0u64;
        let mut events = 0u64;
        self.open_gate();
        while let Some((time, event)) = self.events.next() {
            (self.now, self.turn) = (time, event.rank());
            events += 1;
            match event {
                Event::LinkDone { link } => self.link_done(link),
                Event::Arrive { transfer, hop, last } => self.request_hop(transfer, hop, last),
                Event::Received { transfer } => self.received(transfer),
                Event::Applied { transfer } => {
                    self.apply(transfer);
                    done += 1;
                }
                Event::Wake { queue } => self.advance(queue),
            }
            if events.is_multiple_of(1 << 16) && !progress(done as f64 / total as f64) {
                return Err(Error::new(Code::Interrupted, "interrupted"));
            }
        }
        if done < self.plan.messages() { Err(self.stalled(done)) } else { Ok(events) }
    }

    // --- Senders: which message starts when -------------------------------------------------

    /// Moves the gate past every phase whose predecessors are complete, and wakes all senders.
    fn open_gate(&mut self) {
        let phases = &self.plan.schedule.phases;
        let mut gate = self.gate as usize;
        let complete = |gate: usize, left: &[u64]| left[..gate].iter().all(|&l| l == 0);
        while gate < phases.len() && (!phases[gate].barrier || complete(gate, &self.phase_left)) {
            gate += 1;
        }
        if gate as u32 != self.gate {
            self.gate = gate as u32;
            for queue in 0..self.queues.len() as u32 {
                self.advance(queue);
            }
        }
    }

    /// Whether the next chunk of a transfer may start, as far as data is concerned.
    fn data_ready(&mut self, id: TransferId) -> bool {
        let job = &self.plan.jobs[id as usize];
        let chunk = self.started[id as usize];
        let met = &mut self.met[id as usize];
        let after = &self.plan.after[job.after.clone()];
        while let Some(&other) = after.get(*met as usize) {
            if self.applied[other as usize] <= chunk {
                return false;
            }
            *met += 1;
        }
        true
    }

    /// Starts everything a sender may start now.
    fn advance(&mut self, queue: u32) {
        if self.by_link { self.advance_link(queue) } else { self.advance_steps(queue) }
    }

    fn advance_link(&mut self, queue: u32) {
        loop {
            let state = &self.queues[queue as usize];
            let interface = state.interfaces.start;
            // Two queued messages keep the link busy; more would only cost memory.
            if (self.stop_and_wait && state.outstanding > 0) || self.interfaces[interface as usize].queue.len() >= 2 {
                return;
            }
            let Some(&Reverse((phase, _, id))) = state.heap.peek() else {
                return;
            };
            if phase >= self.gate || !self.data_ready(id) {
                return;
            }
            self.pop(queue);
            self.queues[queue as usize].outstanding += 1;
            self.start(id, interface);
        }
    }

    /// Takes the first transfer off a queue and queues its next chunk.
    fn pop(&mut self, queue: u32) -> Option<TransferId> {
        let heap = &mut self.queues[queue as usize].heap;
        let mut top = heap.peek_mut()?;
        let Reverse((phase, slot, id)) = *top;
        let job = &self.plan.jobs[id as usize];
        // Chunks taken so far follow from the slot.
        let chunk = (slot - job.step).checked_div(job.stride).unwrap_or(0);
        if chunk + 1 < job.chunks {
            *top = Reverse((phase, slot + job.stride, id));
        } else {
            std::collections::binary_heap::PeekMut::pop(top);
        }
        Some(id)
    }

    fn advance_steps(&mut self, queue: u32) {
        loop {
            let state = &self.queues[queue as usize];
            if state.slot.is_empty() {
                let interfaces = state.interfaces.clone();
                if self.strict && !interfaces.clone().all(|i| self.is_free(i)) {
                    return;
                }
                let Some(&Reverse((phase, slot, _))) = state.heap.peek() else {
                    return;
                };
                if phase >= self.gate {
                    return;
                }
                while let Some(&Reverse((p, s, _))) = self.queues[queue as usize].heap.peek() {
                    if (p, s) != (phase, slot) {
                        break;
                    }
                    let id = self.pop(queue).expect("just seen");
                    self.queues[queue as usize].slot.push(id);
                }
            }
            let mut i = 0;
            while i < self.queues[queue as usize].slot.len() {
                let id = self.queues[queue as usize].slot[i];
                if !self.data_ready(id) {
                    i += 1;
                    continue;
                }
                let Some(free) = self.queues[queue as usize].interfaces.clone().find(|&i| self.is_free(i)) else {
                    return;
                };
                self.queues[queue as usize].slot.remove(i);
                self.start(id, free);
            }
            if !self.queues[queue as usize].slot.is_empty() {
                return;
            }
        }
    }

    /// Whether the last packet given to an interface has entered its queue.
    fn is_free(&self, interface: u32) -> bool {
        let state = &self.interfaces[interface as usize];
        state.backlog <= self.plan.system.interface.depth_packets && state.busy_until <= self.now
    }

    /// Hands the next message of a transfer to an interface.
    fn start(&mut self, id: TransferId, interface: u32) {
        let plan = self.plan;
        let job = &plan.jobs[id as usize];
        self.started[id as usize] += 1;
        self.met[id as usize] = 0;
        if job.hops.is_empty() {
            // Both ranks on one node: nothing crosses a link.
            let at = self.now + plan.system.hand_off_ps;
            return self.events.push(at, Event::Received { transfer: id });
        }
        let packets = job.packets.count;
        let first = plan.route(job)[0];
        let depth = plan.system.interface.depth_packets;
        let state = &mut self.interfaces[interface as usize];
        let idle = state.backlog == 0;
        let joins = idle || (!state.is_mixed() && state.single_link() == Some(first));
        state.queue.push_back(Message { transfer: id, packets_left: packets, first });
        state.backlog += packets;
        let number = state.gone + state.queue.len() as u64 - 1;
        if !self.by_link {
            // One packet an issue slot; the last is visible one slot later.
            state.busy_until = self.now + (packets + 1) * plan.system.interface.issue_ps;
            let (until, queue) = (state.busy_until, self.interface_queue[interface as usize]);
            self.events.push(until, Event::Wake { queue });
        }
        if idle {
            self.request(first, Request::Interface(interface));
        } else if joins {
            // A run under way must end where the interface, fuller now, becomes free.
            let service = self.links[first as usize].service;
            if service.is_some_and(|s| matches!(s.request, Request::Interface(i) if i == interface)) {
                self.settle(first);
                let until_free = self.interfaces[interface as usize].backlog.saturating_sub(depth);
                if until_free > 0 {
                    self.shorten(first, until_free);
                }
            }
        } else {
            if self.interfaces[interface as usize].is_mixed() {
                self.interfaces[interface as usize].deal(number, packets);
            } else {
                self.split(interface);
            }
            self.ask(interface);
        }
    }

    /// Turns an interface with messages for several links into a mixed one.
    fn split(&mut self, id: u32) {
        let first = self.interfaces[id as usize].queue[0].first;
        // A run on the link ends with the packet being sent; its packets are not dealt.
        self.interrupt(first);
        let on_link = match self.links[first as usize].service {
            Some(Service { request: Request::Interface(other), packets, .. }) if other == id => packets,
            _ => 0,
        };
        let state = &mut self.interfaces[id as usize];
        state.channels = vec![VecDeque::new(); self.plan.system.interface.virtual_channels.max(1) as usize];
        state.asked = vec![first];
        for index in 0..state.queue.len() {
            let packets = state.queue[index].packets_left - if index == 0 { on_link } else { 0 };
            state.deal(state.gone + index as u64, packets);
        }
    }

    /// Asks for every link that some channel of a mixed interface wants and that is not asked for.
    fn ask(&mut self, id: u32) {
        for channel in 0..self.interfaces[id as usize].channels.len() {
            let state = &mut self.interfaces[id as usize];
            let Some(&(number, _)) = state.channels[channel].front() else { continue };
            let link = state.message(number).first;
            if !state.asked.contains(&link) {
                state.asked.push(link);
                self.request(link, Request::Interface(id));
            }
        }
    }

    // --- Links ------------------------------------------------------------------------------

    /// Queues a request at a link, cutting a run of packets short to let it in.
    fn request(&mut self, link: LinkId, request: Request) {
        self.links[link as usize].waiting.push_back(request);
        if self.links[link as usize].service.is_none() {
            self.serve(link);
        } else {
            self.interrupt(link);
        }
    }

    /// Ends an interface's run of packets on a link with the packet that is being sent.
    fn interrupt(&mut self, link: LinkId) {
        self.settle(link);
        self.shorten(link, 1);
    }

    /// Accounts for the packets of a run that have left already, so that the run starts with the
    /// packet being sent.
    fn settle(&mut self, link: LinkId) {
        let Some(service) = &mut self.links[link as usize].service else { return };
        let Request::Interface(id) = service.request else { return };
        let elapsed = self.now - service.start;
        // At the very end of a packet the next one has started only if the link has had its turn.
        let pending = elapsed.is_multiple_of(service.packet_ps) && self.turn <= (0, link);
        let sent = (elapsed / service.packet_ps).saturating_sub(u64::from(pending)).min(service.packets - 1);
        if sent > 0 {
            let start = service.start;
            service.start += sent * service.packet_ps;
            service.packets -= sent;
            self.recorder.transmitted(link, start, service.start);
            let interface = &mut self.interfaces[id as usize];
            interface.backlog -= sent;
            interface.queue[0].packets_left -= sent;
        }
    }

    /// Ends a settled run after at most `packets` packets.
    fn shorten(&mut self, link: LinkId, packets: u64) {
        let Some(service) = &mut self.links[link as usize].service else { return };
        if matches!(service.request, Request::Interface(_)) && service.packets > packets {
            service.packets = packets;
            self.events.set_end(link, service.start + packets * service.packet_ps);
        }
    }

    /// A packet in transit asks for the link of hop `hop`.
    fn request_hop(&mut self, transfer: TransferId, hop: u32, last: bool) {
        let link = self.plan.route(&self.plan.jobs[transfer as usize])[hop as usize];
        if let Some(Request::Transit { transfer: t, hop: h, count, last: l @ false }) =
            self.links[link as usize].waiting.back_mut()
            && (*t, *h) == (transfer, hop)
        {
            *count += 1;
            *l = last;
            return;
        }
        self.request(link, Request::Transit { transfer, hop, count: 1, last });
    }

    /// Starts the next service of an idle link.
    fn serve(&mut self, link: LinkId) {
        let plan = self.plan;
        let state = &mut self.links[link as usize];
        let Some(request) = state.waiting.pop_front() else {
            return;
        };
        let (transfer, packets, channel) = match request {
            Request::Interface(id) => {
                let interface = &self.interfaces[id as usize];
                match interface.channel_for(link) {
                    _ if !interface.is_mixed() => {
                        let message = interface.queue.front().expect("an interface that asks has a message");
                        let single = plan.jobs[message.transfer as usize].hops.len() == 1;
                        // A run ends where the interface becomes free, so that its rank can go on.
                        let until_free = interface.backlog.saturating_sub(plan.system.interface.depth_packets);
                        let left = message.packets_left;
                        let run = if until_free > 0 { left.min(until_free) } else { left };
                        let alone = self.merge_runs && single && state.waiting.is_empty();
                        (message.transfer, if alone { run } else { 1 }, None)
                    }
                    Some(channel) => {
                        let (number, _) = interface.channels[channel][0];
                        (interface.queue[(number - interface.gone) as usize].transfer, 1, Some(channel))
                    }
                    None => unreachable!("a mixed interface asks only for links its channels want"),
                }
            }
            Request::Transit { transfer, hop, count, last } => {
                let at_end = hop as usize + 1 == plan.jobs[transfer as usize].hops.len();
                if count > 1 && !at_end {
                    // Forwarded packet by packet; the rest keeps its place at the front.
                    state.waiting.push_front(Request::Transit { transfer, hop, count: count - 1, last });
                }
                (transfer, if at_end { count as u64 } else { 1 }, None)
            }
        };
        let packet_ps = plan.packet_ps(&plan.jobs[transfer as usize], link);
        state.service = Some(Service { request, transfer, start: self.now, packet_ps, packets, channel });
        self.events.set_end(link, self.now + packets * packet_ps);
    }

    fn link_done(&mut self, link: LinkId) {
        let plan = self.plan;
        let service = self.links[link as usize].service.take().expect("an end belongs to a service");
        let job = &plan.jobs[service.transfer as usize];
        self.recorder.transmitted(link, service.start, self.now);
        let (hop, last, sender) = match service.request {
            Request::Interface(id) => {
                let last = self.sent_from_interface(id, link, &service);
                (0, last, Some(self.interface_queue[id as usize]))
            }
            Request::Transit { hop, count, last, .. } => (hop, last && service.packets == count as u64, None),
        };
        let at = self.now + plan.latency_ps[link as usize];
        if hop as usize + 1 < job.hops.len() {
            if at == self.now {
                self.request_hop(service.transfer, hop + 1, last);
            } else {
                self.events.push(at, Event::Arrive { transfer: service.transfer, hop: hop + 1, last });
            }
        } else if last {
            self.events.push(at + plan.system.hand_off_ps, Event::Received { transfer: service.transfer });
        }
        if self.links[link as usize].service.is_none() {
            self.serve(link);
        }
        if let Some(queue) = sender {
            self.advance(queue);
        }
        if self.links[link as usize].service.is_none() {
            self.events.clear_end(link);
        }
    }

    /// Accounts for packets an interface has sent over `link` and asks for its next one. Returns
    /// whether the last packet of a message was among them.
    fn sent_from_interface(&mut self, id: u32, link: LinkId, service: &Service) -> bool {
        let interface = &mut self.interfaces[id as usize];
        let number = match service.channel {
            Some(channel) => {
                let run = interface.channels[channel].front_mut().expect("served from this channel");
                run.1 -= 1;
                let (number, left) = *run;
                if left == 0 {
                    interface.channels[channel].pop_front();
                }
                number
            }
            None => interface.gone,
        };
        interface.backlog -= service.packets;
        let message = interface.message(number);
        message.packets_left -= service.packets;
        let last = message.packets_left == 0;
        interface.asked.retain(|&asked| asked != link);
        interface.trim();
        let unasked = interface.asked.is_empty();
        if interface.is_mixed() && unasked && (interface.backlog == 0 || interface.single_link().is_some()) {
            interface.channels.clear();
            interface.queue.retain(|m| m.packets_left > 0);
        }
        if interface.is_mixed() {
            self.ask(id);
        } else if let Some(next) = interface.queue.front().map(|m| m.first) {
            self.request_after(link, next, service.request);
        }
        last
    }

    /// Queues a request at `link`, which may be `done`, the one that has just become free.
    fn request_after(&mut self, done: LinkId, link: LinkId, request: Request) {
        if link == done {
            self.links[link as usize].waiting.push_back(request);
        } else {
            self.request(link, request);
        }
    }

    // --- Receivers --------------------------------------------------------------------------

    fn received(&mut self, transfer: TransferId) {
        let job = &self.plan.jobs[transfer as usize];
        if job.reduce_ps == 0 {
            self.events.push(self.now, Event::Applied { transfer });
        } else {
            let free = &mut self.reducer_free[job.to as usize];
            *free = self.now.max(*free) + job.reduce_ps;
            let at = *free;
            self.events.push(at, Event::Applied { transfer });
        }
        if self.stop_and_wait {
            let queue = self.transfer_queue[transfer as usize];
            self.queues[queue as usize].outstanding -= 1;
            self.advance(queue);
        }
    }

    fn apply(&mut self, transfer: TransferId) {
        let plan = self.plan;
        let job = &plan.jobs[transfer as usize];
        let chunk = self.applied[transfer as usize];
        self.applied[transfer as usize] += 1;
        self.recorder.applied(plan, job, chunk, self.now);
        self.phase_left[job.phase as usize] -= 1;
        if self.phase_left[job.phase as usize] == 0 {
            self.open_gate();
        }
        for i in 0..self.rank_queues[job.to as usize].len() {
            self.advance(self.rank_queues[job.to as usize][i]);
        }
    }

    /// Why nothing moves any more: from a sender that cannot start, along what it waits for.
    fn stalled(&mut self, done: u64) -> Error {
        let head = |network: &Self, queue: usize| {
            let state = &network.queues[queue];
            state.slot.first().copied().or_else(|| state.heap.peek().map(|&Reverse((_, _, id))| id))
        };
        let mut chain = Vec::new();
        let mut visited = Vec::new();
        let mut next = (0..self.queues.len()).find_map(|queue| head(self, queue));
        while let Some(id) = next.filter(|id| !visited.contains(id) && visited.len() < 12) {
            visited.push(id);
            chain.push(self.plan.describe(id, self.started[id as usize]));
            let job = &self.plan.jobs[id as usize];
            let missing = self.plan.after[job.after.clone()]
                .iter()
                .copied()
                .find(|&other| self.applied[other as usize] <= self.started[id as usize]);
            next = match missing {
                Some(other) if self.started[other as usize] > self.started[id as usize] => None,
                Some(other) => {
                    let first = head(self, self.transfer_queue[other as usize] as usize);
                    if first == Some(id) { Some(other) } else { first }
                }
                None => None,
            };
        }
        if let Some(id) = next {
            chain.push(format!("transfer {id} again"));
        }
        let rank = self.queues.iter().map(|q| q.rank).next().unwrap_or(0);
        let chain =
            if chain.is_empty() { format!("rank {rank} has nothing to send") } else { chain.join(" waits for ") };
        let total = self.plan.messages();
        let what = format!("no progress after {done} of {total} messages at {} ns: {chain}", self.now / 1000);
        Error::new(Code::Stalled, what)
    }
}
