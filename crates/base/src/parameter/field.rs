//! Structs whose fields are parameters.

use super::{Choice, Domain, Listed, Parameter, Value};
use crate::error::Result;
use crate::units::Rate;

/// A field of a `T`, or of one of its parts, that users may set.
pub struct Field<T: 'static> {
    /// Key, values and meaning.
    pub parameter: Parameter,
    /// Where it is from.
    pub source: &'static str,
    /// Its place in JSON, in the unit of its name there.
    pub json: &'static str,
    /// What it changes nothing without, in words; empty if it always does something.
    pub needs: &'static str,
    /// Shows it.
    pub get: fn(&T, &Domain) -> Value,
    /// Stores it.
    pub set: fn(&mut T, &Value, &Domain),
}

impl<T> Field<T> {
    /// The value in `part`.
    pub fn get(&self, part: &T) -> Value {
        (self.get)(part, &self.parameter.domain)
    }

    /// Sets the value in `part`.
    ///
    /// # Errors
    /// As [`Parameter::check`].
    pub fn set(&self, part: &mut T, value: &Value) -> Result<()> {
        self.parameter.check(value)?;
        (self.set)(part, value, &self.parameter.domain);
        Ok(())
    }

    /// The value in `part` as text that reads back.
    pub fn write(&self, part: &T) -> String {
        self.parameter.domain.write(&self.get(part))
    }

    /// The parameter with the value in `part` for default.
    pub fn listed(&self, part: &T) -> Listed {
        Listed { parameter: self.parameter, default: self.write(part), source: self.source, json: self.json }
    }
}

/// What a field may hold.
pub trait Stored {
    /// As users see it.
    fn show(&self, domain: &Domain) -> Value;
    /// From a value of `domain`.
    fn read(value: &Value, domain: &Domain) -> Self;
}

impl Stored for u64 {
    fn show(&self, domain: &Domain) -> Value {
        match domain {
            Domain::Number { scale, .. } => Value::Number(scale.shown(*self)),
            _ => Value::Whole(*self),
        }
    }

    fn read(value: &Value, domain: &Domain) -> u64 {
        match domain {
            Domain::Number { scale, .. } => scale.stored(value.number()),
            _ => value.whole(),
        }
    }
}

impl Stored for u32 {
    fn show(&self, domain: &Domain) -> Value {
        u64::from(*self).show(domain)
    }

    fn read(value: &Value, domain: &Domain) -> u32 {
        u32::try_from(u64::read(value, domain)).expect("the declared range fits")
    }
}

impl Stored for Rate {
    fn show(&self, domain: &Domain) -> Value {
        self.0.show(domain)
    }

    fn read(value: &Value, domain: &Domain) -> Rate {
        Rate(u64::read(value, domain))
    }
}

impl Stored for bool {
    fn show(&self, _: &Domain) -> Value {
        Value::Flag(*self)
    }

    fn read(value: &Value, _: &Domain) -> bool {
        value.flag()
    }
}

impl Stored for String {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(self.clone())
    }

    fn read(value: &Value, _: &Domain) -> String {
        value.text().into()
    }
}

impl<C: Choice> Stored for C {
    fn show(&self, _: &Domain) -> Value {
        Value::Text(self.name().into())
    }

    fn read(value: &Value, _: &Domain) -> C {
        C::parse(value.text()).expect("the domain has the names of the choice")
    }
}

impl<T: Stored> Stored for Option<T> {
    fn show(&self, domain: &Domain) -> Value {
        match (self, domain) {
            (Some(value), Domain::Or(_, domain) | Domain::OrUnknown(domain)) => value.show(domain),
            (None, Domain::OrUnknown(_)) => Value::Text(Domain::UNKNOWN.into()),
            (None, Domain::Or(number, _)) => Value::Number(*number),
            (Some(value), Domain::Unless(_, domain)) => value.show(domain),
            (None, Domain::Unless(words, _)) => Value::Text((*words).into()),
            _ => unreachable!("what may be missing is declared so"),
        }
    }

    fn read(value: &Value, domain: &Domain) -> Option<T> {
        match domain {
            Domain::Or(number, _) if *value == Value::Number(*number) => None,
            Domain::OrUnknown(_) if *value == Value::Text(Domain::UNKNOWN.into()) => None,
            Domain::Or(_, domain) | Domain::OrUnknown(domain) | Domain::Unless(_, domain) => {
                Some(T::read(value, domain))
            }
            _ => unreachable!("what may be missing is declared so"),
        }
    }
}

