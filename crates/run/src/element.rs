//! The type of a buffer's elements where buffers are bytes: in sockets and message passing.

use antiphon_base::error::{Code, Error, Result};
use antiphon_model::schedule::Action;
use bytemuck::Pod;
use half::{bf16, f16};
use std::ops::Add;

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// IEEE 754, 32 bits.
    Float32,
    /// IEEE 754, 64 bits.
    Float64,
    /// IEEE 754, 16 bits.
    Float16,
    /// The upper 16 bits of a `float32`.
    Bfloat16,
    /// Two's complement, 32 bits; sums wrap around.
    Int32,
    /// Two's complement, 64 bits; sums wrap around.
    Int64,
}

impl ElementType {
    /// All.
    pub const ALL: [ElementType; 6] = [
        ElementType::Float32,
        ElementType::Float64,
        ElementType::Float16,
        ElementType::Bfloat16,
        ElementType::Int32,
        ElementType::Int64,
    ];

    /// Its name, as in numpy.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::Float32 => "float32",
            ElementType::Float64 => "float64",
            ElementType::Float16 => "float16",
            ElementType::Bfloat16 => "bfloat16",
            ElementType::Int32 => "int32",
            ElementType::Int64 => "int64",
        }
    }

    /// The type of a name.
    ///
    /// # Errors
    /// [`Code::UnknownName`].
    pub fn parse(name: &str) -> Result<ElementType> {
        ElementType::ALL.into_iter().find(|element| element.name() == name).ok_or_else(|| {
            let names = ElementType::ALL.map(ElementType::name).join(", ");
            Error::new(Code::UnknownName, format!("element type '{name}': one of {names}"))
        })
    }

    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        match self {
            ElementType::Float16 | ElementType::Bfloat16 => 2,
            ElementType::Float32 | ElementType::Int32 => 4,
            ElementType::Float64 | ElementType::Int64 => 8,
        }
    }

    /// Adds `other` to `own`, or stores it there, as `action` says; both have as many bytes, whole numbers.
    pub fn apply(self, action: Action, own: &mut [u8], other: &[u8]) {
        if action != Action::Reduce {
            return own.copy_from_slice(other);
        }
        match self {
            ElementType::Float32 => add::<f32>(own, other),
            ElementType::Float64 => add::<f64>(own, other),
            ElementType::Float16 => add::<f16>(own, other),
            ElementType::Bfloat16 => add::<bf16>(own, other),
            ElementType::Int32 => add::<std::num::Wrapping<i32>>(own, other),
            ElementType::Int64 => add::<std::num::Wrapping<i64>>(own, other),
        }
    }
}

fn add<T: Pod + Add<Output = T>>(own: &mut [u8], other: &[u8]) {
    if let (Ok(own), Ok(other)) = (bytemuck::try_cast_slice_mut::<u8, T>(own), bytemuck::try_cast_slice::<u8, T>(other))
    {
        return own.iter_mut().zip(other).for_each(|(own, other)| *own = *own + *other);
    }
    // Bytes may be unaligned.
    for (own, other) in own.chunks_exact_mut(size_of::<T>()).zip(other.chunks_exact(size_of::<T>())) {
        let sum = bytemuck::pod_read_unaligned::<T>(own) + bytemuck::pod_read_unaligned(other);
        own.copy_from_slice(bytemuck::bytes_of(&sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum<T: Pod>(element: ElementType, own: &[T], other: &[T]) -> Vec<T> {
        let mut own = own.to_vec();
        element.apply(Action::Reduce, bytemuck::cast_slice_mut(&mut own), bytemuck::cast_slice(other));
        own
    }

    #[test]
    fn numbers_of_every_type_are_added() {
        assert_eq!(sum(ElementType::Float32, &[1.5f32, -1.0], &[2.0, 1.0]), [3.5, 0.0]);
        assert_eq!(sum(ElementType::Float64, &[0.1f64], &[0.2]), [0.1 + 0.2]);
        assert_eq!(sum(ElementType::Float16, &[f16::from_f32(2048.0)], &[f16::ONE]), [f16::from_f32(2048.0)]);
        assert_eq!(sum(ElementType::Bfloat16, &[bf16::from_f32(1.5)], &[bf16::from_f32(-4.0)]), [bf16::from_f32(-2.5)]);
        assert_eq!(sum(ElementType::Int32, &[i32::MAX], &[1]), [i32::MIN]);
        assert_eq!(sum(ElementType::Int64, &[1i64 << 40], &[1]), [(1 << 40) + 1]);
        let mut unaligned = [9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        ElementType::Float64.apply(Action::Reduce, &mut unaligned[1..], &1.0f64.to_ne_bytes());
        assert_eq!(unaligned[1..], 2.0f64.to_ne_bytes());
        let mut own = [1u8, 2, 3, 4];
        ElementType::Float32.apply(Action::Copy, &mut own, &[5, 6, 7, 8]);
        assert_eq!(own, [5, 6, 7, 8]);
    }

    #[test]
    fn names_are_those_of_numpy() {
        for element in ElementType::ALL {
            assert_eq!(ElementType::parse(element.name()), Ok(element));
            assert!(element.name().ends_with(&(8 * element.bytes()).to_string()));
        }
        assert!(ElementType::parse("float8").unwrap_err().message.contains("bfloat16"));
    }
}
