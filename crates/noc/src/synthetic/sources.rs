//! Sources of packets, and the network that carries them, or a part of both: cycle by cycle.

use super::Experiment;
use crate::border::FlitCrossing;
use crate::network::{FlitNetwork, FlitPacket, PacketRun};
use crate::route::{COIN_SHIFT, Routes};
use crate::traffic::{GeometricWaits, Pattern, Random};
use crate::wheel::{FlitEvent, FlitEvents, Wheel};
use antiphon_base::cores::{Parcel, Part, part_of};
use antiphon_base::error::Result;
use antiphon_model::fabric::{Fabric, NodeId};

/// What all sources have in common.
pub struct TrafficSetting<'a> {
    pub experiment: &'a Experiment,
    pub fabric: &'a Fabric,
    pub pattern: Pattern,
    /// Of the ranks.
    pub nodes: Vec<NodeId>,
    pub routes: Routes,
    /// Between the packets of a source.
    pub waits: GeometricWaits,
}

impl TrafficSetting<'_> {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Which of so many parts a node is in: neighbours have numbers near each other on most fabrics.
    pub fn part(&self, node: NodeId, count: u32) -> u32 {
        part_of(node, self.fabric.nodes.len(), count)
    }
}

/// A packet that has arrived.
pub struct Arrived {
    /// When it was created, entered the network and left it.
    pub created: u64,
    pub injected: u64,
    pub cycle: u64,
    /// Links crossed.
    pub hops: u32,
}

/// See the module.
pub struct Sources<'a> {
    traffic: &'a TrafficSetting<'a>,
    pub network: FlitNetwork<&'a Routes>,
    random: Vec<Random>,
    /// Cycle in which each source creates its next packet; `u64::MAX` of sources in other parts. It is created when it can be
    /// injected, so that a source's queue takes no memory.
    next: Vec<u64>,
    /// Idle sources by that cycle, and the sources of the present cycle.
    waiting: Wheel,
    due: FlitEvents,
    /// Packets created, and the last cycle in which anything happened.
    pub created: u64,
    pub cycle: u64,
    /// Packets that have arrived since they were taken last.
    pub arrived: Vec<Arrived>,
}

impl<'a> Sources<'a> {
    /// Part `own` of `count` at its start, and the least number of cycles until an event in one part reaches another.
    ///
    /// # Errors
    /// As [`FlitNetwork::new`].
    pub fn new(traffic: &'a TrafficSetting<'a>, own: u32, count: u32) -> Result<(Self, u64)> {
        let TrafficSetting { experiment, fabric, nodes, routes, .. } = traffic;
        let Experiment { router, link_cycles, latency_cycles, packet_flits, .. } = experiment;
        let all = |cycles: u32| vec![u64::from(cycles) * router.clock_ps; fabric.links.len()];
        let (flit_ps, latency_ps) = (all(*link_cycles), all(*latency_cycles));
        let mut network = FlitNetwork::new(fabric, router, &flit_ps, &latency_ps, nodes, *packet_flits, routes)?;
        network.records = false;
        let window = match count {
            1 => u64::MAX,
            _ => network.enclose(own, count, |node| traffic.part(node, count)),
        };
        let ranks = 0..traffic.ranks();
        let mut sources = Sources {
            traffic,
            network,
            random: ranks.clone().map(|rank| Random::new(experiment.seed, rank.into())).collect(),
            next: vec![u64::MAX; nodes.len()],
            waiting: Wheel::with_room(64),
            due: FlitEvents::default(),
            created: 0,
            cycle: 0,
            arrived: vec![],
        };
        for rank in ranks.filter(|&rank| traffic.part(nodes[rank as usize], count) == own) {
            sources.schedule(rank, 0);
            sources.waiting.push(sources.next[rank as usize], FlitEvent::Terminal(rank));
        }
        Ok((sources, window))
    }

    /// Cycles in which the sources create their next packets.
    pub fn next(&self) -> impl Iterator<Item = u64> {
        self.next.iter().copied().filter(|&next| next < u64::MAX)
    }

    /// Draws the cycle of the next packet of a source, `from` at the earliest.
    fn schedule(&mut self, rank: u32, from: u64) {
        self.next[rank as usize] = from + self.traffic.waits.draw(&mut self.random[rank as usize]);
    }

    /// Creates the next packet of a source, to be injected from `cycle` on.
    fn create(&mut self, rank: u32, cycle: u64) {
        let TrafficSetting { experiment, pattern, .. } = self.traffic;
        let created = self.next[rank as usize];
        let random = &mut self.random[rank as usize];
        let destination = pattern.destination(rank, self.traffic.ranks(), random);
        let coins = random.bits() >> COIN_SHIFT << COIN_SHIFT;
        self.schedule(rank, created + 1);
        self.created += 1;
        let packet = FlitPacket::new(destination, experiment.packet_flits, rank, coins, created);
        self.network.offer(rank, PacketRun { packet, count: 1 }, cycle);
    }

    /// Goes on by a cycle in which anything happens.
    fn step(&mut self, cycle: u64) {
        self.cycle = cycle;
        if self.waiting.next_cycle() == Some(cycle) {
            let mut due = std::mem::take(&mut self.due);
            self.waiting.take(cycle, &mut due);
            due.terminals.iter().for_each(|&rank| self.create(rank, cycle));
            self.due = due;
        }
        self.network.advance(cycle);
        let arrived =
            |&FlitPacket { created, injected, hops, .. }: &FlitPacket| Arrived { created, injected, cycle, hops };
        self.arrived.extend(self.network.delivered.iter().map(arrived));
        for i in 0..self.network.departed.len() {
            let (rank, ..) = self.network.departed[i];
            let next = self.next[rank as usize];
            if next <= cycle {
                self.create(rank, cycle + 1);
            } else {
                self.waiting.push(next, FlitEvent::Terminal(rank));
            }
        }
    }
}

impl Part for Sources<'_> {
    type Content = FlitCrossing;

    fn next_at(&self) -> u64 {
        let [source, network] = [self.waiting.next_cycle(), self.network.next_cycle()];
        // Where packets are stuck, new ones change nothing. One of several parts may still hear from others.
        if self.network.border.is_none() && network.is_none() && self.network.in_flight > 0 {
            return u64::MAX;
        }
        source.unwrap_or(u64::MAX).min(network.unwrap_or(u64::MAX))
    }

    fn run_before(&mut self, end: u64) {
        loop {
            match self.next_at() {
                cycle if cycle < end => self.step(cycle),
                _ => return,
            }
        }
    }

    fn left(&mut self) -> &mut [Vec<Parcel<FlitCrossing>>] {
        self.network.left()
    }

    fn accept(&mut self, parcel: Parcel<FlitCrossing>) {
        self.network.accept(parcel);
    }

    fn counts(&self) -> [u64; 2] {
        [self.network.event_count, self.network.flit_hops]
    }
}
