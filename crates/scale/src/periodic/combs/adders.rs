//! When the messages of combs are through, where sums take time: a rank adds what comes to it one by one, in the order in
//! which it comes, which need not be that of slots.
//!
//! A message is at its receiver at least `busy + way` after it starts. So time goes on in windows of that length (conservative
//! simulation: Chandy and Misra, 1979): in a window every link starts what it can, in the order of slots. All of that comes
//! after the window, and all that comes in the next one is known, so every rank adds it in its order.
//!
//! Periods are skipped as in [`super::waves`]: if all that decides what follows is, relative to the time and to
//! the slot of one link, what it was some periods before, it is so again after as many. It then runs for so many chunks less.

use super::rule::CombRule;
use super::waves::{MessageTicks, Settled};
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use std::result::Result as Kept;

/// A time of a slot or chunk that is later replaced by one further on.
#[derive(Debug, Clone, Copy)]
struct LastApplied {
    /// The slot, or the chunk.
    of: i64,
    at: i64,
}

/// Before all slots and chunks.
const NOTHING: LastApplied = LastApplied { of: i64::MIN / 2, at: 0 };

/// A message to be added when it has come.
#[derive(Clone, Copy)]
struct ComingSum {
    at: i64,
    /// Its place in the order of transfers: first slot, tree and sender.
    order: (i64, usize, usize),
    message: RuleMessage,
    /// The next one of its rank.
    next: u32,
}

/// A message on a link.
#[derive(Clone, Copy)]
struct RuleMessage {
    link: usize,
    slot: i64,
    class: usize,
    chunk: i64,
}

/// Where a link begins.
#[derive(Clone, Copy)]
struct LinkPlace {
    kind: u8,
    side: u8,
    line: u16,
    position: u16,
}

/// That what was kept has been replaced before it was used.
struct KeptTooShort;

/// All links and ranks. A link's number is ((kind * n + line) * 2 + side) * n + position, where a kind is rows or columns.
#[derive(Clone)]
struct LinkStates {
    slot: Vec<i64>,
    free: Vec<i64>,
    adder: Vec<i64>,
    /// By link and slot modulo what is kept: along a line.
    along: Vec<LastApplied>,
    /// By kind, side, chunk modulo what is kept, line and class: teeth at their middle.
    teeth: Vec<LastApplied>,
    /// By kind, side, chunk, position and line: spines.
    spine: Vec<LastApplied>,
}

struct WindowRun<'a> {
    combs: &'a CombRule,
    times: MessageTicks,
    adding: i64,
    chunks: i64,
    /// Slots kept of a link, and chunks of a comb.
    kept: [usize; 2],
    links: LinkStates,
    /// By link: its place, and the message that it is at, with when that is ready, if it is known.
    places: Vec<LinkPlace>,
    next: Vec<Option<(RuleMessage, Option<i64>)>>,
    /// By rank: the first of its additions to come, and all of them.
    first: Vec<u32>,
    coming: Vec<ComingSum>,
    ends: i64,
}

/// As [`super::waves::run`], where a sum takes `adding`. O(n^3) for a period; memory for some dozens of times of every link.
///
/// # Errors
/// [`antiphon_base::error::Code::Interrupted`].
pub(super) fn run(
    combs: &CombRule,
    chunks: u64,
    (times, adding): (MessageTicks, i64),
    skips: bool,
    watch: Watch,
) -> Result<Settled> {
    let mut kept = [16, 8];
    loop {
        match WindowRun::new(combs, chunks, times, adding, kept).through(skips, watch)? {
            Ok(found) => return Ok(found),
            Err(KeptTooShort) => kept = kept.map(|count| 2 * count),
        }
    }
}

