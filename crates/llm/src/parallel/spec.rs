//! Plans as users write them, `tp=8,cp=2,pp=8,v=8`, and which plans are legal.

use super::{ContextKind, GroupKind, Parallelism, Recompute, TensorOverlap};
use crate::pipeline::{PipelineKind, PipelineOrder};
use crate::shape::ModelShape;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::Default::{Derived, Fixed};
use antiphon_base::options::{Default, Opt, Options};
use antiphon_base::parameter::{Choice, Domain, Parameter, Value};
use antiphon_base::units::clip;

/// Most ranks along one dimension, parts of a stage, and sequences of a micro batch.
const MOST: u64 = 1 << 20;

/// Megatron-LM's order.
const ORDER: &str = "tp-cp-ep-dp-pp";

const DIMENSIONS: [GroupKind; 5] =
    [GroupKind::Tensor, GroupKind::Context, GroupKind::Expert, GroupKind::Data, GroupKind::Pipeline];

const PRECISIONS: &[&str] = &["bf16", "fp16", "fp8"];

const fn one_of(key: &'static str, names: &'static [&'static str], default: Default, meaning: &'static str) -> Opt {
    Opt { parameter: Parameter { key, domain: Domain::Choice(names), meaning }, default }
}

/// What a plan may say.
pub const OPTIONS: &[Opt] = &[
    Opt::count("tp", 1, MOST, Fixed("1"), "Ranks that divide a layer."),
    Opt::count("cp", 1, MOST, Fixed("1"), "Ranks that divide a sequence."),
    Opt::count("pp", 1, MOST, Fixed("1"), "Stages of the pipeline."),
    Opt::count("ep", 1, MOST, Fixed("1"), "Ranks that divide the experts of a layer; they lie within tp cp dp."),
    Opt::count("etp", 1, MOST, Derived("as tp"), "Ranks that divide an expert."),
    Opt::count("dp", 1, MOST, Derived("ranks / (tp cp pp)"), "Copies of the model."),
    Opt::count("v", 1, MOST, Fixed("1"), "Parts of the model that a stage holds; more than one interleaves them."),
    Opt::count("mb", 1, MOST, Fixed("1"), "Sequences of a micro batch."),
    one_of("schedule", PipelineKind::NAMES, Fixed("1f1b"), "In which order a stage works."),
    Opt::flag("sp", Derived("yes if tp > 1"), "Whether norms divide the sequence over the tensor group."),
    Opt::choice("cp-by", ContextKind::NAMES, "How attention gets what other ranks of the context group hold."),
    Opt::count(
        "zero",
        0,
        3,
        Fixed("1"),
        "What data ranks divide: 0 nothing, 1 states of the optimizer, 2 gradients too, 3 parameters too.",
    ),
    Opt::choice("recompute", Recompute::NAMES, "What the backward pass computes again: nothing, core attention, all."),
    Opt::choice(
        "tp-overlap",
        TensorOverlap::NAMES,
        "What of tensor parallelism's exchange runs beside computation: nothing, what is behind gradients of weights, \
         or all but one of as many tiles as ranks.",
    ),
    Opt::flag("dp-overlap", Fixed("yes"), "Whether gradients and parameters are exchanged behind computation."),
    Opt::flag(
        "ep-overlap",
        Fixed("yes"),
        "Whether experts' exchange runs behind shared experts, and all exchanges of a pass of dualpipe behind the other of its pair.",
    ),
    Opt::flag("flash", Fixed("yes"), "Whether core attention keeps its scores on the chip."),
    Opt::choice("precision", PRECISIONS, "Numbers of products; parameters are kept in 16 bits."),
    one_of(
        "gradients",
        &["2", "4"],
        Derived("2 with precision=fp16, else 4"),
        "Bytes of a gradient, in memory and in its exchange; with 2 the optimizer keeps 32-bit gradients, too, as with fp16.",
    ),
    Opt {
        parameter: Parameter {
            key: "order",
            domain: Domain::Spec { form: "an order such as tp-cp-ep-dp-pp", check: |text| order(text).map(|_| ()) },
            meaning: "Which dimension varies first along ranks; what is left out has one rank, ep is before dp.",
        },
        default: Fixed(ORDER),
    },
    one_of(
        "ends",
        &["same", "fewer", "auto"],
        Fixed("auto"),
        "Whether the first and last part have one layer less than the others, the same, or what divides the layers.",
    ),
];

fn refused(what: impl AsRef<str>) -> Error {
    Error::new(Code::BadSpec, what).at("plan")
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(refused(what())) }
}

