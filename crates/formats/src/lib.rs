//! Formats of other tools, both ways: a folder or file for each, behind one trait. A format is recognised by content. A
//! file is proven as it stands and, where possible, raised to a [`Schedule`], which can be bound, timed and compared.
//!
//! In the folder of a format, `model` is what a file says, `read` and `write` are its text, `lower` makes a file of a
//! schedule, and `raise` a schedule of a file.

pub mod chakra;
pub mod chrome;
pub mod flows;
pub mod goal;
mod json;
pub mod msccl;
pub mod mscclpp;

use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{Bytes, MAX_BYTES, clip};
use antiphon_base::watch::Watch;
use antiphon_model::collective::Collective;
use antiphon_model::fabric::{Fabric, NodeId};
use antiphon_model::schedule::Schedule;
use msccl::MscclOptions;
use std::fmt::Debug;

/// Longest text that is read.
pub const MAX_TEXT_BYTES: usize = 1 << 28;

/// A format of another tool.
pub trait FileFormat: Sync {
    /// Its name and what else is fixed.
    fn info(&self) -> &'static FormatInfo;
    /// See [`FormatInfo::name`].
    fn name(&self) -> &'static str {
        self.info().name
    }
    /// Whether a text is of this format, by its beginning.
    fn recognises(&self, text: &str) -> bool;
    /// Reads a text, reporting to `watch`, as all here do. Nothing is proven.
    ///
    /// # Errors
    /// [`Code::BadFile`] with the line, [`Code::TooLarge`]; [`Code::Interrupted`].
    fn read(&self, text: &str, watch: Watch) -> Result<Box<dyn Foreign>>;
    /// Writes a schedule for a consumer, and proves what is written.
    ///
    /// # Errors
    /// [`Code::NotApplicable`] for what the format cannot say, [`Code::TooLarge`] past a limit of the consumer, which it
    /// names, [`Code::NotProven`], [`Code::UnknownName`] for the consumer; [`Code::Interrupted`].
    fn write(&self, schedule: &Schedule, consumer: &str, watch: Watch) -> Result<String>;
    /// The same with what programs of MSCCL say besides.
    ///
    /// # Errors
    /// As [`FileFormat::write`]; [`Code::NotApplicable`] for other formats, but for the defaults; as [`msccl::lower`].
    fn write_with(&self, schedule: &Schedule, consumer: &str, options: &MscclOptions, watch: Watch) -> Result<String> {
        match *options == MscclOptions::default() {
            true => self.write(schedule, consumer, watch),
            false => fail(
                Code::NotApplicable,
                format!("{} has no instances, channels, protocol or sizes; msccl has", self.name()),
            ),
        }
    }
}

/// The fixed properties of a format.
pub struct FormatInfo {
    /// Its name, e.g. `msccl`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// How files of it end, e.g. `.xml`.
    pub extension: &'static str,
    /// The programs that read it, each with limits of its own; the first is the default. None, if it is only read here.
    pub consumers: &'static [&'static str],
}

/// The contents of a file of another tool.
pub trait Foreign: Debug + Send + Sync {
    /// The name it gives itself.
    fn name(&self) -> &str;
    /// Ranks it is for.
    fn ranks(&self) -> u32;
    /// What it computes.
    fn collective(&self) -> Collective;
    /// Proves that it computes its collective.
    ///
    /// # Errors
    /// [`Code::NotProven`] with the first deadlock, race or wrong chunk; [`Code::TooLarge`]; [`Code::Interrupted`].
    fn prove(&self, watch: Watch) -> Result<FileProof>;
    /// The same as a schedule of `bytes` (the full buffer) on a fabric: rank `i` is the file's rank `i`, on its own
    /// node or on that of `placement`.
    ///
    /// # Errors
    /// As [`Foreign::prove`]; [`Code::NotApplicable`] for what a schedule cannot say, [`Code::BadFile`] for a fabric of another size.
    fn raise(&self, fabric: &Fabric, bytes: Bytes, placement: &[NodeId], watch: Watch) -> Result<Schedule>;
}

/// The proof of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProof {
    /// Thread blocks, of all ranks together.
    pub blocks: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Messages between ranks.
    pub messages: u64,
    /// Messages that a connection must hold so that nothing can deadlock.
    pub fifo_depth: u32,
    /// How input and output may lie, e.g. `in-place`.
    pub places: Vec<&'static str>,
    /// All consumers, each with the reason why it cannot read the file, if there is one.
    pub consumers: Vec<(&'static str, Option<String>)>,
}

