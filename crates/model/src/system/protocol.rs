//! Protocols of a library: ways to move messages, of which a run takes the one that is through soonest.

use super::System;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Domain, Parameter, Stored, StoredScale, Value};
use antiphon_base::units::{Millionths, Picos, clip};
use serde::{Deserialize, Serialize};

/// What a collective costs at its start, and each of its messages, in one of a library's protocols.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// Before the first message of each rank, on top of [`System::launch_ps`].
    pub launch_ps: Picos,
    /// Latency of a message, that of its links up to [`System::link_latency_ps`] each included; instead of [`System::hand_off_ps`].
    pub step_ps: Picos,
    /// Share of a link's rate that it reaches.
    pub rate_ppm: Millionths,
}

/// The protocols that a system has; none: messages cost what its other parameters say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protocols(pub Vec<Protocol>);

/// All of a rate.
const WHOLE: Millionths = 1_000_000;
/// A run is simulated with each.
const MOST: usize = 8;
/// What each number of a protocol may be.
const NUMBERS: [Parameter; 3] = [
    Parameter { key: "launch_ns", domain: Domain::ns(0.0), meaning: "" },
    Parameter { key: "step_ns", domain: Domain::ns(0.0), meaning: "" },
    Parameter {
        key: "share",
        domain: Domain::Number { least: 1e-6, most: 1.0, unit: "", scale: StoredScale::Times(1e6) },
        meaning: "",
    },
];

impl Protocols {
    /// Values of the parameter `protocols`.
    pub const SPEC: Domain = Domain::Spec {
        form: "none or NAME:LAUNCH_NS:STEP_NS:SHARE[+...]",
        check: |text| Protocols::parse(text).map(|_| ()),
    };

    /// Protocols as [`Protocols::SPEC`] writes them.
    ///
    /// # Errors
    /// [`Code::BadSpec`], [`Code::BadSize`] for numbers.
    pub fn parse(text: &str) -> Result<Protocols> {
        let refuse = |what: String| {
            Err(Error::new(
                Code::BadSpec,
                format!("{what}; write none, or for example ll:6600:600:0.4+simple:8400:3400:1"),
            ))
        };
        if text == "none" {
            return Ok(Protocols::default());
        }
        let mut protocols: Vec<Protocol> = vec![];
        for part in text.split('+') {
            let fields: Vec<&str> = part.split(':').collect();
            let [name, numbers @ ..] = &fields[..] else { unreachable!("a part has a field") };
            let is_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            if name.is_empty() || name.len() > 32 || !name.chars().all(is_word) || numbers.len() != NUMBERS.len() {
                return refuse(format!("'{}' is no protocol", clip(part)));
            }
            if protocols.iter().any(|other| other.name == *name) || protocols.len() == MOST {
                return refuse(format!("protocol '{name}' is there twice, or is one of more than {MOST}"));
            }
            let read = |at: usize| -> Result<u64> {
                let Parameter { domain, .. } = &NUMBERS[at];
                let value =
                    NUMBERS[at].read(numbers[at]).map_err(|error| error.at(format_args!("'{}'", clip(part))))?;
                Ok(Stored::read(&value, domain))
            };
            let rate_ppm = read(2)? as Millionths;
            protocols.push(Protocol { name: (*name).into(), launch_ps: read(0)?, step_ps: read(1)?, rate_ppm });
        }
        Ok(Protocols(protocols))
    }

    /// The specification that [`Protocols::parse`] reads.
    pub fn spec(&self) -> String {
        let of = |protocol: &Protocol| {
            let numbers = [protocol.launch_ps, protocol.step_ps, protocol.rate_ppm.into()];
            let shown =
                NUMBERS.iter().zip(numbers).map(|(parameter, number)| number.show(&parameter.domain).to_string());
            [protocol.name.clone()].into_iter().chain(shown).collect::<Vec<_>>().join(":")
        };
        if self.0.is_empty() { "none".into() } else { self.0.iter().map(of).collect::<Vec<_>>().join("+") }
    }

