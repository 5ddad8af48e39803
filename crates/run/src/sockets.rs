//! One node of a fabric whose links are TCP connections: it runs a rank's part of schedules, and passes on the packets
//! that others send through it.

use super::{ElementType, RankMessage, RankProgress, gather, pieces};
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::{Schedule, TransferId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes in front of a packet's data: its transfer, chunk, bytes of the message, and its own.
pub const HEADER_BYTES: usize = 16;
/// Bytes that the system may buffer for a link. Few, so that the choice of the next packet is made late.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Messages of a rank that a link is given at once: the one on its way, and the next.
const AHEAD: usize = 2;
/// Time between two attempts to join a link.
const RETRY: Duration = Duration::from_millis(20);
/// Transfer in the header that ends a run.
const END: TransferId = TransferId::MAX;

/// A node and its links.
#[derive(Debug)]
pub struct SocketNode {
    outs: Vec<(LinkId, TcpStream)>,
    ins: Vec<(LinkId, TcpStream)>,
    packet_bytes: usize,
    spares: Spares,
}

/// Buffers that a node no longer needs, kept for the next message. Memory given back to the system returns page by
/// page, which took 7 % of a run with as many nodes as a machine can drive.
#[derive(Debug, Default)]
struct Spares {
    messages: Pool,
    /// Packets that passed, with their headers.
    packets: Pool,
}

#[derive(Debug, Default)]
struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    /// An empty buffer.
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn keep(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// An order to a node during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeOrder {
    /// All nodes are ready.
    Begin,
    /// So many barriers are open.
    Open(usize),
    /// All ranks are done.
    End,
}

/// Where orders for a node go during a run.
#[derive(Debug, Clone)]
pub struct NodeOrders(Sender<SocketEvent>);

impl NodeOrders {
    /// Orders, and the inbox that takes them to [`SocketNode::run`].
    pub fn new() -> (NodeOrders, Inbox) {
        let (sender, receiver) = channel();
        (NodeOrders(sender.clone()), Inbox { sender, receiver })
    }

    /// Gives one; in vain if the run is over.
    pub fn give(&self, order: NodeOrder) {
        _ = self.0.send(SocketEvent::Told(order));
    }
}

/// The events of a node during a run.
#[derive(Debug)]
pub struct Inbox {
    sender: Sender<SocketEvent>,
    receiver: Receiver<SocketEvent>,
}

/// What a node reports during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It waits for [`NodeOrder::Begin`].
    Ready,
    /// Its rank has reached so many barriers.
    Reached(usize),
    /// Its rank is done.
    Done,
}

/// A rank at a node.
#[derive(Debug)]
pub struct AtNode<'a> {
    /// Of the programs of links; nothing has happened.
    pub rank: RankProgress,
    /// Its buffer.
    pub memory: &'a mut [u8],
    /// What is in it.
    pub element: ElementType,
}

impl SocketNode {
    /// Listens for links that come in, at addresses of this node.
    ///
    /// # Errors
    /// [`Code::Stalled`] if an address cannot be had.
    pub fn listen(ins: &[(LinkId, SocketAddr)]) -> Result<Vec<(LinkId, TcpListener)>> {
        let listen = |&(link, at): &(LinkId, SocketAddr)| Ok((link, TcpListener::bind(at).map_err(of_link(link))?));
        ins.iter().map(listen).collect()
    }

    /// Joins links, all within `patience`: `ins` where it listens, `outs` at addresses where others do. Packets carry
    /// `packet_bytes` of data.
    ///
    /// # Errors
    /// [`Code::Stalled`] if a link does not come about.
    pub fn connect(
        ins: Vec<(LinkId, TcpListener)>,
        outs: &[(LinkId, SocketAddr)],
        packet_bytes: usize,
        patience: Duration,
    ) -> Result<SocketNode> {
        let deadline = Instant::now().checked_add(patience);
        let join = |&(link, at): &(LinkId, SocketAddr)| soon(link, deadline, || join(at));
        let outs = outs.iter().map(join).collect::<Result<_>>()?;
        let accept = |(link, listener): (LinkId, TcpListener)| soon(link, deadline, || accept(&listener));
        let ins = ins.into_iter().map(accept).collect::<Result<_>>()?;
        Ok(SocketNode { outs, ins, packet_bytes, spares: Spares::default() })
    }

