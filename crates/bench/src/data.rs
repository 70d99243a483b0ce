//! The documents that the benchmark loads, and its random choices. Both depend only on a seed, so
//! that all servers get the same documents and the same requests in every run.

use value::writer::write_doc;

/// A reproducible generator of random choices. Not for secrets.
#[derive(Clone)]
pub(crate) struct Dice(fastrand::Rng);

impl Dice {
    /// Starts a sequence; equal seeds give equal sequences.
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(fastrand::Rng::with_seed(seed))
    }

    /// A number below `end`; `end` must not be zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// A number from 0 up to, not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.f64()
    }
}

/// A hash of `number`: consecutive numbers give unrelated results.
fn mix(number: u64) -> u64 {
    fastrand::Rng::with_seed(number).u64(..)
}

/// The distribution of YCSB over the numbers below `count`: Zipf's law with exponent 0.99, with the
/// frequent numbers scattered over the whole range.
#[derive(Clone)]
pub(crate) struct Zipf {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    half_power: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    /// Prepares the distribution for `count` numbers, in time proportional to `count`.
    pub(crate) fn new(count: u64) -> Zipf {
        let count = count.max(2);
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-Self::THETA)).sum::<f64>();
        let all = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - Self::THETA)) / (1.0 - zeta(2) / all);
        Zipf {
            count,
            zeta: all,
            alpha: 1.0 / (1.0 - Self::THETA),
            eta,
            half_power: 1.0 + 0.5f64.powf(Self::THETA),
        }
    }

    /// Draws the rank of a number: 0 is the most frequent.
    fn rank(&self, dice: &mut Dice) -> u64 {
        let u = dice.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.half_power {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }

    /// Draws a number below `count`.
    pub(crate) fn draw(&self, dice: &mut Dice) -> u64 {
        mix(self.rank(dice)) % self.count
    }
}

/// The number of documents with the same value of the indexed field `customer`.
pub(crate) const PER_CUSTOMER: u64 = 10;

const STATES: [&str; 5] = ["new", "paid", "packed", "shipped", "returned"];
const REGIONS: [&str; 8] =
    ["north", "south", "east", "west", "centre", "coast", "islands", "hills"];
const CITIES: [&str; 6] = ["Leipzig", "Porto", "Gdansk", "Nantes", "Bergen", "Graz"];
const WORDS: [&str; 16] = [
    "amber", "basalt", "cobalt", "dune", "ember", "fjord", "granite", "harbour", "indigo",
    "juniper", "kelp", "lagoon", "meadow", "nectar", "opal", "prairie",
];

/// The value of the indexed field `created` of document `id`: a second per document.
pub(crate) fn created_ms(id: u64) -> i64 {
    1_700_000_000_000 + id as i64 * 1000
}

/// The number of different customers of `docs` documents.
pub(crate) fn customers(docs: u64) -> u64 {
    (docs / PER_CUSTOMER).max(1)
}

/// Appends document `id` of a collection of `docs` documents: an order of about 420 bytes.
pub(crate) fn write_order(bytes: &mut Vec<u8>, id: u64, docs: u64) {
    let mut dice = Dice::new(id ^ 0x00C0_FFEE);
    let dice = &mut dice;
    let customer = mix(id) % customers(docs);
    write_doc(bytes, |order| {
        order.i64("_id", id as i64);
        order.i32("customer", customer as i32);
        order.append("created", value::Val::DateTime(created_ms(id)));
        order.str("status", pick(dice, &STATES));
        order.f64("total", dice.below(100_000) as f64 / 100.0);
        order.i32("quantity", dice.below(20) as i32);
        order.str("region", pick(dice, &REGIONS));
        order.i32("version", 0);
        order.doc("address", |address| {
            address.str("street", &format!("{} street", pick(dice, &WORDS)));
            address.i32("number", dice.below(200) as i32 + 1);
            address.str("city", pick(dice, &CITIES));
            address.str("code", &format!("{:05}", dice.below(100_000)));
        });
        order.array("tags", |tags| {
            for _ in 0..3 {
                tags.push(value::Val::String(pick(dice, &WORDS)));
            }
        });
        let mut note = String::with_capacity(128);
        while note.len() < 100 {
            note.push_str(pick(dice, &WORDS));
            note.push(' ');
        }
        order.str("note", note.get(..100).unwrap_or(&note));
        order.str("email", &format!("customer{customer}@example.com"));
    });
}

fn pick<'a>(dice: &mut Dice, list: &[&'a str]) -> &'a str {
    let at = dice.below(list.len().max(1) as u64) as usize;
    list.get(at).copied().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::RawDoc;

    #[test]
    fn documents_are_the_same_in_every_run_and_about_420_bytes_long() {
        let mut total = 0;
        for id in 0..1000 {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            write_order(&mut first, id, 1000);
            write_order(&mut second, id, 1000);
            assert_eq!(first, second);
            assert_eq!(
                RawDoc::new(&first).get("_id").and_then(|v| v.as_i64_exact()),
                Some(id as i64)
            );
            total += first.len();
        }
        let mean = total / 1000;
        assert!((400..=440).contains(&mean), "mean size is {mean}");
    }

    #[test]
    fn zipf_prefers_few_numbers_and_stays_in_range() {
        let zipf = Zipf::new(10_000);
        let mut dice = Dice::new(7);
        let mut counts = vec![0u32; 10_000];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut dice) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = counts.iter().take(100).sum();
        assert!(top > 40_000, "the 100 most popular got {top} of 100000");
        assert!(counts[0] > 5_000, "the most popular got {}", counts[0]);
    }

    #[test]
    fn dice_stay_below_the_end_and_reach_every_side() {
        let mut dice = Dice::new(0);
        let mut seen = [false; 6];
        for _ in 0..1000 {
            seen[dice.below(6) as usize] = true;
        }
        assert_eq!(seen, [true; 6]);
    }
}
