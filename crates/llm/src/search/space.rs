//! Which plans there are.

use crate::network::Wiring;
use crate::parallel::{OPTIONS, Parallelism, Recompute};
use crate::pipeline::PipelineKind;
use crate::shape::ModelShape;
use antiphon_base::error::Result;
use antiphon_base::options::Options;
use antiphon_base::parameter::{Choice, Value};

/// Options that the search chooses unless they are given, and those that follow from them.
const FREE: [&str; 13] =
    ["tp", "cp", "pp", "ep", "etp", "dp", "v", "mb", "schedule", "zero", "recompute", "sp", "ends"];
/// Shortest sequences that are divided.
const LONG_SEQUENCE: u64 = 8192;
/// Most ranks that divide a sequence.
const MOST_CONTEXT: u32 = 16;
/// Sequences of a micro batch.
const MICRO_BATCHES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Plans of a model that keep what is given.
pub(super) struct Space<'a> {
    model: &'a ModelShape,
    ranks: u32,
    /// Ranks of a box.
    box_ranks: u32,
    batch: u64,
    given: Options,
    base: Parallelism,
}

/// The divisors of a number, ascending.
fn divisors(of: u32) -> impl Iterator<Item = u32> {
    (1..=of).filter(move |&number| of.is_multiple_of(number))
}

/// Powers of two up to `most`.
fn powers(most: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|exponent| 1u32 << exponent).take_while(move |&power| power <= most)
}

impl<'a> Space<'a> {
    /// The plans that keep what `given` says, such as `precision=fp8,tp=8`.
    ///
    /// # Errors
    /// As [`Parallelism::parse`].
    pub fn new(model: &'a ModelShape, wiring: &dyn Wiring, batch: u64, given: &str) -> Result<Self> {
        let given = Options::parse("plan", given, OPTIONS)?;
        let fixed = given.all_given().filter(|(key, _)| !FREE.contains(key));
        let text = fixed.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
        let base = Parallelism::parse(&text, 1, 1, model)?;
        let (ranks, first) = (wiring.ranks(), wiring.machine(0));
        let of_box = (0..ranks).filter(|&rank| wiring.machine(rank) == first).count() as u32;
        let box_ranks = if of_box == 1 { ranks } else { of_box };
        Ok(Space { model, ranks, box_ranks, batch, given, base })
    }

    /// What is given for an option, or else what is free.
    fn counts(&self, key: &str, free: impl Iterator<Item = u32>) -> Vec<u32> {
        match self.given.given(key) {
            Some(value) => vec![value.whole() as u32],
            None if self.leaves_out(key) => vec![1],
            None => free.collect(),
        }
    }

    /// Whether an order of dimensions is given without one.
    fn leaves_out(&self, key: &str) -> bool {
        let is_dimension = matches!(key, "tp" | "cp" | "pp" | "ep");
        let order = self.given.given("order").map(Value::text);
        is_dimension && order.is_some_and(|order| order.split('-').all(|name| name != key))
    }

    fn names<T: Choice + Copy>(&self, key: &str, free: &[T]) -> Result<Vec<T>> {
        match self.given.given(key) {
            Some(value) => Ok(vec![T::parse(value.text())?]),
            None => Ok(free.to_vec()),
        }
    }