/// The dimensions that `text` names, each at most once.
fn order(text: &str) -> Result<Vec<GroupKind>> {
    let mut order = vec![];
    for name in text.split('-') {
        match DIMENSIONS.iter().find(|kind| kind.name() == name) {
            Some(kind) if !order.contains(kind) => order.push(*kind),
            _ => {
                let what = format!("'{}' is no order; write each of tp, cp, ep, dp and pp once: {ORDER}", clip(text));
                return Err(Error::new(Code::BadSpec, what));
            }
        }
    }
    Ok(order)
}

impl Parallelism {
    /// The plan that `text` writes, for a step of `batch` sequences on `ranks` ranks.
    ///
    /// # Errors
    /// [`Code::BadSpec`] and [`Code::UnknownName`] for what does not parse, and as [`Parallelism::check`];
    /// [`Code::BadSpec`] if ranks or batch cannot be divided so.
    pub fn parse(text: &str, ranks: u32, batch: u64, shape: &ModelShape) -> Result<Parallelism> {
        let options = Options::parse("plan", text, OPTIONS)?;
        let count = |key| options.count(key) as u32;
        let given = |key| options.given(key).map(Value::whole);
        let [tensor, context, pipeline] = ["tp", "cp", "pp"].map(count);

        let copy = [tensor, context, pipeline].map(u64::from).iter().product::<u64>();
        let whole = ranks > 0 && u64::from(ranks).is_multiple_of(copy);
        ensure(whole, || {
            format!(
                "tp cp pp = {tensor}*{context}*{pipeline} = {copy} does not divide {ranks} ranks; change one of them \
                 or the fabric"
            )
        })?;
        let data = u64::from(ranks) / copy;
        ensure(given("dp").is_none_or(|dp| dp == data), || {
            let dp = options.count("dp");
            format!(
                "dp={dp} with tp cp pp = {copy} takes {} ranks of {ranks}; leave dp out or write dp={data}",
                dp * copy
            )
        })?;

        ensure(batch > 0, || "a batch has at least one sequence, not 0".into())?;
        let micro_batch = count("mb");
        let at_once = u64::from(micro_batch) * data;
        ensure(batch.is_multiple_of(at_once), || {
            format!(
                "mb dp = {micro_batch}*{data} = {at_once} does not divide a batch of {batch} sequences; change mb, the \
                 batch, or how many ranks tp, cp and pp take"
            )
        })?;
        let micro_batches = u32::try_from(batch / at_once)
            .map_err(|_| refused(format!("a batch of {batch} sequences is too large; take one below 2^32")))?;

        let precision = options.choice("precision");
        let gradient_bytes = match options.given("gradients") {
            Some(bytes) => {
                if bytes.text() == "2" {
                    2
                } else {
                    4
                }
            }
            None => {
                if precision == "fp16" {
                    2
                } else {
                    4
                }
            }
        };
        let mut rank_order = order(options.given("order").map_or(ORDER, Value::text))?;
        for (kind, size) in DIMENSIONS.into_iter().zip([tensor, context, 1, data as u32, pipeline]) {
            if rank_order.contains(&kind) {
                continue;
            }
            ensure(size == 1, || format!("order leaves out {}, which is {size}; add it, as in {ORDER}", kind.name()))?;
            match rank_order.iter().position(|other| (kind, *other) == (GroupKind::Expert, GroupKind::Data)) {
                Some(place) => rank_order.insert(place, kind),
                None => rank_order.push(kind),
            }
        }

        let mut plan = Parallelism {
            tensor,
            context,
            pipeline,
            expert: count("ep"),
            expert_tensor: given("etp").map_or(tensor, |ranks| ranks as u32),
            data: data as u32,
            chunks: count("v"),
            micro_batch,
            micro_batches,
            schedule: PipelineKind::parse(options.choice("schedule"))?,
            sequence_parallel: tensor > 1 && options.given("sp").is_none_or(Value::flag),
            context_kind: ContextKind::parse(options.choice("cp-by"))?,
            zero: count("zero"),
            recompute: Recompute::parse(options.choice("recompute"))?,
            tensor_overlap: TensorOverlap::parse(options.choice("tp-overlap"))?,
            data_overlap: options.flag("dp-overlap"),
            expert_overlap: options.flag("ep-overlap"),
            flash: options.flag("flash"),
            fp8: precision == "fp8",
            gradient_bytes,
            rank_order,
            fewer_at_ends: false,
        };
        let (layers, parts) = (u64::from(shape.layers), u64::from(pipeline) * options.count("v"));
        let same = layers.is_multiple_of(parts);
        let fewer = parts > 1 && (layers + 2).is_multiple_of(parts);
        plan.fewer_at_ends = fewer && !same;
        match options.choice("ends") {
            "same" => ensure(same, || {
                format!("ends=same: {layers} layers do not divide into {parts} equal parts; leave ends out")
            })?,
            "fewer" => ensure(fewer, || {
                format!("ends=fewer: {layers} layers and 2 do not divide into {parts} equal parts; leave ends out")
            })?,
            _ => {}
        }
        plan.check(shape)?;
        Ok(plan)
    }

