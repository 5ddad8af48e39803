//! Exchanges on a multi-dimensional network, several in flight: their chunks share its dimensions.

use super::network::{Event, Network};
use crate::collective::Kind;
use crate::error::{Code, Error, Result};
use crate::rails::engine::Engine;
use crate::rails::plan::{Plan, Stage};
use crate::rails::{Queue, Scheduler, Topology};
use crate::units::{Bytes, Picos};
use crate::workload::{Exchange, Pass};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// Some dimensions of a topology, or parts of them, as a topology of its own.
#[derive(Debug, Clone)]
struct Group {
    topology: Topology,
    /// Number of each of its dimensions in the whole.
    numbers: Vec<u8>,
}

/// The groups of NPUs that exchange: those that a layer is divided over, and those that hold the same
/// part of the model.
#[derive(Debug, Clone)]
pub struct Groups {
    model: Group,
    data: Group,
}

impl Groups {
    /// Data parallelism: both groups are all NPUs.
    pub fn all(topology: &Topology) -> Groups {
        let numbers = (0..topology.dimensions.len() as u8).collect();
        let all = Group { topology: topology.clone(), numbers };
        Groups { model: all.clone(), data: all }
    }

    /// Layers divided over `ranks` neighbouring NPUs: the first dimensions, of the last of these only a
    /// part where they do not fit exactly. The data group is what is left.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] if the dimensions cannot be divided so.
    pub fn divided(topology: &Topology, ranks: u64) -> Result<Groups> {
        let none = || Group {
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
                    group.topology.dimensions.push(crate::fabric::Dimension { size, ..*dimension });
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

/// Chunks of all exchanges queue at the same dimensions.
pub struct Rails {
    engine: Engine,
    /// Stages of the chunks of every exchange.
    stages: Vec<Vec<Vec<Stage>>>,
    /// By chunk in the engine: its exchange, and its number there.
    owners: Vec<(usize, usize)>,
    flights: Vec<Flight>,
    happened: VecDeque<Event>,
    now: Picos,
}

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
    /// others in the model group, in `chunks` chunks ordered by `scheduler`. Exchanges of the same kind and
    /// size in the same group have the same orders. A part arrives with its last chunk in order.
    ///
    /// # Errors
    /// As [`Plan::uniform`].
    pub fn new(
        topology: &Topology,
        groups: &Groups,
        iteration: &super::Plan,
        chunks: u32,
        scheduler: &dyn Scheduler,
        queue: Queue,
        offload: bool,
    ) -> Result<Rails> {
        let mut known: HashMap<(Kind, u64, bool), Vec<Vec<Stage>>> = HashMap::new();
        let (mut stages, mut flights) = (Vec::new(), Vec::new());
        for ((Exchange { kind, bytes }, pass), parts) in
            iteration.exchanges_with_passes().into_iter().zip(&iteration.parts)
        {
            let data = pass == Pass::WeightGradient;
            let group = if data { &groups.data } else { &groups.model };
            let key = (kind, bytes, data);
            let of_chunks = match known.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let mut plan = Plan::uniform(&group.topology, kind, bytes, chunks, offload)?;
                    scheduler.schedule(&group.topology, &mut plan);
                    let in_whole =
                        |stage: Stage| Stage { dimension: group.numbers[usize::from(stage.dimension)], ..stage };
                    let of = |order| plan.stages(&group.topology, order).map(in_whole).collect();
                    new.insert(plan.orders.iter().map(of).collect())
                }
            };
            let count = of_chunks.len();
            let chunks_of = |&part: &Bytes| (u128::from(part) * count as u128).div_ceil(u128::from(bytes)) as usize;
            let parts = parts.iter().rev().map(chunks_of).collect();
            flights.push(Flight { through: vec![false; count], count: 0, in_order: 0, parts, started: 0 });
            stages.push(of_chunks.clone());
        }
        Ok(Rails {
            engine: Engine::new(topology.dimensions.len(), queue, 1),
            flights,
            stages,
            owners: Vec::new(),
            happened: VecDeque::new(),
            now: 0,
        })
    }
}

impl Network for Rails {
    fn submit(&mut self, now: Picos, id: usize) {
        self.flights[id].started = now;
        for (number, stages) in self.stages[id].iter().enumerate() {
            self.engine.submit(now, stages.iter().copied());
            self.owners.push((id, number));
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
            self.engine.step(
                |_, _| (),
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
    use crate::rails::run as run_alone;
    use crate::rails::scheduler::{Baseline, Themis};
    use crate::training::{Bucket, Cost, Overlap, Plan as Iteration, Policy, run};
    use crate::workload::Passes;

    fn topology() -> Topology {
        Topology::parse("sw16@1200/700ns,sw64@800/1700ns").unwrap()
    }

    fn layer(time: Picos, bytes: u64) -> Cost {
        let gradients = Some(Exchange { kind: Kind::AllReduce, bytes });
        Cost {
            times: Passes([time; 3]),
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
            Rails::new(&topology, &groups, &plan, 64, &Themis::default(), Queue::Smallest, false).unwrap();
        let iteration = run(&plan, &mut network).unwrap();
        (plan, iteration)
    }

    #[test]
    fn one_exchange_takes_as_long_as_alone() {
        let (_, timed) = iteration(&[layer(1000, 100_000_000), layer(1000, 50_000_000)], Overlap::None);
        let mut plan = Plan::uniform(&topology(), Kind::AllReduce, 150_000_000, 64, false).unwrap();
        Themis::default().schedule(&topology(), &mut plan);
        assert_eq!(timed.time_ps, 6000 + run_alone(&topology(), &plan, Queue::Smallest, 1).time_ps);
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
            let (topology, queue) = (topology(), Queue::Fifo);
            let groups = Groups::all(&topology);
            run(&plan, &mut Rails::new(&topology, &groups, &plan, 64, &Baseline, queue, false).unwrap()).unwrap()
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
            |group: &Group| group.topology.dimensions.iter().map(|dimension| dimension.size).collect::<Vec<_>>();
        assert_eq!((sizes(&groups.model), groups.model.numbers.clone()), (vec![16, 8], vec![0, 1]));
        assert_eq!((sizes(&groups.data), groups.data.numbers.clone()), (vec![8], vec![1]));
        for ranks in [3, 48, 4096] {
            assert_eq!(Groups::divided(&topology(), ranks).unwrap_err().code, Code::NotApplicable);
        }
        let policy = Policy { overlap: Overlap::None, bucket: Bucket::Layer, recompute: false, blocking: false };
        let plan = Iteration::iteration(&[layer(1, 1 << 30)], policy, 0).unwrap();
        let network = Rails::new(&topology(), &groups, &plan, 4, &Baseline, Queue::Fifo, false).unwrap();
        assert!(network.stages[0].iter().flatten().all(|stage| stage.dimension == 1));
    }
}