    /// Calls `take` with every legal plan, but for those of an even `cp` and an even `mb`, of which half is not slower; those that differ in `zero` and `recompute` only at once, with less memory
    /// and more time towards the end.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn for_each(&self, mut take: impl FnMut(&[Parallelism]) -> Result<()>) -> Result<()> {
        let model = self.model;
        let long = if model.sequence >= LONG_SEQUENCE { MOST_CONTEXT } else { 1 };
        let mut tensors: Vec<u32> = divisors(self.box_ranks).chain(powers(2 * self.box_ranks)).collect();
        tensors.sort_unstable();
        tensors.dedup();
        for tensor in self.counts("tp", tensors.into_iter()) {
            for context in self.counts("cp", powers(long)) {
                let copy = tensor.saturating_mul(context);
                if !self.ranks.is_multiple_of(copy) {
                    continue;
                }
                let most = model.layers.saturating_add(2);
                let stages = divisors(self.ranks / copy).filter(|&stages| stages <= most);
                for pipeline in
                    self.counts("pp", stages).into_iter().filter(|pp| (self.ranks / copy).is_multiple_of(*pp))
                {
                    let data = self.ranks / copy / pipeline;
                    if self.given.given("dp").is_some_and(|dp| dp.whole() != u64::from(data)) {
                        continue;
                    }
                    self.pipelines([tensor, context, pipeline, data], &mut take)?;
                }
            }
        }
        Ok(())
    }

    /// Those of a grid of dense layers.
    fn pipelines(
        &self,
        [tensor, context, pipeline, data]: [u32; 4],
        take: &mut impl FnMut(&[Parallelism]) -> Result<()>,
    ) -> Result<()> {
        let layers = self.model.layers;
        let stage_ranks = tensor * context * data;
        let experts = self.model.experts.map_or(1, |of| of.count.min(1 << 20) as u32);
        let one = [PipelineKind::OneForwardOneBackward];
        let three = [PipelineKind::OneForwardOneBackward, PipelineKind::ZeroBubbleH1, PipelineKind::DualPipe];
        let schedules = self.names("schedule", if pipeline == 1 { &one } else { &three })?;
        let mut expert_tensors = vec![tensor];
        if self.model.experts.is_some() && tensor > 1 {
            expert_tensors.push(1);
        }
        for micro_batch in self.counts("mb", MICRO_BATCHES.into_iter()) {
            let at_once = u64::from(micro_batch) * u64::from(data);
            let Some(micro_batches) = self.batch.checked_div(at_once).and_then(|count| u32::try_from(count).ok())
            else {
                continue;
            };
            if !self.batch.is_multiple_of(at_once) || micro_batches == 0 {
                continue;
            }
            // Half as many sequences, each over half as many ranks, are as much work on every rank and fewer exchanges.
            let halves = context.is_multiple_of(2) && micro_batch.is_multiple_of(2);
            if halves && ["cp", "mb", "dp"].iter().all(|key| self.given.given(key).is_none()) {
                continue;
            }
            for &schedule in &schedules {
                let interleaves = pipeline > 1 && schedule == PipelineKind::OneForwardOneBackward;
                let most = if interleaves { (layers + 2) / pipeline } else { 1 };
                // Powers of two, and what divides the layers as they are or with two more.
                let divides =
                    |v: &u32| [layers, layers + 2].iter().any(|of| of.is_multiple_of(pipeline.saturating_mul(*v)));
                let chunks_free = (1..=most).filter(|v| v.is_power_of_two() || divides(v));
                for chunks in self.counts("v", chunks_free) {
                    let parts = pipeline.saturating_mul(chunks);
                    let same = layers.is_multiple_of(parts);
                    let fewer = parts > 1 && (layers + 2).is_multiple_of(parts);
                    let ends = self.given.given("ends").map_or("auto", Value::text);
                    if (ends == "same" && !same) || (ends == "fewer" && !fewer) {
                        continue;
                    }
                    for &expert_tensor in &self.counts("etp", expert_tensors.iter().copied()) {
                        let legal = divisors(experts).filter(|ep| stage_ranks.is_multiple_of(ep * expert_tensor));
                        for expert in self.counts("ep", legal) {
                            let plan = Parallelism {
                                tensor,
                                context,
                                pipeline,
                                data,
                                expert,
                                expert_tensor,
                                chunks,
                                micro_batch,
                                micro_batches,
                                schedule,
                                sequence_parallel: tensor > 1 && self.given.given("sp").is_none_or(Value::flag),
                                fewer_at_ends: fewer && !same,
                                ..self.base.clone()
                            };
                            if plan.check(self.model).is_ok() {
                                take(&self.memories(&plan)?)?;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The same plan with all ways to save memory.
    fn memories(&self, plan: &Parallelism) -> Result<Vec<Parallelism>> {
        let zeros = self.counts("zero", if plan.pipeline == 1 { 1..=3 } else { 1..=1 });
        let all = [Recompute::None, Recompute::Selective, Recompute::Full];
        let flash = [Recompute::None, Recompute::Full];
        let again = self.names("recompute", if plan.flash { &flash } else { &all })?;
        let of = zeros.iter().flat_map(|&zero| again.iter().map(move |&recompute| (zero, recompute)));
        Ok(of.map(|(zero, recompute)| Parallelism { zero, recompute, ..plan.clone() }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::wiring;
    use std::collections::BTreeSet;

    fn plans(model: &ModelShape, fabric: &str, batch: u64, given: &str) -> Vec<Parallelism> {
        let wiring = wiring(fabric).unwrap();
        let mut all = vec![];
        let space = Space::new(model, &*wiring, batch, given).unwrap();
        space
            .for_each(|plans| {
                all.extend(plans.to_vec());
                Ok(())
            })
            .unwrap();
        all
    }

    #[test]
    fn plans_are_those_of_their_text() {
        for (name, fabric, batch, given) in [
            ("llama3-8b", "dgx-h100:2", 64, "precision=fp8"),
            ("mixtral-8x7b", "dgx-h100:2", 32, "flash=no,order=tp-cp-ep-dp-pp"),
            ("mixtral-8x7b", "dgx-h100:1", 32, "zero=1,recompute=none,etp=1"),
        ] {
            let model = ModelShape::preset(name).unwrap();
            let ranks = wiring(fabric).unwrap().ranks();
            let all = plans(&model, fabric, batch, given);
            let texts: BTreeSet<String> = all.iter().map(Parallelism::spec).collect();
            assert_eq!(texts.len(), all.len(), "{name}: every plan once");
            assert!(all.len() > 20);
            for plan in &all {
                assert_eq!(&Parallelism::parse(&plan.spec(), ranks, batch, &model).unwrap(), plan);
            }
        }
    }

    #[test]
    fn what_is_given_stays() {
        let model = ModelShape::preset("llama3-8b").unwrap();
        let all = plans(&model, "dgx-h100:2", 64, "tp=4,cp=1,dp=2,mb=2,zero=0,recompute=full,schedule=zb-h1");
        assert_eq!(
            all.iter().map(Parallelism::spec).collect::<Vec<_>>(),
            ["tp=4,pp=2,mb=2,schedule=zb-h1,zero=0,recompute=full"]
        );
        let all = plans(&model, "dgx-h100:2", 64, "order=tp-dp");
        assert!(!all.is_empty() && all.iter().all(|plan| plan.pipeline == 1 && plan.context == 1));
        assert!(all.iter().any(|plan| plan.tensor == 16));
    }
}
