//! A node at work: its ports, and all that runs on it.

use super::collective::{CollectiveRun, ToSend};
use super::health::Health;
use super::lent::LentMemory;
use super::messages::{Messages, Offer, about};
use super::packet::{HOP_BYTES, PACKET_HEADER_BYTES, PacketHeader, PacketKind};
use super::port::{CarrierPort, OwnMessage, PortWire};
use super::rank_plan::RankPlan;
use super::{RunKey, Settings};
use crate::wires::Wires;
use crate::{ElementType, MemoryPart, Reduction};
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::fabric::{Fabric, LinkId, NodeId, Router};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Bytes for collectives that it has not begun, or messages that it has not asked for, that a node takes from another.
pub(super) const UNASKED_BYTES: u64 = 1 << 20;
/// Bytes of all packets that wait for collectives to begin.
const MAX_EARLY_BYTES: usize = 256 << 20;

/// Memory that is lent, by run.
pub(super) type Lent<'l, 'a> = HashMap<RunKey, &'l mut LentMemory<'a>>;

pub(super) struct CarrierNode {
    pub node: NodeId,
    settings: Settings,
    pub fabric: Fabric,
    pub ports: Vec<CarrierPort>,
    /// Wires of links that are left out. To close them would look to their other ends as if this node had ended.
    buried: Vec<PortWire>,
    port_of_link: HashMap<LinkId, usize>,
    /// To every node: the port, and links after it.
    pub routes: Vec<Option<(usize, Vec<u16>)>>,
    collectives: HashMap<RunKey, CollectiveRun>,
    /// Packets for collectives that this rank has not begun.
    early: HashMap<RunKey, Vec<(PacketHeader, Vec<u8>)>>,
    early_bytes: usize,
    ended: HashSet<RunKey>,
    /// Counts fabrics.
    pub epoch: u8,
    pub messages: Messages,
    next_id: u64,
    /// By node and group (messages apart): sequences and bytes that were sent without being asked for.
    unasked: HashMap<(NodeId, u32, bool), VecDeque<(u32, u64)>>,
    pub unasked_bytes: Vec<u64>,
    pub finished: HashMap<RunKey, Result<NodeId>>,
    pub health: Health,
    /// When packets last passed that are for others.
    pub passed: Option<Instant>,
    /// When anything last came but signs of life.
    pub last_news: Instant,
}

impl CarrierNode {
    pub fn new(fabric: Fabric, node: NodeId, wires: Wires, settings: Settings) -> Result<CarrierNode> {
        let now = Instant::now();
        let mut ports: Vec<CarrierPort> = vec![];
        for given in wires.ports {
            // Parallel links to a neighbour share what there is to send.
            let at = ports.iter().position(|port| port.neighbour == given.neighbour).unwrap_or_else(|| {
                ports.push(CarrierPort::new(given.neighbour));
                ports.len() - 1
            });
            let mut links: Vec<LinkId> = given.out_link.into_iter().chain(given.in_link).collect();
            links.sort_unstable();
            let wire = |wire| PortWire::new(wire, links.clone(), given.name.clone(), now);
            ports[at].wires.extend(given.wires.into_iter().map(wire));
        }
        let nodes = fabric.nodes.len();
        let mut made = CarrierNode {
            node,
            settings,
            health: Health::new(now),
            fabric,
            ports,
            buried: vec![],
            port_of_link: HashMap::new(),
            routes: vec![],
            epoch: 0,
            collectives: HashMap::new(),
            early: HashMap::new(),
            early_bytes: 0,
            ended: HashSet::new(),
            messages: Messages::default(),
            next_id: 0,
            unasked: HashMap::new(),
            unasked_bytes: vec![0; nodes],
            finished: HashMap::new(),
            passed: None,
            last_news: now,
        };
        made.find_ways()?;
        Ok(made)
    }

