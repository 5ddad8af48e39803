//! How many bytes every rank has for every other one: an AllToAll of unequal sizes.

use super::Align;
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::{Bytes, MAX_BYTES};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most ranks of a matrix, whose size grows with their square.
pub const MAX_MATRIX_RANKS: usize = 1024;

/// Bytes from every rank, by row, to every rank, by column. What ranks keep for themselves is not counted.
///
/// The send buffer of a rank is its row: what it has for rank 0, then for rank 1, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<Bytes>>", into = "Vec<Vec<Bytes>>")]
pub struct Matrix {
    ranks: usize,
    /// For every rank, where in its buffer the part of each rank starts, and where the last one ends.
    starts: Arc<[Bytes]>,
}

impl Matrix {
    /// Of one row a rank; the diagonal is ignored.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if it is not square or all of it is zero, [`Code::BadSize`] for a row of more than 1 PiB,
    /// [`Code::TooLarge`] for more than 1,024 ranks.
    pub fn new(rows: &[Vec<Bytes>]) -> Result<Matrix> {
        let ranks = rows.len();
        if ranks > MAX_MATRIX_RANKS {
            let what = format!("a matrix of {ranks} rows; at most {MAX_MATRIX_RANKS} ranks are supported");
            return Err(Error::new(Code::TooLarge, what));
        }
        let mut starts = Vec::with_capacity(ranks * (ranks + 1));
        for (rank, row) in rows.iter().enumerate() {
            if row.len() != ranks {
                let what = format!("row {rank} of the matrix has {} numbers, expected {ranks}: one a rank", row.len());
                return Err(Error::new(Code::BadSpec, what));
            }
            let mut end: Bytes = 0;
            starts.push(end);
            for (to, &bytes) in row.iter().enumerate().map(|(to, bytes)| (to, if to == rank { &0 } else { bytes })) {
                end = end.checked_add(bytes).filter(|&end| end <= MAX_BYTES).ok_or_else(|| {
                    let what = format!("row {rank} of the matrix adds up to more than 1 PiB up to rank {to}");
                    Error::new(Code::BadSize, what)
                })?;
                starts.push(end);
            }
        }
        let matrix = Matrix { ranks, starts: starts.into() };
        match matrix.total() {
            0 => Err(Error::new(Code::BadSpec, "the matrix has nothing for any other rank; give at least one size")),
            _ => Ok(matrix),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Start, in the buffer of rank `from`, and length of what is for rank `to`.
    pub fn part(&self, from: usize, to: usize) -> (Bytes, Bytes) {
        let at = from * (self.ranks + 1) + to;
        (self.starts[at], self.starts[at + 1] - self.starts[at])
    }

    /// Bytes from a rank to another one.
    pub fn bytes(&self, from: usize, to: usize) -> Bytes {
        self.part(from, to).1
    }

    /// Bytes that a rank sends.
    pub fn row(&self, from: usize) -> Bytes {
        self.starts[(from + 1) * (self.ranks + 1) - 1]
    }

    /// The most that a rank sends.
    pub fn most(&self) -> Bytes {
        (0..self.ranks).map(|rank| self.row(rank)).max().unwrap_or(0)
    }

    /// Bytes that all ranks send.
    pub fn total(&self) -> Bytes {
        (0..self.ranks).map(|rank| self.row(rank)).sum()
    }
}

impl TryFrom<Vec<Vec<Bytes>>> for Matrix {
    type Error = Error;

    fn try_from(rows: Vec<Vec<Bytes>>) -> Result<Matrix> {
        Matrix::new(&rows)
    }
}

impl From<Matrix> for Vec<Vec<Bytes>> {
    fn from(matrix: Matrix) -> Self {
        let row = |from: usize| (0..matrix.ranks).map(|to| matrix.bytes(from, to)).collect();
        (0..matrix.ranks).map(row).collect()
    }
}

/// How much a collective moves: its full buffer, in equal shards, or what a matrix says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Full buffer size: with a matrix, the most that a rank sends.
    pub bytes: Bytes,
    /// What every rank has for every other one, in an AllToAll of unequal sizes.
    pub matrix: Option<Matrix>,
    /// Where shards may begin.
    pub align: Align,
}

impl Data {
    /// Start and length, in the buffer of `source`, of what is for the rank `index` of `ranks`.
    pub fn part(&self, ranks: usize, source: usize, index: usize) -> (Bytes, Bytes) {
        match &self.matrix {
            Some(matrix) => matrix.part(source, index),
            None => self.align.shard(self.bytes, ranks, index),
        }
    }