    /// Sends `bytes` on all links at once, and returns the rate in bytes a second at which the last half came on every link
    /// that comes in.
    ///
    /// # Errors
    /// [`Code::Stalled`] if a link breaks.
    pub fn probe(&self, bytes: usize) -> Result<Vec<(LinkId, f64)>> {
        let send = |mut stream: &TcpStream| -> io::Result<()> {
            let data = vec![0; HEADER_BYTES + self.packet_bytes];
            (0..bytes.div_ceil(data.len())).try_for_each(|_| stream.write_all(&data))
        };
        let receive = |mut stream: &TcpStream| -> io::Result<f64> {
            let packet = HEADER_BYTES + self.packet_bytes;
            let total = bytes.div_ceil(packet) * packet;
            let (mut buffer, mut have, mut half) = (vec![0; 1 << 16], 0, None);
            while have < total {
                let room = buffer.len().min(total - have);
                match stream.read(&mut buffer[..room])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    more => have += more,
                }
                if have >= total / 2 && half.is_none() {
                    half = Some((have, Instant::now()));
                }
            }
            let (at, since) = half.expect("there is a half");
            Ok((total - at) as f64 / since.elapsed().as_secs_f64())
        };
        thread::scope(|scope| {
            let sends: Vec<_> = self.outs.iter().map(|(_, stream)| scope.spawn(move || send(stream))).collect();
            let receives: Vec<_> =
                self.ins.iter().map(|(link, stream)| (*link, scope.spawn(move || receive(stream)))).collect();
            let rates = receives.into_iter().map(|(link, thread)| joined(thread.join()).map(|rate| (link, rate)));
            let rates: Result<Vec<_>> = rates.collect();
            sends.into_iter().try_for_each(|thread| joined(thread.join()))?;
            rates
        })
    }

    /// Runs a schedule on all nodes, from when it is told to begin until it is told to end.
    ///
    /// # Errors
    /// [`Code::Stalled`] if a link breaks or, once it has begun, nothing happens for `patience`, naming the message that the rank
    /// waits for.
    pub fn run(
        &self,
        schedule: &Schedule,
        mut at_node: Option<AtNode>,
        inbox: Inbox,
        patience: Duration,
        mut tell: impl FnMut(News),
    ) -> Result<()> {
        let Inbox { sender: events, receiver: happened } = inbox;
        let queues: HashMap<LinkId, LinkQueue> =
            self.outs.iter().map(|(link, _)| (*link, LinkQueue::default())).collect();
        thread::scope(|scope| {
            let mut threads = vec![];
            for (link, stream) in &self.outs {
                let (queue, events) = (&queues[link], events.clone());
                threads.push(scope.spawn(move || queue.send_all(stream, self.packet_bytes, &self.spares, &events)));
            }
            for (link, stream) in &self.ins {
                let (queues, events) = (&queues, events.clone());
                threads.push(scope.spawn(move || receive_all(*link, stream, schedule, queues, &self.spares, &events)));
            }
            tell(News::Ready);
            let streams = at_node.iter().flat_map(|at| at.rank.streams()).map(|(link, sends)| sends.then_some(link));
            let outcome = Course {
                schedule,
                spares: &self.spares,
                streams: streams.map(|link| (link, 0)).collect(),
                at_node: &mut at_node,
                queues: &queues,
                held: BTreeMap::new(),
                has_begun: false,
                reached: 0,
                is_done: false,
            }
            .follow(&happened, patience, &mut tell);
            queues.values().for_each(LinkQueue::close);
            if outcome.is_err() {
                // The others end, too, and wait for nothing that cannot come.
                let streams = self.outs.iter().chain(&self.ins);
                streams.for_each(|(_, stream)| _ = stream.shutdown(std::net::Shutdown::Both));
            }
            let links = threads.into_iter().try_for_each(|thread| joined(thread.join()));
            outcome.and(links)
        })
    }
}

/// Names the link that failed.
fn of_link(link: LinkId) -> impl Fn(io::Error) -> Error {
    move |what| Error::new(Code::Stalled, format!("link {link}: {what}"))
}

