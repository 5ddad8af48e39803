//! Compute models against published cycles, the TTO artifact's SCALE-Sim runs, and against SCALE-Sim 3.

use crate::published::{number, table};
use antiphon_base::units::Picos;
use antiphon_jobs::compute::{aggregation, layer_times};
use antiphon_jobs::workload::{Pass, Passes, Work, Workload};
use antiphon_model::system::Processor;

/// Name in the published tables, name of our preset.
const MODELS: [(&str, &str); 7] = [
    ("alexnet", "alexnet"),
    ("AlphaGoZero", "alphagozero"),
    ("FasterRCNN", "fasterrcnn"),
    ("Googlenet", "googlenet"),
    ("NCF_recommendation", "ncf"),
    ("Resnet152", "resnet152"),
    ("Transformer", "transformer"),
];

fn preset(published: &str) -> Workload {
    let (_, name) = MODELS.iter().find(|(other, _)| *other == published).unwrap();
    Workload::preset(name).unwrap()
}

/// The artifact's chiplet: 16 processing elements at 1 GHz, a sample for each.
fn chiplet(size: u64) -> Processor {
    Processor::parse(&format!("systolic:rows={size},cols={size}")).unwrap()
}

fn cycles(time: Picos) -> u64 {
    assert_eq!(time % 1000, 0);
    time / 1000
}

fn sum(times: &[Passes<Picos>], passes: &[Pass]) -> u64 {
    cycles(times.iter().map(|times| passes.iter().map(|&pass| times[pass]).sum::<Picos>()).sum())
}

/// Forward is exact where the artifact's model is SCALE-Sim's closed form, on 256x256; everything else
/// within 0.5 % of a model's total.
#[test]
fn cycles_of_models() {
    let rows = table("python/antiphon/papers/tto/compute_cycles.csv");
    assert_eq!(rows.len(), 3 * MODELS.len());
    for row in &rows {
        let (workload, size) = (preset(&row["model"]), number(row, "mac_array_dim"));
        let processor = chiplet(size);
        let times = layer_times(&workload, &processor, 16).unwrap();
        assert_eq!(times.len(), number::<usize>(row, "layers"));
        assert_eq!(workload.params(), number::<u64>(row, "params"));
        let forward = sum(&times, &[Pass::Forward]);
        let backward = sum(&times, &[Pass::InputGradient, Pass::WeightGradient]);
        let (published_forward, published_backward): (u64, u64) =
            (number(row, "forward_cycles"), number(row, "backward_cycles"));
        let percent = |ours: u64, published: u64| 100.0 * (ours as f64 / published as f64 - 1.0);
        let total = percent(forward + backward, published_forward + published_backward);
        println!(
            "{:20} {size:>3}x{size:<3} forward {:>+6.3} %  backward {:>+6.3} %  both {total:>+6.3} %",
            workload.name,
            percent(forward, published_forward),
            percent(backward, published_backward),
        );
        if size == 256 {
            assert_eq!(forward, published_forward, "forward cycles of {}", workload.name);
        }
        assert!(total.abs() < 0.5, "{} on {size}x{size}: {total} %", workload.name);
        let aggregated = cycles(aggregation(workload.params(), &processor));
        assert_eq!(aggregated, number::<u64>(row, "local_aggregation_cycles"), "aggregation of {}", workload.name);
    }
}

/// Each pass of each layer on 256x256 is the closed form of the artifact's SCALE-Sim in layers.csv.
#[test]
fn cycles_of_layers() {
    let rows = table("python/antiphon/papers/tto/layers.csv");
    for (published, _) in MODELS {
        let times = layer_times(&preset(published), &chiplet(256), 16).unwrap();
        let layers: Vec<_> = rows.iter().filter(|row| row["model"] == published).collect();
        assert_eq!(layers.len(), times.len());
        for (row, times) in layers.iter().zip(&times) {
            let expected = ["fwd_cycles_model", "input_grad_cycles_model", "weight_grad_cycles_model"]
                .map(|column| number::<u64>(row, column));
            assert_eq!(times.0.map(cycles), expected, "{published}: {}", row["name"]);
        }
    }
}

/// A processing element takes its samples one after the other; elements share the batch.
#[test]
fn batches() {
    let workload = preset("Googlenet");
    let one = layer_times(&workload, &chiplet(256), 16).unwrap();
    for (batch, samples) in [(1, 1), (16, 1), (17, 2), (160, 10)] {
        let times = layer_times(&workload, &chiplet(256), batch).unwrap();
        assert!(times.iter().zip(&one).all(|(times, one)| times.0 == one.0.map(|time| samples * time)));
    }
}

/// Weight and input stationary are SCALE-Sim 3 exactly. Output stationary is SCALE-Sim 1, which the
/// artifact uses: folds overlap there, and in version 3 each waits for `rows + columns` cycles.
#[test]
fn cycles_of_scale_sim() {
    let rows = table("data/scalesim/cycles.csv");
    assert_eq!(rows.len(), 210);
    let columns = ["layer", "ifmap_h", "ifmap_w", "filter_h", "filter_w", "channels", "num_filters", "stride"];
    let mut full_folds = 0;
    for row in &rows {
        let text = [columns, columns.map(|column| row[column].as_str())].map(|cells| cells.join(",")).join("\n");
        let layer = Workload::from_csv(&row["layer"], &text).unwrap();
        let [array_rows, array_columns, published] =
            ["rows", "columns", "cycles"].map(|column| number::<u64>(row, column));
        let spec = format!("systolic:rows={array_rows},cols={array_columns},pes=1,dataflow={}", row["dataflow"]);
        let processor = Processor::parse(&spec).unwrap();
        let forward = cycles(layer_times(&layer, &processor, 1).unwrap()[0][Pass::Forward]);
        if row["dataflow"] != "os" {
            assert_eq!(forward, published, "{spec}, {text}");
            continue;
        }
        let Work::Convolution(shape) = layer.layers[0].work else { panic!("{text}") };
        let (pixels, depth) = (shape.output().0 * shape.output().1, shape.filter());
        let folds = pixels.div_ceil(array_rows) * shape.filters.div_ceil(array_columns);
        assert_eq!(published, folds * (depth + array_rows + array_columns - 2) - 1, "{spec}, {text}");
        // A fold that fills the array: two cycles more than the number of version 3's last cycle.
        if (pixels, shape.filters) == (array_rows, array_columns) {
            full_folds += 1;
            assert_eq!(forward, published + 2, "{spec}, {text}");
        }
        assert!(forward <= published + 2, "{spec}, {text}: {forward} and {published} cycles");
    }
    assert!(full_folds > 0);
}
