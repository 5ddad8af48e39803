//! Exchanges under way share links as fluids do.

use super::classes::LinkClasses;
use super::flow::GroupFlow;
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use antiphon_jobs::graph::JobGraph;
use antiphon_jobs::transport::{Delivery, Transport};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Picoseconds of a second.
const PICOS: f64 = 1e12;
/// A class whose shares add up to no more than this has room for all of its exchanges at speed 1.
const FULL: f64 = 1.0 + 1e-9;
/// Speeds that differ by less than this part are one.
const SAME: f64 = 1e-12;

/// Links that all exchanges of a job graph share. An exchange waits for its latency, then moves its bytes; by itself at
/// speed 1. On a link the sum over exchanges of speed times the share that each takes by itself is at most 1. Speeds are
/// max-min fair: none can be higher without a lower one's, or an equal one's, becoming lower (Bertsekas and Gallager, "Data
/// Networks", 2nd edition, section 6.5.2). They change when an exchange that shares links, by way of others too, begins
/// or ends. Parts of exchanges do not arrive before the whole.
pub struct SharedLinks<'a> {
    flows: &'a [GroupFlow],
    graph: &'a JobGraph,
    /// What every exchange moves.
    carried: &'a [CarriedExchange],
    /// Whether lower priorities go first, and others have what those leave.
    prioritized: bool,
    classes: LinkClasses,
    /// Bytes that each flow's exchanges have had.
    bytes: Vec<f64>,
    /// Exchanges under way; places are used again.
    under_way: Vec<UnderWay>,
    free: Vec<u32>,
    /// For every class the places of exchanges that move bytes on it, and the sum of their shares.
    on_class: Vec<(Vec<u32>, f64)>,
    /// When latencies and bytes are over: time, exchange, place, and the version of the place for which that holds.
    events: BinaryHeap<Reverse<(Picos, u32, u32, u32)>>,
    scratch: Scratch,
}

/// What an exchange of a job graph moves: `count` exchanges of a flow, one after another, of buffers of `bytes` bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CarriedExchange {
    /// The flow.
    pub flow: u32,
    /// Bytes of each buffer; nothing is moved if it is 0.
    pub bytes: f64,
    /// How many; a part of one takes that part of its time.
    pub count: f64,
}

/// How far an exchange is.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    exchange: u32,
    flow: u32,
    /// By what its shares differ from those of its flow.
    factor: f64,
    priority: u32,
    start_ps: Picos,
    /// Whether its latency is over.
    moves: bool,
    /// Seconds that are left at speed 1, from `since_ps`.
    left_s: f64,
    since_ps: Picos,
    speed: f64,
    /// Whether its speed is still being raised.
    open: bool,
    version: u32,
    /// The search that found it last.
    found: u64,
}

/// What one search and its shares need.
#[derive(Default)]
struct Scratch {
    /// Numbers of searches.
    search: u64,
    /// The search that found each class last.
    found: Vec<u64>,
    /// What is left of each class, and the sum of shares of those whose speed is open.
    left: Vec<f64>,
    open: Vec<f64>,
    /// The speed of those at which each class is full.
    full_at: Vec<f64>,
    /// Classes without room for all where something began or ended, and exchanges that began where all have room.
    changed: Vec<u32>,
    roomy: Vec<u32>,
    /// Exchanges and classes without room for all that share links, by way of others too.
    places: Vec<u32>,
    classes: Vec<u32>,
    /// Classes that are full at a speed, and exchanges that stay at it.
    full: Vec<u32>,
    fixed: Vec<u32>,
}

impl Scratch {
    /// Sets the speed at which a class is full; one whose exchanges all have their speeds never is.
    fn level(&mut self, class: u32) {
        let (left, open) = (self.left[class as usize].max(0.0), self.open[class as usize]);
        self.full_at[class as usize] = if open > SAME { left / open } else { f64::INFINITY };
    }
}

/// What links of a class have carried.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassUse {
    /// The fullest link.
    pub link: u32,
    /// How many links are alike.
    pub links: u32,
    /// Seconds at the whole rate of the fullest link, for each flow on it.
    pub seconds: Vec<(u32, f64)>,
}

