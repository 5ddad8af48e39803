//! JSON form of a schedule. The schema is documented in `docs/reference/schedule.md`.

use super::Schedule;
use crate::fabric::Fabric;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip_error;
use antiphon_base::watch::{Watch, interruptible};
use serde::de::{self, DeserializeOwned, IgnoredAny, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::{self, BufReader, Read};

/// Longest accepted JSON text.
const MAX_JSON_BYTES: usize = 1 << 30;

impl Schedule {
    /// The schedule as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a schedule has only string keys")
    }

    /// A schedule from JSON, checked on its own or, if there is one, for a `fabric` (not verified).
    ///
    /// # Errors
    /// [`Code::BadFile`] with line and column, or as [`Schedule::check`].
    pub fn from_json(text: &str, fabric: Option<&Fabric>) -> Result<Schedule> {
        Schedule::from_json_watched(text, fabric, Watch::default())
    }

    /// [`Schedule::from_json`], reporting to `watch`.
    ///
    /// # Errors
    /// As [`Schedule::from_json`]; [`Code::Interrupted`].
    pub fn from_json_watched(text: &str, fabric: Option<&Fabric>, watch: Watch) -> Result<Schedule> {
        if text.len() > MAX_JSON_BYTES {
            return Err(Error::new(Code::TooLarge, "schedule: JSON text is larger than 1 GiB"));
        }
        let schedule: Schedule = read(text, watch).map_err(|error| match read::<Version>(text, watch) {
            Ok(Version { schema }) if error.code == Code::BadFile => {
                Schedule::check_schema(&schema).err().unwrap_or(error)
            }
            _ => error,
        })?;
        match fabric {
            Some(fabric) => schedule.check(fabric)?,
            None => schedule.check_alone()?,
        }
        Ok(schedule)
    }
}

/// What JSON says that it is, whatever else it has: another version has other fields.
#[derive(Deserialize)]
#[serde(expecting = "the object of a schedule")]
struct Version {
    schema: String,
}

/// A key that files still may have, but with nothing in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Withdrawn;

impl<'de> Deserialize<'de> for Withdrawn {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_any(Withdrawn)
    }
}

impl<'de> Visitor<'de> for Withdrawn {
    type Value = Withdrawn;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("none, since a schedule must be complete and without races")
    }

    fn visit_bool<E: de::Error>(self, is_known: bool) -> std::result::Result<Self, E> {
        if is_known { Err(E::invalid_value(Unexpected::Bool(true), &self)) } else { Ok(self) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Self, A::Error> {
        match list.next_element::<IgnoredAny>()? {
            Some(_) => Err(de::Error::invalid_value(Unexpected::Other("a known gap"), &self)),
            None => Ok(self),
        }
    }
}

/// Writes a long list.
pub(super) fn list<T: Serialize, S: Serializer>(items: &[T], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_seq(interruptible(items))
}

fn read<T: DeserializeOwned>(text: &str, watch: Watch) -> Result<T> {
    let mut watched = WatchedText { text: text.as_bytes(), left: text.as_bytes(), watch, ended: Ok(()) };
    let outcome = serde_json::from_reader(BufReader::with_capacity(1 << 16, &mut watched));
    watched.ended?;
    // Where something is wrong is known exactly only in a text.
    outcome
        .or_else(|_| serde_json::from_str(text))
        .map_err(|error| Error::new(Code::BadFile, format!("schedule: {}", clip_error(&error))))
}

/// A text that ends when it is asked to.
struct WatchedText<'a> {
    text: &'a [u8],
    left: &'a [u8],
    watch: Watch<'a>,
    ended: Result<()>,
}

