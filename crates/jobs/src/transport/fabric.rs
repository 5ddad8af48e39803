//! Exchanges as flights on a fabric: those under way share its links.

use super::{Delivery, Transport};
use crate::graph::JobGraph;
use crate::timeline::{TimeLine, run};
use antiphon_base::error::Result;
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_proof::Proven;
use antiphon_sim::{Fidelity, Flight, Order, Progress, Running, run_beside};
use std::collections::VecDeque;
use std::ops::Range;

/// Where and how exchanges are in flight.
#[derive(Debug, Clone, Copy)]
pub struct OnFabric<'a> {
    /// Whose links they share.
    pub fabric: &'a Fabric,
    /// The platform.
    pub system: &'a System,
    /// How closely they are simulated.
    pub fidelity: Fidelity,
    /// Which goes first on links; [`Order::Priority`] is that of their priorities, then of those that started first.
    pub order: Order,
}

impl OnFabric<'_> {
    /// Runs a graph whose exchange `i` is done by `schedules[i]`, each in its own group of ranks, in flight with all others
    /// that have started; one without schedules takes no time. A part of it has arrived as in
    /// [`GradientQueue`](crate::training::GradientQueue). Ranks compute for at most `computing`.
    ///
    /// # Errors
    /// As [`antiphon_sim::simulate_flights`] and [`run`]; [`antiphon_base::error::Code::TooLarge`] if parts are waited for
    /// and there are too many chunks.
    ///
    /// # Panics
    /// If there are not as many exchanges.
    pub fn run(
        &self,
        graph: &JobGraph,
        schedules: &[&[&Proven]],
        computing: Picos,
        progress: &mut Progress,
    ) -> Result<TimeLine> {
        assert_eq!(schedules.len(), graph.exchanges.len(), "schedules for every exchange");
        let (mut flights, mut owners, mut exchanges) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = graph.parts();
        for ((id, exchange), &of) in (0..).zip(&graph.exchanges).zip(schedules) {
            let first = flights.len() as u32;
            let flight = |schedule| Flight { priority: exchange.priority, held: true, ..Flight::new(schedule) };
            flights.extend(of.iter().map(|schedule| flight(schedule)));
            owners.resize(flights.len(), id);
            let mut parts = parts.remove(&id).unwrap_or_default();
            parts.reverse();
            let flights = first..flights.len() as u32;
            exchanges.push(InFlight { left: of.len(), flights, bytes: exchange.bytes, parts, start_ps: 0 });
        }
        let OnFabric { fabric, system, fidelity, order } = *self;
        run_beside(fabric, &flights, order, system, fidelity, computing, |machine| {
            if exchanges.iter().any(|exchange| !exchange.parts.is_empty()) {
                machine.count_chunks()?;
            }
            run(graph, &mut Flights { machine, exchanges, owners, progress })
        })
    }
}

/// The links of a fabric, which exchanges share.
struct Flights<'m, 'p> {
    machine: &'m mut dyn Running,
    exchanges: Vec<InFlight>,
    /// The exchange of every flight.
    owners: Vec<u32>,
    progress: &'m mut Progress<'p>,
}

/// How far an exchange is.
struct InFlight {
    flights: Range<u32>,
    /// Flights that have not ended.
    left: usize,
    bytes: Bytes,
    /// Its parts that have not arrived, the first on top.
    parts: Vec<Bytes>,
    start_ps: Picos,
}

impl Flights<'_, '_> {
    /// Whether the next part of an exchange has arrived.
    fn has_part(&self, exchange: u32) -> bool {
        let InFlight { flights, bytes, parts, .. } = &self.exchanges[exchange as usize];
        let Some(&part) = parts.last() else { return false };
        flights.clone().all(|flight| self.machine.has_part(flight, part, *bytes))
    }
}

impl Transport for Flights<'_, '_> {
    fn submit(&mut self, now: Picos, exchange: u32) -> Result<bool> {
        let exchange = &mut self.exchanges[exchange as usize];
        exchange.start_ps = now;
        for flight in exchange.flights.clone() {
            self.machine.launch(flight, now)?;
        }
        Ok(exchange.left > 0)
    }

    fn next(&self) -> Option<Picos> {
        self.machine.next_ps()
    }

    fn step(&mut self, until: Option<Picos>, happened: &mut VecDeque<Delivery>) -> Result<()> {
        self.machine.step(until, self.progress)?;
        while let Some(flight) = self.machine.raised() {
            let exchange = self.owners[flight as usize];
            while self.has_part(exchange) {
                self.exchanges[exchange as usize].parts.pop();
                happened.push_back(Delivery::Part(exchange));
            }
        }
        while let Some(flight) = self.machine.ended() {
            let exchange = self.owners[flight as usize];
            let InFlight { left, start_ps, .. } = &mut self.exchanges[exchange as usize];
            *left -= 1;
            if *left == 0 {
                happened.push_back(Delivery::Whole { exchange, start_ps: *start_ps });
            }
        }
        Ok(())
    }

    fn buffer_bytes(&self) -> Option<Bytes> {
        self.machine.buffer_bytes()
    }

