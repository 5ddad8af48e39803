//! Links that are slower, or farther, than they should be: drawn from distributions, one fabric a draw.

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{PICOS_PER_NANO, clip, parse_decimal};
use antiphon_model::fabric::{Fabric, link};
use antiphon_model::system::System;
use antiphon_noc::traffic::Random;

/// Names of the distributions, with what they are given.
const FORMS: &str = "0.9, uniform:0.5..1, normal:0.9,0.05 (mean, standard deviation) or exponential:20 (mean)";

/// The distribution of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Distribution {
    /// Always the same.
    Fixed(f64),
    /// Every number from one to another alike.
    Uniform(f64, f64),
    /// Normal, by its mean and standard deviation.
    Normal(f64, f64),
    /// Exponential, by its mean.
    Exponential(f64),
}

impl Distribution {
    /// From text such as `0.9`, `uniform:0.5..1`, `normal:0.9,0.05` or `exponential:20`; `what` is called so in errors. Means
    /// and ends are from `least` to `most`.
    ///
    /// # Errors
    /// [`Code::BadSpec`].
    fn parse(what: &str, text: &str, least: f64, most: f64) -> Result<Distribution> {
        let bad = |why: String| Error::new(Code::BadSpec, format!("{what} '{}': {why}", clip(text)));
        let number = |text: &str| {
            let number = parse_decimal(text.trim()).filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| bad(format!("'{}' is no number from {least} to {most}", clip(text))))
        };
        let Some((name, rest)) = text.split_once(':') else {
            return match text.trim().starts_with(|first: char| first.is_ascii_alphabetic()) {
                true => Err(bad(format!("it is no distribution; give {FORMS}"))),
                false => number(text).map(Distribution::Fixed),
            };
        };
        match name {
            "uniform" => {
                let (low, high) =
                    rest.split_once("..").ok_or_else(|| bad("uniform has two ends; write uniform:0.5..1".into()))?;
                let (low, high) = (number(low)?, number(high)?);
                if low > high {
                    return Err(bad("its first end is above its second".into()));
                }
                Ok(Distribution::Uniform(low, high))
            }
            "normal" => {
                let (mean, deviation) = rest
                    .split_once(',')
                    .ok_or_else(|| bad("normal has a mean and a standard deviation; write normal:0.9,0.05".into()))?;
                let spread = parse_decimal(deviation.trim()).filter(|spread| (0.0..=most).contains(spread));
                let spread =
                    spread.ok_or_else(|| bad(format!("its standard deviation is no number from 0 to {most}")))?;
                Ok(Distribution::Normal(number(mean)?, spread))
            }
            "exponential" => number(rest).map(Distribution::Exponential),
            _ => {
                let hint = nearest(name, ["uniform", "normal", "exponential"]);
                Err(bad(format!("no distribution '{}'{hint}; give {FORMS}", clip(name))))
            }
        }
    }

    /// The number for two numbers that are drawn from 0 to 1, both ends excluded.
    fn at(self, one: f64, other: f64) -> f64 {
        match self {
            Distribution::Fixed(number) => number,
            Distribution::Uniform(low, high) => low + (high - low) * one,
            // G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", 1958.
            Distribution::Normal(mean, deviation) => {
                mean + deviation * (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
            }
            Distribution::Exponential(mean) => -mean * one.ln(),
        }
    }
}

/// How links differ from what a fabric and a system say.
#[derive(Debug, Clone, PartialEq)]
pub struct Variation {
    /// What rates are multiplied by; below 0.001 it counts as that, above 1 as 1.
    slow: Option<Distribution>,
    /// What is added to latencies, in nanoseconds; below 0 it counts as 0.
    latency_ns: Option<Distribution>,
    /// Which share of the links this is for, each alike.
    share: f64,
    seed: u64,
}

/// The fabric of a draw.
#[derive(Debug, Clone, PartialEq)]
pub struct VariedFabric {
    /// The same fabric, with the same name.
    pub fabric: Fabric,
    /// By link: what its rate was multiplied by.
    pub speeds: Vec<f64>,
    /// By link: what was added to its latency, in nanoseconds.
    pub added_ns: Vec<f64>,
}

impl Variation {
    /// From the texts of distributions, at least one of which is given.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for what is no distribution, or neither; [`Code::BadSize`] for a share that is not above 0 and at most 1.
    pub fn new(slow: Option<&str>, latency: Option<&str>, share: f64, seed: u64) -> Result<Variation> {
        if slow.is_none() && latency.is_none() {
            let what = "nothing varies: give a distribution of speeds (slow) or of added latencies (latency)";
            return Err(Error::new(Code::BadSpec, what));
        }
        if !(share > 0.0 && share <= 1.0) {
            return Err(Error::new(Code::BadSize, format!("share is {share}; expected a number above 0, at most 1")));
        }
        let slow = slow.map(|text| Distribution::parse("slow", text, 0.001, 1.0)).transpose()?;
        let latency =
            latency.map(|text| Distribution::parse("latency", text, 0.0, link::MAX_LATENCY_NS / 1e3)).transpose()?;
        Ok(Variation { slow, latency_ns: latency, share, seed })
    }