/// Declares a struct, its default, and as `PARAMETERS` a [`Field`] for every field that users may set.
///
/// `pub struct Part of Whole[part]` is the field `part` of a `Whole`, `pub struct Whole of Whole[]` the whole. Of each
/// field it takes one line of documentation, the parameter's meaning; if users may set it, `#[parameter(key, domain,
/// source)]`; and its default, which it also has where JSON leaves it out.
#[macro_export]
macro_rules! parameters {
    (
        $(#[$about:meta])*
        pub struct $Part:ident of $Whole:ident $path:tt {
            $(
                #[doc = $meaning:literal]
                $(#[parameter($key:literal, $domain:expr, $source:literal)])?
                pub $field:ident: $Type:ty = $default:expr,
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $Part {
            $(#[doc = $meaning] pub $field: $Type,)*
        }

        impl Default for $Part {
            fn default() -> Self {
                $Part { $($field: $default,)* }
            }
        }

        impl $Part {
            /// What users may set.
            pub const PARAMETERS: &'static [$crate::parameter::Field<$Whole>] = &[$($($crate::parameter::Field {
                parameter: $crate::parameter::Parameter {
                    key: $key,
                    domain: $domain,
                    meaning: $meaning.trim_ascii(),
                },
                source: $source,
                json: $crate::parameter::parameters!(@json $path $field),
                needs: "",
                get: |whole, domain| {
                    $crate::parameter::Stored::show(&$crate::parameter::parameters!(@place whole $path $field), domain)
                },
                set: |whole, value, domain| {
                    let place = &mut $crate::parameter::parameters!(@place whole $path $field);
                    *place = $crate::parameter::Stored::read(value, domain);
                },
            },)?)*];
        }
    };
    (@json [] $field:ident) => { stringify!($field) };
    (@json [$part:ident] $field:ident) => { concat!(stringify!($part), ".", stringify!($field)) };
    (@place $whole:ident [] $field:ident) => { $whole.$field };
    (@place $whole:ident [$part:ident] $field:ident) => { $whole.$part.$field };
}

/// Declares what a command takes: a struct, its default, and as `INPUTS` a [`Field`] for every field that users may give
/// by its name. Of each it takes one line of documentation, the meaning; `#[input(domain)]`, or `#[input(domain, more)]`
/// with further sentences, if users may give it, and behind `; needs` what it changes nothing without; and its default.
#[macro_export]
macro_rules! request {
    (
        $(#[$about:meta])*
        $vis:vis struct $Request:ident {
            $(
                #[doc = $meaning:literal]
                $(#[input($domain:expr $(, $more:literal)? $(; needs $needs:literal)?)])?
                $public:vis $field:ident: $Type:ty = $default:expr,
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $Request {
            $(#[doc = $meaning] $public $field: $Type,)*
        }

        impl Default for $Request {
            fn default() -> Self {
                $Request { $($field: $default,)* }
            }
        }

        impl $Request {
            /// What users may give.
            pub const INPUTS: &'static [$crate::parameter::Field<$Request>] = &[$($($crate::parameter::Field {
                parameter: $crate::parameter::Parameter {
                    key: stringify!($field),
                    domain: $domain,
                    meaning: concat!($meaning $(, " ", $more)?).trim_ascii(),
                },
                source: "",
                json: "",
                needs: concat!($($needs)?),
                get: |request, domain| $crate::parameter::Stored::show(&request.$field, domain),
                set: |request, value, domain| request.$field = $crate::parameter::Stored::read(value, domain),
            },)?)*];
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: Domain = Domain::count(1, 8, "");

    request! {
        /// What a test takes.
        struct Wanted {
            /// How wide.
            #[input(Domain::Unless("by size", &WIDTH), "In lanes."; needs "lanes")]
            width: Option<u32> = None,
            /// Not given by users.
            tries: u32 = 3,
        }
    }

    #[test]
    fn a_request_has_defaults_and_what_users_may_give() {
        let mut wanted = Wanted::default();
        assert_eq!(wanted, Wanted { width: None, tries: 3 });
        let [width] = Wanted::INPUTS else { panic!("one is given") };
        assert_eq!(
            (width.parameter.key, width.parameter.meaning, width.needs),
            ("width", "How wide. In lanes.", "lanes")
        );
        assert_eq!(width.write(&wanted), "by size");
        assert!(width.set(&mut wanted, &Value::Whole(9)).is_err());
        width.set(&mut wanted, &Value::Whole(4)).unwrap();
        assert_eq!(wanted.width, Some(4));
        assert_eq!(width.get(&wanted), Value::Whole(4));
    }
}
