//! `bucket`: many points of a series in one record. Clients read and write single documents; the
//! database stores those of a series and a span of time together, in columns, with statistics.
//!
//! A document whose time is no date, or with an array on the path of a key, is stored as it is.

mod answer;
mod bytes;
mod check;
mod columns;
pub(crate) mod declaration;
mod directory;
mod kind;
mod layout;
mod levels;
mod points;
mod prune;
mod raw;
mod recent;
mod record;
mod scan;
mod settings;
mod stats;
pub mod time_series;

use layout::Buckets;
use settings::SharedSettings;

/// A bucket pattern.
#[derive(Debug)]
pub(crate) struct Bucket {
    layout: Buckets,
}

impl Bucket {
    fn new(settings: SharedSettings) -> Bucket {
        Bucket { layout: Buckets::new(settings) }
    }
}
