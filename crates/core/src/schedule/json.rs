//! JSON form of a schedule. The schema is documented in `docs/schedule.md`.

use super::Schedule;
use crate::error::{Code, Error, Result};
use crate::fabric::Fabric;

/// Longest accepted JSON text.
const MAX_JSON_BYTES: usize = 1 << 30;

impl Schedule {
    /// The schedule as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a schedule has only string keys")
    }

    /// A schedule from JSON, checked for ranges, on `fabric` if there is one (not verified).
    ///
    /// # Errors
    /// [`Code::BadFile`] with line and column, or as [`Schedule::check`].
    pub fn from_json(text: &str, fabric: Option<&Fabric>) -> Result<Schedule> {
        if text.len() > MAX_JSON_BYTES {
            return Err(Error::new(Code::TooLarge, "schedule: JSON text is larger than 1 GiB"));
        }
        let schedule: Schedule =
            serde_json::from_str(text).map_err(|e| Error::new(Code::BadFile, format!("schedule: {e}")))?;
        match fabric {
            Some(fabric) => schedule.check(fabric)?,
            None => schedule.check_alone()?,
        }
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_without_a_fabric_too() {
        let good = r#"{"schema":"antiphon-schedule/1","algorithm":"t","fabric":"f","collective":{"kind":"broadcast"},
            "bytes":8,"ranks":2,"lanes":[{"offset":0,"bytes":8,"chunks":1,"chunk_bytes":8,"stride":1}],
            "phases":[{"name":"p"}],"transfers":[{"from":0,"to":1,"op":"copy","lane":0,"step":0,"route":[7]}],
            "issue":"links","pacing":"pipelined","serial_reductions":true}"#;
        assert!(Schedule::from_json(good, None).is_ok());
        let pair = Fabric::parse("ring:2").unwrap();
        assert!(Schedule::from_json(good, Some(&pair)).unwrap_err().message.contains("uses link 7 of 2"));
        for (from, to, why) in [
            ("\"step\":0", "\"lanes\":4294967295,\"step\":0", "carries lanes 0..4294967295 of 1"),
            ("\"step\":0", "\"after\":[9],\"step\":0", "waits for transfer 9"),
            ("\"chunks\":1", "\"chunks\":0", "has 0 chunks"),
            ("\"to\":1", "\"to\":2", "from rank 0 to rank 2"),
            ("\"ranks\":2", "\"ranks\":4294967295", "at most 4096"),
            ("\"ranks\":2", "\"ranks\":2,\"excluded\":[1,0,1]", "rank 1 is excluded twice; list it once"),
            ("\"ranks\":2", "\"ranks\":2,\"known_gaps\":[[1,0],[1,0]]", "gap (rank 1, lane 0) is there twice"),
        ] {
            let error = Schedule::from_json(&good.replacen(from, to, 1), None).unwrap_err();
            assert!(error.code == Code::BadFile && error.message.contains(why), "{error}");
        }
    }

    #[test]
    fn totals_stay_in_range() {
        let transfer = r#"{"from":0,"to":1,"op":"copy","lane":0,"step":4294967295,"route":[0]}"#;
        let text = |transfers: usize| {
            format!(
                r#"{{"schema":"antiphon-schedule/1","algorithm":"t","fabric":"f","collective":{{"kind":"broadcast"}},
                "bytes":8,"ranks":2,"lanes":[{{"offset":0,"bytes":8,"chunks":1024,"chunk_bytes":1125899906842624,
                "stride":4294967295}}],"phases":[{{"name":"p"}}],"transfers":[{}],"issue":"links",
                "pacing":"pipelined","serial_reductions":true}}"#,
                vec![transfer; transfers].join(",")
            )
        };
        let pair = Fabric::parse("ring:2").unwrap();
        let stats = Schedule::from_json(&text(15), Some(&pair)).unwrap().stats(&pair);
        assert_eq!((stats.link_bytes[0], stats.steps), (15 << 60, 1024 * 4294967295 + 1));
        assert_eq!(Schedule::from_json(&text(16), None).unwrap_err().code, Code::TooLarge);
    }
}
