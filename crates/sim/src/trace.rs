//! What happened when in a run: what each link transmitted, and what each rank received or added, message by message.

use super::Fidelity;
use super::clock::Ticks;
use super::plan::RunPlan;
use super::recorder::{Deliveries, MOST_SPANS, Traffic};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;
use std::collections::HashMap;

/// Events of a trace; runs with more are not traced.
pub const MOST_EVENTS: usize = MOST_SPANS;

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// A rank of the fabric: it received a message, and added it if that takes time.
    Rank(u32),
    /// A link transmitted; of links that act together the first one stands for all.
    Link(LinkId),
}

/// Something that took from `start_ps` to `end_ps`; what a rank only stores takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub track: Track,
    /// Which message; `None` where the network does not say, as routers of flits do not.
    pub message: Option<TracedMessage>,
    /// When it began.
    pub start_ps: Picos,
    /// When it ended.
    pub end_ps: Picos,
}

/// A chunk of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedMessage {
    /// Which flight.
    pub flight: u32,
    /// Transfer of its schedule.
    pub transfer: TransferId,
    /// Chunk of the transfer.
    pub chunk: u64,
    /// Phase of its schedule.
    pub phase: u32,
    /// Sending rank of the fabric.
    pub from: u32,
    /// Receiving rank of the fabric.
    pub to: u32,
    /// Wire bytes without headers.
    pub bytes: Bytes,
    /// Whether the receiver adds.
    pub adds: bool,
}

/// See the module. On a track nothing overlaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// By track, then by time.
    pub spans: Vec<Span>,
    /// Links that each used link stands for, where they are several.
    pub bundles: Vec<(LinkId, Vec<LinkId>)>,
}

impl Trace {
    /// Of a run of `plan`; `None` if nobody asked or there were too many events. O(events log events).
    pub(super) fn of(plan: &RunPlan, deliveries: &Deliveries, traffic: &Traffic) -> Option<Trace> {
        let (spans, log) = (traffic.spans.as_ref()?, deliveries.log.as_ref()?);
        let mut all = vec![];
        if spans.over || !add_links(plan, traffic, &mut all) || !add_ranks(plan, log, &mut all) {
            return None;
        }
        all.sort_by_key(|span| (span.track, span.start_ps, span.end_ps));
        let mut used: Vec<LinkId> = spans.all().iter().map(|span| span.link).collect();
        used.sort_unstable();
        used.dedup();
        let bundle = |first: LinkId| (first, plan.channels.links(first).to_vec());
        let bundles = used.into_iter().map(bundle).filter(|(_, links)| links.len() > 1).collect();
        Some(Trace { spans: all, bundles })
    }
}

fn message(plan: &RunPlan, id: TransferId, chunk: u64) -> TracedMessage {
    let job = &plan.jobs[id as usize];
    let kind = plan.kind(job);
    let phase = job.phase - plan.flights[job.flight as usize].phases.start;
    let (flight, transfer, from, to) = (job.flight, job.origin, job.from, job.to);
    TracedMessage { flight, transfer, chunk, phase, from, to, bytes: kind.bytes, adds: kind.adds }
}

fn span(plan: &RunPlan, track: Track, message: Option<TracedMessage>, start: Ticks, end: Ticks) -> Span {
    Span { track, message, start_ps: plan.clock.picos(start), end_ps: plan.clock.picos(end) }
}

/// Adds what links transmitted, cut where a chunk ends; false if that is too much. On a link the chunks of a transfer
/// follow each other, so the time tells which it is.
fn add_links(plan: &RunPlan, traffic: &Traffic, all: &mut Vec<Span>) -> bool {
    let mut transmitted: HashMap<(LinkId, TransferId), Ticks> = HashMap::new();
    for of in traffic.spans.iter().flat_map(|spans| spans.all()) {
        let track = Track::Link(of.link);
        let Some(id) = of.transfer else {
            all.push(span(plan, track, None, of.start, of.end));
            continue;
        };
        let job = &plan.jobs[id as usize];
        let message_time = plan.kind(job).packets.count * plan.packet_time(job, of.link);
        let before = transmitted.entry((of.link, id)).or_default();
        let mut start = of.start;
        while start < of.end {
            if all.len() >= MOST_EVENTS {
                return false;
            }
            let end = of.end.min(start + message_time - *before % message_time);
            all.push(span(plan, track, Some(message(plan, id, *before / message_time)), start, end));
            *before += end - start;
            start = end;
        }
    }
    all.len() <= MOST_EVENTS
}

/// Adds what ranks received, in the order in which it was applied; false if that is too much. An addition that others
/// interrupted is in several pieces: it had all time since it began but theirs, and they ended before it.
fn add_ranks(plan: &RunPlan, log: &[(TransferId, u64, Ticks)], all: &mut Vec<Span>) -> bool {
    // When each rank added.
    let mut adding: Vec<Vec<(Ticks, Ticks)>> = vec![vec![]; plan.participants()];
    for &(id, chunk, at) in log {
        let job = &plan.jobs[id as usize];
        let (track, what) = (Track::Rank(job.to), Some(message(plan, id, chunk)));
        let (mut left, mut end) = (plan.kind(job).reduce, at);
        if left == 0 {
            all.push(span(plan, track, what, at, at));
            continue;
        }
        let taken = &mut adding[job.to as usize];
        let began = loop {
            let free_from = taken.last().map_or(0, |&(_, end)| end);
            let start = end.saturating_sub(left).max(free_from);
            if start < end {
                all.push(span(plan, track, what, start, end));
                left -= end - start;
            }
            match taken.pop() {
                Some(before) if left == 0 => {
                    taken.push(before);
                    break start;
                }
                Some((start, _)) => end = start,
                None => break start,
            }
        };
        taken.push((began, at));
        if all.len() > MOST_EVENTS {
            return false;
        }
    }
    true
}

/// Refuses runs of which it is known beforehand that their events are too many. O(transfers).
///
/// # Errors
/// [`Code::TooLarge`].
pub(super) fn expect_few(plan: &RunPlan, fidelity: Fidelity) -> Result<()> {
    // Flits of several messages may be one span of a link.
    let links = |hops: u64| if fidelity == Fidelity::Flit { 0 } else { hops };
    let events = |job: &super::plan::Job| plan.kind(job).chunks.saturating_mul(1 + links(job.hops.len() as u64));
    let least = plan.jobs.iter().map(events).fold(0u64, u64::saturating_add);
    if least > MOST_EVENTS as u64 {
        return Err(too_many(&least.to_string()));
    }
    Ok(())
}

/// The refusal of a run with so many events, at least.
pub(super) fn too_many(events: &str) -> Error {
    let what = format!(
        "a trace has at most {MOST_EVENTS} events, and this run has {events}; use less data, larger chunks, or fewer ranks"
    );
    Error::new(Code::TooLarge, what)
}
