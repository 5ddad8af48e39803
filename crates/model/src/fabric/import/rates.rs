//! What NCCL and RCCL count on where a topology only names the hardware (`src/graph/topo.h` and `topo.cc` of either).

/// GB/s of an NVLink in one direction, by compute capability (90 for `sm_90`); of which NCCL says nothing, `None`.
pub fn nvlink(sm: i64) -> Option<f64> {
    match sm {
        100..=103 => Some(40.1),
        90..=99 => Some(20.6),
        86 => Some(12.0),
        70..=89 => Some(20.0),
        60..=69 => Some(18.0),
        _ => None,
    }
}

/// GB/s of an xGMI link in one direction, by the architecture that RCCL writes: `gfx942` or only `942`, in older files `910`.
pub fn xgmi(gcn: &str) -> Option<f64> {
    let name = gcn.strip_prefix("gfx").unwrap_or(gcn);
    match name.split(':').next().unwrap_or(name) {
        "940" | "941" | "942" | "950" => Some(48.0),
        // A placeholder of RCCL's own.
        "1250" => Some(64.0),
        "90a" | "910" => Some(36.0),
        "906" | "908" => Some(24.0),
        _ => None,
    }
}

/// GB/s of a lane of PCI Express in one direction, by transfers a second, `16.0 GT/s PCIe`.
pub fn lane(speed: &str) -> Option<f64> {
    let number: f64 = speed.split_once("GT/s")?.0.trim().parse().ok()?;
    // In units of 100 Mb/s, three quarters of what the lane carries.
    let known = [(2.5, 15.0), (5.0, 30.0), (8.0, 60.0), (16.0, 120.0), (32.0, 240.0), (64.0, 480.0)];
    known.iter().find(|(transfers, _)| *transfers == number).map(|(_, hundreds)| hundreds / 80.0)
}

/// Lanes and a lane of those of which a file says nothing: 16, at 8 GT/s.
pub const LANES: f64 = 16.0;
/// See [`LANES`].
pub const LANE: f64 = 0.75;
/// GB/s of a network of which a file says nothing: 10 Gb/s.
pub const NET: f64 = 1.25;

/// What a quantity says: a number and its unit, `400Gbps` or `2.5e-05ms`; `None` for what is below 0 or no number.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let is_exponent = |at: usize| {
        text[at..].starts_with(['e', 'E'])
            && text[at + 1..].starts_with(|c: char| c == '-' || c == '+' || c.is_ascii_digit())
    };
    let unit =
        text.char_indices().find(|&(at, c)| c.is_alphabetic() && !is_exponent(at)).map_or(text.len(), |(at, _)| at);
    let number: f64 = text[..unit].trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number, &text[unit..]))
}

/// GB/s of a rate that has its unit: `400Gbps`, `50GB/s`.
pub fn gb_per_s(text: &str) -> Option<f64> {
    let (number, unit) = quantity(text)?;
    let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps"))?;
    let (prefix, bytes) = match (unit.strip_suffix("bit").or_else(|| unit.strip_suffix('b')), unit.strip_suffix('B')) {
        (Some(prefix), _) => (prefix, 0.125),
        (_, prefix) => (prefix?, 1.0),
    };
    let base: f64 = if prefix.ends_with('i') { 1024.0 } else { 1000.0 };
    let power =
        ["", "k", "M", "G", "T"].iter().position(|known| prefix.trim_end_matches('i').replace('K', "k") == *known)?;
    Some(number * bytes * base.powi(power as i32) / 1e9)
}