/// The connection of a link, tried for again and again until `deadline`, if there is one.
fn soon(
    link: LinkId,
    deadline: Option<Instant>,
    connection: impl Fn() -> io::Result<TcpStream>,
) -> Result<(LinkId, TcpStream)> {
    loop {
        match connection() {
            Ok(stream) => return Ok((link, stream)),
            Err(what) if deadline.is_some_and(|deadline| Instant::now() > deadline) => return Err(of_link(link)(what)),
            Err(_) => thread::sleep(RETRY),
        }
    }
}

/// Joins a link where somebody listens.
fn join(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, Duration::from_secs(1))?;
    socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The connection that waits to be accepted.
fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let (stream, _) = listener.accept().map_err(|what| match what.kind() {
        io::ErrorKind::WouldBlock => io::Error::other("nobody joined it"),
        _ => what,
    })?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn joined<T>(outcome: thread::Result<io::Result<T>>) -> Result<T> {
    let broken = |what: io::Error| Error::new(Code::Stalled, format!("a link of this node broke: {what}"));
    outcome.unwrap_or_else(|_| Err(io::Error::other("its thread panicked"))).map_err(broken)
}

/// An event for the thread of a rank.
#[derive(Debug)]
enum SocketEvent {
    Sent(RankMessage),
    Arrived(TransferId, u64, Vec<u8>),
    Told(NodeOrder),
}

/// One run at one node.
struct Course<'a, 'b> {
    schedule: &'a Schedule,
    spares: &'a Spares,
    at_node: &'a mut Option<AtNode<'b>>,
    /// For every stream of the rank: the link if it sends, and the messages that the link has.
    streams: Vec<(Option<LinkId>, usize)>,
    queues: &'a HashMap<LinkId, LinkQueue>,
    /// Arrived messages that must wait, by transfer; the chunks of a transfer go in order.
    held: BTreeMap<TransferId, VecDeque<(RankMessage, Vec<u8>)>>,
    has_begun: bool,
    reached: usize,
    is_done: bool,
}

