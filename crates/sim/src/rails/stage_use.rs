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
pub(super) struct ChunkPlace {
    holds: [u8; HELD],
    /// Services it has, of which the first may still be under way when the next begins.
    serving: u8,
    queued: bool,
}

impl Default for ChunkPlace {
    fn default() -> Self {
        ChunkPlace { holds: [NONE; HELD], serving: 0, queued: false }
    }
}

impl ChunkPlace {
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
    fn change(&mut self, place: &mut ChunkPlace, now: Picos, how: impl FnOnce(&mut ChunkPlace)) {
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
    pub fn queue(&mut self, place: &mut ChunkPlace, now: Picos) {
        if !self.0.is_empty() {
            self.change(place, now, |place| place.queued = true);
        }
    }

    /// A server takes a chunk.
    pub fn serve(&mut self, place: &mut ChunkPlace, now: Picos) {
        if !self.0.is_empty() {
            self.change(place, now, |place| (place.queued, place.serving) = (false, place.serving + 1));
        }
    }

    /// A server has served all of a chunk.
    pub fn end(&mut self, place: &mut ChunkPlace, now: Picos) {
        if !self.0.is_empty() {
            self.change(place, now, |place| place.serving -= 1);
        }
    }

    /// A chunk waits for a room.
    pub fn ask(&mut self, place: &mut ChunkPlace, room: u8, now: Picos) {
        let of = &mut self.0[usize::from(room)];
        of.advance(now);
        of.waiters += 1;
        self.change(place, now, |place| place.queued = true);
    }

    /// A chunk takes so much of the room for which it waited.
    pub fn take(&mut self, place: &mut ChunkPlace, room: u8, amount: u64, now: Picos) {
        self.change(place, now, |place| place.queued = false);
        let of = &mut self.0[usize::from(room)];
        of.advance(now);
        (of.waiters, of.holders, of.held) = (of.waiters - 1, of.holders + 1, of.held + amount);
        let free = place.holds.iter().position(|&held| held == NONE).expect("a chunk holds no more rooms at once");
        place.holds[free] = room;
    }

    /// A chunk, which goes on, gives back what it has of a room.
    pub fn give(&mut self, place: &mut ChunkPlace, room: u8, amount: u64, now: Picos) {
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

    /// The option of the part that limits most of the time, or links by their name; `latency` where nothing does half of
    /// the time.
    pub fn limit(&self) -> String {
        let links = || self.links.iter().map(|(name, busy)| (*busy, name.clone()));
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
pub fn add_span(spans: &mut Vec<(Picos, Picos)>, span: (Picos, Picos)) {
    match spans.last_mut() {
        Some((_, end)) if *end >= span.0 => *end = span.1.max(*end),
        _ => spans.push(span),
    }
}

/// Spans without overlap that cover the same time.
pub(super) fn joined(mut spans: Vec<(Picos, Picos)>) -> Vec<(Picos, Picos)> {
    spans.sort_unstable();
    let mut found = vec![];
    spans.into_iter().for_each(|span| add_span(&mut found, span));
    found
}
