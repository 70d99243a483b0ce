//! `OP_COMPRESSED`: another message, compressed with snappy, zlib or zstd.
//!
//! The message states its decompressed size. That size is checked against the limit before
//! decompression, which never writes beyond it and must produce exactly that size.

use super::header::{HEADER_BYTES, Header, OP_COMPRESSED, length_number};
use super::{ProtocolError, Reader};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use value::limits::MESSAGE_BYTES_MAX;

/// Header, the opcode inside, the size inside, the compressor.
const PREFIX_BYTES: usize = HEADER_BYTES + 4 + 4 + 1;
const ZSTD_LEVEL: i32 = 3;

/// The compression of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compressor {
    /// No compression.
    None,
    Snappy,
    Zlib,
    Zstd,
}

impl Compressor {
    pub(crate) fn from_number(number: u8) -> Option<Compressor> {
        match number {
            0 => Some(Compressor::None),
            1 => Some(Compressor::Snappy),
            2 => Some(Compressor::Zlib),
            3 => Some(Compressor::Zstd),
            _ => None,
        }
    }

    fn number(self) -> u8 {
        match self {
            Compressor::None => 0,
            Compressor::Snappy => 1,
            Compressor::Zlib => 2,
            Compressor::Zstd => 3,
        }
    }
}

/// The decompressed size that a compressed message states; `unpack` checks it.
pub(crate) fn claimed_bytes(message: &[u8]) -> usize {
    let number = message.get(HEADER_BYTES + 4..).and_then(<[u8]>::first_chunk::<4>);
    let claimed = number.map_or(0, |bytes| i32::from_le_bytes(*bytes));
    usize::try_from(claimed).map_or(0, |claimed| claimed.min(MESSAGE_BYTES_MAX))
}

/// Decompresses a whole message, with its header, into `unpacked`.
pub(crate) fn unpack(
    header: Header,
    message: &[u8],
    unpacked: &mut Vec<u8>,
) -> Result<(Header, Compressor), ProtocolError> {
    let mut reader = Reader { rest: message.get(HEADER_BYTES..).unwrap_or(&[]) };
    let opcode = reader.i32()?;
    let claimed = reader.i32()?;
    let number = reader.u8()?;
    let compressor = Compressor::from_number(number)
        .ok_or_else(|| ProtocolError::new(format!("unknown compressor {number}")))?;
    if opcode == OP_COMPRESSED {
        return Err(ProtocolError::new("a compressed message inside a compressed message"));
    }
    let size = usize::try_from(claimed)
        .ok()
        .filter(|size| *size <= MESSAGE_BYTES_MAX - HEADER_BYTES)
        .ok_or_else(|| {
            ProtocolError::new(format!("a compressed message claims {claimed} bytes"))
        })?;
    check_claim(compressor, reader.rest, size)?;

    unpacked.clear();
    unpacked.resize(HEADER_BYTES + size, 0);
    let inside = unpacked.get_mut(HEADER_BYTES..).unwrap_or(&mut []);
    if unpack_into(compressor, reader.rest, inside) != Some(size) {
        return Err(ProtocolError::new("a compressed message does not unpack to its size"));
    }
    let inner = Header { length: HEADER_BYTES + size, opcode, ..header };
    inner.write(unpacked);
    Ok((inner, compressor))
}

/// The compressors of a connection, created at its first compressed message.
#[derive(Default)]
pub(crate) struct Packer {
    packed: Vec<u8>,
    snappy: Option<snap::raw::Encoder>,
    zlib: Option<Compress>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Packer {
    /// Frees memory that only a large reply needed.
    pub(crate) fn shrink(&mut self, keep_bytes: usize) {
        if self.packed.capacity() > keep_bytes {
            self.packed = Vec::new();
        }
    }

    /// Compresses a whole reply with its header. Returns the message to send.
    pub(crate) fn pack(&mut self, reply: &[u8], compressor: Compressor) -> Option<&[u8]> {
        let header = Header::parse(reply).ok()??;
        let content = reply.get(HEADER_BYTES..)?;
        self.packed.clear();
        let room = match compressor {
            Compressor::None => content.len(),
            Compressor::Snappy => snap::raw::max_compress_len(content.len()),
            // Stored blocks cost 5 bytes in 16 KiB, header and checksum 6 more.
            Compressor::Zlib => content.len() + content.len() / 1024 + 64,
            Compressor::Zstd => zstd::zstd_safe::compress_bound(content.len()),
        };
        self.packed.resize(PREFIX_BYTES + room, 0);
        let out = self.packed.get_mut(PREFIX_BYTES..)?;
        let written = match compressor {
            Compressor::None => {
                out.copy_from_slice(content);
                content.len()
            }
            Compressor::Snappy => self
                .snappy
                .get_or_insert_with(snap::raw::Encoder::new)
                .compress(content, out)
                .ok()?,
            Compressor::Zlib => {
                let zlib =
                    self.zlib.get_or_insert_with(|| Compress::new(Compression::default(), true));
                zlib.reset();
                match zlib.compress(content, out, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => usize::try_from(zlib.total_out()).ok()?,
                    _ => return None,
                }
            }
            Compressor::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
                }
                self.zstd.as_mut()?.compress_to_buffer(content, out).ok()?
            }
        };
        self.packed.truncate(PREFIX_BYTES + written);
        let length = self.packed.len();
        Header { length, opcode: OP_COMPRESSED, ..header }.write(&mut self.packed);
        let prefix = self.packed.get_mut(HEADER_BYTES..PREFIX_BYTES)?;
        let (opcode, rest) = prefix.split_first_chunk_mut::<4>()?;
        let (size, number) = rest.split_first_chunk_mut::<4>()?;
        *opcode = header.opcode.to_le_bytes();
        *size = length_number(content.len()).to_le_bytes();
        *number.first_mut()? = compressor.number();
        Some(&self.packed)
    }
}

