//! How long links are: the places of nodes on a floor, and in a stack.

use super::DimensionShape;
use super::link::MAX_LENGTH_MM;
use antiphon_base::error::{Code, Error, Result};

/// From a place to the next along dimensions of these sizes, slowest first, in micrometres. The last lies along x, the
/// one before it along y, the third-last along x again, in blocks of the last, and so on in turn. `extent_um` is what
/// one takes along x and y, and becomes what all take.
pub(super) fn steps_um(sizes: &[u32], extent_um: &mut [u64; 2]) -> Vec<u64> {
    let mut steps: Vec<u64> = vec![];
    for (number, &size) in sizes.iter().rev().enumerate() {
        steps.push(extent_um[number % 2]);
        extent_um[number % 2] *= u64::from(size);
    }
    steps.reverse();
    steps
}

/// Length of a link between two places on a straight line, in micrometres.
///
/// # Errors
/// [`Code::BadSpec`] past [`MAX_LENGTH_MM`].
pub(super) fn length_um([one, other]: [u64; 2]) -> Result<u32> {
    let length = one.abs_diff(other);
    if length as f64 > MAX_LENGTH_MM * 1e3 {
        let what = format!("a link would be {} mm long; at most {MAX_LENGTH_MM} mm", length / 1000);
        return Err(Error::new(Code::BadSpec, what));
    }
    Ok(length as u32)
}

/// Places of a grid's nodes. Dimensions lie as [`steps_um`] says; the first is vertical in a stack.
pub(super) struct FloorPlan {
    /// From a place to the next along each dimension, in micrometres; `None` where that is not known.
    steps_um: Vec<Option<u64>>,
    sizes: Vec<u32>,
    /// Whether rings are folded: their second half lies between the nodes of the first.
    folded: bool,
}

impl FloorPlan {
    /// The plan of a grid of these sizes, slowest first, with neighbours `pitch_um` apart and layers `layer_um` apart,
    /// where there are some.
    pub fn new(sizes: &[u32], pitch_um: Option<u32>, layer_um: Option<u32>, folded: bool) -> FloorPlan {
        let known = |pitch: u32| steps_um(sizes, &mut [pitch.into(); 2]).into_iter().map(Some).collect();
        let mut steps_um = pitch_um.map_or(vec![None; sizes.len()], known);
        if let (Some(layer), Some(first)) = (layer_um, steps_um.first_mut()) {
            *first = Some(layer.into());
        }
        FloorPlan { steps_um, sizes: sizes.to_vec(), folded }
    }

    /// Length of a link between two coordinates along a dimension of this shape, in micrometres; `None` if it is not
    /// known.
    ///
    /// # Errors
    /// As [`length_um`].
    pub fn length_um(&self, dimension: usize, shape: DimensionShape, ends: [u32; 2]) -> Result<Option<u32>> {
        let size = self.sizes[dimension];
        let place = |at: u32| match shape {
            DimensionShape::Ring if self.folded && at >= size.div_ceil(2) => 2 * (size - 1 - at) + 1,
            DimensionShape::Ring if self.folded => 2 * at,
            _ => at,
        };
        let Some(step) = self.steps_um[dimension] else { return Ok(None) };
        length_um(ends.map(|at| step * u64::from(place(at)))).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::DimensionShape::{Line, Ring};
    use super::*;

    fn lengths(plan: &FloorPlan, dimension: usize, shape: DimensionShape) -> Vec<u32> {
        let size = plan.sizes[dimension];
        let ends = |at| [at, (at + 1) % size];
        (0..size).map(|at| plan.length_um(dimension, shape, ends(at)).unwrap().unwrap()).collect()
    }

    /// Along a torus of four at 2 mm: the link around is as long as the other three.
    #[test]
    fn a_ring_comes_back_along_the_line_or_is_folded() {
        let flat = FloorPlan::new(&[4, 4], Some(2_000), None, false);
        assert_eq!(lengths(&flat, 0, Ring), [2_000, 2_000, 2_000, 6_000]);
        assert_eq!(lengths(&flat, 1, Ring), [2_000, 2_000, 2_000, 6_000]);
        let folded = FloorPlan::new(&[4, 5], Some(2_000), None, true);
        assert_eq!(lengths(&folded, 0, Ring), [4_000, 2_000, 4_000, 2_000]);
        assert_eq!(lengths(&folded, 1, Ring), [4_000, 4_000, 2_000, 4_000, 2_000]);
        assert_eq!(lengths(&folded, 0, Line)[..3], [2_000; 3]);
    }

    /// 2x3x4x5: five along x, four along y, three blocks of five along x, two blocks of four along y; or two layers.
    #[test]
    fn dimensions_lie_along_x_and_y_in_turn() {
        let step = |plan: &FloorPlan| [0, 1, 2, 3].map(|at| plan.length_um(at, Line, [0, 1]).unwrap());
        assert_eq!(step(&FloorPlan::new(&[2, 3, 4, 5], Some(10), None, false)), [40, 50, 10, 10].map(Some));
        assert_eq!(step(&FloorPlan::new(&[2, 3, 4, 5], Some(10), Some(7), false)), [7, 50, 10, 10].map(Some));
        assert_eq!(step(&FloorPlan::new(&[2, 3, 4, 5], None, Some(7), false)), [Some(7), None, None, None]);
        let far = FloorPlan::new(&[4], Some(1_000_000_000), None, false);
        assert_eq!(far.length_um(0, Line, [0, 2]).unwrap_err().code, Code::BadSpec);
    }
}
