//! The plans of a schedule, read back from its lanes: what is left of them on a fabric that has lost links or ranks.

use crate::algorithm::{Before, Request};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::Bytes;
use antiphon_bound::synthesis::{Graph, Known, Plan};
use antiphon_model::collective::Kind;
use antiphon_model::fabric::{LinkId, MAX_RANKS};
use antiphon_model::schedule::{Lane, Op, Schedule, Transfer};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;

/// What is left of a plan, and whether that is all of it.
pub type Left = (Known, bool);

/// A transfer of a lane, with the arcs that it goes over if all are there.
#[derive(Clone, Copy)]
struct Hop<'a> {
    from: u32,
    to: u32,
    op: Op,
    arcs: Option<&'a [u32]>,
}

impl<'a> Hop<'a> {
    /// The word before the arcs: how many there are, two flags, and both ends.
    const LENGTH_BITS: u32 = 6;
    const COPY: u32 = 1 << Self::LENGTH_BITS;
    const THERE: u32 = 2 << Self::LENGTH_BITS;
    const FROM: u32 = Self::LENGTH_BITS + 2;
    const TO: u32 = Self::FROM + (MAX_RANKS - 1).ilog2() + 1;
    /// So many arcs or more are counted in a word of their own.
    const MANY: u32 = (1 << Self::LENGTH_BITS) - 1;

    /// The words of a transfer, before those of its arcs.
    #[inline]
    fn words(transfer: &Transfer, is_there: bool) -> (u32, Option<u32>) {
        const { assert!(MAX_RANKS <= 1 << (u32::BITS - Hop::TO)) }
        let Transfer { from, to, op, ref route, .. } = *transfer;
        let length = route.len() as u32;
        let flags = if op == Op::Copy { Hop::COPY } else { 0 } | if is_there { Hop::THERE } else { 0 };
        let head = to << Hop::TO | from << Hop::FROM | flags | length.min(Hop::MANY);
        (head, (length >= Hop::MANY).then_some(length))
    }

    /// The hop at a place of a list of words, and the place of the next one.
    #[inline]
    fn at(words: &'a [u32], place: usize) -> (Hop<'a>, usize) {
        let head = words[place];
        let (length, start) = match head & Hop::MANY {
            Hop::MANY => (words[place + 1], place + 2),
            length => (length, place + 1),
        };
        let end = start + length as usize;
        let op = if head & Hop::COPY == 0 { Op::Reduce } else { Op::Copy };
        let arcs = (head & Hop::THERE != 0).then(|| &words[start..end]);
        let from = head >> Hop::FROM & ((1 << (Hop::TO - Hop::FROM)) - 1);
        (Hop { from, to: head >> Hop::TO, op, arcs }, end)
    }

    /// All hops of a list of words, with their places.
    #[inline]
    fn all(words: &'a [u32]) -> impl Iterator<Item = (u32, Hop<'a>)> {
        let mut place = 0;
        std::iter::from_fn(move || {
            (place < words.len()).then(|| {
                let (hop, next) = Hop::at(words, place);
                (std::mem::replace(&mut place, next) as u32, hop)
            })
        })
    }

    /// The upper and the lower rank.
    #[inline]
    fn ends(&self) -> (u32, u32) {
        if self.op == Op::Reduce { (self.to, self.from) } else { (self.from, self.to) }
    }
}

/// Bytes to a rank, and the place of the arcs they go over if all are there.
struct Path {
    to: u32,
    bytes: Bytes,
    arcs: Option<Range<usize>>,
}

/// Plans of paths that are read for every rank: parts of what it has for the others.
const PATHS: usize = 8;
/// Most arcs that all lanes go over. With the heads of hops, at most as many, that is 2 GiB of memory.
const MAX_ARCS: usize = 1 << 28;
/// Words that a hop mostly takes.
const WORDS: usize = 4;
/// Words that every lane has room for: those of a short path.
const FEW_WORDS: usize = 16;

