//! When links were busy: totals, utilization over time, and what that costs.

use super::carried::Carried;
use super::spans::Spans;
use super::windows::Windows;
use crate::clock::Ticks;
use crate::plan::RunPlan;
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;

/// See the module.
pub struct Traffic {
    /// Time each link was transmitting; and links of each channel, at its first link.
    links: Vec<(Ticks, u64)>,
    /// Time of all links together.
    windows: Windows<u64>,
    /// Energy of all links, where somebody asks.
    power: Option<LinkPower>,
    /// What each link transmitted when, where somebody asks; not to be used with [`Traffic::repeat`].
    pub spans: Option<Spans>,
    /// What is played, where somebody asks.
    pub carried: Option<Carried>,
    /// The longest that a flight waited for each link, where several use it.
    waits: Vec<Ticks>,
    /// [`Traffic::busy_of`] every link at the start of a period that is being recorded.
    record: Option<Vec<Ticks>>,
}

/// Energy of links over time.
enum LinkPower {
    /// All take so much a tick: it follows from the time in use.
    Alike(u128),
    /// What each channel takes a tick, by its first link.
    Each(Windows<u128>, Vec<u128>),
}

impl LinkPower {
    /// Of links that are as many at each first link of a channel.
    fn new(of_channels: &[u128], links: &[u64], shift: u32) -> LinkPower {
        let one = of_channels
            .iter()
            .zip(links)
            .find(|(_, links)| **links > 0)
            .map_or(0, |(of, &links)| of / u128::from(links));
        match of_channels.iter().zip(links).all(|(&of, &links)| links == 0 || of == one * u128::from(links)) {
            true => LinkPower::Alike(one),
            false => LinkPower::Each(Windows::new(shift), of_channels.to_vec()),
        }
    }

    /// The windows that are recorded.
    fn windows(&mut self) -> Option<&mut Windows<u128>> {
        match self {
            LinkPower::Alike(_) => None,
            LinkPower::Each(windows, _) => Some(windows),
        }
    }
}

impl Traffic {
    /// Nothing transmitted yet; windows are a power of two of picoseconds.
    pub fn new(plan: &RunPlan) -> Self {
        let first = 0..plan.fabric.links.len() as LinkId;
        let links: Vec<u64> = first.map(|first| plan.channels.links(first).len() as u64).collect();
        let shift = 10 + plan.clock.bits();
        Traffic {
            power: plan.power.as_ref().map(|power| LinkPower::new(&power.of_links, &links, shift)),
            waits: vec![0; links.len()],
            spans: plan.trace.then(|| Spans::new(links.len())),
            carried: plan.playback.as_ref().map(|of| Carried::new(of, links.len())),
            links: links.into_iter().map(|links| (0, links)).collect(),
            windows: Windows::new(shift),
            record: None,
        }
    }

    /// A link transmitted from `start` to `end`, for a transfer if the network knows which.
    pub fn transmitted(&mut self, link: LinkId, transfer: Option<TransferId>, start: Ticks, end: Ticks) {
        self.transmitted_run(link, transfer, start, 1, end - start, end - start);
    }

    /// A link transmitted packets of `packet_time` each, the first from `start`, each `spacing` after
    /// the one before.
    pub fn transmitted_run(
        &mut self,
        link: LinkId,
        transfer: Option<TransferId>,
        start: Ticks,
        packets: u64,
        packet_time: Ticks,
        spacing: Ticks,
    ) {
        if let Some(spans) = &mut self.spans {
            spans.add(link, transfer, start, packets, packet_time, spacing);
        }
        if let Some(carried) = &mut self.carried {
            carried.add(link, transfer, start, packets, packet_time, spacing);
        }
        let (busy, links) = &mut self.links[link as usize];
        *busy += packets * packet_time;
        self.windows.add(start, packets, packet_time, spacing, *links);
        if let Some(LinkPower::Each(windows, of_links)) = &mut self.power {
            windows.add(start, packets, packet_time, spacing, of_links[link as usize]);
        }
    }

    /// A flight waited for a link that several use.
    pub fn waited(&mut self, link: LinkId, time: Ticks) {
        let longest = &mut self.waits[link as usize];
        *longest = time.max(*longest);
    }

    /// The longest that a flight waited for a link that several use.
    pub fn longest_wait(&self, link: LinkId) -> Ticks {
        self.waits[link as usize]
    }

    /// Records what is transmitted from now on, to be repeated or discarded.
    pub fn record_period(&mut self) {
        self.record = Some(self.links.iter().map(|&(busy, _)| busy).collect());
        self.windows.record_period();
        self.power.iter_mut().filter_map(LinkPower::windows).for_each(Windows::record_period);
        self.carried.iter_mut().for_each(Carried::record_period);
    }

    /// The record is of no use.
    pub fn discard_period(&mut self) {
        self.record = None;
        self.windows.discard_period();
        self.power.iter_mut().filter_map(LinkPower::windows).for_each(Windows::discard_period);
        self.carried.iter_mut().for_each(Carried::discard_period);
    }

    /// Adds what was recorded `periods` times, each `period` later.
    pub fn repeat(&mut self, periods: u64, period: Ticks) {
        for ((busy, _), before) in self.links.iter_mut().zip(self.record.take().into_iter().flatten()) {
            *busy += periods * (*busy - before);
        }
        self.windows.repeat(periods, period);
        self.power.iter_mut().filter_map(LinkPower::windows).for_each(|windows| windows.repeat(periods, period));
        self.carried.iter_mut().for_each(|carried| carried.repeat(periods, period));
    }

    /// Adds what others recorded, of other links; neither is to be repeated.
    pub fn join(&mut self, other: Traffic) {
        self.links.iter_mut().zip(other.links).for_each(|((busy, _), (other, _))| *busy += other);
        self.windows.join(other.windows);
        if let (Some(own), Some(other)) = (&mut self.carried, other.carried) {
            own.join(other);
        }
        if let (Some(LinkPower::Each(own, _)), Some(LinkPower::Each(windows, _))) = (&mut self.power, other.power) {
            own.join(windows);
        }
    }

    /// Time a link was transmitting.
    pub fn busy_of(&self, link: LinkId) -> Ticks {
        self.links[link as usize].0
    }

    /// Length of a window, and the share of link time in use in each until `time`.
    pub fn utilization(&mut self, time: Ticks) -> (Ticks, Vec<f64>) {
        let links = self.links.len().max(1);
        let (length, windows) = self.windows.until(time);
        let capacity = length as f64 * links as f64;
        let share = |(own, busy): (Ticks, u64)| busy as f64 / capacity * length as f64 / own as f64;
        (length, windows.map(share).collect())
    }

    /// What the links took over time, if it was recorded.
    pub fn take_power(&mut self) -> Option<Windows<u128>> {
        Some(match self.power.take()? {
            LinkPower::Alike(tick) => self.windows.times(tick),
            LinkPower::Each(windows, _) => windows,
        })
    }
}
