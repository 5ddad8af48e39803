//! Exchanges on a multi-dimensional network, several in flight: their chunks share its dimensions.

use super::network::{Event, Network};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::collective::Kind;
use antiphon_model::energy::Energy;
use antiphon_model::system::{Endpoint, System};
use antiphon_model::topology::Topology;
use antiphon_model::workload::{Exchange, Pass};
use antiphon_sim::Order;
use antiphon_sim::rails::orders::{Plan, Stage};
use antiphon_sim::rails::stage_endpoint::{RailsEndpoint, RailsGroup};
use antiphon_sim::rails::stage_loop::{Service, StageLoop, Step, spread};
use antiphon_sim::rails::{QueuePolicy, Scheduler, check_steps, chunks_of, dynamic_energy};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// The groups of NPUs that exchange: those that a layer is divided over, and those that hold the same
/// part of the model.
#[derive(Debug, Clone)]
pub struct Groups {
    model: RailsGroup,
    data: RailsGroup,
}

impl Groups {
    /// Data parallelism: both groups are all NPUs.
    pub fn all(topology: &Topology) -> Groups {
        let all = RailsGroup::whole(topology);
        Groups { model: all.clone(), data: all }
    }

    /// Layers divided over `ranks` neighbouring NPUs: the first dimensions, of the last of these only a
    /// part where they do not fit exactly. The data group is what is left.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] if the dimensions cannot be divided so.
    pub fn divided(topology: &Topology, ranks: u64) -> Result<Groups> {
        let none = || RailsGroup {
            topology: Topology { name: topology.name.clone(), dimensions: Vec::new() },
            numbers: Vec::new(),
        };
        let (mut model, mut data, mut left) = (none(), none(), ranks);
        for (number, dimension) in topology.dimensions.iter().enumerate() {
            let inside = if left.is_multiple_of(dimension.size) { dimension.size } else { left };
            if inside == 0 || !dimension.size.is_multiple_of(inside) {
                let what = format!(
                    "{}: layers cannot be divided over {ranks} NPUs; use a product of the first dimensions' sizes",
                    topology.name
                );
                return Err(Error::new(Code::NotApplicable, what));
            }
            left /= inside;
            for (group, size) in [(&mut model, inside), (&mut data, dimension.size / inside)] {
                if size > 1 {
                    group.topology.dimensions.push(antiphon_model::fabric::Dimension { size, ..*dimension });
                    group.numbers.push(number as u8);
                }
            }
        }
        if left > 1 {
            let what =
                format!("{}: layers cannot be divided over {ranks} NPUs, it has {}", topology.name, topology.npus());
            return Err(Error::new(Code::NotApplicable, what));
        }
        Ok(Groups { model, data })
    }
}

/// How exchanges go over a topology.
#[derive(Debug, Clone, Copy)]
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
}

/// Chunks of all exchanges queue at the same dimensions.
pub struct Rails {
    engine: StageLoop,
    order: Order,
    /// Steps of the chunks of every exchange, and its priority.
    steps: Vec<(Rc<Chunks>, u32)>,
    /// By chunk in the engine: its exchange, and its number there.
    owners: Vec<(usize, usize)>,
    flights: Vec<Flight>,
    submitted: u32,
    happened: VecDeque<Event>,
    now: Picos,
    links: Vec<Link>,
    /// Plans of exchanges, on their groups' dimensions; and which of them each exchange has.
    plans: Vec<(Topology, Plan)>,
    which: Vec<usize>,
    npus: u64,
}

/// A server: the dimension of which it is a link, if it is one, and when it was busy.
type Link = (Option<usize>, Vec<(Picos, Picos)>);

/// Steps of every chunk; many have the same.
type Chunks = Vec<Rc<[Step]>>;

/// How far an exchange is.
struct Flight {
    /// Which chunks are through.
    through: Vec<bool>,
    /// How many chunks are through.
    count: usize,
    /// How many are, in order.
    in_order: usize,
    /// Chunks of each part that has not arrived, the first on top.
    parts: Vec<usize>,
    started: Picos,
}

