//! The rows that `soak` prints while it runs, and whether they are flat.

use super::super::bar::Bar;
use hdrhistogram::Histogram;
use std::time::Duration;

/// The accepted increase of the median from the first to the last third: a factor and a constant.
struct Tolerance {
    name: &'static str,
    unit: &'static str,
    of: fn(&Row) -> f64,
    factor: f64,
    plus: f64,
}

static TOLERANCES: &[Tolerance] = &[
    Tolerance { name: "memory", unit: "MiB", of: |row| mib(row.memory), factor: 1.1, plus: 32.0 },
    Tolerance {
        name: "disk without the change log",
        unit: "MiB",
        of: |row| mib(row.data),
        factor: 1.15,
        plus: 64.0,
    },
    Tolerance { name: "write p50", unit: "ms", of: |row| row.writes.p50, factor: 1.3, plus: 0.2 },
    Tolerance { name: "write p99", unit: "ms", of: |row| row.writes.p99, factor: 1.5, plus: 2.0 },
    Tolerance { name: "read p99", unit: "ms", of: |row| row.reads.p99, factor: 1.5, plus: 2.0 },
];
/// The change log keeps 990 MB, and removes its oldest tables after that. In mebibytes.
const CHANGE_LOG_MAX: f64 = 990.0 * 1.1;
/// The smallest accepted ratio of the rate of the last third to that of the first.
const RATE_MIN: f64 = 0.75;

/// Latencies in milliseconds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Millis {
    pub(super) count: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Millis {
    /// The percentiles of a histogram of nanoseconds.
    pub(super) fn of(latency: &Histogram<u64>) -> Millis {
        let at = |quantile| latency.value_at_quantile(quantile) as f64 / 1e6;
        let max = if latency.is_empty() { 0.0 } else { latency.max() as f64 / 1e6 };
        Millis { count: latency.len(), p50: at(0.5), p99: at(0.99), max }
    }
}

/// One row of the table: usually a minute.
#[derive(Clone, Default, Debug)]
pub(super) struct Row {
    /// Since the load began.
    pub(super) at: Duration,
    /// For how long the server was up and loaded.
    pub(super) up: Duration,
    pub(super) writes: Millis,
    pub(super) reads: Millis,
    /// The maximum of resident memory, in bytes.
    pub(super) memory: u64,
    /// The maximum size of the data folder, in bytes, ...
    pub(super) disk: u64,
    /// ... of the change log, which grows up to its limit, ...
    pub(super) change_log: u64,
    /// ... and of everything else.
    pub(super) data: u64,
    /// The maximum of bytes that open snapshots retain, and of open snapshots.
    pub(super) pinned: u64,
    pub(super) snapshots: u64,
    /// The maximum of tables of one tree that wait for merging.
    pub(super) young: u64,
    /// Bytes that the process read from disks and wrote to files.
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// The share of the machine that other processes used, in percent.
    pub(super) others: f64,
}

impl Row {
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.up.as_secs_f64().max(0.001)
    }

    fn requests(&self) -> f64 {
        self.rate(self.writes.count + self.reads.count)
    }

    /// The line of the table.
    pub(super) fn line(&self) -> String {
        let seconds = self.at.as_secs();
        format!(
            "{:>3}:{:02} {:>9.0} {:>8.0} {:>9.2} {:>9.2} {:>9.1} {:>9.2} {:>8.0} {:>8.0} {:>8.0} {:>5} {:>6} \
             {:>8.0} {:>8.0} {:>6.0}\n",
            seconds / 60,
            seconds % 60,
            self.rate(self.writes.count),
            self.rate(self.reads.count),
            self.writes.p50,
            self.writes.p99,
            self.writes.max,
            self.reads.p99,
            mib(self.memory),
            mib(self.disk),
            mib(self.pinned),
            self.snapshots,
            self.young,
            mib(self.read_bytes),
            mib(self.written_bytes),
            self.others,
        )
    }
}

/// The two lines above the rows.
pub(super) fn header() -> String {
    format!(
        "{:>6} {:>9} {:>8} {:>29} {:>9} {:>8} {:>8} {:>8} {:>5} {:>6} {:>8} {:>8} {:>6}\n{:>6} {:>9} {:>8} {:>9} {:>9} \
         {:>9} {:>9} {:>8} {:>8} {:>8} {:>5} {:>6} {:>8} {:>8} {:>6}\n",
        "",
        "writes",
        "reads",
        "write ms",
        "read ms",
        "RSS",
        "disk",
        "pinned",
        "snap-",
        "young",
        "read",
        "written",
        "others",
        "m:ss",
        "/s",
        "/s",
        "p50",
        "p99",
        "max",
        "p99",
        "MiB",
        "MiB",
        "MiB",
        "shots",
        "tables",
        "MiB",
        "MiB",
        "CPU %",
    )
}

