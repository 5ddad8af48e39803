//! YAML as a tree. What an alias names is shared, not copied, and counts are checked before there is memory for more.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use saphyr_parser::{Event, Parser};
use std::collections::HashMap;
use std::rc::Rc;

/// Most values of a text.
const MAX_VALUES: usize = 1 << 19;
/// Most values that lie within each other.
const MAX_DEPTH: usize = 64;

/// A value and its line.
#[derive(Debug)]
pub struct YamlValue {
    line: usize,
    content: YamlContent,
}

#[derive(Debug)]
enum YamlContent {
    Text(String),
    List(Vec<Rc<YamlValue>>),
    Map(Vec<(String, Rc<YamlValue>)>),
}

/// A list or a map that is not closed yet, with the key that waits for its value and the name that aliases have for it.
struct OpenValue {
    value: YamlValue,
    key: Option<String>,
    anchor: usize,
}

impl OpenValue {
    /// Adds an item, or the value of the key that came before.
    fn add(&mut self, item: Rc<YamlValue>) -> Result<()> {
        match (&mut self.value.content, self.key.take()) {
            (YamlContent::List(list), _) => list.push(item),
            (YamlContent::Map(map), Some(key)) if map.iter().any(|(other, _)| *other == key) => {
                return Err(bad(format!("key '{}' is there twice", clip(&key))));
            }
            (YamlContent::Map(map), Some(key)) => map.push((key, item)),
            (YamlContent::Map(_), None) => return Err(bad("a key that is no text")),
            (YamlContent::Text(_), _) => unreachable!("only lists and maps are open"),
        }
        Ok(())
    }
}

