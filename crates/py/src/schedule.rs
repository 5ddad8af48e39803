//! `antiphon.Schedule`.

use crate::convert::{Table, fields, raise, record, run};
use crate::fabric::Fabric;
use crate::operations;
use antiphon_core::bound;
use antiphon_core::error::{Code, Error};
use antiphon_core::schedule;
use antiphon_core::verify as verification;
use numpy::{Element, IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ops::Add;

/// A complete plan for one collective on one fabric.
#[pyclass(module = "antiphon", frozen, eq)]
#[derive(PartialEq)]
pub struct Schedule(pub schedule::Schedule);

#[pymethods]
impl Schedule {
    #[classmethod]
    #[pyo3(signature = (text, fabric = None))]
    fn from_json(class: &Bound<'_, PyType>, text: &str, fabric: Option<&Fabric>) -> PyResult<Self> {
        let fabric = fabric.map(|fabric| &*fabric.0);
        let schedule = run(class.py(), || schedule::Schedule::from_json(text, fabric))?;
        Ok(Schedule(schedule))
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn stats<'py>(&self, py: Python<'py>, fabric: &Fabric) -> PyResult<Bound<'py, PyAny>> {
        let (schedule, fabric) = (&self.0, &fabric.0);
        let stats = run(py, || schedule.check(fabric).map(|()| schedule.stats(fabric)))?;
        let lanes = Table::new(py)
            .column("reduce_height", stats.reduce_heights.into_iter().map(i64::from))?
            .column("copy_height", stats.copy_heights.into_iter().map(i64::from))?;
        let links = Table::new(py).column("bytes", stats.link_bytes.into_iter())?;
        let phases: Vec<(String, u64)> = stats.phases.into_iter().map(|phase| (phase.name, phase.steps)).collect();
        record(
            "Stats",
            &fields!(py, {
                phases: phases,
                steps: stats.steps,
                transfers: stats.transfers,
                messages: stats.messages,
                used_links_percent: stats.used_links_percent,
                lanes: lanes.0,
                links: links.0,
            }),
        )
    }

    fn verify<'py>(&self, py: Python<'py>, fabric: &Fabric) -> PyResult<Bound<'py, PyAny>> {
        operations::verify(py, fabric, self, None)
    }

    #[pyo3(signature = (fabric, system = operations::generic()), text_signature = "($self, fabric, system='generic')")]
    fn lower_bound<'py>(
        &self,
        py: Python<'py>,
        fabric: &Fabric,
        system: operations::SystemLike,
    ) -> PyResult<Bound<'py, PyAny>> {
        operations::bound_of(py, fabric, self, system)
    }

    #[pyo3(signature = (buffers, seed = None))]
    fn execute<'py>(&self, buffers: &Bound<'py, PyAny>, seed: Option<u64>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if let Ok(arrays) = buffers.extract() {
            return self.execute_as::<i32>(buffers.py(), arrays, seed);
        }
        if let Ok(arrays) = buffers.extract() {
            return self.execute_as::<i64>(buffers.py(), arrays, seed);
        }
        if let Ok(arrays) = buffers.extract() {
            return self.execute_as::<f32>(buffers.py(), arrays, seed);
        }
        if let Ok(arrays) = buffers.extract() {
            return self.execute_as::<f64>(buffers.py(), arrays, seed);
        }
        let what = "buffers must be one-dimensional numpy arrays, all of int32, int64, float32 or float64";
        Err(raise(Error::new(Code::BadSpec, what)))
    }

    #[getter]
    fn algorithm(&self) -> &str {
        &self.0.algorithm
    }

    #[getter]
    fn fabric(&self) -> &str {
        &self.0.fabric
    }

    #[getter]
    fn collective(&self) -> &str {
        self.0.collective.kind.name()
    }

    #[getter]
    fn root(&self) -> Option<u32> {
        self.0.collective.kind.rooted().then_some(self.0.collective.root)
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn ranks(&self) -> u32 {
        self.0.ranks
    }

    #[getter]
    fn excluded(&self) -> Vec<u32> {
        self.0.excluded.clone()
    }

    #[getter]
    fn bound_of(&self) -> &'static str {
        bound::subject(&self.0)
    }

    fn __repr__(&self) -> String {
        let schedule = &self.0;
        format!(
            "<Schedule {} on {}: {} of {} bytes, {} lanes, {} transfers>",
            schedule.algorithm,
            schedule.fabric,
            schedule.collective.kind.name(),
            schedule.bytes,
            schedule.lanes.len(),
            schedule.transfers.len()
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json(),)))
    }
}

impl Schedule {
    fn execute_as<'py, T: Element + Copy + Send + Add<Output = T>>(
        &self,
        py: Python<'py>,
        arrays: Vec<PyReadonlyArray1<'py, T>>,
        seed: Option<u64>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut data: Vec<Vec<T>> = arrays.iter().map(|array| array.as_array().to_vec()).collect();
        run(py, || verification::execute(&self.0, &mut data, seed))?;
        Ok(data.into_iter().map(|values| values.into_pyarray(py).into_any()).collect())
    }
}
