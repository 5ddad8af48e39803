//! What limits a run at an endpoint: how busy every part is, and which room keeps chunks waiting.
//!
//! A server limits while it serves. A room (state machines, SRAM) limits while chunks wait for it and those that hold it go
//! on: where they wait themselves, what they wait for limits. So of a row of full parts only the last one does.

use super::stage_loop::spread;
use antiphon_base::units::Picos;

/// Rooms that a chunk holds at once, at most: SRAM of a phase, its state machine, and SRAM of the next.
const HELD: usize = 3;
/// No room.
const NONE: u8 = u8::MAX;

/// Where a chunk is: what it holds, and whether it goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkHolds {
    holds: [u8; HELD],
    /// Services it has, of which the first may still be under way when the next begins.
    serving: u8,
    queued: bool,
}

impl Default for ChunkHolds {
    fn default() -> Self {
        ChunkHolds { holds: [NONE; HELD], serving: 0, queued: false }
    }
}

impl ChunkHolds {
    fn waits(&self) -> bool {
        self.queued && self.serving == 0
    }

    fn rooms(&self) -> impl Iterator<Item = usize> + use<> {
        self.holds.into_iter().filter(|&room| room != NONE).map(usize::from)
    }
}

/// What a room did.
#[derive(Debug, Clone, Default)]
pub(super) struct RoomUse {
    /// Until when it is accounted for.
    at: Picos,
    /// Chunks that hold it, those of them that wait, and chunks that wait for it.
    holders: u32,
    held_up: u32,
    waiters: u32,
    /// How much of it is held, and over time.
    held: u64,
    pub held_over_time: u128,
    /// Time in which it limits.
    pub limits_ps: f64,
    /// Time that chunks waited for it, together.
    pub waited_ps: u128,
    /// When they did.
    pub stalls: Vec<(Picos, Picos)>,
}

impl RoomUse {
    fn advance(&mut self, now: Picos) {
        let passed = now - self.at;
        self.held_over_time += u128::from(self.held) * u128::from(passed);
        self.waited_ps += u128::from(self.waiters) * u128::from(passed);
        if self.waiters > 0 && self.holders > 0 {
            self.limits_ps += passed as f64 * f64::from(self.holders - self.held_up) / f64::from(self.holders);
        }
        if self.waiters > 0 && passed > 0 {
            match self.stalls.last_mut() {
                Some((_, end)) if *end == self.at => *end = now,
                _ => self.stalls.push((self.at, now)),
            }
        }
        self.at = now;
    }
}

/// What all rooms did.
#[derive(Debug, Clone, Default)]
pub(super) struct RoomUses(pub Vec<RoomUse>);

impl RoomUses {
    /// Changes where a chunk is.
    fn change(&mut self, place: &mut ChunkHolds, now: Picos, how: impl FnOnce(&mut ChunkHolds)) {
        let before = place.waits();
        how(place);
        let after = place.waits();
        if before != after {
            for room in place.rooms() {
                let room = &mut self.0[room];
                room.advance(now);
                room.held_up = room.held_up + u32::from(after) - u32::from(before);
            }
        }
    }

    /// A chunk waits for a server.
    pub fn queue(&mut self, place: &mut ChunkHolds, now: Picos) {
        if !self.0.is_empty() {
            self.change(place, now, |place| place.queued = true);
        }
    }

    /// A server takes a chunk.
    pub fn serve(&mut self, place: &mut ChunkHolds, now: Picos) {
        if !self.0.is_empty() {
            self.change(place, now, |place| (place.queued, place.serving) = (false, place.serving + 1));
        }
    }

    /// A server has served all of a chunk.
    pub fn end(&mut self, place: &mut ChunkHolds, now: Picos) {
        if !self.0.is_empty() {
            self.change(place, now, |place| place.serving -= 1);
        }
    }

    /// A chunk waits for a room.
    pub fn ask(&mut self, place: &mut ChunkHolds, room: u8, now: Picos) {
        let of = &mut self.0[usize::from(room)];
        of.advance(now);
        of.waiters += 1;
        self.change(place, now, |place| place.queued = true);
    }

    /// A chunk takes so much of the room for which it waited.
    pub fn take(&mut self, place: &mut ChunkHolds, room: u8, amount: u64, now: Picos) {
        self.change(place, now, |place| place.queued = false);
        let of = &mut self.0[usize::from(room)];
        of.advance(now);
        (of.waiters, of.holders, of.held) = (of.waiters - 1, of.holders + 1, of.held + amount);
        let free = place.holds.iter().position(|&held| held == NONE).expect("a chunk holds no more rooms at once");
        place.holds[free] = room;
    }

    /// A chunk, which goes on, gives back what it has of a room.
    pub fn give(&mut self, place: &mut ChunkHolds, room: u8, amount: u64, now: Picos) {
        let of = &mut self.0[usize::from(room)];
        of.advance(now);
        of.held_up -= u32::from(place.waits());
        (of.holders, of.held) = (of.holders - 1, of.held - amount);
        let at = place.holds.iter().position(|&held| held == room).expect("it has it");
        place.holds[at] = NONE;
    }
}

/// What a part of an endpoint did in the time in which something was under way.
#[derive(Debug, Clone, PartialEq)]
pub struct PartUse {
    /// Its name.
    pub name: &'static str,
    /// The option of the endpoint that says how much of it there is.
    pub option: &'static str,
    /// Share of the time in which it serves, or mean share of it that is held.
    pub busy: f64,
    /// Chunks that wait for it, mean; message by message the share of the time in which any waits, where that is known.
    pub waiting: Option<f64>,
    /// Share of the time in which it limits.
    pub limits: f64,
    /// When it serves, or chunks wait for it.
    pub spans: Vec<(Picos, Picos)>,
}

