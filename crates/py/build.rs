//! Writes what the extension offers, with its types, for type checkers and editors: `python/antiphon/_core.pyi`.

use std::env;
use std::process::Command;

fn main() {
    for path in ["src", "../model/src/system", "../../scripts/stubs.py", "../../python/antiphon/_core.pyi"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let python = env::var_os("PYO3_PYTHON").unwrap_or_else(|| "python3".into());
    if !Command::new(python).arg("../../scripts/stubs.py").status().is_ok_and(|status| status.success()) {
        println!("cargo:warning=scripts/stubs.py did not write the type stub of the extension; it needs Python 3.10");
    }
}
