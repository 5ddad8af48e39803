//! The job graph of a step: one rank for each stage, whose exchanges are those of all ranks of the stage.

use super::StepParts;
use super::blocks::{LayerBlock, Paced, blocks_of};
use super::exchanges::group_flow;
use super::pieces::{Calls, LayerPiece};
use crate::network::{CarriedExchange, FlowForm, GroupFlow};
use crate::parallel::GroupKind;
use crate::pipeline::{PipelineOrder, PipelineTask};
use antiphon_base::error::Result;
use antiphon_base::units::Picos;
use antiphon_jobs::graph::{ExchangeKind, JobExchange, JobGraph, OperationKind, RankGroup, Resource};
use antiphon_jobs::workload::Pass;
use antiphon_model::collective::{Collective, Kind};
use antiphon_model::system::Endpoint;
use std::collections::BTreeMap;
use std::ops::Range;

/// What an operation of a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum StepWork {
    /// A forward pass.
    Forward,
    /// Gradients of inputs, with what is computed again and, where they are not put off, gradients of weights.
    Backward,
    /// Gradients of weights that were put off.
    Weights,
    /// The update of parameters.
    Optimizer,
    /// An exchange.
    Exchange(GroupKind),
    /// Others wait for several.
    Join,
}

impl StepWork {
    /// Names, in the order of [`StepWork::number`].
    pub const NAMES: [&'static str; 13] = [
        "forward",
        "backward",
        "weights",
        "optimizer",
        "join",
        "tp",
        "etp",
        "cp",
        "ep",
        "pp",
        "dp",
        "edp",
        "embedding",
    ];
    /// Kinds of groups, the last of the names.
    pub const KINDS: usize = 8;

    pub(crate) fn number(self) -> u32 {
        match self {
            StepWork::Forward => 0,
            StepWork::Backward => 1,
            StepWork::Weights => 2,
            StepWork::Optimizer => 3,
            StepWork::Join => 4,
            StepWork::Exchange(kind) => 5 + kind as u32,
        }
    }
}

/// A part of the model: what a stage does in one go.
struct ModelPart {
    blocks: Vec<LayerBlock>,
    is_first: bool,
    is_last: bool,
}

/// A step's job graph, and what its exchanges put on links.
pub struct StepJob {
    /// One rank for each stage.
    pub graph: JobGraph,
    /// What exchanges put on links.
    pub flows: Vec<GroupFlow>,
    /// Kind and stage of each flow; of messages the stage that sends.
    pub flow_keys: Vec<(GroupKind, u32)>,
    /// Each exchange of the graph.
    pub carried: Vec<CarriedExchange>,
    /// For every operation of a stage, the micro batch and part that it is for; `u32::MAX` for none.
    pub of: Vec<Vec<(u32, u32)>>,
}

/// Builds the graph of a step.
pub(super) struct StepBuilder<'a> {
    of: StepParts<'a>,
    order: &'a PipelineOrder,
    /// How many times as long each stage computes.
    slower: &'a [f64],
    parts: Vec<ModelPart>,
    known: BTreeMap<(GroupKind, u32, u8), u32>,
    result: StepJob,
    /// Messages forward and backward of every part and micro batch.
    messages: [Vec<Option<u32>>; 2],
}

pub(crate) fn picos(seconds: f64) -> Picos {
    (seconds * 1e12).round() as Picos
}

