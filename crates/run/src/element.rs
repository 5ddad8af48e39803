//! The type of a buffer's elements where buffers are bytes, and what is done with two of them.

use antiphon_base::error::{Code, Error, Result};
use antiphon_model::schedule::Action;
use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE 754, 32 bits.
    Float32,
    /// IEEE 754, 64 bits.
    Float64,
    /// IEEE 754, 16 bits.
    Float16,
    /// The upper 16 bits of a `float32`.
    Bfloat16,
    /// Two's complement, 32 bits; sums wrap around, as of all whole numbers.
    Int32,
    /// Two's complement, 64 bits.
    Int64,
    /// Two's complement, 16 bits.
    Int16,
    /// Two's complement, 8 bits.
    Int8,
    /// 8 bits without a sign.
    Uint8,
    /// A byte that is 0 or 1; a sum is 1 if an operand is.
    Bool,
}

/// What a reduction does with two elements; all are associative and commutative, but for rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// The bits that both have.
    And,
    /// The bits that either has.
    Or,
    /// The bits that exactly one has.
    Xor,
}

impl Reduction {
    /// All.
    pub const ALL: [Reduction; 7] = [
        Reduction::Sum,
        Reduction::Product,
        Reduction::Min,
        Reduction::Max,
        Reduction::And,
        Reduction::Or,
        Reduction::Xor,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Product => "product",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::And => "and",
            Reduction::Or => "or",
            Reduction::Xor => "xor",
        }
    }

    /// The reduction of a name, for elements of a type.
    ///
    /// # Errors
    /// [`Code::UnknownName`]; [`Code::NotApplicable`] for bits of floating-point numbers.
    pub fn parse(name: &str, element: ElementType) -> Result<Reduction> {
        let Some(found) = Reduction::ALL.into_iter().find(|reduction| reduction.name() == name) else {
            let names = Reduction::ALL.map(Reduction::name).join(", ");
            return Err(Error::new(Code::UnknownName, format!("reduction '{name}': one of {names}")));
        };
        let of_bits = matches!(found, Reduction::And | Reduction::Or | Reduction::Xor);
        if of_bits && element.is_floating_point() {
            let what = format!("reduction '{name}' is for whole numbers, not for {}", element.name());
            return Err(Error::new(Code::NotApplicable, what));
        }
        Ok(found)
    }
}

/// Integers of one type.
macro_rules! integers {
    ($type:ty, $reduction:expr, $own:expr, $other:expr) => {
        match $reduction {
            Reduction::Sum => fold($own, $other, <$type>::wrapping_add),
            Reduction::Product => fold($own, $other, <$type>::wrapping_mul),
            Reduction::Min => fold($own, $other, <$type>::min),
            Reduction::Max => fold($own, $other, <$type>::max),
            Reduction::And => fold($own, $other, |a: $type, b| a & b),
            Reduction::Or => fold($own, $other, |a: $type, b| a | b),
            Reduction::Xor => fold($own, $other, |a: $type, b| a ^ b),
        }
    };
}
impl ElementType {
    /// All.
    pub const ALL: [ElementType; 10] = [
        ElementType::Float32,
        ElementType::Float64,
        ElementType::Float16,
        ElementType::Bfloat16,
        ElementType::Int32,
        ElementType::Int64,
        ElementType::Int16,
        ElementType::Int8,
        ElementType::Uint8,
        ElementType::Bool,
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
            ElementType::Int16 => "int16",
            ElementType::Int8 => "int8",
            ElementType::Uint8 => "uint8",
            ElementType::Bool => "bool",
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
            ElementType::Int8 | ElementType::Uint8 | ElementType::Bool => 1,
            ElementType::Float16 | ElementType::Bfloat16 | ElementType::Int16 => 2,
            ElementType::Float32 | ElementType::Int32 => 4,
            ElementType::Float64 | ElementType::Int64 => 8,
        }
    }

    fn is_floating_point(self) -> bool {
        matches!(self, ElementType::Float32 | ElementType::Float64 | ElementType::Float16 | ElementType::Bfloat16)
    }

    /// Adds `other` to `own`, or stores it there, as `action` says; both have as many bytes, whole numbers.
    pub fn apply(self, action: Action, own: &mut [u8], other: &[u8]) {
        match action {
            Action::Reduce => self.reduce(Reduction::Sum, own, other),
            _ => own.copy_from_slice(other),
        }
    }

    /// Reduces `other` into `own`; both have as many bytes, whole numbers. Bits of floating-point numbers are left as
    /// they are: [`Reduction::parse`] refuses that.
    pub fn reduce(self, reduction: Reduction, own: &mut [u8], other: &[u8]) {
        match self {
            ElementType::Float32 => floats(reduction, own, other, 0f32),
            ElementType::Float64 => floats(reduction, own, other, 0f64),
            ElementType::Float16 => halves::<f16>(reduction, own, other),
            ElementType::Bfloat16 => halves::<bf16>(reduction, own, other),
            ElementType::Int64 => integers!(i64, reduction, own, other),
            ElementType::Int32 => integers!(i32, reduction, own, other),
            ElementType::Int16 => integers!(i16, reduction, own, other),
            ElementType::Int8 => integers!(i8, reduction, own, other),
            ElementType::Uint8 => integers!(u8, reduction, own, other),
            ElementType::Bool => match reduction {
                Reduction::Sum | Reduction::Max | Reduction::Or => fold(own, other, |a: u8, b: u8| a | b),
                Reduction::Product | Reduction::Min | Reduction::And => fold(own, other, |a: u8, b: u8| a & b),
                Reduction::Xor => fold(own, other, |a: u8, b: u8| a ^ b),
            },
        }
    }
}

