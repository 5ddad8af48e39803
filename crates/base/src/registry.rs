//! What is added to the lists of the core while a program runs, by name: algorithms, kinds of fabrics, schedulers.

use std::sync::{PoisonError, RwLock};

/// Things by name, in the order in which they came. They are few and kept for good: whoever uses one may have it still when
/// another takes its name.
pub struct Registry<T: ?Sized + 'static>(RwLock<Vec<(&'static str, &'static T)>>);

impl<T: ?Sized> Registry<T> {
    /// Nothing yet.
    #[allow(clippy::new_without_default)] // of static things
    pub const fn new() -> Self {
        Registry(RwLock::new(Vec::new()))
    }

    /// Adds a thing, in the place of the one of this name if there is one.
    pub fn add(&self, name: &str, thing: Box<T>) {
        let thing: &'static T = Box::leak(thing);
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some(place) => place.1 = thing,
            None => all.push((String::from(name).leak(), thing)),
        }
    }

    /// The name is free again.
    pub fn remove(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != name);
    }

    /// All, with their names.
    pub fn all(&self) -> Vec<(&'static str, &'static T)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The one of a name.
    pub fn find(&self, name: &str) -> Option<(&'static str, &'static T)> {
        self.all().into_iter().find(|(other, _)| *other == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_once() {
        static WORDS: Registry<str> = Registry::new();
        WORDS.add("a", "first".into());
        WORDS.add("b", "other".into());
        let kept = WORDS.find("a");
        WORDS.add("a", "second".into());
        assert_eq!((kept, WORDS.all()), (Some(("a", "first")), vec![("a", "second"), ("b", "other")]));
        WORDS.remove("a");
        assert_eq!((WORDS.find("a"), WORDS.all().len()), (None, 1));
    }
}
