//! Parameters that the core declares, as Python sees them.

use crate::convert::record;
use antiphon_base::error::{Error, Result};
use antiphon_base::parameter::{Domain, Listed, Parameter, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

/// A value given for a parameter: a number, or text as on the command line.
pub fn extract(parameter: &Parameter, given: &Bound<'_, PyAny>) -> Result<Value> {
    // Python refuses to print integers of thousands of digits.
    let refuse = || -> Error {
        parameter.refuse(&given.str().map_or("a number of thousands of digits".into(), |text| text.to_string()))
    };
    if let Ok(text) = given.cast::<PyString>() {
        return parameter.read(&text.to_string_lossy());
    }
    let value = of_domain(&parameter.domain, given).ok_or_else(refuse)?;
    parameter.check(&value)?;
    Ok(value)
}

fn of_domain(domain: &Domain, given: &Bound<'_, PyAny>) -> Option<Value> {
    if let Domain::Flag = domain {
        return given.extract().ok().map(Value::Flag);
    }
    if given.is_instance_of::<PyBool>() {
        return None;
    }
    match domain {
        Domain::Bytes { .. } | Domain::Count { .. } | Domain::Rank => {
            given.call_method0("__index__").ok()?.extract().ok().map(Value::Whole)
        }
        Domain::Number { .. } => given.extract().ok().map(Value::Number),
        Domain::Or(number, _) if given.extract().is_ok_and(|given: f64| given == *number) => {
            Some(Value::Number(*number))
        }
        Domain::Or(_, other) | Domain::OrUnknown(other) => of_domain(other, given),
        Domain::Flag | Domain::Choice(_) | Domain::Spec { .. } => None,
    }
}

/// A value as a Python object.
pub fn to_python(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Whole(count) => count.into_py_any(py),
        Value::Number(number) => number.into_py_any(py),
        Value::Flag(flag) => flag.into_py_any(py),
        Value::Text(text) => text.into_py_any(py),
    }
}

/// An `antiphon.Parameter`.
pub fn listed<'py>(py: Python<'py>, listed: &Listed) -> PyResult<Bound<'py, PyAny>> {
    let Listed { parameter: Parameter { key, domain, meaning }, default, source, json } = listed;
    let (least, most) = domain.range().unzip();
    let number = |value: Option<Value>| value.map(|value| to_python(py, value)).transpose();
    let choices: Vec<String> = domain.choices().iter().map(Value::to_string).collect();
    record!(py, "Parameter", {
        key: key,
        kind: domain.kind(),
        values: domain.to_string(),
        unit: domain.unit(),
        least: number(least)?,
        most: number(most)?,
        choices: choices,
        default: default,
        meaning: meaning,
        source: source,
        json: json,
    })
}
