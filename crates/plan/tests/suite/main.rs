//! Algorithms on every fabric, as their users call them. One program, which is linked once.

mod common;

mod algorithms;
mod aligned;
mod bounds;
mod builds;
mod channels;
mod configurations;
mod endpoint_times;
mod endpoints;
mod energy;
mod fast_links;
mod flights;
mod groups;
mod in_network;
mod larger;
mod matrix;
mod optimal;
mod overlapped_tree;
mod parallel_links;
mod playbacks;
mod products;
mod protocols;
mod proven;
mod rails;
mod rails_advice;
mod rails_search;
mod rails_symmetry;
mod replan;
mod routing;
mod schedule;
mod themis;
mod traces;
mod tto;