/// What is left of every plan of a schedule, each once, and nothing of a rank's that has none. O(lanes and hops).
///
/// # Errors
/// [`Code::TooLarge`].
pub fn left(request: &Request, graph: &Graph, before: &Before) -> Result<Vec<Left>> {
    let collective = before.schedule.collective;
    let mut reader = Reader::new(before, &arcs(request, graph))?;
    let found: Vec<Left> = match collective.kind {
        Kind::AllToAll => reader.paths(),
        _ => reader.trees(),
    };
    let mut places: HashMap<(u32, u64), Vec<usize>> = HashMap::new();
    let mut all: Vec<Left> = vec![];
    for (known, is_whole) in found {
        let like = places.entry((known.root, FxBuildHasher.hash_one(known.plan.arcs()))).or_default();
        match like.iter().find(|&&at| all[at].0.plan == known.plan) {
            Some(&at) => all[at].0.share += known.share,
            None => {
                like.push(all.len());
                all.push((known, is_whole));
            }
        }
    }
    if matches!(collective.kind, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll) {
        let mut sums = vec![0.0; graph.ranks.len()];
        all.iter().for_each(|(known, _)| sums[known.root as usize] += known.share);
        all.iter_mut().for_each(|(known, _)| known.share /= sums[known.root as usize]);
        let none = (0..).zip(&sums).filter(|(_, sum)| **sum == 0.0);
        all.extend(none.map(|(root, _)| (Known { root, share: 1.0, plan: Plan::default() }, false)));
    } else {
        let sum: f64 = all.iter().map(|(known, _)| known.share).sum();
        all.iter_mut().for_each(|(known, _)| known.share /= sum);
    }
    Ok(all)
}

/// The prices of a schedule's certificate, of the arcs that are left.
pub fn prices(request: &Request, graph: &Graph, before: &Before) -> Option<Vec<f64>> {
    let certificate = before.schedule.certificate.as_ref()?;
    let arcs = arcs(request, graph);
    let mut prices = vec![0.0f64; graph.arcs.len()];
    for &(link, price) in &certificate.prices {
        if let Some(arc) = before.links[link as usize].and_then(|link| arcs[link as usize]) {
            prices[arc as usize] = prices[arc as usize].max(price as f64);
        }
    }
    Some(prices)
}

/// The arc of every link.
fn arcs(request: &Request, graph: &Graph) -> Vec<Option<u32>> {
    let mut arcs: Vec<Option<u32>> = vec![None; request.fabric.links.len()];
    for (id, arc) in (0..).zip(&graph.arcs) {
        arc.links.iter().for_each(|&link| arcs[link as usize] = Some(id));
    }
    arcs
}

/// The transfers of a schedule.
struct Reader<'a> {
    before: &'a Before<'a>,
    /// The hops of every lane, in words that lie together: far from each other in memory they would take most of the time.
    hops: Vec<Vec<u32>>,
}

/// No hop.
const NONE: u32 = u32::MAX;

impl<'a> Reader<'a> {
    /// With the arc of every link that is left. Transfers take much memory and are not in the order of lanes, so that they are
    /// looked at once, one after the other.
    ///
    /// # Errors
    /// [`Code::TooLarge`] past [`MAX_ARCS`].
    fn new(before: &'a Before, arc_of_link: &[Option<u32>]) -> Result<Self> {
        let Schedule { lanes, transfers, .. } = before.schedule;
        let arc = |link: &Option<LinkId>| link.and_then(|link| arc_of_link[link as usize]).unwrap_or(NONE);
        let arc_of_link: Vec<u32> = before.links.iter().map(arc).collect();
        let mut all = 0;
        let words = (WORDS * transfers.len() / lanes.len().max(1)).max(FEW_WORDS);
        let mut hops: Vec<Vec<u32>> = lanes.iter().map(|_| Vec::with_capacity(words)).collect();
        for transfer in transfers {
            let Transfer { payload, route, .. } = transfer;
            // It may carry many lanes, and its route be long.
            all += payload.iter().map(|lanes| lanes.len()).sum::<usize>() * route.len().max(1);
            if all > MAX_ARCS {
                let what =
                    format!("the schedule to start from has lanes over more than {MAX_ARCS} links; build one anew");
                return Err(Error::new(Code::TooLarge, what));
            }
            let arcs = || route.iter().map(|&link| arc_of_link[link as usize]);
            let (head, length) = Hop::words(transfer, arcs().all(|arc| arc != NONE));
            for lanes in payload.iter() {
                for words in &mut hops[lanes.start as usize..lanes.end as usize] {
                    words.push(head);
                    words.extend(length);
                    words.extend(arcs());
                }
            }
        }
        Ok(Reader { before, hops })
    }

