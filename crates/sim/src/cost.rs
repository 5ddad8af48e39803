//! What a message costs: on the links of its route, at the rank that sends it and at the one that receives it.
//!
//! The networks build their plans from these rules, and every planner estimates with them. So a parameter of the
//! platform that changes what messages take is considered everywhere or nowhere; the test `parameters` of planners finds
//! one that is not.

use crate::Fidelity;
use crate::ace::work::{after_link, before_link, forwarded_by, reads};
use crate::clock::{Clock, Ticks};
use antiphon_base::parameter::Choice;
use antiphon_base::units::{Bytes, Picos, Rate};
use antiphon_model::fabric::{Fabric, Link, LinkId};
use antiphon_model::schedule::Op;
use antiphon_model::system::{Ejection, Endpoint, Forwarding, Packets, System};

/// What messages cost on a system, at a fidelity.
#[derive(Clone, Copy)]
pub struct CostModel<'a> {
    system: &'a System,
    fidelity: Fidelity,
}

/// What a link costs, or parallel links that act as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkCost {
    /// For how long a flit occupies it.
    pub flit_ps: Picos,
    /// From one end to the other.
    pub latency_ps: Picos,
}

/// What a message costs that depends on its size alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageCost {
    /// Its packets.
    pub packets: Packets,
    /// For how long its receiver adds it.
    pub adding_ps: Picos,
    /// What its sender does first.
    pub fetch: Fetch,
}

/// Reading a message from memory and bringing it over a bus, and the same of its first part. Times are zero where
/// endpoints do not read what they send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fetch {
    /// Reading all of it.
    pub read: Ticks,
    /// Reading its first part.
    pub read_first: Ticks,
    /// All of it on the bus.
    pub bus: Ticks,
    /// Its first part on the bus.
    pub bus_first: Ticks,
    /// Packets of the first part.
    pub packets_first: u64,
}

/// How packets pass a node on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transit {
    /// Time in a router where packets are cut through; `None` where they are stored first.
    stages: Option<Ticks>,
}

/// What no message goes without, whoever sends it: for bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Least {
    /// Whether all of a packet comes to a node before any of it goes on.
    pub is_stored: bool,
    /// From its arrival to the start of what waited for it.
    pub hand_off_ps: Picos,
}

impl<'a> CostModel<'a> {
    /// On a system, at a fidelity.
    pub fn new(system: &'a System, fidelity: Fidelity) -> Self {
        CostModel { system, fidelity }
    }

    /// In packets, as planners estimate.
    pub fn in_packets(system: &'a System) -> Self {
        CostModel::new(system, Fidelity::Packet)
    }

    /// What a link costs.
    pub fn link(&self, link: &Link) -> LinkCost {
        self.channel(std::iter::once(link))
    }

    /// What every link of a fabric costs. O(links).
    pub fn links(&self, fabric: &Fabric) -> Vec<LinkCost> {
        fabric.links.iter().map(|link| self.link(link)).collect()
    }

