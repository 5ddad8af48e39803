//! Exchanges on a multi-dimensional network, several under way: their chunks share its dimensions.

use super::{Delivery, Transport};
use crate::graph::{ExchangeKind, JobExchange, JobGraph};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::energy::Energy;
use antiphon_model::fabric::Dimension;
use antiphon_model::system::{Endpoint, System};
use antiphon_model::topology::Topology;
use antiphon_sim::Order;
use antiphon_sim::rails::orders::{RailsPlan, Stage};
use antiphon_sim::rails::stage_endpoint::{RailsEndpoint, RailsGroup};
use antiphon_sim::rails::stage_loop::{StageLoop, StageService, StageSpan, Step, spread};
use antiphon_sim::rails::{
    EndpointUse, QueuePolicy, RailsPackets, Scheduler, add_span, check_steps, chunks_of, dynamic_energy,
};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// The groups of NPUs of a training: those that hold the same part of the model, and those that a layer is divided over,
/// `ranks` neighbours. The latter are the first dimensions, of the last of these only a part where they do not fit
/// exactly; the former are what is left. With one rank both are all NPUs.
///
/// # Errors
/// [`Code::NotApplicable`] if the dimensions cannot be divided so.
pub fn divided_groups(topology: &Topology, ranks: u64) -> Result<[RailsGroup; 2]> {
    if ranks == 1 {
        return Ok([RailsGroup::whole(topology), RailsGroup::whole(topology)]);
    }
    let refuse = |what: String| {
        let what = format!("{}: layers cannot be divided over {ranks} NPUs{what}", topology.name);
        Err(Error::new(Code::NotApplicable, what))
    };
    let none = || RailsGroup {
        topology: Topology { name: topology.name.clone(), dimensions: Vec::new() },
        numbers: Vec::new(),
    };
    let (mut data, mut model, mut left) = (none(), none(), ranks);
    for (number, dimension) in topology.dimensions.iter().enumerate() {
        let inside = if left.is_multiple_of(dimension.size) { dimension.size } else { left };
        if inside == 0 || !dimension.size.is_multiple_of(inside) {
            return refuse("; use a product of the first dimensions' sizes".into());
        }
        left /= inside;
        for (group, size) in [(&mut model, inside), (&mut data, dimension.size / inside)] {
            if size > 1 {
                group.topology.dimensions.push(Dimension { size, ..*dimension });
                group.numbers.push(number as u8);
            }
        }
    }
    if left > 1 {
        return refuse(format!(", it has {}", topology.npus()));
    }
    Ok([data, model])
}

/// How exchanges go over a topology.
#[derive(Debug, Clone)]
pub struct Carriage {
    /// Parts of an exchange; none: as many as have the size of the endpoint's chunks, 64 where it has none.
    pub chunks: Option<u32>,
    /// Which chunk a dimension serves next; none: the scheduler's, or the oldest at an endpoint.
    pub queue: QueuePolicy,
    /// Whether switches reduce and multicast.
    pub offload: bool,
    /// What stands between memory and links.
    pub endpoint: Endpoint,
    /// Which exchange goes first, at an endpoint.
    pub order: Order,
    /// Packets of the dimensions, if messages have headers.
    pub packets: Option<RailsPackets>,
    /// Whether an exchange is ordered when it starts, with what others still have to do on every dimension.
    pub shared_loads: bool,
}

/// ChunkSteps of all exchanges queue at the same dimensions.
pub struct OnRails<'s> {
    engine: StageLoop,
    order: Order,
    /// Who orders an exchange when it starts, if that is then.
    scheduler: Option<&'s dyn Scheduler>,
    exchanges: Vec<InChunks>,
    /// By chunk in the engine: its exchange, and its number there.
    owners: Vec<(u32, usize)>,
    submitted: u32,
    /// When each server was busy.
    busy: Vec<Vec<(Picos, Picos)>>,
    /// Their endpoint, where it is not the system's.
    endpoint: Option<RailsEndpoint>,
    /// When exchanges were under way, and how many are.
    under_way: (Vec<(Picos, Picos)>, u32),
    /// Plans of exchanges, on their groups' dimensions.
    plans: Vec<(RailsGroup, RailsPlan)>,
    npus: u64,
}

