//! What each link carried in each window, and when followed messages began to be sent, where somebody asks.

use super::windows::Windows;
use crate::clock::Ticks;
use crate::playback::{NO_GROUP, NOT_FOLLOWED, PlaybackPlan};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;
use std::sync::Arc;

/// A link and group that transmitted nothing.
const NONE: u32 = u32::MAX;

/// See the module.
pub struct Carried {
    of: Arc<PlaybackPlan>,
    /// Row of `windows` of each link and group of lanes, and behind them of what is of no group.
    rows: Vec<u32>,
    windows: Vec<Windows<u64>>,
    /// First transmission of each phase.
    pub phases: Vec<Ticks>,
    /// Time for which the first link of each followed transfer was busy with it, and after which the next chunk that is
    /// chosen begins.
    sent: Vec<(Ticks, Ticks)>,
    /// Transfer, chunk and time at which a followed message began to be sent.
    pub began: Vec<(TransferId, u64, Ticks)>,
    record: Option<Period>,
}

/// A row of [`Carried::windows`], and as in [`Windows::add`] start, count, length and spacing of what is added.
type RecordedRun = (u32, Ticks, u64, Ticks, Ticks);

/// A period that is being recorded.
struct Period {
    runs: Vec<RecordedRun>,
    /// [`Carried::sent`] at its start.
    sent: Vec<(Ticks, Ticks)>,
    /// Place among those followed, chunk and time of every message of theirs that began.
    began: Vec<(u32, u64, Ticks)>,
}

impl Carried {
    /// Nothing yet, of so many links.
    pub fn new(of: &Arc<PlaybackPlan>, links: usize) -> Self {
        Carried {
            rows: vec![NONE; links * (of.groups + 1)],
            windows: vec![],
            phases: vec![Ticks::MAX; of.phases],
            sent: vec![(0, 0); of.followed.len()],
            began: vec![],
            record: None,
            of: of.clone(),
        }
    }

    /// As [`super::Traffic::transmitted_run`].
    pub fn add(
        &mut self,
        link: LinkId,
        transfer: Option<TransferId>,
        start: Ticks,
        packets: u64,
        packet_time: Ticks,
        spacing: Ticks,
    ) {
        let mark = transfer.map(|id| self.of.marks[id as usize]);
        let group = mark.map_or(self.of.groups, |mark| mark.group.into());
        let row = &mut self.rows[link as usize * (self.of.groups + 1) + group];
        if *row == NONE {
            *row = self.windows.len() as u32;
            self.windows.push(Windows::with_windows(self.of.windows, self.of.shift));
        }
        self.windows[*row as usize].add(start, packets, packet_time, spacing, 1);
        if let Some(record) = &mut self.record {
            record.runs.push((*row, start, packets, packet_time, spacing));
        }
        let Some(mark) = mark.filter(|_| packets > 0) else { return };
        let first = &mut self.phases[mark.phase as usize];
        *first = start.min(*first);
        if mark.followed != NOT_FOLLOWED {
            self.follow(link, mark.followed, start, packets, packet_time, spacing);
        }
    }

    /// A link transmitted packets of a followed transfer. Its chunks follow each other on the first link of its route, so the
    /// time tells which begin there.
    fn follow(&mut self, link: LinkId, place: u32, start: Ticks, packets: u64, packet_time: Ticks, spacing: Ticks) {
        let of = &self.of.followed[place as usize];
        if of.link != Some(link) || of.message == 0 {
            return;
        }
        let (sent, next) = &mut self.sent[place as usize];
        let (from, to) = (*sent, *sent + packets * packet_time);
        *sent = to;
        if to <= *next && self.record.is_none() {
            return;
        }
        let at = |chunk: u64| start + (chunk * of.message - from) / packet_time * spacing;
        let chunks = from.div_ceil(of.message)..to.div_ceil(of.message);
        let chosen = self.of.chosen(of);
        let [first, end] = [chunks.start, chunks.end].map(|end| chosen.partition_point(|&chunk| chunk < end));
        self.began.extend(chosen[first..end].iter().map(|&chunk| (of.id, chunk, at(chunk))));
        *next = chosen.get(end).map_or(Ticks::MAX, |chunk| chunk * of.message);
        if let Some(record) = &mut self.record {
            record.began.extend(chunks.map(|chunk| (place, chunk, at(chunk))));
        }
    }

