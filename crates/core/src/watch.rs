//! Long work says how far it is, and ends when it is asked to.

use crate::error::{Code, Error, Result};

/// Called now and then with the share of the work that is done (0 to 1); `false` ends it.
pub type Progress<'a> = dyn FnMut(f64) -> bool + 'a;

/// Who watches a piece of work; by default nobody.
#[derive(Clone, Copy, Default)]
pub struct Watch<'a>(Option<&'a dyn Fn(f64) -> bool>);

impl<'a> Watch<'a> {
    /// Passes everything on to `progress`, which is as [`Progress`].
    pub fn new(progress: &'a dyn Fn(f64) -> bool) -> Self {
        Watch(Some(progress))
    }

    /// Reports the share `done / of`.
    ///
    /// # Errors
    /// [`Code::Interrupted`] if the work is to end.
    pub fn step(&self, done: usize, of: usize) -> Result<()> {
        self.at(done * 1024, of * 1024)
    }

    /// Reports the share `done / of`, if `done` is the first of 1,024.
    ///
    /// # Errors
    /// [`Code::Interrupted`] if the work is to end.
    #[inline]
    pub fn at(&self, done: usize, of: usize) -> Result<()> {
        match self.0 {
            Some(progress) if done.is_multiple_of(1024) && !progress(done as f64 / of.max(1) as f64) => {
                Err(Error::new(Code::Interrupted, "interrupted"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_when_asked_to() {
        let progress = |share| share < 0.5;
        let watch = Watch::new(&progress);
        assert!(watch.at(0, 2048).is_ok() && watch.at(1023, 1024).is_ok());
        assert_eq!(watch.at(1024, 2048).unwrap_err().code, Code::Interrupted);
        assert!(Watch::default().at(1024, 1024).is_ok());
    }
}
