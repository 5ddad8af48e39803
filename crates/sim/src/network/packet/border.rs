//! Where a network is one of several parts of a fabric: what crosses to the others.
//!
//! Over links that lead to other parts packets go one by one, and when one has begun it is known when it will come there: so
//! others are told so much earlier.

use super::events::Arrival;
use super::{Endpoints, Packet, Tail};
use crate::clock::Ticks;
use crate::division::Division;
use antiphon_base::cores::Parcel;
use antiphon_model::fabric::LinkId;
use antiphon_model::schedule::TransferId;

/// What crosses to another part.
pub enum Crossing {
    /// A packet, before a link.
    Packet(Arrival),
    /// The last packet of a message, at its receiver.
    Message(TransferId, Tail),
}

/// See the module.
pub struct Border<'a> {
    parts: &'a Division,
    /// What has left, by the part that it is for.
    left: Vec<Vec<Parcel<Crossing>>>,
}

impl<'a> Border<'a> {
    /// That of a part.
    pub fn new(parts: &'a Division) -> Self {
        Border { parts, left: (0..parts.count()).map(|_| vec![]).collect() }
    }
}

impl<'a> Packet<'a> {
    /// From now on it is a part of a network.
    pub fn enclose(&mut self, border: Border<'a>) {
        self.border = Some(border);
    }

    /// What has left for other parts, by the number of the part.
    pub fn left(&mut self) -> &mut [Vec<Parcel<Crossing>>] {
        self.border.as_mut().map_or(&mut [], |border| &mut border.left)
    }

    /// Something has come from another part.
    pub fn accept(&mut self, parcel: Parcel<Crossing>, endpoints: &mut Endpoints) {
        match parcel.what {
            Crossing::Packet(packet) => self.events.push(parcel.at, packet),
            Crossing::Message(transfer, tail) => {
                endpoints.arrived(transfer, tail.arrived(transfer, endpoints), parcel.at);
            }
        }
    }

    /// Whether a link leads to another part.
    #[inline]
    pub fn leaves(&self, link: LinkId) -> bool {
        self.border.as_ref().is_some_and(|border| border.parts.crosses(link))
    }

    /// The packet that has begun on a link which leads to another part will come there at `at`.
    pub fn cross(&mut self, at: Ticks, Arrival { flow, last }: Arrival) {
        let (next, receiver) = (self.link_after(flow), self.plan.jobs[flow.transfer as usize].to);
        let Some(border) = &mut self.border else { return };
        let (to, what) = match (next, last) {
            (Some(link), _) => (border.parts.of_link(link), Crossing::Packet(Arrival { flow: flow.next(), last })),
            (None, Some(tail)) => (border.parts.of_rank(receiver), Crossing::Message(flow.transfer, tail)),
            (None, None) => return,
        };
        border.left[to as usize].push(Parcel { at, what });
    }
}
