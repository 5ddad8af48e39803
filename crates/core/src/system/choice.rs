//! Parameters with named values.

use crate::error::{Code, Error, Result, nearest};
use crate::units::clip;

/// A parameter that is one of a few named values.
pub trait Choice: Sized + Copy + PartialEq + 'static {
    /// What is chosen, for messages.
    const WHAT: &'static str;
    /// All values with their command-line names.
    const ALL: &'static [(&'static str, Self)];

    /// The value with a command-line name.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    fn parse(text: &str) -> Result<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            let hint = nearest(text, names.iter().copied());
            let what = format!("no {} '{}'{hint}; known: {}", Self::WHAT, clip(text), names.join(", "));
            Error::new(Code::UnknownName, what)
        })
    }

    /// The command-line name.
    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}