    /// What links cost that act as one: flits go at the sum of their rates, with the largest of their latencies.
    pub fn channel<'l>(&self, links: impl Iterator<Item = &'l Link> + Clone) -> LinkCost {
        let latency_ps = links.clone().map(|link| self.system.latency_of(link)).max().unwrap_or(0);
        LinkCost { flit_ps: self.flit_ticks(links, 0), latency_ps }
    }

    /// For how long a flit occupies links that act as one, in 2^-`bits` picoseconds, rounded up.
    pub fn flit_ticks<'l>(&self, links: impl Iterator<Item = &'l Link>, bits: u32) -> Ticks {
        self.system.channel_ticks(links, bits)
    }

    /// Payload that full packets bring over a link, rounded down.
    pub fn payload_rate(&self, link: &Link) -> Rate {
        let (bytes, seconds) = self.system.payload_rate(link);
        Rate(u64::try_from(bytes / seconds).unwrap_or(u64::MAX).max(1))
    }

    /// How packets pass a node on their way. Whole messages are cut through, in no time.
    pub fn transit(&self) -> Transit {
        let stages = match (self.fidelity, self.system.forwarding) {
            (Fidelity::AlphaBeta, _) => Some(0),
            (Fidelity::Packet, Forwarding::StoreAndForward) => None,
            (Fidelity::Packet, Forwarding::CutThrough) | (Fidelity::Flit, _) => Some(self.system.router.stages_ps()),
        };
        Transit { stages }
    }

    /// From the arrival of a message's last packet to the start of what waited for it, and what the endpoint adds.
    pub fn hand_off_ps(&self) -> Picos {
        self.received_ps() + self.system.endpoint.delay()
    }

    /// The same without the endpoint. Where packets do not pass the router of the rank that they are for, its stages are
    /// saved; flits spend them in the network.
    pub fn received_ps(&self) -> Picos {
        let System { router, .. } = self.system;
        match self.fidelity {
            Fidelity::Flit => self.system.router_hand_off_ps(),
            Fidelity::AlphaBeta | Fidelity::Packet if router.ejection == Ejection::Circuit => {
                self.system.hand_off_ps().saturating_sub(router.stages_ps())
            }
            Fidelity::AlphaBeta | Fidelity::Packet => self.system.hand_off_ps(),
        }
    }

    /// Time to hand one packet to an interface.
    pub fn issue_ps(&self) -> Picos {
        self.system.interface.issue_ps
    }

    /// For how long a message of so many packets is handed to an interface: one a slot of `issue`; the last is visible a
    /// slot later.
    #[inline]
    pub fn issuing(packets: u64, issue: Ticks) -> Ticks {
        packets.saturating_add(1).saturating_mul(issue)
    }

    /// What a message of `bytes` costs with which its receiver does `op`.
    pub fn message(&self, bytes: Bytes, op: Op) -> MessageCost {
        let adds = op == Op::Reduce;
        self.message_read(bytes, adds, reads(adds))
    }

    /// What a message costs whose receiver adds it or not, and which its sender reads so often.
    pub(crate) fn message_read(&self, bytes: Bytes, adds: bool, reads: u64) -> MessageCost {
        let adding_ps = match self.system.endpoint {
            _ if !adds => 0,
            Endpoint::System => self.system.reduce_time(bytes),
            _ => after_link(&self.system.endpoint).map_or(0, |work| work.time_for(bytes)),
        };
        MessageCost { packets: self.system.packets(bytes), adding_ps, fetch: self.fetch(bytes, reads) }
    }

    fn fetch(&self, bytes: Bytes, reads: u64) -> Fetch {
        let [read, bus] = before_link(&self.system.endpoint, reads)[..] else { return Fetch::default() };
        let first = bytes.min(forwarded_by(&self.system.endpoint));
        Fetch {
            read: read.time_for(bytes),
            read_first: read.time_for(first),
            bus: bus.time_for(bytes),
            bus_first: bus.time_for(first),
            packets_first: self.system.packets(first).count,
        }
    }

    /// From the end of a message on the last link of a route to when it may be used, unless it is to be added.
    pub fn way_ps(&self, fabric: &Fabric, route: &[LinkId]) -> Picos {
        let latency = |&link: &LinkId| self.system.latency_of(fabric.link(link));
        route.iter().map(latency).sum::<Picos>().saturating_add(self.hand_off_ps())
    }

    /// What a message takes on a route that nothing else is on, apart from its time on the slowest link: until its first
    /// packet can leave, while a packet passes the other links, and its way. Where ranks on the way store it, it begins anew.
    pub fn around_ps(&self, fabric: &Fabric, route: &[LinkId], message: &MessageCost) -> Picos {
        let flit = |&link: &LinkId| self.link(fabric.link(link)).flit_ps;
        let transit = self.transit();
        let passing = route.windows(2).map(|pair| {
            let faster = flit(&pair[0]).min(flit(&pair[1]));
            if self.is_stored_at(fabric, pair[1]) {
                return message.on_link(faster) + self.hand_off_ps() + message.fetch.first_ps();
            }
            message.until_next(faster, faster, transit)
        });
        let passing = passing.fold(message.fetch.first_ps(), Picos::saturating_add);
        passing.saturating_add(self.way_ps(fabric, route))
    }

    /// What a message takes at most that nothing waits for, on so many links of `latency_ps` together, stored after each.
    pub fn at_most_ps(&self, message: &MessageCost, links: u64, flit_ps: Picos, latency_ps: u128) -> u128 {
        let (Packets { count, flits }, fetch, issue) = (message.packets, message.fetch, self.issue_ps());
        let links = u128::from(flit_ps).saturating_mul(flits.into()).saturating_mul(links.into());
        let once = [issue, self.hand_off_ps(), message.adding_ps, fetch.read, fetch.bus].map(u128::from);
        let each = links.saturating_add(issue.into()).saturating_mul(count.into());
        each.saturating_add(latency_ps + once.iter().sum::<u128>())
    }

    /// Whether the node where a link begins stores whole messages that only pass it: a rank that reads what it sends.
    pub fn is_stored_at(&self, fabric: &Fabric, link: LinkId) -> bool {
        self.stores_at_ranks() && fabric.nodes[fabric.link(link).from as usize].rank.is_some()
    }

    /// Whether ranks store whole messages that only pass them.
    pub(crate) fn stores_at_ranks(&self) -> bool {
        matches!(self.system.endpoint, Endpoint::Npu(_))
    }
}

impl MessageCost {
    /// Flits of all packets.
    pub fn flits(&self) -> u64 {
        self.packets.count.saturating_mul(self.packets.flits)
    }

    /// For how long it occupies a link of such a flit time.
    pub fn on_link(&self, flit_ps: Picos) -> Picos {
        self.flits().saturating_mul(flit_ps)
    }

