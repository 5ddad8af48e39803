//! Replay: how long the messages of a timetable take, event by event.
//!
//! A timetable says when messages are due if none waits but for its data and its links. Where there are few of them, what waits for
//! what decides, in queues of switches too; so of the tables that promise most the best is found by this. It follows
//! the rules of packets in docs/simulation.md: links send what their senders have in the order of the slots, switches what comes in
//! the order in which it comes, ranks add one message at a time.

use super::pace::Wait;
use super::table::Message;
use super::timetable::Timed;
use crate::algorithm::Request;
use crate::fabric::LinkId;
use crate::schedule::{self, Op};
use crate::units::{Bytes, Picos};
use crate::watch::interruptible;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// What happens; at one time in this order, then in that of links and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A link has sent what it had.
    Sent { link: LinkId },
    /// A packet has come to the link that is hop `hop` of its route.
    Comes { piece: u32, hop: u32, last: bool },
    /// A message has come to its receiver.
    Received { piece: u32 },
    /// It has been added or stored.
    Applied { piece: u32 },
    /// It has left its first link, and others wait for that.
    Left { piece: u32 },
}

/// What a link sends, or is to send: a packet, or a message where nothing else can come between its packets.
#[derive(Debug, Clone, Copy)]
struct Service {
    piece: u32,
    hop: u32,
    last: bool,
}

/// A link, and what its sender has for it.
#[derive(Default)]
struct Line {
    /// Pieces that start here, in the order in which they must, and how many have been sent.
    own: Vec<u32>,
    sent: usize,
    /// Packets of the next of them that have been sent, and whether it waits in the queue.
    packets: u64,
    asks: bool,
    queue: VecDeque<Service>,
    now: Option<Service>,
    /// Whether packets of other senders pass.
    is_shared: bool,
}

/// A message of all rounds.
struct Course<'a> {
    route: &'a [LinkId],
    to: u32,
    adds: Picos,
    packets: u64,
    /// Messages that wait until it is sent, or applied, and how many rounds later.
    next: [Vec<(u32, u32)>; 2],
}

/// See the module.
pub(super) struct Replay<'a> {
    request: &'a Request<'a>,
    flit_times: &'a [Picos],
    rounds: u64,
    courses: Vec<Course<'a>>,
    /// Flits of a packet of every message.
    flits: Vec<u64>,
    lines: Vec<Line>,
    /// Of every piece, what it still waits for.
    missing: Vec<u32>,
    /// When every rank has added what has come.
    adder: Vec<Picos>,
    events: BinaryHeap<Reverse<(Picos, Event)>>,
    end: Picos,
}

impl<'a> Replay<'a> {
    /// Of all rounds of a table whose trees move so many bytes, on links with these flit times. Every message crosses a link.
    /// O(messages of all rounds * log messages).
    pub fn new(request: &'a Request<'a>, timed: &Timed<'a>, bytes: Bytes, flit_times: &'a [Picos]) -> Self {
        let Timed { table, moments, rounds, .. } = timed;
        let pieces = table.pieces(bytes, *rounds);
        // As schedules have them: by slot.
        let mut messages: Vec<(usize, Message)> = table.messages(table.work.ops()).enumerate().collect();
        messages.sort_by_key(|(_, message)| message.slot);
        let mut places = vec![0; messages.len()];
        (0..).zip(&messages).for_each(|(place, message)| places[message.0] = place);
        let (mut courses, mut flits) = (vec![], vec![]);
        let mut lines: Vec<Line> = flit_times.iter().map(|_| Line::default()).collect();
        for (_, Message { tree, op, to, route, .. }) in &messages {
            let packets = request.system.packets(pieces[*tree]);
            let adds = if *op == Op::Reduce { request.system.reduce_time(pieces[*tree]) } else { 0 };
            courses.push(Course { route, to: *to, adds, packets: packets.count, next: Default::default() });
            flits.push(packets.flits);
            if route.len() > 1 {
                route.iter().for_each(|&link| lines[link as usize].is_shared = true);
            }
        }
        let mut order: Vec<(u64, u32, u32)> = vec![];
        for (place, (_, message)) in (0..).zip(&messages) {
            let slot = |round: u64| u64::from(message.slot) + round * u64::from(table.period);
            order.extend((0..*rounds as u32).map(|round| (slot(round.into()), place, round)));
        }
        order.sort_unstable();
        for (_, place, round) in interruptible(order) {
            let first = courses[place as usize].route[0];
            lines[first as usize].own.push(place * *rounds as u32 + round);
        }
        let mut missing = vec![0; courses.len() * *rounds as usize];
        let mut waits = |message: u32, other: u32, event: schedule::Event, lag: u32| {
            courses[other as usize].next[event as usize].push((message, lag));
            for round in lag..*rounds as u32 {
                missing[(message * *rounds as u32 + round) as usize] += 1;
            }
        };
        // What comes to a rank of a tree, by operation.
        let mut coming: HashMap<(usize, u32), [Vec<u32>; 2]> = HashMap::new();
        for (place, (_, message)) in (0..).zip(&messages) {
            coming.entry((message.tree, message.to)).or_default()[message.op as usize].push(place);
        }
        for (place, (_, message)) in (0..).zip(&messages) {
            let Some([sums, copies]) = coming.get(&(message.tree, message.from)) else { continue };
            // Copies replace sums.
            let before = if message.op == Op::Reduce || copies.is_empty() { sums } else { copies };
            before.iter().for_each(|&other| waits(place, other, schedule::Event::Applied, 0));
        }
        for Wait { message, other, event, lag } in moments.waits(table, *rounds) {
            waits(places[message], places[other], event, lag);
        }
        Replay {
            request,
            flit_times,
            rounds: *rounds,
            courses,
            flits,
            lines,
            missing,
            adder: vec![0; request.ranks() as usize],
            events: BinaryHeap::new(),
            end: 0,
        }
    }