    /// The least of something, if there are any.
    fn least(&self, of: impl Fn(&Protocol) -> Picos) -> Option<Picos> {
        self.0.iter().map(of).min()
    }

    /// The largest share of a rate that one of them reaches.
    pub(super) fn rate_ppm(&self) -> Millionths {
        self.0.iter().map(|protocol| protocol.rate_ppm).max().unwrap_or(WHOLE)
    }
}

impl Stored for Protocols {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(self.spec())
    }

    fn read(value: &Value, _: &Domain) -> Self {
        Protocols::parse(value.text()).expect("a specification is checked first")
    }
}

/// A system with several protocols costs the least that one of them does, which bounds rest on. What is simulated is a
/// variant with one of them.
impl System {
    /// The system with each of its protocols alone; itself where it has none.
    pub fn variants(&self) -> Vec<System> {
        let one = |protocol: &Protocol| System { protocols: Protocols(vec![protocol.clone()]), ..self.clone() };
        if self.protocols.0.len() < 2 { vec![self.clone()] } else { self.protocols.0.iter().map(one).collect() }
    }

    /// Name of its only protocol.
    pub fn protocol(&self) -> Option<&str> {
        let [protocol] = &self.protocols.0[..] else { return None };
        Some(&protocol.name)
    }

    /// From the start of a collective to the first message of each rank.
    pub fn launch_ps(&self) -> Picos {
        self.launch_ps + self.protocols.least(|protocol| protocol.launch_ps).unwrap_or(0)
    }

    /// From the arrival of a message's last packet to the start of what waited for it.
    pub fn hand_off_ps(&self) -> Picos {
        self.protocols.least(|protocol| protocol.step_ps).unwrap_or(self.hand_off_ps)
    }

    /// The same for flits, without what the routers at both ends take.
    pub fn router_hand_off_ps(&self) -> Picos {
        match self.protocols.0.is_empty() {
            true => self.router.hand_off_ps,
            false => self.hand_off_ps().saturating_sub(self.hand_off_ps.saturating_sub(self.router.hand_off_ps)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_round_trip_and_mistakes_are_named() {
        for spec in ["none", "ll:6600:600:0.365+simple:0:3400.5:1"] {
            assert_eq!(Protocols::parse(spec).unwrap().spec(), spec);
        }
        for (spec, what) in [
            ("ll:1:2", "'ll:1:2' is no protocol"),
            ("l l:1:2:1", "is no protocol"),
            ("ll:1:2:0", "'ll:1:2:0': share=0; expected a number from 1e-6 to 1"),
            ("ll:-1:2:1", "launch_ns=-1"),
            ("ll:1:2:1+ll:1:2:1", "protocol 'll' is there twice"),
        ] {
            let message = Protocols::parse(spec).unwrap_err().message;
            assert!(message.contains(what), "{spec}: {message}");
        }
    }

    #[test]
    fn several_protocols_cost_the_least_of_each() {
        let mut system = System::default();
        system.set("launch_ns", "1000").unwrap();
        system.set("protocols", "ll:6:7:0.5+simple:8:3:1").unwrap();
        let costs = |system: &System| {
            let link = crate::fabric::Link::new(0, 1, "");
            (system.protocol().map(String::from), system.launch_ps(), system.hand_off_ps(), system.rate_of(&link).0)
        };
        assert_eq!(costs(&system), (None, 1_006_000, 3_000, 25_000_000_000));
        let [ll, simple] = &system.variants()[..] else { panic!("one for each") };
        assert_eq!(costs(ll), (Some("ll".into()), 1_006_000, 7_000, 12_500_000_000));
        assert_eq!(costs(simple), (Some("simple".into()), 1_008_000, 3_000, 25_000_000_000));
        // What a link takes up to `link_latency_ns` is in the step.
        let link = |latency_ps| crate::fabric::Link { latency: latency_ps, ..crate::fabric::Link::new(0, 1, "") };
        assert_eq!([None, Some(5_000), Some(90_000)].map(|latency| ll.latency_of(&link(latency))), [0, 0, 70_000]);
    }
}
