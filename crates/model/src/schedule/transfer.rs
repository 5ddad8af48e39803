//! One message from a rank to a rank: what it carries, where it goes and what it waits for.

use super::{LaneId, TransferId};
use crate::fabric::LinkId;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::ops::{Deref, Range};
use thin_vec::ThinVec;

/// What the receiver does with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Add to its own.
    Reduce,
    /// Replace its own.
    Copy,
}

/// One message from a rank to a rank, repeated for every chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "the object of a transfer")]
pub struct Transfer {
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// What the receiver does.
    pub op: Op,
    /// Lanes carried together.
    pub payload: Payload,
    /// Index of its phase.
    #[serde(default)]
    pub phase: u32,
    /// Step in its phase.
    pub step: u32,
    /// Links from `from` to `to`; empty only if both ranks are placed on one node.
    pub route: Route,
    /// What must have happened at the sender before it starts.
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    pub start_after: Dependencies,
    /// What must have happened at the receiver, once it is there, before it is added or stored.
    #[serde(default, skip_serializing_if = "ThinVec::is_empty")]
    pub apply_after: Holds,
}

/// Links of a route; few are stored in place.
pub type Route = SmallVec<[LinkId; 4]>;
/// What a transfer waits for; few are stored in place.
pub type Dependencies = SmallVec<[Dependency; 4]>;
/// What few transfers wait for at their receiver: small where there is nothing.
pub type Holds = ThinVec<Dependency>;

impl Transfer {
    /// The lanes it carries, in ascending order.
    pub fn lanes(&self) -> impl Iterator<Item = usize> + '_ {
        self.payload.iter().flat_map(|range| range.start as usize..range.end as usize)
    }

    /// All it waits for: at the sender, then at the receiver.
    pub fn dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.start_after.iter().chain(&self.apply_after)
    }
}

/// Lanes that travel as one message: ranges of adjacent lanes, ascending and apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(SmallVec<[Range<LaneId>; 2]>);

impl Payload {
    /// Ranges of lanes in any order; empty ones are left out and those that touch are joined.
    pub fn of(ranges: impl IntoIterator<Item = Range<LaneId>>) -> Payload {
        let mut sorted: SmallVec<[Range<LaneId>; 2]> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_unstable_by_key(|range| range.start);
        sorted.dedup_by(|next, range| {
            let touch = next.start == range.end;
            if touch {
                range.end = next.end;
            }
            touch
        });
        Payload(sorted)
    }

    /// The first lane. Payloads of checked schedules have one.
    pub fn first(&self) -> LaneId {
        self.0[0].start
    }
}

impl Deref for Payload {
    type Target = [Range<LaneId>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<LaneId> for Payload {
    fn from(lane: LaneId) -> Payload {
        Payload(smallvec![lane..lane + 1])
    }
}

impl From<Range<LaneId>> for Payload {
    fn from(lanes: Range<LaneId>) -> Payload {
        Payload(smallvec![lanes])
    }
}

/// As a list of lanes and of `[first, count]`.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Item {
            Lane(LaneId),
            Lanes(LaneId, u32),
        }
        serializer.collect_seq(self.0.iter().map(|range| match range.len() {
            1 => Item::Lane(range.start),
            count => Item::Lanes(range.start, count as u32),
        }))
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Item(Range<LaneId>);
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = Item;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a lane or [first lane, number of lanes]")
            }

            fn visit_u64<E: serde::de::Error>(self, lane: u64) -> Result<Item, E> {
                let lane = u32::try_from(lane).ok().filter(|&lane| lane < u32::MAX);
                lane.map(|lane| Item(lane..lane + 1)).ok_or_else(|| E::custom("there are no so many lanes"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Item, A::Error> {
                let (first, count): (Option<u32>, Option<u32>) = (pair.next_element()?, pair.next_element()?);
                let (Some(first), Some(count), None) = (first, count, pair.next_element::<u32>()?) else {
                    return Err(A::Error::custom("lanes of a payload are a number or [first, count]"));
                };
                let end = first.checked_add(count).ok_or_else(|| A::Error::custom("there are no so many lanes"))?;
                Ok(Item(first..end))
            }
        }
        impl<'de> Deserialize<'de> for Item {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(ItemVisitor)
            }
        }
        let items = SmallVec::<[Item; 2]>::deserialize(deserializer)?;
        Ok(Payload(items.into_iter().map(|item| item.0).collect()))
    }
}

/// What becomes of a message that others can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Its last packet has left the sender, whose data it no longer needs.
    Sent,
    /// The receiver has added or stored it.
    Applied,
}

/// That chunk `k - lag` of a transfer has been sent, or applied, before chunk `k` of the one that waits; its first
/// `lag` chunks do not wait. Four bytes, since large schedules have a hundred million.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dependency(u32);

impl Dependency {
    /// Largest lag.
    pub const MAX_LAG: u32 = 255;
    const ID_BITS: u32 = 23;

    /// After an event of the same chunk of a transfer, whose number is below [`super::MAX_TRANSFERS`].
    pub fn new(transfer: TransferId, event: Event) -> Dependency {
        debug_assert!(transfer < 1 << Self::ID_BITS);
        Dependency(transfer | u32::from(event == Event::Sent) << Self::ID_BITS)
    }

