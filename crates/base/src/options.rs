//! Options behind a name, as in `tto:chunk=96KiB,barrier=no`: `key=value,key=value`.

use crate::error::{Code, Error, Result, nearest};
use crate::parameter::{Domain, Listed, Parameter, Value};
use crate::units::{Bytes, MAX_BYTES, clip, parse_bytes};

/// An option, and what holds where it is not given.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// Key, values and meaning.
    pub parameter: Parameter,
    /// What holds else.
    pub default: Default,
}

/// What holds where an option is not given.
#[derive(Debug, Clone, Copy)]
pub enum Default {
    /// A value, as it would be given.
    Fixed(&'static str),
    /// What follows from the problem, in words.
    Derived(&'static str),
}

impl Opt {
    /// As lists show it.
    pub fn listed(&self, source: &'static str) -> Listed {
        let (Default::Fixed(default) | Default::Derived(default)) = self.default;
        Listed { parameter: self.parameter, default: default.into(), source, json: "" }
    }

    const fn new(key: &'static str, domain: Domain, default: Default, meaning: &'static str) -> Opt {
        Opt { parameter: Parameter { key, domain, meaning }, default }
    }

    /// A data size.
    pub const fn bytes(key: &'static str, default: Default, meaning: &'static str) -> Opt {
        Opt::new(key, Domain::Bytes { least: 1, most: MAX_BYTES }, default, meaning)
    }

    /// A whole number.
    pub const fn count(key: &'static str, least: u64, most: u64, default: Default, meaning: &'static str) -> Opt {
        Opt::new(key, Domain::count(least, most, ""), default, meaning)
    }

    /// One of `names`, by default the first.
    pub const fn choice(key: &'static str, names: &'static [&'static str], meaning: &'static str) -> Opt {
        Opt::new(key, Domain::Choice(names), Default::Fixed(names[0]), meaning)
    }

    /// Yes or no.
    pub const fn flag(key: &'static str, default: Default, meaning: &'static str) -> Opt {
        Opt::new(key, Domain::Flag, default, meaning)
    }

    /// A rank.
    pub const fn rank(key: &'static str, default: Default, meaning: &'static str) -> Opt {
        Opt::new(key, Domain::Rank, default, meaning)
    }

    /// A specification of this form, which `check` refuses if it does not parse.
    pub const fn spec(
        key: &'static str,
        form: &'static str,
        check: fn(&str) -> Result<()>,
        default: Default,
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, Domain::Spec { form, check }, default, meaning)
    }

    /// The same for sizes of at least `least` bytes.
    pub const fn at_least(self, least: Bytes) -> Opt {
        let Parameter { key, meaning, .. } = self.parameter;
        Opt::new(key, Domain::Bytes { least, most: MAX_BYTES }, self.default, meaning)
    }
}

/// The options of one use: those given, and the others that have a value by default.
pub struct Options {
    name: &'static str,
    given: Vec<(&'static Parameter, Value)>,
    known: &'static [Opt],
}

impl Options {
    /// Parses `text` against the options that `name` declares.
    ///
    /// # Errors
    /// As [`parse_options`].
    pub fn parse(name: &'static str, text: &str, known: &'static [Opt]) -> Result<Self> {
        let given = parse_options(name, text, known.iter().map(|option| &option.parameter))?;
        Ok(Options { name, given, known })
    }

    /// The value of an option that was given.
    pub fn given(&self, key: &str) -> Option<&Value> {
        self.given.iter().find(|(option, _)| option.key == key).map(|(_, value)| value)
    }

    /// All that were given.
    pub fn all_given(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.given.iter().map(|(option, value)| (option.key, value.clone()))
    }

    fn option(&self, key: &str) -> &'static Opt {
        let option = self.known.iter().find(|option| option.parameter.key == key);
        option.unwrap_or_else(|| panic!("{} declares no option '{key}'", self.name))
    }

    /// The value of an option with a default.
    fn value(&self, key: &str) -> Value {
        self.given(key).cloned().unwrap_or_else(|| match self.option(key) {
            Opt { parameter, default: Default::Fixed(text) } => parameter.read(text).expect("defaults are valid"),
            _ => panic!("{}: the default of '{key}' is derived; ask whether it is given", self.name),
        })
    }

    /// A data size.
    pub fn bytes(&self, key: &str) -> Bytes {
        self.value(key).whole()
    }

    /// A whole number.
    pub fn count(&self, key: &str) -> u64 {
        self.value(key).whole()
    }

    /// The name chosen.
    pub fn choice(&self, key: &str) -> &'static str {
        let value = self.value(key);
        match self.option(key).parameter.domain {
            Domain::Choice(names) => names.iter().find(|name| **name == value.text()).expect("values are checked"),
            _ => panic!("{}: '{key}' is no choice", self.name),
        }
    }

    /// Whether it is yes.
    pub fn flag(&self, key: &str) -> bool {
        self.value(key).flag()
    }

    /// The rank given, below `ranks`.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if there is no such rank.
    pub fn rank(&self, key: &str, ranks: u32) -> Result<Option<u32>> {
        let Some(rank) = self.given(key).map(Value::whole) else { return Ok(None) };
        if rank >= u64::from(ranks) {
            let what = format!("{}: {key}={rank} is no rank; ranks are 0 to {}", self.name, ranks - 1);
            return Err(Error::new(Code::BadSpec, what));
        }
        Ok(Some(rank as u32))
    }
}

/// The options in `text`, each of `known` and given once.
///
/// # Errors
/// [`Code::BadSpec`] and [`Code::UnknownName`], naming what is wrong; [`Code::BadSize`] for what is no size.
pub fn parse_options(
    name: &str,
    text: &str,
    known: impl Iterator<Item = &'static Parameter> + Clone,
) -> Result<Vec<(&'static Parameter, Value)>> {
    let mut given: Vec<(&Parameter, Value)> = Vec::new();
    for item in text.split(',').filter(|_| !text.is_empty()) {
        let Some((key, value)) = item.split_once('=') else {
            let what = format!("{name}: option '{}' is not of the form key=value", clip(item));
            return Err(Error::new(Code::BadSpec, what));
        };
        let Some(option) = known.clone().find(|option| option.key == key) else {
            let keys: Vec<_> = known.map(|option| option.key).collect();
            let list = if keys.is_empty() { "it has none".into() } else { format!("known: {}", keys.join(", ")) };
            let hint = nearest(key, keys);
            return Err(Error::new(Code::UnknownName, format!("{name} has no option '{}'{hint}; {list}", clip(key))));
        };
        if given.iter().any(|(other, _)| other.key == key) {
            return Err(Error::new(Code::BadSpec, format!("{name}: option '{key}' is given twice")));
        }
        let value = option.read(value).map_err(|error| match option.domain {
            Domain::Bytes { .. } if parse_bytes(value).is_err() => error.at(name),
            _ => Error { code: Code::BadSpec, ..error }.at(name),
        })?;
        given.push((option, value));
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Opt] = &[
        Opt::bytes("chunk", Default::Fixed("96KiB"), "One chunk.").at_least(4),
        Opt::choice("mapping", &["linear", "hdrm"], "Where ranks are."),
        Opt::flag("barrier", Default::Fixed("yes"), "Whether there is one."),
        Opt::rank("excluded", Default::Derived("the last"), "Who is left out."),
        Opt::count("trees", 1, 2, Default::Derived("the faster"), "How many."),
    ];

    #[test]
    fn defaults_hold_unless_options_are_given() {
        let options = Options::parse("tto", "", KNOWN).unwrap();
        assert_eq!(
            (options.bytes("chunk"), options.choice("mapping"), options.flag("barrier")),
            (98_304, "linear", true)
        );
        assert_eq!((options.given("trees"), options.rank("excluded", 4)), (None, Ok(None)));
        let options = Options::parse("tto", "trees=2,barrier=no,mapping=hdrm,excluded=3,chunk=1kB", KNOWN).unwrap();
        assert_eq!((options.bytes("chunk"), options.choice("mapping"), options.flag("barrier")), (1000, "hdrm", false));
        assert_eq!((options.count("trees"), options.rank("excluded", 4)), (2, Ok(Some(3))));
        assert_eq!(options.rank("excluded", 3).unwrap_err().message, "tto: excluded=3 is no rank; ranks are 0 to 2");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, code, message) in [
            ("chunk", Code::BadSpec, "tto: option 'chunk' is not of the form key=value"),
            ("chunk=4,", Code::BadSpec, "tto: option '' is not of the form key=value"),
            ("chunk=4,chunk=4", Code::BadSpec, "tto: option 'chunk' is given twice"),
            ("chank=4", Code::UnknownName, "tto has no option 'chank'; did you mean 'chunk'?; known: chunk, mapping"),
            ("chunk=3", Code::BadSpec, "tto: chunk=3; expected a size from 4 B to 1PiB"),
            ("chunk=x", Code::BadSize, "tto: chunk: size 'x'"),
            ("trees=3", Code::BadSpec, "tto: trees=3; expected a whole number from 1 to 2"),
            ("mapping=hdmr", Code::BadSpec, "tto: mapping=hdmr; did you mean 'hdrm'?; expected linear or hdrm"),
            ("barrier=maybe", Code::BadSpec, "tto: barrier=maybe; expected yes or no"),
            ("excluded=-1", Code::BadSpec, "tto: excluded=-1; expected a rank"),
        ] {
            let error = Options::parse("tto", text, KNOWN).err().unwrap();
            assert_eq!(error.code, code, "{error}");
            assert!(error.message.starts_with(message), "{error}");
        }
        assert!(parse_options("ring", "a=1", [].iter()).unwrap_err().message.ends_with("it has none"));
    }
}