    /// Records what is transmitted from now on, to be repeated or discarded.
    pub fn record_period(&mut self) {
        self.record = Some(Period { runs: vec![], sent: self.sent.clone(), began: vec![] });
    }

    /// The record is of no use.
    pub fn discard_period(&mut self) {
        self.record = None;
    }

    /// Adds what was recorded `periods` times, each `period` later.
    pub fn repeat(&mut self, periods: u64, period: Ticks) {
        let Some(mut record) = self.record.take() else { return };
        record.runs.sort_by_key(|run| run.0);
        for runs in record.runs.chunk_by(|one, other| one.0 == other.0) {
            let of = |&(_, start, packets, packet_time, spacing): &RecordedRun| {
                // What is back to back is one span.
                let (count, length) =
                    if spacing == packet_time { (1, packets * packet_time) } else { (packets, packet_time) };
                (0..count).map(move |i| (start + i * spacing, start + i * spacing + length, 1))
            };
            let spans: Vec<_> = runs.iter().flat_map(of).collect();
            self.windows[runs[0].0 as usize].add_later(&spans, periods, period);
        }
        for (place, chunk, at) in record.began {
            let (of, place) = (&self.of.followed[place as usize], place as usize);
            let each = (self.sent[place].0 - record.sent[place].0) / of.message;
            let later = later_chunks(self.of.chosen(of), chunk, each, periods);
            self.began.extend(later.map(|(chunk, times)| (of.id, chunk, at + times * period)));
        }
        for ((of, sent), before) in self.of.followed.iter().zip(&mut self.sent).zip(record.sent) {
            sent.0 += periods * (sent.0 - before.0);
            let begun = |&chunk: &u64| chunk * of.message < sent.0;
            let chosen = self.of.chosen(of);
            sent.1 = chosen.get(chosen.partition_point(begun)).map_or(Ticks::MAX, |chunk| chunk * of.message);
        }
    }

    /// Adds what others recorded; neither is to be repeated.
    pub fn join(&mut self, other: Carried) {
        let mut windows: Vec<_> = other.windows.into_iter().map(Some).collect();
        for (row, other) in self.rows.iter_mut().zip(other.rows) {
            let Some(taken) = windows.get_mut(other as usize).and_then(Option::take) else { continue };
            match self.windows.get_mut(*row as usize) {
                Some(own) => own.join(taken),
                None => {
                    *row = self.windows.len() as u32;
                    self.windows.push(taken);
                }
            }
        }
        self.phases.iter_mut().zip(other.phases).for_each(|(own, other)| *own = other.min(*own));
        self.began.extend(other.began);
    }

    /// The windows of a link, by group.
    pub fn of_link(&self, link: LinkId) -> impl Iterator<Item = (u8, &Windows<u64>)> {
        let groups = self.of.groups;
        let rows = &self.rows[link as usize * (groups + 1)..][..groups + 1];
        let group = move |group: usize| if group < groups { group as u8 } else { NO_GROUP };
        rows.iter().enumerate().filter_map(move |(at, &row)| Some((group(at), self.windows.get(row as usize)?)))
    }

    /// The widest windows are `1 << shift` ticks long.
    pub fn shift(&self) -> u32 {
        self.windows.iter().map(Windows::shift).max().unwrap_or(self.of.shift)
    }
}

/// Of `chosen` chunks those that come when `chunk` is repeated up to `periods` times, each time `each` chunks further, and
/// after how many times.
pub fn later_chunks(chosen: &[u64], chunk: u64, each: u64, periods: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    let times = move |&later: &u64| later.checked_sub(chunk).filter(|by| by % each == 0).map(|by| (later, by / each));
    chosen.iter().filter_map(times).filter(move |(_, times)| (1..=periods).contains(times))
}
