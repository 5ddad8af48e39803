//! Times that a step cannot beat, without its job graph: each exchange takes at least what it takes by itself, a stage
//! does one unit after another, and what is true of durations of operations is true of longer ones: no operation ends
//! earlier.

use super::CollectiveTimes;
use super::blocks::end_blocks;
use super::exchanges::group_flow;
use super::pieces::{Calls, LayerCosts, LayerPiece};
use crate::constants::Constants;
use crate::memory::RankParameters;
use crate::network::{FlowForm, GroupFlow, Wiring};
use crate::parallel::{GroupKind, Parallelism};
use crate::pipeline::{PipelineKind, PipelineOrder, PipelineTask};
use crate::shape::ModelShape;
use antiphon_base::error::Result;
use antiphon_jobs::workload::Pass;
use antiphon_model::collective::Kind;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Less than this a simulated exchange is never shorter than its time, in picoseconds: rounding.
const ROUNDED_PS: f64 = 4.0;

/// Kind of group, collective (or for messages whether backward), and sizes of the grid that they depend on.
type FlowKey = (GroupKind, u8, [u32; 6]);

/// Times of exchanges by themselves, which many plans share: for every stage one.
#[derive(Default)]
pub(crate) struct FlowTimes(BTreeMap<FlowKey, Rc<Vec<GroupFlow>>>);

/// What a plan is timed with.
#[derive(Clone, Copy)]
pub(crate) struct StepParts<'a> {
    pub model: &'a ModelShape,
    pub plan: &'a Parallelism,
    pub constants: &'a Constants,
    pub wiring: &'a dyn Wiring,
    pub tables: &'a [CollectiveTimes],
}

impl FlowTimes {
    /// Those of a collective, by stage.
    fn collective(&mut self, of: StepParts, kind: GroupKind, collective: Kind) -> Result<Rc<Vec<GroupFlow>>> {
        let plan = of.plan;
        let is_of_experts = matches!(kind, GroupKind::Expert | GroupKind::ExpertTensor | GroupKind::ExpertData);
        let sizes = if is_of_experts {
            [0, 0, plan.expert_tensor, plan.expert, plan.pipeline, plan.expert_data_ranks()]
        } else {
            [plan.tensor, plan.context, 0, 0, plan.pipeline, plan.data]
        };
        let key = (kind, collective as u8, sizes);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let stage = |stage| Ok(group_flow(of, (kind, stage), collective)?.without_loads());
        let flows = Rc::new((0..plan.pipeline).map(stage).collect::<Result<Vec<_>>>()?);
        self.0.insert(key, flows.clone());
        Ok(flows)
    }

    /// Those of messages from each stage to the next, or to the one before; the last is followed by the first.
    fn messages(&mut self, of: StepParts, back: bool) -> Rc<Vec<GroupFlow>> {
        let plan = of.plan;
        let sizes = [plan.tensor, plan.context, 0, 0, plan.pipeline, plan.data];
        let known = self.0.entry((GroupKind::Pipeline, u8::from(back), sizes));
        let stages = plan.pipeline;
        let flow = |stage: u32| {
            let to = if back { (stage + stages - 1) % stages } else { (stage + 1) % stages };
            let pairs: Vec<Vec<u32>> = plan.neighbours(stage, to).into_iter().map(Vec::from).collect();
            GroupFlow::new(of.wiring, FlowForm::Message, &pairs).without_loads()
        };
        known.or_insert_with(|| Rc::new((0..stages).map(flow).collect())).clone()
    }
}

/// The least time of a pass through a part, in picoseconds.
#[derive(Clone, Copy, Default)]
struct PassTime {
    /// All of it.
    all: f64,
    /// What it computes.
    compute: f64,
}

impl PassTime {
    fn add(&mut self, more: PassTime, times: f64) {
        self.all += times * more.all;
        self.compute += times * more.compute;
    }
}

/// The least times of a part on a stage.
#[derive(Clone, Copy, Default)]
struct PartTimes {
    forward: PassTime,
    backward: PassTime,
    input_gradients: PassTime,
    weights: PassTime,
    /// Seconds in picoseconds until its parameters are gathered.
    gathered: f64,
    /// Until the last of its gradients are reduced, after they are known; and what all of them keep links busy.
    reduced_last: f64,
    reduced: [f64; 2],
}