/// Steps of every chunk; many have the same.
type ChunkSteps = Vec<Rc<[Step]>>;

/// How far an exchange is.
struct InChunks {
    /// Number of its plan.
    plan: usize,
    chunks: Rc<ChunkSteps>,
    priority: u32,
    /// Which chunks are through.
    through: Vec<bool>,
    /// How many chunks are through.
    count: usize,
    /// How many are, in order.
    in_order: usize,
    /// ChunkSteps of each part that has not arrived, the first on top.
    parts: Vec<usize>,
    start_ps: Picos,
}

impl<'s> OnRails<'s> {
    /// A transport for the exchanges of a graph, which run in the group of NPUs of their group's number, with their chunks
    /// ordered by `scheduler`. Exchanges of the same kind and size in the same group have the same orders. A part arrives
    /// with its last chunk in order.
    ///
    /// # Errors
    /// As [`RailsPlan::uniform`], [`check_steps`] and [`RailsEndpoint::new`]; [`Code::NotApplicable`] for messages and barriers,
    /// [`Order::Fair`], and loads that are shared at an endpoint.
    pub fn new(
        topology: &Topology,
        groups: &[RailsGroup],
        graph: &JobGraph,
        scheduler: &'s dyn Scheduler,
        how: Carriage,
    ) -> Result<OnRails<'s>> {
        if how.shared_loads && how.endpoint != Endpoint::System {
            let what = "loads are shared where the endpoint is the system's; leave shared loads or the endpoint out";
            return Err(Error::new(Code::NotApplicable, what));
        }
        if how.order == Order::Fair {
            let what = "order fair is of links that flights share; give fifo, lifo or priority on rails";
            return Err(Error::new(Code::NotApplicable, what));
        }
        let (plans, which) = scheduled(groups, graph, scheduler, &how)?;
        let (engine, endpoint, chunks) = served(topology, &plans, &which, &how)?;
        let mut parts = graph.parts();
        let exchange = |((id, exchange), &plan): ((u32, &JobExchange), &usize)| {
            let (chunks, bytes) = (chunks[plan].clone(), exchange.bytes);
            let count = chunks.len();
            let chunks_of = |part: Bytes| (u128::from(part) * count as u128).div_ceil(u128::from(bytes)) as usize;
            let parts = parts.remove(&id).into_iter().flatten().rev().map(chunks_of).collect();
            let (priority, through) = (exchange.priority, vec![false; count]);
            InChunks { plan, chunks, priority, through, count: 0, in_order: 0, parts, start_ps: 0 }
        };
        let exchanges = (0..).zip(&graph.exchanges).zip(&which).map(exchange).collect();
        Ok(OnRails {
            engine,
            order: how.order,
            scheduler: how.shared_loads.then_some(scheduler),
            exchanges,
            owners: Vec::new(),
            submitted: 0,
            busy: vec![vec![]; endpoint.as_ref().map_or(topology.dimensions.len(), RailsEndpoint::servers)],
            endpoint,
            under_way: (vec![], 0),
            plans: plans.into_iter().map(|(group, plan)| (group.clone(), plan)).collect(),
            npus: topology.npus(),
        })
    }

    /// What each exchange takes, in all groups that have it at once, whenever it is under way.
    ///
    /// # Errors
    /// As [`dynamic_energy`].
    pub fn energies(&self, system: &System) -> Result<Vec<Energy>> {
        let of = |(group, plan): &(RailsGroup, RailsPlan)| {
            let one = dynamic_energy(&group.topology, plan, system)?;
            Ok(one.times((self.npus / group.topology.npus()).into()))
        };
        let each = self.plans.iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(self.exchanges.iter().map(|exchange| each[exchange.plan].clone()).collect())
    }

    /// The plan of each exchange, with its group.
    pub fn plans(&self) -> impl Iterator<Item = &(RailsGroup, RailsPlan)> {
        self.exchanges.iter().map(|exchange| &self.plans[exchange.plan])
    }

    /// Orders an exchange that starts by what dimensions still have to do.
    fn reschedule(&mut self, now: Picos, id: u32, scheduler: &dyn Scheduler) {
        let exchange = &mut self.exchanges[id as usize];
        let (group, plan) = &self.plans[exchange.plan];
        let busy: Vec<Picos> =
            group.numbers.iter().map(|&number| self.engine.outstanding(number.into(), now)).collect();
        let mut plan = plan.clone();
        scheduler.reschedule(&group.topology, &mut plan, &busy);
        let group = group.clone();
        exchange.chunks = Rc::new(whole(&group, &plan));
        exchange.plan = self.plans.len();
        self.plans.push((group, plan));
    }

    /// Share of each of `windows` equal windows of the time until `end` in which the links of each dimension were busy:
    /// rows are dimensions (ACE, ISCA 2021, Fig. 10). O(times + windows).
    pub fn activity(&self, end: Picos, windows: usize) -> Vec<Vec<f64>> {
        let dimension_of = |server| match &self.endpoint {
            Some(endpoint) => endpoint.dimension_of(server),
            None => Some(server),
        };
        let dimensions = (0..self.busy.len()).filter_map(dimension_of).max().map_or(0, |last| last + 1);
        let (mut shares, mut counts) = (vec![vec![0.0; windows]; dimensions], vec![0.0; dimensions]);
        let length = end.max(1) as f64 / windows as f64;
        for (server, busy) in self.busy.iter().enumerate() {
            let Some(dimension) = dimension_of(server) else { continue };
            // A dimension that is no ring has one server.
            counts[dimension] += f64::from(u8::from(!busy.is_empty()));
            for &(start, finish) in busy {
                spread(&mut shares[dimension], length, start as f64, finish.min(end) as f64);
            }
        }
        for (shares, count) in shares.iter_mut().zip(counts) {
            shares.iter_mut().for_each(|share| *share /= f64::max(count, 1.0));
        }
        shares
    }
}