impl Read for WatchedText<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ended = self.watch.step(self.text.len() - self.left.len(), self.text.len());
        match self.ended {
            Ok(()) => self.left.read(buffer),
            Err(_) => Err(io::Error::other("interrupted")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_schedule_is_told_in_words() {
        let part = |key: &str, value: &str| {
            format!(r#"{{"schema":"antiphon-schedule/2","algorithm":"t","fabric":"f","{key}":{value}}}"#)
        };
        for (text, what) in [
            ("[]".to_string(), "a schedule"),
            ("3".to_string(), "a schedule"),
            (r#"["antiphon-schedule/2"]"#.to_string(), "a schedule"),
            (part("lanes", "[[]]"), "a lane"),
            (part("phases", "[3]"), "a phase"),
            (part("transfers", "[[]]"), "a transfer"),
        ] {
            let message = Schedule::from_json(&text, None).unwrap_err().message;
            assert!(message.contains(&format!("expected the object of {what}")), "{text}: {message}");
        }
    }

    #[test]
    fn ranges_are_checked_without_a_fabric_too() {
        let good = r#"{"schema":"antiphon-schedule/2","algorithm":"t","fabric":"f","collective":{"kind":"broadcast"},
            "bytes":8,"ranks":2,"lanes":[{"offset":0,"bytes":8,"chunks":1,"chunk_bytes":8,"stride":1}],
            "phases":[{"name":"p"}],"transfers":[{"from":0,"to":1,"op":"copy","payload":[0],"step":0,"route":[7]}]}"#;
        assert!(Schedule::from_json(good, None).is_ok());
        // Earlier versions wrote these.
        let earlier = good.replacen("\"ranks\"", "\"known_gaps\":[],\"known_race\":false,\"ranks\"", 1);
        assert_eq!(Schedule::from_json(&earlier, None), Schedule::from_json(good, None));
        let pair = Fabric::parse("ring:2").unwrap();
        assert!(Schedule::from_json(good, Some(&pair)).unwrap_err().message.contains("uses link 7 of 2"));
        for (from, to, why) in [
            ("[0]", "[[0,4294967295]]", "carries lane 4294967294 of 1"),
            ("[0]", "[]", "carries no lanes"),
            ("[0]", "[[0,0]]", "carries lanes that do not ascend"),
            ("[0]", "[0,0]", "carries lanes that do not ascend"),
            ("\"step\":0", "\"start_after\":[9],\"step\":0", "waits for transfer 9"),
            ("\"step\":0", "\"apply_after\":[{\"transfer\":9,\"event\":\"sent\"}],\"step\":0", "waits for transfer 9"),
            (
                "\"step\":0",
                "\"start_after\":[{\"transfer\":0,\"lag\":256}],\"step\":0",
                "a lag of 256 chunks; at most 255",
            ),
            ("\"ranks\":2", "\"ranks\":2,\"endpoint\":{\"interfaces\":0}", "interfaces is 0"),
            ("\"ranks\":2", "\"ranks\":2,\"issue\":\"links\"", "unknown field `issue`"),
            ("schedule/2", "schedule/3", "schema is 'antiphon-schedule/3', expected 'antiphon-schedule/2'"),
            ("schedule/2\"", "schedule/1\",\"issue\":\"steps\"", "schema is 'antiphon-schedule/1', expected"),
            ("\"chunks\":1", "\"chunks\":0", "has 0 chunks"),
            ("\"to\":1", "\"to\":2", "from rank 0 to rank 2"),
            ("\"ranks\":2", "\"ranks\":4294967295", "at most 4096"),
            ("\"ranks\":2", "\"ranks\":2,\"excluded\":[1,0,1]", "rank 1 is excluded twice; list it once"),
            (
                "\"ranks\":2",
                "\"ranks\":2,\"known_gaps\":[[1,0]]",
                "a known gap, expected none, since a schedule must be",
            ),
            ("\"ranks\":2", "\"ranks\":2,\"known_race\":true", "expected none, since a schedule must be complete"),
            ("\"ranks\":2", "\"ranks\":2,\"known_race\":3", "invalid type: integer `3`, expected none"),
        ] {
            let error = Schedule::from_json(&good.replacen(from, to, 1), None).unwrap_err();
            assert!(error.code == Code::BadFile && error.message.contains(why), "{error}");
        }
    }

    #[test]
    fn reading_ends_when_it_is_asked_to() {
        let transfer = r#"{"from":0,"to":1,"op":"copy","payload":[0],"step":0,"route":[0]}"#;
        let text = format!(
            r#"{{"schema":"antiphon-schedule/2","algorithm":"t","fabric":"f","collective":{{"kind":"broadcast"}},
            "bytes":8,"ranks":2,"lanes":[{{"offset":0,"bytes":8,"chunks":1,"chunk_bytes":8,"stride":1}}],
            "phases":[{{"name":"p"}}],"transfers":[{}]}}"#,
            vec![transfer; 1 << 13].join(",")
        );
        for last in [0.0, 0.5, 0.9] {
            let progress = |share| share < last;
            let error = Schedule::from_json_watched(&text, None, Watch::new(&progress)).unwrap_err();
            assert_eq!(error.code, Code::Interrupted);
        }
        assert_eq!(Schedule::from_json(&text, None).unwrap().transfers.len(), 1 << 13);
    }

    #[test]
    fn totals_stay_in_range() {
        let transfer = r#"{"from":0,"to":1,"op":"copy","payload":[0],"step":4294967295,"route":[0]}"#;
        let text = |transfers: usize| {
            format!(
                r#"{{"schema":"antiphon-schedule/2","algorithm":"t","fabric":"f","collective":{{"kind":"broadcast"}},
                "bytes":8,"ranks":2,"lanes":[{{"offset":0,"bytes":8,"chunks":1024,"chunk_bytes":1125899906842624,
                "stride":4294967295}}],"phases":[{{"name":"p"}}],"transfers":[{}]}}"#,
                vec![transfer; transfers].join(",")
            )
        };
        let pair = Fabric::parse("ring:2").unwrap();
        let stats = Schedule::from_json(&text(15), Some(&pair)).unwrap().stats(&pair);
        assert_eq!((stats.link_bytes[0], stats.steps), (15 << 60, 1024 * 4294967295 + 1));
        assert_eq!(Schedule::from_json(&text(16), None).unwrap_err().code, Code::TooLarge);
    }
}