impl Rails {
    /// A network for the exchanges of an iteration: those of weight gradients run in the data group,
    /// others in the model group, with their chunks ordered by `scheduler`. Exchanges of the same kind and
    /// size in the same group have the same orders. A part arrives with its last chunk in order.
    ///
    /// # Errors
    /// As [`Plan::uniform`], [`check_steps`] and [`RailsEndpoint::new`].
    pub fn new(
        topology: &Topology,
        groups: &Groups,
        iteration: &super::Plan,
        scheduler: &dyn Scheduler,
        how: Carriage,
    ) -> Result<Rails> {
        let mut known: HashMap<(Kind, u64, bool), usize> = HashMap::new();
        let mut plans: Vec<(&RailsGroup, Plan)> = Vec::new();
        let mut which = Vec::new();
        for (Exchange { kind, bytes }, pass) in iteration.exchanges_with_passes() {
            let data = pass == Pass::WeightGradient;
            let group = if data { &groups.data } else { &groups.model };
            let index = match known.entry((kind, bytes, data)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let chunks = match how.chunks {
                        Some(chunks) => chunks,
                        None => chunks_of(&how.endpoint, bytes)?,
                    };
                    let mut plan = Plan::uniform(&group.topology, kind, bytes, chunks, how.offload)?;
                    scheduler.schedule(&group.topology, &mut plan);
                    plans.push((group, plan));
                    *new.insert(plans.len() - 1)
                }
            };
            which.push(index);
        }
        let dimensions = topology.dimensions.len();
        let (engine, links, chunks) = if how.endpoint == Endpoint::System {
            let whole = |(group, plan): &(&RailsGroup, Plan)| {
                let step = |(number, stage): (usize, Stage)| {
                    let dimension = group.numbers[usize::from(stage.dimension)];
                    Step::Serve(Service::of(number, Stage { dimension, ..stage }))
                };
                let of = |order| plan.stages(&group.topology, order).enumerate().map(step).collect();
                Rc::new(plan.orders.iter().map(of).collect::<Chunks>())
            };
            let links = (0..dimensions).map(|number| (Some(number), vec![])).collect();
            (StageLoop::new(dimensions, how.queue, 1), links, plans.iter().map(whole).collect::<Vec<_>>())
        } else {
            let of: Vec<_> = plans.iter().map(|(group, plan)| (*group, plan)).collect();
            check_steps(&how.endpoint, which.iter().map(|&index| (&of[index].0.topology, of[index].1)))?;
            let node = RailsEndpoint::new(dimensions, how.endpoint, &of)?;
            let engine = node.stage_loop(how.queue);
            let links = (0..node.servers()).map(|server| (node.dimension_of(server), vec![])).collect();
            (engine, links, plans.iter().map(|(group, plan)| Rc::new(node.chunks(group, plan))).collect())
        };
        let flights = which.iter().zip(&iteration.parts).enumerate().map(|(id, (&index, parts))| {
            let (count, bytes) = (chunks[index].len(), iteration.exchanges[id].bytes);
            let chunks_of = |&part: &Bytes| (u128::from(part) * count as u128).div_ceil(u128::from(bytes)) as usize;
            let parts = parts.iter().rev().map(chunks_of).collect();
            Flight { through: vec![false; count], count: 0, in_order: 0, parts, started: 0 }
        });
        Ok(Rails {
            engine,
            order: how.order,
            flights: flights.collect(),
            steps: which
                .iter()
                .zip(&iteration.priorities)
                .map(|(&index, &first)| (chunks[index].clone(), first))
                .collect(),
            owners: Vec::new(),
            submitted: 0,
            happened: VecDeque::new(),
            now: 0,
            links,
            npus: topology.npus(),
            plans: plans.into_iter().map(|(group, plan)| (group.topology.clone(), plan)).collect(),
            which,
        })
    }

    /// What each exchange takes, in all groups that have it at once, whenever it is under way.
    ///
    /// # Errors
    /// As [`dynamic_energy`].
    pub fn energies(&self, system: &System) -> Result<Vec<Energy>> {
        let of = |(topology, plan): &(Topology, Plan)| {
            let one = dynamic_energy(topology, plan, system)?;
            Ok(one.times((self.npus / topology.npus()).into()))
        };
        let each = self.plans.iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(self.which.iter().map(|&index| each[index].clone()).collect())
    }

    /// Share of each of `windows` equal windows of the time until `end` in which the links of each dimension were busy:
    /// rows are dimensions (ACE, ISCA 2021, Fig. 10). O(times + windows).
    pub fn activity(&self, end: Picos, windows: usize) -> Vec<Vec<f64>> {
        let dimensions = self.links.iter().filter_map(|(dimension, _)| *dimension).max().map_or(0, |last| last + 1);
        let (mut shares, mut counts) = (vec![vec![0.0; windows]; dimensions], vec![0.0; dimensions]);
        let length = end.max(1) as f64 / windows as f64;
        for (dimension, spans) in self.links.iter().filter_map(|(dimension, spans)| Some((dimension.as_ref()?, spans)))
        {
            // A dimension that is no ring has one server.
            counts[*dimension] += f64::from(u8::from(!spans.is_empty()));
            for &(start, finish) in spans {
                let (start, finish) = (start as f64, finish.min(end) as f64);
                spread(&mut shares[*dimension], length, start, finish);
            }
        }
        for (shares, count) in shares.iter_mut().zip(counts) {
            shares.iter_mut().for_each(|share| *share /= f64::max(count, 1.0));
        }
        shares
    }
}