impl Course<'_, '_> {
    fn follow(
        &mut self,
        happened: &Receiver<SocketEvent>,
        patience: Duration,
        tell: &mut impl FnMut(News),
    ) -> Result<()> {
        loop {
            if self.has_begun {
                self.go_on(tell)?;
            }
            // Others may take any time to be ready.
            let patience = if self.has_begun { patience } else { Duration::MAX };
            let Ok(first) = happened.recv_timeout(patience) else {
                let waits = self.at_node.as_ref().and_then(|at| at.rank.waits_for(self.schedule));
                let what = waits.map_or("the others".into(), |message| super::describe(self.schedule, &message));
                let what = format!("waited {:.0} s for {what}", patience.as_secs_f64());
                return Err(Error::new(Code::Stalled, what));
            };
            for event in std::iter::once(first).chain(happened.try_iter()) {
                match (event, &mut self.at_node) {
                    (SocketEvent::Told(NodeOrder::Begin), _) => self.has_begun = true,
                    (SocketEvent::Told(NodeOrder::End), _) => return Ok(()),
                    (SocketEvent::Told(NodeOrder::Open(barriers)), Some(at)) => at.rank.open(barriers),
                    (SocketEvent::Sent(message), Some(at)) => {
                        at.rank.sent(&message);
                        self.streams[message.stream].1 -= 1;
                    }
                    (SocketEvent::Arrived(transfer, chunk, data), Some(at)) => {
                        let message = at.rank.arrival(transfer, chunk).ok_or_else(|| {
                            Error::new(Code::Stalled, format!("transfer {transfer} came to a rank that it is not for"))
                        })?;
                        self.held.entry(transfer).or_default().push_back((message, data));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds or stores the arrived messages that may be.
    fn apply(&mut self) {
        let Some(at) = &mut self.at_node else { return };
        let mut has_changed = true;
        while std::mem::take(&mut has_changed) {
            for waiting in self.held.values_mut() {
                while waiting.front().is_some_and(|(message, _)| at.rank.may_apply(message)) {
                    let Some((message, data)) = waiting.pop_front() else { break };
                    let mut rest = &data[..];
                    for piece in pieces(self.schedule, &message, at.element.bytes()) {
                        let (now, later) = rest.split_at(piece.len());
                        at.element.apply(message.action, &mut at.memory[piece], now);
                        rest = later;
                    }
                    self.spares.messages.keep(data);
                    at.rank.applied(&message);
                    has_changed = true;
                }
            }
            self.held.retain(|_, waiting| !waiting.is_empty());
        }
    }

    /// Does all that the rank can do now.
    fn go_on(&mut self, tell: &mut impl FnMut(News)) -> Result<()> {
        self.apply();
        let Some(at) = &mut self.at_node else {
            if !std::mem::replace(&mut self.is_done, true) {
                tell(News::Done);
            }
            return Ok(());
        };
        let reached = at.rank.reached();
        if reached > self.reached {
            self.reached = reached;
            tell(News::Reached(reached));
        }
        for (stream, (link, given)) in self.streams.iter_mut().enumerate() {
            let Some(link) = *link else { continue };
            while *given < AHEAD
                && let Some(message) = at.rank.next_send(stream)
            {
                let mut data = self.spares.messages.take();
                gather(&pieces(self.schedule, &message, at.element.bytes()), at.memory, &mut data);
                let Some(queue) = self.queues.get(&link) else {
                    return Err(Error::new(Code::Stalled, format!("link {link} does not leave this node")));
                };
                queue.own(message, data);
                *given += 1;
            }
        }
        if at.rank.is_done() && !std::mem::replace(&mut self.is_done, true) {
            tell(News::Done);
        }
        Ok(())
    }
}

/// Packets that a link has still to send.
#[derive(Default)]
struct LinkQueue {
    waiting: Mutex<QueuedPackets>,
    changed: Condvar,
}

#[derive(Default)]
struct QueuedPackets {
    /// The rank's own messages.
    own: VecDeque<(RankMessage, Vec<u8>)>,
    /// Packets from elsewhere, with their headers.
    passing: VecDeque<Vec<u8>>,
    is_closed: bool,
}

impl LinkQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedPackets> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self, message: RankMessage, data: Vec<u8>) {
        self.lock().own.push_back((message, data));
        self.changed.notify_one();
    }

    fn pass(&self, packet: Vec<u8>) {
        self.lock().passing.push_back(packet);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Sends own packets and those that pass in turn until it is closed and empty.
    fn send_all(
        &self,
        mut stream: &TcpStream,
        packet_bytes: usize,
        spares: &Spares,
        events: &Sender<SocketEvent>,
    ) -> io::Result<()> {
        let mut passes = false;
        // The own message on its way, and bytes of it that are gone.
        let mut current: Option<(RankMessage, Vec<u8>, usize)> = None;
        loop {
            let mut waiting = self.lock();
            if current.is_none() {
                let empty = |waiting: &mut QueuedPackets| {
                    !waiting.is_closed && waiting.own.is_empty() && waiting.passing.is_empty()
                };
                waiting = self.changed.wait_while(waiting, empty).unwrap_or_else(PoisonError::into_inner);
                current = waiting.own.pop_front().map(|(message, data)| (message, data, 0));
            }
            passes = current.is_none() || !passes && !waiting.passing.is_empty();
            let passing = if passes { waiting.passing.pop_front() } else { None };
            drop(waiting);
            if let Some(packet) = passing {
                stream.write_all(&packet)?;
                spares.packets.keep(packet);
                continue;
            }
            let Some((message, data, gone)) = &mut current else {
                return stream.write_all(&header(END, 0, 0, 0));
            };
            let packet = &data[*gone..data.len().min(*gone + packet_bytes)];
            write_both(stream, &header(message.transfer, message.chunk, data.len(), packet.len()), packet)?;
            *gone += packet.len();
            if *gone == data.len() {
                _ = events.send(SocketEvent::Sent(*message));
                spares.messages.keep(std::mem::take(data));
                current = None;
            }
        }
    }
}

/// In front of `bytes` of a message of `length`, which is below 4 GiB.
fn header(transfer: TransferId, chunk: u64, length: usize, bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let words = [transfer, chunk as u32, length as u32, bytes as u32];
    header.chunks_exact_mut(4).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
    header
}

/// Writes two slices, without a copy of them.
fn write_both(mut stream: &TcpStream, first: &[u8], second: &[u8]) -> io::Result<()> {
    let done = loop {
        match stream.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
            Err(what) if what.kind() == io::ErrorKind::Interrupted => {}
            outcome => break outcome?,
        }
    };
    stream.write_all(&first[done.min(first.len())..])?;
    stream.write_all(&second[done.saturating_sub(first.len())..])
}

/// Takes packets from a link until its end: those for this node are put together, others go on.
fn receive_all(
    link: LinkId,
    stream: &TcpStream,
    schedule: &Schedule,
    queues: &HashMap<LinkId, LinkQueue>,
    spares: &Spares,
    events: &Sender<SocketEvent>,
) -> io::Result<()> {
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    let mut messages: HashMap<(TransferId, u64), Vec<u8>> = HashMap::new();
    loop {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header)?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (transfer, chunk, length, bytes) = (word(0), word(4) as u64, word(8) as usize, word(12) as usize);
        if transfer == END {
            return Ok(());
        }
        let unknown = || io::Error::other("it brought what no schedule sends");
        let route = &schedule.transfers.get(transfer as usize).ok_or_else(unknown)?.route;
        let hop = route.iter().position(|&on| on == link).ok_or_else(unknown)?;
        if let Some(next) = route.get(hop + 1) {
            let mut packet = spares.packets.take();
            packet.extend_from_slice(&header);
            packet.resize(HEADER_BYTES + bytes, 0);
            stream.read_exact(&mut packet[HEADER_BYTES..])?;
            queues.get(next).ok_or_else(unknown)?.pass(packet);
            continue;
        }
        let message = messages.entry((transfer, chunk)).or_insert_with(|| spares.messages.take());
        message.reserve_exact(length.saturating_sub(message.len()));
        let have = message.len();
        message.resize(have + bytes, 0);
        stream.read_exact(&mut message[have..])?;
        if message.len() == length {
            let data = messages.remove(&(transfer, chunk)).unwrap_or_default();
            _ = events.send(SocketEvent::Arrived(transfer, chunk, data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::assert_has;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::fabric::Fabric;
    use antiphon_model::schedule::Program;
    use antiphon_model::system::System;
    use antiphon_plan::algorithm::build;
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Nodes of a fabric, joined through this machine's loop.
    fn nodes(fabric: &Fabric) -> Vec<SocketNode> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let links: Vec<(LinkId, SocketAddr)> = (0..fabric.links.len() as u32).map(|link| (link, any_port)).collect();
        let mut listeners: Vec<Vec<_>> = fabric.nodes.iter().map(|_| vec![]).collect();
        let mut outs: Vec<Vec<_>> = listeners.iter().map(|_| vec![]).collect();
        for (link, listener) in SocketNode::listen(&links).unwrap() {
            let ends = &fabric.links[link as usize];
            outs[ends.from as usize].push((link, listener.local_addr().unwrap()));
            listeners[ends.to as usize].push((link, listener));
        }
        let connect = |ins, outs: &[_]| SocketNode::connect(ins, outs, 1000, Duration::from_secs(5)).unwrap();
        thread::scope(|scope| {
            let ends = listeners.into_iter().zip(&outs);
            let threads: Vec<_> = ends.map(|(ins, outs)| scope.spawn(move || connect(ins, outs))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn run(fabric: &Fabric, nodes: &[SocketNode], schedule: &Schedule) -> Vec<Vec<u8>> {
        let program = Program::of_links(schedule);
        let mut data: Vec<Vec<u8>> = (0..schedule.ranks)
            .map(|rank| (0..schedule.bytes as u32 / 4).flat_map(|at| (at + rank).to_le_bytes()).collect())
            .collect();
        let (orders, inboxes): (Vec<_>, Vec<_>) = nodes.iter().map(|_| NodeOrders::new()).unzip();
        let (reached, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let mut memories: HashMap<u32, (u32, &mut Vec<u8>)> =
                (0..).zip(&mut data).map(|(rank, memory)| (fabric.node_of_rank(rank), (rank, memory))).collect();
            for ((number, node), inbox) in (0..).zip(nodes).zip(inboxes) {
                let at_node = memories.remove(&number).map(|(rank, memory)| AtNode {
                    rank: RankProgress::new(schedule, &program, rank),
                    memory,
                    element: ElementType::Int32,
                });
                let (orders, reached, done, ranks) = (&orders, &reached, &done, schedule.ranks as usize);
                let tell = move |news| {
                    let all = |order: NodeOrder| orders.iter().for_each(|each| each.give(order));
                    match news {
                        News::Reached(_) if (reached.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(ranks) => {
                            all(NodeOrder::Open(reached.load(Ordering::SeqCst) / ranks));
                        }
                        News::Done if done.fetch_add(1, Ordering::SeqCst) + 1 == nodes.len() => all(NodeOrder::End),
                        _ => {}
                    }
                };
                orders[number as usize].give(NodeOrder::Begin);
                scope.spawn(move || node.run(schedule, at_node, inbox, Duration::from_secs(5), tell).unwrap());
            }
        });
        data
    }

    #[test]
    fn schedules_run_over_links_and_relays() {
        for (spec, algorithm) in
            [("mesh:3x2", "ring"), ("mesh:3x2", "combs"), ("switch:4", "ring-bi"), ("mesh:4", "direct")]
        {
            let fabric = Fabric::parse(spec).unwrap();
            let nodes = nodes(&fabric);
            let collective = Collective::new(Kind::AllReduce);
            let schedule = build(&fabric, &System::default(), collective, 24_000, algorithm).unwrap();
            for _ in 0..2 {
                let data = run(&fabric, &nodes, &schedule);
                let ranks = schedule.ranks;
                let sum: Vec<u8> =
                    (0..6000u32).flat_map(|at| (at * ranks + ranks * (ranks - 1) / 2).to_le_bytes()).collect();
                assert!(data.iter().all(|own| *own == sum), "{spec} {algorithm}");
            }
            let rates = nodes[0].ins.len();
            thread::scope(|scope| {
                let probes: Vec<_> = nodes.iter().map(|node| scope.spawn(|| node.probe(200_000).unwrap())).collect();
                let found: Vec<_> = probes.into_iter().map(|probe| probe.join().unwrap()).collect();
                assert_eq!(found[0].len(), rates);
                assert!(found.iter().flatten().all(|&(_, rate)| rate > 0.0));
            });
        }
    }

    #[test]
    fn nobody_waits_for_long_for_a_link() {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let ins = SocketNode::listen(&[(7, any_port)]).unwrap();
        let taken = ins[0].1.local_addr().unwrap();
        assert_has(&SocketNode::listen(&[(3, taken)]).unwrap_err().message, &["link 3: ", "in use"]);
        let patience = Duration::from_millis(50);
        let error = SocketNode::connect(ins, &[], 1000, patience).unwrap_err();
        assert_eq!((error.code, &error.message[..]), (Code::Stalled, "link 7: nobody joined it"));
        // Below the ports that systems hand out: nobody listens there.
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let error = SocketNode::connect(vec![], &[(7, nobody)], 1000, patience).unwrap_err();
        assert!(error.code == Code::Stalled && error.message.starts_with("link 7: "), "{error}");
    }

    #[test]
    fn a_node_that_hears_nothing_says_what_it_waits_for() {
        let fabric = Fabric::parse("ring:2").unwrap();
        let nodes = nodes(&fabric);
        let schedule = build(&fabric, &System::default(), Collective::new(Kind::AllReduce), 4000, "ring").unwrap();
        let (orders, inbox) = NodeOrders::new();
        orders.give(NodeOrder::Begin);
        let mut memory = vec![0; 4000];
        let rank = RankProgress::new(&schedule, &Program::of_links(&schedule), 0);
        let at_node = Some(AtNode { rank, memory: &mut memory, element: ElementType::Float32 });
        let error = nodes[0].run(&schedule, at_node, inbox, Duration::from_millis(50), |_| {}).unwrap_err();
        assert!(error.code == Code::Stalled && error.message.contains("rank 1 to 0"), "{error}");
    }
}
