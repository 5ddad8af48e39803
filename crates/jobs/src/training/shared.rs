//! Exchanges on a fabric, several in flight: their packets share its links.

use super::network::{Event, Network};
use super::plan::{Plan, Work};
use super::timeline::{Iteration, run};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, Picos};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_proof::Proven;
use antiphon_sim::{Fidelity, Flight, Order, Progress, Running, run_beside};
use std::collections::VecDeque;

/// An iteration whose exchange `i` is done by `schedules[i]`, each in its own group of ranks, in flight with all others
/// that are ready; on links they go first by `order`, of which [`Order::Priority`] is that of their
/// [priorities](Plan::priorities), then of those that were ready first. A part
/// of an exchange arrives as in [`super::GradientQueue`].
///
/// # Errors
/// As [`antiphon_sim::simulate_flights`]; [`Code::TooLarge`] if parts are waited for and there are too many chunks.
///
/// # Panics
/// If there are not as many exchanges.
pub fn run_shared(
    plan: &Plan,
    schedules: &[Vec<&Proven>],
    order: Order,
    fabric: &Fabric,
    system: &System,
    fidelity: Fidelity,
    progress: &mut Progress,
) -> Result<Iteration> {
    assert_eq!(schedules.len(), plan.exchanges.len(), "schedules for every exchange");
    let flight = |id: usize, schedule| Flight { priority: plan.priorities[id], held: true, ..Flight::new(schedule) };
    let flights: Vec<Flight> =
        (0..).zip(schedules).flat_map(|(id, of)| of.iter().map(move |&schedule| flight(id, schedule))).collect();
    let time = |work| if let Work::Compute { time_ps, beside_ps, .. } = work { time_ps.max(beside_ps) } else { 0 };
    let computing: Picos = plan.operations.iter().map(|operation| time(operation.work)).sum();
    run_beside(fabric, &flights, order, system, fidelity, computing + plan.aggregation, |machine| {
        if plan.parts.iter().any(|parts| !parts.is_empty()) {
            machine.count_chunks()?;
        }
        let mut first = 0;
        let exchange = |(id, of): (usize, &Vec<&Proven>)| {
            let flights = first..first + of.len() as u32;
            first = flights.end;
            let bytes = plan.exchanges[id].bytes;
            let parts = plan.parts[id].iter().rev().copied().collect();
            Exchange { left: of.len(), flights, bytes, parts, started: 0 }
        };
        let exchanges = schedules.iter().enumerate().map(exchange).collect();
        let owners = (0..).zip(schedules).flat_map(|(id, of)| of.iter().map(move |_| id)).collect();
        run(plan, &mut Shared { machine, exchanges, owners, happened: VecDeque::new(), now: 0, progress })
    })
}

/// The links of a fabric, which exchanges share.
struct Shared<'m, 'p> {
    machine: &'m mut dyn Running,
    exchanges: Vec<Exchange>,
    /// The exchange of every flight.
    owners: Vec<usize>,
    happened: VecDeque<Event>,
    now: Picos,
    progress: &'m mut Progress<'p>,
}

/// How far an exchange is.
struct Exchange {
    flights: std::ops::Range<u32>,
    /// Flights that have not ended.
    left: usize,
    bytes: Bytes,
    /// Its parts that have not arrived, the first on top.
    parts: Vec<Bytes>,
    started: Picos,
}

impl Shared<'_, '_> {
    /// Whether the next part of an exchange has arrived.
    fn has_part(&self, id: usize) -> bool {
        let Exchange { flights, bytes, parts, .. } = &self.exchanges[id];
        let Some(&part) = parts.last() else { return false };
        flights.clone().all(|flight| self.machine.has_part(flight, part, *bytes))
    }
}

