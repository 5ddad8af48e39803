//! XML as a tree, read element by element so that counts are checked before there is memory for more. No entities but the
//! five of XML itself are known, and what a document type refers to is never read.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{clip, clip_error};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Most elements of a file.
const MAX_ELEMENTS: usize = 1 << 18;
/// Most elements that lie within each other.
const MAX_DEPTH: usize = 128;
/// Most attributes of an element.
const MAX_ATTRIBUTES: usize = 64;

/// An element, with what lies within it.
#[derive(Debug, Default)]
pub struct XmlElement {
    /// Its name.
    pub name: String,
    /// Line on which its tag ends.
    line: usize,
    attributes: Vec<(String, String)>,
    /// Elements within it, in their order.
    pub children: Vec<XmlElement>,
    /// Text within it, without that of its children.
    pub text: String,
}

impl XmlElement {
    /// The outermost element of a text.
    ///
    /// # Errors
    /// [`Code::BadFile`] with the line, [`Code::TooLarge`].
    pub fn parse(text: &str) -> Result<XmlElement> {
        let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
        // What is open, within an element for the whole text.
        let mut open = vec![XmlElement::default()];
        let (mut line, mut seen, mut elements) = (1, 0, 0);
        loop {
            let event = reader.read_event();
            let position = (reader.buffer_position() as usize).min(text.len());
            line += text.as_bytes().get(seen..position).unwrap_or_default().iter().filter(|&&b| b == b'\n').count();
            seen = position;
            let place = |error: Error| error.at(format_args!("line {line}"));
            match event.or_else(|error| malformed(&error)).map_err(place)? {
                Event::Eof => break,
                Event::Start(tag) => {
                    elements += 1;
                    if elements > MAX_ELEMENTS || open.len() > MAX_DEPTH {
                        let what = format!("more than {MAX_ELEMENTS} elements, or {MAX_DEPTH} within each other");
                        return Err(place(Error::new(Code::TooLarge, what)));
                    }
                    open.push(XmlElement::of(&tag, line).map_err(place)?);
                }
                Event::Empty(tag) => {
                    elements += 1;
                    if elements > MAX_ELEMENTS {
                        let what = format!("more than {MAX_ELEMENTS} elements");
                        return Err(place(Error::new(Code::TooLarge, what)));
                    }
                    let element = XmlElement::of(&tag, line).map_err(place)?;
                    open.last_mut().expect("the whole text is open").children.push(element);
                }
                Event::End(_) => {
                    let element = open.pop().expect("the parser matches tags");
                    open.last_mut().expect("the whole text is open").children.push(element);
                }
                Event::Text(words) => open.last_mut().expect("the whole text is open").text.push_str(&words),
                Event::DocType(kind) if kind.contains('[') => {
                    return Err(place(bad("a document type with declarations; entities are not expanded")));
                }
                _ => {}
            }
        }
        let [whole] = &mut open[..] else {
            let last = open.last().expect("the whole text is open");
            return Err(bad(format!("the text ends before </{}>", clip(&last.name))).at(format_args!("line {line}")));
        };
        match whole.children.len() {
            1 => Ok(whole.children.remove(0)),
            count => Err(bad(format!("{count} outermost elements, expected one"))),
        }
    }

    fn of(tag: &BytesStart, line: usize) -> Result<XmlElement> {
        let mut attributes = vec![];
        for attribute in tag.attributes() {
            let attribute = attribute.or_else(|error| malformed(&error))?;
            if attributes.len() == MAX_ATTRIBUTES {
                return Err(bad(format!("more than {MAX_ATTRIBUTES} attributes")));
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).or_else(|error| malformed(&error))?;
            attributes.push((attribute.key.0.to_string(), value.into_owned()));
        }
        Ok(XmlElement { name: tag.name().0.to_string(), line, attributes, ..XmlElement::default() })
    }

