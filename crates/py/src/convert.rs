//! Conversions shared by all wrappers: errors, sizes, times, tables and result records.

use crate::operations::SystemLike;
use antiphon_base::error::{Code, Error};
use antiphon_base::parameter::Choice;
use antiphon_base::units::{self, Bytes, Picos};
use antiphon_model::collective::{self, Data};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray2};
use pyo3::exceptions::{PyException, PyOverflowError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyString, PyType};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;

/// Turns a core error into the Python exception `antiphon.AntiphonError`.
pub fn raise(error: Error) -> PyErr {
    exception(error.message, error.code.as_str())
}

/// An `antiphon.AntiphonError`.
pub fn exception(message: String, code: &'static str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Python::attach(|py| match CLASS.import(py, "antiphon.errors", "AntiphonError") {
        Ok(class) => PyErr::from_type(class.clone(), (message, code)),
        Err(missing) => missing,
    })
}

/// Text given from Python, which may have halves of surrogate pairs: these are no Unicode.
#[derive(Clone, Copy)]
pub struct Text<'a>(pub &'a str);

impl<'a, 'py> FromPyObject<'a, 'py> for Text<'a> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        value.extract::<&'a str>().map(Text).map_err(|error| {
            if !error.is_instance_of::<PyUnicodeEncodeError>(value.py()) {
                return error;
            }
            let shown = value.repr().map_or_else(|_| String::new(), |shown| shown.to_string());
            raise(Error::new(Code::BadSpec, format!("{} is not valid Unicode", units::clip(&shown))))
        })
    }
}

/// [`Text`] that is kept.
pub struct OwnText(pub String);

impl<'py> FromPyObject<'_, 'py> for OwnText {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        value.extract::<Text<'_>>().map(|text| OwnText(text.0.into()))
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.0
    }
}

/// A value given by its name.
pub struct Named<T>(pub T);

impl<'py, T: Choice> FromPyObject<'_, 'py> for Named<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        T::parse(value.extract::<Text<'_>>()?.0).map(Named).map_err(raise)
    }
}

/// A data size given as an `int` or as text with a unit.
pub struct Size(pub Bytes);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let text = match value.cast::<PyString>() {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(_) => {
                // A bool is an int in Python, but no size.
                let number = if value.is_instance_of::<PyBool>() { Err(not_a_size(&value)) } else { Ok(value) }?;
                let index = number.call_method0("__index__").map_err(|_| not_a_size(&value))?;
                // Python refuses to print integers of thousands of digits.
                let too_large = |_| raise(Error::new(Code::BadSize, "size is larger than 1 PiB"));
                index.extract::<i128>().map_err(too_large)?.to_string()
            }
        };
        units::parse_bytes(&text).map(Size).map_err(raise)
    }
}

fn not_a_size(value: &Bound<'_, PyAny>) -> PyErr {
    let text = format!("size '{value}' is not a whole number of bytes; write for example 4096, '375kB' or '64MiB'");
    raise(Error::new(Code::BadSize, text))
}

/// Bytes from every rank, by row, to every other one: an array of uint64.
pub struct Matrix(collective::Matrix);

impl<'py> FromPyObject<'_, 'py> for Matrix {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        numpy(value.py())?;
        let array: PyReadonlyArray2<u64> = value.extract()?;
        let rows: Vec<Vec<Bytes>> = array.as_array().rows().into_iter().map(|row| row.to_vec()).collect();
        collective::Matrix::new(&rows).map(Matrix).map_err(raise)
    }
}

/// How much a collective moves: a matrix, if there is one.
pub fn data(bytes: Size, matrix: Option<Matrix>) -> Data {
    matrix.map_or(bytes.0.into(), |matrix| matrix.0.into())
}

/// A number or other value as text. To print runs handlers of signals: an interrupt is an error, not a value without a text.
pub fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.str() {
        Ok(text) => Ok(text.to_string_lossy().into_owned()),
        // Python refuses to print integers of thousands of digits.
        Err(error) if error.is_instance_of::<PyException>(value.py()) => Ok("a number of thousands of digits".into()),
        Err(interrupt) => Err(interrupt),
    }
}

