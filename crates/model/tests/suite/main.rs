//! Fabrics of the documentation and of other tools.

mod fabric;
mod imports;
mod links;
mod topologies;
