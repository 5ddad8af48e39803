//! Other traffic beside a collective: messages between ranks, of a pattern or a list, on the same links.
//!
//! Every message is a flight of its own ([`antiphon_sim::Flight`]), so each fidelity carries it as it carries collectives.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Bytes, Picos, clip, parse_decimal};
use antiphon_base::watch::{Watch, checkpoint};
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::{Fabric, LinkId, Ways};
use antiphon_model::schedule::{Builder, Op};
use antiphon_model::system::System;
use antiphon_noc::traffic::{GeometricWaits, Pattern, Random};
use antiphon_proof::{Proven, prove_watched};
use antiphon_sim::cost::CostModel;
use antiphon_sim::{Fidelity, Flight, Order, Progress, RunOptions, SimulationResult, simulate, simulate_flights};
use std::cell::RefCell;
use std::collections::HashMap;

/// Most messages beside a collective.
pub const MOST_MESSAGES: usize = 1 << 16;
/// Most ranks of a pattern in which every rank sends to every other: their ways are found pair by pair.
const MOST_RANKS: usize = 1024;
/// How much longer than the collective the traffic goes on where it is not known how long that takes.
const MARGIN: f64 = 1.25;

/// What goes first on a link that both need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precedence {
    /// The collective and each message of the traffic have equal shares.
    #[default]
    Fair,
    /// Messages of the traffic, the oldest of them first.
    Traffic,
    /// The collective.
    Collective,
}

impl Choice for Precedence {
    const WHAT: &'static str = "precedence";
    const ALL: &'static [(&'static str, Self)] =
        &[("fair", Precedence::Fair), ("traffic", Precedence::Traffic), ("collective", Precedence::Collective)];
}

/// A message of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackgroundMessage {
    /// When its sender has it; the collective begins at 0.
    pub at_ps: Picos,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// Its size.
    pub bytes: Bytes,
}

/// How much traffic of a pattern there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offered {
    /// The share of time, below 1, for which it keeps the link busy that it needs most.
    Share(f64),
    /// Bytes per second that each rank sends.
    Rate(f64),
}

impl Offered {
    /// From text such as `0.2` or `5GB/s`.
    ///
    /// # Errors
    /// [`Code::BadSize`].
    pub fn parse(text: &str) -> Result<Offered> {
        let bad = || {
            let what =
                format!("load '{}' is neither a share from 0 to below 1, as 0.2, nor a rate, as 5GB/s", clip(text));
            Error::new(Code::BadSize, what)
        };
        match text.strip_suffix("GB/s") {
            Some(rate) => {
                let rate = parse_decimal(rate.trim()).filter(|rate| (1e-6..=1e6).contains(rate)).ok_or_else(bad)?;
                Ok(Offered::Rate(rate * 1e9))
            }
            None => {
                let share = parse_decimal(text.trim()).filter(|share| (0.0..1.0).contains(share)).ok_or_else(bad)?;
                Ok(Offered::Share(share))
            }
        }
    }
}

/// Traffic of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternTraffic {
    /// Who sends to whom. What a rank would send to itself goes to another one, each alike.
    pub pattern: Pattern,
    /// How much.
    pub offered: Offered,
    /// Size of every message.
    pub message_bytes: Bytes,
    /// Whether each rank sends at equal intervals, from a random time on; at random times otherwise.
    pub regular: bool,
    /// Seed of times and destinations.
    pub seed: u64,
}

/// Traffic beside a collective.
#[derive(Debug, Clone, PartialEq)]
pub enum Background {
    /// Of a pattern, until the collective is over.
    Pattern(PatternTraffic),
    /// As listed, all of it.
    Listed(Vec<BackgroundMessage>),
}

/// How long messages took, from the time at which their senders had them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageTimes {
    /// Mean, rounded down.
    pub mean_ps: Picos,
    /// 99 of 100 took at most so long.
    pub p99_ps: Picos,
    /// The longest.
    pub most_ps: Picos,
}

impl MessageTimes {
    fn of(mut times: Vec<Picos>) -> MessageTimes {
        times.sort_unstable();
        let Some(&most_ps) = times.last() else { return MessageTimes::default() };
        let sum: u128 = times.iter().copied().map(u128::from).sum();
        let p99 = (times.len() * 99).div_ceil(100) - 1;
        MessageTimes { mean_ps: (sum / times.len() as u128) as Picos, p99_ps: times[p99], most_ps }
    }
}