/// Times that a step cannot beat.
pub(crate) struct StepBound {
    plan: Parallelism,
    order: PipelineOrder,
    /// By stage and chunk.
    parts: Vec<Vec<PartTimes>>,
    /// From each stage to the next, and to the one before.
    messages: [Vec<f64>; 2],
    /// By stage: what comes after gradients are reduced, and if they are not reduced before, that too.
    update: Vec<f64>,
    late: Vec<f64>,
    /// How long parameters (ZeRO-3) and gradients (ZeRO-2 and 3) of every micro batch keep links busy at least.
    carried: f64,
    /// First and last stage reduce the gradients of a shared embedding.
    embedding: Option<f64>,
}

/// Picoseconds that a computation or exchange of so many seconds takes at least, with rounding.
fn least(seconds: f64) -> f64 {
    (seconds * 1e12 - ROUNDED_PS).max(0.0)
}

impl StepBound {
    /// The bound of a plan whose exchanges take the times of rings: given times may be less than links need.
    ///
    /// # Errors
    /// Those of the plan's order, and of measured exchanges.
    pub fn new(of: StepParts, known: &mut FlowTimes) -> Result<StepBound> {
        debug_assert!(of.tables.is_empty(), "no times are given");
        let StepParts { model, plan, constants, .. } = of;
        let order = plan.pipeline_order()?;
        let stages = plan.pipeline as usize;
        let layers = plan.part_layers(model);
        let first_expert = model.experts.map_or(model.layers, |of| of.dense_layers);
        // A layer of each kind: by stage its passes.
        let mut kinds = Vec::new();
        for layer in [0, model.layers - 1] {
            let costs = LayerCosts::new(constants, model, layer, plan);
            let passes = [costs.forward(), costs.backward(true), costs.backward(false), costs.weights()];
            let mut times = vec![[PassTime::default(); 4]; stages];
            for (pass, pieces) in passes.iter().enumerate() {
                for piece in pieces {
                    add_piece(of, known, piece, pass, &mut times)?;
                }
            }
            kinds.push((times, RankParameters::of_layer(model, plan, layer).both()));
            if first_expert == 0 || first_expert == model.layers {
                kinds.push(kinds[0].clone());
                break;
            }
        }
        let logits = least(constants.logits_s(model, plan));
        let data = [(GroupKind::Data, plan.data_ranks()), (GroupKind::ExpertData, plan.expert_data_ranks())];
        let scattered = plan.zero >= 1;
        let collective = if scattered { Kind::ReduceScatter } else { Kind::AllReduce };
        let mut reduce = [None, None];
        let mut gather = [None, None];
        for (at, &(kind, ranks)) in data.iter().enumerate() {
            let has_some = at == 0 || model.experts.is_some();
            if ranks > 1 && has_some {
                reduce[at] = Some(known.collective(of, kind, collective)?);
                gather[at] = Some(known.collective(of, kind, Kind::AllGather)?);
            }
        }
        let alone = |flows: &Option<Rc<Vec<GroupFlow>>>, stage: usize, bytes: f64| {
            flows.as_ref().filter(|_| bytes > 0.0).map_or(0.0, |flows| least(flows[stage].time_alone_s(bytes)))
        };
        let size = f64::from(plan.gradient_bytes);
        // How long a pass that gathers parameters (ZeRO-3), and one that reduces gradients (ZeRO-2 and 3), keeps links busy, in
        // picoseconds: of what all data ranks hold, and of experts.
        let every_micro_batch = |stage: usize, parameters: [f64; 2]| {
            [0, 1].map(|at| {
                let time = |flows: &[Option<Rc<Vec<GroupFlow>>>; 2], size: f64| {
                    let flow = flows[at].as_ref().map_or(0.0, |flows| flows[stage].seconds_per_byte());
                    (1e12 - 1.0) * flow * size * parameters[at]
                };
                let gathered = if plan.zero == 3 { time(&gather, 2.0) } else { 0.0 };
                [gathered, if plan.zero >= 2 { time(&reduce, size) } else { 0.0 }]
            })
        };
        let gathers_first = (1..=2).contains(&plan.zero) && plan.data_overlap;
        let gathers_last = (1..=2).contains(&plan.zero) && !plan.data_overlap;
        let (mut parts, mut update, mut late, mut carried) = (Vec::new(), Vec::new(), Vec::new(), 0f64);
        for stage in 0..stages {
            let mut of_stage = Vec::new();
            let mut held = [0.0; 2];
            for part in plan.stage_parts(stage as u32) {
                let range = layers[part as usize].clone();
                let dense = range.end.min(first_expert).saturating_sub(range.start);
                let counts = [dense, range.len() as u32 - dense];
                let [is_first, is_last] = [part == 0, part + 1 == plan.parts()];
                let mut times = PartTimes::default();
                let mut parameters = [0.0; 2];
                for ((kind, of_layer), count) in kinds.iter().zip(counts.map(f64::from)) {
                    let [forward, backward, input_gradients, weights] = kind[stage];
                    times.forward.add(forward, count);
                    times.backward.add(backward, count);
                    times.input_gradients.add(input_gradients, count);
                    times.weights.add(weights, count);
                    (0..2).for_each(|at| parameters[at] += count * of_layer[at]);
                }
                // The last gradients are those of the first layer.
                let mut last = match counts {
                    [0, 0] => [0.0; 2],
                    [0, _] => kinds[1].1,
                    _ => kinds[0].1,
                };
                let [in_first, in_last] = end_blocks(model, plan, [is_first, is_last]);
                parameters[0] += in_first + in_last;
                last[0] += in_first;
                if is_last {
                    let one = PassTime { all: logits, compute: logits };
                    times.forward.add(one, 1.0);
                    times.backward.add(one, 2.0);
                    times.input_gradients.add(one, 1.0);
                    times.weights.add(one, 1.0);
                }
                if gathers_first {
                    let each = [0, 1].map(|at| alone(&gather[at], stage, 2.0 * parameters[at]));
                    times.gathered = each[0].max(each[1]);
                }
                if plan.data_overlap && plan.zero < 3 {
                    let each = [0, 1].map(|at| alone(&reduce[at], stage, size * last[at]));
                    times.reduced_last = each[0].max(each[1]);
                    times.reduced = [0, 1].map(|at| {
                        let flow = reduce[at].as_ref().map_or(0.0, |flows| flows[stage].seconds_per_byte());
                        (1e12 - 1.0) * size * parameters[at] * flow
                    });
                }
                if !plan.data_overlap {
                    // Those of experts and of the others may use other links, so the longer counts.
                    let [shared, experts] = every_micro_batch(stage, parameters);
                    let [gathered, reduced] = [0, 1].map(|at| shared[at].max(experts[at]));
                    times.forward.all += gathered;
                    times.backward.all += gathered + reduced;
                    times.input_gradients.all += gathered;
                    times.weights.all += reduced;
                }
                (0..2).for_each(|at| held[at] += parameters[at]);
                of_stage.push(times);
            }
            let shares = if scattered { data.map(|(_, ranks)| f64::from(ranks)) } else { [1.0; 2] };
            let updated = held[0] / shares[0] + held[1] / shares[1];
            let optimizer = least(constants.traffic_s(constants.optimizer_bytes * updated));
            let each = [0, 1].map(|at| alone(&gather[at], stage, 2.0 * held[at]));
            update.push(optimizer + if gathers_last { each[0].max(each[1]) } else { 0.0 });
            let is_late = !plan.data_overlap && plan.zero < 2;
            late.push(if is_late { (0..2).map(|at| alone(&reduce[at], stage, size * held[at])).sum() } else { 0.0 });
            if plan.zero >= 2 && plan.data_overlap {
                // Of DualPipe's parts each has half of the micro batches.
                let parts = if plan.schedule == PipelineKind::DualPipe { 0.5 } else { 1.0 };
                let times = f64::from(plan.micro_batches) * parts;
                // Rings of a group are on the same links, whether they gather, forward and backward, or reduce.
                for [gathered, reduced] in every_micro_batch(stage, held) {
                    carried = carried.max(times * (2.0 * gathered + reduced));
                }
            }
            parts.push(of_stage);
        }
        let mut embedding = None;
        if model.tied_embeddings && plan.pipeline > 1 {
            let flow = group_flow(of, (GroupKind::Embedding, 0), Kind::AllReduce)?;
            let words = (model.vocab * model.hidden) as f64 / f64::from(plan.tensor);
            embedding = Some(least(flow.time_alone_s(size * words)));
        }
        let sent = f64::from(plan.micro_batch) * model.sequence as f64 / f64::from(plan.context);
        let divided = if plan.sequence_parallel { f64::from(plan.tensor) } else { 1.0 };
        let bytes = 2.0 * sent * model.hidden as f64 / divided;
        let messages = [false, true].map(|back| match plan.pipeline {
            1 => vec![0.0],
            _ => known.messages(of, back).iter().map(|flow| least(flow.time_alone_s(bytes))).collect(),
        });
        Ok(StepBound { plan: plan.clone(), order, parts, messages, update, late, carried, embedding })
    }