    fn finish(&mut self) -> Result<()> {
        self.machine.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::OperationKind;
    use crate::training::{
        self, Bucket, Cost, GradientQueue, Iteration, IterationGraph, IterationPolicy, Overlap, run_shared,
    };
    use crate::transport::Serial;
    use antiphon_base::parameter::Choice;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_plan::algorithm;
    use antiphon_proof::prove;

    fn graph(layers: &[([Picos; 3], Bytes)], overlap: Overlap) -> IterationGraph {
        let costs: Vec<Cost> = layers.iter().map(|&(times, bytes)| Cost::of_gradients(times, bytes)).collect();
        IterationGraph::new(&costs, IterationPolicy::new(overlap, Bucket::Layer), 7_000, 1).unwrap()
    }

    fn schedules(graph: &IterationGraph, fabric: &Fabric, system: &System, spec: &str) -> Vec<Proven> {
        let all_reduce = Collective::new(Kind::AllReduce);
        let build = |bytes| prove(fabric, algorithm::build(fabric, system, all_reduce, bytes, spec).unwrap()).unwrap();
        graph.jobs.exchanges.iter().map(|exchange| build(exchange.bytes)).collect()
    }

    fn shared(graph: &IterationGraph, on: &OnFabric, spec: &str) -> Iteration {
        let schedules = schedules(graph, on.fabric, on.system, spec);
        let each: Vec<Vec<&Proven>> = schedules.iter().map(|schedule| vec![schedule]).collect();
        run_shared(graph, &each, on, &mut |_| true).unwrap()
    }

    /// Two ranks, two layers of two packets. A packet takes 357 ns, the hand-off 12, an addition one.
    #[test]
    fn two_exchanges_share_a_link_to_the_picosecond() {
        let (fabric, system) = (Fabric::parse("ring:2").unwrap(), System::preset("tto").unwrap());
        let graph = graph(&[([0, 0, 100_000], 16_384), ([0, 0, 0], 16_384)], Overlap::Layerwise);
        let on = OnFabric { fabric: &fabric, system: &system, fidelity: Fidelity::Packet, order: Order::Priority };
        let iteration = shared(&graph, &on, "direct");
        let of = |id| graph.operations().position(|(kind, _)| kind == OperationKind::Exchange(id)).unwrap();
        let [first, second] = [0, 1].map(|id| iteration.operations[of(id)]);
        // Layer 1's half goes at 0, layer 0's, ready at 100, at 357. The sum of layer 1, there at 370, waits until 714;
        // layer 0's, there at 727, until 1071.
        assert_eq!((first.ready_ps, first.start_ps, first.finish_ps), (0, 0, 1_083_000));
        assert_eq!((second.ready_ps, second.start_ps, second.finish_ps), (100_000, 100_000, 1_440_000));
        assert_eq!((iteration.time_ps, iteration.communication_ps), (1_447_000, 1_083_000 + 1_340_000));
        assert_eq!(iteration.exposed_data_ps(), 1_340_000);
        // One after the other each takes 739.
        let serial = training::run(&graph, &mut Serial::new(&graph.jobs, &[739_000; 2], &[vec![], vec![]])).unwrap();
        assert_eq!(serial.time_ps, 2 * 739_000 + 7_000);
    }

    /// One exchange takes as long as by itself, and its parts arrive when they do there.
    #[test]
    fn one_exchange_is_as_if_serial() {
        let fabric = Fabric::parse("mesh:3x3").unwrap();
        let layers = [([50_000, 0, 9_000], 300_000), ([100_000, 0, 9_000], 400_000), ([10_000, 5_000, 0], 90_000)];
        for (name, spec) in
            [("tto", "overlapped-tree"), ("tto", "tto:chunk=24KiB"), ("generic", "combs"), ("tto", "ring-bi-odd")]
        {
            let system = System::preset(name).unwrap();
            for overlap in [Overlap::None, Overlap::Chained] {
                let graph = graph(&layers, overlap);
                let schedule = &schedules(&graph, &fabric, &system, spec)[0];
                for &(_, fidelity) in Fidelity::ALL {
                    let alone = antiphon_sim::simulate(&fabric, schedule, &system, fidelity, &mut |_| true).unwrap();
                    let rows = alone.chunks.iter().map(|row| (row.lane, row.chunk, row.complete_ps));
                    let parts = graph.arrivals(&[Some(GradientQueue::new(rows).unwrap())]).unwrap();
                    let serial = training::run(&graph, &mut Serial::new(&graph.jobs, &[alone.time_ps], &parts));
                    let on = OnFabric { fabric: &fabric, system: &system, fidelity, order: Order::Priority };
                    let buffer_bytes = alone.ranks.iter().filter_map(|row| row.buffer_bytes).max();
                    let serial = Iteration { buffer_bytes, ..serial.unwrap() };
                    assert_eq!(shared(&graph, &on, spec), serial, "{spec}, {overlap:?}, {fidelity:?}");
                }
            }
        }
    }

    /// Buckets of early layers go first; whatever the fidelity, nothing is lost.
    #[test]
    fn buckets_with_priorities() {
        let (fabric, system) = (Fabric::parse("mesh:2x4").unwrap(), System::preset("tto").unwrap());
        let layers = [([500_000, 0, 9_000], 300_000), ([100_000, 0, 9_000], 400_000), ([10_000, 5_000, 0], 900_000)];
        for &(_, fidelity) in Fidelity::ALL {
            let on = OnFabric { fabric: &fabric, system: &system, fidelity, order: Order::Priority };
            let [layerwise, both] =
                [Overlap::Layerwise, Overlap::Both].map(|overlap| shared(&graph(&layers, overlap), &on, "combs"));
            // The gradients of the first layer are there earlier, though they are exchanged last.
            assert!(both.turnaround_ps < layerwise.exposed_data_ps(), "{fidelity:?}");
            assert!(both.time_ps < layerwise.time_ps, "{fidelity:?}");
        }
    }
}