/// Whether memory, disk and latency are flat, and memory within `memory_max` bytes.
pub(super) fn bars(rows: &[Row], memory_max: u64) -> Vec<Bar> {
    let mut bars = Vec::new();
    let third = rows.len() / 3;
    let (first, last) = (rows.get(..third), rows.get(rows.len() - third..));
    if let (Some(first), Some(last), true) = (first, last, third > 0) {
        for Tolerance { name, unit, of, factor, plus } in TOLERANCES {
            let (before, after) = (median(first, of), median(last, of));
            let most = before * factor + plus;
            let text = format!(
                "{name}: {before:.1} {unit} in the first third, {after:.1} in the last (bar {most:.1})"
            );
            bars.push(Bar { text, reached: after <= most });
        }
        let (before, after) = (median(first, &Row::requests), median(last, &Row::requests));
        let least = before * RATE_MIN;
        let text = format!(
            "rate: {before:.0} requests/s in the first third, {after:.0} in the last (bar {least:.0})"
        );
        bars.push(Bar { text, reached: after >= least });
    }
    let change_log = mib(rows.iter().map(|row| row.change_log).max().unwrap_or(0));
    let text = format!("change log: {change_log:.0} MiB at most (bar {CHANGE_LOG_MAX:.0})");
    bars.push(Bar { text, reached: change_log <= CHANGE_LOG_MAX });
    let memory = rows.iter().map(|row| row.memory).max().unwrap_or(0);
    let text = format!("most memory: {:.0} MiB (bar {:.0})", mib(memory), mib(memory_max));
    bars.push(Bar { text, reached: memory <= memory_max });
    bars
}

fn median(rows: &[Row], of: &dyn Fn(&Row) -> f64) -> f64 {
    let mut values: Vec<f64> = rows.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Bytes as mebibytes.
pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(memory: u64, p99: f64) -> Row {
        let millis = Millis { count: 6000, p50: 1.0, p99, max: 5.0 };
        let (up, memory) = (Duration::from_secs(60), memory << 20);
        let (disk, data) = (1 << 30, 1 << 29);
        Row { up, writes: millis, reads: millis, memory, disk, data, ..Row::default() }
    }

    fn missed(rows: &[Row]) -> Vec<String> {
        let missed = bars(rows, 500 << 20).into_iter().filter(|bar| !bar.reached);
        missed.filter_map(|bar| bar.text.split(':').next().map(str::to_owned)).collect()
    }

    #[test]
    fn medians_of_thirds_are_compared_and_single_rows_do_not_count() {
        let flat = vec![row(200, 3.0); 9];
        assert!(missed(&flat).is_empty());
        let mut spike = flat.clone();
        spike[8] = row(450, 900.0);
        assert!(missed(&spike).is_empty());
        let rising: Vec<Row> = (0..9).map(|at| row(200 + at * 20, 3.0 + at as f64)).collect();
        assert_eq!(missed(&rising), ["memory", "write p99", "read p99"]);
        let mut high = flat;
        high[4] = row(501, 3.0);
        assert_eq!(missed(&high), ["most memory"]);
        let mut slow = vec![row(200, 3.0); 9];
        slow.iter_mut().skip(6).for_each(|row| row.writes.count = 1000);
        assert_eq!(missed(&slow), ["rate"]);
        // The change log may fill up to its limit; everything else may not grow.
        let mut filling = vec![row(200, 3.0); 9];
        for row in filling.iter_mut().skip(3) {
            (row.disk, row.change_log) = (2 << 30, 900 << 20);
        }
        assert!(missed(&filling).is_empty());
        filling[4].change_log = 1200 << 20;
        filling.iter_mut().skip(6).for_each(|row| row.data = 700 << 20);
        assert_eq!(missed(&filling), ["disk without the change log", "change log"]);
    }

    #[test]
    fn columns_stand_below_their_names() {
        let widths: Vec<usize> = header().lines().map(str::len).collect();
        assert_eq!(widths, [row(1, 1.0).line().trim_end().len(); 2]);
    }
}