    /// The fabric of a draw. Links of a draw differ independently, each way of a cable by itself. Whatever the distributions
    /// are, a draw takes the same random numbers.
    pub fn draw(&self, fabric: &Fabric, system: &System, number: u64) -> VariedFabric {
        let mut random = Random::new(self.seed, number);
        let mut varied = VariedFabric {
            fabric: fabric.clone(),
            speeds: vec![1.0; fabric.links.len()],
            added_ns: vec![0.0; fabric.links.len()],
        };
        let columns = varied.speeds.iter_mut().zip(&mut varied.added_ns);
        for (link, (speed, added_ns)) in varied.fabric.links.iter_mut().zip(columns) {
            let [chosen, a, b, c, d] = [(); 5].map(|()| (f64::from(random.bits()) + 0.5) / 2f64.powi(32));
            if chosen > self.share {
                continue;
            }
            if let Some(slow) = self.slow {
                let before = link.speed_permille;
                let factor = slow.at(a, b).clamp(0.001, 1.0);
                link.speed_permille = ((f64::from(before) * factor).round() as u32).max(1);
                *speed = f64::from(link.speed_permille) / f64::from(before);
            }
            if let Some(latency) = self.latency_ns {
                let most = link::MAX_LATENCY_NS / 1e3;
                let added_ps = (latency.at(c, d).clamp(0.0, most) * PICOS_PER_NANO as f64).round() as u64;
                link.latency = Some(system.latency_of(link) + added_ps);
                *added_ns = added_ps as f64 / PICOS_PER_NANO as f64;
            }
        }
        varied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_model::collective::{Collective, Kind};
    use antiphon_plan::algorithm::build;
    use antiphon_proof::prove;
    use antiphon_sim::{Fidelity, simulate};

    fn varied(fabric: &Fabric, slow: Option<&str>, latency: Option<&str>, share: f64, draw: u64) -> VariedFabric {
        Variation::new(slow, latency, share, 1).unwrap().draw(fabric, &System::default(), draw)
    }

    #[test]
    fn distributions_without_width_change_nothing() {
        let fabric = Fabric::parse("mesh:3x3,slow=0-1:0.5").unwrap();
        let system = System::default();
        let all_reduce = Collective::new(Kind::AllReduce);
        let ring = prove(&fabric, build(&fabric, &system, all_reduce, 1 << 16, "combs").unwrap()).unwrap();
        let time = |fabric: &Fabric| simulate(fabric, &ring, &system, Fidelity::Packet, &mut |_| true).unwrap().time_ps;
        for (slow, latency) in [("1", "0"), ("uniform:1..1", "uniform:0..0"), ("normal:1,0", "normal:0,0")] {
            let same = varied(&fabric, Some(slow), Some(latency), 1.0, 3);
            assert_eq!(time(&same.fabric), time(&fabric));
            assert_eq!(same.speeds, vec![1.0; 24]);
        }
        let slower = varied(&fabric, Some("0.5"), None, 1.0, 0);
        let first = slower.fabric.link_between(0, 1).unwrap();
        assert_eq!(slower.fabric.link(first).speed_permille, 250);
        assert!(time(&slower.fabric) > time(&fabric));
    }

    #[test]
    fn draws_are_as_the_distribution_says_and_repeat() {
        let fabric = Fabric::parse("torus:16x16").unwrap();
        let one = varied(&fabric, Some("normal:0.8,0.05"), Some("exponential:20"), 1.0, 7);
        assert_eq!(one, varied(&fabric, Some("normal:0.8,0.05"), Some("exponential:20"), 1.0, 7));
        assert_ne!(one, varied(&fabric, Some("normal:0.8,0.05"), Some("exponential:20"), 1.0, 8));
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
        let off =
            |list: &[f64], middle: f64| mean(&list.iter().map(|each| (each - middle).powi(2)).collect::<Vec<_>>());
        assert!((mean(&one.speeds) - 0.8).abs() < 0.006, "{}", mean(&one.speeds));
        assert!((off(&one.speeds, 0.8).sqrt() - 0.05).abs() < 0.005);
        assert!((mean(&one.added_ns) - 20.0).abs() < 2.5, "{}", mean(&one.added_ns));
        let flat = varied(&fabric, Some("uniform:0.5..0.7"), None, 1.0, 7);
        assert!(flat.speeds.iter().all(|speed| (0.5..=0.7).contains(speed)));
        assert!((mean(&flat.speeds) - 0.6).abs() < 0.006);
        let some = varied(&fabric, Some("0.5"), None, 0.1, 7);
        let slow = some.speeds.iter().filter(|&&speed| speed == 0.5).count();
        assert!((60..=150).contains(&slow), "{slow} of 1,024 links");
    }

    #[test]
    fn bad_ones_are_refused_in_one_line() {
        for (slow, why) in [
            ("uniform:1..0.5", "its first end is above its second"),
            ("uniform:0.5", "uniform has two ends"),
            ("uniform:0..1", "'0' is no number from 0.001 to 1"),
            ("normal:0.9", "normal has a mean and a standard deviation"),
            ("normal:0.9,-1", "its standard deviation is no number from 0 to 1"),
            ("nomal:0.9,1", "did you mean 'normal'?"),
            ("fast", "it is no distribution"),
            ("2", "'2' is no number from 0.001 to 1"),
            ("nan", "it is no distribution"),
            ("", "'' is no number"),
        ] {
            let error = Variation::new(Some(slow), None, 1.0, 1).unwrap_err();
            assert!(error.code == Code::BadSpec && error.message.contains(why), "{slow}: {error}");
        }
        assert!(Variation::new(None, Some("normal:5,-1"), 1.0, 1).is_err());
        assert!(Variation::new(None, None, 1.0, 1).unwrap_err().message.contains("nothing varies"));
        for share in [0.0, -1.0, 1.5, f64::NAN] {
            assert_eq!(Variation::new(Some("0.5"), None, share, 1).unwrap_err().code, Code::BadSize);
        }
    }
}