/// Nanoseconds of a time that has its unit: `500ns`, `0.0005ms`.
pub fn nanoseconds(text: &str) -> Option<f64> {
    let (number, unit) = quantity(text)?;
    let units = [("ps", 1e-3), ("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    units.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| number * nanos)
}

/// Whether a display controller (class 0300) with these numbers computes, too: cards of NVIDIA, and those of AMD that its
/// compute stack has known; chips that draw a server's console and the graphics within AMD's processors have other numbers.
pub fn computes(vendor: u16, device: u16) -> bool {
    match vendor {
        0x10de => true,
        0x1002 => matches!(device >> 8, 0x66..=0x6f | 0x73..=0x7f),
        _ => false,
    }
}

/// A processor, as files name it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NamedProcessor<'a> {
    /// `x86_64`, `arm64` or `aarch64`, `ppc64` and such.
    pub architecture: Option<&'a str>,
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: Option<&'a str>,
    /// Family by CPUID, as NCCL or Linux write it.
    pub family: Option<i64>,
    /// Model by CPUID.
    pub model: Option<i64>,
}

impl NamedProcessor<'_> {
    /// GB/s between two NUMA domains in one direction; `None` where NCCL knows no such processor.
    pub fn between(&self) -> Option<f64> {
        let model = self.model.unwrap_or(0);
        match (self.architecture?, self.vendor.map(str::trim)) {
            (name, _) if name.starts_with("ppc64") => Some(32.0),
            ("arm64" | "aarch64", _) => Some(6.0),
            ("x86_64", Some("GenuineIntel")) => Some(match (self.family, model) {
                (Some(6), 0xcf..) => 40.0,
                (Some(6), 0x8f..) => 22.0,
                (Some(6), 0x55..) => 10.0,
                _ => 6.0,
            }),
            ("x86_64", Some("AuthenticAMD")) => Some(16.0),
            ("x86_64", Some("CentaurHauls" | "Shanghai")) => {
                Some(if (self.family, model) == (Some(7), 0x5b) { 9.0 } else { 6.0 })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_nccl_prints() {
        // NCCL's issue 1189: NVL 370.8, PCI 48.
        assert_eq!(nvlink(90).map(|rate| (18.0 * rate * 10.0).round()), Some(3708.0));
        assert_eq!(lane("32.0 GT/s PCIe").map(|rate| 16.0 * rate), Some(48.0));
        assert_eq!((lane("16 GT/s"), lane("8.0 GT/s PCIe")), (Some(1.5), Some(LANE)));
        assert_eq!(
            (lane(""), lane("Unknown"), lane("9 GT/s"), nvlink(50), nvlink(120)),
            (None, None, None, None, None)
        );
        assert_eq!((xgmi("gfx942:sramecc+"), xgmi("910"), xgmi("gfx1100")), (Some(48.0), Some(36.0), None));
        assert_eq!((xgmi("gfx950"), xgmi("950"), xgmi("gfx1250")), (Some(48.0), Some(48.0), Some(64.0)));
    }

    #[test]
    fn quantities_have_units() {
        for (text, rate) in [
            ("400Gbps", Some(50.0)),
            ("50GB/s", Some(50.0)),
            ("8 Gbit/s", Some(1.0)),
            ("1e3Mbps", Some(0.125)),
            ("1GiB/s", Some(1.073_741_824)),
            ("2.5e-1 TB/s", Some(250.0)),
            ("50", None),
            ("-1Gbps", None),
            ("infGbps", None),
            ("1XB/s", None),
            ("", None),
        ] {
            assert_eq!(gb_per_s(text), rate, "{text}");
        }
        for (text, nanos) in [
            ("0.000025ms", Some(25.0)),
            ("2.5e-05ms", Some(25.0)),
            ("500ns", Some(500.0)),
            ("1 s", Some(1e9)),
            ("5", None),
            ("5h", None),
            ("ns", None),
        ] {
            assert_eq!(nanoseconds(text).map(f64::round), nanos, "{text}");
        }
    }

    #[test]
    fn chips_that_only_draw() {
        // ES1000 of servers; graphics of Ryzen, Picasso, Raphael and Strix; of what NVIDIA has not made.
        for (vendor, device) in
            [(0x1002, 0x515e), (0x1002, 0x15d8), (0x1002, 0x164e), (0x1002, 0x150e), (0x1a03, 0x2000)]
        {
            assert!(!computes(vendor, device), "{device:x}");
        }
        // GeForce RTX 3090, Radeon VII, RX 6900 XT and 7900 XTX.
        for (vendor, device) in [(0x10de, 0x2204), (0x1002, 0x66af), (0x1002, 0x73bf), (0x1002, 0x744c)] {
            assert!(computes(vendor, device), "{device:x}");
        }
    }

    #[test]
    fn processors() {
        let of = |vendor, family, model| NamedProcessor {
            architecture: Some("x86_64"),
            vendor: Some(vendor),
            family: Some(family),
            model: Some(model),
        };
        assert_eq!(of("GenuineIntel", 6, 143).between(), Some(22.0));
        assert_eq!(of("GenuineIntel", 6, 207).between(), Some(40.0));
        assert_eq!(of("GenuineIntel", 6, 173).between(), Some(22.0));
        assert_eq!(of("GenuineIntel", 6, 85).between(), Some(10.0));
        for (family, model) in [(143, 49), (175, 1), (25, 17), (191, 2), (26, 2)] {
            assert_eq!(of("AuthenticAMD", family, model).between(), Some(16.0));
        }
        assert_eq!(NamedProcessor { architecture: Some("aarch64"), ..NamedProcessor::default() }.between(), Some(6.0));
        assert_eq!(NamedProcessor::default().between(), None);
    }
}
