//! Pace: what waits for no data waits for what comes to its sender by the timetable.
//!
//! A rank that has its data from the start could send all of them at once. Behind a switch these would queue in front of what
//! others send in time, and hold up those who wait for that. So a message waits for another one that comes to its sender about
//! a round before it is due: where messages come late, nobody sends ahead. A rank to which nothing comes, as the root of a
//! broadcast, keeps to the pace of the busiest of its links: its messages on the others wait for what it has sent there.

use super::Tree;
use super::table::{Message, Slots, Table, unfilled};
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::{Builder, Dependency, Event, TransferId};
use std::collections::BTreeMap;

/// When the messages of the first round may be sent, when they have left their first link, and when they have been applied, in slots.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    ready: Slots,
    sent: Slots,
    applied: Slots,
    /// Ranks for which only what comes by the last tree counts.
    credited: Vec<u32>,
}

/// That a message of a table waits for an event of another one, so many rounds before: numbers in the order of [`Table::messages`].
pub(super) struct MessageWait {
    pub message: usize,
    pub other: usize,
    pub event: Event,
    pub lag: u32,
}

/// An event of a message: when in a round, when in the first one that it is in, and of which message.
type Beat = (i64, i64, usize);

impl Moments {
    /// Of messages that have none yet, and the ranks for which only what comes by the last tree counts.
    pub fn new(trees: &[Tree], credited: &[u32]) -> Self {
        let [ready, sent, applied] = [(); 3].map(|()| unfilled(trees));
        Moments { ready, sent, applied, credited: credited.to_vec() }
    }

    /// Notes those of a message.
    pub fn note(&mut self, message: &Message, ready: u32, sent: u32, applied: u32) {
        let &Message { tree, edge, op, .. } = message;
        for (slots, slot) in [(&mut self.ready, ready), (&mut self.sent, sent), (&mut self.applied, applied)] {
            slots[tree][edge as usize][op as usize] = slot;
        }
    }

    /// Makes the messages of a table, which are the transfers from `first` on, keep to its times. O(messages * log messages).
    pub fn pace(&self, table: &Table, rounds: u64, builder: &mut Builder, first: TransferId) {
        for MessageWait { message, other, event, lag } in self.waits(table, rounds) {
            let other = Dependency::new(first + other as TransferId, event);
            builder.start_after(first + message as TransferId, other.lagging(lag));
        }
    }

