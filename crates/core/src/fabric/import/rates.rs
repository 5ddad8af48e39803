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
        "940" | "941" | "942" => Some(48.0),
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

/// A processor, as files name it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Processor<'a> {
    /// `x86_64`, `arm64` or `aarch64`, `ppc64` and such.
    pub architecture: Option<&'a str>,
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: Option<&'a str>,
    /// Family by CPUID, as NCCL or Linux write it.
    pub family: Option<i64>,
    /// Model by CPUID.
    pub model: Option<i64>,
}

impl Processor<'_> {
    /// GB/s between two NUMA domains in one direction; `None` where NCCL knows no such processor.
    pub fn between(&self) -> Option<f64> {
        let model = self.model.unwrap_or(0);
        match (self.architecture?, self.vendor.map(str::trim)) {
            (name, _) if name.starts_with("ppc64") => Some(32.0),
            ("arm64" | "aarch64", _) => Some(6.0),
            ("x86_64", Some("GenuineIntel")) => Some(match (self.family, model) {
                // Granite Rapids and Sierra Forest have lower numbers than what they follow.
                (Some(6), 0xad..=0xaf | 0xcf..) => 40.0,
                (Some(6), 0x8f..) => 22.0,
                (Some(6), 0x55..) => 10.0,
                _ => 6.0,
            }),
            // Zen 5, Zen 3 and 4, Zen 1 and 2. What NCCL writes is not what CPUID says.
            ("x86_64", Some("AuthenticAMD")) => Some(match self.family {
                Some(26 | 0xbf) => 32.0,
                Some(25 | 0xaf) => 24.0,
                _ => 16.0,
            }),
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
    }

    #[test]
    fn processors() {
        let of = |vendor, family, model| Processor {
            architecture: Some("x86_64"),
            vendor: Some(vendor),
            family: Some(family),
            model: Some(model),
        };
        assert_eq!(of("GenuineIntel", 6, 143).between(), Some(22.0));
        assert_eq!(of("GenuineIntel", 6, 207).between(), Some(40.0));
        assert_eq!(of("GenuineIntel", 6, 173).between(), Some(40.0));
        assert_eq!(of("GenuineIntel", 6, 85).between(), Some(10.0));
        assert_eq!(of("AuthenticAMD", 175, 1).between(), Some(24.0));
        assert_eq!(of("AuthenticAMD", 143, 49).between(), Some(16.0));
        assert_eq!(Processor { architecture: Some("aarch64"), ..Processor::default() }.between(), Some(6.0));
        assert_eq!(Processor::default().between(), None);
    }
}
