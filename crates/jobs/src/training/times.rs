//! Where the time of an iteration went.

use super::iteration::IterationGraph;
use crate::graph::OperationKind;
use crate::timeline::{self, OperationTimes, TimeLine, covered};
use crate::transport::{OnFabric, Transport};
use crate::workload::Pass;
use antiphon_base::error::Result;
use antiphon_base::units::{Bytes, Picos};
use antiphon_proof::Proven;
use antiphon_sim::Progress;

/// The time of one iteration, and where it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// All of it.
    pub time_ps: Picos,
    /// Time in which a forward pass was computed, in whatever stream.
    pub forward_ps: Picos,
    /// Time in which only gradients were computed.
    pub backward_ps: Picos,
    /// Local aggregation.
    pub aggregation_ps: Picos,
    /// Sum of the times of all exchanges, from their start to their end.
    pub communication_ps: Picos,
    /// Time the computation waited for exchanges between layers.
    pub exposed_model_ps: Picos,
    /// Time the first layer that has gradients waited for them (C-Cube's gradient turnaround).
    pub turnaround_ps: Picos,
    /// Time later layers of the forward pass waited for theirs (C-Cube's bubbles).
    pub bubbles_ps: Picos,
    /// When each operation was done.
    pub operations: Vec<OperationTimes>,
    /// The most bytes of exchanges at a time that waited at any rank to be added; `None` where there are no messages.
    pub buffer_bytes: Option<Bytes>,
}

impl Iteration {
    /// Time in which something was computed.
    pub fn compute_ps(&self) -> Picos {
        self.forward_ps + self.backward_ps + self.aggregation_ps
    }

    /// Time in which nothing was computed.
    pub fn exposed_ps(&self) -> Picos {
        self.time_ps - self.compute_ps()
    }

    /// Time that was waited for exchanges of gradients, by the end of the iteration or by the forward pass.
    pub fn exposed_data_ps(&self) -> Picos {
        self.exposed_ps() - self.exposed_model_ps
    }
}

/// Runs an iteration on a transport, whose exchanges have the graph's numbers. Where no stream computes, the wait counts for the
/// computation that ends it.
///
/// # Errors
/// As [`timeline::run`].
pub fn run(graph: &IterationGraph, transport: &mut dyn Transport) -> Result<Iteration> {
    timeline::run(&graph.jobs, transport).map(|line| Iteration::of(graph, line))
}

/// Runs an iteration whose exchange `i` is done by `schedules[i]`, each in its own group of ranks, in flight with all others
/// that are ready.
///
/// # Errors
/// As [`OnFabric::run`].
///
/// # Panics
/// If there are not as many exchanges.
pub fn run_shared(
    graph: &IterationGraph,
    schedules: &[Vec<&Proven>],
    on: &OnFabric,
    progress: &mut Progress,
) -> Result<Iteration> {
    let schedules: Vec<&[&Proven]> = schedules.iter().map(Vec::as_slice).collect();
    let computing = graph.jobs.longest_ps() + graph.aggregation;
    on.run(&graph.jobs, &schedules, computing, progress).map(|line| Iteration::of(graph, line))
}

impl Iteration {
    /// Accounts for the time of an iteration's operations.
    fn of(graph: &IterationGraph, line: TimeLine) -> Iteration {
        let times = || graph.operations().zip(line.ranks[0].iter());
        let computed = |of: fn(Pass) -> bool| {
            let is_one = |(kind, pass)| matches!(kind, OperationKind::Compute { .. }) && of(pass);
            let runs = times().filter(|((kind, label), _)| is_one((*kind, label.pass)));
            covered(&mut runs.map(|(_, times)| (times.start_ps, times.finish_ps)).collect::<Vec<_>>())
        };
        let exchanges = times().filter(|((kind, _), _)| matches!(kind, OperationKind::Exchange(_)));
        let forward_ps = computed(|pass| pass == Pass::Forward);
        let [exposed_model_ps, turnaround_ps, bubbles_ps] = waits(graph, &line);
        Iteration {
            time_ps: line.time_ps() + graph.aggregation,
            forward_ps,
            backward_ps: computed(|_| true) - forward_ps,
            aggregation_ps: graph.aggregation,
            communication_ps: exchanges.map(|(_, times)| times.finish_ps - times.start_ps).sum(),
            exposed_model_ps,
            turnaround_ps,
            bubbles_ps,
            operations: line.ranks.into_iter().next().unwrap_or_default(),
            buffer_bytes: line.buffer_bytes,
        }
    }
}

