//! A check of all files, without merging their entries.

use super::lists::hash;
use super::table::Walk;
use super::{Effect, Finding, Salvage};
use crate::Space;

impl Salvage {
    /// Checks every table file of the folder and returns all findings, those of opening included.
    /// Calls `progress` with (done, total) in bytes.
    pub fn inspect(&self, progress: &mut dyn FnMut(u64, u64)) -> Vec<Finding> {
        let total = Space::ALL.iter().map(|space| self.table_bytes(*space)).sum();
        let mut done = 0;
        let mut findings = self.findings.clone();
        for table in self.lists.iter().flat_map(|list| &list.tables) {
            let before = done;
            let checksum = hash(&table.path, &mut |read| {
                done += read;
                progress(done.min(total), total);
            });
            done = before + table.bytes;
            if checksum.is_some() && checksum == table.checksum {
                continue;
            }
            let known = findings.len();
            match Walk::open(&table.path, &table.range) {
                Err(finding) => findings.push(finding),
                Ok(mut walk) => {
                    while walk.next().is_some() {}
                    findings.extend(walk.take_findings());
                }
            }
            if findings.len() == known && table.checksum.is_some() {
                let what = "the checksum of the file does not match; all its entries can be read";
                findings.push(Finding::new(&table.path, None, what, Effect::Harmless));
            }
        }
        progress(total, total);
        findings
    }
}
