//! Systems: the parameters of a platform, shared by bounds and simulators. Presets hold a paper's.

mod arbitration;
mod endpoint;
mod energy;
mod forwarding;
mod interface;
mod packet;
mod preset;
mod processor;
mod protocol;
mod router;

pub use arbitration::Arbitration;
pub use endpoint::{
    AceEndpoint, ENDPOINT_PRESETS, Endpoint, EnginePart, FsmSplit, IdealEndpoint, Left, NpuEndpoint, SramSplit,
};
pub use energy::{Attojoules, EnergyModel};
pub use forwarding::Forwarding;
pub use interface::{Assignment, NetworkInterface};
pub use packet::PacketFormat;
pub use preset::{PRESETS, SystemPreset};
pub use processor::{Dataflow, Processor, Roofline, SystolicArray};
pub use protocol::{Protocol, Protocols};
pub use router::{Allocator, Ejection, RouterModel, Switching};

use crate::fabric::{Link, Routing};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::parameter::{Choice, Domain, Field, StoredScale, Value, parameters};
use antiphon_base::units::{Bytes, Millionths, Picos, Rate, clip, clip_error};

/// Latency of a wire, stored as femtoseconds a millimetre.
const PS_PER_MM: Domain = Domain::Number { least: 0.0, most: 1e6, unit: "ps/mm", scale: StoredScale::Times(1e3) };

parameters! {
    /// The parameters of a platform. Times in picoseconds, rates in bytes per second.
    pub struct System of System[] {
        /// Preset name.
        pub name: String = PRESETS[0].name.into(),
        /// What it models and where its numbers are from.
        pub description: String = PRESETS[0].description.into(),
        /// Rate of links that give none.
        #[parameter("link_rate_gb_per_s", Domain::GB_PER_S, "alpha-beta model: Hockney, Parallel Computing 1994")]
        pub link_rate: Rate = Rate::gb_per_s(25),
        /// Propagation latency of links that give none.
        #[parameter("link_latency_ns", Domain::ns(0.0), "alpha-beta model: Hockney, Parallel Computing 1994")]
        pub link_latency_ps: Picos = 20_000,
        /// What a millimetre of wire adds to the latency of a link that says its length.
        #[parameter("wire_latency_ps_per_mm", PS_PER_MM, "speed of light in a dielectric of permittivity 4: half of that in vacuum")]
        pub wire_fs_per_mm: u64 = 6_670,
        /// What a millimetre of a chip's edge carries, both ways together.
        #[parameter("beachfront_gb_per_s_per_mm", Domain::Number { least: 1e-3, most: 1e6, unit: "GB/s/mm", scale: StoredScale::Times(1e9) }, "UCIe 1.0 (2022): 224 in a standard package at 32 GT/s; 1317 in an advanced one")]
        pub beachfront_per_mm: Rate = Rate::gb_per_s(224),
        /// Times of flits and reductions are rounded up to whole periods of this clock; 0: there is none.
        #[parameter("clock_ns", Domain::Or(0.0, &Domain::ns(0.001)), "TTO artifact: BookSim's cycle")]
        pub clock_ps: Option<Picos> = None,
        /// Which packet gets a link next, at fidelity packet: the one that came first, or one of each input in turn.
        #[parameter("link_arbitration", Domain::Choice(Arbitration::NAMES), "TTO artifact: arrival; ARIES (DATE 2024), section III: round-robin")]
        pub arbitration: Arbitration = Arbitration::Arrival,
        /// When a packet goes on to its next link, at fidelity packet: as a whole, or from its first flit on.
        #[parameter("link_switching", Domain::Choice(Forwarding::NAMES), "TTO artifact: store-and-forward; Kermani and Kleinrock (1979): cut-through")]
        pub forwarding: Forwarding = Forwarding::StoreAndForward,
        /// Which of equally short ways through switches messages take: shared, the first, or by a hash.
        #[parameter("routing", Routing::SPEC, "Hopps, RFC 2992 (2000): hash")]
        pub routing: Routing = Routing::Spread,
        /// Packet format.
        pub packet: PacketFormat = PacketFormat::default(),
        /// Network interfaces.
        pub interface: NetworkInterface = NetworkInterface::default(),
        /// Routers, for flits.
        pub router: RouterModel = RouterModel::default(),
        /// From the arrival of a message's last packet to the start of what waited for it.
        #[parameter("hand_off_ns", Domain::ns(0.0), "TTO artifact; the latency of a step in C-Cube's cost model")]
        pub hand_off_ps: Picos = 10_000,
        /// From the start of a collective to the first message of each rank.
        #[parameter("launch_ns", Domain::ns(0.0), "NCCL 2.30, src/graph/tuning.cc: base latencies; the rest is the machine's")]
        pub launch_ps: Picos = 0,
        /// Ways to move messages: launch and latency of a message, and the share of a link's rate that it reaches; a run takes the fastest.
        #[parameter("protocols", Protocols::SPEC, "NCCL 2.30, src/graph/tuning.cc: LL, LL128, Simple")]
        pub protocols: Protocols = Protocols::default(),
        /// Rate at which a rank adds received data to its own, one message at a time; inf: that is free.
        #[parameter("reduce_rate_gb_per_s", Domain::Or(f64::INFINITY, &Domain::GB_PER_S), "TTO artifact: sums of its PEs")]
        pub reduce_rate: Option<Rate> = None,
        /// What computes on a rank, for training.
        #[parameter("processor", Processor::SPEC, "SCALE-Sim; Roofline (Williams et al., CACM 2009)")]
        pub processor: Processor = Processor::default(),
        /// What stands between a rank's memory and its links.
        #[parameter("endpoint", Endpoint::SPEC, "ACE (ISCA 2021), Table VI")]
        pub endpoint: Endpoint = Endpoint::System,
        /// Share of a rank's processors that each stream takes which a schedule sends through it, while exchanges are under way in training.
        #[parameter("relay_processors", Domain::share(1e6), "C-Cube (HPCA 2023), section IV-A: a kernel for each way of a detour")]
        pub relay_processors_ppm: Millionths = 0,
        /// Energy and static power.
        pub energy: EnergyModel = EnergyModel::default(),
    }
}