impl<'a> WindowRun<'a> {
    fn new(combs: &'a CombRule, chunks: u64, times: MessageTicks, adding: i64, kept: [usize; 2]) -> WindowRun<'a> {
        let (n, all) = (combs.n, 4 * combs.n * combs.n);
        let links = LinkStates {
            slot: vec![0; all],
            free: vec![0; all],
            adder: vec![0; n * n],
            along: vec![NOTHING; all * kept[0]],
            teeth: vec![NOTHING; all * kept[1]],
            spine: vec![NOTHING; all * kept[1]],
        };
        let first = vec![u32::MAX; n * n];
        let place = |link: usize| {
            let (kind, side, line) = ((link / (2 * n * n)) as u8, (link / n % 2) as u8, (link / (2 * n) % n) as u16);
            LinkPlace { kind, side, line, position: (link % n) as u16 }
        };
        let places = (0..all).map(place).collect();
        let (chunks, next) = (chunks as i64, vec![None; all]);
        let mut run =
            WindowRun { combs, times, adding, chunks, kept, links, places, next, first, coming: vec![], ends: 0 };
        (0..all).for_each(|link| run.next[link] = run.message(link).map(|message| (message, None)));
        run
    }

    fn through(mut self, skips: bool, watch: Watch) -> Result<Kept<Settled, KeptTooShort>> {
        let (n, period) = (self.combs.n, self.combs.period() as i64);
        let (window, last) = (self.times.busy + self.times.way, i64::from(self.combs.last));
        let (mut now, mut later, mut periods, mut skipped) = (0, 0, 0, false);
        let mut seen: Option<(i64, i64, LinkStates)> = None;
        let all = self.links.slot.len();
        loop {
            watch.at(periods as usize * 1024, self.chunks as usize * 1024 + 1)?;
            let mut until = now + window;
            // The first link of all begins periods: windows end there.
            let marks = self.links.slot[0] % period == 0;
            let mark = match if marks { self.start(0) } else { Ok(None) } {
                Ok(mark) => mark,
                Err(short) => return Ok(Err(short)),
            };
            let marked = mark.is_some_and(|start| start == now);
            if let Some(start) = mark.filter(|&start| start > now) {
                until = until.min(start);
            }
            if marked {
                periods += 1;
                let slot = self.links.slot[0];
                if let Some((time, before, state)) = &seen
                    && self.links.is_like(state, [now, *time], [slot, *before], (self.kept, period))
                {
                    let each = (slot - before) / period;
                    let farthest = self.links.slot.iter().max().map_or(0, |slot| slot / period + 1);
                    let count = ((self.chunks - farthest) / each).max(0);
                    later = count * (now - time);
                    self.chunks -= count * each;
                    (skipped, seen) = (true, None);
                } else if skips && !skipped && seen.as_ref().is_none_or(|seen| slot >= 2 * seen.1) {
                    // Those of links that are no more than a rule's are at slot 0.
                    let all_began = (0..all).all(|link| link % n == n - 1 || self.links.slot[link] >= last);
                    seen = all_began.then(|| (now, slot, self.links.clone()));
                }
            }
            let mut left = false;
            for link in (0..all).filter(|link| link % n < n - 1) {
                match self.advance(link, until) {
                    Ok(goes_on) => left |= goes_on,
                    Err(short) => return Ok(Err(short)),
                }
            }
            self.add_all();
            if !left {
                return Ok(Ok(Settled { ticks: self.ends + later, periods }));
            }
            now = until;
        }
    }

    /// Starts what a link can start before a time; whether it has more.
    fn advance(&mut self, link: usize, until: i64) -> Kept<bool, KeptTooShort> {
        let all = self.chunks * self.combs.period() as i64 + i64::from(self.combs.last);
        while self.links.slot[link] < all {
            if let Some((message, _)) = self.next[link] {
                let Some(start) = self.start(link)?.filter(|&start| start < until) else { return Ok(true) };
                let end = start + self.times.busy;
                self.links.free[link] = end;
                self.send(message, end + self.times.way);
            }
            self.links.slot[link] += 1;
            self.next[link] = self.message(link).map(|message| (message, None));
        }
        Ok(false)
    }

    /// When the message that a link is at may start, if that is known.
    fn start(&mut self, link: usize) -> Kept<Option<i64>, KeptTooShort> {
        let Some((message, ready)) = self.next[link] else { return Ok(None) };
        let ready = match ready {
            Some(ready) => Some(ready),
            None => self.ready(message)?,
        };
        self.next[link] = Some((message, ready));
        Ok(ready.map(|ready| ready.max(self.links.free[link])))
    }

    /// Kind, line, side and position of a link.
    fn place(&self, link: usize) -> (usize, usize, usize, usize) {
        let LinkPlace { kind, side, line, position } = self.places[link];
        (kind.into(), line.into(), side.into(), position.into())
    }

    /// The message in the slot that a link is at, if there is one.
    fn message(&self, link: usize) -> Option<RuleMessage> {
        let (combs, (_, line, side, p)) = (self.combs, self.place(link));
        let (n, period, slot) = (combs.n, combs.period() as i64, self.links.slot[link]);
        let class = (combs.base(side, 0) as i64 + p as i64 - slot).rem_euclid(period) as usize;
        let first = match class {
            spine if spine == n => i64::from(combs.spine[side][p * n + line]),
            later if later > p => (combs.base(side, class) + p) as i64,
            _ => i64::from(combs.tooth[side][line * n + class]) + (p - class) as i64,
        };
        let chunk = (slot - first).div_euclid(period);
        (0..self.chunks).contains(&chunk).then_some(RuleMessage { link, slot, class, chunk })
    }

    /// When what a message waits for has been applied, if that is known.
    fn ready(&self, message: RuleMessage) -> Kept<Option<i64>, KeptTooShort> {
        let RuleMessage { link, class, slot, chunk } = message;
        let (combs, (kind, line, side, p)) = (self.combs, self.place(link));
        let n = combs.n;
        let middle = combs.mirrored(side, combs.middle);
        if class == n {
            match p.cmp(&middle) {
                std::cmp::Ordering::Less => {
                    let tooth = self.tooth(1 - kind, combs.mirrored(side, p), line, chunk)?;
                    match p {
                        0 => Ok(tooth),
                        _ => Ok(later(tooth, self.spine(kind, side, p - 1, line, chunk)?)),
                    }
                }
                std::cmp::Ordering::Equal => self.sum(kind, line, chunk),
                std::cmp::Ordering::Greater => self.spine(kind, side, p - 1, line, chunk),
            }
        } else if class == p {
            match combs.spine_into(line) {
                Some((from, at)) => self.spine(1 - kind, from, at, combs.mirrored(side, class), chunk),
                None => self.sum(1 - kind, combs.mirrored(side, class), chunk),
            }
        } else if p == 0 {
            Ok(Some(self.times.launch))
        } else {
            get(&self.links.along[self.along_at(link - 1, slot - 1)], slot - 1)
        }
    }

    /// Both counts that are kept are powers of two.
    fn along_at(&self, link: usize, slot: i64) -> usize {
        link * self.kept[0] + (slot as usize & (self.kept[0] - 1))
    }

    /// What comes along its line to the middle of a tooth, which is not at both ends.
    fn tooth(&self, kind: usize, line: usize, class: usize, chunk: i64) -> Kept<Option<i64>, KeptTooShort> {
        let n = self.combs.n;
        let side = |side: usize| match self.combs.mirrored(side, class) {
            0 => Ok(Some(0)),
            _ => get(&self.links.teeth[self.kept_at(kind, side, chunk) * n * n + line * n + class], chunk),
        };
        Ok(later(side(0)?, side(1)?))
    }

    fn spine(&self, kind: usize, side: usize, p: usize, line: usize, chunk: i64) -> Kept<Option<i64>, KeptTooShort> {
        let n = self.combs.n;
        get(&self.links.spine[self.kept_at(kind, side, chunk) * n * n + p * n + line], chunk)
    }

    /// What the root of the spine along a line waits for.
    fn sum(&self, kind: usize, line: usize, chunk: i64) -> Kept<Option<i64>, KeptTooShort> {
        let mut all = self.tooth(1 - kind, self.combs.middle, line, chunk)?;
        for side in [0, 1] {
            if let Some(p) = self.combs.mirrored(side, self.combs.middle).checked_sub(1) {
                all = later(all, self.spine(kind, side, p, line, chunk)?);
            }
        }
        Ok(all)
    }

    fn kept_at(&self, kind: usize, side: usize, chunk: i64) -> usize {
        (kind * 2 + side) * self.kept[1] + (chunk as usize & (self.kept[1] - 1))
    }

    /// A message will be at its receiver.
    fn send(&mut self, message: RuleMessage, at: i64) {
        let (combs, (kind, line, side, p)) = (self.combs, self.place(message.link));
        let n = combs.n;
        let spine = message.class == n;
        let adds = if spine { p < combs.mirrored(side, combs.middle) } else { p < message.class };
        if !adds {
            return self.applied(message, at);
        }
        let node = |p: usize| {
            let at = combs.mirrored(side, p);
            if kind == 0 { line * n + at } else { at * n + line }
        };
        let class = if spine { line } else { combs.mirrored(side, message.class) };
        let away = class.abs_diff(combs.middle) * 2;
        let place = if class < combs.middle { away - 1 } else { away };
        let first = message.slot - message.chunk * combs.period() as i64;
        let order = (first, 2 * place + usize::from(spine) * (1 - kind) + usize::from(!spine) * kind, node(p));
        let next = std::mem::replace(&mut self.first[node(p + 1)], self.coming.len() as u32);
        self.coming.push(ComingSum { at, order, message, next });
    }

    /// Every rank adds what comes before all that is not yet sent.
    fn add_all(&mut self) {
        let coming = std::mem::take(&mut self.coming);
        let mut own: Vec<ComingSum> = vec![];
        for start in 0..coming.len() {
            let RuleMessage { link, .. } = coming[start].message;
            let (kind, line, side, p) = self.place(link);
            let (n, to) = (self.combs.n, self.combs.mirrored(side, p + 1));
            let rank = if kind == 0 { line * n + to } else { to * n + line };
            let mut at = std::mem::replace(&mut self.first[rank], u32::MAX);
            own.clear();
            while let Some(addition) = coming.get(at as usize) {
                own.push(*addition);
                at = addition.next;
            }
            own.sort_unstable_by_key(|addition| (addition.at, addition.order, addition.message.chunk));
            for addition in &own {
                let adder = &mut self.links.adder[rank];
                *adder = addition.at.max(*adder) + self.adding;
                let at = *adder;
                self.applied(addition.message, at);
            }
        }
        self.coming = coming;
        self.coming.clear();
    }

    /// A message is applied.
    fn applied(&mut self, RuleMessage { link, slot, class, chunk }: RuleMessage, at: i64) {
        let (combs, (kind, line, side, p)) = (self.combs, self.place(link));
        let n = combs.n;
        self.ends = at.max(self.ends);
        if class == n {
            let place = self.kept_at(kind, side, chunk) * n * n + p * n + line;
            self.links.spine[place] = LastApplied { of: chunk, at };
        } else if class == p + 1 {
            let place = self.kept_at(kind, side, chunk) * n * n + line * n + combs.mirrored(side, class);
            self.links.teeth[place] = LastApplied { of: chunk, at };
        } else {
            let place = self.along_at(link, slot);
            self.links.along[place] = LastApplied { of: slot, at };
        }
    }
}

impl LinkStates {
    /// Whether what decides what follows is the same, relative to times and slots of two states.
    fn is_like(&self, other: &LinkStates, now: [i64; 2], slots: [i64; 2], (kept, period): ([usize; 2], i64)) -> bool {
        // What is before now need not be told apart: nothing starts before.
        let time = |of: &[i64]| of.iter().map(|&at| at.max(now[0]) - now[0]).collect::<Vec<_>>();
        let before = |of: &[i64]| of.iter().map(|&at| at.max(now[1]) - now[1]).collect::<Vec<_>>();
        let moved = slots[0] - slots[1];
        let chunks = moved / period;
        let arrivals = |one: &[LastApplied], other: &[LastApplied], size: usize, count: usize, moved: i64| {
            (0..one.len()).all(|place| {
                let (block, rest) = (place / (size * count), place % (size * count));
                let turned = (rest / size + moved as usize) % count;
                let (now_at, then) = (one[block * size * count + turned * size + rest % size], other[place]);
                now_at.of - then.of == moved && now_at.at.max(now[0]) - now[0] == then.at.max(now[1]) - now[1]
                    || now_at.of == NOTHING.of && then.of == NOTHING.of
            })
        };
        let n = self.adder.len();
        self.slot.iter().zip(&other.slot).all(|(one, other)| one - other == moved || (*one, *other) == (0, 0))
            && time(&self.free) == before(&other.free)
            && time(&self.adder) == before(&other.adder)
            && arrivals(&self.along, &other.along, 1, kept[0], moved)
            && arrivals(&self.teeth, &other.teeth, n, kept[1], chunks)
            && arrivals(&self.spine, &other.spine, n, kept[1], chunks)
    }
}

/// The time of a slot or chunk, if it has come.
fn get(arrival: &LastApplied, of: i64) -> Kept<Option<i64>, KeptTooShort> {
    match arrival.of.cmp(&of) {
        std::cmp::Ordering::Less => Ok(None),
        std::cmp::Ordering::Equal => Ok(Some(arrival.at)),
        std::cmp::Ordering::Greater => Err(KeptTooShort),
    }
}

/// The later of two, once both are known.
fn later(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one?.max(other?))
}