    /// Seconds, quickly: some stage waits for its first input, does all it has to do, and others end after it.
    /// O(parts).
    pub fn quick_s(&self) -> f64 {
        let stages = self.parts.len();
        let micro_batches = f64::from(self.plan.micro_batches);
        let is_dual = self.plan.schedule == PipelineKind::DualPipe;
        let divided = matches!(self.plan.schedule, PipelineKind::ZeroBubbleH1 | PipelineKind::ZeroBubbleH2);
        let mut most = self.carried;
        let (mut before, mut behind) = (self.parts[0][0].gathered, 0.0);
        for stage in 0..stages {
            let of = &self.parts[stage];
            let after = self.late[stage] + self.update[stage];
            if is_dual {
                let busy: f64 = of.iter().map(|one| one.forward.compute + one.input_gradients.compute).sum();
                let weights: f64 = of.iter().map(|one| one.weights.compute).sum();
                most = most.max(micro_batches / 2.0 * (busy + weights) + after);
                continue;
            }
            let starts = f64::max(before, of[0].gathered);
            let time =
                |one: &PartTimes| one.forward.all + if divided { one.input_gradients.all } else { one.backward.all };
            let busy: f64 = micro_batches * of.iter().map(time).sum::<f64>();
            let weights = if divided { micro_batches * of.iter().map(|one| one.weights.all).sum::<f64>() } else { 0.0 };
            let first = self.parts[0][0].reduced_last + self.late[0] + self.update[0];
            most = most.max(starts + busy + behind + first).max(starts + busy + weights + of[0].reduced_last + after);
            before += of[0].forward.all + self.messages[0][stage];
            let back = if divided { of[0].input_gradients.all } else { of[0].backward.all };
            behind += back + self.messages[1][(stage + 1) % stages];
        }
        most / 1e12
    }

