//! What stands between a rank's memory and its links: the parameters of an endpoint model.

use super::processor::configured;
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::parameter::{Choice, Domain, Listed, Stored, StoredScale, Value, parameters};
use antiphon_base::units::{Bytes, Picos, Rate, clip};
use serde::{Deserialize, Serialize};

/// How an engine's state machines are divided among the phases of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FsmSplit {
    /// As long as a chunk stays in each phase.
    #[default]
    Need,
    /// Equally.
    Equal,
}

impl Choice for FsmSplit {
    const WHAT: &'static str = "split of state machines";
    const ALL: &'static [(&'static str, Self)] = &[("need", FsmSplit::Need), ("equal", FsmSplit::Equal)];
}

/// How an engine's SRAM is divided among the phases of a collective, and their results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SramSplit {
    /// As much and as long as a chunk stays in each partition.
    #[default]
    Need,
    /// By the rate of the phase's links times the size of the chunk that enters it; results have what the last phase has.
    Paper,
}

impl Choice for SramSplit {
    const WHAT: &'static str = "split of the SRAM";
    const ALL: &'static [(&'static str, Self)] = &[("need", SramSplit::Need), ("paper", SramSplit::Paper)];
}

const fn size(least: Bytes) -> Domain {
    Domain::Bytes { least, most: 1 << 40 }
}

const COUNT: Domain = Domain::count(1, 1 << 20, "");

/// Measured slowdowns, in thousandths.
const SLOWDOWN: Domain = Domain::Unless(
    "by what is left",
    &Domain::Number { least: 1.0, most: 1e3, unit: "", scale: StoredScale::Times(1e3) },
);

parameters! {
    /// An endpoint that costs nothing: what has arrived can be used one cycle later.
    #[derive(Copy)]
    pub struct IdealEndpoint of IdealEndpoint[] {
        /// Until what has arrived can be used.
        #[parameter("delay_ns", Domain::ns(0.0), "ACE (ISCA 2021), Table VI: one cycle; Table V: 1245 MHz")]
        pub delay_ps: Picos = 803,
        /// Parts of a buffer that go through the phases of a collective one by one.
        #[parameter("chunk", size(1), "ACE (ISCA 2021), Table III")]
        pub chunk: Bytes = 64 << 10,
        /// What is forwarded while the rest is still on its way, on rails.
        #[parameter("packet", size(1), "ACE (ISCA 2021), Tables III and V")]
        pub packet: Bytes = 256,
    }
}

parameters! {
    /// An accelerator whose own processors move data: messages are read from memory to be sent, and written to it.
    #[derive(Copy)]
    pub struct NpuEndpoint of NpuEndpoint[] {
        /// Memory bandwidth set aside for communication.
        #[parameter("memory_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), Table VI: BaselineCommOpt")]
        pub memory_rate: Rate = Rate::gb_per_s(450),
        /// Processors (SMs) set aside for communication.
        #[parameter("sms", COUNT, "ACE (ISCA 2021), Table VI: BaselineCommOpt")]
        pub sms: u32 = 6,
        /// What one of them can read.
        #[parameter("sm_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), section III: 64 bytes a cycle at 1245 MHz")]
        pub sm_rate: Rate = Rate(79_680_000_000),
        /// Rate of the bus to the network.
        #[parameter("bus_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), Table V: NPU-AFI")]
        pub bus_rate: Rate = Rate::gb_per_s(500),
        /// Parts of a buffer that go through the phases of a collective one by one.
        #[parameter("chunk", size(1), "ACE (ISCA 2021), Table III")]
        pub chunk: Bytes = 64 << 10,
        /// What is stored before it is forwarded.
        #[parameter("message", size(1), "ACE (ISCA 2021), Table V; Table III has 4 KiB")]
        pub message: Bytes = 8 << 10,
        /// All memory bandwidth; computation has what is left.
        #[parameter("total_memory_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), Table V: NPU-MEM")]
        pub total_memory_rate: Rate = Rate::gb_per_s(900),
        /// All processors; computation has those that are left.
        #[parameter("total_sms", COUNT, "ACE (ISCA 2021), Table V")]
        pub total_sms: u32 = 80,
        /// How many times as long computation takes beside communication, where that is measured.
        #[parameter("slowdown", SLOWDOWN, "ours")]
        pub slowdown: Option<u32> = None,
    }
}