/// A collective and other traffic, each alone and both together.
#[derive(Debug, Clone)]
pub struct BesideRun {
    /// The collective alone, and beside the traffic.
    pub alone_ps: Picos,
    /// From its start to its end.
    pub beside_ps: Picos,
    /// The messages of the traffic, by time.
    pub messages: Vec<BackgroundMessage>,
    /// How long they took without the collective.
    pub alone: MessageTimes,
    /// How long they took beside it.
    pub beside: MessageTimes,
    /// Bytes of messages that had come when the collective was over, without it and beside it.
    pub delivered: [Bytes; 2],
    /// The share of time for which the pattern keeps its busiest link busy; `None` of a list.
    pub load: Option<f64>,
    /// Both together.
    pub result: SimulationResult,
    /// Bytes that the collective puts on each link.
    pub link_bytes: Vec<Bytes>,
}

/// Ways between ranks, and the proven schedules of messages on them.
struct PairSchedules<'a> {
    fabric: &'a Fabric,
    ways: Ways<'a>,
    routes: HashMap<(u32, u32), Vec<LinkId>>,
    numbers: HashMap<(u32, u32, Bytes), usize>,
    proven: Vec<Proven>,
}

impl<'a> PairSchedules<'a> {
    fn new(fabric: &'a Fabric, system: &System) -> Self {
        let ways = Ways::new(fabric, 0, system.routing, system.link_rate);
        PairSchedules { fabric, ways, routes: HashMap::new(), numbers: HashMap::new(), proven: vec![] }
    }

    /// The way from one rank to another: the same for all messages of the two.
    fn route(&mut self, from: u32, to: u32, bytes: Bytes) -> Result<&[LinkId]> {
        if !self.routes.contains_key(&(from, to)) {
            let [start, end] = [from, to].map(|rank| self.fabric.node_of_rank(rank));
            let route = self.ways.path(start, end, bytes, &[])?;
            self.routes.insert((from, to), route);
        }
        Ok(&self.routes[&(from, to)])
    }

    /// The number of the schedule of a message: a broadcast to one rank, of which all others are left out.
    fn schedule(&mut self, message: &BackgroundMessage) -> Result<usize> {
        let BackgroundMessage { from, to, bytes, .. } = *message;
        if let Some(&number) = self.numbers.get(&(from, to, bytes)) {
            return Ok(number);
        }
        let route = self.route(from, to, bytes)?.to_vec();
        let broadcast = Collective { kind: Kind::Broadcast, root: from };
        let mut builder = Builder::new("message", self.fabric, broadcast, bytes);
        builder.schedule.excluded =
            (0..self.fabric.ranks() as u32).filter(|&rank| rank != from && rank != to).collect();
        let lane = builder.shard_block(from, (0, bytes), bytes);
        builder.phase("message", false);
        builder.send_via(Op::Copy, from, to, lane, 0, route)?;
        self.proven.push(prove_watched(self.fabric, builder.finish()?, Watch::default())?);
        self.numbers.insert((from, to, bytes), self.proven.len() - 1);
        Ok(self.proven.len() - 1)
    }
}

impl PatternTraffic {
    /// Share of the messages of `from` that go to `to`.
    fn share(&self, from: u32, to: u32, ranks: u32) -> f64 {
        let own = match self.pattern {
            Pattern::Permutation(_) => 0.0,
            _ => self.pattern.share(from, from, ranks) / f64::from(ranks - 1),
        };
        if from == to { 0.0 } else { self.pattern.share(from, to, ranks) + own }
    }