    /// Seconds: when all is over if every exchange were by itself. O(tasks of all stages).
    pub fn alone_s(&self) -> f64 {
        let (stages, parts, micro_batches) = (self.parts.len(), self.order.parts() as usize, self.plan.micro_batches);
        let place = |part: u32, micro_batch: u32| (part * micro_batches + micro_batch) as usize;
        let mut arrived = [false, true].map(|_| vec![f64::NAN; parts * micro_batches as usize]);
        let tasks: Vec<Vec<PipelineTask>> = (0..stages as u32).map(|stage| self.order.tasks(stage)).collect();
        let mut line: Vec<StageLine> = tasks.iter().map(|tasks| StageLine::new(tasks)).collect();
        loop {
            let mut has_moved = false;
            for stage in 0..stages {
                let tasks = &tasks[stage];
                while line[stage].next < tasks.len() {
                    let first = self.unit(stage, tasks, line[stage].next);
                    let second = (tasks[line[stage].next].paired && first.end < tasks.len())
                        .then(|| self.unit(stage, tasks, first.end));
                    let units = [Some(&first), second.as_ref()];
                    let mut start = line[stage].end;
                    for unit in units.iter().flatten() {
                        let PipelineTask { pass, chunk, micro_batch, .. } = unit.task;
                        let input = match self.order.source(pass, unit.part) {
                            Some(part) => arrived[usize::from(pass != Pass::Forward)][place(part, micro_batch)],
                            None => 0.0,
                        };
                        // Not a number until it has arrived, and so is what comes of it.
                        start = if input.is_nan() { input } else { start.max(input) };
                        start = if start.is_nan() { start } else { start.max(self.gathered(stage, chunk, pass)) };
                    }
                    if start.is_nan() {
                        break;
                    }
                    has_moved = true;
                    let compute: f64 = units.iter().flatten().map(|unit| unit.time.compute).sum();
                    let length = units.iter().flatten().map(|unit| unit.time.all).fold(compute, f64::max);
                    let end = start + length;
                    line[stage].is_paired = second.is_some();
                    for unit in units.iter().flatten() {
                        self.unit_ends(stage, unit, [start, end], &mut line[stage], &mut arrived);
                    }
                    line[stage].end = end;
                }
            }
            if !has_moved {
                break;
            }
        }
        self.all_ends(&line).max(self.carried) / 1e12
    }

    fn gathered(&self, stage: usize, chunk: u32, pass: Pass) -> f64 {
        if pass == Pass::Forward { self.parts[stage][chunk as usize].gathered } else { 0.0 }
    }

    /// The unit that starts at a task, as in the job graph.
    fn unit(&self, stage: usize, tasks: &[PipelineTask], number: usize) -> BoundUnit {
        let task = tasks[number];
        let of = &self.parts[stage][task.chunk as usize];
        let (time, count) = match task.pass {
            Pass::Forward => (of.forward, 1),
            Pass::InputGradient if !task.divided => (of.backward, 2),
            Pass::InputGradient => (of.input_gradients, 1),
            Pass::WeightGradient => (of.weights, 1),
        };
        BoundUnit { task, part: self.order.part(stage as u32, task.chunk), time, end: number + count }
    }