    /// Of what comes to its sender up to a round before a message is due, it waits for the last, unless its own data come later, or
    /// no message of the table goes over several links. Where nothing comes, of what its sender has sent on its busiest link.
    pub fn waits(&self, table: &Table, rounds: u64) -> Vec<MessageWait> {
        if table.trees.iter().flat_map(Tree::routes).all(|route| route.len() < 2) {
            return vec![];
        }
        let period = i64::from(table.period);
        let of = |slots: &Slots, message: &Message| {
            i64::from(slots[message.tree][message.edge as usize][message.op as usize])
        };
        let messages = || table.messages(table.work.ops()).enumerate();
        let beat = |at: i64, number: usize| (at.rem_euclid(period), at, number);
        // What comes to every rank.
        let mut arrivals: Vec<Vec<Beat>> = vec![vec![]; table.trees.first().map_or(0, |tree| tree.nodes.len())];
        let counts = |message: &Message| message.tree + 1 == table.trees.len() || !self.credited.contains(&message.to);
        for (number, message) in messages().filter(|(_, message)| counts(message)) {
            arrivals[message.to as usize].push(beat(of(&self.applied, &message), number));
        }
        // What others have sent, by link.
        let mut sent: Vec<BTreeMap<LinkId, (i64, Vec<Beat>)>> = vec![BTreeMap::new(); arrivals.len()];
        for (number, message) in messages().filter(|(_, message)| arrivals[message.from as usize].is_empty()) {
            let Some(&link) = message.route.first() else { continue };
            let (busy, beats) = sent[message.from as usize].entry(link).or_default();
            *busy += of(&self.sent, &message) - i64::from(message.slot);
            beats.push(beat(of(&self.sent, &message), number));
        }
        // The pace of every rank: its events, and on which link, if they are on one.
        let busiest = |links: BTreeMap<LinkId, (i64, Vec<Beat>)>| {
            let (link, (_, beats)) = links.into_iter().rev().max_by_key(|(_, (busy, _))| *busy)?;
            Some((Event::Sent, Some(link), beats))
        };
        let pace = |(arrivals, sent): (Vec<Beat>, _)| {
            let (event, link, mut beats) = busiest(sent).unwrap_or((Event::Applied, None, arrivals));
            beats.sort_unstable();
            (event, link, beats)
        };
        let paces: Vec<_> = arrivals.into_iter().zip(sent).map(pace).collect();
        let mut waits = vec![];
        for (number, message) in messages() {
            let (event, link, beats) = &paces[message.from as usize];
            if link.is_some() && message.route.first() == link.as_ref() {
                continue;
            }
            let ready = of(&self.ready, &message);
            let limit = i64::from(message.slot) - period;
            // The last in the round of the limit, and the others before it, back to a round earlier.
            let (before, after) = beats.split_at(beats.partition_point(|each| each.0 <= limit.rem_euclid(period)));
            for &(_, at, other) in before.iter().rev().chain(after.iter().rev()) {
                let lag = (at - limit + period - 1).div_euclid(period);
                if at - lag * period <= ready && ready > 0 {
                    break;
                }
                if (0..=i64::from(Dependency::MAX_LAG)).contains(&lag) && other != number {
                    // The first rounds do not wait.
                    if (lag as u64) < rounds {
                        waits.push(MessageWait { message: number, other, event: *event, lag: lag as u32 });
                    }
                    break;
                }
            }
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tree::{TreeWork, edges};
    use antiphon_model::fabric::Fabric;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    proptest! {
        /// A message waits for what comes to its sender, or else for what its sender has sent on its busiest link, in the round that
        /// ends a round before it is due, after its own data.
        #[test]
        fn waits_are_for_what_has_come_or_gone(
            parents in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 4), 1..5),
            period in 1u32..20,
            shift in prop::collection::vec(0u32..60, 40),
            work in prop::sample::select(vec![TreeWork::Broadcast, TreeWork::Reduce, TreeWork::Overlapped]),
            credited in prop::sample::subsequence((0u32..5).collect::<Vec<_>>(), 0..=2),
        ) {
            let tree = |parents: &Vec<prop::sample::Index>| {
                let above = |(at, parent): (usize, &prop::sample::Index)| Some(parent.index(at + 1) as u32);
                let parents = [None].into_iter().chain(parents.iter().enumerate().map(above)).collect::<Vec<_>>();
                // Up from a child on one of two links, down on one of two others.
                let links = |(child, parent): (u32, u32)| (child, parent, [[child % 2, 4], [2 + child % 2, 4]]);
                Tree::new(5, edges(&parents).map(links))
            };
            let trees: Vec<Tree> = parents.iter().map(tree).collect();
            let fabric = Fabric::parse("switch:5").unwrap();
            let mut table = Table::new(&fabric, &trees, unfilled(&trees), period, work);
            let mut moments = Moments::new(&trees, &credited);
            let mut shifts = shift.iter().cycle();
            let listed = table.list(super::super::Priority::Farthest, |message| {
                let slot = message.slot + shifts.next().unwrap();
                let sent = slot + 1 + shifts.next().unwrap() % 3;
                let applied = sent + shifts.next().unwrap() % 5;
                moments.note(message, message.slot, sent, applied);
                Some((slot, applied))
            });
            table.slots = listed.unwrap();
            let messages: Vec<Message> = table.messages(work.ops()).collect();
            let of = |slots: &Slots, message: &Message| i64::from(slots[message.tree][message.edge as usize][message.op as usize]);
            let counts = |message: &Message| message.tree + 1 == trees.len() || !credited.contains(&message.to);
            let comes = |rank: u32| messages.iter().any(|message| message.to == rank && counts(message));
            // Slots for which the link of a message is busy with what its sender starts there.
            let busy = |link: LinkId, rank: u32| -> i64 {
                let own = messages.iter().filter(|message| message.from == rank && message.route[0] == link);
                own.map(|message| of(&moments.sent, message) - i64::from(message.slot)).sum()
            };
            let waits = moments.waits(&table, u64::MAX);
            for MessageWait { message, other, event, lag } in &waits {
                let (message, other) = (&messages[*message], &messages[*other]);
                let slots = match event {
                    Event::Applied => {
                        prop_assert!(message.from == other.to && counts(other));
                        &moments.applied
                    }
                    Event::Sent => {
                        prop_assert!(message.from == other.from && !comes(message.from));
                        prop_assert!(message.route[0] != other.route[0]);
                        prop_assert!(busy(message.route[0], message.from) <= busy(other.route[0], other.from));
                        &moments.sent
                    }
                };
                let limit = i64::from(message.slot) - i64::from(period);
                let at = of(slots, other) - i64::from(*lag) * i64::from(period);
                prop_assert!(at <= limit && at > limit - i64::from(period), "{at} {limit} {period}");
                let ready = of(&moments.ready, message);
                prop_assert!(ready == 0 || at > ready);
            }
            // Who waits for nothing has its own data late, or nothing comes to it, or too late for any lag, or is on the busiest link.
            for (number, message) in messages.iter().enumerate().filter(|(_, message)| of(&moments.ready, message) == 0) {
                let soon = |slots: &Slots, each: &Message| {
                    let after = of(slots, each) - i64::from(message.slot) + i64::from(period);
                    after > -i64::from(period) && after <= 255 * i64::from(period)
                };
                let others = || messages.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, each)| each);
                let paced = if comes(message.from) {
                    others().any(|each| each.to == message.from && counts(each) && soon(&moments.applied, each))
                } else {
                    let own = busy(message.route[0], message.from);
                    let ahead = |each: &Message| {
                        let theirs = (busy(each.route[0], each.from), Reverse(each.route[0]));
                        each.from == message.from && theirs > (own, Reverse(message.route[0])) && soon(&moments.sent, each)
                    };
                    others().any(ahead)
                };
                prop_assert_eq!(paced, waits.iter().any(|wait| wait.message == number));
            }
        }
    }
}