parameters! {
    /// A collectives engine beside the accelerator: chunks are read from memory once, live in its SRAM until they are
    /// done, and are written back once (ACE, ISCA 2021).
    #[derive(Copy)]
    pub struct AceEndpoint of AceEndpoint[] {
        /// SRAM for chunks.
        #[parameter("sram", size(1), "ACE (ISCA 2021), section IV-I")]
        pub sram: Bytes = 4 << 20,
        /// State machines, each with one chunk at a time.
        #[parameter("fsms", COUNT, "ACE (ISCA 2021), section IV-I")]
        pub fsms: u32 = 16,
        /// Wide adders: 16 FP32 or 32 FP16 at a time.
        #[parameter("alus", COUNT, "ACE (ISCA 2021), section IV-I")]
        pub alus: u32 = 4,
        /// What one of them adds.
        #[parameter("alu_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), section IV-I: 64 bytes a cycle at 1245 MHz")]
        pub alu_rate: Rate = Rate(79_680_000_000),
        /// Memory bandwidth set aside for reading chunks; as much for writing them back.
        #[parameter("memory_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), Table VI")]
        pub memory_rate: Rate = Rate::gb_per_s(128),
        /// Rate of the bus from memory.
        #[parameter("bus_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), Table V: NPU-AFI")]
        pub bus_rate: Rate = Rate::gb_per_s(500),
        /// Parts of a buffer that go through the phases of a collective one by one.
        #[parameter("chunk", size(1), "ACE (ISCA 2021), Table III")]
        pub chunk: Bytes = 64 << 10,
        /// What is forwarded while the rest is still on its way, on rails; and what of a chunk is on the bus before it is sent.
        #[parameter("packet", size(1), "ACE (ISCA 2021), Tables III and V")]
        pub packet: Bytes = 256,
        /// How state machines are divided among phases, on rails: as long as a chunk stays (need), or equally (equal).
        #[parameter("fsm_split", Domain::Choice(FsmSplit::NAMES), "ACE (ISCA 2021), section IV-F")]
        pub fsm_split: FsmSplit = FsmSplit::Need,
        /// How SRAM is divided among phases, on rails: as much and as long as a chunk stays (need), or by rate and size (paper).
        #[parameter("sram_split", Domain::Choice(SramSplit::NAMES), "ACE (ISCA 2021), section IV-I")]
        pub sram_split: SramSplit = SramSplit::Need,
        /// All memory bandwidth; computation has what is left.
        #[parameter("total_memory_gb_per_s", Domain::GB_PER_S, "ACE (ISCA 2021), Table V: NPU-MEM")]
        pub total_memory_rate: Rate = Rate::gb_per_s(900),
        /// All processors; computation has them.
        #[parameter("total_sms", COUNT, "ACE (ISCA 2021), Table V")]
        pub total_sms: u32 = 80,
    }
}

/// The endpoint model of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endpoint {
    /// What the system itself says: interfaces, hand-off, reduction rate.
    #[default]
    System,
    /// Free.
    Ideal(IdealEndpoint),
    /// The accelerator moves data itself.
    Npu(NpuEndpoint),
    /// An engine does.
    Ace(AceEndpoint),
}

impl Stored for Endpoint {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(self.spec())
    }

    fn read(value: &Value, _: &Domain) -> Self {
        Endpoint::parse(value.text()).expect("a specification is checked first")
    }
}

/// Names of endpoints with the parameters of a paper.
pub const ENDPOINT_PRESETS: [(&str, &str, &str); 3] = [
    (
        "ace-baseline-nooverlap",
        "npu:memory_gb_per_s=900,sms=80",
        "ACE (ISCA 2021), Table VI: all resources are communication's, since nothing is computed beside it",
    ),
    ("ace-baseline-commopt", "npu:memory_gb_per_s=450,sms=6", "ACE (ISCA 2021), Table VI: 90 % of the ideal network"),
    ("ace-baseline-compopt", "npu:memory_gb_per_s=128,sms=2", "ACE (ISCA 2021), Table VI: the memory bandwidth of ACE"),
];

/// Shares of a node's resources.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// Of its memory bandwidth, 0 to 1.
    pub memory: (u64, u64),
    /// Of its processors.
    pub processors: (u64, u64),
}

