//! Long work says how far it is, and ends when it is asked to.
//!
//! Work that can say how far it is takes a [`Watch`], and returns an error when it is to end. All other work calls [`checkpoint`] now
//! and then, which unwinds to [`while_it`]: so that a flow or a table deep in a
//! computation that cannot fail need not hand an error up. Salsa, a library for incremental computation, cancels queries so.

use crate::error::{Code, Error, Result};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

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

    /// Reports the share `done / of`, if `done` is the first of 1,024. A [`checkpoint`] where nobody watches.
    ///
    /// # Errors
    /// [`Code::Interrupted`] if the work is to end.
    #[inline]
    pub fn at(&self, done: usize, of: usize) -> Result<()> {
        if !done.is_multiple_of(1024) {
            return Ok(());
        }
        match self.0 {
            Some(progress) if !progress(done as f64 / of.max(1) as f64) => {
                Err(Error::new(Code::Interrupted, "interrupted"))
            }
            Some(_) => Ok(()),
            None => {
                checkpoint();
                Ok(())
            }
        }
    }
}

thread_local! {
    /// Whether the work of this thread is to go on.
    static GOES_ON: RefCell<Option<Rc<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// What [`checkpoint`] unwinds with.
struct Ended;

/// What comes of `work`, which ends at the first [`checkpoint`] on this thread where `goes_on` says no; then None.
pub fn while_it<T>(goes_on: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> Option<T> {
    let before = GOES_ON.replace(Some(Rc::new(goes_on)));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GOES_ON.set(before);
    match outcome {
        Ok(outcome) => Some(outcome),
        Err(ended) if ended.is::<Ended>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Where long work may end, to be called every few milliseconds; it takes some 50 ns.
pub fn checkpoint() {
    let goes_on = GOES_ON.with_borrow(Clone::clone);
    if goes_on.is_some_and(|goes_on| !goes_on()) {
        resume_unwind(Box::new(Ended));
    }
}

/// The same items, with a [`checkpoint`] at the first of 1,024.
pub fn interruptible<I: IntoIterator>(items: I) -> impl Iterator<Item = I::Item> {
    items.into_iter().enumerate().map(|(number, item)| {
        if number.is_multiple_of(1024) {
            checkpoint();
        }
        item
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn ends_when_asked_to() {
        let progress = |share| share < 0.5;
        let watch = Watch::new(&progress);
        assert!(watch.at(0, 2048).is_ok() && watch.at(1023, 1024).is_ok());
        assert_eq!(watch.at(1024, 2048).unwrap_err().code, Code::Interrupted);
        assert!(Watch::default().at(1024, 1024).is_ok());
    }

    #[test]
    fn work_without_a_watch_ends_too() {
        checkpoint();
        let step = Rc::new(Cell::new(0));
        let now = step.clone();
        let work = || {
            for next in interruptible(0..) {
                step.set(next);
                // Work within work has its own end, and what watches nothing is within it.
                assert_eq!(while_it(|| false, || Watch::default().at(0, 1)), None);
                assert_eq!(while_it(|| true, || Watch::default().at(0, 1)), Some(Ok(())));
            }
        };
        assert_eq!(while_it(move || now.get() < 2000, work), None);
        assert_eq!(step.get(), 2047);
        checkpoint();
    }

    #[test]
    #[should_panic(expected = "of another kind")]
    fn panics_go_on() {
        while_it(|| true, || panic!("of another kind"));
    }
}