    /// The interval between messages of a rank in picoseconds, and the share of time for which the busiest link is then
    /// busy; `None` if there are no messages.
    fn interval(&self, pairs: &mut PairSchedules, system: &System) -> Result<Option<(f64, f64)>> {
        let (fabric, ranks) = (pairs.fabric, pairs.fabric.ranks());
        if !matches!(self.pattern, Pattern::Permutation(_)) && ranks > MOST_RANKS {
            let what = format!(
                "traffic between all pairs of {ranks} ranks; at most {MOST_RANKS} are supported: take a pattern in which \
                 a rank sends to one other, such as neighbor or tornado, or a file of messages"
            );
            return Err(Error::new(Code::TooLarge, what));
        }
        // Per message of every rank.
        let costs = CostModel::in_packets(system);
        let packets = system.packets(self.message_bytes);
        let flits = packets.count as f64 * packets.flits as f64;
        let mut busy_ps = vec![0.0; fabric.links.len()];
        for from in 0..ranks as u32 {
            checkpoint();
            for to in 0..ranks as u32 {
                let share = self.share(from, to, ranks as u32);
                if share > 0.0 {
                    let route = pairs.route(from, to, self.message_bytes)?;
                    route.iter().for_each(|&link| busy_ps[link as usize] += share);
                }
            }
        }
        for (link, busy) in fabric.links.iter().zip(&mut busy_ps).filter(|(_, busy)| **busy > 0.0) {
            const BITS: u32 = 16;
            let flit_ps = costs.flit_ticks(std::iter::once(link), BITS) as f64 / f64::from(1u32 << BITS);
            *busy *= flits * flit_ps;
        }
        let busiest = (0..).zip(&busy_ps).min_by(|(_, one), (_, other)| other.total_cmp(one));
        let Some((link, &most_ps)) = busiest.filter(|&(_, &busy)| busy > 0.0) else { return Ok(None) };
        let interval = match self.offered {
            Offered::Share(0.0) => return Ok(None),
            Offered::Share(share) => most_ps / share,
            Offered::Rate(rate) => self.message_bytes as f64 / rate * 1e12,
        };
        let load = most_ps / interval;
        if load >= 1.0 {
            let link = fabric.link(link);
            let [from, to] = [link.from, link.to].map(|node| clip(&fabric.nodes[node as usize].name));
            let most = self.message_bytes as f64 / most_ps * 1e3;
            let what = format!(
                "traffic of {:.4} GB/s a rank needs {load:.2} times what the link from {from} to {to} carries; give less \
                 than {most:.4}GB/s",
                self.message_bytes as f64 / interval * 1e3
            );
            return Err(Error::new(Code::BadSize, what));
        }
        Ok(Some((interval, load)))
    }

    /// Messages before a time, in the order of times and ranks. More time only adds further ones.
    fn until(&self, ranks: u32, interval: f64, end_ps: Picos) -> Result<Vec<BackgroundMessage>> {
        let too_many = || {
            let what = format!(
                "the traffic has more than {MOST_MESSAGES} messages before the collective is over; make them larger, \
                 or the load or the collective smaller"
            );
            Error::new(Code::TooLarge, what)
        };
        if end_ps as f64 / interval * f64::from(ranks) > 2.0 * MOST_MESSAGES as f64 {
            return Err(too_many());
        }
        // Rarer than once in 1,000 s is never in any run.
        let waits = GeometricWaits::new((1.0 / interval).clamp(1e-15, 1.0));
        let mut messages = vec![];
        for from in 0..ranks {
            if matches!(&self.pattern, Pattern::Permutation(list) if list[from as usize] == from) {
                continue;
            }
            let mut random = Random::new(self.seed, from.into());
            let first = f64::from(random.bits()) / 2f64.powi(32) * interval;
            let mut at = first;
            for number in 1.. {
                at = if self.regular {
                    first + (f64::from(number) - 1.0) * interval
                } else {
                    at + waits.draw(&mut random) as f64
                };
                if at >= end_ps as f64 {
                    break;
                }
                let mut to = self.pattern.destination(from, ranks, &mut random);
                if to == from {
                    to = (from + 1 + random.below(ranks - 1)) % ranks;
                }
                messages.push(BackgroundMessage { at_ps: at as Picos, from, to, bytes: self.message_bytes });
                if messages.len() > MOST_MESSAGES {
                    return Err(too_many());
                }
            }
        }
        messages.sort_unstable();
        Ok(messages)
    }
}

/// Checks messages of a list.
fn check(messages: &[BackgroundMessage], ranks: u32) -> Result<()> {
    if messages.len() > MOST_MESSAGES {
        let what = format!("{} messages; at most {MOST_MESSAGES} are supported", messages.len());
        return Err(Error::new(Code::TooLarge, what));
    }
    for (number, message) in (1..).zip(messages) {
        let what = match message {
            message if message.from.max(message.to) >= ranks => format!("ranks are 0 to {}", ranks - 1),
            message if message.from == message.to => "its sender is its receiver".into(),
            message if message.bytes == 0 => "it has no bytes".into(),
            _ => continue,
        };
        let BackgroundMessage { from, to, .. } = message;
        return Err(Error::new(Code::BadFile, format!("message {number}, from rank {from} to rank {to}: {what}")));
    }
    Ok(())
}

