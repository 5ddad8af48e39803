//! Parameters that the core declares, as Python sees them.

use crate::prelude::*;
use antiphon_base::error::{Result, nearest};
use antiphon_base::parameter::{Domain, Field, Listed, Parameter, Value};
use antiphon_base::units::clip;
use antiphon_jobs::training::IterationRequest;
use antiphon_model::system::{RouterModel, System};
use antiphon_noc::synthetic::Experiment;
use antiphon_sim::rails::RailsRequest;
use pyo3::IntoPyObjectExt;
use pyo3::types::{PyBool, PyDict, PyString};

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
        Domain::Or(_, other) | Domain::OrUnknown(other) | Domain::Unless(_, other) => of_domain(other, given),
        // One that may be a number.
        Domain::Spec { .. } => {
            let number = given.call_method0("__index__").ok()?;
            text_of(&number).ok().map(Value::Text)
        }
        Domain::Flag | Domain::Choice(_) => None,
    }
}

/// Sets what is given by keyword, of the `fields` of what `command` takes; None is not given. What is of none of them is
/// given back.
///
/// # Errors
/// As [`extract`].
pub fn fill_some<'py, T: 'static>(
    request: &mut T,
    fields: impl Iterator<Item = (Parameter, &'static Field<T>)> + Clone,
    given: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<String>> {
    let mut others = vec![];
    for (key, value) in given.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        let key: String = key.extract()?;
        match fields.clone().find(|(parameter, _)| parameter.key == key) {
            Some((parameter, field)) => {
                let value = extract(&parameter, &value).map_err(raise)?;
                field.set(request, &value).map_err(raise)?;
            }
            None => others.push(key),
        }
    }
    Ok(others)
}

/// The error about a key that `command` does not take, with the nearest that it takes.
pub fn unknown(command: &str, key: &str, known: impl Iterator<Item = &'static str>) -> PyErr {
    let text = format!("{command} has no parameter '{}'{}", clip(key), nearest(key, known));
    raise(Error::new(Code::UnknownName, text))
}

/// [`fill_some`], of what takes no others.
///
/// # Errors
/// `unknown-name` with the nearest key; as [`extract`].
pub fn fill<T: 'static>(
    command: &str,
    request: &mut T,
    fields: &'static [Field<T>],
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    match fill_some(request, inputs_of(fields), given)?.first() {
        Some(key) => Err(unknown(command, key, fields.iter().map(|field| field.parameter.key))),
        None => Ok(()),
    }
}

/// The fields of a request, as [`fill`] takes them.
pub fn inputs_of<T: 'static>(
    fields: &'static [Field<T>],
) -> impl Iterator<Item = (Parameter, &'static Field<T>)> + Clone {
    fields.iter().map(|field| (field.parameter, field))
}

/// See [`inputs`].
type DeclaredInput<'py> = (Bound<'py, PyAny>, bool, &'static str);

/// What the core takes of a command, `train`, `noc`, `routers` (of `noc`) or `rails`: a `Parameter`, whether it need not be
/// given, so that its default is in words, and what it changes nothing without, or "".
#[pyfunction]
#[pyo3(signature = (command) -> "list[tuple[Parameter, bool, str]]")]
pub fn inputs<'py>(py: Python<'py>, command: &str) -> PyResult<Vec<DeclaredInput<'py>>> {
    fn all<'py, T: 'static>(
        py: Python<'py>,
        request: &T,
        fields: impl Iterator<Item = (Parameter, &'static Field<T>)>,
    ) -> PyResult<Vec<DeclaredInput<'py>>> {
        let of = |(parameter, field): (Parameter, &Field<T>)| {
            let optional = matches!(parameter.domain, Domain::Unless(..));
            Ok((listed(py, &Listed { parameter, ..field.listed(request) })?, optional, field.needs))
        };
        fields.map(of).collect()
    }
    let textbook = || System { router: RouterModel::textbook(), ..System::default() };
    match command {
        "train" => all(py, &IterationRequest::default(), inputs_of(IterationRequest::INPUTS)),
        "noc" => all(py, &Experiment::default(), inputs_of(Experiment::INPUTS)),
        "routers" => all(py, &textbook(), RouterModel::network_parameters()),
        "rails" => all(py, &RailsRequest::default(), inputs_of(RailsRequest::INPUTS)),
        _ => Err(raise(Error::new(Code::UnknownName, format!("no command '{}'", clip(command))))),
    }
}

/// The values of a request by key; None where there is none.
pub fn values<'py, T: 'static>(
    py: Python<'py>,
    request: &T,
    fields: impl Iterator<Item = (Parameter, &'static Field<T>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    for (parameter, field) in fields {
        let value = match (parameter.domain, field.get(request)) {
            (Domain::Unless(words, _), Value::Text(text)) if text == words => None,
            (Domain::Or(number, _), Value::Number(given)) if given == number => None,
            (_, value) => Some(to_python(py, value)?),
        };
        values.set_item(parameter.key, value)?;
    }
    Ok(values)
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