    /// The value of an attribute.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The value of an attribute that must be there.
    ///
    /// # Errors
    /// [`Code::BadFile`].
    pub fn text_of(&self, key: &str) -> Result<&str> {
        self.get(key).ok_or_else(|| self.wrong(format!("{key} is missing")))
    }

    /// A whole number, decimal or `0x`; `None` where there is no such attribute or it is empty.
    ///
    /// # Errors
    /// [`Code::BadFile`] for anything else.
    pub fn whole(&self, key: &str) -> Result<Option<i64>> {
        let Some(text) = self.get(key).map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let wrong = || self.wrong(format!("{key} is '{}', expected a whole number", clip(text)));
        number.map(Some).ok_or_else(wrong)
    }

    /// A number that is not negative; `None` where there is no such attribute or it is empty.
    ///
    /// # Errors
    /// [`Code::BadFile`] for anything else.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(text) = self.get(key).map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let wrong = || self.wrong(format!("{key} is '{}', expected a number from 0", clip(text)));
        number.map(Some).ok_or_else(wrong)
    }

    /// What is wrong with this element, with its line.
    pub fn wrong(&self, what: impl AsRef<str>) -> Error {
        bad(format!("line {}: <{}>: {}", self.line, clip(&self.name), what.as_ref()))
    }
}

fn bad(what: impl AsRef<str>) -> Error {
    Error::new(Code::BadFile, what)
}

/// What is wrong with the text as XML; it may quote much of it.
fn malformed<T>(error: &impl ToString) -> Result<T> {
    Err(bad(clip_error(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_and_numbers() {
        let text = "<?xml version=\"1.0\"?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n<a n=\"0x10\" x=\"2.5\" e=\"\" q=\"&lt;&#65;\">1\n<b/>2<b><c/></b></a>\n";
        let tree = XmlElement::parse(text).unwrap();
        assert_eq!((tree.name.as_str(), tree.children.len(), tree.text.as_str()), ("a", 2, "1\n2"));
        assert_eq!(
            (tree.whole("n").unwrap(), tree.number("x").unwrap(), tree.whole("e").unwrap()),
            (Some(16), Some(2.5), None)
        );
        assert_eq!((tree.get("q"), tree.children[1].children[0].name.as_str()), (Some("<A"), "c"));
        assert_eq!(tree.whole("q").unwrap_err().message, "line 3: <a>: q is '<A', expected a whole number");
        assert!(tree.children[0].text_of("n").unwrap_err().message.starts_with("line 4: <b>: n is missing"));
    }

    #[test]
    fn hostile_texts_get_one_line() {
        let bomb = "<!DOCTYPE a [<!ENTITY x \"y\"><!ENTITY z \"&x;&x;\">]><a b=\"&z;\"/>";
        let many = format!("<a>{}</a>", "<b/>".repeat(MAX_ELEMENTS));
        let deep = "<a>".repeat(MAX_DEPTH + 2);
        let wide = (0..=MAX_ATTRIBUTES).fold("<a".to_string(), |text, n| format!("{text} a{n}=\"\"")) + "/>";
        for (text, code, why) in [
            (bomb, Code::BadFile, "line 1: a document type with declarations"),
            ("<a b=\"&z;\"/>", Code::BadFile, "line 1: "),
            (&many, Code::TooLarge, "more than 262144 elements"),
            (&deep, Code::TooLarge, "128 within each other"),
            (&wide, Code::BadFile, "more than 64 attributes"),
            ("<a>\n<b></a>", Code::BadFile, "line 2: "),
            ("<a>\n", Code::BadFile, "the text ends before </a>"),
            ("<a/><b/>", Code::BadFile, "2 outermost elements"),
            ("", Code::BadFile, "0 outermost elements"),
            ("<a b='1' b='2'/>", Code::BadFile, "line 1: "),
            ("<", Code::BadFile, "line 1: "),
        ] {
            let error = XmlElement::parse(text).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(error.message.contains(why) && error.message.len() < 400, "{error}");
        }
    }
}