    /// Goes on with another fabric on the same nodes, without these links of the first one; as if nothing had happened before, but
    /// for failures of other links, which may come at any time. Packets of another epoch are dropped.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if a link of this node has no wire.
    pub fn renew(&mut self, fabric: Fabric, epoch: u8, gone: &[LinkId]) -> Result<()> {
        self.health.settle(gone);
        for port in &mut self.ports {
            self.buried.extend(port.renew(|wire| self.health.is_settled(&wire.links)));
        }
        self.ports.retain(|port| !port.wires.is_empty());
        (self.fabric, self.epoch) = (fabric, epoch);
        self.collectives.clear();
        self.early.clear();
        self.early_bytes = 0;
        self.ended.clear();
        self.messages = Messages::default();
        self.unasked.clear();
        self.unasked_bytes.fill(0);
        self.finished.clear();
        self.tell_again();
        self.find_ways()
    }

    /// Finds the ports of links, and routes to all nodes.
    fn find_ways(&mut self) -> Result<()> {
        self.port_of_link.clear();
        for (id, link) in (0..).zip(&self.fabric.links).filter(|(_, link)| link.from == self.node) {
            // Schedules may name any of several parallel links.
            let port = self.ports.iter().position(|port| port.neighbour == link.to);
            let missing = || Error::new(Code::BadSpec, format!("link {id} of {}: nothing joins it", self.fabric.name));
            self.port_of_link.insert(id, port.ok_or_else(missing)?);
        }
        self.routes = self.find_routes();
        Ok(())
    }

    fn find_routes(&self) -> Vec<Option<(usize, Vec<u16>)>> {
        let mut router = Router::new(&self.fabric);
        let mut route = |to: NodeId| {
            let links = (to != self.node).then(|| router.path(self.node, to).ok())??;
            let (first, rest) = links.split_first()?;
            Some((*self.port_of_link.get(first)?, rest.iter().map(|&link| link as u16).collect()))
        };
        (0..self.fabric.nodes.len() as NodeId).map(&mut route).collect()
    }

    /// Begins a collective.
    pub fn begin(
        &mut self,
        key: RunKey,
        plan: Arc<RankPlan>,
        element: ElementType,
        reduction: Reduction,
        parts: &[MemoryPart],
    ) -> Result<()> {
        if self.collectives.contains_key(&key) {
            return Err(Error::new(Code::BadSpec, "a collective of this group and sequence is under way"));
        }
        let mut run = CollectiveRun::new(plan, element, reduction, parts)?;
        let asked: Vec<NodeId> = run.waiting_for_ready().collect();
        for (header, data) in self.early.remove(&key).unwrap_or_default() {
            self.early_bytes -= data.len();
            if header.asks && header.kind == PacketKind::Data {
                let from = run.plan.sender_of(header.item);
                from.into_iter().for_each(|node| self.tell_ready(key, node));
            }
            match header.kind {
                PacketKind::Data => run.waiting.push_back((header, data)),
                _ => control(&mut run, &header),
            }
        }
        asked.into_iter().for_each(|node| self.tell_ready(key, node));
        self.collectives.insert(key, run);
        Ok(())
    }

