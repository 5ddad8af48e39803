//! All that is done with files can be ended before it is done, and takes about as long as they are.

use crate::prelude::*;
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use antiphon_formats::{by_name, of_text};
use antiphon_plan::algorithm::build;
use std::cell::Cell;

/// How often work reports, and what becomes of it if it is ended at a report.
fn reports<T>(work: impl Fn(Watch) -> Result<T>) -> (usize, impl Fn(usize) -> Result<T>) {
    let ended_at = move |last: usize| {
        let count = Cell::new(0);
        let outcome = work(Watch::new(&|share| {
            assert!((0.0..=1.0).contains(&share), "{share}");
            count.set(count.get() + 1);
            count.get() <= last
        }));
        (outcome, count.get())
    };
    (ended_at(usize::MAX).1, move |last| ended_at(last).0)
}

/// That work reports and ends with each of its reports; gives what it makes.
fn ends<T>(name: &str, work: impl Fn(Watch) -> Result<T>) -> T {
    let (count, ended_at) = reports(work);
    assert!(count > 0, "{name}");
    for last in (0..count).step_by(1 + count / 40) {
        assert_eq!(ended_at(last).err().map(|error| error.code), Some(Code::Interrupted), "{name}: {last} of {count}");
    }
    ended_at(count).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn schedule(fabric: &Fabric, algorithm: &str) -> Schedule {
    build(fabric, &System::default(), Collective::new(Kind::AllReduce), 1 << 20, algorithm).unwrap()
}

#[test]
fn writing_reading_proving_and_raising_end_when_asked_to() {
    let fabric = Fabric::parse("mesh:4x4").unwrap();
    let schedule = schedule(&fabric, "multitree");
    for (name, consumer) in [("msccl", "executor"), ("mscclpp", "executor"), ("goal", "loggopsim")] {
        let format = by_name(name).unwrap();
        let text = ends(name, |watch| format.write(&schedule, consumer, watch));
        if name != "goal" {
            let file = ends(name, |watch| format.read(&text, watch));
            ends(name, |watch| file.prove(watch));
            ends(name, |watch| file.raise(&fabric, 1 << 20, &[], watch));
        }
    }
    let teccl = r#"{"7-Flows": ["Chunk 0 from 0 traveled over 0->1 in epoch 0", "Chunk 0 from 1 traveled over 1->0 in epoch 0"]}"#;
    let tacos = "NPUs Count,2\nLinks Count,2\nChunks Count,2\nChunk Size,1\nSrcID,DestID,Latency,Bandwidth,ChunkIDs\n\
        0,1,1,1,0\n1,0,1,1,1\n";
    for text in [teccl, tacos] {
        let format = of_text(text).unwrap().unwrap();
        let file = ends(format.name(), |watch| format.read(text, watch));
        ends(format.name(), |watch| file.prove(watch));
        ends(format.name(), |watch| file.raise(&Fabric::parse("ring:2").unwrap(), 1 << 10, &[], watch));
    }
}

/// Proofs look at steps a few times, not once for each of the ranks.
#[test]
fn proofs_of_many_ranks_are_not_quadratic() {
    let reports_on = |spec: &str| {
        let schedule = schedule(&Fabric::parse(spec).unwrap(), "multitree");
        reports(|watch| by_name("mscclpp").unwrap().write(&schedule, "executor", watch)).0
    };
    // Four times the ranks with four times the lanes and transfers of each.
    let (few, many) = (reports_on("mesh:4x4"), reports_on("mesh:8x8"));
    assert!(many < 32 * few, "{few} and {many} reports");
}
