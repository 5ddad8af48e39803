//! A bound of several collectives in flight: what all of them need of some links, over what these carry.
//!
//! At any prices of links every collective buys at least its cheapest plan ([`super::prices`]), so all that start at some time or
//! later buy at least the sum of theirs, and take as long as the links need to sell it. A flight starts when the bounds
//! of those that it waits for are over. Prices are those that limit each collective by itself, or an AllReduce or AllToAll of
//! all ranks; those of the least cuts around the ranks of each collective; of the links into and out of each node; of all links.

use super::capacity::{Capacities, Load};
use super::least_cut::LeastCuts;
use super::limit::{crossing, named, rates};
use super::task::Task;
use super::{Bound, bound, by_cuts, latency, prices, volume};
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use antiphon_base::watch::checkpoint;
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use antiphon_model::schedule::{Certificate, Schedule};
use antiphon_model::system::System;
use antiphon_sim::{Fidelity, Flight};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Links, times groups of ranks between which they have prices, times collectives: about a second.
const MOST_WORK: usize = 1 << 24;
/// Most ranks of a fabric whose own limits are looked for.
const MOST_RANKS: usize = 512;

/// Lower bounds of flights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JointBound {
    /// Of each by itself.
    pub each_ps: Vec<Picos>,
    /// No schedules end all of them sooner.
    pub time_ps: Picos,
    /// What that rests on.
    pub limit: String,
}

/// The bound of flights at a fidelity or at any, each of them a schedule for the fabric or for a group of its ranks.
///
/// # Errors
/// As [`super::of_schedule`] and [`Fabric::group`].
pub fn joint_bound(
    fabric: &Fabric,
    system: &System,
    flights: &[Flight],
    fidelity: Option<Fidelity>,
) -> Result<JointBound> {
    // What several flights do is bounded once.
    let mut known: HashMap<*const Schedule, usize> = HashMap::new();
    let mut works: Vec<(Task, Bound)> = vec![];
    let mut work_of = vec![];
    for flight in flights {
        let schedule: &Schedule = &flight.schedule;
        let number = match known.entry(schedule) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let view =
                    (fabric.group.is_none() && !schedule.group.is_empty()).then(|| fabric.group(&schedule.group));
                let view = view.transpose()?;
                let part = view.as_ref().map_or(fabric, |view| &view.fabric);
                let task = Task::of_schedule(part, schedule)?;
                let least = bound(part, system, &task, Some(latency::latency(part, system, &task, fidelity)));
                works.push((task, least));
                *new.insert(works.len() - 1)
            }
        };
        work_of.push(number);
    }
    let each_ps: Vec<Picos> = work_of.iter().map(|&work| works[work].1.time_ps).collect();
    let joint = Joint::new(fabric, system, flights, &works, work_of, &each_ps);
    let (time_ps, limit) = joint.bound(system)?;
    Ok(JointBound { each_ps, time_ps, limit })
}

/// Flights to be bounded together.
struct Joint<'a> {
    fabric: &'a Fabric,
    capacities: Capacities,
    /// What is done, and its bound by itself.
    works: &'a [(Task, Bound)],
    /// Of each flight what it does, and when it starts at the earliest; the last first.
    starts: Vec<(Picos, usize)>,
    time_ps: Picos,
    limit: String,
}

impl<'a> Joint<'a> {
    fn new(
        fabric: &'a Fabric,
        system: &System,
        flights: &[Flight],
        works: &'a [(Task, Bound)],
        work_of: Vec<usize>,
        each_ps: &[Picos],
    ) -> Self {
        let mut starts: Vec<Picos> = flights.iter().map(|flight| flight.start_ps).collect();
        for _ in flights {
            let before = starts.clone();
            for (number, flight) in flights.iter().enumerate() {
                let end = |&other: &usize| Some(starts.get(other)?.saturating_add(each_ps[other]));
                let ends = flight.after.iter().filter_map(end);
                starts[number] = ends.fold(starts[number], Picos::max);
            }
            if starts == before {
                break;
            }
        }
        let end = |number: &usize| starts[*number].saturating_add(each_ps[*number]);
        let last = (0..flights.len()).rev().max_by_key(end).unwrap_or(0);
        let (time_ps, limit) = (end(&last), format!("flight {last}, and those that it waits for, by themselves"));
        let mut starts: Vec<(Picos, usize)> = starts.into_iter().zip(work_of).collect();
        starts.sort_by_key(|&(start, _)| std::cmp::Reverse(start));
        Joint { fabric, capacities: Capacities::new(fabric, system), works, starts, time_ps, limit }
    }

    /// Of flights, the last first, what each needs of some links: all that start at some time or later need the sum.
    fn hold(&mut self, capacity: u128, needs: impl Iterator<Item = (Picos, u128)>, limit: impl Fn() -> String) {
        let (mut bytes, mut least) = (0, 0);
        for (start, need) in needs.filter(|(_, need)| *need > 0) {
            bytes += need;
            least = start.saturating_add(self.capacities.time(Load { bytes, capacity })).max(least);
        }
        if least > self.time_ps {
            (self.time_ps, self.limit) = (least, limit());
        }
    }

    /// The same where everything that is done needs so much, whoever does it.
    fn hold_all(&mut self, capacity: u128, needs: &[u128], limit: impl Fn() -> String) {
        let starts = std::mem::take(&mut self.starts);
        self.hold(capacity, starts.iter().map(|&(start, work)| (start, needs[work])), limit);
        self.starts = starts;
    }