    fn tell_ready(&mut self, key: RunKey, node: NodeId) {
        if let RunKey::Collective { group, sequence } = key {
            self.control(node, about(PacketKind::Ready, group, sequence, self.node), &[]);
        }
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Notes bytes that a node did not ask for; whether it shall answer.
    pub(super) fn note_unasked(
        &mut self,
        node: NodeId,
        group: u32,
        is_message: bool,
        sequence: u32,
        bytes: usize,
    ) -> bool {
        self.unasked.entry((node, group, is_message)).or_default().push_back((sequence, bytes as u64));
        self.unasked_bytes[node as usize] += bytes as u64;
        self.unasked_bytes[node as usize] > UNASKED_BYTES / 2
    }

    /// A node has begun, or asked for, what it was sent up to a sequence.
    fn settle(&mut self, node: NodeId, group: u32, is_message: bool, sequence: u32) {
        let Some(unasked) = self.unasked.get_mut(&(node, group, is_message)) else { return };
        while let Some(&(first, bytes)) = unasked.front()
            && sequence.wrapping_sub(first) < 1 << 31
        {
            unasked.pop_front();
            self.unasked_bytes[node as usize] -= bytes;
        }
    }

    /// Gives a control packet to the port that leads to a node. In vain where none does.
    pub(super) fn control(&mut self, to: NodeId, header: PacketHeader, data: &[u8]) {
        let Some(Some((port, hops))) = self.routes.get(to as usize) else { return };
        let mut packet = Vec::with_capacity(PACKET_HEADER_BYTES + HOP_BYTES * hops.len() + data.len());
        PacketHeader { bytes: data.len() as u32, epoch: self.epoch, ..header }.write(hops, &mut packet);
        packet.extend_from_slice(data);
        self.ports[*port].control.push_back(packet);
    }

    /// Does all that can be done now. True if anything happened.
    pub fn step(&mut self, lent: &mut Lent<'_, '_>) -> bool {
        let mut has_changed = false;
        for port in 0..self.ports.len() {
            has_changed |= self.receive_from(port, lent);
        }
        has_changed |= self.go_on(lent);
        for port in 0..self.ports.len() {
            has_changed |= self.send_to(port, lent);
        }
        has_changed
    }

    /// Sends what a port has. True if anything went.
    fn send_to(&mut self, at: usize, lent: &Lent<'_, '_>) -> bool {
        let mut gone: Vec<OwnMessage> = vec![];
        let mut has_changed = false;
        let mut broken = None;
        for number in 0..self.ports[at].wires.len() {
            let memory = |key| lent.get(&key).map(|memory| &**memory);
            let packet_bytes = self.settings.packet_bytes;
            match self.ports[at].send_by(number, packet_bytes, memory, |message| gone.push(message)) {
                Ok(more) => has_changed |= more,
                Err(what) => broken = Some((number, what)),
            }
        }
        for OwnMessage { key, message, length, .. } in gone {
            match (key, message) {
                (RunKey::Collective { .. }, Some(message)) => {
                    if let Some(run) = self.collectives.get_mut(&key) {
                        run.sent(&message, length);
                        self.finish_if_done(key);
                    }
                }
                (RunKey::Send(id), _) => {
                    if let Some(run) = self.messages.sends.get_mut(&id) {
                        run.gone += 1;
                        if run.gone == run.parts() {
                            self.end_send(id, Ok(self.node));
                        }
                    }
                }
                _ => {}
            }
        }
        if let Some((number, what)) = broken {
            self.wire_broke(at, number, &what);
            has_changed = true;
        }
        has_changed
    }

    /// Takes what a port brings. True if it brought anything.
    fn receive_from(&mut self, at: usize, lent: &mut Lent<'_, '_>) -> bool {
        let mut has_changed = false;
        for number in 0..self.ports[at].wires.len() {
            if self.ports[at].wires[number].is_dead {
                continue;
            }
            match self.receive_by(at, number, lent) {
                Ok(more) => has_changed |= more,
                Err(what) => {
                    self.wire_broke(at, number, &what);
                    has_changed = true;
                }
            }
        }
        has_changed
    }

    fn receive_by(&mut self, at: usize, number: usize, lent: &mut Lent<'_, '_>) -> io::Result<bool> {
        if !self.ports[at].wires[number].receive()? {
            return Ok(false);
        }
        self.ports[at].wires[number].last_heard = Instant::now();
        let buffer = self.ports[at].wires[number].take_buffer();
        let outcome = loop {
            match self.ports[at].wires[number].next_packet(&buffer) {
                Ok(Some((header, place))) => {
                    if let Err(what) = self.handle(at, header, &buffer[place], lent) {
                        break Err(what);
                    }
                }
                Ok(None) => break Ok(true),
                Err(what) => break Err(what),
            }
        };
        self.ports[at].wires[number].give_back(buffer);
        outcome
    }

    /// Takes a packet.
    fn handle(&mut self, from: usize, header: PacketHeader, packet: &[u8], lent: &mut Lent<'_, '_>) -> io::Result<()> {
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "it brought what no carrier sends");
        if header.kind != PacketKind::Alive {
            self.last_news = Instant::now();
        }
        if header.epoch != self.epoch && !header.kind.is_of_wire() {
            return Ok(());
        }
        if header.hops > 0 {
            return self.pass(header, packet).ok_or_else(unknown);
        }
        let data = &packet[PACKET_HEADER_BYTES..];
        let (group, sequence, node) = (header.group, header.sequence, header.plan);
        let key = RunKey::Collective { group, sequence };
        match header.kind {
            PacketKind::Alive => {}
            PacketKind::Leaving => self.left(from),
            PacketKind::LinkFailed | PacketKind::NodeFailed => self.heard_of_failure(from, &header, data),
            PacketKind::Data => self.data(key, header, data, lent).ok_or_else(unknown)?,
            PacketKind::Ready | PacketKind::Arrived | PacketKind::Reached | PacketKind::Open => {
                if header.kind == PacketKind::Ready {
                    let was_unasked = self
                        .unasked
                        .get(&(node, group, false))
                        .is_some_and(|all| all.iter().any(|&(each, _)| each == sequence));
                    self.settle(node, group, false, sequence);
                    if was_unasked && !self.collectives.contains_key(&key) {
                        return Ok(());
                    }
                }
                match self.collectives.get_mut(&key) {
                    Some(run) => control(run, &header),
                    None if header.kind == PacketKind::Arrived => {}
                    None => self.keep_early(key, header, data).ok_or_else(unknown)?,
                }
            }
            PacketKind::Message | PacketKind::Offer => {
                let is_whole = header.kind == PacketKind::Message;
                let length = match (is_whole, <[u8; 8]>::try_from(data)) {
                    (true, _) => data.len(),
                    (false, Ok(bytes)) => u64::from_le_bytes(bytes) as usize,
                    (false, Err(_)) => return Err(unknown()),
                };
                let data = is_whole.then(|| data.to_vec());
                let offer = Offer { from: node, tag: header.item, number: sequence, length, data, asks: header.asks };
                if node as usize >= self.routes.len() {
                    return Err(unknown());
                }
                if let Some((id, offer)) = self.messages.offered(group, offer) {
                    self.accept(group, id, offer);
                    self.store(id, lent);
                }
            }
            PacketKind::Go => {
                if let Some(id) = self.messages.sending.get(&(group, node, sequence))
                    && let Some(run) = self.messages.sends.get_mut(id)
                {
                    run.is_wanted = true;
                } else {
                    self.settle(node, group, true, sequence);
                }
            }
            PacketKind::Part => self.part(header, data, lent).ok_or_else(unknown)?,
            PacketKind::PartArrived => {
                if let Some(id) = self.messages.sending.get(&(group, node, sequence))
                    && let Some(run) = self.messages.sends.get_mut(id)
                {
                    run.arrived += 1;
                }
            }
        }
        Ok(())
    }