/// Times a collective alone, other traffic alone, and both together on a fabric. The collective starts at 0 with the traffic.
///
/// # Errors
/// As [`antiphon_sim::simulate_flights`]; [`Code::BadSize`] for more traffic than a link carries; [`Code::BadFile`] for a
/// message between ranks that do not exist; [`Code::TooLarge`] for more than [`MOST_MESSAGES`].
pub fn beside(
    fabric: &Fabric,
    collective: &Proven,
    background: &Background,
    precedence: Precedence,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<BesideRun> {
    let mut pairs = PairSchedules::new(fabric, system);
    let plain = simulate(fabric, collective, system, fidelity, progress)?;
    let alone_ps = plain.time_ps;
    let ranks = fabric.ranks() as u32;
    let (mut messages, interval) = match background {
        Background::Listed(messages) => {
            check(messages, ranks)?;
            let mut messages = messages.clone();
            messages.sort_by_key(|message| message.at_ps);
            (messages, None)
        }
        Background::Pattern(traffic) => (vec![], traffic.interval(&mut pairs, system)?.map(|found| (traffic, found))),
    };
    let progress = RefCell::new(progress);
    let mut fly = |messages: &[BackgroundMessage], with: bool| {
        let numbers = messages.iter().map(|message| pairs.schedule(message)).collect::<Result<Vec<_>>>()?;
        let first = Flight { priority: u32::from(precedence == Precedence::Traffic), ..Flight::new(collective) };
        let priority = u32::from(precedence == Precedence::Collective);
        let of = |(message, number): (&BackgroundMessage, usize)| Flight {
            start_ps: message.at_ps,
            priority,
            ..Flight::new(&pairs.proven[number])
        };
        let flights: Vec<Flight> =
            with.then_some(first).into_iter().chain(messages.iter().zip(numbers).map(of)).collect();
        let order = if precedence == Precedence::Fair { Order::Fair } else { Order::Priority };
        simulate_flights(fabric, &flights, order, system, fidelity, RunOptions::default(), *progress.borrow_mut())
    };
    let mut result;
    match interval {
        None => result = fly(&messages, true)?,
        Some((traffic, (interval, _))) => {
            // What comes later changes nothing before: as soon as the traffic lasts as long as the collective, its time is known.
            let mut end_ps = alone_ps;
            loop {
                end_ps = (end_ps as f64 * MARGIN) as Picos + 1;
                messages = traffic.until(ranks, interval, end_ps)?;
                result = fly(&messages, true)?;
                let finish_ps = result.flights[0].finish_ps;
                if finish_ps <= end_ps {
                    let before = messages.partition_point(|message| message.at_ps < finish_ps);
                    if before < messages.len() {
                        messages.truncate(before);
                        result = fly(&messages, true)?;
                    }
                    break;
                }
                end_ps = finish_ps;
            }
        }
    }
    let without = if messages.is_empty() { None } else { Some(fly(&messages, false)?) };
    let beside_ps = result.flights[0].finish_ps - result.flights[0].start_ps;
    let summary = |rows: &[antiphon_sim::FlightRow]| {
        let times = rows.iter().zip(&messages).map(|(row, message)| row.finish_ps - message.at_ps).collect();
        let come = rows.iter().zip(&messages).filter(|(row, _)| row.finish_ps <= result.flights[0].finish_ps);
        (MessageTimes::of(times), come.map(|(_, message)| message.bytes).sum::<Bytes>())
    };
    let (alone, delivered_alone) = summary(without.as_ref().map_or(&[], |result| &result.flights[..]));
    let (beside, delivered_beside) = summary(&result.flights[1..]);
    Ok(BesideRun {
        alone_ps,
        beside_ps,
        alone,
        beside,
        delivered: [delivered_alone, delivered_beside],
        load: match background {
            Background::Listed(_) => None,
            Background::Pattern(_) => Some(interval.map_or(0.0, |(_, (_, load))| load)),
        },
        link_bytes: plain.links.iter().map(|row| row.bytes).collect(),
        messages,
        result,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_plan::algorithm::build;
    use antiphon_proof::prove;
    use proptest::prelude::*;

    const FIDELITIES: [Fidelity; 3] = [Fidelity::AlphaBeta, Fidelity::Packet, Fidelity::Flit];

    fn fabric(spec: &str) -> Fabric {
        Fabric::parse(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    fn ring(fabric: &Fabric, bytes: Bytes) -> Proven {
        let all_reduce = Collective::new(Kind::AllReduce);
        prove(fabric, build(fabric, &System::default(), all_reduce, bytes, "ring").unwrap()).unwrap()
    }

    fn pattern(fabric: &Fabric, name: &str, offered: Offered, message_bytes: Bytes) -> PatternTraffic {
        let pattern = Pattern::parse(name, fabric).unwrap();
        PatternTraffic { pattern, offered, message_bytes, regular: false, seed: 1 }
    }

    fn run(
        fabric: &Fabric,
        collective: &Proven,
        background: &Background,
        precedence: Precedence,
        fidelity: Fidelity,
    ) -> BesideRun {
        beside(fabric, collective, background, precedence, &System::default(), fidelity, &mut |_| true)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn loads() {
        assert_eq!(Offered::parse("0.25").unwrap(), Offered::Share(0.25));
        assert_eq!(Offered::parse("2.5GB/s").unwrap(), Offered::Rate(2.5e9));
        for bad in ["", "1", "-0.1", "nan", "5", "0GB/s", "-1GB/s", "5GB", "xGB/s"] {
            assert_eq!(Offered::parse(bad).unwrap_err().code, Code::BadSize, "{bad}");
        }
    }

    #[test]
    fn without_traffic_the_collective_takes_as_long_as_alone() {
        let fabric = fabric("mesh:3x3");
        let ring = ring(&fabric, 1 << 16);
        let none = Background::Pattern(pattern(&fabric, "uniform", Offered::Share(0.0), 4096));
        for fidelity in FIDELITIES {
            for background in [&none, &Background::Listed(vec![])] {
                let found = run(&fabric, &ring, background, Precedence::Fair, fidelity);
                assert_eq!((found.beside_ps, found.messages.len()), (found.alone_ps, 0));
                let plain = simulate(&fabric, &ring, &System::default(), fidelity, &mut |_| true).unwrap();
                assert_eq!(found.alone_ps, plain.time_ps);
            }
        }
    }

    /// A broadcast of 256 packets to one rank, and one message of 4,096 bytes, a packet of 65 flits of 64 bytes, each 2,560 ps: 166.4 ns on the link, then 20 ns on the way and 10 ns of the hand-off.
    #[test]
    fn one_message_delays_by_its_time_on_a_link() {
        let fabric = fabric("ring:2");
        let broadcast = Collective::new(Kind::Broadcast);
        let schedule = build(&fabric, &System::default(), broadcast, 1 << 20, "direct").unwrap();
        let broadcast = prove(&fabric, schedule).unwrap();
        let message = BackgroundMessage { at_ps: 1000, from: 0, to: 1, bytes: 4096 };
        let one = Background::Listed(vec![message]);
        let of = |precedence| run(&fabric, &broadcast, &one, precedence, Fidelity::Packet);
        let [first, last] = [of(Precedence::Traffic), of(Precedence::Collective)];
        assert_eq!(first.alone.mean_ps, 166_400 + 20_000 + 10_000);
        assert_eq!(first.beside_ps, first.alone_ps + 166_400);
        // One packet of the collective had begun: 166,400 ps from time 0 on.
        assert_eq!(first.beside.mean_ps, first.alone.mean_ps + 166_400 - 1000);
        assert_eq!(last.beside_ps, last.alone_ps);
        assert_eq!(last.beside.mean_ps, last.alone_ps + 166_400 - 1000);
        let all: Bytes = first.result.links.iter().map(|row| row.bytes).sum();
        assert_eq!((all - first.link_bytes.iter().sum::<Bytes>(), first.load), (4096, None));
    }

    #[test]
    fn the_load_is_that_of_the_busiest_link() {
        // On a ring of 4 every rank sends to the next: 4,096 bytes in 4,160 on its link.
        let fabric = fabric("ring:4");
        let mut pairs = PairSchedules::new(&fabric, &System::default());
        let half = pattern(&fabric, "neighbor", Offered::Share(0.5), 4096);
        let (interval, load) = half.interval(&mut pairs, &System::default()).unwrap().unwrap();
        assert_eq!((interval, load), (2.0 * 166_400.0, 0.5));
        let rate = PatternTraffic { offered: Offered::Rate(4096.0 / 332.8e-9), ..half.clone() };
        let (interval, load) = rate.interval(&mut pairs, &System::default()).unwrap().unwrap();
        assert!((interval - 332_800.0).abs() < 1e-6 && (load - 0.5).abs() < 1e-9);
        let much = PatternTraffic { offered: Offered::Rate(25e9), ..half };
        let error = much.interval(&mut pairs, &System::default()).unwrap_err();
        assert!(error.message.contains("1.02 times what the link from 0 to 1 carries"), "{error}");
        // What a rank would send to itself goes to others.
        let uniform = pattern(&fabric, "hotspot:rank=1,share=1", Offered::Share(0.5), 4096);
        for from in 0..4 {
            assert!(((0..4).map(|to| uniform.share(from, to, 4)).sum::<f64>() - 1.0).abs() < 1e-9);
        }
        assert_eq!(uniform.until(4, 1e5, 10_000_000).unwrap().iter().filter(|each| each.from == each.to).count(), 0);
    }

    #[test]
    fn more_time_only_adds_messages_at_the_rate_that_was_asked_for() {
        let fabric = fabric("mesh:4x4");
        for regular in [false, true] {
            let traffic = PatternTraffic { regular, ..pattern(&fabric, "uniform", Offered::Share(0.3), 4096) };
            let [few, many] = [10_000_000, 100_000_000].map(|end| traffic.until(16, 1e5, end).unwrap());
            assert_eq!(few[..], many[..few.len()]);
            let expected = 16.0 * 1000.0;
            let off = (many.len() as f64 - expected).abs();
            assert!(off <= if regular { 16.0 } else { 4.0 * expected.sqrt() }, "{} messages", many.len());
        }
        let traffic = pattern(&fabric, "uniform", Offered::Share(0.3), 4096);
        assert_eq!(traffic.until(16, 1.0, 1 << 40).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn lists_that_mean_nothing_are_refused() {
        let fabric = fabric("ring:4");
        let ring = ring(&fabric, 4096);
        let of = |from, to, bytes| {
            let list = Background::Listed(vec![BackgroundMessage { at_ps: 0, from, to, bytes }]);
            let system = System::default();
            beside(&fabric, &ring, &list, Precedence::Fair, &system, Fidelity::Packet, &mut |_| true)
                .unwrap_err()
                .message
        };
        assert_eq!(of(0, 4, 1), "message 1, from rank 0 to rank 4: ranks are 0 to 3");
        assert_eq!(of(1, 1, 1), "message 1, from rank 1 to rank 1: its sender is its receiver");
        assert_eq!(of(0, 1, 0), "message 1, from rank 0 to rank 1: it has no bytes");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_messages_come_and_no_link_carries_more_than_its_rate(
            spec in prop::sample::select(vec!["mesh:3x3", "ring:5", "switch:4", "torus:3x3"]),
            share in 0.05..0.8f64,
            message in prop::sample::select(vec![1000u64, 4096, 20_000]),
            which in 0..3usize,
            fidelity in prop::sample::select(vec![Fidelity::AlphaBeta, Fidelity::Packet]),
            seed in 0..100u64,
        ) {
            let fabric = fabric(spec);
            let ring = ring(&fabric, 1 << 16);
            let traffic =
                PatternTraffic { seed, ..pattern(&fabric, "uniform", Offered::Share(share), message) };
            let precedence = Precedence::ALL[which].1;
            let found = run(&fabric, &ring, &Background::Pattern(traffic), precedence, fidelity);
            let sum: Bytes = found.messages.iter().map(|each| each.bytes).sum();
            let carried = found.result.links.iter().zip(&found.link_bytes).map(|(row, bytes)| row.bytes - bytes);
            prop_assert!(carried.sum::<Bytes>() >= sum);
            prop_assert!(found.result.links.iter().all(|row| row.busy_ps <= found.result.time_ps));
            prop_assert!(found.messages.iter().all(|each| each.at_ps < found.beside_ps));
            prop_assert_eq!(found.result.flights.len(), found.messages.len() + 1);
            prop_assert!(found.beside.mean_ps >= 1 || found.messages.is_empty());
            prop_assert!(found.delivered.iter().all(|&bytes| bytes <= sum));
        }
    }
}