    /// Picoseconds until all is done. O(packets on links * log messages).
    pub fn time_ps(mut self) -> Picos {
        (0..self.lines.len() as LinkId).for_each(|link| self.ask(link, 0));
        while let Some(Reverse((now, event))) = self.events.pop() {
            match event {
                Event::Sent { link } => self.sent(link, now),
                Event::Comes { piece, hop, last } => self.comes(piece, hop, last, now),
                Event::Received { piece } => {
                    let Course { to, adds, .. } = *self.course(piece);
                    let free = &mut self.adder[to as usize];
                    let applied = if adds > 0 { now.max(*free) + adds } else { now };
                    *free = applied.max(*free);
                    self.push(applied, Event::Applied { piece });
                }
                Event::Applied { piece } => {
                    self.end = now;
                    self.met(piece, schedule::Event::Applied, now);
                }
                Event::Left { piece } => self.met(piece, schedule::Event::Sent, now),
            }
        }
        self.end
    }

    fn course(&self, piece: u32) -> &Course<'a> {
        &self.courses[piece as usize / self.rounds as usize]
    }

    fn push(&mut self, at: Picos, event: Event) {
        self.events.push(Reverse((at, event)));
    }

    /// Queues the next that starts on a link, if it may be sent.
    fn ask(&mut self, link: LinkId, now: Picos) {
        let line = &mut self.lines[link as usize];
        let Some(&piece) = line.own.get(line.sent).filter(|_| !line.asks) else { return };
        if self.missing[piece as usize] > 0 {
            return;
        }
        let packets = self.courses[piece as usize / self.rounds as usize].packets;
        line.asks = true;
        line.queue.push_back(Service { piece, hop: 0, last: !line.is_shared || line.packets + 1 == packets });
        self.serve(link, now);
    }

    /// A packet joins the queue of a link.
    fn comes(&mut self, piece: u32, hop: u32, last: bool, now: Picos) {
        let link = self.course(piece).route[hop as usize];
        self.lines[link as usize].queue.push_back(Service { piece, hop, last });
        self.serve(link, now);
    }

    /// A link that sends nothing sends the next.
    fn serve(&mut self, link: LinkId, now: Picos) {
        let line = &mut self.lines[link as usize];
        if line.now.is_some() {
            return;
        }
        let Some(service) = line.queue.pop_front() else { return };
        line.now = Some(service);
        let message = service.piece as usize / self.rounds as usize;
        let packets = if line.is_shared { 1 } else { self.courses[message].packets };
        let takes = packets * self.flits[message] * self.flit_times[link as usize];
        self.push(now + takes, Event::Sent { link });
    }

    fn sent(&mut self, link: LinkId, now: Picos) {
        let line = &mut self.lines[link as usize];
        let Service { piece, hop, last } = line.now.take().expect("a link sends what has been sent");
        if hop == 0 {
            line.asks = false;
            line.packets = if last { 0 } else { line.packets + 1 };
            line.sent += usize::from(last);
            // Its sender takes turns with packets that pass: it is the last of the queue.
            let idle = line.now.replace(Service { piece, hop, last });
            debug_assert!(idle.is_none());
            self.ask(link, now);
            self.lines[link as usize].now = None;
        }
        let at = now + self.request.system.latency_of(self.request.fabric.link(link));
        if hop as usize + 1 < self.course(piece).route.len() {
            self.push(at, Event::Comes { piece, hop: hop + 1, last });
        } else if last {
            self.push(at + self.request.system.hand_off(), Event::Received { piece });
        }
        self.serve(link, now);
        if hop == 0 && last && !self.course(piece).next[schedule::Event::Sent as usize].is_empty() {
            self.push(now, Event::Left { piece });
        }
    }

    /// What waits for an event of a message is asked for if that was the last that it waited for.
    fn met(&mut self, piece: u32, event: schedule::Event, now: Picos) {
        let (message, round) = (piece / self.rounds as u32, piece % self.rounds as u32);
        let next = std::mem::take(&mut self.courses[message as usize].next[event as usize]);
        let rounds = self.rounds as u32;
        for &(other, lag) in next.iter().filter(|(_, lag)| round + lag < rounds) {
            let waiting = other * rounds + round + lag;
            let missing = &mut self.missing[waiting as usize];
            *missing -= 1;
            if *missing == 0 {
                self.ask(self.courses[other as usize].route[0], now);
            }
        }
        self.courses[message as usize].next[event as usize] = next;
    }
}

