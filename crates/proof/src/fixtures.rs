//! Small hand-made schedules for the tests.

use antiphon_model::collective::{Align, Collective, Kind};
use antiphon_model::fabric::{DimensionShape, Fabric, grid::grid};
use antiphon_model::schedule::{Builder, Dependencies, Dependency, Event, Lane, Op, Schedule, TransferId};
use antiphon_model::system::System;

pub type Case = (Fabric, Schedule);

/// Asserts that `message` contains all `parts`.
pub fn assert_has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

/// Dependencies on transfers whose same chunk was applied.
pub fn after<const N: usize>(ids: [TransferId; N]) -> Dependencies {
    ids.into_iter().map(Into::into).collect()
}

pub fn ring_fabric(ranks: u32) -> Fabric {
    grid(&format!("ring:{ranks}"), DimensionShape::Ring, &[ranks]).unwrap()
}

fn builder(fabric: &Fabric, kind: Kind, root: u32, bytes: u64) -> Builder<'_> {
    Builder::new("test", fabric, Collective { kind, root }, bytes)
}

/// Lane `i` is shard `i`, of rank `i`, in `chunks` chunks.
fn shards(builder: &mut Builder, chunks: u64) {
    let (bytes, ranks) = (builder.schedule.bytes, builder.schedule.ranks);
    for rank in 0..ranks {
        let (offset, length) = Align::default().shard(bytes, ranks as usize, rank as usize);
        builder.lane(Lane {
            offset,
            bytes: length,
            chunks,
            chunk_bytes: Align::default().payload(length, chunks),
            stride: ranks - 1,
            source: rank,
            owner: rank,
        });
    }
}

/// One lane of everything.
fn whole(builder: &mut Builder, chunks: u64, stride: u32) {
    let bytes = builder.schedule.bytes;
    builder.lane(Lane {
        offset: 0,
        bytes,
        chunks,
        chunk_bytes: Align::default().payload(bytes, chunks),
        stride,
        source: 0,
        owner: 0,
    });
}

fn ring_phase(builder: &mut Builder, name: &str, op: Op) {
    builder.phase(name, false);
    let n = builder.schedule.ranks;
    let first = if op == Op::Reduce { 1 } else { 0 };
    for (lane, hop) in (0..n).flat_map(|lane| (0..n - 1).map(move |hop| (lane, hop))) {
        let at = (lane + first + hop) % n;
        builder.send(op, at, (at + 1) % n, lane, hop).unwrap();
    }
}

pub fn ring_all_reduce(ranks: u32, bytes: u64, chunks: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::AllReduce, 0, bytes);
    shards(&mut builder, chunks);
    ring_phase(&mut builder, "reduce-scatter", Op::Reduce);
    ring_phase(&mut builder, "all-gather", Op::Copy);
    builder.schedule.conflict_free = ranks > 1;
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

pub fn ring_reduce_scatter(ranks: u32, bytes: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::ReduceScatter, 0, bytes);
    shards(&mut builder, 1);
    ring_phase(&mut builder, "reduce-scatter", Op::Reduce);
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

pub fn ring_all_gather(ranks: u32, bytes: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::AllGather, 0, bytes);
    shards(&mut builder, 1);
    ring_phase(&mut builder, "all-gather", Op::Copy);
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

/// A line 0 - 1 - ... as a tree, rooted at 0, pipelined.
pub fn tree_all_reduce(ranks: u32, bytes: u64, chunks: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::AllReduce, 0, bytes);
    whole(&mut builder, chunks, 1);
    builder.phase("reduce", false);
    for child in (1..ranks).rev() {
        builder.send(Op::Reduce, child, child - 1, 0, ranks - 1 - child).unwrap();
    }
    builder.phase("broadcast", true);
    for child in 1..ranks {
        builder.send(Op::Copy, child - 1, child, 0, child - 1).unwrap();
    }
    builder.schedule.conflict_free = true;
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

/// From rank 1 both ways around.
pub fn tree_broadcast(ranks: u32, bytes: u64, chunks: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::Broadcast, 1, bytes);
    whole(&mut builder, chunks, 1);
    builder.phase("broadcast", false);
    let mut reached = 1;
    for hop in 0..ranks {
        for (from, to) in [(1 + hop, 2 + hop), (1 + ranks * 2 - hop, ranks * 2 - hop)] {
            if reached < ranks {
                builder.send(Op::Copy, from % ranks, to % ranks, 0, hop).unwrap();
                reached += 1;
            }
        }
    }
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

/// Everyone sends to the root, 2; reductions are not ordered among themselves.
pub fn star_reduce(ranks: u32, bytes: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::Reduce, 2, bytes);
    whole(&mut builder, 1, 1);
    for other in (0..ranks).filter(|&other| other != 2) {
        builder.send(Op::Reduce, other, 2, 0, 0).unwrap();
    }
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