    fn bound(mut self, system: &System) -> Result<(Picos, String)> {
        if self.starts.len() > 1 {
            self.ports();
            let needs: Vec<u128> =
                self.works.iter().map(|(task, _)| volume::volume(self.fabric, &self.capacities, task).bytes).collect();
            let links = self.fabric.links.len();
            self.hold_all(self.capacities.total(), &needs, || format!("all {links} links together"));
            self.at_prices(system)?;
        }
        Ok((self.time_ps, self.limit))
    }

    /// Links into and out of single nodes.
    fn ports(&mut self) {
        let mut rates = [vec![0; self.fabric.nodes.len()], vec![0; self.fabric.nodes.len()]];
        for (link, &capacity) in self.fabric.links.iter().zip(&self.capacities.links) {
            rates[0][link.from as usize] += capacity;
            rates[1][link.to as usize] += capacity;
        }
        let mut needs: Vec<Vec<(Picos, [u128; 2])>> = vec![vec![]; self.fabric.nodes.len()];
        let of_works: Vec<Vec<[u128; 2]>> = self.works.iter().map(|(task, _)| through_ports(task)).collect();
        for &(start, work) in &self.starts {
            for (site, through) in self.works[work].0.sites.iter().zip(&of_works[work]) {
                needs[site.node as usize].push((start, *through));
            }
        }
        for (node, needs) in needs.iter().enumerate().filter(|(_, needs)| needs.len() > 1) {
            for (way, what) in ["out of", "into"].iter().enumerate() {
                let name = format!("the links {what} {}", self.fabric.nodes[node].name);
                let through = needs.iter().map(|&(start, through)| (start, through[way]));
                self.hold(rates[way][node], through, || name.clone());
            }
        }
    }

    /// Links by prices, as many as can be looked at soon.
    fn at_prices(&mut self, system: &System) -> Result<()> {
        let (fabric, works) = (self.fabric, self.works);
        let mut left = MOST_WORK / works.len();
        let mut seen: HashSet<Vec<(LinkId, u64)>> = HashSet::new();
        let mut look = |joint: &mut Self, certificate: Certificate, groups: usize, text: &str| -> Result<bool> {
            checkpoint();
            let cost = groups * fabric.links.len();
            if cost > left {
                return Ok(false);
            }
            left -= cost;
            if seen.contains(&certificate.prices) {
                return Ok(true);
            }
            let mut loads = vec![];
            for (task, _) in works {
                // Of ranks that are left out nothing is known: they may add for others.
                let is_known = task.helpers.is_empty() || task.kind == Kind::AllToAll;
                let load = is_known.then(|| prices::load(fabric, &joint.capacities, task, &certificate)).transpose()?;
                loads.push(load.unwrap_or(Load::NONE));
            }
            let worth = loads.iter().map(|load| load.capacity).max().unwrap_or(1);
            let needs: Vec<u128> = loads.iter().map(|load| load.bytes).collect();
            joint.hold_all(worth, &needs, || text.to_string());
            seen.insert(certificate.prices);
            Ok(true)
        };
        if fabric.ranks() <= MOST_RANKS {
            for kind in [Kind::AllReduce, Kind::AllToAll] {
                let limit = by_cuts(fabric, system, Collective::new(kind), 1 << 30)?.limit;
                look(self, limit.certificate(), 2, &limit.text)?;
            }
        }
        let mut nodes: Vec<NodeId> = (0..fabric.ranks() as u32).map(|rank| fabric.node_of_rank(rank)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let links: Vec<_> =
            fabric.links.iter().zip(&self.capacities.links).map(|(link, &rate)| (link.from, link.to, rate)).collect();
        for (task, least) in works {
            let parts = least.limit.part_of.iter().max().map_or(task.sites.len(), |last| *last as usize + 1);
            if !look(self, least.limit.certificate(), parts, &least.limit.text)? {
                break;
            }
            let mut inside = vec![false; fabric.nodes.len()];
            task.sites.iter().for_each(|site| inside[site.node as usize] = true);
            for entering in [false, true].into_iter().filter(|_| task.sites.len() < nodes.len()) {
                let mut cuts = Some(LeastCuts::new(fabric.nodes.len(), &links, nodes.clone(), entering));
                let around = crossing(fabric, &mut cuts, |node| inside[node as usize], entering);
                let priced: Vec<(LinkId, u64)> = (0..).zip(around).filter(|&(_, price)| price > 0).collect();
                let ids: Vec<LinkId> = priced.iter().map(|&(link, _)| link).collect();
                let text = format!("{}: {}", rates(fabric, system, &ids), named(fabric, &ids));
                look(self, Certificate { share_ppm: 0, prices: priced }, 2, &text)?;
            }
        }
        Ok(())
    }
}

/// Bytes that must leave each site, and come to it.
fn through_ports(task: &Task) -> Vec<[u128; 2]> {
    let all = u128::from(task.bytes);
    let sites = 0..task.sites.len();
    let at = |site: usize| {
        let (own, is_root) = (task.sites[site].shards, site == task.root);
        let if_it = |is: bool| if is { all } else { 0 };
        match task.kind {
            Kind::AllReduce => [all, all],
            Kind::ReduceScatter => [all - own, own],
            Kind::AllGather => [own, all - own],
            Kind::Broadcast => [if_it(is_root), if_it(!is_root)],
            Kind::Reduce => [if_it(!is_root), if_it(is_root)],
            Kind::AllToAll => {
                let others = || sites.clone().filter(|&other| other != site);
                [
                    others().map(|other| task.between(site, other)).sum(),
                    others().map(|other| task.between(other, site)).sum(),
                ]
            }
        }
    };
    if task.sites.len() == 1 { vec![[0, 0]] } else { sites.clone().map(at).collect() }
}