impl Endpoint {
    /// Values of the parameter `endpoint`.
    pub const SPEC: Domain =
        Domain::Spec { form: "ENDPOINT[:KEY=VALUE,...]", check: |text| Endpoint::parse(text).map(|_| ()) };

    /// Every model with its default options, and what it is.
    pub fn models() -> [(Endpoint, &'static str); 4] {
        [
            (Endpoint::System, "what the system says: its interfaces, hand-off and reduction rate"),
            (Endpoint::Ideal(IdealEndpoint::default()), "free: what has arrived can be used one cycle later"),
            (
                Endpoint::Npu(NpuEndpoint::default()),
                "the accelerator reads what it sends from memory with its own processors, twice for sums",
            ),
            (
                Endpoint::Ace(AceEndpoint::default()),
                "an engine reads a chunk once, keeps it in SRAM until it is done, and writes it back",
            ),
        ]
    }

    /// An endpoint from `name[:key=value,...]`, or the name of a preset.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name; [`Code::BadSpec`] or [`Code::BadSize`] for values.
    pub fn parse(spec: &str) -> Result<Endpoint> {
        let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
        if let Some((_, preset, _)) = ENDPOINT_PRESETS.iter().find(|(preset, ..)| *preset == name) {
            let key = |part: &str| part.split_once('=').map_or(String::new(), |(key, _)| format!("{key}="));
            let given = |part: &str| rest.split(',').any(|other| key(other) == key(part));
            let (model, settings) = preset.split_once(':').unwrap_or((preset, ""));
            let kept = settings.split(',').filter(|part| !given(part)).chain((!rest.is_empty()).then_some(rest));
            return Endpoint::parse(&format!("{model}:{}", kept.collect::<Vec<_>>().join(",")));
        }
        let models = Endpoint::models().map(|(model, _)| model);
        let Some(model) = models.into_iter().find(|model| model.name() == name) else {
            let names = models.iter().map(Endpoint::name).chain(ENDPOINT_PRESETS.iter().map(|(name, ..)| *name));
            let known = names.clone().collect::<Vec<_>>().join(", ");
            let file = if name.ends_with(".json") { "; a file of calibrate has one as \"endpoint\"" } else { "" };
            let what = format!("no endpoint '{}'{}; known: {known}{file}", clip(name), nearest(name, names));
            return Err(Error::new(Code::UnknownName, what));
        };
        let endpoint = match model {
            Endpoint::System => configured(name, rest, model, &[])?,
            Endpoint::Ideal(ideal) => Endpoint::Ideal(configured(name, rest, ideal, IdealEndpoint::PARAMETERS)?),
            Endpoint::Npu(npu) => Endpoint::Npu(configured(name, rest, npu, NpuEndpoint::PARAMETERS)?),
            Endpoint::Ace(ace) => Endpoint::Ace(configured(name, rest, ace, AceEndpoint::PARAMETERS)?),
        };
        endpoint.check()?;
        Ok(endpoint)
    }

    /// Refuses more of a resource than there is.
    fn check(&self) -> Result<()> {
        let what = match (self, self.memory()) {
            (_, Some((own, all))) if own > all => {
                let [own, all] = [own, all].map(Rate::as_gb_per_s);
                format!("memory_gb_per_s={own} is more than all there is, total_memory_gb_per_s={all}")
            }
            (Endpoint::Npu(npu), _) if npu.sms > npu.total_sms => {
                format!("sms={} is more than all there are, total_sms={}", npu.sms, npu.total_sms)
            }
            (Endpoint::Ace(ace), _) if ace.sram < ace.chunk => {
                format!("sram={} holds not even one chunk; chunk={}", ace.sram, ace.chunk)
            }
            _ => return Ok(()),
        };
        Err(Error::new(Code::BadSize, format!("endpoint {}: {what}", self.name())))
    }

    /// Memory bandwidth set aside for communication, and all there is.
    fn memory(&self) -> Option<(Rate, Rate)> {
        match self {
            Endpoint::System | Endpoint::Ideal(_) => None,
            Endpoint::Npu(npu) => Some((npu.memory_rate, npu.total_memory_rate)),
            Endpoint::Ace(ace) => Some((ace.memory_rate, ace.total_memory_rate)),
        }
    }

    /// Name of the model.
    pub fn name(&self) -> &'static str {
        match self {
            Endpoint::System => "system",
            Endpoint::Ideal(_) => "ideal",
            Endpoint::Npu(_) => "npu",
            Endpoint::Ace(_) => "ace",
        }
    }

