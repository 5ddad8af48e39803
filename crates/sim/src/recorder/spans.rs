//! When each link transmitted what, where somebody asks.

use crate::clock::Ticks;
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;

/// Spans of a run that is traced; with more there is no trace.
pub const MOST_SPANS: usize = 1 << 20;

/// A link transmitted packets of a transfer back to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpan {
    /// First link of its channel.
    pub link: LinkId,
    /// Of which transfer; `None` where the network does not say.
    pub transfer: Option<TransferId>,
    pub start: Ticks,
    pub end: Ticks,
}

/// See the module.
pub struct Spans {
    all: Vec<LinkSpan>,
    /// The last span of each link.
    last: Vec<Option<u32>>,
    /// Whether there were more than can be kept.
    pub over: bool,
}

impl Spans {
    /// None yet, of so many links.
    pub fn new(links: usize) -> Self {
        Spans { all: vec![], last: vec![None; links], over: false }
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
        if spacing == packet_time {
            self.add_one(LinkSpan { link, transfer, start, end: start + packets * packet_time });
            return;
        }
        for packet in 0..packets.min(MOST_SPANS as u64 + 1) {
            let start = start + packet * spacing;
            self.add_one(LinkSpan { link, transfer, start, end: start + packet_time });
        }
    }

    /// Lengthens the span before, or begins a new one.
    fn add_one(&mut self, span: LinkSpan) {
        if span.start == span.end || self.over {
            return;
        }
        let last = &mut self.last[span.link as usize];
        if let Some(before) = last.map(|last| &mut self.all[last as usize])
            && (before.transfer, before.end) == (span.transfer, span.start)
        {
            before.end = span.end;
            return;
        }
        *last = Some(self.all.len() as u32);
        self.all.push(span);
        self.over = self.all.len() > MOST_SPANS;
    }

    /// All of them; those of a link in the order of time.
    pub fn all(&self) -> &[LinkSpan] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_back_to_back_are_one_span() {
        let mut spans = Spans::new(2);
        spans.add(0, Some(7), 100, 2, 10, 10);
        spans.add(1, Some(7), 100, 1, 10, 10);
        spans.add(0, Some(7), 120, 1, 10, 10);
        spans.add(0, Some(8), 130, 0, 10, 10);
        spans.add(0, Some(8), 130, 2, 10, 15);
        let span = |link, transfer, start, end| LinkSpan { link, transfer: Some(transfer), start, end };
        let expected = [span(0, 7, 100, 130), span(1, 7, 100, 110), span(0, 8, 130, 140), span(0, 8, 145, 155)];
        assert_eq!(spans.all(), expected);
    }

    #[test]
    fn too_many_are_said_to_be() {
        let mut spans = Spans::new(1);
        spans.add(0, Some(0), 0, MOST_SPANS as u64, 1, 2);
        assert!(!spans.over);
        spans.add(0, Some(1), 1 << 40, 1 << 60, 1, 2);
        assert!(spans.over && spans.all().len() == MOST_SPANS + 1);
    }
}
