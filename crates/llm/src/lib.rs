//! Steps of large models: what a model is ([`shape`]), how it is divided ([`parallel`]), what that takes ([`memory`],
//! [`compute`]), in which order stages work ([`pipeline`]), and what all groups' collectives do to each other on the links
//! of a fabric ([`network`]). [`step`] makes one job graph of it and times it;
//! [`inference`] does so for a prompt and the tokens that follow; [`search`] finds the fastest plan.

pub mod compute;
pub mod constants;
pub mod inference;
pub mod memory;
pub mod network;
pub mod parallel;
pub mod pipeline;
pub mod search;
pub mod shape;
pub mod step;