/// Every shard is reduced at its rank by everyone, then handed out to everyone.
pub fn direct_all_reduce(ranks: u32, bytes: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::AllReduce, 0, bytes);
    shards(&mut builder, 1);
    builder.phase("reduce-scatter", false);
    let pairs = || (1..ranks).flat_map(|k| (0..ranks).map(move |rank| (k, rank, (rank + k) % ranks)));
    for (k, rank, other) in pairs() {
        builder.send(Op::Reduce, rank, other, other, k - 1).unwrap();
    }
    builder.phase("all-gather", false);
    for (k, rank, other) in pairs() {
        builder.send(Op::Copy, rank, other, rank, k - 1).unwrap();
    }
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

/// Recursive halving and doubling on 4 ranks; messages carry two lanes, then one.
pub fn halving_doubling(bytes: u64) -> Case {
    let fabric = ring_fabric(4);
    let mut builder = builder(&fabric, Kind::AllReduce, 0, bytes);
    shards(&mut builder, 1);
    builder.phase("reduce-scatter", false);
    for rank in 0..4u32 {
        builder.send(Op::Reduce, rank, rank ^ 2, ((rank ^ 2) & 2)..((rank ^ 2) & 2) + 2, 0).unwrap();
        builder.send(Op::Reduce, rank, rank ^ 1, rank ^ 1, 1).unwrap();
    }
    builder.phase("all-gather", false);
    for rank in 0..4u32 {
        builder.send(Op::Copy, rank, rank ^ 1, rank, 0).unwrap();
        builder.send(Op::Copy, rank, rank ^ 2, (rank & 2)..(rank & 2) + 2, 1).unwrap();
    }
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

pub fn direct_all_to_all(ranks: u32, bytes: u64) -> Case {
    let fabric = ring_fabric(ranks);
    let mut builder = builder(&fabric, Kind::AllToAll, 0, bytes);
    for (source, owner) in (0..ranks).flat_map(|s| (0..ranks).map(move |o| (s, o))) {
        let lane = builder.block(Align::default().shard(bytes, ranks as usize, owner as usize), 0);
        let entry = &mut builder.schedule.lanes[lane as usize];
        (entry.source, entry.owner) = (source, owner);
        if source != owner {
            builder.send(Op::Copy, source, owner, lane, (owner + ranks - source) % ranks - 1).unwrap();
        }
    }
    let schedule = builder.finish().unwrap();
    (fabric, schedule)
}

/// What an algorithm builds.
#[cfg(test)] // as all of this file; this may import what the rest must not
pub fn built(spec: &str, kind: Kind, bytes: u64, algorithm: &str) -> Case {
    let fabric = Fabric::parse(spec).unwrap();
    let system = System::preset("generic").unwrap();
    let schedule = antiphon_plan::algorithm::build(&fabric, &system, Collective::new(kind), bytes, algorithm).unwrap();
    (fabric, schedule)
}

/// A ring in chunks with two buffers a message: a chunk waits until the one two before was sent.
pub fn double_buffered_ring(ranks: u32, bytes: u64, chunks: u64) -> Case {
    let (fabric, mut schedule) = ring_all_reduce(ranks, bytes, chunks);
    for (id, transfer) in (0..).zip(&mut schedule.transfers) {
        transfer.start_after.push(Dependency::new(id, Event::Sent).lagging(2));
    }
    (fabric, schedule)
}

/// One of everything, with sizes that do and do not divide.
pub fn all() -> Vec<Case> {
    vec![
        built("fc:8", Kind::AllGather, 100, "bruck"),
        built("fc:5", Kind::AllToAll, 60, "bruck"),
        built("ring:4", Kind::AllReduce, 64, "ring:buffers=1"),
        built("mesh:2x3", Kind::AllReduce, 96, "ring-2d:dependencies=held"),
        double_buffered_ring(3, 3 * 4 * 24, 6),
        ring_all_reduce(2, 64, 1),
        ring_all_reduce(3, 50, 1),
        ring_all_reduce(4, 4 * 4 * 24, 3),
        ring_all_reduce(5, 7, 2),
        ring_reduce_scatter(4, 64),
        ring_all_gather(4, 63),
        tree_all_reduce(2, 64, 1),
        tree_all_reduce(4, 640, 5),
        tree_broadcast(2, 64, 1),
        tree_broadcast(4, 64, 4),
        star_reduce(4, 64),
        direct_all_reduce(4, 64),
        halving_doubling(128),
        direct_all_to_all(3, 60),
        direct_all_to_all(4, 61),
    ]
}
