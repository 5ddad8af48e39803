//! Collects the result tables while an engine runs, in memory that does not grow with time.

mod carried;
mod deliveries;
mod received;
mod spans;
mod traffic;
mod windows;

pub use deliveries::Deliveries;
pub use spans::MOST_SPANS;
pub use traffic::Traffic;
pub use windows::Windows;