impl<'a> SharedLinks<'a> {
    /// Links on which exchange `i` of the graph moves `carried[i]` with, if `prioritized`, its priorities: lower ones go
    /// first, and others share what is left of links.
    ///
    /// # Panics
    /// If there are not as many exchanges, or is no such flow.
    pub fn new(flows: &'a [GroupFlow], graph: &'a JobGraph, carried: &'a [CarriedExchange], prioritized: bool) -> Self {
        assert_eq!(carried.len(), graph.exchanges.len(), "every exchange moves something, or 0 bytes");
        assert!(carried.iter().all(|of| (of.flow as usize) < flows.len()), "flows are known");
        let classes = LinkClasses::new(flows);
        let count = classes.classes.len();
        SharedLinks {
            flows,
            graph,
            carried,
            prioritized,
            bytes: vec![0.0; flows.len()],
            under_way: vec![],
            free: vec![],
            on_class: vec![(vec![], 0.0); count],
            events: BinaryHeap::new(),
            scratch: Scratch {
                found: vec![0; count],
                left: vec![0.0; count],
                open: vec![0.0; count],
                full_at: vec![0.0; count],
                ..Scratch::default()
            },
            classes,
        }
    }

    /// The classes of links.
    pub fn classes(&self) -> &LinkClasses {
        &self.classes
    }

    /// Buffers of all exchanges of each flow together, in bytes.
    pub fn bytes(&self) -> &[f64] {
        &self.bytes
    }

    /// What every class of links has carried, those of the exchanges under way included.
    pub fn used(&self) -> Vec<ClassUse> {
        let seconds = |&(flow, share): &(u32, f64)| {
            let at = flow as usize;
            (flow, share * self.flows[at].seconds_per_byte() * self.bytes[at])
        };
        let of = self.classes.classes.iter();
        of.map(|class| ClassUse {
            link: class.link,
            links: class.links,
            seconds: class.shares.iter().map(seconds).collect(),
        })
        .collect()
    }

    /// Whether an event still holds.
    fn holds(&self, place: u32, version: u32) -> bool {
        self.under_way[place as usize].version == version
    }

    /// The latency of an exchange is over: it takes part on links.
    fn begin(&mut self, place: u32, now: Picos) {
        let one = &mut self.under_way[place as usize];
        (one.moves, one.since_ps, one.speed) = (true, now, 0.0);
        let mut has_room = true;
        for &(class, share) in &self.classes.limits[one.flow as usize] {
            let (places, sum) = &mut self.on_class[class as usize];
            places.push(place);
            *sum += one.factor * share;
            if *sum > FULL {
                has_room = false;
                self.scratch.changed.push(class);
            }
        }
        if has_room {
            self.scratch.roomy.push(place);
        }
    }

    /// An exchange is over.
    fn end(&mut self, place: u32) {
        let one = self.under_way[place as usize];
        if one.moves {
            for &(class, share) in &self.classes.limits[one.flow as usize] {
                let (places, sum) = &mut self.on_class[class as usize];
                if *sum > FULL {
                    self.scratch.changed.push(class);
                }
                if let Some(at) = places.iter().position(|&other| other == place) {
                    places.swap_remove(at);
                }
                *sum = if places.is_empty() { 0.0 } else { *sum - one.factor * share };
            }
        }
        self.under_way[place as usize].version += 1;
        self.free.push(place);
    }

    /// Gives new speeds to all that share links with what began or ended, by way of others too.
    fn share(&mut self, now: Picos) {
        self.scratch.search += 1;
        while let Some(place) = self.scratch.roomy.pop() {
            // What has begun later at the same time may have taken the room; then one of its classes has changed.
            self.set_speed(place, 1.0, now);
        }
        while let Some(class) = self.scratch.changed.pop() {
            self.find(class);
            match self.scratch.places[..] {
                [] => {}
                [alone] => self.set_speed(alone, 1.0, now),
                _ => self.fill(now),
            }
        }
    }

