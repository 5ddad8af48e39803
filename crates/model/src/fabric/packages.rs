//! Packages of chiplets side by side: a mesh or torus of chiplets, with slower links between packages than inside them.

use super::floor::{length_um, steps_um};
use super::grid::{PITCH, grid};
use super::spec::{FabricPreset, PresetRequest, dimensions};
use super::{Coordinates, Dimension, DimensionShape, Fabric, Link, Node, Product, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{
    Default::{Derived, Fixed},
    Opt,
};
use antiphon_base::parameter::{Domain, Parameter};
use antiphon_base::units::{clip, parse_length};

pub(super) const PACKAGES: FabricPreset = FabricPreset::new(
    "packages",
    "packages:2x3:of=2x2",
    "packages in a mesh, each a mesh of chiplets; chiplets at the edge are joined to those they face",
    |request| Some(packages(request, &dimensions(request.size?)?)),
)
.with(&[
    Opt {
        parameter: Parameter {
            key: "of",
            domain: Domain::Spec { form: "sizes such as 2x2", check: |text| chiplets(text).map(drop) },
            meaning: "Chiplets of a package, a size for each dimension.",
        },
        default: Derived("none: it must be given"),
    },
    Opt::flag("torus", Fixed("no"), "Packages at opposite ends are joined, too."),
    PITCH,
    Opt::spec(
        "gap",
        "a length such as 5mm",
        |text| parse_length(text).map(drop),
        Derived("packages are no further apart than chiplets"),
        "What a link from package to package is longer than one inside; needs pitch.",
    ),
]);

/// Labels of links, in the order of `@`.
const LABELS: [&str; 2] = ["chiplet", "package"];

fn chiplets(text: &str) -> Result<Vec<u32>> {
    dimensions(text).ok_or_else(|| {
        let what = format!("of={}: write the chiplets of a package in each dimension, as in of=2x2", clip(text));
        Error::new(Code::BadSpec, what)
    })
}

/// `sizes` packages of `of=` chiplets each, ranks numbered package by package, in a package row by row. Their mesh is a
/// product; a dimension has the least rate, the most latency and the most energy of its links.
///
/// # Errors
/// [`Code::BadSpec`] without `of=`, for another number of sizes there, and for `gap=` without `pitch=`; those of
/// [`grid`] and [`length_um`].
fn packages(request: &PresetRequest, sizes: &[u32]) -> Result<Fabric> {
    let Some(of) = request.options.given("of") else {
        return Err(request.refused("write how many chiplets a package has, as in packages:2x3:of=2x2"));
    };
    let of = chiplets(of.text())?;
    if of.len() != sizes.len() {
        let (count, given) = (sizes.len(), of.len());
        return Err(request.refused(format!("of= has {given} size(s) for {count} dimension(s) of packages")));
    }
    let (pitch, gap) = (request.length_um("pitch")?, request.length_um("gap")?);
    if gap.is_some() && pitch.is_none() {
        return Err(request.refused("gap needs pitch=, as in packages:2x3:of=2x2,pitch=2mm,gap=5mm"));
    }
    let shape = if request.options.flag("torus") { DimensionShape::Ring } else { DimensionShape::Line };
    // What does not fit is too large for a grid as well.
    let whole: Vec<u32> = sizes.iter().zip(&of).map(|(&packages, &each)| packages.saturating_mul(each)).collect();
    let mesh = grid(request.name, shape, &whole)?;
    let Shape::Product(product) = &mesh.shape else { unreachable!("a grid is a product") };
    let (own, places) = (Coordinates::last_fastest(of.clone()), &product.coordinates);
    let outer = Coordinates::last_fastest(sizes.to_vec());
    let split = |position: u32| {
        let at = places.all(position);
        let [package, chiplet]: [Vec<u32>; 2] = [|(at, each)| at / each, |(at, each)| at % each]
            .map(|part| at.iter().copied().zip(of.iter().copied()).map(part).collect());
        (outer.position(&package), own.position(&chiplet))
    };
    let ranks: Vec<u32> = (0..places.count())
        .map(|position| {
            let (package, chiplet) = split(position);
            package * own.count() + chiplet
        })
        .collect();
    let mut positions = vec![0; ranks.len()];
    (0..).zip(&ranks).for_each(|(position, &rank)| positions[rank as usize] = position);
    let node = |(rank, &position): (u32, &u32)| Node {
        package: Some(rank / own.count()),
        ..Node::rank(rank, mesh.nodes[position as usize].coords.clone())
    };
    let nodes = (0..).zip(&positions).map(node).collect();
    let steps = pitch.map(|pitch| {
        let mut extent = [pitch.into(); 2];
        let inside = steps_um(&of, &mut extent);
        extent.iter_mut().for_each(|along| *along += u64::from(gap.unwrap_or(0)));
        (inside, steps_um(sizes, &mut extent))
    });
    let link = |link: &Link| {
        let along = places.differ(link.from, link.to).unwrap_or(0);
        let [from, to] = [link.from, link.to].map(|position| places.of(position, along));
        let is_inside = from.abs_diff(to) == 1 && from / of[along] == to / of[along];
        let place = |(inside, outside): &(Vec<u64>, Vec<u64>), at: u32| {
            u64::from(at % of[along]) * inside[along] + u64::from(at / of[along]) * outside[along]
        };
        let length = steps.as_ref().map(|steps| length_um([from, to].map(|at| place(steps, at)))).transpose();
        let link = Link::new(ranks[link.from as usize], ranks[link.to as usize], LABELS[usize::from(!is_inside)]);
        Ok(Link { length_um: length.map_err(|error| request.refused(error.message))?, ..link })
    };
    let out = positions.iter().flat_map(|&position| mesh.out_links(position));
    let links = out.map(|&id| link(mesh.link(id))).collect::<Result<_>>()?;
    let shape = Shape::Product(Product { nodes: ranks.clone(), ..product.clone() });
    let fabric = Fabric::new(request.name, shape, nodes, links);
    let mut fabric = request.with_labelled(&LABELS, fabric)?;
    if let Shape::Product(product) = &mut fabric.shape {
        for (number, dimension) in product.dimensions.iter_mut().enumerate() {
            let links = || {
                fabric.links.iter().filter(|link| {
                    let [from, to] = [link.from, link.to].map(|rank| positions[rank as usize]);
                    places.differ(from, to) == Some(number)
                })
            };
            let latency = links().filter_map(|link| link.latency).max();
            let energy = links().filter_map(|link| link.energy).max();
            *dimension =
                Dimension { latency, energy, ..*dimension }.with_link_rate(links().filter_map(|link| link.rate).min());
        }
    }
    Ok(fabric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use antiphon_base::units::Rate;

    fn counts(fabric: &Fabric) -> [usize; 2] {
        LABELS.map(|label| fabric.links.iter().filter(|link| link.dimension == label).count())
    }

    /// Directed links inside packages and between them.
    #[test]
    fn links_are_counted_by_hand() {
        for (spec, ranks, links) in [
            ("packages:3x5:of=2x2", 60, [15 * 8, 2 * 2 * (2 * 5 + 3 * 4)]),
            ("packages:1x2:of=2x2", 8, [16, 4]),
            ("packages:2x2:of=3x1", 12, [16, 2 * 2 * 3 + 2 * 2]),
            ("packages:2x2:of=1x1", 4, [0, 8]),
            ("packages:1:of=4", 4, [6, 0]),
            ("packages:4:of=2", 8, [8, 6]),
            ("packages:2x2x2:of=1x2x2", 32, [8 * 8, 2 * 16 + 2 * 8 + 2 * 8]),
            ("packages:2x3:of=2x2:torus", 24, [6 * 8, 2 * (6 * 2 + 4 * 3)]),
            // From the package to itself.
            ("packages:1x1:of=3x2:torus", 6, [14, 4]),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            assert_eq!((fabric.ranks(), counts(&fabric)), (ranks, links), "{spec}");
        }
    }

    /// The same links as the mesh of all chiplets, whose ranks are in another order.
    #[test]
    fn packages_side_by_side_are_a_mesh() {
        for (spec, mesh) in [
            ("packages:2x3:of=2x2", "mesh:4x6"),
            ("packages:2x3:of=3x2:torus", "torus:6x6"),
            ("packages:2x2x1:of=1x2x3", "mesh:2x4x3"),
        ] {
            let [fabric, mesh] = [spec, mesh].map(|spec| Fabric::parse(spec).unwrap());
            let product = fabric.product().unwrap();
            let places: Vec<_> = product.positions(fabric.nodes.len()).into_iter().map(Option::unwrap).collect();
            let mut ends: Vec<_> =
                fabric.links.iter().map(|l| [l.from, l.to].map(|end| places[end as usize])).collect();
            let mut expected: Vec<_> = mesh.links.iter().map(|link| [link.from, link.to]).collect();
            ends.sort_unstable();
            expected.sort_unstable();
            assert_eq!(ends, expected, "{spec}");
            assert_eq!(product.coordinates, mesh.product().unwrap().coordinates);
            for (rank, &place) in places.iter().enumerate() {
                assert_eq!(fabric.nodes[rank].coords, mesh.nodes[place as usize].coords);
            }
        }
        let fabric = Fabric::parse("packages:2x2:of=2x2").unwrap();
        let package = |rank: usize| fabric.nodes[rank].package;
        assert_eq!([0, 3, 4, 15].map(package), [0, 0, 1, 3].map(Some));
        assert_eq!((&fabric.nodes[6].coords[..], fabric.neighbours(3)), (&[1.0, 2.0][..], vec![1, 9, 2, 6]));
    }

    #[test]
    fn rates_and_latencies_are_those_of_the_labels() {
        let fabric = Fabric::parse("packages:1x3:of=2x2@100/20ns+25/90ns").unwrap();
        for link in &fabric.links {
            let expected = if link.dimension == "chiplet" { (100, 20_000) } else { (25, 90_000) };
            assert_eq!((link.rate.unwrap().0 / 1_000_000_000, link.latency.unwrap()), expected, "{link:?}");
        }
        // Between rows all links are inside a package.
        let along = &fabric.product().unwrap().dimensions;
        assert_eq!(
            along.iter().map(|along| along.link_rate()).collect::<Vec<_>>(),
            [100, 25].map(|r| Some(Rate::gb_per_s(r)))
        );
        assert_eq!(along.iter().map(|along| along.latency).collect::<Vec<_>>(), [Some(20_000), Some(90_000)]);
        let alike = Fabric::parse("packages:1x3:of=2x2@50/1ns").unwrap();
        assert!(alike.links.iter().all(|link| (link.rate, link.latency) == (Some(Rate::gb_per_s(50)), Some(1000))));
        assert_eq!(Fabric::parse("packages:1x3:of=2x2").unwrap().product().unwrap().dimensions[0].rate, None);
    }
}
