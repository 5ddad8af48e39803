//! Tests of the core from outside. One program: nineteen took minutes to link.

mod common;

mod algorithms;
mod booksim;
mod bounds;
mod builds;
mod chakra;
mod channels;
mod compute;
mod endpoints;
mod energy;
mod fabric;
mod flights;
mod formats;
mod fuzz;
mod groups;
mod imports;
mod interrupted;
mod larger;
mod matrix;
mod optimal;
mod overlapped_tree;
mod parallel_links;
mod products;
mod proven;
mod rails;
mod rails_search;
mod replan;
mod schedule;
mod tto;