impl YamlValue {
    /// The first document of a text.
    ///
    /// # Errors
    /// [`Code::BadFile`] with the line, [`Code::TooLarge`].
    pub fn parse(text: &str) -> Result<Rc<YamlValue>> {
        let (mut open, mut anchors): (Vec<OpenValue>, HashMap<usize, Rc<YamlValue>>) = Default::default();
        let mut values = 0;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let what: String = error.info().chars().take(200).collect();
                bad(what).at(format_args!("line {}", error.marker().line()))
            })?;
            let line = span.start.line();
            let place = |error: Error| error.at(format_args!("line {line}"));
            values += 1;
            if values > MAX_VALUES || open.len() > MAX_DEPTH {
                let what = format!("more than {MAX_VALUES} values, or {MAX_DEPTH} within each other");
                return Err(place(Error::new(Code::TooLarge, what)));
            }
            let closed = match event {
                Event::SequenceStart(anchor, _) => {
                    let value = YamlValue { line, content: YamlContent::List(vec![]) };
                    open.push(OpenValue { value, key: None, anchor });
                    continue;
                }
                Event::MappingStart(anchor, _) => {
                    let value = YamlValue { line, content: YamlContent::Map(vec![]) };
                    open.push(OpenValue { value, key: None, anchor });
                    continue;
                }
                Event::Scalar(text, _, anchor, _) => {
                    if let Some(OpenValue {
                        value: YamlValue { content: YamlContent::Map(_), .. },
                        key: key @ None,
                        ..
                    }) = open.last_mut()
                    {
                        *key = Some(text.into_owned());
                        continue;
                    }
                    let value = Rc::new(YamlValue { line, content: YamlContent::Text(text.into_owned()) });
                    anchors.insert(anchor, value.clone());
                    value
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    let OpenValue { value, anchor, .. } = open.pop().expect("the parser matches starts and ends");
                    let value = Rc::new(value);
                    anchors.insert(anchor, value.clone());
                    value
                }
                Event::Alias(anchor) => match anchors.get(&anchor) {
                    Some(value) => value.clone(),
                    None => return Err(place(bad("an alias of what it is part of"))),
                },
                _ => continue,
            };
            match open.last_mut() {
                None => return Ok(closed),
                Some(parent) => parent.add(closed).map_err(place)?,
            }
        }
        Err(bad("there is no document"))
    }

    /// What a map has under a key; `None` for null and for what is no map.
    pub fn get(&self, key: &str) -> Option<&YamlValue> {
        let YamlContent::Map(map) = &self.content else { return None };
        let found = map.iter().find(|(name, _)| name == key)?;
        Some(&*found.1).filter(|value| !value.is_null())
    }

    /// The text under a key.
    ///
    /// # Errors
    /// [`Code::BadFile`] where there is none.
    pub fn text_of(&self, key: &str) -> Result<&str> {
        match self.get(key).map(|value| &value.content) {
            Some(YamlContent::Text(text)) => Ok(text),
            Some(_) => Err(self.wrong(format!("{key} is no text"))),
            None => Err(self.wrong(format!("{key} is missing"))),
        }
    }

    /// The number under a key; `None` where there is none.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is no number from 0.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        if self.get(key).is_none() {
            return Ok(None);
        }
        let text = self.text_of(key)?;
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.map(Some).ok_or_else(|| self.wrong(format!("{key} is '{}', expected a number from 0", clip(text))))
    }

    /// The whole number under a key.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is no whole number from 0.
    pub fn count(&self, key: &str) -> Result<u64> {
        let text = self.text_of(key)?;
        text.parse().map_err(|_| self.wrong(format!("{key} is '{}', expected a whole number from 0", clip(text))))
    }

    /// The list under a key; empty where there is none.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is no list.
    pub fn list(&self, key: &str) -> Result<&[Rc<YamlValue>]> {
        match self.get(key).map(|value| &value.content) {
            Some(YamlContent::List(list)) => Ok(list),
            Some(_) => Err(self.wrong(format!("{key} is no list"))),
            None => Ok(&[]),
        }
    }

    /// The texts of a list under a key.
    ///
    /// # Errors
    /// [`Code::BadFile`] where there is none, or for what is no list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>> {
        if self.get(key).is_none() {
            return Err(self.wrong(format!("{key} is missing")));
        }
        let mut texts = vec![];
        for value in self.list(key)? {
            let YamlContent::Text(text) = &value.content else {
                return Err(value.wrong(format!("{key} has what is no text")));
            };
            texts.push(text.as_str());
        }
        Ok(texts)
    }

    /// The keys of a map.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let map = if let YamlContent::Map(map) = &self.content { &map[..] } else { &[] };
        map.iter().map(|(key, _)| key.as_str())
    }

    fn is_null(&self) -> bool {
        matches!(&self.content, YamlContent::Text(text) if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What is wrong with this value, with its line.
    pub fn wrong(&self, what: impl AsRef<str>) -> Error {
        bad(format!("line {}: {}", self.line, what.as_ref()))
    }
}

fn bad(what: impl AsRef<str>) -> Error {
    Error::new(Code::BadFile, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_numbers_and_aliases() {
        let text = "a: &x\n- 1\n- b: two\n  n: ~\nc: *x\nd: {e: 2.5, f: '7'}\n";
        let tree = YamlValue::parse(text).unwrap();
        assert_eq!(
            (tree.list("a").unwrap().len(), tree.list("c").unwrap().len(), tree.list("z").unwrap().len()),
            (2, 2, 0)
        );
        assert_eq!(tree.list("c").unwrap()[1].text_of("b").unwrap(), "two");
        assert!(tree.list("c").unwrap()[1].get("n").is_none());
        let d = tree.get("d").unwrap();
        assert_eq!((d.number("e").unwrap(), d.number("g").unwrap(), d.count("f").unwrap()), (Some(2.5), None, 7));
        assert_eq!(d.count("e").unwrap_err().message, "line 6: e is '2.5', expected a whole number from 0");
    }

    #[test]
    fn a_key_that_is_there_twice_is_refused() {
        for text in ["a: 1\nb: {c: 1, c: 2}\n", "a: 1\nc: [b, {d: 2}]\nc: x\n"] {
            let message = YamlValue::parse(text).unwrap_err().message;
            assert!(message.ends_with("key 'c' is there twice"), "{message}");
        }
    }

    #[test]
    fn hostile_texts_get_one_line() {
        let deep = "[".repeat(MAX_DEPTH + 2);
        let many = format!("a: [{}1]", "1,".repeat(MAX_VALUES));
        for (text, code, why) in [
            (deep.as_str(), Code::TooLarge, "64 within each other"),
            (&many, Code::TooLarge, "more than 524288 values"),
            ("a: &x [*x]", Code::BadFile, "line 1: an alias of what it is part of"),
            ("a: *nobody", Code::BadFile, "line 1"),
            ("", Code::BadFile, "there is no document"),
            ("a: [1", Code::BadFile, "line "),
            ("? [a]\n: 1", Code::BadFile, "no text"),
        ] {
            let error = YamlValue::parse(text).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(error.message.contains(why), "{error}");
        }
        // Aliases of aliases take no memory.
        let laughs = (0..40)
            .fold("a0: &a0 [x, x]\n".to_string(), |text, n| format!("{text}a{0}: &a{0} [*a{n}, *a{n}]\n", n + 1));
        assert_eq!(YamlValue::parse(&laughs).unwrap().list("a40").unwrap().len(), 2);
    }
}