/// An integer given from Python, whatever its size.
pub struct Int(Option<i128>, String);

impl<'py> FromPyObject<'_, 'py> for Int {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let index = value.call_method0("__index__").ok();
        let number = index.and_then(|index| index.extract::<i128>().ok());
        Ok(Int(number, text_of(&value)?))
    }
}

impl Int {
    /// The value of the parameter `name`, if it fits.
    pub fn get<T: TryFrom<i128>>(self, name: &str) -> PyResult<T> {
        self.0.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let most = (1i128 << (8 * size_of::<T>())) - 1;
            let text = format!("{name} is a whole number from 0 to {most}, not {}", units::clip(&self.1));
            raise(Error::new(Code::BadSize, text))
        })
    }
}

/// What a Python number or list of numbers becomes, if its type can hold it.
pub struct Fit<T>(pub T);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Fit<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        T::extract(value).map(Fit).map_err(|error| {
            let error: PyErr = error.into();
            if !error.is_instance_of::<PyOverflowError>(value.py()) {
                return error;
            }
            let given = match text_of(&value) {
                Ok(given) => given,
                Err(interrupt) => return interrupt,
            };
            let range = "ranks, links and steps are whole numbers from 0 to 4294967295, bytes and chunks below 2^64";
            let text = format!("{} is out of range; {range}", units::clip(&given));
            raise(Error::new(Code::BadSize, text))
        })
    }
}

/// A number given from Python; integers that are larger than all floating-point numbers are infinite.
#[derive(Clone, Copy)]
pub struct Number(pub f64);

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value.extract::<f64>() {
            Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
                Ok(Number(if value.lt(0)? { f64::NEG_INFINITY } else { f64::INFINITY }))
            }
            other => other.map(Number),
        }
    }
}

macro_rules! literals {
    ($([$($generic:tt)*] $type:ty: $literal:ty => $make:expr;)*) => {$(
        impl<$($generic)*> From<$literal> for $type {
            fn from(literal: $literal) -> Self {
                ($make)(literal)
            }
        }
    )*};
}

// As defaults, by `literal_defaults`.
literals! {
    ['a] Text<'a>: &'a str => Text;
    [T: Choice] Named<T>: &str => |name| Named(T::parse(name).expect("a default is one of the names"));
    [] Size: &str => |text| Size(units::parse_bytes(text).expect("a default is a size"));
    [] SystemLike: &str => |name: &str| SystemLike::Name(name.into());
    [] Int: u32 => |number: u32| Int(Some(number.into()), String::new());
    [] Number: f64 => Number;
    [T: From<u16>] Fit<T>: u16 => |number: u16| Fit(number.into());
    [T] Fit<Vec<T>>: [T; 0] => |_| Fit(vec![]);
}

/// Python's hash of a value, by what tells most of its kind apart.
pub fn hash_of(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// Picoseconds as nanoseconds.
pub fn nanos(picos: Picos) -> f64 {
    picos as f64 / units::PICOS_PER_NANO as f64
}

/// Picoseconds as nanoseconds, where there are any.
pub trait ToNanos {
    type Nanos;

    fn nanos(&self) -> Self::Nanos;
}

impl ToNanos for Picos {
    type Nanos = f64;

    fn nanos(&self) -> f64 {
        nanos(*self)
    }
}

impl ToNanos for Option<Picos> {
    type Nanos = Option<f64>;

    fn nanos(&self) -> Option<f64> {
        self.map(nanos)
    }
}

/// Longest time that is taken from Python, in nanoseconds: 11 days.
pub const MAX_NANOS: f64 = 1e15;

/// Nanoseconds as picoseconds, to the nearest.
pub fn picos(nanos: f64) -> Picos {
    (nanos * units::PICOS_PER_NANO as f64).round() as Picos
}

/// numpy, ready for arrays: whoever first makes and borrows one looks it up, and panics if a signal is heard there; an
/// import raises. Commands that show no table do without.
pub fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static READY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let ready = READY.get_or_try_init(py, || {
        let numpy = py.import("numpy")?.unbind();
        PyArray1::from_slice(py, &[0u8]).readonly();
        Ok::<_, PyErr>(numpy)
    })?;
    Ok(ready.bind(py))
}

/// Texts that are handed to Python at a time.
const PIECE: usize = 1 << 16;

/// A table under construction: column name to numpy array.
pub struct Table<'py>(pub Bound<'py, PyDict>);