    /// Finds exchanges and classes that share links with a class, if nothing has found it before in this search.
    fn find(&mut self, class: u32) {
        let Scratch { search, found, places, classes, .. } = &mut self.scratch;
        places.clear();
        classes.clear();
        if std::mem::replace(&mut found[class as usize], *search) == *search {
            return;
        }
        classes.push(class);
        let mut next = 0;
        while let Some(&class) = classes.get(next) {
            next += 1;
            for &place in &self.on_class[class as usize].0 {
                let one = &mut self.under_way[place as usize];
                if std::mem::replace(&mut one.found, *search) == *search {
                    continue;
                }
                places.push(place);
                for &(other, _) in &self.classes.limits[one.flow as usize] {
                    let is_full = self.on_class[other as usize].1 > FULL;
                    if is_full && std::mem::replace(&mut found[other as usize], *search) != *search {
                        classes.push(other);
                    }
                }
            }
        }
    }

    /// Gives speeds to all that were found, those of lower priorities first.
    fn fill(&mut self, now: Picos) {
        let mut places = std::mem::take(&mut self.scratch.places);
        let mut classes = std::mem::take(&mut self.scratch.classes);
        classes.retain(|&class| self.on_class[class as usize].1 > FULL);
        classes.iter().for_each(|&class| self.scratch.left[class as usize] = 1.0);
        if self.prioritized {
            places.sort_unstable_by_key(|&place| (self.level(place), self.under_way[place as usize].exchange));
        }
        let mut rest = &places[..];
        while let Some(&first) = rest.first() {
            let end = rest.partition_point(|&place| self.level(place) == self.level(first));
            self.raise(&rest[..end], &classes, now);
            rest = &rest[end..];
        }
        (self.scratch.places, self.scratch.classes) = (places, classes);
    }

    /// Raises the speeds of exchanges together until what is left of links is full; those on full links stay, others go on.
    fn raise(&mut self, places: &[u32], classes: &[u32], now: Picos) {
        classes.iter().for_each(|&class| self.scratch.open[class as usize] = 0.0);
        for &place in places {
            let one = &mut self.under_way[place as usize];
            one.open = true;
            for &(class, share) in &self.classes.limits[one.flow as usize] {
                self.scratch.open[class as usize] += one.factor * share;
            }
        }
        classes.iter().for_each(|&class| self.scratch.level(class));
        let mut full = std::mem::take(&mut self.scratch.full);
        let mut fixed = std::mem::take(&mut self.scratch.fixed);
        loop {
            let full_at = |class: &u32| self.scratch.full_at[*class as usize];
            let speed = classes.iter().map(full_at).fold(1.0, f64::min);
            full.clear();
            if speed < 1.0 {
                full.extend(classes.iter().filter(|class| full_at(class) <= speed * (1.0 + SAME)));
            }
            fixed.clear();
            fixed.extend(full.iter().flat_map(|&class| &self.on_class[class as usize].0).copied());
            fixed.retain(|&place| std::mem::take(&mut self.under_way[place as usize].open));
            // Nothing holds the others back, but what rounding has left.
            let is_last = fixed.is_empty();
            if is_last {
                fixed.extend(places.iter().filter(|&&place| std::mem::take(&mut self.under_way[place as usize].open)));
            }
            for &place in &fixed {
                let UnderWay { flow, factor, .. } = self.under_way[place as usize];
                for &(class, share) in &self.classes.limits[flow as usize] {
                    self.scratch.left[class as usize] -= speed * factor * share;
                    self.scratch.open[class as usize] -= factor * share;
                    self.scratch.level(class);
                }
                self.set_speed(place, speed, now);
            }
            if is_last {
                break;
            }
        }
        (self.scratch.full, self.scratch.fixed) = (full, fixed);
    }

    /// Which exchanges go first: lower ones.
    fn level(&self, place: u32) -> u32 {
        if self.prioritized { self.under_way[place as usize].priority } else { 0 }
    }

    /// Sets the speed of an exchange, and when it ends with it.
    fn set_speed(&mut self, place: u32, speed: f64, now: Picos) {
        let one = &mut self.under_way[place as usize];
        // What rounding leaves of a full link is nothing.
        let speed = if speed < SAME { 0.0 } else { speed };
        if one.speed == speed {
            return;
        }
        let passed_s = (now - one.since_ps) as f64 / PICOS;
        one.left_s = (one.left_s - passed_s * one.speed).max(0.0);
        (one.since_ps, one.speed) = (now, speed);
        one.version += 1;
        if speed > 0.0 {
            let end = now.saturating_add((one.left_s / speed * PICOS).round() as Picos);
            self.events.push(Reverse((end, one.exchange, place, one.version)));
        }
    }
}

