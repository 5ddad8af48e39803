//! Area of routers and engines: published constants, scaled with counts.

use crate::fabric::Fabric;
use crate::fabric::aries::BypassPorts;
use crate::system::{Endpoint, System};
use antiphon_base::error::{Code, Error, Result};

/// A part of which there are some.
#[derive(Debug, Clone, PartialEq)]
pub struct AreaPart {
    /// Its name, after that of what it is part of.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// Area of one in square micrometres.
    pub area_um2: f64,
    /// Power of one in milliwatts, where it is published.
    pub power_mw: Option<f64>,
    /// Where that is from, and the technology.
    pub source: &'static str,
}

/// Area of what carries data on a fabric.
#[derive(Debug, Clone, PartialEq)]
pub struct Area {
    /// Ports of a router, with that of its rank: all have as many as the largest.
    pub ports: usize,
    /// Parts of routers, then of engines.
    pub parts: Vec<AreaPart>,
}

impl Area {
    /// All parts in square millimetres.
    pub fn total_mm2(&self) -> f64 {
        self.parts.iter().map(|part| part.count as f64 * part.area_um2).sum::<f64>() * 1e-6
    }
}

/// The router of ARIES (DATE 2024, section V-D, 45 nm): five ports of four virtual channels with 32 flits each; 68 GB/s at
/// 1 GHz are flits of 68 bytes.
const PORTS: f64 = 5.0;
const CHANNELS: f64 = 4.0;
const DEPTH: f64 = 32.0;
const FLIT_BYTES: f64 = 68.0;
const ROUTER: &str = "ARIES (DATE 2024), section V-D: 45 nm";
/// What ARIES adds to it, 0.3 mm2 for 64 routers: multiplexers that choose among a mesh link and two bypasses at each port.
const MULTIPLEXERS: f64 = 4_688.0;
const CHOICES: f64 = 3.0;
const ENGINE: &str = "ACE (ISCA 2021), Table IV: 28 nm";

/// Area of a fabric's routers, one at every rank and switch, and of its ranks' engines, if they have some. Chips are alike:
/// all routers have the ports of the largest. Buffers grow with ports, virtual channels, depth and flit; the crossbar with
/// the square of the ports and the flit; allocators with the square of what they choose among; multiplexers of a fabric one can
/// configure, whose routers have four ports and that of the rank, with that and the flit.
///
/// # Errors
/// [`Code::NotApplicable`] for a group of ranks: chips are as large whoever takes part.
pub fn area(fabric: &Fabric, system: &System) -> Result<Area> {
    if fabric.group.is_some() {
        let what = format!("{}: area is of a whole fabric; leave the group out", fabric.name);
        return Err(Error::new(Code::NotApplicable, what));
    }
    let ports = router_ports(fabric);
    let of_router = |(name, area_um2)| AreaPart {
        name: format!("router-{name}"),
        count: fabric.nodes.len(),
        area_um2,
        power_mw: None,
        source: ROUTER,
    };
    let flit_bytes = system.packet.flit_bytes as f64;
    let mut parts: Vec<_> = router_parts(fabric, system, ports, flit_bytes).into_iter().map(of_router).collect();
    if let Endpoint::Ace(ace) = &system.endpoint {
        let of_engine = |part: crate::system::EnginePart| AreaPart {
            name: format!("engine-{}", part.name),
            count: fabric.ranks(),
            area_um2: part.area_um2,
            power_mw: Some(part.power_mw),
            source: ENGINE,
        };
        parts.extend(ace.parts().map(of_engine));
    }
    Ok(Area { ports, parts })
}

/// Ports of the largest router of a fabric, with that of its rank.
pub(super) fn router_ports(fabric: &Fabric) -> usize {
    if fabric.configured.is_some() {
        return PORTS as usize;
    }
    let mut degree = vec![[0usize; 2]; fabric.nodes.len()];
    for link in &fabric.links {
        degree[link.from as usize][0] += 1;
        degree[link.to as usize][1] += 1;
    }
    let of_rank = |node: usize| usize::from(fabric.nodes[node].rank.is_some());
    let largest = (0..degree.len()).map(|node| degree[node][0].max(degree[node][1]) + of_rank(node)).max();
    largest.unwrap_or(0)
}

