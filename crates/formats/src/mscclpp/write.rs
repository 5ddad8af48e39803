//! To text, as long as a reader takes it.

use super::model::MscclppPlan;
use super::read::MAX_TEXT_BYTES;
use crate::check_length;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use std::io::{self, Write};

/// The text of a plan. O(operations).
///
/// # Errors
/// [`antiphon_base::error::Code::TooLarge`] past what is read, [`antiphon_base::error::Code::Interrupted`].
pub fn write(plan: &MscclppPlan, watch: Watch) -> Result<String> {
    let mut text = WatchedOutput { text: vec![], writes: 0, watch, refusal: Ok(()) };
    let outcome = serde_json::to_writer_pretty(&mut text, plan).map(|()| text.write_all(b"\n"));
    text.refusal?;
    outcome.expect("plans are plain data").expect("memory can be written");
    Ok(String::from_utf8(text.text).expect("JSON is UTF-8"))
}

/// A text that ends when it is too long or asked to.
struct WatchedOutput<'a> {
    text: Vec<u8>,
    writes: usize,
    watch: Watch<'a>,
    refusal: Result<()>,
}

impl Write for WatchedOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes += 1;
        let within = check_length("plan", self.text.len() + bytes.len(), MAX_TEXT_BYTES);
        self.refusal = within.and_then(|()| self.watch.at(self.writes, MAX_TEXT_BYTES));
        match self.refusal {
            Ok(()) => self.text.write(bytes),
            Err(_) => Err(io::Error::other("it ends")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