impl OnRails<'_> {
    /// What the parts of the endpoint did while something was exchanged, where it is not the system's.
    pub fn endpoint_use(&self) -> Option<EndpointUse> {
        let endpoint = self.endpoint.as_ref()?;
        Some(endpoint.uses(&self.engine, &self.busy, self.under_way.0.clone()))
    }
}

/// A plan, and the group of NPUs that it is for.
type Planned<'g> = (&'g RailsGroup, RailsPlan);

/// Different exchanges as plans with orders, each on its group; and which of them each exchange has.
fn scheduled<'g>(
    groups: &'g [RailsGroup],
    graph: &JobGraph,
    scheduler: &dyn Scheduler,
    how: &Carriage,
) -> Result<(Vec<Planned<'g>>, Vec<usize>)> {
    let mut known: HashMap<(Kind, u64, u32), usize> = HashMap::new();
    let (mut plans, mut which) = (Vec::new(), Vec::new());
    for &JobExchange { kind, bytes, group: number, .. } in &graph.exchanges {
        let ExchangeKind::Collective(Collective { kind, .. }) = kind else {
            let what = format!("a {} has no plan on rails; only collectives have", kind.name());
            return Err(Error::new(Code::NotApplicable, what));
        };
        which.push(match known.entry((kind, bytes, number)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let group = &groups[number as usize];
                let chunks = how.chunks.map_or_else(|| chunks_of(&how.endpoint, bytes), Ok)?;
                let mut plan = RailsPlan::uniform(&group.topology, kind, bytes, chunks, how.offload)?;
                if let Some(packets) = &how.packets {
                    plan = plan.in_packets(&group.topology, &packets.along(&group.numbers)?)?;
                }
                scheduler.schedule(&group.topology, &mut plan);
                plans.push((group, plan));
                *new.insert(plans.len() - 1)
            }
        });
    }
    Ok((plans, which))
}

/// Steps of the chunks of a plan, stage by stage.
fn whole(group: &RailsGroup, plan: &RailsPlan) -> ChunkSteps {
    let step = |(number, stage): (usize, Stage)| {
        let dimension = group.numbers[usize::from(stage.dimension)];
        Step::Serve(StageService::of(number, Stage { dimension, ..stage }))
    };
    let of = |order| plan.stages(&group.topology, order).enumerate().map(step).collect();
    plan.orders.iter().map(of).collect()
}

