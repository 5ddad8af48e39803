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

    /// A schedule from JSON, checked for ranges on `fabric` (not verified).
    ///
    /// # Errors
    /// [`Code::BadFile`] with line and column, or as [`Schedule::check`].
    pub fn from_json(text: &str, fabric: &Fabric) -> Result<Schedule> {
        if text.len() > MAX_JSON_BYTES {
            return Err(Error::new(Code::TooLarge, "schedule: JSON text is larger than 1 GiB"));
        }
        let schedule: Schedule =
            serde_json::from_str(text).map_err(|e| Error::new(Code::BadFile, format!("schedule: {e}")))?;
        schedule.check(fabric)?;
        Ok(schedule)
    }
}