    /// The same of the chunk `lag` before, at most [`Dependency::MAX_LAG`].
    pub fn lagging(self, lag: u32) -> Dependency {
        debug_assert!(lag <= Self::MAX_LAG);
        Dependency(self.0 & ((2 << Self::ID_BITS) - 1) | lag << (Self::ID_BITS + 1))
    }

    /// The transfer waited for.
    #[inline]
    pub fn transfer(self) -> TransferId {
        self.0 & ((1 << Self::ID_BITS) - 1)
    }

    /// What must have become of it.
    #[inline]
    pub fn event(self) -> Event {
        if self.0 >> Self::ID_BITS & 1 == 1 { Event::Sent } else { Event::Applied }
    }

    /// How many chunks before.
    #[inline]
    pub fn lag(self) -> u32 {
        self.0 >> (Self::ID_BITS + 1)
    }

    /// Whether the same chunk must have been applied: the order of data, which most dependencies keep.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.0 >> Self::ID_BITS == 0
    }

    /// The same about another transfer.
    pub fn of(self, transfer: TransferId) -> Dependency {
        Dependency::new(transfer, self.event()).lagging(self.lag())
    }
}

/// That the same chunk of a transfer has been applied.
impl From<TransferId> for Dependency {
    fn from(transfer: TransferId) -> Dependency {
        Dependency::new(transfer, Event::Applied)
    }
}

impl fmt::Debug for Dependency {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{:?} {}", self.event(), self.transfer())?;
        if self.lag() > 0 { write!(formatter, " lag {}", self.lag()) } else { Ok(()) }
    }
}

/// A dependency with all keys, which is a number where the others have their defaults.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spelled {
    transfer: TransferId,
    #[serde(default = "applied")]
    event: Event,
    #[serde(default)]
    lag: u32,
}

fn applied() -> Event {
    Event::Applied
}

impl Serialize for Dependency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_plain() {
            true => serializer.serialize_u32(self.transfer()),
            false => Spelled { transfer: self.transfer(), event: self.event(), lag: self.lag() }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Dependency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DependencyVisitor;
        impl<'de> Visitor<'de> for DependencyVisitor {
            type Value = Dependency;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a transfer or an object with transfer, event and lag")
            }

            fn visit_u64<E: serde::de::Error>(self, transfer: u64) -> Result<Dependency, E> {
                match u32::try_from(transfer) {
                    Ok(transfer) if transfer < 1 << Dependency::ID_BITS => Ok(transfer.into()),
                    _ => Err(E::custom(format!("waits for transfer {transfer}, which does not exist"))),
                }
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Dependency, A::Error> {
                let Spelled { transfer, event, lag } =
                    Spelled::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                if lag > Dependency::MAX_LAG {
                    let most = Dependency::MAX_LAG;
                    return Err(A::Error::custom(format!("a lag of {lag} chunks; at most {most} are supported")));
                }
                let plain = self.visit_u64::<A::Error>(transfer.into())?;
                Ok(Dependency::new(plain.transfer(), event).lagging(lag))
            }
        }
        deserializer.deserialize_any(DependencyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_transfer_is_small() {
        assert_eq!(size_of::<Dependency>(), 4);
        assert!(size_of::<Transfer>() <= 104, "{}", size_of::<Transfer>());
    }

    #[test]
    fn payloads_join_what_touches() {
        let payload = Payload::of([7..9, 2..3, 9..10, 4..4, 3..5]);
        assert_eq!(payload[..], [2..5, 7..10]);
        assert_eq!(serde_json::to_string(&payload).unwrap(), "[[2,3],[7,3]]");
        assert_eq!(serde_json::to_string(&Payload::of([4..5, 6..7])).unwrap(), "[4,6]");
        for wrong in ["[[1]]", "[[1,2,3]]", "[-1]", "[4294967295]", "[[4294967295,4]]", "3", "[\"1\"]"] {
            assert!(serde_json::from_str::<Payload>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dependencies_are_numbers_or_spelled() {
        let text = r#"[3,{"transfer":4,"event":"sent","lag":2}]"#;
        let both: Dependencies = serde_json::from_str(text).unwrap();
        assert_eq!(both[0], Dependency::from(3));
        assert_eq!((both[1].transfer(), both[1].event(), both[1].lag()), (4, Event::Sent, 2));
        assert_eq!(serde_json::to_string(&both).unwrap(), text);
        let short: Dependency = serde_json::from_str(r#"{"transfer":4}"#).unwrap();
        assert_eq!(short, Dependency::from(4));
        for wrong in ["8388608", "{}", r#"{"transfer":1,"lag":256}"#, r#"{"transfer":1,"lags":2}"#, "-1", "1.5"] {
            assert!(serde_json::from_str::<Dependency>(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn dependencies_keep_their_parts(id in 0u32..1 << 23, lag in 0u32..256, sent in any::<bool>()) {
            let event = if sent { Event::Sent } else { Event::Applied };
            let dependency = Dependency::new(id, event).lagging(lag);
            prop_assert_eq!((dependency.transfer(), dependency.event(), dependency.lag()), (id, event, lag));
            prop_assert_eq!(dependency.is_plain(), lag == 0 && !sent);
        }
    }
}