impl Transport for SharedLinks<'_> {
    fn submit(&mut self, now: Picos, exchange: u32) -> Result<bool> {
        let CarriedExchange { flow, bytes, count } = self.carried[exchange as usize];
        let (before_s, left_s, factor) = self.flows[flow as usize].phases(bytes);
        let (before_s, left_s) = (count * before_s, count * left_s);
        if bytes == 0.0 || before_s + left_s <= 0.0 {
            return Ok(false);
        }
        self.bytes[flow as usize] += count * bytes;
        let place = self.free.pop().unwrap_or(self.under_way.len() as u32);
        let version = self.under_way.get(place as usize).map_or(0, |last| last.version);
        let one = UnderWay {
            exchange,
            flow,
            factor,
            priority: self.graph.exchanges[exchange as usize].priority,
            start_ps: now,
            moves: false,
            left_s,
            since_ps: now,
            speed: 0.0,
            open: false,
            version,
            found: 0,
        };
        match self.under_way.get_mut(place as usize) {
            Some(free) => *free = one,
            None => self.under_way.push(one),
        }
        let begin = now.saturating_add((before_s * PICOS).round() as Picos);
        self.events.push(Reverse((begin, exchange, place, version)));
        Ok(true)
    }

    fn next(&self) -> Option<Picos> {
        self.events.peek().map(|Reverse(event)| event.0)
    }

    fn step(&mut self, _until: Option<Picos>, happened: &mut VecDeque<Delivery>) -> Result<()> {
        let Some(now) = self.next() else { return Ok(()) };
        while let Some(&Reverse((time, exchange, place, version))) = self.events.peek() {
            let holds = self.holds(place, version);
            if holds && time > now {
                break;
            }
            self.events.pop();
            if !holds {
                continue;
            }
            let one = self.under_way[place as usize];
            if !one.moves && one.left_s > 0.0 {
                self.begin(place, now);
            } else {
                self.end(place);
                happened.push_back(Delivery::Whole { exchange, start_ps: one.start_ps });
            }
        }
        self.share(now);
        // The next event holds, so that its time is known.
        while self.events.peek().is_some_and(|&Reverse((.., place, version))| !self.holds(place, version)) {
            self.events.pop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{FlowForm, Wiring, wiring};
    use antiphon_jobs::graph::{ExchangeKind, JobExchange, OperationKind, Resource};
    use antiphon_jobs::timeline::run;
    use antiphon_model::collective::{Collective, Kind};
    use proptest::prelude::*;

    const GATHER: FlowForm = FlowForm::Collective(Kind::AllGather);

    /// An exchange: flow, bytes, when it starts, priority.
    type Planned = (u32, u64, Picos, u32);

    /// A graph in which a rank for each exchange computes until it starts.
    /// Exchanges of the graph's bytes, of these flows.
    fn carried(graph: &JobGraph, flows: impl Iterator<Item = u32>) -> Vec<CarriedExchange> {
        let of =
            |(exchange, flow): (&JobExchange, u32)| CarriedExchange { flow, bytes: exchange.bytes as f64, count: 1.0 };
        graph.exchanges.iter().zip(flows).map(of).collect()
    }

    fn graph(planned: &[Planned]) -> JobGraph {
        let mut graph = JobGraph::new(planned.len() as u32);
        graph.names.push("x".into());
        for (number, &(_, bytes, start_ps, priority)) in (0..).zip(planned) {
            let kind = ExchangeKind::Collective(Collective::new(Kind::AllGather));
            graph.exchanges.push(JobExchange { name: 0, kind, bytes, group: number + 1, priority });
            let group = antiphon_jobs::graph::RankGroup { name: number.to_string(), ranks: vec![number] };
            graph.groups.push(group);
            let rank = &mut graph.ranks[number as usize];
            let before = rank.push(0, OperationKind::compute(start_ps, Resource::Stream(0)), &[]);
            rank.push(0, OperationKind::Exchange(number), &[before]);
        }
        graph
    }

    /// How long each exchange takes, in seconds, and what links of each class have carried.
    fn times(flows: &[GroupFlow], planned: &[Planned], prioritized: bool) -> (Vec<f64>, Vec<ClassUse>) {
        let graph = graph(planned);
        let carried = carried(&graph, planned.iter().map(|one| one.0));
        let mut links = SharedLinks::new(flows, &graph, &carried, prioritized);
        let line = run(&graph, &mut links).unwrap();
        let time = |rank: &Vec<antiphon_jobs::timeline::OperationTimes>| (rank[1].finish_ps - rank[1].start_ps) as f64;
        (line.ranks.iter().map(|rank| time(rank) / PICOS).collect(), links.used())
    }

    fn flow(wiring: &dyn Wiring, groups: &[&[u32]]) -> GroupFlow {
        GroupFlow::new(wiring, GATHER, &groups.iter().map(|group| group.to_vec()).collect::<Vec<_>>())
    }

    fn close(found: &[f64], expected: &[f64]) {
        let near = |(one, other): (&f64, &f64)| (one - other).abs() < 3e-12 + 1e-9 * other;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?} {expected:?}");
    }

    /// GPUs with 1 GB/s to others of a box, and 1 GB/s outwards; no latency.
    fn slow_boxes(nics: u32) -> Box<dyn Wiring> {
        wiring(&format!("dgx-h100:4:nics={nics}@1/0ns+1/0ns")).unwrap()
    }

    #[test]
    fn alone_and_side_by_side() {
        let wiring = wiring("dgx-h100:4").unwrap();
        let flows = [flow(&*wiring, &[&[0, 8, 16, 24]]), flow(&*wiring, &[&[1, 2, 3]]), flow(&*wiring, &[&[1, 9]])];
        let alone: Vec<f64> = flows.iter().map(|flow| flow.time_alone_s(1e6)).collect();
        let (found, used) = times(&flows, &[(0, 1_000_000, 0, 0), (1, 1_000_000, 0, 0), (2, 1_000_000, 0, 0)], false);
        close(&found, &alone);
        // Three classes: of the first box's NIC, of GPUs 1 to 3, of NIC 1.
        assert_eq!(used.len(), 3);
        close(&[used[2].seconds[0].1], &[0.5e6 / 48e9]);
    }

    #[test]
    fn two_on_a_link_take_twice() {
        let wiring = slow_boxes(8);
        let flows = [flow(&*wiring, &[&[0, 8]])];
        let both = |start_ps| times(&flows, &[(0, 2_000_000, 0, 0), (0, 2_000_000, start_ps, 0)], false).0;
        close(&both(0), &[2e-3, 2e-3]);
        // The second comes when half of the first is over: then both have half.
        close(&both(500_000_000), &[1.5e-3, 1.5e-3]);
        close(&both(2_000_000_000), &[1e-3, 1e-3]);
    }

    #[test]
    fn eight_data_rings_over_one_nic() {
        let wiring = slow_boxes(1);
        let rings: Vec<GroupFlow> =
            (0..8).map(|rank| flow(&*wiring, &[&[rank, 8 + rank, 16 + rank, 24 + rank]])).collect();
        let planned: Vec<Planned> = (0..8).map(|ring| (ring, 4_000_000, 0, 0)).collect();
        close(&times(&rings, &planned[..1], false).0, &[3e-3]);
        close(&times(&rings, &planned, false).0, &[8.0 * 3e-3; 8]);
    }

    #[test]
    fn speeds_are_max_min_fair() {
        let wiring = slow_boxes(8);
        // Two on NIC 0, one of which needs NIC 1 for a third of its time; another on NIC 1 alone.
        let message = |pairs: &[[u32; 2]]| {
            GroupFlow::new(&*wiring, FlowForm::Message, &pairs.iter().map(|pair| pair.to_vec()).collect::<Vec<_>>())
        };
        let flows = [message(&[[0, 8]]), message(&[[0, 8], [0, 16], [0, 24], [1, 9]]), message(&[[1, 9]])];
        // Both on NIC 0 have 1/2, which leaves 5/6 of NIC 1.
        let (found, _) = times(&flows, &[(0, 6_000_000, 0, 0), (1, 2_000_000, 0, 0), (2, 5_000_000, 0, 0)], false);
        close(&found, &[12e-3, 12e-3, 6e-3]);
    }

    #[test]
    fn priorities_go_first() {
        let wiring = slow_boxes(8);
        let flows = [flow(&*wiring, &[&[0, 8]])];
        let planned = [(0, 2_000_000, 0, 5), (0, 2_000_000, 400_000_000, 1), (0, 2_000_000, 400_000_000, 1)];
        close(&times(&flows, &planned, true).0, &[3e-3, 2e-3, 2e-3]);
        close(&times(&flows, &planned, false).0, &[2.2e-3, 2.6e-3, 2.6e-3]);
    }

    /// Exchanges with a library's times are under way together as far as links allow.
    #[test]
    fn points_leave_room_on_links() {
        let wiring = slow_boxes(8);
        // The library takes 10 ms for what links carry in 8.
        let slow = flow(&*wiring, &[&[0, 8]]).with_points(vec![(1.0, 1e-9), (16e6, 10e-3)]).unwrap();
        let alone = slow.time_alone_s(16e6);
        let (found, _) = times(&[slow], &[(0, 16_000_000, 0, 0), (0, 16_000_000, 0, 0), (0, 1, 0, 0)], false);
        close(&[alone], &[10e-3]);
        close(&found, &[16e-3 + 1e-9, 16e-3 + 1e-9, 1e-9]);
    }

    /// A million exchanges of four kinds on eight stages, 32 under way: messages between stages join all of them, or not.
    #[test]
    #[ignore = "a measurement: run it with --release -- --ignored --nocapture"]
    fn a_million_exchanges() {
        let wiring = wiring("dgx-h100:128").unwrap();
        let ranks_of = |stage: u32| (0..128).map(move |rank| 128 * stage + rank);
        let strided = |stage: u32, stride: u32, size: u32| -> Vec<Vec<u32>> {
            let first = ranks_of(stage).filter(|rank| (rank / stride).is_multiple_of(size));
            first.map(|rank| (0..size).map(|at| rank + stride * at).collect()).collect()
        };
        for joined in [false, true] {
            let mut flows = vec![];
            for stage in 0..8 {
                for (stride, size) in [(1, 8), (8, 2), (16, 8)] {
                    flows.push(GroupFlow::new(&*wiring, GATHER, &strided(stage, stride, size)));
                }
                let next = |rank: u32| if joined { (rank + 128) % 1024 } else { rank / 128 * 128 + (rank + 64) % 128 };
                let pairs: Vec<Vec<u32>> = ranks_of(stage).map(|rank| vec![rank, next(rank)]).collect();
                flows.push(GroupFlow::new(&*wiring, FlowForm::Message, &pairs));
            }
            let planned: Vec<Planned> =
                (0..32).map(|flow| (flow, 1_000_000 + u64::from(flow) * 10_000, 0, 0)).collect();
            let graph = graph(&planned);
            let carried = carried(&graph, planned.iter().map(|one| one.0));
            let mut links = SharedLinks::new(&flows, &graph, &carried, false);
            let (start, count) = (std::time::Instant::now(), 1_000_000);
            let (mut happened, mut submitted) = (VecDeque::new(), 32);
            (0..32).for_each(|exchange| assert!(links.submit(0, exchange).unwrap()));
            while let Some(now) = links.next() {
                links.step(None, &mut happened).unwrap();
                while let Some(Delivery::Whole { exchange, .. }) = happened.pop_front() {
                    if submitted < count {
                        links.submit(now, exchange).unwrap();
                        submitted += 1;
                    }
                }
            }
            println!("joined {joined}: {count} exchanges in {:?}", start.elapsed());
        }
    }

    /// Random groups of random ranks.
    fn some_flows() -> impl Strategy<Value = Vec<Vec<Vec<u32>>>> {
        let group = || prop::collection::btree_set(0u32..32, 2..6).prop_map(|group| group.into_iter().collect());
        prop::collection::vec(prop::collection::vec(group(), 1..4), 1..5)
    }

    proptest! {
        /// No exchange takes less than its bytes on any link, nor than by itself; together they take no more than one after
        /// the other; all bytes are counted.
        #[test]
        fn times_are_between_bounds(
            groups in some_flows(),
            planned in prop::collection::vec((0u32..5, 1u64..3_000_000, 0u64..3_000_000_000, 0u32..3), 1..12),
            prioritized: bool,
        ) {
            let wiring = slow_boxes(4);
            let flows: Vec<GroupFlow> = groups.iter().map(|groups| GroupFlow::new(&*wiring, GATHER, groups)).collect();
            let count = flows.len() as u32;
            let planned: Vec<Planned> = planned.into_iter().map(|(flow, b, s, p)| (flow % count, b, s, p)).collect();
            let (found, used) = times(&flows, &planned, prioritized);
            let alone = |one: &Planned| flows[one.0 as usize].time_alone_s(one.1 as f64);
            for (time, one) in found.iter().zip(&planned) {
                prop_assert!(*time >= alone(one) - 2e-12);
            }
            let last = found.iter().zip(&planned).map(|(time, one)| time + one.2 as f64 / PICOS).fold(0.0, f64::max);
            let starts = planned.iter().map(|one| one.2 as f64 / PICOS).fold(0.0, f64::max);
            prop_assert!(last <= starts + planned.iter().map(alone).sum::<f64>() + 1e-10);
            for class in &used {
                let bytes: f64 = planned.iter().map(|one| {
                    let load = flows[one.0 as usize].link_bytes(one.1 as f64).find(|load| load.0 == class.link);
                    load.map_or(0.0, |load| load.1)
                }).sum();
                let seconds: f64 = class.seconds.iter().map(|of| of.1).sum();
                prop_assert!((seconds * wiring.rate(class.link) - bytes).abs() <= 1e-6 * bytes);
                prop_assert!(last >= seconds - 1e-10);
            }
            prop_assert_eq!(found, times(&flows, &planned, prioritized).0);
        }

        /// Speeds fit all links of the wiring, one by one, and every exchange that is slower than by itself is on a full link on
        /// which none is faster, or none at all is left to it by those that go first.
        #[test]
        fn speeds_are_max_min(
            groups in some_flows(),
            planned in prop::collection::vec((0u32..5, 0u32..3), 1..12),
            prioritized: bool,
        ) {
            let wiring = slow_boxes(4);
            let flows: Vec<GroupFlow> = groups.iter().map(|groups| GroupFlow::new(&*wiring, GATHER, groups)).collect();
            let count = flows.len() as u32;
            let planned: Vec<Planned> = planned.into_iter().map(|(flow, p)| (flow % count, 1 << 40, 0, p)).collect();
            let graph = graph(&planned);
            let carried = carried(&graph, planned.iter().map(|one| one.0));
            let mut links = SharedLinks::new(&flows, &graph, &carried, prioritized);
            for exchange in 0..planned.len() as u32 {
                prop_assert!(links.submit(0, exchange).unwrap());
            }
            links.step(None, &mut VecDeque::new()).unwrap();
            let mut sums = vec![0.0; wiring.links() as usize];
            let loads = |one: &UnderWay| flows[one.flow as usize].loads().to_vec();
            for one in &links.under_way {
                prop_assert!(one.moves && (0.0..=1.0).contains(&one.speed));
                loads(one).iter().for_each(|load| sums[load.link as usize] += load.share * one.speed);
            }
            prop_assert!(sums.iter().all(|&sum| sum < 1.0 + 1e-9));
            for one in links.under_way.iter().filter(|one| one.speed < 1.0) {
                let is_bottleneck = loads(one).iter().any(|load| {
                    let level = |other: &UnderWay| if prioritized { other.priority } else { 0 };
                    let others = links.under_way.iter().filter(|other| loads(other).iter().any(|l| l.link == load.link));
                    sums[load.link as usize] > 1.0 - 1e-9
                        && { others }.all(|other| level(other) < level(one) || other.speed <= one.speed + 1e-9)
                });
                prop_assert!(is_bottleneck);
            }
        }
    }
}
