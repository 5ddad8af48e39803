//! Statistics of a run: batches for the confidence interval, a histogram for percentiles.

/// Cycles of a batch.
pub const BATCH_CYCLES: u64 = 500;
/// Batches that are grouped into as many means for the interval.
const GROUPS: usize = 20;
/// Student's t for 19 degrees of freedom, 95 %.
const STUDENT_T: f64 = 2.093;
/// Latencies from here on share the last class of the histogram.
const MAX_LATENCY: usize = 1 << 20;

#[derive(Default, Clone, Copy)]
struct Batch {
    packets: u64,
    latency: u64,
    network: u64,
    routers: u64,
}

/// Packets created from a start cycle on, by batch of creation.
pub struct Measure {
    start: u64,
    batches: Vec<Batch>,
    histogram: Vec<u64>,
    /// Latencies of packets created after the end of the measurement, which may yet be extended.
    later: Vec<(u64, u64)>,
}

impl Measure {
    /// Nothing measured; packets created from `start` on count.
    pub fn new(start: u64) -> Measure {
        Measure { start, batches: vec![], histogram: vec![], later: vec![] }
    }

    /// A packet was delivered; the measurement ends at `end` for now.
    pub fn deliver(&mut self, created: u64, latency: u64, network: u64, routers: u64, end: u64) {
        if created < self.start {
            return;
        }
        let batch = ((created - self.start) / BATCH_CYCLES) as usize;
        if batch >= self.batches.len() {
            self.batches.resize(batch + 1, Batch::default());
        }
        let state = &mut self.batches[batch];
        state.packets += 1;
        state.latency += latency;
        state.network += network;
        state.routers += routers;
        if created < end { self.count(latency) } else { self.later.push((created, latency)) }
    }

    fn count(&mut self, latency: u64) {
        let class = latency.min(MAX_LATENCY as u64) as usize;
        if class >= self.histogram.len() {
            self.histogram.resize(class + 1, 0);
        }
        self.histogram[class] += 1;
    }

    /// The measurement goes on up to `end`.
    pub fn extend(&mut self, end: u64) {
        for (created, latency) in std::mem::take(&mut self.later) {
            if created < end { self.count(latency) } else { self.later.push((created, latency)) }
        }
    }

    fn within(&self, end: u64) -> &[Batch] {
        let count = (end.saturating_sub(self.start) / BATCH_CYCLES) as usize;
        &self.batches[..count.min(self.batches.len())]
    }

    /// Packets created before `end` and delivered.
    pub fn packets(&self, end: u64) -> u64 {
        self.within(end).iter().map(|b| b.packets).sum()
    }

    /// Mean packet latency, network latency and routers passed of packets created before `end`.
    pub fn means(&self, end: u64) -> (f64, f64, f64) {
        let total = self.within(end).iter().fold(Batch::default(), |sum, b| Batch {
            packets: sum.packets + b.packets,
            latency: sum.latency + b.latency,
            network: sum.network + b.network,
            routers: sum.routers + b.routers,
        });
        let mean = |sum: u64| sum as f64 / total.packets.max(1) as f64;
        (mean(total.latency), mean(total.network), mean(total.routers))
    }

    /// Half the width of the 95 % confidence interval of the mean packet latency, by batch means.
    pub fn half_width(&self, end: u64) -> f64 {
        let batches = self.within(end);
        let means: Vec<f64> = (0..GROUPS)
            .map(|g| &batches[g * batches.len() / GROUPS..(g + 1) * batches.len() / GROUPS])
            .filter_map(|group| {
                let (packets, latency) = group.iter().fold((0, 0), |(p, l), b| (p + b.packets, l + b.latency));
                (packets > 0).then(|| latency as f64 / packets as f64)
            })
            .collect();
        if means.len() < GROUPS {
            return f64::INFINITY;
        }
        let mean = means.iter().sum::<f64>() / GROUPS as f64;
        let variance = means.iter().map(|m| (m - mean) * (m - mean)).sum::<f64>() / (GROUPS - 1) as f64;
        STUDENT_T * (variance / GROUPS as f64).sqrt()
    }

    /// The least latency that `share` of the packets do not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        let total: u64 = self.histogram.iter().sum();
        let needed = (share * total as f64).ceil() as u64;
        let mut seen = 0;
        let reaches = |&(_, count): &(usize, &u64)| {
            seen += count;
            seen >= needed
        };
        self.histogram.iter().enumerate().find(reaches).map_or(0, |(latency, _)| latency as u64)
    }
}
