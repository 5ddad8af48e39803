//! Where the time of a step went.

use super::exchanges::StepExchange;
use super::graph::{StepJob, StepWork};
use crate::network::ClassUse;
use crate::parallel::GroupKind;
use antiphon_base::units::Picos;
use antiphon_jobs::graph::OperationKind;
use antiphon_jobs::timeline::TimeLine;

/// Where the time of one stage went, in seconds; together they are the time of the step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StageTimes {
    /// It computed.
    pub compute_s: f64,
    /// It waited for other stages.
    pub bubble_s: f64,
    /// It waited for exchanges under way, by kind of group.
    pub exposed_s: [f64; StepWork::KINDS],
}

/// What a stage did for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelineSpan {
    /// Which stage.
    pub stage: u32,
    /// A place in [`StepWork::NAMES`].
    pub work: u32,
    /// Micro batch; `u32::MAX` for none.
    pub micro_batch: u32,
    /// Part of the model; `u32::MAX` for none.
    pub part: u32,
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
}

/// How long a step takes.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTimes {
    /// All of it.
    pub iteration_s: f64,
    /// By stage.
    pub stages: Vec<StageTimes>,
    /// Equal layers that were simulated at once.
    pub layers_at_once: u32,
    /// Operations of the job graph.
    pub operations: usize,
    /// What stages did, those that follow each other with the same micro batch and part as one.
    pub spans: Vec<TimelineSpan>,
    /// Kind of group and stage of every flow.
    pub flows: Vec<(GroupKind, u32)>,
    /// Seconds in which stages waited for exchanges of each flow, as a mean of all stages.
    pub exposed_flows_s: Vec<f64>,
    /// What links have carried, those that are alike as one.
    pub links: Vec<ClassUse>,
    /// What it exchanged.
    pub exchanges: Vec<StepExchange>,
}

impl StepTimes {
    /// The mean of stages, which adds up to the time of the step.
    pub fn mean(&self) -> StageTimes {
        let mut mean = StageTimes::default();
        let share = 1.0 / self.stages.len() as f64;
        for stage in &self.stages {
            mean.compute_s += share * stage.compute_s;
            mean.bubble_s += share * stage.bubble_s;
            for (sum, each) in mean.exposed_s.iter_mut().zip(stage.exposed_s) {
                *sum += share * each;
            }
        }
        mean
    }
}

fn seconds(picos: Picos) -> f64 {
    picos as f64 / 1e12
}

/// The kind of group of a name's number, if it is an exchange.
pub(crate) fn exchange_kind(name: u32) -> Option<usize> {
    (name as usize).checked_sub(StepWork::NAMES.len() - StepWork::KINDS)
}

impl StepTimes {
    /// For every entry of `links`, the exposed seconds of flows that it limits.
    pub fn exposed_links_s(&self) -> Vec<f64> {
        let mut most = vec![(0.0, 0); self.flows.len()];
        for (place, class) in self.links.iter().enumerate() {
            for &(flow, busy_s) in &class.seconds {
                let of = &mut most[flow as usize];
                if busy_s > of.0 {
                    *of = (busy_s, place);
                }
            }
        }
        let mut exposed = vec![0.0; self.links.len()];
        for (&(busy_s, place), seconds) in most.iter().zip(&self.exposed_flows_s) {
            if busy_s > 0.0 {
                exposed[place] += seconds;
            }
        }
        exposed
    }

    pub(super) fn new(built: &StepJob, line: &TimeLine, links: Vec<ClassUse>, layers_at_once: u32) -> StepTimes {
        let end = line.time_ps();
        let mut exposed_flows = vec![0; built.flows.len()];
        let stages: Vec<_> =
            (0..line.ranks.len()).map(|stage| stage_times(built, line, stage, end, &mut exposed_flows)).collect();
        let share = 1.0 / stages.len() as f64;
        let operations = line.ranks.iter().map(Vec::len).sum();
        StepTimes {
            iteration_s: seconds(end),
            stages,
            layers_at_once,
            operations,
            spans: spans(built, line),
            flows: built.flow_keys.clone(),
            exposed_flows_s: exposed_flows.into_iter().map(|picos| share * seconds(picos)).collect(),
            links,
            exchanges: vec![],
        }
    }
}

/// Where the time of one stage went: each gap before a computation is told by what the computation waited for.
fn stage_times(built: &StepJob, line: &TimeLine, stage: usize, end: Picos, exposed_flows: &mut [Picos]) -> StageTimes {
    let (rank, times) = (&built.graph.ranks[stage], &line.ranks[stage]);
    let mut result = StageTimes::default();
    let mut exposed = [0u64; StepWork::KINDS];
    let (mut computed, mut free) = (0, 0);
    let mut explain = |last: u32, until: Picos, free: Picos| {
        // Backwards from the end of the gap.
        let (mut at, mut last) = (until, last);
        while at > free && last != u32::MAX {
            let (operation, of) = (&rank.operations[last as usize], times[last as usize]);
            // It ended before the gap did: the stage waited for something else in between.
            at = at.min(of.finish_ps.max(free));
            match operation.kind {
                OperationKind::Exchange(exchange) | OperationKind::Receive(exchange) => {
                    let start = of.start_ps.clamp(free, at);
                    if let Some(kind) = exchange_kind(operation.name) {
                        exposed[kind] += at - start;
                        exposed_flows[built.carried[exchange as usize].flow as usize] += at - start;
                    }
                    at = start;
                    if matches!(operation.kind, OperationKind::Receive(_)) {
                        break;
                    }
                }
                OperationKind::Compute { .. } => break,
                _ => {}
            }
            last = of.last;
        }
    };
    let is_compute = |kind| matches!(kind, OperationKind::Compute { .. });
    for (_, of) in rank.operations.iter().zip(times).filter(|(operation, _)| is_compute(operation.kind)) {
        explain(of.last, of.start_ps, free);
        computed += of.finish_ps - of.start_ps;
        free = of.finish_ps;
    }
    if let Some(last) = (0..times.len() as u32).max_by_key(|&one| times[one as usize].finish_ps) {
        explain(last, times[last as usize].finish_ps, free);
    }
    result.compute_s = seconds(computed);
    result.exposed_s = exposed.map(seconds);
    result.bubble_s = seconds(end - computed - exposed.iter().sum::<u64>());
    result
}

/// Computations that follow each other on a stage, with the same micro batch, part and work, as one.
fn spans(built: &StepJob, line: &TimeLine) -> Vec<TimelineSpan> {
    let mut spans: Vec<TimelineSpan> = Vec::new();
    for (stage, (rank, times)) in built.graph.ranks.iter().zip(&line.ranks).enumerate() {
        let first = spans.len();
        for (number, (operation, of)) in rank.operations.iter().zip(times).enumerate() {
            let is_data = exchange_kind(operation.name).is_some_and(|kind| kind >= GroupKind::Data as usize);
            if !matches!(operation.kind, OperationKind::Compute { .. }) && !is_data {
                continue;
            }
            let (micro_batch, part) = built.of[stage][number];
            let [start_s, end_s] = [of.start_ps, of.finish_ps].map(seconds);
            let span = TimelineSpan { stage: stage as u32, work: operation.name, micro_batch, part, start_s, end_s };
            let same = |last: &TimelineSpan| {
                (last.work, last.micro_batch, last.part) == (span.work, micro_batch, part) && !is_data
            };
            match spans[first..].last_mut().filter(|last| same(last)) {
                Some(last) => last.end_s = end_s,
                None => spans.push(span),
            }
        }
    }
    spans
}
