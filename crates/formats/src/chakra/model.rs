//! The messages of a trace, with the field numbers of et_def.proto; other fields are passed over.

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use prost::{Enumeration, Message, Oneof};

/// The first message of a file.
#[derive(Clone, PartialEq, Message)]
pub struct Metadata {
    /// Version of the schema.
    #[prost(string, tag = "1")]
    pub version: String,
}

/// The first message of a file as it is read: its only field changed its type between versions.
#[derive(Clone, PartialEq, Message)]
pub struct AnyMetadata {}

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub enum NodeType {
    Invalid = 0,
    Metadata = 1,
    MemoryLoad = 2,
    MemoryStore = 3,
    Compute = 4,
    Send = 5,
    Receive = 6,
    Collective = 7,
    Storage = 8,
    Batch = 9,
    Checkpoint = 10,
}

/// A node.
#[derive(Clone, PartialEq, Message)]
pub struct ChakraNode {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    /// A [`NodeType`].
    #[prost(int32, tag = "3")]
    pub kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    pub inputs: Option<ChakraInputs>,
    #[prost(message, repeated, tag = "10")]
    pub attributes: Vec<Attribute>,
}

/// The inputs of a node.
#[derive(Clone, PartialEq, Message)]
pub struct ChakraInputs {
    #[prost(string, tag = "1")]
    pub values: String,
}

/// A named value of a node.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(oneof = "ChakraValue", tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    pub value: Option<ChakraValue>,
}

/// A value; other kinds of lists are passed over.
#[derive(Clone, PartialEq, Oneof)]
pub enum ChakraValue {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(Bools),
    #[prost(string, tag = "29")]
    Text(String),
}

/// Several truth values.
#[derive(Clone, PartialEq, Message)]
pub struct Bools {
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
}

impl Attribute {
    /// As Chakra's tools write ranks and tags; larger numbers than that holds are unsigned.
    pub fn int32(name: &str, value: u32) -> Attribute {
        Attribute {
            name: name.into(),
            value: Some(i32::try_from(value).map_or(ChakraValue::Uint32(value), ChakraValue::Int32)),
        }
    }

    pub fn int64(name: &str, value: u64) -> Attribute {
        Attribute { name: name.into(), value: Some(ChakraValue::Int64(value as i64)) }
    }

    pub fn bool(name: &str, value: bool) -> Attribute {
        Attribute { name: name.into(), value: Some(ChakraValue::Bool(value)) }
    }

    pub fn text(name: &str, value: &str) -> Attribute {
        Attribute { name: name.into(), value: Some(ChakraValue::Text(value.into())) }
    }
}

impl ChakraNode {
    /// The first attribute of a name, as readers of these traces take it.
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// A whole number of at least 0, whatever integer type it is written in.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is none or is larger than `T` holds.
    pub fn whole<T: TryFrom<i128>>(&self, name: &str) -> Result<Option<T>> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        let number: i128 = match &attribute.value {
            Some(ChakraValue::Int32(value) | ChakraValue::Sint32(value) | ChakraValue::Sfixed32(value)) => {
                (*value).into()
            }
            Some(ChakraValue::Int64(value) | ChakraValue::Sint64(value) | ChakraValue::Sfixed64(value)) => {
                (*value).into()
            }
            Some(ChakraValue::Uint32(value) | ChakraValue::Fixed32(value)) => (*value).into(),
            Some(ChakraValue::Uint64(value) | ChakraValue::Fixed64(value)) => (*value).into(),
            other => return Err(wrong(name, other.as_ref(), "a whole number")),
        };
        let fits = || Error::new(Code::BadFile, format!("{name} is {number}, which is out of range"));
        T::try_from(number).map(Some).map_err(|_| fits())
    }

    /// A whole number that must be there.
    ///
    /// # Errors
    /// [`Code::BadFile`].
    pub fn needed<T: TryFrom<i128>>(&self, name: &str) -> Result<T> {
        self.whole(name)?.ok_or_else(|| Error::new(Code::BadFile, format!("it has no attribute {name}")))
    }

    /// A truth value, `false` where there is none.
    ///
    /// # Errors
    /// [`Code::BadFile`] for another value.
    pub fn truth(&self, name: &str) -> Result<bool> {
        match self.attribute(name).map(|attribute| &attribute.value) {
            None => Ok(false),
            Some(Some(ChakraValue::Bool(value))) => Ok(*value),
            Some(other) => Err(wrong(name, other.as_ref(), "true or false")),
        }
    }

    /// A text, empty where there is none. A number stands for its digits.
    ///
    /// # Errors
    /// [`Code::BadFile`] for another value.
    pub fn text(&self, name: &str) -> Result<String> {
        match self.attribute(name).map(|attribute| &attribute.value) {
            None => Ok(String::new()),
            Some(Some(ChakraValue::Text(value))) => Ok(value.clone()),
            Some(_) => Ok(self.whole::<u64>(name)?.map_or(String::new(), |number| number.to_string())),
        }
    }

    /// Whether some of a list of truth values are false.
    pub fn has_false(&self, name: &str) -> bool {
        match self.attribute(name).map(|attribute| &attribute.value) {
            Some(Some(ChakraValue::Bools(list))) => list.values.iter().any(|value| !value),
            Some(Some(ChakraValue::Bool(value))) => !value,
            _ => false,
        }
    }
}

fn wrong(name: &str, value: Option<&ChakraValue>, expected: &str) -> Error {
    let given = match value {
        Some(ChakraValue::Text(text)) => format!("the text '{}'", clip(text)),
        Some(ChakraValue::Double(value)) => format!("{value}"),
        Some(ChakraValue::Float(value)) => format!("{value}"),
        Some(ChakraValue::Bool(value)) => format!("{value}"),
        _ => "of another type".into(),
    };
    Error::new(Code::BadFile, format!("{name} is {given}, not {expected}"))
}
