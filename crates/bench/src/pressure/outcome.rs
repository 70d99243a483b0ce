//! The table of the results of `pressure`, and their targets.

use super::super::bar::Bar;
use super::super::process::Program;
use super::{OPEN_CURSOR, Pressure, UNSTRESSED};
use std::fmt::Write;
use value::Writer;
use value::writer::ArrayWriter;

/// The longest accepted single write, in seconds.
const WRITE_MAX: f64 = 1.0;
/// The largest accepted ratio of p99.9 to that of the unstressed phase.
const STRESS_MAX: f64 = 5.0;
/// Memory is flat if its median in the last third of the seconds is at most this many times that of
/// the first third, plus `FLAT_BYTES`.
const FLAT_FACTOR: f64 = 1.1;
const FLAT_PLUS: f64 = 16e6;
/// The length of the picture of a phase's seconds, in characters.
const PICTURE: usize = 60;

impl Pressure {
    fn at(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e6
    }

    fn max(&self) -> f64 {
        if self.latency.is_empty() { 0.0 } else { self.latency.max() as f64 / 1e6 }
    }

    fn memory_max(&self) -> u64 {
        self.memory.iter().copied().max().unwrap_or(0)
    }

    fn is_ours(&self) -> bool {
        self.server == Program::Motif.name()
    }
}

/// Compares the results with their targets; `memory_max` is the limit of our server's memory.
pub(crate) fn bars(found: &[Pressure], memory_max: u64) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut bar = |text: String, reached: bool| bars.push(Bar { text, reached });
    let calm = found.iter().find(|phase| phase.is_ours() && phase.phase == UNSTRESSED);
    for ours in found.iter().filter(|phase| phase.is_ours()) {
        let name = format!("{} {}", ours.size, ours.phase);
        let max = ours.max() / 1e3;
        bar(format!("{name}: longest write {max:.2} s (bar {WRITE_MAX:.1})"), max <= WRITE_MAX);
        // Batches of a load are not single writes.
        if let Some(calm) = calm.filter(|_| ours.phase != UNSTRESSED && ours.phase != "load") {
            let (p999, most) = (ours.at(0.999), calm.at(0.999) * STRESS_MAX);
            let text = format!(
                "{name}: p99.9 of writes {p999:.2} ms (bar {most:.2}: {STRESS_MAX} times the unstressed run)"
            );
            bar(text, p999 <= most);
        }
        let memory = ours.memory_max();
        let text = format!("{name}: memory {} MiB (bar {})", memory >> 20, memory_max >> 20);
        bar(text, memory <= memory_max);
        if ours.phase == OPEN_CURSOR {
            let third = ours.memory.len() / 3;
            let first = median(ours.memory.get(..third).unwrap_or(&[]));
            let last = median(ours.memory.get(ours.memory.len() - third..).unwrap_or(&[]));
            let most = first as f64 * FLAT_FACTOR + FLAT_PLUS;
            let text = format!(
                "{name}: memory {} MiB in the first third, {} in the last (bar {:.0})",
                first >> 20,
                last >> 20,
                most / f64::from(1 << 20)
            );
            bar(text, last as f64 <= most);
        }
        let same = |other: &&Pressure| {
            !other.is_ours() && other.phase == ours.phase && other.size == ours.size
        };
        if let Some(theirs) = found.iter().find(same) {
            let ratio = ours.rate / theirs.rate.max(1e-9);
            let text = format!("{name}: {ratio:.2} times the rate of {} (bar 1.0)", theirs.server);
            bar(text, ratio >= 1.0);
            let (longest, other) = (ours.max(), theirs.max());
            let text = format!(
                "{name}: longest write {longest:.0} ms, {other:.0} ms on {} (bar: not longer)",
                theirs.server
            );
            bar(text, longest <= other);
            if ours.phase == "load" {
                let (written, bound) = (ours.written >> 20, theirs.written >> 20);
                let text = format!(
                    "{name}: {written} MiB written, {bound} on {} (bar: not more)",
                    theirs.server
                );
                bar(text, written <= bound);
                let (peak, bound) = (ours.space_peak >> 20, theirs.space_peak >> 20);
                let text = format!(
                    "{name}: {peak} MiB on disk at most, {bound} on {} (bar: not more)",
                    theirs.server
                );
                bar(text, peak <= bound);
            }
        }
    }
    bars
}

