//! The digests of the hash operators: MD5, SHA-256 and XXH64.

/// MD5 (RFC 1321) of what comes in parts: not a defence against anyone, only what formats
/// prescribe.
#[derive(Clone, Debug)]
pub struct Md5 {
    state: [u32; 4],
    /// What does not fill a block yet.
    rest: Vec<u8>,
    length: u64,
}

impl Default for Md5 {
    fn default() -> Md5 {
        let state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
        Md5 { state, rest: Vec::new(), length: 0 }
    }
}

impl Md5 {
    /// Takes more of the input.
    pub fn update(&mut self, input: &[u8]) {
        self.length = self.length.wrapping_add(input.len() as u64);
        self.rest.extend_from_slice(input);
        let (blocks, rest) = self.rest.as_chunks::<64>();
        for block in blocks {
            md5_block(&mut self.state, block);
        }
        let rest = rest.to_vec();
        self.rest = rest;
    }

    /// The digest of all that was taken.
    #[must_use]
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let zeros = (119 - self.rest.len() % 64) % 64;
        self.update(&[0x80]);
        self.update(&vec![0; zeros]);
        self.update(&bits.to_le_bytes());
        let mut digest = [0u8; 16];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        digest
    }
}

/// MD5 of one text.
pub(super) fn md5(input: &[u8]) -> [u8; 16] {
    let mut digest = Md5::default();
    digest.update(input);
    digest.finish()
}

fn md5_block(state: &mut [u32; 4], block: &[u8; 64]) {
    const SHIFTS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    // The constants are the sines of the step numbers.
    static CONSTANTS: std::sync::LazyLock<[u32; 64]> = std::sync::LazyLock::new(|| {
        std::array::from_fn(|step| (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32)
    });
    let mut words = [0u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for (step, constant) in CONSTANTS.iter().enumerate() {
        let (mixed, at) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let word = words.get(at).copied().unwrap_or(0);
        let shift = SHIFTS.get(step / 16).and_then(|row| row.get(step % 4)).copied().unwrap_or(0);
        let sum = a.wrapping_add(mixed).wrapping_add(*constant).wrapping_add(word);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(shift));
    }
    for (state, add) in state.iter_mut().zip([a, b, c, d]) {
        *state = state.wrapping_add(add);
    }
}

/// The first 32 bits of the fractional parts of a root of a prime.
fn prime_root(n: usize, root: fn(f64) -> f64) -> u32 {
    let prime = (2u32..).filter(|n| (2..*n).all(|divisor| n % divisor != 0)).nth(n).unwrap_or(2);
    let root = root(f64::from(prime));
    (root.fract() * 4_294_967_296.0) as u32
}

/// SHA-256 (FIPS 180-4).
pub(super) fn sha256(input: &[u8]) -> [u8; 32] {
    static CONSTANTS: std::sync::LazyLock<[u32; 64]> =
        std::sync::LazyLock::new(|| std::array::from_fn(|n| prime_root(n, f64::cbrt)));
    let mut state: [u32; 8] = std::array::from_fn(|n| prime_root(n, f64::sqrt));
    let mut message = input.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&((input.len() as u64).wrapping_mul(8)).to_be_bytes());
    for block in message.as_chunks::<64>().0 {
        let mut words: Vec<u32> =
            block.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect();
        for at in 16..64 {
            let word = |back: usize| words.get(at - back).copied().unwrap_or(0);
            let (early, late) = (word(15), word(2));
            let first = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
            let second = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
            let next = word(16).wrapping_add(first).wrapping_add(word(7)).wrapping_add(second);
            words.push(next);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, constant) in words.iter().zip(CONSTANTS.iter()) {
            let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let first = h
                .wrapping_add(mixed)
                .wrapping_add(choice)
                .wrapping_add(*constant)
                .wrapping_add(*word);
            let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = mixed.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (state, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *state = state.wrapping_add(add);
        }
    }
    let mut digest = [0u8; 32];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// XXH64 with the seed zero.
pub(super) fn xxh64(input: &[u8]) -> u64 {
    const PRIMES: [u64; 5] = [
        0x9E37_79B1_85EB_CA87,
        0xC2B2_AE3D_27D4_EB4F,
        0x1656_67B1_9E37_79F9,
        0x85EB_CA77_C2B2_AE63,
        0x27D4_EB2F_1656_67C5,
    ];
    let [one, two, three, four, five] = PRIMES;
    let round = |lane: u64, word: u64| {
        lane.wrapping_add(word.wrapping_mul(two)).rotate_left(31).wrapping_mul(one)
    };
    let (stripes, rest) = input.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        five
    } else {
        let mut lanes = [one.wrapping_add(two), two, 0, 0u64.wrapping_sub(one)];
        for stripe in stripes {
            for (lane, bytes) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *lane = round(*lane, u64::from_le_bytes(*bytes));
            }
        }
        let [a, b, c, d] = lanes;
        let sum = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        lanes
            .iter()
            .fold(sum, |hash, lane| (hash ^ round(0, *lane)).wrapping_mul(one).wrapping_add(four))
    };
    hash = hash.wrapping_add(input.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(one).wrapping_add(four);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(one);
        hash = hash.rotate_left(23).wrapping_mul(two).wrapping_add(three);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(five);
        hash = hash.rotate_left(11).wrapping_mul(one);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(two);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(three);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_of_known_texts() {
        let hex = |bytes: [u8; 16]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex(md5(&[b'a'; 200])), "887f30b43b2867f4a9accceee7d16e6c");
        for length in 0..200 {
            let mut parts = Md5::default();
            (0..length).for_each(|_| parts.update(b"a"));
            assert_eq!(parts.finish(), md5(&vec![b'a'; length]));
        }
    }

    #[test]
    fn sha256_and_xxh64_of_known_texts() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(
            hex(&sha256(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(&sha256(b"report.pdf")),
            "6466e450a16b77b865c5829d6b6c56d9f892956475642dbeb9ccc4340fe01b15"
        );
        assert_eq!(xxh64(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxh64(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition"), 0xFBCE_A83C_8A37_8BF1);
    }
}