    /// Refuses what cannot divide the model `shape` so.
    ///
    /// # Errors
    /// [`Code::BadSpec`] with what to change; as [`PipelineOrder::new`].
    pub fn check(&self, shape: &ModelShape) -> Result<()> {
        let name = &shape.name;
        let [tp, cp, pp, ep, etp, v] =
            [self.tensor, self.context, self.pipeline, self.expert, self.expert_tensor, self.chunks].map(u64::from);
        let divides = |key: &str, divisor: u64, whole: u64, what: &str| {
            ensure(whole.is_multiple_of(divisor), || {
                let change = key.trim_start_matches("2 ").replace(' ', " or ");
                format!("{key} = {divisor} does not divide the {whole} {what} of {name}; change {change}")
            })
        };

        divides("tp", tp, shape.heads, "heads")?;
        let copied = shape.kv_heads < tp && tp.is_multiple_of(shape.kv_heads);
        if !copied {
            divides("tp", tp, shape.kv_heads, "heads of keys and values")?;
        }
        divides("tp", tp, shape.hidden, "elements between layers (hidden)")?;
        if shape.experts.is_none_or(|experts| experts.dense_layers > 0) {
            divides("tp", tp, shape.ffn, "elements in a feed-forward network (ffn)")?;
        }

        if cp > 1 && self.context_kind == ContextKind::Ulysses {
            divides("tp cp", tp * cp, shape.heads, "heads, which cp-by=ulysses divides,")?;
            divides("cp", cp, shape.sequence, "tokens of a sequence")?;
        } else if cp > 1 {
            divides("2 cp", 2 * cp, shape.sequence, "tokens of a sequence")?;
        }
        if self.sequence_parallel {
            divides("tp cp", tp * cp, shape.sequence, "tokens of a sequence, which sp divides,")?;
        }

        let parts = pp * v;
        let layers = u64::from(shape.layers);
        ensure(parts <= layers + 2 * u64::from(self.fewer_at_ends), || {
            format!(
                "pp v = {pp}*{v} = {parts} parts are more than the {layers} layers of {name}; take a smaller pp or v"
            )
        })?;
        ensure(v == 1 || pp > 1, || {
            format!("v={v} interleaves the parts of several stages; leave v out or take a larger pp")
        })?;
        self.pipeline_order().map_err(|error| error.at("plan"))?;

        let Some(experts) = shape.experts else {
            return ensure(ep == 1 && etp == tp, || format!("{name} has no experts; leave out ep and etp"));
        };
        divides("ep", ep, experts.count, "experts of a layer")?;
        divides("etp", etp, experts.ffn, "elements in an expert (ffn)")?;
        divides("tp", tp, experts.shared.saturating_mul(experts.ffn), "elements in shared experts (ffn)")?;
        let (stage_ranks, dp) = (tp * cp * u64::from(self.data), self.data);
        ensure(stage_ranks.is_multiple_of(ep * etp), || {
            format!(
                "ep etp = {ep}*{etp} does not divide the tp cp dp = {tp}*{cp}*{dp} = {stage_ranks} ranks of a stage; \
                 change ep or etp"
            )
        })?;
        ensure(tp == 1 || self.sequence_parallel || (ep == 1 && etp == tp), || {
            format!(
                "sp=no with tp={tp}, ep={ep} and etp={etp}: ranks of a tensor group have the same tokens; leave sp out"
            )
        })?;
        let [dense, expert] = self.stage_strides();
        ensure(dense == expert, || {
            format!(
                "order={}: a stage's ranks lie {dense} apart in dense layers and {expert} in experts; take an order \
                 that ends with pp, or other ep and etp",
                self.order()
            )
        })
    }

