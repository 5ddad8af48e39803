//! One error type: a stable code, what is wrong, where, and what to do instead.

use std::fmt;

/// Stable identifiers of everything that can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A size, count or rate is malformed, zero, negative or out of range.
    BadSize,
    /// A name (fabric, algorithm, system, option, ...) is not known.
    UnknownName,
    /// A specification string or option does not parse.
    BadSpec,
    /// A file's content is malformed.
    BadFile,
    /// An algorithm does not apply to a fabric or collective.
    NotApplicable,
    /// A schedule failed verification.
    NotProven,
    /// A simulation stopped making progress.
    Stalled,
    /// The request would need more memory or time than allowed.
    TooLarge,
    /// The user interrupted a run.
    Interrupted,
}

impl Code {
    /// The code as it is printed and documented.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::BadSize => "bad-size",
            Code::UnknownName => "unknown-name",
            Code::BadSpec => "bad-spec",
            Code::BadFile => "bad-file",
            Code::NotApplicable => "not-applicable",
            Code::NotProven => "not-proven",
            Code::Stalled => "stalled",
            Code::TooLarge => "too-large",
            Code::Interrupted => "interrupted",
        }
    }
}

/// Digits of a number that a message repeats: more than any that is right has.
const MOST_DIGITS: u32 = 40;

/// An error a user can act on; displays as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Stable code.
    pub code: Code,
    /// What is wrong, where, and what to do instead, on one line.
    pub message: String,
}

impl Error {
    /// An error with `code`; line breaks and control characters in `message` are flattened, endless numbers cut.
    pub fn new(code: Code, message: impl AsRef<str>) -> Self {
        let mut digits = 0;
        let cut = |c: char| {
            digits = if c.is_ascii_digit() { digits + 1 } else { 0 };
            match digits {
                ..=MOST_DIGITS => Some(if c.is_control() { ' ' } else { c }),
                _ => (digits <= MOST_DIGITS + 3).then_some('.'),
            }
        };
        Error { code, message: message.as_ref().chars().filter_map(cut).collect() }
    }

    /// The same error with the place it happened put in front.
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = Error::new(self.code, format!("{place}: {}", self.message)).message;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code.as_str())
    }
}

impl std::error::Error for Error {}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The known name nearest to `given` by edit distance, phrased as a hint; empty if nothing is near.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let given: String = given.chars().take(64).collect();
    let best = known.into_iter().map(|name| (strsim::levenshtein(&given, name), name)).min();
    match best {
        Some((distance, name)) if distance <= 1 + name.len() / 3 => {
            format!("; did you mean '{name}'?")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_on_one_line() {
        let error = Error::new(Code::BadSpec, "a\nb\x1b[31m").at("x\ny");
        assert_eq!(error.to_string(), "x y: a b [31m [bad-spec]");
    }

    #[test]
    fn endless_numbers_are_cut() {
        let (one, most) = ("7".repeat(300), "7".repeat(40));
        let error = Error::new(Code::BadSpec, format!("{one} and {most}, not {one}x")).at("here");
        assert_eq!(error.message, format!("here: {most}... and {most}, not {most}...x"));
    }

    #[test]
    fn nearest_names() {
        assert_eq!(nearest("multitre", ["ring", "multitree"]), "; did you mean 'multitree'?");
        assert_eq!(nearest("zzzz", ["ring", "multitree"]), "");
    }
}