/// An engine for plans, its endpoint, and the steps of the chunks of each.
fn served(
    topology: &Topology,
    plans: &[Planned],
    which: &[usize],
    how: &Carriage,
) -> Result<(StageLoop, Option<RailsEndpoint>, Vec<Rc<ChunkSteps>>)> {
    let dimensions = topology.dimensions.len();
    if how.endpoint == Endpoint::System {
        let whole = |(group, plan): &Planned| Rc::new(whole(group, plan));
        return Ok((StageLoop::new(dimensions, how.queue, 1), None, plans.iter().map(whole).collect()));
    }
    let of: Vec<_> = plans.iter().map(|(group, plan)| (*group, plan)).collect();
    check_steps(&how.endpoint, which.iter().map(|&index| (&of[index].0.topology, of[index].1)))?;
    let node = RailsEndpoint::new(dimensions, how.endpoint, &of)?;
    let chunks = plans.iter().map(|(group, plan)| Rc::new(node.chunks(group, plan))).collect();
    Ok((node.stage_loop(how.queue), Some(node), chunks))
}

impl Transport for OnRails<'_> {
    fn submit(&mut self, now: Picos, id: u32) -> Result<bool> {
        if let Some(scheduler) = self.scheduler {
            self.reschedule(now, id, scheduler);
        }
        let InChunks { chunks, priority, start_ps, .. } = &mut self.exchanges[id as usize];
        *start_ps = now;
        let (spans, count) = &mut self.under_way;
        if *count == 0 {
            add_span(spans, (now, now));
        }
        *count += 1;
        let rank = self.order.rank(*priority, self.submitted);
        self.submitted += 1;
        for (number, steps) in chunks.iter().enumerate() {
            self.engine.submit_steps(now, rank, steps.iter().copied());
            self.owners.push((id, number));
        }
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        let waits = |id: u32| self.exchanges[id as usize].count < self.exchanges[id as usize].through.len();
        match self.owners.iter().map(|(id, _)| *id).find(|&id| waits(id)) {
            Some(id) => Err(Error::new(Code::Stalled, format!("exchange {id} waits for room in an engine"))),
            None => Ok(()),
        }
    }

    fn next(&self) -> Option<Picos> {
        self.engine.next()
    }

    fn step(&mut self, _until: Option<Picos>, happened: &mut VecDeque<Delivery>) -> Result<()> {
        let now = self.engine.next().unwrap_or(0);
        let OnRails { engine, owners, exchanges, busy, under_way: (spans, count), .. } = self;
        let served = |server: usize, span: StageSpan| add_span(&mut busy[server], (span.start_ps, span.finish_ps));
        engine.step(served, |chunk| {
            let (id, number) = owners[chunk as usize];
            if exchanges[id as usize].chunk_is_through(id, number, happened) {
                *count -= 1;
                spans.iter_mut().last().expect("it was submitted").1 = now;
            }
        });
        Ok(())
    }
}