    /// The order in which stages work.
    ///
    /// # Errors
    /// As [`PipelineOrder::new`].
    pub fn pipeline_order(&self) -> Result<PipelineOrder> {
        PipelineOrder::new(self.schedule, self.pipeline, self.chunks, self.micro_batches)
    }

    /// The order of dimensions along ranks, such as tp-cp-ep-dp-pp.
    fn order(&self) -> String {
        self.rank_order.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("-")
    }

    /// The shortest text that [`Parallelism::parse`] reads as this plan, for as many ranks and as large a batch.
    pub fn spec(&self) -> String {
        let flag = |flag| (if flag { "yes" } else { "no" }).to_string();
        let precision = if self.fp8 { "fp8" } else { "bf16" };
        let items = [
            ("tp", self.tensor.to_string(), "1".into()),
            ("cp", self.context.to_string(), "1".into()),
            ("pp", self.pipeline.to_string(), "1".into()),
            ("ep", self.expert.to_string(), "1".into()),
            ("etp", self.expert_tensor.to_string(), self.tensor.to_string()),
            ("v", self.chunks.to_string(), "1".into()),
            ("mb", self.micro_batch.to_string(), "1".into()),
            ("schedule", self.schedule.name().into(), "1f1b".into()),
            ("sp", flag(self.sequence_parallel), flag(self.tensor > 1)),
            ("cp-by", self.context_kind.name().into(), ContextKind::NAMES[0].into()),
            ("zero", self.zero.to_string(), "1".into()),
            ("recompute", self.recompute.name().into(), Recompute::NAMES[0].into()),
            ("tp-overlap", self.tensor_overlap.name().into(), TensorOverlap::NAMES[0].into()),
            ("dp-overlap", flag(self.data_overlap), flag(true)),
            ("ep-overlap", flag(self.expert_overlap), flag(true)),
            ("flash", flag(self.flash), flag(true)),
            ("precision", precision.into(), PRECISIONS[0].into()),
            ("gradients", self.gradient_bytes.to_string(), "4".into()),
            ("order", self.order(), ORDER.into()),
        ];
        let given = items.into_iter().filter(|(_, value, default)| value != default);
        let text = given.map(|(key, value, _)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
        if text.is_empty() { format!("dp={}", self.data) } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{gpt, mixtral, plan, preset};
    use proptest::prelude::*;

    #[test]
    fn defaults_are_derived() {
        let text = "tp=8,cp=2,pp=8,v=8";
        let plan = plan(text, 512, 1152, &preset("llama3-405b"));
        assert_eq!((plan.data, plan.micro_batches, plan.sequence_parallel), (4, 288, true));
        assert_eq!((plan.expert_tensor, plan.expert_data_ranks(), plan.data_ranks()), (8, 8, 8));
        assert_eq!((plan.zero, plan.gradient_bytes, plan.fewer_at_ends), (1, 4, true));
        assert_eq!(plan.spec(), text);
        assert_eq!(Parallelism::parse("dp=4,mb=2", 4, 8, &gpt("gpt", 64, 8, 24, 64, 1000)).unwrap().spec(), "mb=2");
        assert_eq!(Parallelism::parse("", 4, 8, &gpt("gpt", 64, 8, 24, 64, 1000)).unwrap().spec(), "dp=4");
        let half = Parallelism::parse("precision=fp16", 1, 1, &gpt("gpt", 64, 8, 24, 64, 1000)).unwrap();
        assert_eq!(half.gradient_bytes, 2);
    }

    #[test]
    fn dimensions_of_one_rank_may_be_left_out_of_an_order() {
        let read = |text: &str| Parallelism::parse(text, 64, 64, &mixtral()).map(|plan| plan.order());
        assert_eq!(read("tp=4,pp=2,order=tp-pp-dp").unwrap(), "tp-pp-ep-dp-cp");
        assert_eq!(read("tp=4,pp=2,ep=2,order=tp-dp-pp").unwrap(), "tp-ep-dp-pp-cp");
        let error = read("tp=4,pp=2,order=tp-ep-dp").unwrap_err();
        assert_eq!(error.message, "plan: order leaves out pp, which is 2; add it, as in tp-cp-ep-dp-pp");
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_change() {
        let (gpt, mixtral) = (gpt("gpt", 96, 12, 24, 96, 1000), mixtral());
        let odd = ModelShape { ffn: 30, ..gpt.clone() };
        for (text, shape, ranks, batch, message) in [
            ("tp=3", &gpt, 16, 16, "tp cp pp = 3*1*1 = 3 does not divide 16 ranks; change one of them or the fabric"),
            ("tp=2", &gpt, 0, 16, "tp cp pp = 2*1*1 = 2 does not divide 0 ranks; change one of them or the fabric"),
            ("dp=4", &gpt, 8, 16, "dp=4 with tp cp pp = 1 takes 4 ranks of 8; leave dp out or write dp=8"),
            ("mb=3", &gpt, 4, 16, "mb dp = 3*4 = 12 does not divide a batch of 16 sequences; change mb, the batch"),
            ("", &gpt, 4, 0, "a batch has at least one sequence, not 0"),
            ("", &gpt, 1, 1 << 32, "a batch of 4294967296 sequences is too large; take one below 2^32"),
            ("tp=8", &gpt, 8, 8, "tp = 8 does not divide the 12 heads of gpt; change tp"),
            (
                "tp=4",
                &odd,
                4,
                4,
                "tp = 4 does not divide the 30 elements in a feed-forward network (ffn) of gpt; change tp",
            ),
            ("cp=5", &gpt, 5, 5, "2 cp = 10 does not divide the 96 tokens of a sequence of gpt; change cp"),
            (
                "cp=5,cp-by=ulysses",
                &gpt,
                5,
                5,
                "tp cp = 5 does not divide the 12 heads, which cp-by=ulysses divides, of gpt; change tp or cp",
            ),
            (
                "pp=25",
                &gpt,
                25,
                25,
                "pp v = 25*1 = 25 parts are more than the 24 layers of gpt; take a smaller pp or v",
            ),
            ("v=2", &gpt, 1, 1, "v=2 interleaves the parts of several stages; leave v out or take a larger pp"),
            ("pp=2,v=2,schedule=zb-h1", &gpt, 2, 2, "zb-h1 has no order for 2 parts a stage; give one part or 1f1b"),
            (
                "pp=2,schedule=dualpipe",
                &gpt,
                2,
                3,
                "dualpipe needs an even number of stages, not 2, and an even number of micro batches",
            ),
            ("ends=same,pp=5", &gpt, 5, 5, "ends=same: 24 layers do not divide into 5 equal parts; leave ends out"),
            ("ends=fewer,pp=4", &gpt, 4, 4, "ends=fewer: 24 layers and 2 do not divide into 4 equal parts"),
            ("ep=2", &gpt, 2, 2, "gpt has no experts; leave out ep and etp"),
            ("ep=3", &mixtral, 3, 3, "ep = 3 does not divide the 8 experts of a layer of mixtral-8x7b; change ep"),
            ("etp=3", &mixtral, 3, 3, "etp = 3 does not divide the 14336 elements in an expert (ffn) of mixtral-8x7b"),
            (
                "ep=8",
                &mixtral,
                4,
                4,
                "ep etp = 8*1 does not divide the tp cp dp = 1*1*4 = 4 ranks of a stage; change ep",
            ),
            (
                "tp=2,ep=2,sp=no",
                &mixtral,
                4,
                4,
                "sp=no with tp=2, ep=2 and etp=2: ranks of a tensor group have the same tokens; leave sp out",
            ),
            (
                "tp=2,pp=2,ep=4,etp=1,order=tp-cp-ep-pp-dp",
                &mixtral,
                16,
                16,
                "order=tp-cp-ep-pp-dp: a stage's ranks lie 2 apart in dense layers and 4 in experts; take an order",
            ),
        ] {
            let error = Parallelism::parse(text, ranks, batch, shape).map(|plan| plan.spec()).unwrap_err();
            assert!(error.message.starts_with(&format!("plan: {message}")), "{text}: {error}");
            assert!(matches!(error.code, Code::BadSpec | Code::NotApplicable));
        }
        for text in
            ["order=tp-tp-dp", "order=tp-dp-edp", "order=", "tp=0", "gradients=3", "zero=4", "tpp=1", "tp=1048577"]
        {
            assert!(Parallelism::parse(text, 8, 8, &gpt).is_err(), "{text}");
        }
    }

    #[test]
    fn heads_of_keys_and_values_are_copied_to_more_ranks() {
        assert!(Parallelism::parse("tp=16", 16, 16, &preset("llama3-405b")).is_ok());
        assert!(Parallelism::parse("ep=64,etp=1,pp=16,tp=1", 2048, 15360, &preset("deepseek-v3")).is_ok());
        let odd = ModelShape { kv_heads: 6, ..gpt("odd", 96, 12, 24, 96, 1000) };
        assert!(Parallelism::parse("tp=12", 12, 12, &odd).is_ok());
        let message = Parallelism::parse("tp=4", 4, 4, &odd).unwrap_err().message;
        assert_eq!(message, "plan: tp = 4 does not divide the 6 heads of keys and values of odd; change tp");
    }

    proptest! {
        // Many plans at random are not legal.
        #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::default() })]

        #[test]
        fn a_plan_reads_back(
            sizes in (0u32..4, 0u32..3, 0u32..3, 0u32..3, 0u32..4, 0u32..3, 1u32..4, 0u32..2),
            names in (0usize..5, 0usize..3, 0usize..3, 0usize..3, 0usize..3, 0usize..3),
            flags in any::<[bool; 4]>(),
            zero in 0u32..4,
            order in Just(vec!["tp", "cp", "ep", "dp", "pp"]).prop_shuffle(),
        ) {
            let (tp, cp, pp, dp, ep, etp, v, mb) = sizes;
            let ranks = 1 << (tp + cp + pp + dp);
            let [tp, cp, pp, ep, etp, mb] = [tp, cp, pp, ep, etp, mb].map(|exponent| 1 << exponent);
            let [sp, data, expert, flash] = flags.map(|flag| if flag { "yes" } else { "no" });
            let text = format!(
                "tp={tp},cp={cp},pp={pp},ep={ep},etp={etp},v={v},mb={mb},schedule={},cp-by={},recompute={},\
                 tp-overlap={},precision={},sp={sp},dp-overlap={data},ep-overlap={expert},flash={flash},zero={zero},\
                 order={}{}",
                PipelineKind::NAMES[names.0],
                ContextKind::NAMES[names.1],
                Recompute::NAMES[names.2],
                TensorOverlap::NAMES[names.3],
                PRECISIONS[names.4],
                order.join("-"),
                ["", ",gradients=2", ",gradients=4"][names.5],
            );
            let shape = ModelShape { layers: 30, ..mixtral() };
            let plan = Parallelism::parse(&text, ranks, 128, &shape);
            prop_assume!(plan.is_ok());
            let plan = plan.unwrap();
            prop_assert_eq!(plan.ranks(), ranks);
            prop_assert_eq!(u64::from(plan.micro_batches * plan.micro_batch * plan.data), 128);
            let spec = plan.spec();
            prop_assert!(spec.len() <= text.len());
            prop_assert_eq!(Parallelism::parse(&spec, ranks, 128, &shape).unwrap(), plan);
        }
    }
}
