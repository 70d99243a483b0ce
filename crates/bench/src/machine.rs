//! The load of the machine by processes other than the measured server and this program. On a
//! loaded machine, latencies say little about the server.

use super::process::Process;
use std::time::{Duration, Instant};

/// CPU time of other processes over one or several periods.
#[derive(Default)]
pub(crate) struct Others {
    /// CPU time that other processes used.
    used: Duration,
    /// CPU time that all processors had.
    had: Duration,
    begun: Option<(Instant, Duration, Duration)>,
}

impl Others {
    /// Begins a period during which `server` runs.
    pub(crate) fn begin(&mut self, server: Process) {
        self.begun = used(server).map(|(all, ours)| (Instant::now(), all, ours));
    }

    /// Ends the period; the server still runs.
    pub(crate) fn end(&mut self, server: Process) {
        let (Some((begun, all, ours)), Some((all_now, ours_now))) =
            (self.begun.take(), used(server))
        else {
            return;
        };
        let (all, ours) = (all_now.saturating_sub(all), ours_now.saturating_sub(ours));
        self.used += all.saturating_sub(ours);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.had += begun.elapsed() * u32::try_from(cores).unwrap_or(u32::MAX);
    }

    /// The share of the machine that other processes used, in percent.
    pub(crate) fn percent(&self) -> f64 {
        100.0 * self.used.as_secs_f64() / self.had.as_secs_f64().max(1e-9)
    }
}

/// CPU time of the whole machine, and that of the server and this process.
fn used(server: Process) -> Option<(Duration, Duration)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let this = Process(std::process::id());
    Some((busy_of_stat(&text)?, server.cpu().ok()? + this.cpu().ok()?))
}

/// The time for which all processors were busy, from the text of `/proc/stat`.
fn busy_of_stat(text: &str) -> Option<Duration> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let mut ticks = 0;
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is part of user.
    for (at, field) in line.split_ascii_whitespace().take(8).enumerate() {
        let field: u64 = field.parse().ok()?;
        ticks += if matches!(at, 3 | 4) { 0 } else { field };
    }
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_processors_and_those_that_wait_are_not_busy() {
        let per_second = rustix::param::clock_ticks_per_second();
        let stat =
            format!("cpu  {per_second} 0 {per_second} 700 700 0 0 {per_second} 9 9\ncpu0 1\n");
        assert_eq!(busy_of_stat(&stat), Some(Duration::from_secs(3)));
        assert_eq!(busy_of_stat("intr 1\n"), None);
    }

    #[test]
    fn stretches_add_up() {
        let others = Others {
            used: Duration::from_secs(1),
            had: Duration::from_secs(4),
            ..Others::default()
        };
        assert!((others.percent() - 25.0).abs() < 1e-9);
        assert!(Others::default().percent().abs() < 1e-9);
    }
}