    /// Sends a packet on to its next link. `None` if that link does not leave this node.
    fn pass(&mut self, header: PacketHeader, packet: &[u8]) -> Option<()> {
        let (head, rest) = packet.split_at(PACKET_HEADER_BYTES + HOP_BYTES * header.hops as usize);
        let hop = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let hops: Vec<u16> = (PACKET_HEADER_BYTES..head.len()).step_by(HOP_BYTES).map(hop).collect();
        let port = &mut self.ports[*self.port_of_link.get(&(hops[0] as LinkId))?];
        let mut passing = Vec::with_capacity(packet.len());
        header.write(&hops[1..], &mut passing);
        passing.extend_from_slice(rest);
        match header.kind.is_bulk() {
            true => port.passing.push_back(passing),
            false => port.control.push_back(passing),
        }
        self.passed = Some(Instant::now());
        Some(())
    }

    /// Keeps a packet until its collective begins. `None` if there are too many.
    fn keep_early(&mut self, key: RunKey, header: PacketHeader, data: &[u8]) -> Option<()> {
        if self.ended.contains(&key) {
            return Some(());
        }
        self.early_bytes += data.len();
        self.early.entry(key).or_default().push((header, data.to_vec()));
        (self.early_bytes <= MAX_EARLY_BYTES).then_some(())
    }