    /// Its options, with their values here for defaults.
    pub fn options(&self) -> Vec<Listed> {
        match self {
            Endpoint::System => vec![],
            Endpoint::Ideal(ideal) => IdealEndpoint::PARAMETERS.iter().map(|field| field.listed(ideal)).collect(),
            Endpoint::Npu(npu) => NpuEndpoint::PARAMETERS.iter().map(|field| field.listed(npu)).collect(),
            Endpoint::Ace(ace) => AceEndpoint::PARAMETERS.iter().map(|field| field.listed(ace)).collect(),
        }
    }

    /// The specification that [`Endpoint::parse`] reads: what differs from the defaults.
    pub fn spec(&self) -> String {
        let models = Endpoint::models().map(|(model, _)| model);
        let plain = models.iter().find(|model| model.name() == self.name()).map_or(vec![], Endpoint::options);
        let own = self.options();
        let given = own.iter().zip(&plain).filter(|(own, plain)| own.default != plain.default);
        let given: Vec<_> = given.map(|(own, _)| format!("{}={}", own.parameter.key, own.default)).collect();
        if given.is_empty() { self.name().into() } else { format!("{}:{}", self.name(), given.join(",")) }
    }

    /// The size of a chunk, where it has one.
    pub fn chunk(&self) -> Option<Bytes> {
        match self {
            Endpoint::System => None,
            Endpoint::Ideal(ideal) => Some(ideal.chunk),
            Endpoint::Npu(npu) => Some(npu.chunk),
            Endpoint::Ace(ace) => Some(ace.chunk),
        }
    }

    /// Until what has been handed over can be used.
    pub fn delay(&self) -> Picos {
        if let Endpoint::Ideal(ideal) = self { ideal.delay_ps } else { 0 }
    }

    /// What computation has of the node while something is communicated (ACE, ISCA 2021, Table VI); where a slowdown is
    /// measured, as much less of everything.
    pub fn left(&self) -> Left {
        if let Endpoint::Npu(NpuEndpoint { slowdown: Some(thousandths), .. }) = self {
            let left = (1000, u64::from(*thousandths));
            return Left { memory: left, processors: left };
        }
        let processors = match self {
            Endpoint::Npu(npu) => ((npu.total_sms - npu.sms).into(), npu.total_sms.into()),
            _ => (1, 1),
        };
        Left { memory: self.memory().map_or((1, 1), |(own, all)| (all.0 - own.0, all.0)), processors }
    }
}

impl Left {
    /// Without so many millionths of all processors; none are left where that is more than there are.
    pub fn without_processors(self, ppm: u64) -> Left {
        const ALL: u64 = 1_000_000;
        let (left, all) = self.processors;
        Left { processors: ((left * ALL).saturating_sub(all.saturating_mul(ppm)), all * ALL), ..self }
    }
}

impl NpuEndpoint {
    /// Rate at which it reads: what of the memory it has, or what its processors manage.
    pub fn read_rate(&self) -> Rate {
        Rate(self.memory_rate.0.min(self.sm_rate.0.saturating_mul(self.sms.into())))
    }

    /// The option that decides this rate.
    pub fn read_option(&self) -> &'static str {
        if self.read_rate() < self.memory_rate { "sms" } else { "memory_gb_per_s" }
    }
}

/// What a part of an engine takes (ACE, ISCA 2021, Table IV: 28 nm).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnginePart {
    /// Its name.
    pub name: &'static str,
    /// Area in square micrometres.
    pub area_um2: f64,
    /// Power in milliwatts.
    pub power_mw: f64,
}

impl AceEndpoint {
    /// Area and power of its parts: those of the paper's engine, with 4 adders, 16 state machines and 4 MiB, scaled with
    /// the counts; the switch between them stays.
    pub fn parts(&self) -> [EnginePart; 4] {
        let of = |name, count: f64, area: f64, power: f64| EnginePart {
            name,
            area_um2: count * area,
            power_mw: count * power,
        };
        [
            of("alus", self.alus.into(), 16_112.0, 7.552),
            of("control", f64::from(self.fsms) / 16.0, 159_803.0, 128.0),
            of("sram", self.sram as f64 / f64::from(4 << 20), 5_113_696.0, 4_096.0),
            of("switch", 1.0, 1_084.0, 0.329),
        ]
    }