/// Time the computation waited for exchanges between layers, for the first gradients of a forward pass, and for later ones.
fn waits(graph: &IterationGraph, line: &TimeLine) -> [Picos; 3] {
    let (operations, times) = (&graph.jobs.ranks[0].operations, &line.ranks[0]);
    let computes = |number: &usize| matches!(operations[*number].kind, OperationKind::Compute { .. });
    let mut computations: Vec<usize> = (0..operations.len()).filter(computes).collect();
    computations.sort_unstable_by_key(|&number| times[number].turn);
    let (mut until, mut model, mut turnaround, mut bubbles) = (0, 0, None, 0);
    for number in computations {
        let waited = times[number].start_ps.saturating_sub(until);
        let last = operations.get(times[number].last as usize).map(|operation| operation.kind);
        match (last, turnaround) {
            (Some(OperationKind::Arrival { .. }), None) => turnaround = Some(waited),
            (Some(OperationKind::Arrival { .. }), Some(_)) => bubbles += waited,
            _ => model += waited,
        }
        until = until.max(times[number].finish_ps);
    }
    // A chained iteration ends with the forward pass: what it exchanges last are no gradients.
    if let Some((_, last)) = line.last
        && matches!(operations[last as usize].kind, OperationKind::Exchange(_))
        && graph.labels[last as usize].pass == Pass::Forward
    {
        model += line.time_ps() - until;
    }
    [model, turnaround.unwrap_or(0), bubbles]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Resource;
    use crate::training::{Bucket, Cost, GradientQueue, IterationPolicy, Overlap};
    use crate::transport::Serial;
    use crate::workload::{Exchange, Passes};
    use antiphon_model::collective::Kind;
    use proptest::prelude::*;

    fn layer(times: [Picos; 3], bytes: u64, bucket: Option<u32>) -> Cost {
        Cost { bucket, ..Cost::of_gradients(times, bytes) }
    }

    /// Every byte takes a picosecond.
    fn iteration(costs: &[Cost], overlap: Overlap, bucket: Bucket, aggregation: Picos) -> (IterationGraph, Iteration) {
        timed(costs, IterationPolicy::new(overlap, bucket), aggregation, 1)
    }

    /// Runs iterations whose exchanges take a picosecond a byte, and are complete at their end only.
    fn timed(costs: &[Cost], policy: IterationPolicy, aggregation: Picos, count: u32) -> (IterationGraph, Iteration) {
        let graph = IterationGraph::new(costs, policy, aggregation, count).unwrap();
        let times = bytes(&graph);
        let queue = |&time: &Picos| Some(GradientQueue::new([(0, 0, time)].into_iter()).unwrap());
        let parts = graph.arrivals(&times.iter().map(queue).collect::<Vec<_>>()).unwrap();
        let iteration = run(&graph, &mut Serial::new(&graph.jobs, &times, &parts)).unwrap();
        (graph, iteration)
    }

    fn bytes(graph: &IterationGraph) -> Vec<u64> {
        graph.jobs.exchanges.iter().map(|exchange| exchange.bytes).collect()
    }

    /// When exchanges were ready, started and finished.
    fn exchanged((graph, iteration): &(IterationGraph, Iteration)) -> Vec<(Picos, Picos, Picos)> {
        let times = graph.operations().zip(&iteration.operations);
        let exchanges = times.filter(|((kind, _), _)| matches!(kind, OperationKind::Exchange(_)));
        exchanges.map(|(_, times)| (times.ready_ps, times.start_ps, times.finish_ps)).collect()
    }

    /// Layers of computations, and when they started and finished.
    fn computed((graph, iteration): &(IterationGraph, Iteration)) -> Vec<(usize, Picos, Picos)> {
        let times = graph.operations().zip(&iteration.operations);
        let computations = times.filter(|((kind, _), _)| matches!(kind, OperationKind::Compute { .. }));
        computations.map(|((_, label), times)| (label.layers.0, times.start_ps, times.finish_ps)).collect()
    }

    #[test]
    fn exact_times_of_three_layers() {
        let costs = [layer([10, 5, 5], 40, None), layer([20, 10, 10], 30, None), layer([30, 15, 15], 20, None)];
        let none = iteration(&costs, Overlap::None, Bucket::Table, 7);
        assert_eq!(exchanged(&none), [(120, 120, 210)]);
        assert_eq!((none.1.time_ps, none.1.compute_ps(), none.1.exposed_ps()), (217, 127, 90));
        // The backward pass leaves layer 2 at 90, layer 1 at 110, layer 0 at 120.
        let layerwise = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 7);
        assert_eq!(exchanged(&layerwise), [(90, 90, 110), (110, 110, 140), (120, 140, 180)]);
        assert_eq!((layerwise.1.time_ps, layerwise.1.exposed_ps(), layerwise.1.communication_ps), (187, 60, 90));
    }

    /// A layer that takes 20 alone takes 40 beside an exchange, and only beside it.
    #[test]
    fn what_exchanges_take_slows_computation_down() {
        let run = |bytes| {
            let mut costs = [layer([10, 20, 0], 10, None), layer([10, 5, 5], bytes, None)];
            costs[0].beside = Passes([20, 40, 0]);
            let run = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
            // Forward, layer 1 backward, layer 0's input gradient.
            let (_, start, finish) = computed(&run)[4];
            (start, finish, run.1.time_ps)
        };
        // Layer 1 is done at 30 and exchanges.
        assert_eq!(run(100), (30, 70, 140));
        assert_eq!(run(40), (30, 70, 80));
        // Half of it is done at 50; what is left takes 10.
        assert_eq!(run(20), (30, 60, 70));
        // 13 / 40 are done at 43, the other 13.5 end in the fourteenth picosecond.
        assert_eq!(run(13), (30, 57, 67));
    }

    /// Two iterations are two, and the second waits for the exchanges of the first, or each layer for its own.
    #[test]
    fn iterations_follow_each_other() {
        let costs = [layer([10, 5, 5], 0, None), layer([20, 10, 10], 30, None)];
        let run = |overlap, count| timed(&costs, IterationPolicy::new(overlap, Bucket::Layer), 7, count).1;
        let one = run(Overlap::Layerwise, 1);
        assert_eq!(run(Overlap::Layerwise, 3).time_ps, 3 * one.time_ps);
        // Layer 1's gradients are there at 80, when layer 0 has computed again; the last at 150.
        assert_eq!((one.time_ps, run(Overlap::Both, 2).time_ps), (80 + 7, 150 + 14));
    }

    /// Four chunks, a byte a picosecond; backward takes 20 + 10 + 10, forward 10, 20 and 30.
    #[test]
    fn chained_layers_start_as_their_gradients_arrive() {
        let costs = [layer([10, 5, 5], 40, None), layer([20, 10, 10], 0, None), layer([30, 15, 15], 120, None)];
        let graph = IterationGraph::new(&costs, IterationPolicy::new(Overlap::Chained, Bucket::Table), 7, 1).unwrap();
        assert_eq!((bytes(&graph), graph.jobs.parts()[&0].clone()), (vec![160], vec![40, 160]));
        // Layer 0 has the first chunk, at 100; it and layer 1 compute until 130, the last chunk comes at 160.
        let queue = GradientQueue::new((0..4).map(|chunk| (0, chunk, 100 + 20 * chunk))).unwrap();
        let parts = graph.arrivals(&[Some(queue)]).unwrap();
        let run = run(&graph, &mut Serial::new(&graph.jobs, &[160], &parts)).unwrap();
        assert_eq!((run.turnaround_ps, run.bubbles_ps, run.exposed_data_ps()), (100, 30, 130));
        assert_eq!((run.time_ps, run.exposed_model_ps, run.communication_ps), (130 + 60 + 60 + 7, 0, 160));
        assert!(graph.arrivals(&[]).unwrap_err().message.contains("each chunk"));
    }

    /// What the last forward pass exchanges is no gradient, though a chained iteration ends with it.
    #[test]
    fn a_chained_iteration_ends_with_an_exchange_between_layers() {
        let mut last = layer([20, 10, 10], 0, None);
        last.exchanges.0[0] = Some(Exchange { kind: Kind::AllGather, bytes: 50 });
        let costs = [layer([10, 5, 5], 40, None), last];
        for overlap in [Overlap::None, Overlap::Layerwise, Overlap::Chained, Overlap::Both] {
            let run = iteration(&costs, overlap, Bucket::Table, 0).1;
            assert_eq!((run.exposed_model_ps, run.exposed_data_ps()), (50, 40), "{overlap:?}");
        }
    }

    /// Buckets of early layers overtake those that wait; layer 0 starts behind those that are left.
    #[test]
    fn both_overlaps_with_priorities() {
        let costs = [layer([10, 5, 5], 40, None), layer([20, 5, 5], 30, None), layer([30, 5, 5], 30, None)];
        let both = iteration(&costs, Overlap::Both, Bucket::Layer, 0);
        // Layer 2's at 10; 1's waits from 20, and 0's from 30.
        assert_eq!(exchanged(&both), [(10, 10, 40), (20, 80, 110), (30, 40, 80)]);
        assert_eq!((both.1.turnaround_ps, both.1.bubbles_ps, both.1.time_ps), (50, 20, 160));
        let layerwise = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
        assert_eq!(layerwise.1.time_ps, 60 + 10 + 100);
    }

    #[test]
    fn buckets_join_layers() {
        let costs = [
            layer([1, 1, 1], 8, Some(4)),
            layer([1, 1, 1], 0, None),
            layer([1, 1, 1], 4, Some(2)),
            layer([1, 1, 1], 2, Some(2)),
            layer([1, 1, 1], 1, None),
        ];
        let bytes = |bucket| bytes(&iteration(&costs, Overlap::Layerwise, bucket, 0).0);
        assert_eq!(bytes(Bucket::Table), [1, 6, 8]);
        assert_eq!(bytes(Bucket::Layer), [1, 2, 4, 8]);
        assert_eq!(bytes(Bucket::Bytes(3)), [3, 4, 8]);
        assert_eq!(bytes(Bucket::Bytes(1000)), [15]);
        let torn = [layer([1; 3], 1, Some(1)), layer([1; 3], 1, None), layer([1; 3], 1, Some(1))];
        let error =
            IterationGraph::new(&torn, IterationPolicy::new(Overlap::Layerwise, Bucket::Table), 0, 1).unwrap_err();
        assert!(error.message.contains("bucket 1 do not adjoin"));
    }

    #[test]
    fn other_exchanges_of_weights_are_no_gradients() {
        let mut costs = [layer([1; 3], 10, None), layer([1; 3], 0, None), layer([1; 3], 10, None)];
        costs[1].exchanges.0[2] = Some(Exchange { kind: Kind::AllToAll, bytes: 1000 });
        assert_eq!(bytes(&iteration(&costs, Overlap::Layerwise, Bucket::Bytes(100), 0).0), [1000, 20]);
        assert_eq!(costs.iter().map(Cost::gradient_bytes).sum::<u64>(), 20);
    }

    #[test]
    fn exchanges_between_layers_are_waited_for() {
        let mut costs = [layer([10, 10, 10], 0, None), layer([10, 10, 10], 0, None)];
        costs[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllToAll, bytes: 5 });
        costs[1].exchanges.0[1] = Some(Exchange { kind: Kind::AllToAll, bytes: 25 });
        // After layer 0's forward pass; after layer 1's input gradient, behind its weight gradient unless that waits too.
        for (blocking, end, exposed) in [(false, 80, 20), (true, 90, 30)] {
            let policy = IterationPolicy { blocking, ..IterationPolicy::new(Overlap::Layerwise, Bucket::Layer) };
            let run = timed(&costs, policy, 0, 1);
            assert_eq!(exchanged(&run), [(10, 10, 15), (35, 35, 60)]);
            assert_eq!((run.1.time_ps, run.1.exposed_ps(), run.1.exposed_model_ps), (end, exposed, exposed));
            let starts: Vec<Picos> = computed(&run).into_iter().map(|(_, start, _)| start).collect();
            // Forward; layer 1 backward; layer 0 backward.
            assert_eq!(starts, [0, 15, 25, if blocking { 60 } else { 35 }, end - 20, end - 10]);
        }
    }

    /// As DLRM's embeddings: needed by the third layer, beside which the second computes.
    #[test]
    fn a_consumer_waits_instead_of_the_next_layer() {
        let mut costs = [layer([10, 10, 10], 7, None), layer([10, 10, 10], 0, None), layer([10, 10, 10], 0, None)];
        for pass in 0..2 {
            costs[0].exchanges.0[pass] = Some(Exchange { kind: Kind::AllToAll, bytes: 15 });
        }
        costs[0].consumer = Some(2);
        let run = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
        // Forward: 10 to 25, layer 2 starts at 25. Backward: after its input gradient at 45, to 60; layers 2 and 1
        // compute until 75. Gradients after the last weight gradient.
        assert_eq!(exchanged(&run), [(10, 10, 25), (45, 45, 60), (95, 95, 102)]);
        assert_eq!((run.1.time_ps, run.1.exposed_model_ps, run.1.exposed_data_ps()), (102, 5, 7));
    }

    /// As DLRM's embeddings: beside the layers below the one that joins both.
    #[test]
    fn streams_compute_at_once() {
        let mut costs = [layer([30, 10, 10], 7, None), layer([10, 10, 10], 9, None), layer([10, 10, 10], 0, None)];
        (costs[0].consumer, costs[0].stream) = (Some(2), 1);
        let run = iteration(&costs, Overlap::Layerwise, Bucket::Layer, 0);
        // Layer 2 joins both at 30; backward, layer 0 needs its input gradient, and layer 1 follows in the same stream.
        let forward = [(0, 0, 30), (1, 0, 10), (2, 30, 40)];
        let backward = [(2, 40, 50), (2, 50, 60), (1, 60, 70), (1, 70, 80), (0, 50, 60), (0, 60, 70)];
        assert_eq!(computed(&run), [forward.as_slice(), &backward].concat());
        assert_eq!(exchanged(&run), [(80, 80, 89), (70, 70, 77)]);
        assert_eq!((run.1.forward_ps, run.1.backward_ps, run.1.exposed_data_ps()), (40, 40, 9));
        // One bucket waits for the gradients of both streams.
        let run = iteration(&costs, Overlap::None, Bucket::Table, 0);
        assert_eq!((exchanged(&run), run.1.time_ps), (vec![(80, 80, 96)], 96));
        // The exchange of what layer 0 put out is waited for while nothing computes: from 30 to 45.
        costs[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllToAll, bytes: 15 });
        let run = iteration(&costs, Overlap::None, Bucket::Table, 0);
        assert_eq!((run.1.exposed_model_ps, run.1.time_ps), (15, 111));
    }

    #[test]
    fn recomputation_repeats_the_forward_pass_and_its_exchanges() {
        let mut costs = [layer([10, 1, 1], 0, None), layer([20, 1, 1], 0, None)];
        costs[0].exchanges.0[0] = Some(Exchange { kind: Kind::AllReduce, bytes: 3 });
        let policy = IterationPolicy { recompute: true, ..IterationPolicy::new(Overlap::None, Bucket::Table) };
        let (_, run) = timed(&costs, policy, 0, 1);
        assert_eq!((run.forward_ps, run.backward_ps, run.exposed_model_ps, run.time_ps), (60, 4, 6, 70));
    }

    proptest! {
        /// No policy computes or exchanges more or less than another, and overlapping only helps where the
        /// parts of an exchange take no longer than the whole.
        #[test]
        fn policies_do_the_same_work(
            layers in prop::collection::vec(([0u64..1000, 0u64..1000, 0u64..1000], 0u64..5000), 1..40),
            size in 1u64..20_000,
            aggregation in 0u64..100,
        ) {
            let costs: Vec<Cost> = layers.iter().map(|&(times, bytes)| layer(times, bytes, None)).collect();
            let (_, none) = iteration(&costs, Overlap::None, Bucket::Table, aggregation);
            let overlaps = [Overlap::Layerwise, Overlap::Chained, Overlap::Both];
            let buckets = [Bucket::Layer, Bucket::Bytes(size)];
            for (overlap, bucket) in overlaps.into_iter().flat_map(|overlap| buckets.map(|bucket| (overlap, bucket))) {
                let (_, run) = iteration(&costs, overlap, bucket, aggregation);
                prop_assert_eq!(run.compute_ps(), none.compute_ps());
                prop_assert_eq!(run.communication_ps, none.communication_ps);
                prop_assert!(run.time_ps <= none.time_ps);
                prop_assert!(run.exposed_ps() <= run.communication_ps);
                let longest = run.compute_ps().max(run.communication_ps);
                prop_assert!(run.time_ps >= longest);
            }
            prop_assert_eq!(none.exposed_ps(), none.communication_ps);
        }

        /// Streams only say what may be computed at once: every stream computes one layer at a time, nothing starts before
        /// what it needs, and whatever is not exposed is computed.
        #[test]
        fn streams_keep_dependencies(
            layers in prop::collection::vec(([0u64..100, 0u64..100, 0u64..100], 0u64..500, 0u8..3, 1usize..5), 1..20),
            between in prop::collection::vec((0u64..300, any::<bool>()), 20),
            policy in (0usize..4, any::<bool>(), any::<bool>()),
        ) {
            let mut costs: Vec<Cost> = layers.iter().map(|&(times, bytes, ..)| layer(times, bytes, None)).collect();
            let count = costs.len();
            for (index, (cost, &(.., stream, ahead))) in costs.iter_mut().zip(&layers).enumerate() {
                cost.stream = stream;
                cost.consumer = (ahead > 1 && index + ahead < count).then_some((index + ahead) as u32);
                let (bytes, exchanged) = between[index];
                let exchange = exchanged.then_some(Exchange { kind: Kind::AllToAll, bytes });
                (cost.exchanges.0[0], cost.exchanges.0[1]) = (exchange, exchange);
            }
            let overlap = [Overlap::None, Overlap::Layerwise, Overlap::Chained, Overlap::Both][policy.0];
            let policy = IterationPolicy { overlap, bucket: Bucket::Layer, recompute: policy.1, blocking: policy.2 };
            let (graph, run) = timed(&costs, policy, 0, 1);
            let mut free = [0; 3];
            for (number, ((kind, _), times)) in (0..).zip(graph.operations().zip(&run.operations)) {
                let after = graph.jobs.ranks[0].after(number);
                prop_assert!(after.iter().all(|&other| run.operations[other as usize].finish_ps <= times.start_ps));
                let OperationKind::Compute { time_ps, resource: Resource::Stream(stream), .. } = kind else { continue };
                prop_assert!(free[stream as usize] <= times.start_ps);
                prop_assert_eq!(times.finish_ps, times.start_ps + time_ps);
                free[stream as usize] = times.finish_ps;
            }
            // Computations of a layer in a pass; a forward pass may be repeated.
            let of = |layer: usize, pass: Pass| {
                graph.operations().zip(&run.operations).filter(move |((kind, label), _)| {
                    matches!(kind, OperationKind::Compute { .. }) && (label.layers.0, label.pass) == (layer, pass)
                }).map(|(_, times)| *times)
            };
            for (index, cost) in costs.iter().enumerate() {
                let consumer = cost.consumer.map_or(index + 1, |consumer| consumer as usize);
                if consumer == count {
                    continue;
                }
                if !policy.recompute {
                    let (own, needs) = (of(index, Pass::Forward).next().unwrap(), of(consumer, Pass::Forward).next().unwrap());
                    let exchanged = cost.exchanges.0[0].map_or(0, |exchange| exchange.bytes);
                    prop_assert!(own.finish_ps + exchanged <= needs.start_ps);
                }
                let gradient = of(consumer, Pass::InputGradient).next().unwrap();
                prop_assert!(gradient.finish_ps <= of(index, Pass::InputGradient).next().unwrap().start_ps);
            }
            let longest = free.into_iter().max().unwrap();
            prop_assert!(run.compute_ps() <= longest && longest <= run.time_ps);
            prop_assert!(run.exposed_model_ps + run.turnaround_ps + run.bubbles_ps <= run.exposed_ps());
        }

        /// A layer starts when its last chunk is there and the layer before is done (C-Cube, HPCA 2023, section III-D).
        /// Chaining never loses, and with one chunk it gains nothing.
        #[test]
        fn chaining_is_the_recurrence(
            layers in prop::collection::vec(([0u64..1000, 0u64..1000, 0u64..1000], 0u64..5000), 1..40),
            times in prop::collection::vec(1u64..2000, 1..20),
        ) {
            let costs: Vec<Cost> = layers.iter().map(|&(times, bytes)| layer(times, bytes, None)).collect();
            let complete: Vec<Picos> = times.iter().scan(0, |sum, time| { *sum += time; Some(*sum) }).collect();
            let (count, last) = (complete.len() as u64, complete[complete.len() - 1]);
            let chained = |queue: GradientQueue| {
                let graph = IterationGraph::new(&costs, IterationPolicy::new(Overlap::Chained, Bucket::Table), 0, 1).unwrap();
                let parts = graph.arrivals(&[Some(queue)]).unwrap();
                run(&graph, &mut Serial::new(&graph.jobs, &[last], &parts)).unwrap()
            };
            let whole: u64 = costs.iter().map(Cost::gradient_bytes).sum();
            let (mut done, mut part) = (0, 0);
            for cost in &costs {
                part += cost.gradient_bytes();
                let chunk = (part * count).div_ceil(whole.max(1));
                let ready = if cost.gradient_bytes() > 0 { complete[chunk as usize - 1] } else { 0 };
                done = done.max(ready) + cost.times[Pass::Forward];
            }
            let in_chunks = chained(GradientQueue::new((0..).zip(&complete).map(|(chunk, &at)| (0, chunk, at))).unwrap());
            let backward = in_chunks.backward_ps;
            prop_assert_eq!(in_chunks.time_ps, done + backward);
            prop_assert_eq!(in_chunks.exposed_ps(), in_chunks.turnaround_ps + in_chunks.bubbles_ps);
            let at_once = chained(GradientQueue::new([(0, 0, last)].into_iter()).unwrap());
            prop_assert!(in_chunks.time_ps <= at_once.time_ps);
            let first = costs.iter().position(|cost| cost.gradient_bytes() > 0);
            let before: Picos = costs[..first.unwrap_or(0)].iter().map(|cost| cost.times[Pass::Forward]).sum();
            let none = at_once.compute_ps() + if first.is_some() { last } else { 0 };
            prop_assert_eq!(at_once.time_ps, none - before.min(none - at_once.compute_ps()));
        }
    }
}