    /// Every lane, and its hops, which are forgotten then.
    fn lanes(&mut self) -> impl Iterator<Item = (&'a Lane, Vec<u32>)> + use<'a> {
        self.before.schedule.lanes.iter().zip(std::mem::take(&mut self.hops))
    }

    fn rank(&self, rank: u32) -> Option<u32> {
        self.before.ranks[rank as usize]
    }

    /// The trees of the lanes that have one.
    fn trees(&mut self) -> Vec<Left> {
        let mut branches = vec![[NONE; 2]; self.before.ranks.len()];
        self.lanes().filter_map(|(lane, hops)| self.tree(lane.bytes, &hops, &mut branches)).collect()
    }

    /// The tree of a lane of so many bytes, if it is one; `branches` are for its hops up and down, by their lower ranks.
    fn tree(&self, bytes: Bytes, hops: &[u32], branches: &mut [[u32; 2]]) -> Option<Left> {
        branches.fill([NONE; 2]);
        let (mut all, mut length) = (0, hops.len());
        let ends = |place: u32| Hop::at(hops, place as usize).0.ends();
        for (place, hop) in Hop::all(hops) {
            let (above, below) = hop.ends();
            let way = usize::from(hop.op == Op::Copy);
            let branch = &mut branches[below as usize];
            let back = branch[1 - way];
            if branch[way] != NONE || back != NONE && ends(back).0 != above {
                return None;
            }
            branch[way] = place;
            length -= 1;
            all += usize::from(back == NONE);
        }
        let mut root = None;
        let mut plan = Plan::with_capacity(all, length);
        for (below, &[up, down]) in (0..).zip(branches.iter()).filter(|(_, places)| **places != [NONE; 2]) {
            let above = ends(if up == NONE { down } else { up }).0;
            if root.is_none() && branches[above as usize] == [NONE; 2] {
                root = Some(above);
            }
            let (Some(above), Some(below)) = (self.rank(above), self.rank(below)) else { continue };
            let way = |place| if place == NONE { Some([].as_slice()) } else { Hop::at(hops, place as usize).0.arcs };
            if let (Some(up), Some(down)) = (way(up), way(down)) {
                plan.push((above, below), [up, down]);
            }
        }
        let root = self.rank(root?)?;
        let is_whole = plan.branches.len() == all;
        Some((Known { root, share: bytes.max(1) as f64, plan }, is_whole))
    }

    /// Plans of every rank: those of its paths to the others that carry the same part of what it has for them.
    fn paths(&mut self) -> Vec<Left> {
        let mut arcs: Vec<u32> = vec![];
        let mut of_source: Vec<Vec<Path>> = self.before.ranks.iter().map(|_| vec![]).collect();
        for (lane, hops) in self.lanes() {
            of_source[lane.source as usize].extend(self.path(lane, &hops, &mut arcs));
        }
        let mut found = vec![];
        for (source, mut paths) in (0..).zip(of_source).filter(|(_, paths)| !paths.is_empty()) {
            let Some(root) = self.rank(source) else { continue };
            paths.sort_by_key(|path| path.to);
            let owners = paths.chunk_by(|a, b| a.to == b.to);
            let owners: Vec<(u32, &[Path])> =
                owners.filter_map(|paths| Some((self.rank(paths[0].to)?, paths))).collect();
            // Which path to each is in the middle of every part; many parts have the same.
            let mut parts = [(); PATHS].map(|()| vec![usize::MAX; owners.len()]);
            for (owner, (_, paths)) in owners.iter().enumerate() {
                let total: u128 = paths.iter().map(|path| u128::from(path.bytes)).sum();
                let (mut part, mut before) = (0, 0);
                for (number, path) in paths.iter().enumerate() {
                    before += u128::from(path.bytes);
                    while part < PATHS && total * (2 * part as u128 + 1) < before * 2 * PATHS as u128 {
                        parts[part][owner] = number;
                        part += 1;
                    }
                }
            }
            for (part, chosen) in parts.iter().enumerate().filter(|(part, chosen)| !parts[..*part].contains(chosen)) {
                let share = parts[part..].iter().filter(|other| *other == chosen).count() as f64;
                let ways = || {
                    let way = |(owner, &number): (&(u32, &[Path]), &usize)| {
                        (owner.0, owner.1.get(number).and_then(|path| path.arcs.clone()))
                    };
                    owners.iter().zip(chosen).map(way)
                };
                let length = ways().filter_map(|(_, way)| way).map(|way| way.len()).sum();
                let mut plan = Plan::with_capacity(owners.len(), length);
                for (to, way) in ways() {
                    way.into_iter().for_each(|way| plan.push((root, to), [&[], &arcs[way]]));
                }
                let is_whole = plan.branches.len() == owners.len();
                found.push((Known { root, share, plan }, is_whole));
            }
        }
        found
    }

    /// The path of a lane, from its source to its owner.
    fn path(&self, lane: &Lane, hops: &[u32], arcs: &mut Vec<u32>) -> Option<Path> {
        let ends = (lane.source, lane.owner);
        let start = arcs.len();
        let (mut rank, mut is_there, mut taken) = (ends.0, true, 0);
        let most = hops.len();
        // They are mostly in the order of the path; in circles there is no end.
        while rank != ends.1 && taken <= most {
            let before = taken;
            for (_, hop) in Hop::all(hops) {
                if hop.from == rank && rank != ends.1 {
                    (rank, taken) = (hop.to, taken + 1);
                    match hop.arcs {
                        Some(way) => arcs.extend(way),
                        None => is_there = false,
                    }
                }
            }
            if taken == before {
                break;
            }
        }
        if rank != ends.1 || ends.0 == ends.1 {
            arcs.truncate(start);
            return None;
        }
        let arcs = is_there.then_some(start..arcs.len());
        Some(Path { to: ends.1, bytes: lane.bytes, arcs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm;
    use antiphon_model::collective::Collective;
    use antiphon_model::fabric::Fabric;
    use antiphon_model::schedule::Payload;
    use antiphon_model::system::System;
    use smallvec::smallvec;

    /// The reader of a schedule as it is changed, on the fabric that it is for, and what it is asked.
    fn read<T>(change: impl FnOnce(&mut Schedule), ask: impl FnOnce(Result<Reader>) -> T) -> T {
        let fabric = Fabric::parse("mesh:2x2").unwrap();
        let system = System::preset("ideal").unwrap();
        let collective = Collective::new(Kind::AllToAll);
        let mut schedule = algorithm::build(&fabric, &system, collective, 1 << 20, "optimal").unwrap();
        change(&mut schedule);
        let links = (0..fabric.links.len() as u32).map(Some).collect::<Vec<_>>();
        let before = Before { schedule: &schedule, ranks: (0..4).map(Some).collect(), links: links.clone() };
        ask(Reader::new(&before, &links))
    }

    #[test]
    fn wide_and_long_transfers_are_refused_before_memory_is_taken() {
        let widen = |schedule: &mut Schedule| {
            schedule.lanes = vec![schedule.lanes[0].clone(); 1 << 16];
            schedule.transfers.truncate(1);
            schedule.transfers[0].payload = Payload::of(std::iter::once(0..1 << 16));
            schedule.transfers[0].route = smallvec![0; (1 << 12) + 1];
        };
        let error = read(widen, |reader| reader.map(drop).unwrap_err());
        assert_eq!(error.code, Code::TooLarge);
        assert!(error.message.contains("lanes over more than 268435456 links"), "{error}");
    }

    #[test]
    fn hops_of_any_length_are_read_as_they_are() {
        let (from, to) = (MAX_RANKS as u32 - 1, MAX_RANKS as u32 - 2);
        let lengths = [0, 1, Hop::MANY - 1, Hop::MANY, 1000];
        let all: Vec<(u32, Op, bool)> = lengths
            .iter()
            .flat_map(|&length| [Op::Reduce, Op::Copy].map(|op| (length, op)))
            .flat_map(|(length, op)| [false, true].map(|is_there| (length, op, is_there)))
            .collect();
        let mut words = vec![];
        for &(length, op, is_there) in &all {
            let route = (0..length).collect();
            let transfer = Transfer {
                from,
                to,
                op,
                route,
                ..read(|_| (), |reader| reader.unwrap().before.schedule.transfers[0].clone())
            };
            let (head, many) = Hop::words(&transfer, is_there);
            words.push(head);
            words.extend(many);
            words.extend(0..length);
        }
        let hops = Hop::all(&words).map(|(_, hop)| hop);
        for (hop, (length, op, is_there)) in hops.zip(&all) {
            assert_eq!((hop.from, hop.to, hop.op), (from, to, *op));
            assert_eq!(hop.arcs.map(<[u32]>::to_vec), is_there.then(|| (0..*length).collect()));
        }
        assert_eq!(Hop::all(&words).count(), all.len());
    }

    #[test]
    fn paths_are_read_in_any_order_and_circles_end() {
        let paths = |reader: Result<Reader>| {
            reader.unwrap().paths().into_iter().map(|(known, _)| known.plan).collect::<Vec<_>>()
        };
        let own = read(|_| (), paths);
        assert!(own.iter().all(|plan| plan.branches.len() == 3));
        assert_eq!(read(|schedule| schedule.transfers.reverse(), paths), own);
        // Lane 0 goes round and round.
        let circle = |schedule: &mut Schedule| {
            schedule.lanes.truncate(1);
            (schedule.lanes[0].source, schedule.lanes[0].owner) = (0, 3);
            let mut there = schedule.transfers[0].clone();
            (there.from, there.to, there.payload, there.route) =
                (0, 1, Payload::of(std::iter::once(0..1)), smallvec![0]);
            let back = Transfer { from: 1, to: 0, ..there.clone() };
            schedule.transfers = [there, back].into_iter().cycle().take(1000).collect();
        };
        let found = read(circle, |reader| {
            let (reader, mut arcs) = (reader.unwrap(), vec![]);
            let lane = &reader.before.schedule.lanes[0];
            (reader.path(lane, &reader.hops[0], &mut arcs).is_none(), arcs.capacity())
        });
        assert!(found.0 && found.1 <= 4096, "{found:?}");
    }
}