/// Refuses a size that the compressed bytes cannot have, before memory is allocated for it.
fn check_claim(compressor: Compressor, packed: &[u8], size: usize) -> Result<(), ProtocolError> {
    /// Deflate cannot do better than 258 bytes in two bits.
    const ZLIB_RATIO_MAX: usize = 1032;
    let reachable = match compressor {
        Compressor::None => packed.len() == size,
        Compressor::Snappy => snap::raw::decompress_len(packed).is_ok_and(|inside| inside == size),
        Compressor::Zlib => size <= packed.len().saturating_mul(ZLIB_RATIO_MAX),
        // The frame has its size if the writer knew it, as with all drivers.
        Compressor::Zstd => match zstd::zstd_safe::get_frame_content_size(packed) {
            Ok(Some(inside)) => usize::try_from(inside) == Ok(size),
            Ok(None) => true,
            Err(_) => false,
        },
    };
    if reachable {
        Ok(())
    } else {
        Err(ProtocolError::new("a compressed message cannot have the size that it claims"))
    }
}

fn unpack_into(compressor: Compressor, packed: &[u8], inside: &mut [u8]) -> Option<usize> {
    match compressor {
        Compressor::None => {
            inside.copy_from_slice(packed.get(..inside.len())?);
            Some(packed.len())
        }
        Compressor::Snappy => snap::raw::Decoder::new().decompress(packed, inside).ok(),
        Compressor::Zlib => {
            let mut zlib = Decompress::new(true);
            match zlib.decompress(packed, inside, FlushDecompress::Finish) {
                Ok(Status::StreamEnd) => usize::try_from(zlib.total_out()).ok(),
                _ => None,
            }
        }
        Compressor::Zstd => zstd::bulk::decompress_to_buffer(packed, inside).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::OP_MSG;
    use proptest::prelude::*;

    const ALL: [Compressor; 4] =
        [Compressor::None, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

    fn message(content: &[u8]) -> Vec<u8> {
        let mut bytes = [&[0; HEADER_BYTES], content].concat();
        let length = bytes.len();
        Header { length, request_id: 5, response_to: 6, opcode: OP_MSG }.write(&mut bytes);
        bytes
    }

    fn unpacked(packed: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let header = Header::parse(packed)?.expect("a whole header");
        let mut message = Vec::new();
        unpack(header, packed, &mut message)?;
        Ok(message)
    }

    proptest! {
        #[test]
        fn what_is_packed_unpacks_to_itself(
            content in proptest::collection::vec(any::<u8>(), 0..2000), repeat in 1usize..50,
        ) {
            let mut packer = Packer::default();
            for original in [message(&content), message(&content.repeat(repeat))] {
                for compressor in ALL {
                    let packed = packer.pack(&original, compressor).expect("packs").to_vec();
                    prop_assert_eq!(unpacked(&packed), Ok(original.clone()));
                }
            }
        }

        #[test]
        fn no_bytes_make_unpacking_panic(
            number in 0u8..5, size in -5i32..5000,
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let content = [&OP_MSG.to_le_bytes()[..], &size.to_le_bytes(), &[number], &bytes].concat();
            let mut packed = message(&content);
            packed[12..16].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
            let _ = unpacked(&packed);
        }
    }

    #[test]
    fn a_message_that_unpacks_to_another_size_is_refused() {
        for compressor in ALL {
            let packed =
                Packer::default().pack(&message(&[7; 1000]), compressor).expect("packs").to_vec();
            for size in [0i32, 999, 1001, 47_999_985, i32::MAX, -1] {
                let mut wrong = packed.clone();
                wrong[20..24].copy_from_slice(&size.to_le_bytes());
                assert!(unpacked(&wrong).is_err(), "{compressor:?} {size}");
            }
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        let content = vec![0u8; 200_000_000];
        let bomb = zstd::bulk::compress(&content, 1).expect("packs");
        for size in [1_000_000i32, 47_000_000, 200_000_000] {
            let prefix = [&OP_MSG.to_le_bytes()[..], &size.to_le_bytes(), &[3], &bomb].concat();
            let mut packed = message(&prefix);
            packed[12..16].copy_from_slice(&OP_COMPRESSED.to_le_bytes());
            assert!(unpacked(&packed).is_err());
        }
    }

    #[test]
    fn a_message_packed_twice_is_refused() {
        let mut packer = Packer::default();
        let once = packer.pack(&message(b"x"), Compressor::Snappy).expect("packs").to_vec();
        let twice = packer.pack(&once, Compressor::Snappy).expect("packs").to_vec();
        assert!(unpacked(&twice).is_err());
    }
}
