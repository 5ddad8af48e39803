//! Pace: what waits for no data waits for what comes to its sender by the timetable.
//!
//! A rank that has its data from the start could send all of them at once. Behind a switch these would queue in front of what
//! others send in time, and hold up those who wait for that. So a message waits for another one that comes to its sender about
//! a round before it is due: where messages come late, nobody sends ahead.

use super::Tree;
use super::table::{Message, Slots, Table, unfilled};
use crate::schedule::{Builder, Dependency, TransferId};

/// When the messages of the first round may be sent, and when they have been applied, in slots.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    ready: Slots,
    applied: Slots,
}

/// That a message of a table waits for another one, so many rounds before: numbers in the order of [`Table::messages`].
pub(super) struct Wait {
    pub message: usize,
    pub other: usize,
    pub lag: u32,
}

impl Moments {
    /// Of messages that have none yet.
    pub fn new(trees: &[Tree]) -> Self {
        Moments { ready: unfilled(trees), applied: unfilled(trees) }
    }

    /// Notes those of a message.
    pub fn note(&mut self, message: &Message, ready: u32, applied: u32) {
        let &Message { tree, edge, op, .. } = message;
        self.ready[tree][edge as usize][op as usize] = ready;
        self.applied[tree][edge as usize][op as usize] = applied;
    }

    /// Makes the messages of a table, which are the transfers from `first` on, keep to its times. O(messages * log messages).
    pub fn pace(&self, table: &Table, rounds: u64, builder: &mut Builder, first: TransferId) {
        for Wait { message, other, lag } in self.waits(table, rounds) {
            let other = Dependency::from(first + other as TransferId);
            builder.start_after(first + message as TransferId, other.lagging(lag));
        }
    }

    /// Of what comes to its sender up to a round before a message is due, it waits for the last, unless its own data come later, or
    /// no message of the table goes over several links.
    pub fn waits(&self, table: &Table, rounds: u64) -> Vec<Wait> {
        if table.trees.iter().flat_map(Tree::routes).all(|route| route.len() < 2) {
            return vec![];
        }
        let period = i64::from(table.period);
        // What comes to every rank: when in a round, when in the first one that it comes in, and which message it is.
        let mut arrivals: Vec<Vec<(i64, i64, usize)>> =
            vec![vec![]; table.trees.first().map_or(0, |tree| tree.nodes.len())];
        for (number, message) in table.messages(table.work.ops()).enumerate() {
            let at = i64::from(self.applied[message.tree][message.edge as usize][message.op as usize]);
            arrivals[message.to as usize].push((at % period, at, number));
        }
        arrivals.iter_mut().for_each(|list| list.sort_unstable());
        let mut waits = vec![];
        for (message, Message { tree, edge, op, from, slot, .. }) in table.messages(table.work.ops()).enumerate() {
            let ready = i64::from(self.ready[tree][edge as usize][op as usize]);
            let limit = i64::from(slot) - period;
            let list = &arrivals[from as usize];
            // The last in the round of the limit, and the others before it, back to a round earlier.
            let (before, after) = list.split_at(list.partition_point(|each| each.0 <= limit.rem_euclid(period)));
            for &(_, at, other) in before.iter().rev().chain(after.iter().rev()) {
                let lag = (at - limit + period - 1).div_euclid(period);
                if at - lag * period <= ready && ready > 0 {
                    break;
                }
                if (0..=i64::from(Dependency::MAX_LAG)).contains(&lag) && other != message {
                    // The first rounds do not wait.
                    if (lag as u64) < rounds {
                        waits.push(Wait { message, other, lag: lag as u32 });
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
    use crate::algorithm::tree::{Work, edges};
    use crate::fabric::Fabric;
    use proptest::prelude::*;

    proptest! {
        /// A message waits for what comes to its sender in the round that ends a round before it is due, after its own data.
        #[test]
        fn waits_are_for_what_has_come(
            parents in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 4), 1..5),
            period in 1u32..20,
            shift in prop::collection::vec(0u32..60, 40),
            work in prop::sample::select(vec![Work::Broadcast, Work::Reduce, Work::Overlapped]),
        ) {
            let tree = |parents: &Vec<prop::sample::Index>| {
                let above = |(at, parent): (usize, &prop::sample::Index)| Some(parent.index(at + 1) as u32);
                let parents = [None].into_iter().chain(parents.iter().enumerate().map(above)).collect::<Vec<_>>();
                Tree::new(5, edges(&parents).map(|(child, parent)| (child, parent, [[0, 1], [1, 0]])))
            };
            let trees: Vec<Tree> = parents.iter().map(tree).collect();
            let fabric = Fabric::parse("switch:5").unwrap();
            let mut table = Table::new(&fabric, &trees, unfilled(&trees), period, work);
            let mut moments = Moments::new(&trees);
            let mut shifts = shift.iter().cycle();
            let listed = table.list(super::super::Priority::Farthest, |message| {
                let slot = message.slot + shifts.next().unwrap();
                let applied = slot + 1 + shifts.next().unwrap() % 5;
                moments.note(message, message.slot, applied);
                Some((slot, applied))
            });
            table.slots = listed.unwrap();
            let messages: Vec<Message> = table.messages(work.ops()).collect();
            let of = |slots: &Slots, message: &Message| i64::from(slots[message.tree][message.edge as usize][message.op as usize]);
            let waits = moments.waits(&table, u64::MAX);
            for Wait { message, other, lag } in &waits {
                let (message, other) = (&messages[*message], &messages[*other]);
                prop_assert_eq!(message.from, other.to);
                let limit = i64::from(message.slot) - i64::from(period);
                let comes = of(&moments.applied, other) - i64::from(*lag) * i64::from(period);
                prop_assert!(comes <= limit && comes > limit - i64::from(period), "{comes} {limit} {period}");
                let ready = of(&moments.ready, message);
                prop_assert!(ready == 0 || comes > ready);
            }
            // Who waits for nothing has its own data late, or nothing comes to it, or too late for any lag.
            for (number, message) in messages.iter().enumerate().filter(|(_, message)| of(&moments.ready, message) == 0) {
                let comes = messages.iter().enumerate().any(|(other, each)| {
                    let after = of(&moments.applied, each) - i64::from(message.slot) + i64::from(period);
                    other != number && each.to == message.from && after > -i64::from(period) && after <= 255 * i64::from(period)
                });
                prop_assert_eq!(comes, waits.iter().any(|wait| wait.message == number));
            }
        }
    }
}