    /// A unit passes on what it computed, and its gradients are reduced if they are the last of the chunk.
    fn unit_ends(
        &self,
        stage: usize,
        unit: &BoundUnit,
        [start, end]: [f64; 2],
        line: &mut StageLine,
        arrived: &mut [Vec<f64>; 2],
    ) {
        let PipelineTask { pass, chunk, micro_batch, .. } = unit.task;
        line.next = line.next.max(unit.end);
        if line.last_weights.get(&chunk).is_some_and(|&last| unit.end == last + 1) {
            let of = &self.parts[stage][chunk as usize];
            (0..2).for_each(|at| line.reduced[at] = line.reduced[at].max(start) + of.reduced[at]);
            // Passes in pairs end one by one.
            let known = if line.is_paired { start } else { end };
            line.last_reduced = line.last_reduced.max(known + of.reduced_last);
        }
        if pass == Pass::WeightGradient {
            return;
        }
        let back = pass != Pass::Forward;
        let next =
            if back { unit.part.checked_sub(1) } else { Some(unit.part + 1).filter(|&next| next < self.order.parts()) };
        let to = next.map_or(stage as u32, |next| self.order.home(next, micro_batch).0);
        let stages = self.parts.len();
        let message = match to as usize {
            to if to == stage => 0.0,
            to if to == (stage + 1) % stages => self.messages[0][stage],
            _ => self.messages[1][stage],
        };
        arrived[usize::from(back)][(unit.part * self.plan.micro_batches + micro_batch) as usize] = end + message;
    }

    /// When the last stage has updated its parameters, in picoseconds.
    fn all_ends(&self, line: &[StageLine]) -> f64 {
        let ends = line
            .iter()
            .enumerate()
            .map(|(stage, of)| of.end.max(of.last_reduced).max(of.reduced[0]).max(of.reduced[1]) + self.late[stage]);
        let mut ends: Vec<f64> = ends.collect();
        if let Some(embedding) = self.embedding {
            let both = ends[0].max(ends[ends.len() - 1]) + embedding;
            let last = ends.len() - 1;
            (ends[0], ends[last]) = (both, both);
        }
        ends.iter().zip(&self.update).map(|(end, update)| end + update).fold(0.0, f64::max)
    }
}

/// One pass of a micro batch through a part.
struct BoundUnit {
    task: PipelineTask,
    part: u32,
    time: PassTime,
    /// The task after it.
    end: usize,
}

/// How far a stage is.
struct StageLine {
    next: usize,
    end: f64,
    /// The last task with gradients of weights of each chunk.
    last_weights: BTreeMap<u32, usize>,
    /// When links have carried the gradients of parameters that all data ranks hold, and those of experts.
    reduced: [f64; 2],
    last_reduced: f64,
    is_paired: bool,
}

impl StageLine {
    fn new(tasks: &[PipelineTask]) -> Self {
        let weights = tasks.iter().enumerate().filter(|(_, task)| task.pass == Pass::WeightGradient);
        let last_weights = weights.map(|(number, task)| (task.chunk, number)).collect();
        StageLine { next: 0, end: 0.0, last_weights, reduced: [0.0; 2], last_reduced: 0.0, is_paired: false }
    }
}

/// Adds the least time of a piece of a pass to every stage.
fn add_piece(
    of: StepParts,
    known: &mut FlowTimes,
    piece: &LayerPiece,
    pass: usize,
    times: &mut [[PassTime; 4]],
) -> Result<()> {
    let (calls, seconds) = match *piece {
        LayerPiece::Compute(seconds) => (None, seconds),
        LayerPiece::Exchange(calls) => (Some(calls), 0.0),
        LayerPiece::Both(calls, seconds) => (Some(calls), seconds),
    };
    let compute = least(seconds);
    let flows = match calls {
        Some(calls) => Some(known.collective(of, calls.kind, calls.collective)?),
        None => None,
    };
    for (stage, of_stage) in times.iter_mut().enumerate() {
        let exchange = match (&calls, &flows) {
            (Some(Calls { bytes, count, .. }), Some(flows)) if *bytes > 0.0 => {
                least(count * flows[stage].time_alone_s(*bytes))
            }
            _ => 0.0,
        };
        of_stage[pass].add(PassTime { all: compute.max(exchange), compute }, 1.0);
    }
    Ok(())
}