fn floats<T>(reduction: Reduction, own: &mut [u8], other: &[u8], _zero: T)
where
    T: Pod + PartialOrd + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    match reduction {
        Reduction::Sum => fold(own, other, |a: T, b: T| a + b),
        Reduction::Product => fold(own, other, |a: T, b: T| a * b),
        Reduction::Min => fold(own, other, |a: T, b: T| if b < a { b } else { a }),
        Reduction::Max => fold(own, other, |a: T, b: T| if b > a { b } else { a }),
        Reduction::And | Reduction::Or | Reduction::Xor => {}
    }
}

/// Numbers of 16 bits, by blocks of `f32`, each result rounded.
fn halves<T: Pod>(reduction: Reduction, own: &mut [u8], other: &[u8])
where
    [T]: HalfFloatSliceExt,
{
    const BLOCK: usize = 512;
    let mut numbers = [[T::zeroed(); BLOCK]; 2];
    let mut floating = [[0f32; BLOCK]; 2];
    for (own, other) in own.chunks_mut(2 * BLOCK).zip(other.chunks(2 * BLOCK)) {
        let count = own.len() / 2;
        for (at, bytes) in [&*own, other].into_iter().enumerate() {
            bytemuck::cast_slice_mut(&mut numbers[at][..count]).copy_from_slice(bytes);
            numbers[at][..count].convert_to_f32_slice(&mut floating[at][..count]);
        }
        let [first, second] = &mut floating;
        let (first, second) = (&mut first[..count], &second[..count]);
        floats(reduction, bytemuck::cast_slice_mut(first), bytemuck::cast_slice(second), 0f32);
        numbers[0][..count].convert_from_f32_slice(first);
        own.copy_from_slice(bytemuck::cast_slice(&numbers[0][..count]));
    }
}

fn fold<T: Pod>(own: &mut [u8], other: &[u8], of_two: impl Fn(T, T) -> T) {
    if let (Ok(own), Ok(other)) = (bytemuck::try_cast_slice_mut::<u8, T>(own), bytemuck::try_cast_slice::<u8, T>(other))
    {
        return own.iter_mut().zip(other).for_each(|(own, other)| *own = of_two(*own, *other));
    }
    // Bytes may be unaligned.
    for (own, other) in own.chunks_exact_mut(size_of::<T>()).zip(other.chunks_exact(size_of::<T>())) {
        let result = of_two(bytemuck::pod_read_unaligned(own), bytemuck::pod_read_unaligned(other));
        own.copy_from_slice(bytemuck::bytes_of(&result));
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
            assert!(element == ElementType::Bool || element.name().ends_with(&(8 * element.bytes()).to_string()));
        }
        assert!(ElementType::parse("float8").unwrap_err().message.contains("bfloat16"));
    }

    #[test]
    fn reductions_are_those_of_their_names() {
        let reduced = |name: &str, element: ElementType, own: &[u8], other: &[u8]| {
            let mut own = own.to_vec();
            element.reduce(Reduction::parse(name, element).unwrap(), &mut own, other);
            own
        };
        let results =
            Reduction::ALL.map(|each| reduced(each.name(), ElementType::Uint8, &[12, 255], &[10, 2])[..].to_vec());
        assert_eq!(results, [[22, 1], [120, 254], [10, 2], [12, 255], [8, 2], [14, 255], [6, 253]]);
        let results = ["sum", "min", "xor"].map(|name| reduced(name, ElementType::Bool, &[1, 1, 0], &[1, 0, 0]));
        assert_eq!(results, [[1, 1, 0], [1, 0, 0], [0, 1, 0]]);
        let floats = |numbers: [f32; 2]| bytemuck::bytes_of(&numbers).to_vec();
        for (name, result) in [("product", [-8.0, 2.5]), ("min", [-2.0, 1.0]), ("max", [4.0, 2.5])] {
            assert_eq!(reduced(name, ElementType::Float32, &floats([4.0, 2.5]), &floats([-2.0, 1.0])), floats(result));
        }
        let error = Reduction::parse("and", ElementType::Bfloat16).unwrap_err();
        assert_eq!((error.code, error.message.contains("bfloat16")), (Code::NotApplicable, true));
        assert!(Reduction::parse("mean", ElementType::Int8).unwrap_err().message.contains("product"));
    }
}