impl Network for Rails {
    fn submit(&mut self, now: Picos, id: usize) -> Result<()> {
        self.flights[id].started = now;
        let (chunks, priority) = &self.steps[id];
        let rank = self.order.rank(*priority, self.submitted);
        self.submitted += 1;
        for (number, steps) in chunks.iter().enumerate() {
            self.engine.submit_steps(now, rank, steps.iter().copied());
            self.owners.push((id, number));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let submitted: HashSet<usize> = self.owners.iter().map(|(exchange, _)| *exchange).collect();
        match submitted.into_iter().find(|&id| self.flights[id].count < self.flights[id].through.len()) {
            Some(id) => Err(Error::new(Code::Stalled, format!("exchange {id} waits for room in an engine"))),
            None => Ok(()),
        }
    }

    fn next(&self) -> Option<Picos> {
        if self.happened.is_empty() { self.engine.next() } else { Some(self.now) }
    }

    fn step(&mut self, _until: Picos) -> Result<Option<Event>> {
        if self.happened.is_empty() {
            let Some(now) = self.engine.next() else { return Ok(None) };
            self.now = now;
            let (owners, flights, happened) = (&self.owners, &mut self.flights, &mut self.happened);
            let links = &mut self.links;
            self.engine.step(
                |server, span| {
                    let (dimension, busy) = &mut links[server];
                    match busy.last_mut() {
                        _ if dimension.is_none() => {}
                        Some((_, end)) if *end >= span.start_ps => *end = span.finish_ps.max(*end),
                        _ => busy.push((span.start_ps, span.finish_ps)),
                    }
                },
                |chunk| {
                    let (exchange, number) = owners[chunk as usize];
                    let flight = &mut flights[exchange];
                    flight.through[number] = true;
                    flight.count += 1;
                    flight.in_order += flight.through[flight.in_order..].iter().take_while(|through| **through).count();
                    while flight.parts.pop_if(|chunks| *chunks <= flight.in_order).is_some() {
                        happened.push_back(Event::Arrived(exchange));
                    }
                    if flight.count == flight.through.len() {
                        happened.push_back(Event::Finished { exchange, start: flight.started });
                    }
                },
            );
        }
        Ok(self.happened.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Bucket, Cost, Overlap, Plan as Iteration, Policy, run};
    use antiphon_model::workload::Passes;
    use antiphon_sim::rails::run as run_alone;
    use antiphon_sim::rails::scheduler::{Baseline, Themis};

    fn plain(chunks: u32, queue: QueuePolicy) -> Carriage {
        Carriage { chunks: Some(chunks), queue, offload: false, endpoint: Endpoint::System, order: Order::Fifo }
    }

    fn topology() -> Topology {
        Topology::parse("sw16@1200/700ns,sw64@800/1700ns").unwrap()
    }

    fn layer(time: Picos, bytes: u64) -> Cost {
        let gradients = Some(Exchange { kind: Kind::AllReduce, bytes });
        Cost {
            times: Passes([time; 3]),
            beside: Passes([time; 3]),
            exchanges: Passes([None, None, gradients]),
            bucket: None,
            consumer: None,
            stream: 0,
        }
    }

    fn iteration(costs: &[Cost], overlap: Overlap) -> (Iteration, crate::training::Iteration) {
        let policy = Policy { overlap, bucket: Bucket::Layer, recompute: false, blocking: false };
        let plan = Iteration::iteration(costs, policy, 0).unwrap();
        let topology = topology();
        let groups = Groups::all(&topology);
        let mut network =
            Rails::new(&topology, &groups, &plan, &Themis::default(), plain(64, QueuePolicy::Smallest)).unwrap();
        let iteration = run(&plan, &mut network).unwrap();
        (plan, iteration)
    }

    #[test]
    fn one_exchange_takes_as_long_as_alone() {
        let (_, timed) = iteration(&[layer(1000, 100_000_000), layer(1000, 50_000_000)], Overlap::None);
        let mut plan = Plan::uniform(&topology(), Kind::AllReduce, 150_000_000, 64, false).unwrap();
        Themis::default().schedule(&topology(), &mut plan);
        assert_eq!(timed.time_ps, 6000 + run_alone(&topology(), &plan, QueuePolicy::Smallest, 1).time_ps);
        assert_eq!(timed.exposed_data_ps(), timed.time_ps - 6000);
    }

    #[test]
    fn exchanges_in_flight_share_the_dimensions() {
        let costs = [layer(100_000, 100_000_000), layer(100_000, 100_000_000), layer(100_000, 100_000_000)];
        let (_, apart) = iteration(&costs, Overlap::Layerwise);
        let (_, together) = iteration(&costs, Overlap::None);
        // Begun earlier, but the same bytes.
        assert!(apart.time_ps < together.time_ps * 102 / 100 && apart.time_ps > together.time_ps * 95 / 100);
        assert!(apart.communication_ps > together.communication_ps, "each is in flight while others are served");
    }

    /// First come, first served completes chunks in order.
    #[test]
    fn chained_layers_hide_behind_chunks_in_order() {
        let costs = [layer(200_000_000, 20_000_000), layer(300_000_000, 30_000_000), layer(1, 100_000_000)];
        let run = |overlap| {
            let policy = Policy { overlap, bucket: Bucket::Layer, recompute: false, blocking: false };
            let plan = Iteration::iteration(&costs, policy, 0).unwrap();
            let (topology, queue) = (topology(), QueuePolicy::Fifo);
            let groups = Groups::all(&topology);
            run(&plan, &mut Rails::new(&topology, &groups, &plan, &Baseline, plain(64, queue)).unwrap()).unwrap()
        };
        let (barrier, chained) = (run(Overlap::None), run(Overlap::Chained));
        assert_eq!(chained.communication_ps, barrier.communication_ps);
        // The first chunk comes back to the first dimension when all others have left it.
        assert!(chained.turnaround_ps * 10 < barrier.exposed_ps() * 6);
        // The first two layers are behind chunks of the third.
        assert_eq!(chained.time_ps, barrier.time_ps - 500_000_000);
    }

    #[test]
    fn layers_are_divided_over_the_first_dimensions() {
        let groups = Groups::divided(&topology(), 128).unwrap();
        let sizes =
            |group: &RailsGroup| group.topology.dimensions.iter().map(|dimension| dimension.size).collect::<Vec<_>>();
        assert_eq!((sizes(&groups.model), groups.model.numbers.clone()), (vec![16, 8], vec![0, 1]));
        assert_eq!((sizes(&groups.data), groups.data.numbers.clone()), (vec![8], vec![1]));
        for ranks in [3, 48, 4096] {
            assert_eq!(Groups::divided(&topology(), ranks).unwrap_err().code, Code::NotApplicable);
        }
        let policy = Policy { overlap: Overlap::None, bucket: Bucket::Layer, recompute: false, blocking: false };
        let plan = Iteration::iteration(&[layer(1, 1 << 30)], policy, 0).unwrap();
        let network = Rails::new(&topology(), &groups, &plan, &Baseline, plain(4, QueuePolicy::Fifo)).unwrap();
        let in_second = |step: &Step| matches!(step, Step::Serve(service) if service.server == 1);
        assert!(network.steps[0].0.iter().all(|steps| steps.iter().all(in_second)));
    }
}
