//! The content of a compressed message: the kind inside, the size that is claimed, the compressor,
//! and what it should unpack.

#![no_main]

libfuzzer_sys::fuzz_target!(|content: &[u8]| {
    server::fuzzing::unpack_and_pack(content);
});