#[cfg(test)]
mod tests {
    use crate::algorithm::tree::{Timetable, Tree, Work};
    use crate::algorithm::{Collective, Fabric, Kind, Options, Request};
    use crate::fabric::Router;
    use crate::schedule::TransferId;
    use crate::simulate::{Fidelity, simulate};
    use crate::system::System;
    use crate::watch::Watch;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    /// A fabric and a system; parents of ranks from 1 on and the share of every tree; what they do, bytes and rounds.
    type Case = (&'static str, &'static str, Vec<(Vec<prop::sample::Index>, u32)>, Work, u64, u64);

    fn cases() -> impl Strategy<Value = Case> {
        let parents = prop::collection::vec(any::<prop::sample::Index>(), 5);
        (
            prop::sample::select(vec![
                "ring:6",
                "mesh:2x3",
                "fc:6",
                "switch:6",
                "bigraph:2x3",
                "mesh:2x3,slow=0-1:0.5",
            ]),
            prop::sample::select(vec!["ideal", "generic", "tto"]),
            prop::collection::vec((parents, 1u32..100), 1..5),
            prop::sample::select(vec![Work::Broadcast, Work::Reduce, Work::Overlapped]),
            4u64..400_000,
            1u64..12,
        )
    }

    /// The time by replay over that by the simulation of packets.
    fn ratio((spec, system, parents, work, bytes, rounds): Case) -> f64 {
        let (fabric, system) = (Fabric::parse(spec).unwrap(), System::preset(system).unwrap());
        let mut router = Router::new(&fabric);
        let mut route = |from: u32, to: u32| router.route(fabric.node_of_rank(from), fabric.node_of_rank(to));
        let mut tree = |(parents, _): &(Vec<prop::sample::Index>, u32)| {
            let above = |(child, parent): (u32, &prop::sample::Index)| (child, parent.index(child as usize) as u32);
            let edges: Vec<(u32, u32)> = (1..).zip(parents).map(above).collect();
            Tree::new(
                6,
                edges.into_iter().map(|(child, parent)| (child, parent, [route(child, parent), route(parent, child)])),
            )
        };
        let trees: Vec<Tree> = parents.iter().map(&mut tree).collect();
        let request = Request {
            fabric: &fabric,
            system: &system,
            collective: Collective::new(Kind::AllReduce),
            bytes,
            matrix: None,
            spec: "test",
            options: Options::parse("test", "", &[]).unwrap(),
            watch: Watch::default(),
        };
        let sizes = parents.iter().map(|each| each.1).collect();
        let timetable = Timetable::new(&request, &trees, sizes, work, false);
        let timed = timetable.timed(rounds);
        let replayed = timetable.replay(&timed);
        let mut builder = request.builder();
        let pieces = timed.table.pieces(bytes, rounds);
        timed.table.lanes(&mut builder, |tree| pieces[tree], rounds);
        let first = builder.schedule.transfers.len() as TransferId;
        timed.table.send(&mut builder, work.ops()).unwrap();
        timed.moments.pace(&timed.table, rounds, &mut builder, first);
        let schedule = builder.finish().unwrap();
        let simulated = simulate(&fabric, &schedule, &system, Fidelity::Packet, &mut |_| true).unwrap().time_ps;
        replayed as f64 / simulated as f64
    }

    /// Whatever the trees and their shares, it says what the simulation of packets does: but for the order of what happens
    /// at one time, and of what comes to a switch then. With a clock most happens so.
    #[test]
    fn it_is_the_simulation() {
        let (mut runner, cases) = (TestRunner::deterministic(), cases());
        let mut apart: Vec<f64> = vec![];
        for _ in 0..300 {
            let case = cases.new_tree(&mut runner).unwrap().current();
            let name = format!("{case:?}");
            apart.push((ratio(case) - 1.0).abs());
            assert!(*apart.last().unwrap() < 0.2, "{name}: {apart:?}");
        }
        let mean = apart.iter().sum::<f64>() / apart.len() as f64;
        let exact = apart.iter().filter(|&&apart| apart == 0.0).count();
        assert!(mean < 0.005 && 5 * exact > 4 * apart.len(), "{mean} {exact}");
    }
}