    /// Takes data of a collective.
    fn data(&mut self, key: RunKey, header: PacketHeader, data: &[u8], lent: &mut Lent<'_, '_>) -> Option<()> {
        let Some(run) = self.collectives.get_mut(&key) else { return self.keep_early(key, header, data) };
        let asked_by = run.plan.sender_of(header.item).filter(|_| header.asks);
        let Some(memory) = lent.get_mut(&key) else {
            run.waiting.push_back((header, data.to_vec()));
            return Some(());
        };
        match run.take(&header, data, memory) {
            Ok(None) => {}
            Ok(Some(node)) => self.tell_arrived(key, &header, node),
            Err(error) => self.end_collective(key, Err(error)),
        }
        asked_by.into_iter().for_each(|node| self.tell_ready(key, node));
        Some(())
    }

    fn tell_arrived(&mut self, key: RunKey, header: &PacketHeader, node: NodeId) {
        if let RunKey::Collective { group, sequence } = key {
            let arrived = about(PacketKind::Arrived, group, sequence, self.node);
            self.control(node, PacketHeader { item: header.item, chunk: header.chunk, ..arrived }, &[]);
        }
    }

    /// Does what runs can do whose memory is lent. True if anything happened.
    fn go_on(&mut self, lent: &mut Lent<'_, '_>) -> bool {
        let mut has_changed = false;
        for (&key, memory) in lent.iter_mut() {
            match key {
                RunKey::Collective { .. } => has_changed |= self.go_on_with(key, memory),
                RunKey::Send(id) => has_changed |= self.give_parts(id),
                RunKey::Receive(id) => has_changed |= self.store_in(id, memory),
            }
        }
        has_changed
    }

    fn go_on_with(&mut self, key: RunKey, memory: &mut LentMemory<'_>) -> bool {
        let Some(run) = self.collectives.get_mut(&key) else { return false };
        let mut has_changed = false;
        let mut arrived = vec![];
        let mut outcome = Ok(());
        while let Some((header, data)) = run.waiting.pop_front() {
            has_changed = true;
            match run.take(&header, &data, memory) {
                Ok(Some(node)) => arrived.push((header, node)),
                Ok(None) => {}
                Err(error) => outcome = Err(error),
            }
        }
        let unasked = &self.unasked_bytes;
        let mut to_send = vec![];
        let may_send = |node: NodeId| unasked[node as usize] < UNASKED_BYTES;
        match run.go_on(memory, may_send, |each| to_send.push(each)) {
            Ok(more) => has_changed |= more,
            Err(error) => outcome = Err(error),
        }
        arrived.into_iter().for_each(|(header, node)| self.tell_arrived(key, &header, node));
        to_send.into_iter().for_each(|each| self.give(key, each));
        match outcome {
            Ok(()) => self.finish_if_done(key),
            Err(error) => self.end_collective(key, Err(error)),
        }
        has_changed
    }

    /// Gives ports what a collective sends.
    fn give(&mut self, key: RunKey, what: ToSend) {
        let RunKey::Collective { group, sequence } = key else { return };
        let Some(run) = self.collectives.get(&key) else { return };
        match what {
            ToSend::Control(node, header) => {
                let header = PacketHeader { group, sequence, plan: self.node, ..header };
                self.control(node, header, &[]);
            }
            ToSend::Message(message, pieces, length) => {
                let plan = run.plan.clone();
                let route = plan.route(message.transfer);
                let Some(&port) = route.first().and_then(|link| self.port_of_link.get(link)) else {
                    let what = format!("{} leaves rank {} by a link that is not its own", message.transfer, plan.rank);
                    return self.end_collective(key, Err(Error::new(Code::Stalled, what)));
                };
                let to = plan.nodes[plan.schedule.transfers[message.transfer as usize].to as usize];
                let is_unasked = !run.has_begun(to);
                let asks = is_unasked && self.note_unasked(to, group, false, sequence, length);
                let header = PacketHeader {
                    asks,
                    epoch: self.epoch,
                    item: message.transfer,
                    chunk: message.chunk as u32,
                    plan: plan.hash(),
                    ..PacketHeader::new(PacketKind::Data, group, sequence)
                };
                let hops = route[1..].iter().map(|&link| link as u16).collect();
                let own = OwnMessage { key, header, hops, pieces, length, gone: 0, message: Some(message) };
                self.ports[port].own.push_back(own);
            }
        }
    }

