//! Ranks that compute slower than the others.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Domain, Stored, Value};
use antiphon_base::units::{Millionths, clip};
use std::ops::RangeInclusive;

/// As long as without.
pub const ONE: Millionths = 1_000_000;
/// Times as long, at most.
const MOST: f64 = 1000.0;

/// How many times as long some ranks compute: `0,1:1.04` and `0-3:1.02,7:1.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRanks {
    text: String,
    ranks: Vec<(RangeInclusive<u32>, Millionths)>,
}

impl SlowRanks {
    /// How it is written.
    pub const DOMAIN: Domain =
        Domain::Spec { form: "RANKS:TIMES, as in 0-3:1.02,7:1.1", check: |text| SlowRanks::parse(text).map(drop) };

    /// Ranks before a colon, and how many times as long they take behind it.
    ///
    /// # Errors
    /// [`Code::BadSpec`].
    pub fn parse(text: &str) -> Result<SlowRanks> {
        let refuse = |part: &str, what: &str| {
            let form = "write RANKS:TIMES, as in 0,1:1.04 or 0-3:1.02,7:1.1";
            Err(Error::new(Code::BadSpec, format!("'{}': {what}; {form}", clip(part))))
        };
        let (mut ranks, mut open) = (Vec::new(), Vec::new());
        for part in text.split(',') {
            let (of, times) = part.split_once(':').map_or((part, None), |(of, times)| (of, Some(times)));
            let (first, last) = of.split_once('-').unwrap_or((of, of));
            let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => open.push(first..=last),
                _ => return refuse(part, "no ranks"),
            }
            if let Some(times) = times {
                match times.parse::<f64>() {
                    Ok(times) if (1.0..=MOST).contains(&times) => {
                        let factor = (times * ONE as f64).round() as Millionths;
                        ranks.extend(open.drain(..).map(|of| (of, factor)));
                    }
                    _ => return refuse(part, "a rank takes 1 to 1000 times as long"),
                }
            }
        }
        if open.is_empty() { Ok(SlowRanks { text: text.into(), ranks }) } else { refuse(text, "no times at the end") }
    }

    /// How many times as long each of so many ranks computes.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for a rank that does not exist or is named twice.
    pub fn factors(&self, ranks: usize) -> Result<Vec<Millionths>> {
        let bad = |what: String| Err(Error::new(Code::BadSpec, format!("slow {}: {what}", clip(&self.text))));
        let mut factors = vec![None; ranks];
        for (of, factor) in &self.ranks {
            for rank in of.clone() {
                match factors.get_mut(rank as usize) {
                    None => return bad(format!("rank {rank} does not exist; there are {ranks}, from 0")),
                    Some(Some(_)) => return bad(format!("rank {rank} is there twice")),
                    Some(none) => *none = Some(*factor),
                }
            }
        }
        Ok(factors.into_iter().map(|factor| factor.unwrap_or(ONE)).collect())
    }
}

impl Stored for SlowRanks {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(self.text.clone())
    }

    fn read(value: &Value, _: &Domain) -> SlowRanks {
        SlowRanks::parse(value.text()).expect("values are checked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_factors() {
        let of = |text: &str, ranks| SlowRanks::parse(text).and_then(|slow| slow.factors(ranks));
        assert_eq!(of("0,1:1.04", 3).unwrap(), [1_040_000, 1_040_000, ONE]);
        assert_eq!(of("0-1:2,3:1.5", 4).unwrap(), [2_000_000, 2_000_000, ONE, 1_500_000]);
        for (text, what) in [
            ("0", "no times at the end"),
            ("", "no ranks"),
            ("a:2", "no ranks"),
            ("2-1:2", "no ranks"),
            ("+1:2", "no ranks"),
            ("0:0.5", "1 to 1000 times"),
            ("0:nan", "1 to 1000 times"),
            ("0:1001", "1 to 1000 times"),
            ("0:2,1", "no times at the end"),
            ("4:2", "rank 4 does not exist; there are 4"),
            ("0-4294967295:2", "rank 4 does not exist"),
            ("0-2:2,1:3", "rank 1 is there twice"),
        ] {
            let error = of(text, 4).unwrap_err();
            assert_eq!(error.code, Code::BadSpec, "{text}");
            assert!(error.message.contains(what), "{text}: {error}");
        }
    }
}