/// What all parts did, and when something was under way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EndpointUse {
    /// Parts of the endpoint.
    pub parts: Vec<PartUse>,
    /// Of each dimension, or all links together, its name and the share of the time in which its busiest was sending.
    pub links: Vec<(String, f64)>,
    /// When something was under way.
    pub under_way: Vec<(Picos, Picos)>,
}

/// What limits less of the time does not limit.
const LIMITS: f64 = 0.5;
/// What is busy so much of the time is the limit, whatever waits for rooms.
const SATURATED: f64 = 0.95;
/// Links are as busy as others if they are so much of the time.
const ALIKE: f64 = 0.98;

impl EndpointUse {
    /// Names of parts, each with the share of equal windows of the time until `end` in which it served or kept chunks
    /// waiting; and `under way`, with that in which something was.
    pub fn activity(&self, end: Picos, windows: usize) -> Vec<(&'static str, Vec<f64>)> {
        let length = end.max(1) as f64 / windows as f64;
        let of = |name, spans: &[(Picos, Picos)]| {
            let mut shares = vec![0.0; windows];
            for &(start, finish) in spans {
                spread(&mut shares, length, start as f64, finish.min(end) as f64);
            }
            (name, shares)
        };
        self.parts.iter().map(|part| of(part.name, &part.spans)).chain([of("under_way", &self.under_way)]).collect()
    }

    /// The option of the part that limits most of the time, or links, `dim2+dim3` where several are as busy; `latency` where nothing does half of
    /// the time.
    pub fn limit(&self) -> String {
        // Where several are as busy, all of them together.
        let busiest = self.links.iter().map(|(_, busy)| *busy).fold(0.0, f64::max);
        let names: Vec<&str> =
            self.links.iter().filter(|(_, busy)| *busy >= ALIKE * busiest).map(|(name, _)| &**name).collect();
        let links = || std::iter::once((busiest, names.join("+")));
        let of = |part: &PartUse| (part.limits, part.option.to_string());
        let most = |of: Vec<(f64, String)>, least: f64| {
            let those = of.into_iter().filter(|(share, _)| *share >= least);
            those.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
        };
        let is_server = |part: &&PartUse| part.name != part.option;
        let servers = links().chain(self.parts.iter().filter(is_server).map(of)).collect();
        let all = links().chain(self.parts.iter().map(of)).collect();
        most(servers, SATURATED).or_else(|| most(all, LIMITS)).unwrap_or("latency".into())
    }
}

/// Time of spans that do not overlap.
pub(super) fn total(spans: &[(Picos, Picos)]) -> Picos {
    spans.iter().map(|(start, end)| end - start).sum()
}

/// Adds a span, which ends after those before, to some that do not overlap.
pub fn add_span(spans: &mut Vec<(Picos, Picos)>, (mut start, mut end): (Picos, Picos)) {
    while let Some(before) = spans.pop_if(|before| before.1 >= start) {
        (start, end) = (before.0.min(start), before.1.max(end));
    }
    spans.push((start, end));
}

/// Spans without overlap that cover the same time.
pub(super) fn joined(mut spans: Vec<(Picos, Picos)>) -> Vec<(Picos, Picos)> {
    spans.sort_unstable();
    let mut found = vec![];
    spans.into_iter().for_each(|span| add_span(&mut found, span));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_joined() {
        let mut spans = vec![];
        // The second interrupted the third.
        for span in [(0, 2), (5, 6), (4, 9), (9, 10), (12, 13)] {
            add_span(&mut spans, span);
        }
        assert_eq!((total(&spans), &spans), (9, &vec![(0, 2), (4, 10), (12, 13)]));
        assert_eq!(joined(vec![(3, 5), (0, 4), (6, 7)]), [(0, 5), (6, 7)]);
    }

    /// Two chunks want a room for one. While its holder is served the room limits; while it waits, it does not.
    #[test]
    fn a_room_limits_while_those_that_have_it_go_on() {
        let (mut uses, mut chunks) = (RoomUses(vec![RoomUse::default()]), [ChunkHolds::default(); 2]);
        let [first, second] = &mut chunks;
        uses.ask(first, 0, 0);
        uses.take(first, 0, 1, 0);
        uses.ask(second, 0, 0);
        uses.queue(first, 0);
        uses.serve(first, 10);
        uses.end(first, 30);
        uses.give(first, 0, 1, 30);
        uses.take(second, 0, 1, 30);
        let of = &uses.0[0];
        assert_eq!((of.limits_ps, of.waited_ps, of.held_over_time, &of.stalls), (20.0, 30, 30, &vec![(0, 30)]));
    }

    #[test]
    fn what_limits_is_named() {
        let part = |name, option, limits| PartUse { name, option, busy: limits, waiting: None, limits, spans: vec![] };
        let limit = |read, fsms, links: [f64; 2]| {
            let parts = vec![part("read", "memory_gb_per_s", read), part("fsms", "fsms", fsms)];
            let links = vec![("dim1".into(), links[0]), ("dim2".into(), links[1])];
            EndpointUse { parts, links, under_way: vec![] }.limit()
        };
        assert_eq!(limit(0.3, 0.4, [0.1, 0.2]), "latency");
        assert_eq!(limit(0.7, 0.8, [0.1, 0.2]), "fsms");
        assert_eq!(limit(0.97, 1.0, [0.1, 0.2]), "memory_gb_per_s");
        assert_eq!(limit(0.6, 0.5, [0.8, 0.9]), "dim2");
        assert_eq!(limit(0.6, 0.5, [0.9, 0.9]), "dim1+dim2");
    }
}