impl<'py> Table<'py> {
    pub fn new(py: Python<'py>) -> Self {
        Table(PyDict::new(py))
    }

    /// Adds a column.
    pub fn column<T: Column>(self, name: &str, values: impl Iterator<Item = T>) -> PyResult<Self> {
        self.0.set_item(name, T::array(numpy(self.0.py())?, values.collect())?)?;
        Ok(self)
    }
}

/// What a column of a table has.
pub trait Column: Sized {
    fn array(numpy: &Bound<'_, PyModule>, values: Vec<Self>) -> PyResult<Py<PyAny>>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Column for $number {
            /// The values are moved into the array, not copied.
            fn array(numpy: &Bound<'_, PyModule>, values: Vec<Self>) -> PyResult<Py<PyAny>> {
                Ok(values.into_pyarray(numpy.py()).into_any().unbind())
            }
        }
    )*};
}
numbers!(bool, u8, u16, u32, u64, usize, i64, f64);

impl Column for String {
    fn array(numpy: &Bound<'_, PyModule>, values: Vec<Self>) -> PyResult<Py<PyAny>> {
        <&str>::array(numpy, values.iter().map(String::as_str).collect())
    }
}

impl Column for &str {
    fn array(numpy: &Bound<'_, PyModule>, values: Vec<Self>) -> PyResult<Py<PyAny>> {
        let array = |values: &[&str]| {
            numpy.py().check_signals()?;
            numpy.call_method1("array", (values, "str"))
        };
        // Millions take seconds.
        let (first, rest) = values.split_at(values.len().min(PIECE));
        let mut arrays = vec![array(first)?];
        arrays.extend(rest.chunks(PIECE).map(array).collect::<PyResult<Vec<_>>>()?);
        Ok(numpy.call_method1("concatenate", (arrays,))?.unbind())
    }
}

impl<'py> IntoPyObject<'py> for Table<'py> {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = Infallible;

    fn into_pyobject(self, _: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(self.0)
    }
}

/// An instance of the dataclass `antiphon.results.<class>` with the given fields.
pub fn instance<'py>(class: &str, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let module = fields.py().import("antiphon.results")?;
    module.getattr(class)?.call((), Some(fields))
}

/// A dictionary: `..value: what, it_ns;` are `value.what` and `value.it_ps` in ns, `name: value` pairs of different types.
macro_rules! fields {
    ($py:expr, { $(..$from:tt: $($same:ident),+;)* $($name:ident: $value:expr),* $(,)? }) => {{
        let dict = pyo3::types::PyDict::new($py);
        $($(dict.set_item(stringify!($same), &antiphon_macros::field!($from.$same))?;)+)*
        $(dict.set_item(stringify!($name), $value)?;)*
        dict
    }};
}
pub(crate) use fields;

/// An [`instance`] with [`fields`].
macro_rules! record {
    ($py:expr, $class:literal, $fields:tt) => {
        crate::convert::instance($class, &crate::convert::fields!($py, $fields))
    };
}
pub(crate) use record;

/// A [`Table`] of `row in rows`, which are gone through once for each column; `what, it_ns` are `row.what` and `row.it_ps`
/// in ns.
macro_rules! table {
    (@ $row:tt, $name:ident) => { antiphon_macros::field!($row.$name) };
    (@ $row:tt, $name:ident, $value:expr) => { $value };
    ($py:expr, $row:tt in $rows:expr, { $($name:ident $(: $value:expr)?),* $(,)? }) => {
        Ok(crate::convert::Table::new($py))$(.and_then(|table| {
            table.column(stringify!($name), $rows.map(|$row| crate::convert::table!(@ $row, $name $(, $value)?)))
        }))*
    };
}
pub(crate) use table;
