//! DGX Sparks joined cable by cable.

use super::grid::grid;
use super::link::LinkParameters;
use super::machine::given;
use super::spec::{FabricPreset, PresetRequest};
use super::{DimensionShape, Fabric};
use antiphon_base::error::Result;
use antiphon_base::units::Rate;

pub(super) const DGX_SPARK: FabricPreset = FabricPreset::new(
    "dgx-spark",
    "dgx-spark:pair",
    "DGX Sparks cabled directly: pair, triangle or ring4",
    |request| {
        let count = match request.size? {
            "pair" => 2,
            "triangle" => 3,
            size => size.strip_prefix("ring")?.parse().ok().filter(|&count| count > 2)?,
        };
        Some(spark(request, count))
    },
);

/// A ring. The two ports of a Spark share its network card, so that in a ring a cable has half of what a pair has.
fn spark(request: &PresetRequest, count: u32) -> Result<Fabric> {
    let [cable] = given("dgx-spark", &PresetRequest { parameters: &[], ..*request })?;
    let rate = Some(Rate(cable.rate.0 / if count > 2 { 2 } else { 1 }));
    let own = LinkParameters { rate, latency: cable.latency, energy: None };
    let parameters = &request.parameters_or(own)[..];
    let fabric = grid(request.name, DimensionShape::Ring, &[count]);
    PresetRequest { parameters, ..*request }.with_parameters(fabric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spark_sends_25_gb_per_s_over_all_its_cables() {
        for (spec, ranks) in [("pair", 2), ("triangle", 3), ("ring3", 3), ("ring4", 4), ("ring12", 12)] {
            let fabric = Fabric::parse(&format!("dgx-spark:{spec}")).unwrap();
            assert_eq!((fabric.ranks(), fabric.rate_out(0, "x")), (ranks, 25_000_000_000), "{spec}");
            assert_eq!(fabric.product().unwrap().dimensions[0].rate, Some(Rate::gb_per_s(25)), "{spec}");
        }
        assert_eq!(Fabric::parse("dgx-spark:ring4@25/1us").unwrap().rate_out(0, "x"), 50_000_000_000);
    }
}