impl Network for Shared<'_, '_> {
    fn submit(&mut self, now: Picos, id: usize) -> Result<()> {
        self.exchanges[id].started = now;
        for flight in self.exchanges[id].flights.clone() {
            self.machine.launch(flight, now)?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Picos> {
        if !self.happened.is_empty() {
            return Some(self.now);
        }
        self.machine.next_ps().map(|next| next.max(self.now))
    }

    fn step(&mut self, until: Picos) -> Result<Option<Event>> {
        if let Some(event) = self.happened.pop_front() {
            return Ok(Some(event));
        }
        self.now = self.now.max(self.machine.next_ps().unwrap_or(0));
        self.machine.step((until != Picos::MAX).then_some(until), self.progress)?;
        while let Some(flight) = self.machine.raised() {
            let id = self.owners[flight as usize];
            while self.has_part(id) {
                self.exchanges[id].parts.pop();
                self.happened.push_back(Event::Arrived(id));
            }
        }
        while let Some(flight) = self.machine.ended() {
            let exchange = self.owners[flight as usize];
            self.exchanges[exchange].left -= 1;
            if self.exchanges[exchange].left == 0 {
                self.happened.push_back(Event::Finished { exchange, start: self.exchanges[exchange].started });
            }
        }
        Ok(self.happened.pop_front())
    }

    fn finish(&mut self) -> Result<()> {
        self.machine.finish()?;
        match self.exchanges.iter().position(|exchange| exchange.left > 0) {
            Some(id) => Err(Error::new(Code::Stalled, format!("exchange {id} was never ready"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Bucket, Cost, GradientQueue, Overlap, Policy, Serial};
    use antiphon_base::parameter::Choice;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_model::workload::{self, Passes};
    use antiphon_plan::algorithm;
    use antiphon_proof::prove;

    fn plan(layers: &[([Picos; 3], Bytes)], overlap: Overlap) -> Plan {
        let cost = |&(times, bytes): &([Picos; 3], Bytes)| {
            let gradients = (bytes > 0).then_some(workload::Exchange { kind: Kind::AllReduce, bytes });
            Cost {
                times: Passes(times),
                beside: Passes(times),
                exchanges: Passes([None, None, gradients]),
                bucket: None,
                consumer: None,
                stream: 0,
            }
        };
        let costs: Vec<Cost> = layers.iter().map(cost).collect();
        let policy = Policy { overlap, bucket: Bucket::Layer, recompute: false, blocking: false };
        Plan::iteration(&costs, policy, 7_000).unwrap()
    }

    fn schedules(plan: &Plan, fabric: &Fabric, system: &System, spec: &str) -> Vec<Proven> {
        let all_reduce = Collective::new(Kind::AllReduce);
        let build = |exchange: &workload::Exchange| {
            prove(fabric, algorithm::build(fabric, system, all_reduce, exchange.bytes, spec).unwrap()).unwrap()
        };
        plan.exchanges.iter().map(build).collect()
    }

    fn shared(plan: &Plan, fabric: &Fabric, system: &System, spec: &str, fidelity: Fidelity) -> Iteration {
        let schedules = schedules(plan, fabric, system, spec);
        let each: Vec<Vec<&Proven>> = schedules.iter().map(|schedule| vec![schedule]).collect();
        run_shared(plan, &each, Order::Priority, fabric, system, fidelity, &mut |_| true).unwrap()
    }

    /// Two ranks, two layers of two packets. A packet takes 357 ns, the hand-off 12, an addition one.
    #[test]
    fn two_exchanges_share_a_link_to_the_picosecond() {
        let (fabric, system) = (Fabric::parse("ring:2").unwrap(), System::preset("tto").unwrap());
        let plan = plan(&[([0, 0, 100_000], 16_384), ([0, 0, 0], 16_384)], Overlap::Layerwise);
        let iteration = shared(&plan, &fabric, &system, "direct", Fidelity::Packet);
        let of = |id| plan.operations.iter().position(|operation| operation.work == Work::Exchange(id)).unwrap();
        let [first, second] = [0, 1].map(|id| iteration.spans[of(id)]);
        // Layer 1's half goes at 0, layer 0's, ready at 100, at 357. The sum of layer 1, there at 370, waits until 714;
        // layer 0's, there at 727, until 1071.
        assert_eq!((first.ready_ps, first.start_ps, first.finish_ps), (0, 0, 1_083_000));
        assert_eq!((second.ready_ps, second.start_ps, second.finish_ps), (100_000, 100_000, 1_440_000));
        assert_eq!((iteration.time_ps, iteration.communication_ps), (1_447_000, 1_083_000 + 1_340_000));
        assert_eq!(iteration.exposed_data_ps(), 1_340_000);
        // One after the other each takes 739.
        let serial = run(&plan, &mut Serial::new(&plan, &[739_000; 2], &[vec![], vec![]])).unwrap();
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
                let plan = plan(&layers, overlap);
                let schedule = &schedules(&plan, &fabric, &system, spec)[0];
                for &(_, fidelity) in Fidelity::ALL {
                    let alone = antiphon_sim::simulate(&fabric, schedule, &system, fidelity, &mut |_| true).unwrap();
                    let rows = alone.chunks.iter().map(|row| (row.lane, row.chunk, row.complete_ps));
                    let parts = plan.arrivals(&[Some(GradientQueue::new(rows).unwrap())]).unwrap();
                    let serial = run(&plan, &mut Serial::new(&plan, &[alone.time_ps], &parts)).unwrap();
                    assert_eq!(
                        shared(&plan, &fabric, &system, spec, fidelity),
                        serial,
                        "{spec}, {overlap:?}, {fidelity:?}"
                    );
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
            let [layerwise, both] = [Overlap::Layerwise, Overlap::Both]
                .map(|overlap| shared(&plan(&layers, overlap), &fabric, &system, "combs", fidelity));
            // The gradients of the first layer are there earlier, though they are exchanged last.
            assert!(both.turnaround_ps < layerwise.exposed_data_ps(), "{fidelity:?}");
            assert!(both.time_ps < layerwise.time_ps, "{fidelity:?}");
        }
    }
}
