//! Antiphon core.