    /// Bytes in the buffer of `source`.
    pub fn buffer(&self, source: usize) -> Bytes {
        self.matrix.as_ref().map_or(self.bytes, |matrix| matrix.row(source))
    }

    /// Checks that a collective of so many ranks can have it.
    ///
    /// # Errors
    /// [`Code::BadSpec`] for a matrix of other ranks, if the collective is no AllToAll, or beside an alignment.
    pub fn check(&self, kind: super::Kind, ranks: usize) -> Result<()> {
        let Some(matrix) = &self.matrix else { return Ok(()) };
        let what = match () {
            _ if kind != super::Kind::AllToAll => {
                format!("a matrix is for all-to-all, not for {}", kind.name())
            }
            _ if !self.align.is_least() => {
                "a matrix says where parts begin; align is for equal shards, leave it out".into()
            }
            _ if matrix.ranks != ranks => format!("the matrix is for {} ranks, not for {ranks}", matrix.ranks),
            _ => return Ok(()),
        };
        Err(Error::new(Code::BadSpec, what))
    }
}

impl From<Bytes> for Data {
    fn from(bytes: Bytes) -> Data {
        Data { bytes, matrix: None, align: Align::default() }
    }
}

impl From<Matrix> for Data {
    fn from(matrix: Matrix) -> Data {
        Data { bytes: matrix.most(), matrix: Some(matrix), align: Align::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn a_row_is_a_buffer() {
        let rows = [vec![9, 5, 0], vec![3, 0, 4], vec![0, 0, 8]];
        let matrix = Matrix::new(&rows).unwrap();
        assert_eq!((matrix.ranks(), matrix.most(), matrix.total()), (3, 7, 12));
        let part = |from: usize| [0, 1, 2].map(|to| matrix.part(from, to));
        assert_eq!(part(0), [(0, 0), (0, 5), (5, 0)]);
        assert_eq!(part(1), [(0, 3), (3, 0), (3, 4)]);
        assert_eq!([0, 1, 2].map(|from| matrix.row(from)), [5, 7, 0]);
        let data = Data::from(matrix.clone());
        assert_eq!((data.bytes, data.part(3, 1, 2), data.buffer(0)), (7, (3, 4), 5));
        assert_eq!(Data::from(64).part(4, 3, 1), (16, 16));
        let text = serde_json::to_string(&matrix).unwrap();
        assert_eq!(text, "[[0,5,0],[3,0,4],[0,0,0]]");
        assert_eq!(serde_json::from_str::<Matrix>(&text).unwrap(), matrix);
    }

    #[test]
    fn what_is_no_matrix_is_refused() {
        let of = |rows: &[Vec<Bytes>]| Matrix::new(rows).unwrap_err();
        for (rows, code, why) in [
            (vec![vec![0, 1], vec![1]], Code::BadSpec, "row 1 of the matrix has 1 numbers, expected 2"),
            (vec![vec![0, 1]], Code::BadSpec, "row 0 of the matrix has 2 numbers, expected 1"),
            (vec![vec![7, 0], vec![0, 7]], Code::BadSpec, "nothing for any other rank"),
            (vec![], Code::BadSpec, "nothing for any other rank"),
            (vec![vec![0, u64::MAX], vec![1, 0]], Code::BadSize, "row 0 of the matrix adds up to more than 1 PiB"),
            (vec![vec![]; 1025], Code::TooLarge, "a matrix of 1025 rows"),
        ] {
            let error = of(&rows);
            assert!(error.code == code && error.message.contains(why), "{error}");
        }
        let data = Data::from(Matrix::new(&[vec![0, 1], vec![1, 0]]).unwrap());
        assert!(data.check(Kind::AllToAll, 2).is_ok());
        assert!(data.check(Kind::AllToAll, 3).unwrap_err().message.contains("for 2 ranks, not for 3"));
        assert!(data.check(Kind::AllReduce, 2).unwrap_err().message.contains("not for all-reduce"));
        assert!(Data::from(5).check(Kind::AllReduce, 2).is_ok());
        let aligned = Data { align: Align::new(16).unwrap(), ..data };
        assert!(aligned.check(Kind::AllToAll, 2).unwrap_err().message.contains("a matrix says where parts begin"));
    }
}