impl InChunks {
    /// A chunk is through; adds what has come of it, and says whether it was the last.
    fn chunk_is_through(&mut self, exchange: u32, number: usize, happened: &mut VecDeque<Delivery>) -> bool {
        self.through[number] = true;
        self.count += 1;
        self.in_order += self.through[self.in_order..].iter().take_while(|through| **through).count();
        while self.parts.pop_if(|chunks| *chunks <= self.in_order).is_some() {
            happened.push_back(Delivery::Part(exchange));
        }
        let whole = self.count == self.through.len();
        if whole {
            happened.push_back(Delivery::Whole { exchange, start_ps: self.start_ps });
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Bucket, Cost, Iteration, IterationGraph, IterationPolicy, Overlap, run};
    use antiphon_sim::rails::run as run_alone;
    use antiphon_sim::rails::scheduler::{Baseline, Themis};

    fn plain(chunks: u32, queue: QueuePolicy) -> Carriage {
        Carriage {
            chunks: Some(chunks),
            queue,
            offload: false,
            endpoint: Endpoint::System,
            order: Order::Fifo,
            packets: None,
            shared_loads: false,
        }
    }

    fn topology() -> Topology {
        Topology::parse("sw16@1200/700ns,sw64@800/1700ns").unwrap()
    }

    fn layer(time: Picos, bytes: u64) -> Cost {
        Cost::of_gradients([time; 3], bytes)
    }

    fn timed(costs: &[Cost], overlap: Overlap, scheduler: &dyn Scheduler, queue: QueuePolicy) -> Iteration {
        let graph = IterationGraph::new(costs, IterationPolicy::new(overlap, Bucket::Layer), 0, 1).unwrap();
        let (topology, how) = (topology(), plain(64, queue));
        let groups = divided_groups(&topology, 1).unwrap();
        run(&graph, &mut OnRails::new(&topology, &groups, &graph.jobs, scheduler, how).unwrap()).unwrap()
    }

    fn iteration(costs: &[Cost], overlap: Overlap) -> Iteration {
        timed(costs, overlap, &Themis::default(), QueuePolicy::Smallest)
    }

    #[test]
    fn one_exchange_takes_as_long_as_alone() {
        let timed = iteration(&[layer(1000, 100_000_000), layer(1000, 50_000_000)], Overlap::None);
        let mut plan = RailsPlan::uniform(&topology(), Kind::AllReduce, 150_000_000, 64, false).unwrap();
        Themis::default().schedule(&topology(), &mut plan);
        assert_eq!(timed.time_ps, 6000 + run_alone(&topology(), &plan, QueuePolicy::Smallest, 1).time_ps);
        assert_eq!(timed.exposed_data_ps(), timed.time_ps - 6000);
    }

    #[test]
    fn exchanges_in_flight_share_the_dimensions() {
        let costs = [layer(100_000, 100_000_000), layer(100_000, 100_000_000), layer(100_000, 100_000_000)];
        let apart = iteration(&costs, Overlap::Layerwise);
        let together = iteration(&costs, Overlap::None);
        // Begun earlier, but the same bytes.
        assert!(apart.time_ps < together.time_ps * 102 / 100 && apart.time_ps > together.time_ps * 95 / 100);
        assert!(apart.communication_ps > together.communication_ps, "each is in flight while others are served");
    }

    /// First come, first served completes chunks in order.
    #[test]
    fn chained_layers_hide_behind_chunks_in_order() {
        let costs = [layer(200_000_000, 20_000_000), layer(300_000_000, 30_000_000), layer(1, 100_000_000)];
        let run = |overlap| timed(&costs, overlap, &Baseline, QueuePolicy::Fifo);
        let (barrier, chained) = (run(Overlap::None), run(Overlap::Chained));
        assert_eq!(chained.communication_ps, barrier.communication_ps);
        // The first chunk comes back to the first dimension when all others have left it.
        assert!(chained.turnaround_ps * 10 < barrier.exposed_ps() * 6);
        // The first two layers are behind chunks of the third.
        assert_eq!(chained.time_ps, barrier.time_ps - 500_000_000);
    }

    #[test]
    fn layers_are_divided_over_the_first_dimensions() {
        let groups = divided_groups(&topology(), 128).unwrap();
        let [data, model] = &groups;
        let sizes =
            |group: &RailsGroup| group.topology.dimensions.iter().map(|dimension| dimension.size).collect::<Vec<_>>();
        assert_eq!((sizes(model), model.numbers.clone()), (vec![16, 8], vec![0, 1]));
        assert_eq!((sizes(data), data.numbers.clone()), (vec![8], vec![1]));
        for ranks in [3, 48, 4096] {
            assert_eq!(divided_groups(&topology(), ranks).unwrap_err().code, Code::NotApplicable);
        }
        let policy = IterationPolicy::new(Overlap::None, Bucket::Layer);
        let jobs = IterationGraph::new(&[layer(1, 1 << 30)], policy, 0, 1).unwrap().jobs;
        let rails = OnRails::new(&topology(), &groups, &jobs, &Baseline, plain(4, QueuePolicy::Fifo)).unwrap();
        let in_second = |step: &Step| matches!(step, Step::Serve(service) if service.server == 1);
        assert!(rails.exchanges[0].chunks.iter().all(|steps| steps.iter().all(in_second)));
    }
}