    /// Rate at which all its adders add.
    pub fn add_rate(&self) -> Rate {
        Rate(self.alu_rate.0.saturating_mul(self.alus.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_round_trip() {
        for spec in ["system", "ideal", "npu:memory_gb_per_s=128,sms=2", "ace:sram=8MiB,fsms=20,fsm_split=equal"] {
            let endpoint = Endpoint::parse(spec).unwrap();
            assert_eq!(endpoint.spec(), spec);
            assert_eq!(Endpoint::parse(&endpoint.spec()).unwrap(), endpoint);
        }
        assert_eq!(Endpoint::parse("ace-baseline-compopt").unwrap().spec(), "npu:memory_gb_per_s=128,sms=2");
        assert_eq!(Endpoint::parse("ace-baseline-commopt:sms=7").unwrap().spec(), "npu:sms=7");
    }

    #[test]
    fn mistakes_are_named() {
        let message = |spec| Endpoint::parse(spec).unwrap_err().message;
        assert!(message("npx").contains("did you mean 'npu'"));
        assert!(message("ace-baseline").contains("ace-baseline-commopt"));
        assert!(message("npu:sm=3").contains("did you mean 'sms'"));
        assert!(message("npu:sms=81").contains("sms=81 is more than all there are, total_sms=80"));
        assert!(message("ace:memory_gb_per_s=901").contains("memory_gb_per_s=901 is more"));
        assert!(message("ace:sram=32KiB").contains("not even one chunk"));
        assert!(message("ace:fsm_split=half").contains("fsm_split=half"));
        assert!(message("mine.json").ends_with("; a file of calibrate has one as \"endpoint\""));
        assert!(message("system:sms=3").contains("it has none"));
    }

    /// ACE (ISCA 2021), Table IV, whose totals are 5,339,031 um2 and 4,255 mW.
    #[test]
    fn area_and_power_of_an_engine() {
        let parts = AceEndpoint::default().parts();
        assert_eq!(parts.iter().map(|part| part.area_um2).sum::<f64>(), 5_339_031.0);
        assert!((parts.iter().map(|part| part.power_mw).sum::<f64>() - 4_254.537).abs() < 1e-9);
        let twice = AceEndpoint { sram: 8 << 20, fsms: 32, alus: 8, ..AceEndpoint::default() }.parts();
        assert_eq!(twice[2].area_um2, 2.0 * 5_113_696.0);
        assert_eq!((twice[1].power_mw, twice[0].area_um2, twice[3].area_um2), (256.0, 8.0 * 16_112.0, 1_084.0));
    }

    /// ACE (ISCA 2021), Table VI.
    #[test]
    fn what_is_left_for_computation() {
        let left = |spec| Endpoint::parse(spec).unwrap().left();
        let gb = 1_000_000_000;
        assert_eq!(left("ace"), Left { memory: (772 * gb, 900 * gb), processors: (1, 1) });
        assert_eq!(left("ace-baseline-compopt"), Left { memory: (772 * gb, 900 * gb), processors: (78, 80) });
        assert_eq!(left("ace-baseline-commopt"), Left { memory: (450 * gb, 900 * gb), processors: (74, 80) });
        assert_eq!(left("ideal"), Left { memory: (1, 1), processors: (1, 1) });
        let slower = (1000, 1350);
        assert_eq!(left("npu:slowdown=1.35"), Left { memory: slower, processors: slower });
        let relaying = |name: &'static str, ppm: u64| left(name).without_processors(ppm).processors;
        assert_eq!(relaying("ideal", 25_000), (975_000, 1_000_000));
        assert_eq!(relaying("ace-baseline-commopt", 25_000), (72_000_000, 80_000_000));
        assert_eq!([relaying("ideal", 1_000_000).0, relaying("ideal", u64::MAX).0], [0, 0]);
        let Endpoint::Npu(npu) = Endpoint::parse("npu:sms=2").unwrap() else { panic!() };
        assert_eq!(npu.read_rate(), Rate(2 * 79_680_000_000));
    }
}