/// All formats.
pub const ALL: &[&dyn FileFormat] = &[&msccl::Msccl, &mscclpp::Mscclpp, &flows::Teccl, &flows::Tacos, &goal::Goal];

/// The format of a name.
///
/// # Errors
/// [`Code::UnknownName`] with the nearest known name.
pub fn by_name(name: &str) -> Result<&'static dyn FileFormat> {
    let names = || ALL.iter().map(|format| format.name());
    ALL.iter().find(|format| format.name() == name).copied().ok_or_else(|| {
        let known = names().collect::<Vec<_>>().join(", ");
        Error::new(Code::UnknownName, format!("no format '{}'{}; known: {known}", clip(name), nearest(name, names())))
    })
}

fn fail<T>(code: Code, what: impl AsRef<str>) -> Result<T> {
    Err(Error::new(code, what))
}

/// A refusal of what a file says.
fn bad<T>(what: impl AsRef<str>) -> Result<T> {
    fail(Code::BadFile, what)
}

/// Refuses texts of more than `most` bytes.
///
/// # Errors
/// [`Code::TooLarge`].
fn check_length(what: &str, bytes: usize, most: usize) -> Result<()> {
    match bytes > most {
        true => fail(Code::TooLarge, format!("the {what} is larger than {} MiB", most >> 20)),
        false => Ok(()),
    }
}

/// Checks that a file for so many ranks can be a schedule of `bytes` on a fabric.
///
/// # Errors
/// [`Code::BadFile`] for a fabric of another size, [`Code::BadSize`], [`Code::BadSpec`] for the placement.
fn check_target(ranks: usize, fabric: &Fabric, bytes: Bytes, placement: &[NodeId]) -> Result<()> {
    if fabric.ranks() != ranks {
        return bad(format!("the file is for {ranks} ranks, {} has {}", fabric.name, fabric.ranks()));
    }
    if bytes == 0 || bytes > MAX_BYTES {
        return fail(Code::BadSize, format!("bytes is {bytes}, expected 1 to 1 PiB"));
    }
    if !placement.is_empty() && placement.len() != ranks {
        return fail(Code::BadSpec, format!("the placement names {} nodes for {ranks} ranks", placement.len()));
    }
    Ok(())
}

/// Refuses a consumer that a format has not.
///
/// # Errors
/// [`Code::UnknownName`] with the nearest known name.
fn check_consumer(format: &dyn FileFormat, consumer: &str) -> Result<()> {
    match format.info().consumers.contains(&consumer) {
        true => Ok(()),
        false => Err(unknown_consumer(format, consumer)),
    }
}

fn unknown_consumer(format: &dyn FileFormat, consumer: &str) -> Error {
    let known = format.info().consumers;
    let near = nearest(consumer, known.iter().copied());
    let (format, known) = (format.name(), known.join(", "));
    Error::new(Code::UnknownName, format!("no consumer '{}' of {format}{near}; known: {known}", clip(consumer)))
}

/// The format of a text; `None` for Antiphon's own, which is JSON.
///
/// # Errors
/// [`Code::BadFile`] for XML of no known format, [`Code::TooLarge`].
pub fn of_text(text: &str) -> Result<Option<&'static dyn FileFormat>> {
    if text.trim_start().starts_with('<') {
        check_length("text", text.len(), MAX_TEXT_BYTES)?;
    }
    match ALL.iter().find(|format| format.recognises(text)) {
        Some(format) => Ok(Some(*format)),
        None if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') => {
            let known: Vec<&str> = ALL.iter().map(|format| format.info().about).collect();
            bad(format!("XML of no known format; known: {}", known.join("; ")))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name_and_content() {
        for format in ALL {
            assert_eq!(by_name(format.name()).unwrap().name(), format.name());
            assert!(format.info().extension.starts_with('.'));
        }
        let error = by_name("mscl").err().unwrap();
        assert!(error.message.contains("did you mean 'msccl'"), "{error}");
        assert_eq!(of_text("<!-- ring --> <algo name=\"x\">").unwrap().map(|f| f.name()), Some("msccl"));
        assert!(of_text("{\"schema\": 1}").unwrap().is_none());
        assert!(of_text("<system/>").err().unwrap().message.contains("XML of no known format"));
    }
}
