//! Packets of dimensions: messages are cut into payloads, each with a header (Themis, ISCA 2022, section 6.1).

use antiphon_base::error::{Code, Error, Result};
use antiphon_base::parameter::{Domain, Stored, Value};
use antiphon_base::units::{Bytes, clip};
use antiphon_model::topology::MAX_DIMENSIONS;

/// Largest payload and header.
const MAX_PART: Bytes = 1 << 24;

/// The packets of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RailsPacket {
    /// Most bytes of data in one, at least one.
    pub payload: Bytes,
    /// Bytes of its header, with all that is sent beside data.
    pub header: Bytes,
}

impl RailsPacket {
    /// Bytes on the wire of a message in units of `1 / parts` of a byte.
    pub fn wire(&self, message: u128, parts: u128) -> u128 {
        message + message.div_ceil(parts * u128::from(self.payload)) * u128::from(self.header) * parts
    }
}

/// Those of all dimensions, or of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailsPackets(Vec<RailsPacket>);

impl RailsPackets {
    /// `PAYLOAD+HEADER` in bytes, such as `4096+26`; of each dimension with commas.
    ///
    /// # Errors
    /// [`Code::BadSpec`].
    pub fn parse(text: &str) -> Result<RailsPackets> {
        let format = |part: &str| {
            let (payload, header) = part.split_once('+')?;
            let (payload, header) = (payload.parse().ok()?, header.parse().ok()?);
            ((1..=MAX_PART).contains(&payload) && header <= MAX_PART).then_some(RailsPacket { payload, header })
        };
        let formats: Option<Vec<_>> = text.split(',').take(MAX_DIMENSIONS + 1).map(format).collect();
        formats.map(RailsPackets).ok_or_else(|| {
            let what = format!(
                "packets '{}': write PAYLOAD+HEADER in bytes, such as 4096+26, at most {MAX_PART} each; of each dimension with commas",
                clip(text)
            );
            Error::new(Code::BadSpec, what)
        })
    }

    /// The format of each of so many dimensions.
    ///
    /// # Errors
    /// [`Code::BadSize`] if there is neither one nor one for each.
    pub fn of(&self, dimensions: usize) -> Result<Vec<RailsPacket>> {
        match self.0.len() {
            1 => Ok(vec![self.0[0]; dimensions]),
            count if count == dimensions => Ok(self.0.clone()),
            count => {
                let what = format!("packets of {count} dimensions for {dimensions}; give one format, or one for each");
                Err(Error::new(Code::BadSize, what))
            }
        }
    }

    /// Those of some dimensions, by number.
    ///
    /// # Errors
    /// [`Code::BadSize`] if one has none.
    pub fn along(&self, numbers: &[u8]) -> Result<RailsPackets> {
        let whole =
            self.of(numbers.iter().map(|&number| usize::from(number) + 1).max().unwrap_or(1).max(self.0.len()))?;
        Ok(RailsPackets(numbers.iter().map(|&number| whole[usize::from(number)]).collect()))
    }
}

impl Stored for RailsPackets {
    fn show(&self, _: &Domain) -> Value {
        let formats: Vec<_> = self.0.iter().map(|format| format!("{}+{}", format.payload, format.header)).collect();
        Value::Text(formats.join(","))
    }

    fn read(value: &Value, _: &Domain) -> RailsPackets {
        RailsPackets::parse(value.text()).expect("values are checked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rails::orders::RailsPlan;
    use antiphon_model::collective::Kind;
    use antiphon_model::topology::Topology;

    #[test]
    fn formats_are_read() {
        let two = RailsPackets::parse("256+16,4096+26").unwrap();
        assert_eq!(two.of(2).unwrap()[1], RailsPacket { payload: 4096, header: 26 });
        assert_eq!(two.of(3).unwrap_err().code, Code::BadSize);
        assert_eq!(RailsPackets::parse("64+8").unwrap().of(3).unwrap().len(), 3);
        for wrong in ["", "64", "0+8", "64+", "64+8,", "-1+8", "64+8+8", "99999999999+1"] {
            assert_eq!(RailsPackets::parse(wrong).unwrap_err().code, Code::BadSpec, "{wrong}");
        }
    }

    /// By hand: 4000 bytes in one chunk on four NPUs.
    #[test]
    fn headers_are_those_of_the_messages() {
        let headers = |spec: &str, kind: Kind, offload: bool| {
            let topology = Topology::parse(spec).unwrap();
            let plan = RailsPlan::uniform(&topology, kind, 4000, 1, offload).unwrap();
            let plan = plan.in_packets(&topology, &RailsPackets::parse("600+100").unwrap()).unwrap();
            let sent = plan.bytes_sent(&topology)[0];
            let share = plan.header_share(&topology);
            // Headers take their time.
            let stages: Vec<_> = plan.stages(&topology, &plan.orders[0]).collect();
            let busy: u64 = stages.iter().map(|stage| stage.busy_ps).sum();
            let headers = sent * share / (1.0 - share);
            assert!((busy as f64 - (sent + headers) * 1000.0).abs() < 2.0, "{spec}: {busy}");
            headers.round()
        };
        // Halves of 500 bytes, six messages; 2000 and 1000 bytes; three of 1000; up and down in halves of either stage.
        assert_eq!(headers("ring4@8/0ns", Kind::ReduceScatter, false), 600.0);
        assert_eq!(headers("sw4@8/0ns", Kind::ReduceScatter, false), 600.0);
        assert_eq!(headers("fc4@8/0ns", Kind::AllGather, false), 600.0);
        assert_eq!(headers("fc4@8/0ns", Kind::AllToAll, false), 600.0);
        assert_eq!(headers("ring4@8/0ns", Kind::AllToAll, false), 800.0);
        assert_eq!(headers("sw4@8/0ns", Kind::AllReduce, true), 800.0);
    }
}
