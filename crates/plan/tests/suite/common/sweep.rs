//! How much of what could be tried is.

/// What every test run tries, or what the longer sweeps of `make test-all` do.
pub fn sweep<T>(usual: T, longer: T) -> T {
    if std::env::var_os("ANTIPHON_SWEEPS").is_some() { longer } else { usual }
}
