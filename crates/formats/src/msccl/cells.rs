//! Memory of all GPUs as cells of one chunk, and what each must hold in the end.

use super::model::{Algo, Buffer, ChunkPlace};
use antiphon_model::collective::{Collective, Kind};

/// Chunks of an input or output among `gpus`, of a full buffer of `chunks`; `None` for scratch, of which each GPU says its own.
pub fn buffer_size(kind: Kind, chunks: u32, gpus: u32, buffer: Buffer) -> Option<u32> {
    match (kind, buffer) {
        (_, Buffer::Scratch) => None,
        (Kind::AllGather, Buffer::Input) | (Kind::ReduceScatter, Buffer::Output) => Some(chunks / gpus),
        _ => Some(chunks),
    }
}

/// Where buffers lie in a GPU's cells: input, output, scratch; in place, the smaller of input and output lies in the other.
#[derive(Debug, Clone)]
pub struct Cells {
    collective: Collective,
    in_place: bool,
    gpus: u32,
    /// Chunks of the full buffer.
    chunks: u32,
    /// Number of the first cell of every GPU, and of all.
    first: Vec<u64>,
}

impl Cells {
    pub fn new(algo: &Algo, in_place: bool) -> Cells {
        let mut cells = Cells {
            collective: algo.collective(),
            in_place,
            gpus: algo.gpus.len() as u32,
            chunks: algo.chunks,
            first: vec![0],
        };
        for gpu in &algo.gpus {
            let buffers = cells.size(Buffer::Input) as u64 + cells.size(Buffer::Output) as u64;
            cells.first.push(cells.first[cells.first.len() - 1] + buffers + gpu.scratch as u64);
        }
        cells
    }

    /// Cells of all GPUs.
    pub fn count(&self) -> u64 {
        self.first[self.first.len() - 1]
    }

    /// Chunks of a rank's shard.
    pub fn shard(&self) -> u32 {
        self.chunks / self.gpus
    }

    /// Chunks of a GPU's input or output.
    pub fn size(&self, buffer: Buffer) -> u32 {
        buffer_size(self.collective.kind, self.chunks, self.gpus, buffer).unwrap_or(0)
    }

    /// Number of the cell of a chunk of a GPU, which must be within its buffer.
    pub fn of(&self, gpu: u32, place: ChunkPlace) -> usize {
        let (input, output) = (self.size(Buffer::Input), self.size(Buffer::Output));
        let shard = gpu * self.shard();
        let at = match (place.buffer, self.in_place, self.collective.kind) {
            (Buffer::Input, true, Kind::AllGather) => input + shard + place.offset,
            (Buffer::Output, true, Kind::ReduceScatter) => shard + place.offset,
            (Buffer::Output, true, kind) if kind != Kind::AllGather => place.offset,
            (Buffer::Input, ..) => place.offset,
            (Buffer::Output, ..) => input + place.offset,
            (Buffer::Scratch, ..) => input + output + place.offset,
        };
        self.first[gpu as usize] as usize + at as usize
    }

    /// Whose a cell is, and where it lies there.
    pub fn place(&self, cell: usize) -> (u32, ChunkPlace) {
        let gpu = self.first.partition_point(|&first| first <= cell as u64) - 1;
        let (input, output) = (self.size(Buffer::Input), self.size(Buffer::Output));
        let at = (cell as u64 - self.first[gpu]) as u32;
        let place = match at {
            at if at < input => ChunkPlace { buffer: Buffer::Input, offset: at },
            at if at < input + output => ChunkPlace { buffer: Buffer::Output, offset: at - input },
            at => ChunkPlace { buffer: Buffer::Scratch, offset: at - input - output },
        };
        (gpu as u32, place)
    }

    /// The cell of an input's chunk.
    pub fn input(&self, gpu: u32, offset: u32) -> usize {
        self.of(gpu, ChunkPlace { buffer: Buffer::Input, offset })
    }

    /// What a chunk of a GPU's output must be the sum of: cells of inputs, ascending; `None` if it does not matter.
    pub fn wanted(&self, gpu: u32, offset: u32) -> Option<Vec<usize>> {
        let shard = self.shard();
        let of_all = |offset: u32| (0..self.gpus).map(|other| self.input(other, offset)).collect();
        match self.collective.kind {
            Kind::AllReduce => Some(of_all(offset)),
            Kind::ReduceScatter => Some(of_all(gpu * shard + offset)),
            Kind::Reduce => (gpu == self.collective.root).then(|| of_all(offset)),
            Kind::Broadcast => Some(vec![self.input(self.collective.root, offset)]),
            Kind::AllGather => Some(vec![self.input(offset / shard, offset % shard)]),
            Kind::AllToAll => Some(vec![self.input(offset / shard, gpu * shard + offset % shard)]),
        }
    }
}
