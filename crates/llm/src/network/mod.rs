//! Links that all groups share: what an exchange puts on each ([`flow`]), which of them are alike ([`classes`]), and how
//! long exchanges under way take together ([`shared`]).

pub mod boxes;
pub mod changed;
pub mod classes;
pub mod flow;
pub mod graph;
pub mod shared;
pub mod wiring;

pub use boxes::EqualBoxes;
pub use changed::{ChangedWiring, LinkPlaces};
pub use classes::{LinkClass, LinkClasses};
pub use flow::{FlowForm, GroupFlow};
pub use graph::FabricWiring;
pub use shared::{CarriedExchange, ClassUse, SharedLinks};
pub use wiring::{Wiring, from_fabric, wiring};