/// Parts of a router with so many ports and a datapath of so many bytes, each with its area in square micrometres.
pub(super) fn router_parts(
    fabric: &Fabric,
    system: &System,
    ports: usize,
    flit_bytes: f64,
) -> Vec<(&'static str, f64)> {
    let router = &system.router;
    let [by_ports, by_channels, by_depth, by_flit] = [
        ports as f64 / PORTS,
        f64::from(router.virtual_channels) / CHANNELS,
        f64::from(router.depth_flits) / DEPTH,
        flit_bytes / FLIT_BYTES,
    ];
    let mut parts = vec![
        ("crossbar", 17_806.0 * by_ports * by_ports * by_flit),
        ("switch-allocator", 4_589.0 * by_ports * by_ports),
        ("vc-allocator", 9_066.0 * (by_ports * by_channels).powi(2)),
        ("buffers", 98_740.0 * by_ports * by_channels * by_depth * by_flit),
    ];
    if let Some(configured) = &fabric.configured {
        let wires = f64::from(configured.aries.wires);
        let choices = 1.0 + if configured.aries.ports == BypassPorts::Own { wires } else { 2.0 * wires };
        parts.push(("multiplexers", MULTIPLEXERS * choices / CHOICES * by_flit));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARIES (DATE 2024): 64 routers take 8.3 mm2; ACE (ISCA 2021): an engine 5,339,031 um2 and 4,255 mW.
    #[test]
    fn published_totals() {
        let fabric = Fabric::parse("mesh:8x8").unwrap();
        let mut system = System::preset("aries").unwrap();
        let chiplets = area(&fabric, &system).unwrap();
        assert_eq!(chiplets.ports, 5);
        assert_eq!(chiplets.parts.iter().map(|part| part.area_um2).sum::<f64>(), 130_201.0);
        assert!((chiplets.total_mm2() - 8.332_864).abs() < 1e-12);
        system.set("endpoint", "ace").unwrap();
        let engines = &area(&fabric, &system).unwrap().parts[4..];
        assert!(engines.iter().all(|part| part.count == 64));
        assert_eq!(engines.iter().map(|part| part.area_um2).sum::<f64>(), 5_339_031.0);
        let power: f64 = engines.iter().filter_map(|part| part.power_mw).sum();
        assert!((power - 4_254.537).abs() < 1e-9);
    }

    /// ARIES (DATE 2024): 0.3 mm2 more, whatever is configured.
    #[test]
    fn configurable_routers_have_multiplexers() {
        let system = System::preset("aries").unwrap();
        let total = |spec: &str| area(&Fabric::parse(spec).unwrap(), &system).unwrap().total_mm2();
        let more = total("aries:8x8") - total("mesh:8x8");
        assert!((more - 0.300_032).abs() < 1e-12, "{more}");
        assert_eq!(total("aries:8x8,x0=0-7"), total("aries:8x8"));
        assert!((total("aries:8x8:wires=2") - total("mesh:8x8") - more * 5.0 / 3.0).abs() < 1e-12);
        assert!((total("aries:8x8:ports=own") - total("mesh:8x8") - more * 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn routers_grow_with_what_they_have() {
        let fabric = Fabric::parse("torus:4x4x4").unwrap();
        let mut system = System::preset("aries").unwrap();
        system.set("router_virtual_channels", "8").unwrap();
        system.set("router_depth_flits", "16").unwrap();
        system.set("flit_bytes", "136").unwrap();
        let Area { ports, parts } = area(&fabric, &system).unwrap();
        assert_eq!(ports, 7);
        let close = |part: usize, area: f64| assert!((parts[part].area_um2 - area).abs() < 1e-6, "{part}");
        close(0, 17_806.0 * 1.4 * 1.4 * 2.0);
        close(1, 4_589.0 * 1.4 * 1.4);
        close(2, 9_066.0 * 2.8 * 2.8);
        close(3, 98_740.0 * 1.4 * 2.0);
    }
}
