//! Where NPUs are in a product of dimensions.

use super::topology::Topology;

/// Numbers NPUs by their coordinates, the first dimension fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Coordinates {
    /// NPUs along each dimension.
    pub sizes: Vec<u32>,
    /// Step from an NPU to the next along each dimension.
    pub strides: Vec<u32>,
    /// NPUs in all.
    pub npus: u32,
}

impl Coordinates {
    /// Of a topology of less than 2^32 NPUs.
    pub fn new(topology: &Topology) -> Coordinates {
        let sizes: Vec<u32> = topology.dimensions.iter().map(|dimension| dimension.size as u32).collect();
        let mut npus = 1;
        let mut stride = |size: &u32| {
            let stride = npus;
            npus *= size;
            stride
        };
        let strides = sizes.iter().map(&mut stride).collect();
        Coordinates { sizes, strides, npus }
    }

    /// The coordinate of `npu` along a dimension.
    pub fn of(&self, npu: u32, dimension: usize) -> u32 {
        npu / self.strides[dimension] % self.sizes[dimension]
    }

    /// The NPU with the same other coordinates and `coordinate` along a dimension.
    pub fn with(&self, npu: u32, dimension: usize, coordinate: u32) -> u32 {
        npu - self.of(npu, dimension) * self.strides[dimension] + coordinate * self.strides[dimension]
    }

    /// The first NPU of every group that is joined along a dimension.
    pub fn origins(&self, dimension: usize) -> impl Iterator<Item = u32> {
        (0..self.npus).filter(move |&npu| self.of(npu, dimension) == 0)
    }
}
