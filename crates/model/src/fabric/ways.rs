//! Which of several equally short ways through switches messages take.
//!
//! A way that passes a rank is that of the minimal route ([`Router`]): on meshes, tori and products dimension order. What
//! passes switches alone may go through any of those that lead there in as few links.

use super::{Fabric, LinkId, NodeId, Router};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Domain, Stored, Value};
use antiphon_base::units::{Rate, clip};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

/// How messages share equally short ways through switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Each goes where those before it have left most room; it is divided where its sender has several ways out.
    #[default]
    Spread,
    /// All go through the switch of the lowest number.
    First,
    /// Each pair of nodes has one that a hash of it and of this seed chooses, as ECMP does.
    Hash(u64),
}

impl Routing {
    /// Values of a parameter.
    pub const SPEC: Domain =
        Domain::Spec { form: "spread|first|hash:SEED", check: |text| Routing::parse(text).map(|_| ()) };

    /// From its specification.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for what is none.
    pub fn parse(text: &str) -> Result<Routing> {
        let seed = |text: &str| text.strip_prefix("hash:").and_then(|seed| seed.parse().ok());
        match text {
            "spread" => Ok(Routing::Spread),
            "first" => Ok(Routing::First),
            _ => seed(text).map(Routing::Hash).ok_or_else(|| {
                let what =
                    format!("'{}' is no routing; give spread, first or hash:SEED with a whole number", clip(text));
                Error::new(Code::BadSpec, what)
            }),
        }
    }
}

impl Stored for Routing {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(match self {
            Routing::Spread => "spread".into(),
            Routing::First => "first".into(),
            Routing::Hash(seed) => format!("hash:{seed}"),
        })
    }

    fn read(value: &Value, _: &Domain) -> Self {
        Routing::parse(value.text()).expect("a specification is checked first")
    }
}

/// Most ways into which a message is divided.
const MOST_PARTS: usize = 16;

const MEBI: u64 = 1 << 20;

/// A hop that leads on or back: the next node, and the first link between.
type WayHop = (NodeId, LinkId);
type WayHops = Vec<WayHop>;

/// The ways of messages on one fabric, by what was sent before.
pub struct Ways<'a> {
    fabric: &'a Fabric,
    router: Router<'a>,
    routing: Routing,
    /// Rate of links that give none.
    rate: Rate,
    /// Hops from every node to switches, and to every node from switches; empty where no two switches are.
    out: Vec<WayHops>,
    into: Vec<WayHops>,
    /// Links between switches on the way to a switch, from everywhere.
    distances: FxHashMap<NodeId, Vec<u32>>,
    /// From a switch to another: hops that lead nearer.
    nearer: FxHashMap<(NodeId, NodeId), WayHops>,
    /// How long what was sent takes on each link.
    load: Vec<u128>,
}

impl<'a> Ways<'a> {
    /// Ways of messages of which none was sent, in a configuration of a fabric; `rate` is that of links that give none.
    pub fn new(fabric: &'a Fabric, configuration: u32, routing: Routing, rate: Rate) -> Self {
        let is_switch = |node: NodeId| fabric.nodes[node as usize].rank.is_none();
        let switches = (0..fabric.nodes.len() as NodeId).filter(|&node| is_switch(node)).count();
        let has_choice = routing != Routing::First && switches > 1 && fabric.product().is_none();
        let nodes = if has_choice { fabric.nodes.len() } else { 0 };
        let (mut out, mut into) = (vec![WayHops::new(); nodes], vec![WayHops::new(); nodes]);
        if has_choice {
            for (id, link) in (0..).zip(&fabric.links).filter(|(id, _)| fabric.has(*id, configuration)) {
                if is_switch(link.to) {
                    out[link.from as usize].push((link.to, id));
                }
                if is_switch(link.from) {
                    into[link.to as usize].push((link.from, id));
                }
            }
            // Parallel links are one channel, which the first stands for.
            for hops in out.iter_mut().chain(&mut into) {
                hops.sort_unstable();
                hops.dedup_by_key(|(node, _)| *node);
            }
        }
        Ways {
            fabric,
            router: Router::within(fabric, configuration),
            routing,
            rate,
            out,
            into,
            distances: FxHashMap::default(),
            nearer: FxHashMap::default(),
            load: vec![0; if has_choice { fabric.links.len() } else { 0 }],
        }
    }

    /// The same ways in a configuration, with none sent.
    pub fn anew(&self, configuration: u32) -> Self {
        Ways::new(self.fabric, configuration, self.routing, self.rate)
    }

    /// The way of a message of `bytes` from one node to another. Its ends differ from those of other ways if they can.
    ///
    /// # Errors
    /// As [`Router::path`].
    pub fn path(&mut self, from: NodeId, to: NodeId, bytes: u64, others: &[Vec<LinkId>]) -> Result<Vec<LinkId>> {
        let first = self.router.path(from, to)?;
        let mut ends = self.ends(from, to, &first);
        let meets = |((_, out), (_, into)): &(WayHop, WayHop)| {
            others.iter().any(|other| other.first() == Some(out) || other.last() == Some(into))
        };
        if !ends.iter().all(meets) {
            ends.retain(|ends| !meets(ends));
        }
        let Some(best) = self.best(from, to, bytes, &ends) else { return Ok(first) };
        for &link in &best {
            self.load[link as usize] += self.time(link, bytes);
        }
        Ok(best)
    }

