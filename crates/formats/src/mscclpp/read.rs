//! From text. Checks all that does not depend on other parts of the plan.

use super::model::MscclppPlan;
use super::steps::PlanSteps;
use crate::check_length;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{clip, clip_error};
use antiphon_base::watch::Watch;

/// Longest text that is read.
pub const MAX_TEXT_BYTES: usize = 1 << 26;

/// Reads a plan. O(text).
///
/// # Errors
/// [`Code::BadFile`] with the line, or GPU, thread block and operation, of what is wrong, [`Code::NotApplicable`] for
/// operations that the proof does not know, [`Code::TooLarge`], [`Code::Interrupted`], but not
/// while the JSON itself is read, which `MAX_TEXT_BYTES` bounds.
pub fn read(text: &str, watch: Watch) -> Result<MscclppPlan> {
    check_length("plan", text.len(), MAX_TEXT_BYTES)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut plan: MscclppPlan = serde_json::from_str(text).map_err(|error| {
        let older = if text.contains("\"inputChunks\"") { "; plans of older versions are not read" } else { "" };
        Error::new(Code::BadFile, clip_error(&error) + older)
    })?;
    plan.name = clip(&plan.name);
    PlanSteps::of(&plan, true, watch)?;
    Ok(plan)
}