    fn finish_if_done(&mut self, key: RunKey) {
        if self.collectives.get(&key).is_some_and(CollectiveRun::is_done) {
            self.end_collective(key, Ok(self.node));
        }
    }

    fn end_collective(&mut self, key: RunKey, outcome: Result<NodeId>) {
        let Some(run) = self.collectives.remove(&key) else { return };
        if let RunKey::Collective { group, sequence } = key {
            // Who sent data has begun.
            let plan = &run.plan;
            let heard = plan.nodes.iter().zip(&plan.from).filter(|&(_, &bytes)| bytes > 0);
            let heard: Vec<NodeId> = heard.map(|(&node, _)| node).collect();
            if outcome.is_ok() {
                heard.into_iter().for_each(|node| self.settle(node, group, false, sequence));
            }
        }
        if outcome.is_err() {
            self.ended.insert(key);
            self.ports.iter_mut().for_each(|port| port.own.retain(|message| message.key != key));
        }
        self.finished.insert(key, outcome);
    }

    /// Ends all that runs, with an error.
    pub fn fail_all(&mut self, error: &Error) {
        let keys: Vec<RunKey> = self.collectives.keys().copied().collect();
        keys.into_iter().for_each(|key| self.end_collective(key, Err(error.clone())));
        let sends: Vec<u64> = self.messages.sends.keys().copied().collect();
        sends.into_iter().for_each(|id| self.end_send(id, Err(error.clone())));
        let receives: Vec<u64> = self.messages.receives.keys().copied().collect();
        for id in receives {
            self.messages.withdraw(id);
            self.finished.insert(RunKey::Receive(id), Err(error.clone()));
        }
        self.ports.iter_mut().for_each(|port| port.own.clear());
    }

    /// Gives up a run, which is told nothing more.
    pub fn give_up(&mut self, key: RunKey) {
        let given_up = || Err(Error::new(Code::Interrupted, "given up"));
        match key {
            RunKey::Collective { .. } => self.end_collective(key, given_up()),
            RunKey::Send(id) => self.end_send(id, given_up()),
            RunKey::Receive(id) => self.messages.withdraw(id),
        }
        self.ports.iter_mut().for_each(|port| port.own.retain(|message| message.key != key));
        self.finished.remove(&key);
    }

    /// Parts of the memory of a run that have become final since this was asked last.
    pub fn final_parts(&mut self, key: RunKey) -> Vec<u32> {
        self.collectives.get_mut(&key).map_or(vec![], |run| run.progress.final_parts())
    }

    /// What a run waits for, in words.
    pub fn waits_for(&self, key: RunKey) -> String {
        match key {
            RunKey::Collective { .. } => self.collectives.get(&key).map_or(String::new(), CollectiveRun::waits_for),
            RunKey::Send(id) => self
                .messages
                .sends
                .get(&id)
                .map_or(String::new(), |run| format!("rank {} to take a message of {} bytes", run.to, run.length)),
            RunKey::Receive(id) => self.messages.receives.get(&id).map_or(String::new(), |run| {
                let from = run.from.or(run.source).map_or("any rank".into(), |node| format!("rank {node}"));
                format!("a message of {} bytes from {from}", run.length)
            }),
        }
    }
}

/// A packet of a collective that is about it.
fn control(run: &mut CollectiveRun, header: &PacketHeader) {
    match header.kind {
        PacketKind::Ready => run.begun(header.plan),
        PacketKind::Arrived => run.arrived(header),
        PacketKind::Reached => run.reached(header.plan, header.chunk as usize),
        PacketKind::Open => run.open(header.chunk as usize),
        _ => {}
    }
}