    /// Into how many parts a message from one node to another may be divided, each with a way out and a way in of its own.
    ///
    /// # Errors
    /// As [`Router::path`].
    pub fn parts(&mut self, from: NodeId, to: NodeId) -> Result<usize> {
        if self.routing != Routing::Spread || self.out.is_empty() {
            return Ok(1);
        }
        let first = self.router.path(from, to)?;
        let (outs, ins): (FxHashSet<WayHop>, FxHashSet<WayHop>) = self.ends(from, to, &first).into_iter().unzip();
        Ok(outs.len().min(ins.len()).clamp(1, MOST_PARTS))
    }

    /// First and last hops of the ways that are as short as a route and have the fastest links at their ends.
    fn ends(&mut self, from: NodeId, to: NodeId, route: &[LinkId]) -> Vec<(WayHop, WayHop)> {
        let is_switch = |&link: &LinkId| self.fabric.nodes[self.fabric.link(link).to as usize].rank.is_none();
        let Some((_, between)) = route.split_last() else { return vec![] };
        if self.out.is_empty() || between.is_empty() || !between.iter().all(is_switch) {
            return vec![];
        }
        let (apart, firsts) = (between.len() as u32 - 1, self.out[from as usize].clone());
        let mut ends = vec![];
        for last in self.into[to as usize].clone() {
            let distances = self.distances(last.0);
            ends.extend(firsts.iter().filter(|first| distances[first.0 as usize] == apart).map(|&first| (first, last)));
        }
        let slowest = |&((_, out), (_, into)): &(WayHop, WayHop)| self.time(out, MEBI).max(self.time(into, MEBI));
        let least = ends.iter().map(slowest).min();
        ends.retain(|ends| Some(slowest(ends)) == least);
        ends
    }

    /// Picoseconds of a message on a link.
    fn time(&self, link: LinkId, bytes: u64) -> u128 {
        let link = self.fabric.link(link);
        let rate = u128::from(link.rate.unwrap_or(self.rate).0) * u128::from(link.speed_permille);
        u128::from(bytes) * 1_000_000_000_000_000 / rate.max(1)
    }

    /// Links from every node to a switch, by switches.
    fn distances(&mut self, to: NodeId) -> &[u32] {
        let (into, fabric) = (&self.into, self.fabric);
        self.distances.entry(to).or_insert_with(|| {
            let mut distances = vec![u32::MAX; fabric.nodes.len()];
            distances[to as usize] = 0;
            let mut level = vec![to];
            for distance in 1.. {
                let mut next = vec![];
                for node in level {
                    for &(previous, _) in &into[node as usize] {
                        if distances[previous as usize] == u32::MAX {
                            distances[previous as usize] = distance;
                            next.push(previous);
                        }
                    }
                }
                if next.is_empty() {
                    break;
                }
                level = next;
            }
            distances
        })
    }

    /// Hops from a switch that lead nearer to another.
    fn hops(&mut self, at: NodeId, to: NodeId) -> WayHops {
        if let Some(hops) = self.nearer.get(&(at, to)) {
            return hops.clone();
        }
        let own = self.distances(to)[at as usize];
        let hops = {
            let distances = &self.distances[&to];
            let is_nearer = |(node, _): &&WayHop| distances[*node as usize].checked_add(1) == Some(own);
            self.out[at as usize].iter().filter(is_nearer).copied().collect::<WayHops>()
        };
        self.nearer.insert((at, to), hops.clone());
        hops
    }

    /// The way that is chosen of those between some ends.
    fn best(&mut self, from: NodeId, to: NodeId, bytes: u64, ends: &[(WayHop, WayHop)]) -> Option<Vec<LinkId>> {
        if let Routing::Hash(seed) = self.routing {
            let choice = |at: NodeId, count: usize| (mix(seed, [from, to, at]) % count.max(1) as u64) as usize;
            let &((mut at, first), (goal, last)) = ends.get(choice(from, ends.len()))?;
            let mut route = vec![first];
            while at != goal {
                let hops = self.hops(at, goal);
                let &(next, link) = hops.get(choice(at, hops.len()))?;
                route.push(link);
                at = next;
            }
            route.push(last);
            return Some(route);
        }
        let after = |ways: &Self, link: LinkId| ways.load[link as usize] + ways.time(link, bytes);
        let mut best: Option<(u128, Vec<LinkId>)> = None;
        for &((start, first), (goal, last)) in ends {
            // By node of a level: the least load of the ways there, and the links of such a way.
            let mut level = vec![(start, after(self, first), vec![first])];
            while level.iter().any(|(at, ..)| *at != goal) {
                let mut next: Vec<(NodeId, u128, Vec<LinkId>)> = vec![];
                for (at, load, route) in level {
                    for (node, link) in self.hops(at, goal) {
                        let load = load + after(self, link);
                        match next.iter_mut().find(|(known, ..)| *known == node) {
                            Some((_, least, _)) if *least <= load => {}
                            Some(known) => *known = (node, load, [&route[..], &[link]].concat()),
                            None => next.push((node, load, [&route[..], &[link]].concat())),
                        }
                    }
                }
                level = next;
            }
            let (_, load, route) = level.pop()?;
            let load = load + after(self, last);
            if best.as_ref().is_none_or(|(least, _)| load < *least) {
                best = Some((load, [&route[..], &[last]].concat()));
            }
        }
        best.map(|(_, route)| route)
    }
}

/// A number that depends on all bits of others (SplitMix64).
pub(super) fn mix(seed: u64, of: [NodeId; 3]) -> u64 {
    [seed].into_iter().chain(of.map(u64::from)).fold(0, |state, number| {
        let mut z = (state ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    })
}