/// Prints two lines for each phase: numbers, and a picture of its seconds.
pub(crate) fn print(out: &mut String, found: &[Pressure]) -> std::fmt::Result {
    if found.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{:7} {:5} {:20} {:>10} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>6}",
        "server",
        "data",
        "phase",
        "docs/s",
        "p50 ms",
        "p99",
        "p99.9",
        "max",
        "RSS MiB",
        "read MiB",
        "written",
        "disk max",
        "disk end",
        "others"
    )?;
    for phase in found {
        let mib = |bytes: u64| bytes >> 20;
        writeln!(
            out,
            "{:7} {:5} {:20} {:>10.0} {:>8.2} {:>8.2} {:>8.2} {:>8.1} {:>7} {:>8} {:>8} {:>8} {:>8} {:>5.0}%",
            phase.server,
            phase.size,
            phase.phase,
            phase.rate,
            phase.at(0.5),
            phase.at(0.99),
            phase.at(0.999),
            phase.max(),
            mib(phase.memory_max()),
            mib(phase.read),
            mib(phase.written),
            mib(phase.space_peak),
            mib(phase.space_end),
            phase.others,
        )?;
        let seconds = &phase.by_second;
        let (least, most) = (seconds.iter().min(), seconds.iter().max());
        if let (Some(least), Some(most)) = (least, most) {
            writeln!(
                out,
                "        writes by second: {} least {least}, median {}, most {most}",
                picture(seconds),
                median(seconds),
            )?;
        }
    }
    writeln!(
        out,
        "(docs/s: written documents, or those that a scan, group, sort or index build went through; latencies are \
         of single durable updates beside it, of batches of {} while loading; others: the share of the machine that other processes used)\n",
        super::BATCH
    )
}

/// Writes everything as JSON, with each second.
pub(crate) fn json(list: &mut ArrayWriter<'_>, found: &[Pressure]) {
    for phase in found {
        list.push_doc(|out| phase_json(out, phase));
    }
}

fn phase_json(out: &mut Writer<'_>, phase: &Pressure) {
    out.str("server", phase.server).str("phase", phase.phase).str("data", &phase.size);
    out.f64("documentsPerSecond", phase.rate);
    for (name, quantile) in [("p50Ms", 0.5), ("p99Ms", 0.99), ("p999Ms", 0.999)] {
        out.f64(name, phase.at(quantile));
    }
    out.f64("maxMs", phase.max());
    out.count("readBytes", phase.read).count("writtenBytes", phase.written);
    out.f64("othersCpuPercent", phase.others);
    out.count("diskPeakBytes", phase.space_peak).count("diskEndBytes", phase.space_end);
    for (name, values) in
        [("writesBySecond", &phase.by_second), ("residentBySecond", &phase.memory)]
    {
        out.array(name, |list| {
            for value in values {
                list.push(value::Val::Int64(value.cast_signed()));
            }
        });
    }
}

/// A bar for each second, or for a few of them; a second without any write is a dot.
fn picture(seconds: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = seconds.iter().copied().max().unwrap_or(0).max(1);
    let draw = |group: &[u64]| {
        // The worst second of the group, so that stalls are visible.
        let least = group.iter().copied().min().unwrap_or(0);
        let at = (least * 8).div_ceil(most).saturating_sub(1) as usize;
        if least == 0 { '.' } else { BARS.get(at).copied().unwrap_or('█') }
    };
    seconds.chunks(seconds.len().div_ceil(PICTURE).max(1)).map(draw).collect()
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::super::drive::latency_histogram;
    use super::*;

    fn phase(server: &'static str, phase: &'static str, millis: &[u64], rate: f64) -> Pressure {
        let mut latency = latency_histogram().unwrap();
        millis.iter().for_each(|ms| latency.record(ms * 1_000_000).unwrap());
        let memory = vec![100 << 20; 9];
        let size = "x4".to_owned();
        let (by_second, read, written, space_peak, space_end) = (Vec::new(), 0, 0, 0, 0);
        Pressure {
            server,
            phase,
            size,
            rate,
            by_second,
            latency,
            memory,
            read,
            written,
            space_peak,
            space_end,
            others: 0.0,
        }
    }

    fn missed(found: &[Pressure]) -> Vec<String> {
        bars(found, 200 << 20).into_iter().filter(|b| !b.reached).map(|b| b.text).collect()
    }

    #[test]
    fn bars_hold_writes_memory_and_the_other_server_against_each_other() {
        let calm = || phase("motif", UNSTRESSED, &[1, 1, 2], 100.0);
        assert!(missed(&[calm(), phase("motif", "update", &[9], 50.0)]).is_empty());
        let slow = missed(&[calm(), phase("motif", "update", &[1100], 50.0)]);
        assert_eq!(slow.len(), 2, "{slow:?}");
        assert!(slow[0].contains("longest write 1.10 s") && slow[1].contains("p99.9"), "{slow:?}");
        let mut growing = phase("motif", OPEN_CURSOR, &[2], 50.0);
        growing.memory = (0..9).map(|second| (100 + second * 15) << 20).collect();
        let growing = missed(&[calm(), growing]);
        assert_eq!(growing.len(), 2, "{growing:?}");
        let behind =
            [phase("motif", "scan", &[5], 10.0), phase("mongod", "scan", &[4], 11.0), calm()];
        let behind = missed(&behind);
        assert_eq!(behind.len(), 2, "{behind:?}");
    }

    #[test]
    fn a_stall_is_seen_in_the_picture() {
        assert_eq!(picture(&[8, 4, 0, 1, 8]), "█▄.▁█");
        let mut long = vec![8; 600];
        long[300] = 0;
        assert_eq!(picture(&long).chars().filter(|&c| c == '.').count(), 1);
        assert_eq!(picture(&long).chars().count(), PICTURE);
        assert_eq!(picture(&[]), "");
    }
}