impl<'a> StepBuilder<'a> {
    /// A builder of steps whose blocks have at most `layers_at_once` layers.
    pub fn new(
        step: StepParts<'a>,
        order: &'a PipelineOrder,
        (slower, endpoint): (&'a [f64], &Endpoint),
        layers_at_once: u32,
    ) -> Self {
        let StepParts { model, plan, constants, .. } = step;
        let beside = constants.left(endpoint.left());
        let ranges = plan.part_layers(model);
        let last = ranges.len() - 1;
        let [logits, beside_logits] = [constants, &beside].map(|constants| constants.logits_s(model, plan));
        let parts = ranges.into_iter().enumerate().map(|(number, layers)| {
            let ends = [number == 0, number == last];
            let mut blocks = blocks_of((model, plan, constants, &beside), layers, ends, layers_at_once);
            if number == last {
                let block = blocks.last_mut().expect("a part has a block");
                let compute = |times: f64| (LayerPiece::Compute(times * logits), beside_logits / logits);
                block.forward.push(compute(1.0));
                block.backward.insert(0, compute(2.0));
                block.input_gradients.insert(0, compute(1.0));
                block.weights.insert(0, compute(1.0));
            }
            ModelPart { blocks, is_first: number == 0, is_last: number == last }
        });
        let parts: Vec<ModelPart> = parts.collect();
        let mut graph = JobGraph::new(plan.pipeline);
        graph.in_order = true;
        graph.names = StepWork::NAMES.map(String::from).to_vec();
        let of = vec![Vec::new(); plan.pipeline as usize];
        let result = StepJob { graph, flows: vec![], flow_keys: vec![], carried: vec![], of };
        let messages = [vec![], vec![]];
        StepBuilder { of: step, order, slower, parts, known: BTreeMap::new(), result, messages }
    }

    /// The whole graph.
    ///
    /// # Errors
    /// Those of routes.
    pub fn build(mut self) -> Result<StepJob> {
        self.number_messages();
        for stage in 0..self.of.plan.pipeline {
            self.stage(stage)?;
        }
        Ok(self.result)
    }

    /// What a collective of a stage's groups puts on links.
    fn flow(&mut self, kind: GroupKind, stage: u32, collective: Kind) -> Result<u32> {
        let key = (kind, stage, collective as u8);
        if let Some(&flow) = self.known.get(&key) {
            return Ok(flow);
        }
        let flow = group_flow(self.of, (kind, stage), collective)?;
        Ok(self.add_flow(key, stage, flow))
    }

    fn add_flow(&mut self, key: (GroupKind, u32, u8), stage: u32, flow: GroupFlow) -> u32 {
        let number = self.result.flows.len() as u32;
        self.result.flows.push(flow);
        self.result.flow_keys.push((key.0, stage));
        self.known.insert(key, number);
        number
    }

    /// A new exchange of the graph.
    fn exchange(&mut self, kind: ExchangeKind, work: StepWork, carried: CarriedExchange) -> u32 {
        // What the next computation waits for goes before gradients and parameters.
        let late = [GroupKind::Data, GroupKind::ExpertData, GroupKind::Embedding];
        let priority = u32::from(late.iter().any(|&kind| work == StepWork::Exchange(kind)));
        let (name, bytes) = (work.number(), (carried.bytes * carried.count).ceil() as u64);
        self.result.graph.exchanges.push(JobExchange { name, kind, bytes, group: 0, priority });
        self.result.carried.push(carried);
        self.result.carried.len() as u32 - 1
    }

    fn number_messages(&mut self) {
        let (parts, micro_batches) = (self.order.parts(), self.of.plan.micro_batches);
        let sent =
            f64::from(self.of.plan.micro_batch) * self.of.model.sequence as f64 / f64::from(self.of.plan.context);
        // Ranks of a tensor group have the same, or each its part.
        let divided = if self.of.plan.sequence_parallel { f64::from(self.of.plan.tensor) } else { 1.0 };
        let bytes = 2.0 * sent * self.of.model.hidden as f64 / divided;
        for back in [false, true] {
            let mut messages = vec![None; (parts * micro_batches) as usize];
            for part in 0..parts {
                let next = if back { part.checked_sub(1) } else { Some(part + 1).filter(|&next| next < parts) };
                let Some(next) = next else { continue };
                for micro_batch in 0..micro_batches {
                    let [(from, _), (to, _)] = [part, next].map(|part| self.order.home(part, micro_batch));
                    if from == to {
                        continue;
                    }
                    let key = (GroupKind::Pipeline, from * self.of.plan.pipeline + to, u8::MAX);
                    let flow = match self.known.get(&key) {
                        Some(&flow) => flow,
                        None => {
                            let pairs: Vec<Vec<u32>> =
                                self.of.plan.neighbours(from, to).into_iter().map(Vec::from).collect();
                            let flow = GroupFlow::new(self.of.wiring, FlowForm::Message, &pairs);
                            self.add_flow(key, from, flow)
                        }
                    };
                    let kind = ExchangeKind::Message { from, to, tag: 0 };
                    let carried = CarriedExchange { flow, bytes, count: 1.0 };
                    let id = self.exchange(kind, StepWork::Exchange(GroupKind::Pipeline), carried);
                    messages[(part * micro_batches + micro_batch) as usize] = Some(id);
                }
            }
            self.messages[usize::from(back)] = messages;
        }
    }

    /// Everything that one stage does.
    fn stage(&mut self, stage: u32) -> Result<()> {
        let tasks = self.order.tasks(stage);
        let mut of_stage = StageBuilder::new(stage, self.of.plan.stage_parts(stage).len() as u32);
        self.gather_parameters(&mut of_stage)?;
        // The last task of each chunk that has gradients of weights: what it computes is reduced.
        let mut last_weights = BTreeMap::new();
        for (number, task) in tasks.iter().enumerate() {
            if task.pass == Pass::WeightGradient {
                last_weights.insert(task.chunk, number);
            }
        }
        let mut number = 0;
        while number < tasks.len() {
            let paired = tasks[number].paired;
            let (first, next) = self.unit(stage, &tasks, number);
            let mut units = vec![first];
            number = next;
            if paired && number < tasks.len() {
                let (second, next) = self.unit(stage, &tasks, number);
                units.push(second);
                number = next;
            }
            let is_last =
                |unit: &Unit| last_weights.get(&unit.task.chunk).is_some_and(|&last| unit.numbers.contains(&last));
            let lasts: Vec<bool> = units.iter().map(is_last).collect();
            self.emit(&mut of_stage, &units, &lasts)?;
        }
        self.update(&mut of_stage)
    }

    /// The unit that starts at a task: a backward pass whose gradients of weights are not put off is one with them.
    fn unit(&self, stage: u32, tasks: &[PipelineTask], number: usize) -> (Unit, usize) {
        let task = tasks[number];
        let with_weights = task.pass == Pass::InputGradient && !task.divided;
        let end = number + if with_weights { 2 } else { 1 };
        (Unit { task, part: self.order.part(stage, task.chunk), with_weights, numbers: number..end }, end)
    }

    /// Adds the operations of one unit, or of two whose pieces take turns.
    fn emit(&mut self, of_stage: &mut StageBuilder, units: &[Unit], lasts: &[bool]) -> Result<()> {
        let mut chains: Vec<UnitChain> = Vec::new();
        for (unit, &is_last) in units.iter().zip(lasts) {
            chains.push(self.chain(of_stage, unit, is_last));
        }
        // Two start when both can, and what they send is ready when both have ended.
        let all: Vec<u32> = chains.iter().flat_map(|chain| chain.after.clone()).collect();
        chains.iter_mut().for_each(|chain| chain.after = all.clone());
        if self.of.plan.expert_overlap {
            // Pieces of passes of unequal length take turns in proportion.
            let longest = chains.iter().map(|chain| chain.links.len()).max().unwrap_or(0);
            let mut done = vec![0; chains.len()];
            for turn in 1..=longest {
                for at in 0..chains.len() {
                    let until = chains[at].links.len() * turn / longest;
                    while done[at] < until {
                        let link = chains[at].links[done[at]];
                        done[at] += 1;
                        self.link(of_stage, &mut chains[at], link, &units[at])?;
                    }
                }
            }
        } else {
            for at in 0..chains.len() {
                if at > 0 {
                    chains[at].after = chains[at - 1].after.clone();
                }
                for link in chains[at].links.clone() {
                    self.link(of_stage, &mut chains[at], link, &units[at])?;
                }
            }
        }
        let ends: Vec<u32> = chains.into_iter().flat_map(|chain| chain.after).collect();
        units.iter().for_each(|unit| self.end(of_stage, &ends, unit));
        Ok(())
    }

    /// The pieces of a unit, and what it waits for.
    fn chain(&mut self, of_stage: &mut StageBuilder, unit: &Unit, is_last: bool) -> UnitChain {
        let Unit { task, part, with_weights, .. } = *unit;
        let of = &self.parts[part as usize];
        let mut links = Vec::new();
        let (gathered, divided) = (self.of.plan.zero == 3, self.of.plan.zero >= 2);
        let mut block_links = |number: usize, pieces: &[Paced], with_gradients: bool| {
            if gathered && task.pass != Pass::WeightGradient {
                links.push(ChainLink::Gather(number));
            }
            links.extend(pieces.iter().map(|piece| ChainLink::Piece(*piece)));
            if with_gradients && (is_last || divided) {
                links.push(ChainLink::Reduce(number));
            }
        };
        let blocks = of.blocks.iter().enumerate();
        match task.pass {
            Pass::Forward => blocks.for_each(|(number, block)| block_links(number, &block.forward, false)),
            Pass::InputGradient if with_weights => {
                blocks.rev().for_each(|(number, block)| block_links(number, &block.backward, true));
            }
            Pass::InputGradient => {
                blocks.rev().for_each(|(number, block)| block_links(number, &block.input_gradients, false))
            }
            Pass::WeightGradient => blocks.rev().for_each(|(number, block)| block_links(number, &block.weights, true)),
        }
        let place = (part * self.of.plan.micro_batches + task.micro_batch) as usize;
        let before = match task.pass {
            Pass::Forward if of.is_first => None,
            Pass::Forward => Some((false, place - self.of.plan.micro_batches as usize)),
            Pass::InputGradient if of.is_last => None,
            Pass::InputGradient => Some((true, place + self.of.plan.micro_batches as usize)),
            Pass::WeightGradient => None,
        };
        // A stage does one unit after another: the exchange that ends one is over before the next begins.
        let mut after: Vec<u32> = of_stage.last.into_iter().collect();
        if let Some((back, place)) = before {
            match self.messages[usize::from(back)][place] {
                Some(message) => after.push(self.push(
                    of_stage,
                    StepWork::Exchange(GroupKind::Pipeline),
                    OperationKind::Receive(message),
                    &[],
                    unit.of(),
                )),
                // The part before is on this stage, too.
                None => after.extend(of_stage.done.get(&(back, place)).copied()),
            }
        }
        if task.pass == Pass::Forward {
            after.extend(of_stage.parameters.get(&task.chunk).copied());
        } else {
            // What was kept of the forward pass, or of the gradients of inputs.
            after.extend(of_stage.done.get(&(task.pass == Pass::WeightGradient, place)).copied());
        }
        UnitChain { links, after }
    }

    /// Adds the operations of one link of a chain.
    fn link(&mut self, of_stage: &mut StageBuilder, chain: &mut UnitChain, link: ChainLink, unit: &Unit) -> Result<()> {
        let work = match unit.task.pass {
            Pass::Forward => StepWork::Forward,
            Pass::InputGradient => StepWork::Backward,
            Pass::WeightGradient => StepWork::Weights,
        };
        match link {
            ChainLink::Piece((LayerPiece::Compute(seconds), slower)) => {
                let compute = self.compute(of_stage, work, [seconds, slower], &chain.after, unit.of());
                chain.after = vec![compute];
            }
            ChainLink::Piece((LayerPiece::Exchange(calls), _)) => {
                let exchange = self.calls(of_stage, calls, &chain.after, unit.of())?;
                chain.after = vec![exchange];
            }
            ChainLink::Piece((LayerPiece::Both(calls, seconds), slower)) => {
                let exchange = self.calls(of_stage, calls, &chain.after, unit.of())?;
                let compute = self.compute(of_stage, work, [seconds, slower], &chain.after, unit.of());
                chain.after = vec![exchange, compute];
            }
            ChainLink::Gather(block) => {
                // One block ahead: when the one before the last has been computed.
                let bytes = self.parts[unit.part as usize].blocks[block].parameters.map(|each| 2.0 * each);
                let ahead = if self.of.plan.data_overlap { of_stage.ahead.clone() } else { chain.after.clone() };
                for (kind, bytes) in [GroupKind::Data, GroupKind::ExpertData].into_iter().zip(bytes) {
                    chain.after.extend(self.data(of_stage, kind, Kind::AllGather, bytes, &ahead, unit.of())?);
                }
                of_stage.ahead = of_stage.last_computed.into_iter().collect();
            }
            ChainLink::Reduce(block) => {
                let scattered = self.of.plan.zero >= 1;
                let collective = if scattered { Kind::ReduceScatter } else { Kind::AllReduce };
                let size = f64::from(self.of.plan.gradient_bytes);
                let bytes = self.parts[unit.part as usize].blocks[block].parameters.map(|each| size * each);
                if !self.of.plan.data_overlap && self.of.plan.zero < 2 {
                    of_stage.late[0] += bytes[0];
                    of_stage.late[1] += bytes[1];
                    return Ok(());
                }
                let after = chain.after.clone();
                for (kind, bytes) in [GroupKind::Data, GroupKind::ExpertData].into_iter().zip(bytes) {
                    let reduced = self.data(of_stage, kind, collective, bytes, &after, unit.of())?;
                    if self.of.plan.data_overlap {
                        of_stage.reduced.extend(reduced);
                    } else {
                        chain.after.extend(reduced);
                    }
                }
            }
        }
        if let ChainLink::Piece((LayerPiece::Compute(_) | LayerPiece::Both(..), _)) = link {
            of_stage.last_computed = chain.after.last().copied();
        }
        Ok(())
    }

    /// A unit has ended: its result is sent.
    fn end(&mut self, of_stage: &mut StageBuilder, ends: &[u32], unit: &Unit) {
        let place = (unit.part * self.of.plan.micro_batches + unit.task.micro_batch) as usize;
        let back = unit.task.pass != Pass::Forward;
        let last = match ends {
            [one] => *one,
            _ => self.push(of_stage, StepWork::Join, OperationKind::Nothing, ends, unit.of()),
        };
        of_stage.last = Some(last);
        if unit.task.pass == Pass::WeightGradient {
            return;
        }
        of_stage.done.insert((back, place), last);
        if let Some(message) = self.messages[usize::from(back)][place] {
            let kind = OperationKind::Exchange(message);
            self.push(of_stage, StepWork::Exchange(GroupKind::Pipeline), kind, &[last], unit.of());
        }
    }

    fn push(
        &mut self,
        of_stage: &StageBuilder,
        work: StepWork,
        kind: OperationKind,
        after: &[u32],
        of: (u32, u32),
    ) -> u32 {
        self.result.of[of_stage.stage as usize].push(of);
        self.result.graph.ranks[of_stage.stage as usize].push(work.number(), kind, after)
    }

    fn compute(
        &mut self,
        of_stage: &StageBuilder,
        work: StepWork,
        [seconds, slower]: [f64; 2],
        after: &[u32],
        of: (u32, u32),
    ) -> u32 {
        let time = seconds * self.slower[of_stage.stage as usize];
        let [time_ps, beside_ps] = [time, time * slower].map(picos);
        let kind = OperationKind::Compute { time_ps, beside_ps, resource: Resource::Stream(0) };
        self.push(of_stage, work, kind, after, of)
    }

    fn calls(&mut self, of_stage: &StageBuilder, calls: Calls, after: &[u32], of: (u32, u32)) -> Result<u32> {
        let flow = self.flow(calls.kind, of_stage.stage, calls.collective)?;
        let carried = CarriedExchange { flow, bytes: calls.bytes, count: calls.count };
        let work = StepWork::Exchange(calls.kind);
        let kind = ExchangeKind::Collective(Collective::new(calls.collective));
        let id = self.exchange(kind, work, carried);
        Ok(self.push(of_stage, work, OperationKind::Exchange(id), after, of))
    }

    /// An exchange of gradients or parameters, if there is anything to exchange.
    fn data(
        &mut self,
        of_stage: &StageBuilder,
        kind: GroupKind,
        collective: Kind,
        bytes: f64,
        after: &[u32],
        of: (u32, u32),
    ) -> Result<Option<u32>> {
        let ranks = if kind == GroupKind::Data { self.of.plan.data_ranks() } else { self.of.plan.expert_data_ranks() };
        if bytes == 0.0 || ranks == 1 {
            return Ok(None);
        }
        self.calls(of_stage, Calls { kind, collective, bytes, count: 1.0 }, after, of).map(Some)
    }

    /// Where parameters were updated in parts, they are gathered before the first forward pass.
    fn gather_parameters(&mut self, of_stage: &mut StageBuilder) -> Result<()> {
        if !(1..=2).contains(&self.of.plan.zero) || !self.of.plan.data_overlap {
            return Ok(());
        }
        // One chunk after another, as they are needed.
        let mut before = Vec::new();
        for chunk in 0..of_stage.chunks {
            let of = (u32::MAX, self.order.part(of_stage.stage, chunk));
            let bytes = self.parameter_bytes(of.1);
            let mut gathered = Vec::new();
            for (kind, bytes) in [GroupKind::Data, GroupKind::ExpertData].into_iter().zip(bytes) {
                gathered.extend(self.data(of_stage, kind, Kind::AllGather, bytes, &before, of)?);
            }
            if !gathered.is_empty() {
                let join = self.push(of_stage, StepWork::Join, OperationKind::Nothing, &gathered, of);
                of_stage.parameters.insert(chunk, join);
                before = vec![join];
            }
        }
        Ok(())
    }

    /// Bytes of a part's parameters in 16 bits.
    fn parameter_bytes(&self, part: u32) -> [f64; 2] {
        let blocks = &self.parts[part as usize].blocks;
        [0, 1].map(|which| blocks.iter().map(|block| 2.0 * block.parameters[which]).sum())
    }

    /// Gradients that were not reduced before are, parameters are updated, and gathered if nothing else would gather them.
    fn update(&mut self, of_stage: &mut StageBuilder) -> Result<()> {
        let of = (u32::MAX, u32::MAX);
        let mut after: Vec<u32> = of_stage.reduced.drain(..).chain(of_stage.last).collect();
        let scattered = self.of.plan.zero >= 1;
        let collective = if scattered { Kind::ReduceScatter } else { Kind::AllReduce };
        for (kind, bytes) in [GroupKind::Data, GroupKind::ExpertData].into_iter().zip(of_stage.late) {
            let before = after.clone();
            after.extend(self.data(of_stage, kind, collective, bytes, &before, of)?);
        }
        let first_and_last = [0, self.of.plan.pipeline - 1];
        if self.of.model.tied_embeddings && self.of.plan.pipeline > 1 && first_and_last.contains(&of_stage.stage) {
            // The two stages reduce their gradients of the embedding.
            let size = f64::from(self.of.plan.gradient_bytes) / f64::from(self.of.plan.tensor);
            let bytes = size * (self.of.model.vocab * self.of.model.hidden) as f64;
            let id = self.embedding_exchange(bytes)?;
            let before = after.clone();
            after.push(self.push(
                of_stage,
                StepWork::Exchange(GroupKind::Embedding),
                OperationKind::Exchange(id),
                &before,
                of,
            ));
        }
        let held: Vec<u32> = (0..of_stage.chunks).map(|chunk| self.order.part(of_stage.stage, chunk)).collect();
        let bytes = held
            .iter()
            .map(|&part| self.parameter_bytes(part))
            .fold([0.0; 2], |sum, each| [sum[0] + each[0], sum[1] + each[1]]);
        let shares = if scattered {
            [self.of.plan.data_ranks(), self.of.plan.expert_data_ranks()].map(f64::from)
        } else {
            [1.0; 2]
        };
        let updated: f64 = bytes.iter().zip(shares).map(|(bytes, share)| bytes / 2.0 / share).sum();
        let seconds = self.of.constants.traffic_s(self.of.constants.optimizer_bytes * updated);
        let optimizer = self.compute(of_stage, StepWork::Optimizer, [seconds, 1.0], &after, of);
        if (1..=2).contains(&self.of.plan.zero) && !self.of.plan.data_overlap {
            for (kind, bytes) in [GroupKind::Data, GroupKind::ExpertData].into_iter().zip(bytes) {
                self.data(of_stage, kind, Kind::AllGather, bytes, &[optimizer], of)?;
            }
        }
        Ok(())
    }

    /// The exchange of first and last stage.
    fn embedding_exchange(&mut self, bytes: f64) -> Result<u32> {
        let key = (GroupKind::Embedding, 0, Kind::AllReduce as u8);
        let last = self.of.plan.pipeline - 1;
        if let Some(&flow) = self.known.get(&key) {
            let place = self.result.carried.iter().rposition(|carried| carried.flow == flow);
            return Ok(place.expect("the first stage has added it") as u32);
        }
        let flow = group_flow(self.of, (GroupKind::Embedding, 0), Kind::AllReduce)?;
        let flow = self.add_flow(key, 0, flow);
        let graph = &mut self.result.graph;
        graph.groups.push(RankGroup { name: "embedding".into(), ranks: vec![0, last] });
        let kind = ExchangeKind::Collective(Collective::new(Kind::AllReduce));
        let id =
            self.exchange(kind, StepWork::Exchange(GroupKind::Embedding), CarriedExchange { flow, bytes, count: 1.0 });
        self.result.graph.exchanges[id as usize].group = 1;
        Ok(id)
    }
}

/// One pass of a micro batch through a part.
struct Unit {
    task: PipelineTask,
    part: u32,
    with_weights: bool,
    /// Its tasks.
    numbers: Range<usize>,
}

impl Unit {
    fn of(&self) -> (u32, u32) {
        (self.task.micro_batch, self.part)
    }
}

/// What a unit does, in order.
#[derive(Clone, Copy)]
enum ChainLink {
    Piece(Paced),
    /// Parameters of a block are gathered.
    Gather(usize),
    /// Gradients of a block are reduced.
    Reduce(usize),
}

/// The links of a unit.
struct UnitChain {
    links: Vec<ChainLink>,
    /// Operations that the next one waits for.
    after: Vec<u32>,
}

/// What is known of a stage while its graph grows.
struct StageBuilder {
    stage: u32,
    chunks: u32,
    /// By direction and place of part and micro batch, the operation that ends it.
    done: BTreeMap<(bool, usize), u32>,
    /// What the first forward pass of a chunk waits for.
    parameters: BTreeMap<u32, u32>,
    /// Exchanges of gradients.
    reduced: Vec<u32>,
    /// Bytes of gradients that are reduced at the end.
    late: [f64; 2],
    last: Option<u32>,
    last_computed: Option<u32>,
    /// What the next gathering of parameters waits for.
    ahead: Vec<u32>,
}

impl StageBuilder {
    fn new(stage: u32, chunks: u32) -> Self {
        StageBuilder {
            stage,
            chunks,
            done: BTreeMap::new(),
            parameters: BTreeMap::new(),
            reduced: vec![],
            late: [0.0; 2],
            last: None,
            last_computed: None,
            ahead: vec![],
        }
    }
}
