//! Wafers: tiles of a mesh inside a circle.

use super::floor::length_um;
use super::grid::{PITCH, label};
use super::spec::{FabricPreset, PresetRequest, dimensions};
use super::{Fabric, Link, MAX_RANKS, Node, Shape};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::options::{Default::Derived, Opt};
use antiphon_base::units::clip;

pub(super) const WAFER: FabricPreset =
    FabricPreset::new("wafer", "wafer:12x12", "mesh of tiles that lie in a circle, ROWS x COLUMNS of it", |request| {
        Some(wafer(request, request.sizes()?))
    })
    .with(&[
        PITCH,
        Opt::spec(
            "reticle",
            "sizes such as 3x2",
            |text| reticle(text).map(drop),
            Derived("no link crosses from reticle to reticle"),
            "Rows and columns of tiles in a reticle, from the first tile on; links inside and across are kinds apart.",
        ),
    ]);

/// Labels of links inside reticles and across their borders, in the order of `@`.
const LABELS: [&str; 2] = ["tile", "reticle"];

fn reticle(text: &str) -> Result<[u32; 2]> {
    let sizes = dimensions(text).and_then(|sizes| sizes.try_into().ok());
    sizes.filter(|sizes: &[u32; 2]| !sizes.contains(&0)).ok_or_else(|| {
        let what = format!("reticle={}: write rows and columns of tiles, as in reticle=3x2", clip(text));
        Error::new(Code::BadSpec, what)
    })
}

/// The tiles of a grid whose four corners lie in the smallest circle that has a tile of every row and column. Where rows
/// and columns differ, tiles are as high and wide as make the wafer round. Ranks are numbered row by row, as are
/// reticles, which are packages.
///
/// # Errors
/// [`Code::BadSpec`] for a size of 0, [`Code::TooLarge`] past [`MAX_RANKS`]; those of [`length_um`],
/// [`Fabric::new`] and [`PresetRequest::with_labelled`].
fn wafer(request: &PresetRequest, [rows, columns]: [u32; 2]) -> Result<Fabric> {
    if rows == 0 || columns == 0 {
        return Err(request.refused("needs at least a row and a column"));
    }
    // More than half of the tiles lie in the circle.
    if u64::from(rows) * u64::from(columns) > 2 * MAX_RANKS as u64 {
        return Err(Error::new(Code::TooLarge, format!("fabric '{}' has more than {MAX_RANKS} ranks", request.name)));
    }
    // In half tiles from the middle of the wafer, times the size along the other dimension.
    let [height, width] = [rows, columns].map(i64::from);
    let middle = |size: i64| if size % 2 == 0 { 2 } else { 1 };
    let half = height * width;
    let radius = |size: i64, other: i64| half.pow(2) + (middle(size) * other).pow(2);
    let most = radius(width, height).max(radius(height, width));
    let corner = |at: u32, size: i64| (2 * i64::from(at) - size).abs().max((2 * i64::from(at) + 2 - size).abs());
    let is_inside =
        |row: u32, column: u32| (corner(row, height) * width).pow(2) + (corner(column, width) * height).pow(2) <= most;
    // From row to row, and in a row.
    let mut lengths = [None; 2];
    if let Some(wide) = request.length_um("pitch")?.map(u64::from) {
        let high = (wide * u64::from(columns) / u64::from(rows)).max(1);
        let of = |step| length_um([0, step]).map_err(|error| request.refused(error.message));
        lengths = [Some(of(high)?), Some(of(wide)?)];
    }
    let of = request.options.given("reticle").map(|sizes| reticle(sizes.text())).transpose()?;
    let mut ranks = vec![None; (rows * columns) as usize];
    let mut nodes = Vec::new();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        if is_inside(row, column) {
            ranks[(row * columns + column) as usize] = Some(nodes.len() as u32);
            let package = of.map(|[high, wide]| row / high * columns.div_ceil(wide) + column / wide);
            nodes.push(Node { package, ..Node::rank(nodes.len() as u32, [f64::from(row), f64::from(column)]) });
        }
    }
    let at = |row: u32, column: u32| -> Option<u32> {
        (row < rows && column < columns).then(|| ranks[(row * columns + column) as usize])?
    };
    let mut links = Vec::new();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let Some(from) = at(row, column) else { continue };
        let near = [
            (0, at(row.wrapping_sub(1), column)),
            (0, at(row + 1, column)),
            (1, at(row, column.wrapping_sub(1))),
            (1, at(row, column + 1)),
        ];
        links.extend(near.into_iter().filter_map(|(along, to)| {
            let to = to?;
            let [own, other] = [from, to].map(|rank: u32| nodes[rank as usize].package);
            let label = own.map_or(label(along, 2), |_| LABELS[usize::from(own != other)].into());
            Some(Link { length_um: lengths[along], ..Link::new(from, to, label) })
        }));
    }
    let fabric = Fabric::new(request.name, Shape::Graph, nodes, links);
    if of.is_some() { request.with_labelled(&LABELS, fabric) } else { request.with_parameters(fabric) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of each row, by hand for the smallest.
    #[test]
    fn tiles_lie_in_the_circle() {
        for (spec, rows) in [
            ("wafer:3x3", &[1, 3, 1][..]),
            ("wafer:4x4", &[2, 4, 4, 2]),
            ("wafer:5x5", &[1, 3, 5, 3, 1]),
            ("wafer:2x2", &[2, 2]),
            ("wafer:1x5", &[5]),
            ("wafer:3x6", &[2, 6, 2]),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            let of_row = |row: usize| fabric.nodes.iter().filter(|node| node.coords[0] == row as f64).count();
            assert_eq!((0..rows.len()).map(of_row).collect::<Vec<_>>(), rows, "{spec}");
            assert_eq!(fabric.ranks(), rows.iter().sum::<usize>(), "{spec}");
        }
    }

    /// Every tile is joined to all its neighbours; a quarter turn and a reflection change nothing.
    #[test]
    fn wafers_are_round() {
        for size in [7, 12, 13, 31] {
            let fabric = Fabric::parse(&format!("wafer:{size}x{size}")).unwrap();
            let places: std::collections::HashMap<_, _> =
                fabric.nodes.iter().map(|node| ((node.coords[0] as i32, node.coords[1] as i32), node.rank)).collect();
            assert_eq!(places.len(), fabric.ranks());
            for &(row, column) in places.keys() {
                assert!(places.contains_key(&(column, size - 1 - row)) && places.contains_key(&(column, row)));
            }
            let near = |&(row, column): &(i32, i32)| {
                [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
                    .into_iter()
                    .filter(|place| places.contains_key(place))
                    .count()
            };
            assert_eq!(fabric.links.len(), places.keys().map(near).sum::<usize>(), "{size}");
            assert!(fabric.is_symmetric());
            // About the share of a circle in a square.
            let share = fabric.ranks() as f64 / f64::from(size * size);
            assert!((0.55..0.85).contains(&share), "{size}: {share}");
        }
    }
}
