//! Messages of a file, each behind its length as a varint.

use antiphon_base::error::{Code, Error, Result};
use std::io::{BufRead, Read};

/// Reads message after message into one buffer, which grows with what is there and never with what a length claims.
pub struct Frames<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes that were read.
    at: u64,
    most: usize,
}

impl<R: BufRead> Frames<R> {
    /// Messages of at most `most` bytes.
    pub fn new(input: R, most: usize) -> Self {
        Frames { input, buffer: Vec::new(), at: 0, most }
    }

    /// Where the next message begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The next message; `None` at the end of the file.
    ///
    /// # Errors
    /// [`Code::BadFile`] with the byte where the file ends too soon or no length is; [`Code::TooLarge`].
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        let start = self.at;
        let Some(length) = self.length()? else { return Ok(None) };
        if length > self.most as u64 {
            let what =
                format!("byte {start}: a message of {length} bytes (at most {}); is it a Chakra trace?", self.most);
            return Err(Error::new(Code::TooLarge, what));
        }
        self.buffer.clear();
        let got = self.input.by_ref().take(length).read_to_end(&mut self.buffer).map_err(unreadable)?;
        self.at += got as u64;
        if got as u64 != length {
            let what =
                format!("byte {start}: the file ends within a message of {length} bytes, of which {got} are there");
            return Err(Error::new(Code::BadFile, what));
        }
        Ok(Some(&self.buffer))
    }

    /// A varint; `None` at the end of the file.
    fn length(&mut self) -> Result<Option<u64>> {
        let mut value = 0u64;
        for place in 0..10 {
            let mut byte = [0];
            if self.input.read(&mut byte).map_err(unreadable)? == 0 {
                if place == 0 {
                    return Ok(None);
                }
                let what = format!("byte {}: the file ends within the length of a message", self.at);
                return Err(Error::new(Code::BadFile, what));
            }
            self.at += 1;
            let bits = u64::from(byte[0] & 0x7f);
            if place == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * place);
            if byte[0] < 0x80 {
                return Ok(Some(value));
            }
        }
        Err(Error::new(Code::BadFile, format!("byte {}: no length of a message; is it a Chakra trace?", self.at)))
    }
}

fn unreadable(error: std::io::Error) -> Error {
    Error::new(Code::BadFile, format!("cannot be read: {error}"))
}

/// Adds a message and its length to a file.
pub fn push(out: &mut Vec<u8>, message: &impl prost::Message) {
    out.extend_from_slice(&message.encode_length_delimited_to_vec());
}
