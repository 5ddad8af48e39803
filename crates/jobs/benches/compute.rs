//! Compute models: layers timed in a second.

use antiphon_jobs::compute::layer_times;
use antiphon_jobs::workload::Workload;
use antiphon_model::system::Processor;
use criterion::{BenchmarkId, Criterion, Throughput};

fn layers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compute-layers");
    for (processor, model) in [
        ("systolic", "resnet152"),
        ("systolic:rows=16,cols=16", "resnet152"),
        ("systolic:dataflow=ws", "resnet152"),
        ("roofline", "resnet152"),
        ("roofline", "transformer-1t"),
        ("measured", "libra-gpt-3"),
    ] {
        let (workload, parsed) = (Workload::preset(model).unwrap(), Processor::parse(processor).unwrap());
        group.throughput(Throughput::Elements(workload.layers.len() as u64));
        group.bench_function(BenchmarkId::new(processor, model), |bencher| {
            bencher.iter(|| layer_times(&workload, &parsed, 64).unwrap());
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    layers(&mut criterion);
    criterion.final_summary();
}