/// Packets of one message: how many, and flits in each (header included).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packets {
    /// Number of packets, at least 1.
    pub count: u64,
    /// Flits in each packet, header included.
    pub flits: u64,
}

impl System {
    /// A preset by name.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    pub fn preset(name: &str) -> Result<System> {
        let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
            let names = PRESETS.map(|preset| preset.name);
            let what = format!("no system '{}'{}; known: {}", clip(name), nearest(name, names), names.join(", "));
            return Err(Error::new(Code::UnknownName, what));
        };
        let mut system = System { name: name.into(), description: preset.description.into(), ..System::default() };
        for setting in preset.settings {
            let (key, text) = setting.split_once('=').expect("settings are key=value");
            system.set(key, text)?;
        }
        Ok(system)
    }

    /// A system from JSON; what is left out has the value of `generic`.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is no system, and as [`System::check`].
    pub fn from_json(text: &str) -> Result<System> {
        let system: System = serde_json::from_str(text)
            .map_err(|error| Error::new(Code::BadFile, format!("system: {}", clip_error(&error))))?;
        system.check()?;
        Ok(system)
    }

    /// Everything users may set.
    pub fn parameters() -> impl Iterator<Item = &'static Field<System>> {
        [
            System::PARAMETERS,
            PacketFormat::PARAMETERS,
            NetworkInterface::PARAMETERS,
            RouterModel::PARAMETERS,
            EnergyModel::PARAMETERS,
        ]
        .into_iter()
        .flatten()
    }

    /// What users may set under `key`.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known key.
    pub fn parameter(key: &str) -> Result<&'static Field<System>> {
        System::parameters().find(|field| field.parameter.key == key).ok_or_else(|| {
            let known = || System::parameters().map(|field| field.parameter.key);
            // The unit is easily forgotten.
            let longer = known().find(|known| key.len() > 2 && known.starts_with(key));
            let hint = longer.map_or_else(|| nearest(key, known()), |known| format!("; did you mean '{known}'?"));
            let what =
                format!("a system has no parameter '{}'{hint}; 'antiphon systems generic' lists them", clip(key));
            Error::new(Code::UnknownName, what)
        })
    }

    /// Sets a parameter from text, as in `key=text`.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known key or name; [`Code::BadSize`] with key, value and range; for a
    /// processor as [`Processor::parse`].
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        let value = System::parameter(key)?.parameter.read(text).map_err(|error| error.at("system"))?;
        self.assign(key, &value)
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// As [`System::set`].
    pub fn assign(&mut self, key: &str, value: &Value) -> Result<()> {
        System::parameter(key)?.set(self, value).map_err(|error| error.at("system"))
    }

    /// Refuses parameters out of range, with which something would divide by zero or run for ever.
    ///
    /// # Errors
    /// As [`System::set`].
    pub fn check(&self) -> Result<()> {
        System::parameters()
            .try_for_each(|field| field.parameter.check(&field.get(self)))
            .map_err(|error| error.at("system"))
    }

    /// Effective rate of a link.
    pub fn rate_of(&self, link: &Link) -> Rate {
        let rate = link.rate.unwrap_or(self.link_rate).0;
        let share = u128::from(link.speed_permille) * u128::from(self.protocols.rate_ppm());
        Rate(((u128::from(rate) * share / 1_000_000_000) as u64).max(1))
    }

    /// What a link takes from its start to its end: its latency, and that of its wire where it says a length.
    pub fn propagation(&self, link: &Link) -> Picos {
        // Micrometres times femtoseconds a millimetre are 1e-6 ps.
        let wire = (u64::from(link.length_um.unwrap_or(0)) * self.wire_fs_per_mm + 500_000) / 1_000_000;
        link.latency.unwrap_or(self.link_latency_ps) + wire
    }

    /// The same, less what is part of a protocol's step.
    pub fn latency_of(&self, link: &Link) -> Picos {
        let latency = self.propagation(link);
        if self.protocols.0.is_empty() { latency } else { latency.saturating_sub(self.link_latency_ps) }
    }

    /// Time one flit occupies a link, rounded up to a picosecond.
    pub fn flit_time(&self, link: &Link) -> Picos {
        self.flit_ticks(link, 0)
    }

    /// Time one flit occupies a link in units of 2^-`bits` picoseconds, rounded up; whole clocks on a system with one.
    pub fn flit_ticks(&self, link: &Link, bits: u32) -> u64 {
        self.ticks_at(self.rate_of(link), bits)
    }

    /// As [`System::flit_ticks`], for links that act as one channel of their summed rate; of the rates in whole clocks
    /// on a system with one.
    pub fn channel_ticks<'a>(&self, links: impl Iterator<Item = &'a Link>, bits: u32) -> u64 {
        let flit = u128::from(self.packet.flit_bytes) * 1_000_000_000_000;
        let rate = |link: &Link| match self.clock_ps {
            Some(_) => flit.div_ceil(u128::from(self.flit_time(link)).max(1)) as u64,
            None => self.rate_of(link).0,
        };
        self.ticks_at(Rate(links.map(rate).fold(0, u64::saturating_add)), bits)
    }

    fn ticks_at(&self, rate: Rate, bits: u32) -> u64 {
        let scaled = |picos: u128| u64::try_from(picos << bits).unwrap_or(u64::MAX);
        let rate = u128::from(rate.0.max(1));
        let picos = u128::from(self.packet.flit_bytes) * 1_000_000_000_000;
        match self.clock_ps.map(u128::from) {
            Some(clock) => scaled(picos.div_ceil(rate * clock) * clock),
            None => u64::try_from((picos << bits).div_ceil(rate)).unwrap_or(u64::MAX),
        }
    }

    /// At which a link carries flits, in bytes per second.
    pub fn effective_rate(&self, link: &Link) -> f64 {
        match self.clock_ps {
            Some(_) => self.packet.flit_bytes as f64 * 1e12 / self.flit_time(link) as f64,
            None => self.rate_of(link).0 as f64,
        }
    }

    /// Rates of links that this system's clock rounds down: as written, and at which they carry flits, in bytes per
    /// second; each once, slowest first. Empty without a clock. O(links).
    pub fn rounded_rates(&self, links: &[Link]) -> Vec<(Rate, f64)> {
        let Some(clock) = self.clock_ps else { return vec![] };
        let effective = |link: &Link| {
            let rate = self.rate_of(link);
            let cycle_bytes = u128::from(rate.0) * u128::from(clock);
            let whole = (u128::from(self.packet.flit_bytes) * 1_000_000_000_000).is_multiple_of(cycle_bytes);
            (!whole).then(|| (rate, self.effective_rate(link)))
        };
        let mut rates: Vec<_> = links.iter().filter_map(effective).collect();
        rates.sort_by_key(|&(rate, _)| rate);
        rates.dedup_by_key(|&mut (rate, _)| rate);
        rates
    }

    /// Packets of a message of `bytes`: all of equal size, as few as possible.
    pub fn packets(&self, bytes: Bytes) -> Packets {
        let format = &self.packet;
        let count = bytes.div_ceil(format.payload_bytes).max(1);
        let payload = if format.fixed_size { format.payload_bytes } else { bytes.div_ceil(count) };
        Packets { count, flits: payload.div_ceil(format.flit_bytes).max(1) + format.header_flits }
    }

    /// Fastest payload rate of a link in bytes per second, as the exact fraction
    /// `numerator / denominator`: the best packets back to back, header flits not counted as payload.
    pub fn payload_rate(&self, link: &Link) -> (u128, u128) {
        let format = &self.packet;
        // A packet that just fills its flits can beat a full one with a flit hardly filled.
        let filled = format.payload_bytes / format.flit_bytes * format.flit_bytes;
        let rate = |payload: Bytes| (payload as u128, self.packets(payload).flits as u128);
        let mut best = rate(format.payload_bytes);
        if filled > 0 && !format.fixed_size && rate(filled).0 * best.1 > best.0 * rate(filled).1 {
            best = rate(filled);
        }
        match self.clock_ps {
            Some(_) => (best.0 * 1_000_000_000_000, (self.flit_time(link) as u128 * best.1).max(1)),
            None => (best.0 * self.rate_of(link).0 as u128, format.flit_bytes as u128 * best.1),
        }
    }

    /// At which a rank, or its engine, adds what it has received, one message at a time; free if `None`.
    pub fn adding_rate(&self) -> Option<Rate> {
        match self.endpoint {
            Endpoint::System => self.reduce_rate,
            Endpoint::Ideal(_) | Endpoint::Npu(_) => None,
            Endpoint::Ace(ace) => Some(ace.add_rate()),
        }
    }

    /// Time a rank takes to add `bytes` of received data to its own.
    pub fn reduce_time(&self, bytes: Bytes) -> Picos {
        let Some(rate) = self.reduce_rate else { return 0 };
        let time = rate.time_for(bytes);
        match self.clock_ps {
            Some(clock) => time.div_ceil(clock).saturating_mul(clock),
            None => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::parameter::Parameter;

    #[test]
    fn tto_packet_takes_357_ns() {
        let system = System::preset("tto").unwrap();
        let link = Link::new(0, 1, "x");
        let packets = system.packets(1);
        assert_eq!(packets, Packets { count: 1, flits: 17 });
        assert_eq!(packets.flits * system.flit_time(&link), 357_000);
        assert_eq!(system.payload_rate(&link), (8192 * 1_000_000_000_000, 357_000));
        assert_eq!(system.reduce_time(4 * 8192), 2_000);
    }

    /// From node 0 of a torus of 4x4 at 2 mm: 6.67 ps and 0.121 pJ a bit for each millimetre beside 20 ns and 1.17 pJ.
    #[test]
    fn wires_take_time_and_energy() {
        let system = System::preset("generic").unwrap();
        let of = |spec: &str| {
            let fabric = crate::fabric::Fabric::parse(spec).unwrap();
            let out = fabric.out_links(0).iter().map(|&id| fabric.link(id));
            out.map(|link| (system.latency_of(link), system.link_energy(link) - 9_360_000)).collect::<Vec<_>>()
        };
        let [two, four, six] = [(20_013, 1_937_500), (20_027, 3_875_000), (20_040, 5_812_500)];
        assert_eq!(of("torus:4x4:pitch=2mm"), [six, two, six, two]);
        assert_eq!(of("torus:4x4:pitch=2mm,folded"), [two, four, two, four]);
        assert_eq!(of("torus:4x4"), [(20_000, 0); 4]);
        // Of a protocol's step only the link's own latency is a part.
        let mut nccl = System::preset("h100-nccl").unwrap();
        let link = Link { length_um: Some(3_000), ..Link::new(0, 1, "x") };
        assert_eq!((nccl.propagation(&link), nccl.latency_of(&link)), (700_020, 20));
        nccl.set("wire_latency_ps_per_mm", "0").unwrap();
        assert_eq!(nccl.latency_of(&link), 0);
    }

    #[test]
    fn the_best_packet_counts() {
        let mut system = System::preset("generic").unwrap();
        system.packet = PacketFormat { payload_bytes: 65, flit_bytes: 64, header_flits: 1, fixed_size: false };
        let link = Link::new(0, 1, "x");
        // 128 bytes go as two packets of 64, faster than one of 65 and one of 63 would.
        assert_eq!(system.packets(128), Packets { count: 2, flits: 2 });
        assert_eq!(system.payload_rate(&link), (64 * 25_000_000_000, 2 * 64));
        system.packet.fixed_size = true;
        assert_eq!(system.payload_rate(&link), (65 * 25_000_000_000, 3 * 64));
    }

    #[test]
    fn unknown_names_bring_the_nearest() {
        assert!(System::preset("ttoo").unwrap_err().message.contains("did you mean 'tto'"));
        let error = System::default().set("interface", "4").unwrap_err();
        assert_eq!(error.code, Code::UnknownName);
        assert!(error.message.contains("no parameter 'interface'; did you mean 'interfaces'?"), "{error}");
    }

    #[test]
    fn presets_replace_defaults() {
        for preset in PRESETS {
            let system = System::preset(preset.name).unwrap();
            assert_eq!((system.name.as_str(), system.description.as_str()), (preset.name, preset.description));
            system.check().unwrap();
            // A setting that changes nothing would say that the default is another.
            for setting in preset.settings {
                let field = System::parameter(setting.split_once('=').unwrap().0).unwrap();
                assert_ne!(field.get(&system), field.get(&System::default()), "{}: {setting}", preset.name);
            }
        }
    }

    #[test]
    fn every_parameter_is_set_shown_and_checked() {
        let mut keys = vec![];
        for field in System::parameters() {
            let Parameter { key, domain, meaning } = field.parameter;
            assert!(!keys.contains(&key) && meaning.ends_with('.') && !field.source.is_empty(), "{key}");
            keys.push(key);
            let mut texts: Vec<String> = domain.choices().iter().map(Value::to_string).collect();
            texts.extend(domain.range().into_iter().flat_map(|(least, most)| [least, most]).map(|x| x.to_string()));
            for text in texts.iter().chain([&field.write(&System::default())]) {
                let mut system = System::default();
                system.set(key, text).unwrap();
                assert_eq!(field.parameter.read(&field.write(&system)), Ok(field.get(&system)), "{key}={text}");
                // Nothing else has changed.
                field.set(&mut system, &field.get(&System::default())).unwrap();
                assert_eq!(system, System::default(), "{key}");
            }
            for text in ["", "x", "nan", "-1", "1e300"] {
                let error = System::default().set(key, text).unwrap_err();
                assert!(error.message.starts_with(&format!("system: {key}")), "{error}");
            }
        }
    }

    #[test]
    fn json_keeps_its_keys_and_is_checked() {
        for preset in PRESETS {
            let system = System::preset(preset.name).unwrap();
            let json = serde_json::to_value(&system).unwrap();
            assert_eq!(System::from_json(&json.to_string()), Ok(system));
            for field in System::parameters() {
                assert!(json.pointer(&format!("/{}", field.json.replace('.', "/"))).is_some(), "{}", field.json);
            }
        }
        assert_eq!(System::from_json("{}"), Ok(System::default()));
        let refused = |json: &str| System::from_json(json).unwrap_err();
        assert_eq!(refused(r#"{"link_rat": 1}"#).code, Code::BadFile);
        let error = refused(r#"{"packet": {"flit_bytes": 0}}"#);
        assert_eq!(
            (error.code, error.message.as_str()),
            (Code::BadSize, "system: flit_bytes=0; expected a size from 1 B to 1GiB")
        );
        let error = refused(r#"{"processor": {"systolic": {"clock_ps": 0}}}"#);
        assert!(error.message.contains("clock-ghz=inf; expected a number from 0.001 to 1000 GHz"), "{error}");
    }
}