    /// From the start of its first packet on a link until that asks for the next one, latency apart.
    pub fn until_next(&self, flit_ps: Picos, next_flit_ps: Picos, transit: Transit) -> Picos {
        let packet = self.packets.flits.saturating_mul(flit_ps);
        packet.saturating_sub(transit.ahead(self.packets.flits, flit_ps.min(next_flit_ps)))
    }
}

impl Fetch {
    /// Until the first packet of a message can leave.
    pub fn first_ps(&self) -> Picos {
        self.read_first.saturating_add(self.bus_first)
    }

    /// For how long a sender's node is busy with a message.
    pub fn busy_ps(&self) -> Picos {
        self.read.max(self.bus)
    }
}

impl Transit {
    /// Whether all of a packet comes to a node before any of it goes on.
    pub fn is_stored(self) -> bool {
        self.stages.is_none()
    }

    /// By how much a packet of so many flits asks for its next link before all of it has left one: its first flit has come,
    /// and passed the router; and its last one leaves the next link, whose flits may take longer, no sooner than it came.
    #[inline]
    pub fn ahead(self, flits: u64, flit: Ticks) -> Ticks {
        self.stages.map_or(0, |stages| ((flits - 1).saturating_mul(flit)).saturating_sub(stages))
    }

    /// Flits of a packet that leave a link before it asks for the next one.
    pub fn leading_flits(self, flits: u64) -> u64 {
        if self.is_stored() { flits } else { 1 }
    }

    /// With times in ticks.
    pub(crate) fn ticked(self, clock: Clock) -> Transit {
        Transit { stages: self.stages.map(|stages| clock.ticks(stages)) }
    }
}

impl Least {
    /// At a fidelity, or at any.
    pub fn of(system: &System, fidelity: Option<Fidelity>) -> Least {
        let models = Fidelity::ALL.iter().map(|&(_, each)| each).filter(|&each| fidelity.is_none_or(|of| of == each));
        let models = models.map(|each| CostModel::new(system, each));
        Least {
            is_stored: models.clone().all(|model| model.transit().is_stored()),
            hand_off_ps: models.map(|model| model.hand_off_ps()).min().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(changes: &[(&str, &str)]) -> System {
        let mut system = System::preset("generic").unwrap();
        changes.iter().for_each(|(key, value)| system.set(key, value).unwrap());
        system
    }

    /// A hand-off of 10 ns, of which a rank that packets come to by a circuit saves the three stages of its router.
    #[test]
    fn hand_offs() {
        let of = |changes: &[(&str, &str)], fidelity| CostModel::new(&system(changes), fidelity).hand_off_ps();
        assert_eq!((of(&[], Fidelity::Packet), of(&[], Fidelity::Flit)), (10_000, 2_000));
        assert_eq!(of(&[("router_ejection", "circuit")], Fidelity::AlphaBeta), 7_000);
        assert_eq!(of(&[("endpoint", "ideal:delay_ns=5")], Fidelity::Packet), 15_000);
        assert_eq!(Least::of(&system(&[]), None), Least { is_stored: false, hand_off_ps: 2_000 });
        assert!(Least::of(&system(&[]), Some(Fidelity::Packet)).is_stored);
    }

    /// 8 KiB in two packets of 65 flits, each 2,560 ps on a link, over two links of 20 ns.
    #[test]
    fn packets_pass_a_switch() {
        let fabric = Fabric::parse("switch:2").unwrap();
        let route =
            [0, 1].map(|hop| fabric.links.iter().position(|link| (link.from == 2) == (hop == 1)).unwrap() as LinkId);
        let around = |changes: &[(&str, &str)]| {
            let system = system(changes);
            let costs = CostModel::in_packets(&system);
            let message = costs.message(8192, Op::Reduce);
            assert_eq!((message.flits(), message.on_link(2_560)), (130, 332_800));
            costs.around_ps(&fabric, &route, &message)
        };
        assert_eq!(around(&[]), 65 * 2_560 + 2 * 20_000 + 10_000);
        // A flit and the router's three stages.
        assert_eq!(around(&[("link_switching", "cut-through")]), 2_560 + 3_000 + 2 * 20_000 + 10_000);
        // Both parts of 8 KiB: read twice at 64 GB/s, then on the bus.
        let npu = around(&[("endpoint", "npu:memory_gb_per_s=64,sms=80,bus_gb_per_s=512")]);
        assert_eq!(npu, 65 * 2_560 + 2 * 20_000 + 10_000 + 256_000 + 16_000);
    }

    /// What an endpoint adds with: the system's adder, its own, or none.
    #[test]
    fn additions() {
        let of = |endpoint| {
            let system = system(&[("reduce_rate_gb_per_s", "64"), ("endpoint", endpoint)]);
            [Op::Reduce, Op::Copy].map(|op| CostModel::in_packets(&system).message(4096, op).adding_ps)
        };
        assert_eq!(of("system"), [64_000, 0]);
        assert_eq!(of("ace:alus=1,alu_gb_per_s=32"), [128_000, 0]);
        assert_eq!((of("ideal"), of("npu")), ([0, 0], [0, 0]));
    }
}
