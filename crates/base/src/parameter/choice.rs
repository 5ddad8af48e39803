//! Parameters with named values.

use crate::error::{Code, Error, Result, nearest};
use crate::units::clip;

/// A parameter that is one of a few named values, at most eight.
pub trait Choice: Sized + Copy + PartialEq + 'static {
    /// What is chosen, for messages.
    const WHAT: &'static str;
    /// All values with their command-line names.
    const ALL: &'static [(&'static str, Self)];
    /// Their names, and empty ones after them.
    #[doc(hidden)]
    const PADDED: [&'static str; 8] = {
        let (mut names, mut at) = ([""; 8], 0);
        while at < Self::ALL.len() {
            names[at] = Self::ALL[at].0;
            at += 1;
        }
        names
    };
    /// Their names.
    const NAMES: &'static [&'static str] = Self::PADDED.split_at(Self::ALL.len()).0;

    /// Values that are added while the program runs, with their names.
    fn added() -> Vec<(&'static str, Self)> {
        vec![]
    }

    /// The value with a command-line name.
    ///
    /// # Errors
    /// [`Code::UnknownName`] with the nearest known name.
    fn parse(text: &str) -> Result<Self> {
        let all = [Self::ALL, &Self::added()].concat();
        all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            let (hint, known) = (nearest(text, names.iter().copied()), names.join(", "));
            Error::new(Code::UnknownName, format!("no {} '{}'{hint}; known: {known}", Self::WHAT, clip(text)))
        })
    }

    /// The command-line name.
    fn name(self) -> &'static str {
        let all = [Self::ALL, &Self::added()].concat();
        all.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}
