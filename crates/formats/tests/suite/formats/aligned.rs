//! Schedules with an alignment: formats cut data into equal chunks and say none.

use antiphon_base::error::Code;
use antiphon_base::watch::Watch;
use antiphon_formats::ALL;
use antiphon_model::collective::{Align, Collective, Kind};
use antiphon_model::fabric::Fabric;
use antiphon_model::system::System;
use antiphon_plan::algorithm;
use antiphon_proof::verify;

/// What is written is proven and read back with the alignment of elements; what has no equal chunks is refused.
#[test]
fn what_is_aligned_is_written_or_refused() {
    let system = System::preset("generic").unwrap();
    let (mut read, mut refused) = (0, 0);
    for (spec, kind) in [("ring:3", Kind::AllGather), ("mesh:2x3", Kind::AllToAll), ("mesh:3x3", Kind::AllReduce)] {
        let fabric = Fabric::parse(spec).unwrap();
        for name in ["ring", "direct", "combs", "multitree"] {
            for (bytes, align) in [(200, 16), (3 << 16, 16), ((1 << 20) + 4, 16), (20_000, 4096)] {
                let name = format!("{name}:align={align}");
                let Ok(schedule) = algorithm::build(&fabric, &system, Collective::new(kind), bytes, &name) else {
                    continue;
                };
                let what = format!("{name} {} {bytes} B on {spec}", kind.name());
                for format in ALL.iter().filter(|format| !format.info().consumers.is_empty()) {
                    let text = match format.write(&schedule, format.info().consumers[0], Watch::default()) {
                        Ok(text) => text,
                        Err(error) => {
                            let known = matches!(error.code, Code::NotApplicable | Code::TooLarge);
                            assert!(known && !error.message.contains('\n'), "{what}: {error}");
                            refused += usize::from(error.message.contains("are rounded to their align"));
                            continue;
                        }
                    };
                    if format.name() != "goal" {
                        let file = format.read(&text, Watch::default()).unwrap();
                        file.prove(Watch::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
                        let raised = file.raise(&fabric, bytes, &[], Watch::default()).unwrap();
                        assert_eq!(
                            (raised.align, raised.collective),
                            (Align::default(), schedule.collective),
                            "{what}"
                        );
                        assert!(verify(&fabric, &raised).unwrap().complete, "{what}");
                        read += 1;
                    }
                }
            }
        }
    }
    assert!(read > 20 && refused > 2, "{read} {refused}");
}
