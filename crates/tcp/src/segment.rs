//! TCP segments: header, options and checksum (RFC 9293 §3.1 and §3.2, RFC 7323, RFC 2018).

use core::net::IpAddr;
use std::ops::Range;

use crate::checksum::Sum;
use crate::packet;
use crate::sequence::Sequence;

/// Size of a TCP header without options, in bytes.
pub(crate) const TCP_HEADER: usize = 20;
/// Size of the timestamp option with its padding, in bytes.
pub(crate) const TIMESTAMP_OPTION: usize = 12;
/// Maximum number of SACK blocks that fit into the header together with timestamps (RFC 2018 §3).
pub(crate) const SACK_BLOCKS_MAX: usize = 3;

/// Control bits of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) const FIN: Flags = Flags(0x01);
    pub(crate) const SYN: Flags = Flags(0x02);
    pub(crate) const RST: Flags = Flags(0x04);
    pub(crate) const PSH: Flags = Flags(0x08);
    pub(crate) const ACK: Flags = Flags(0x10);

    /// Returns the bits of both sets.
    pub(crate) fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns true if all bits of `other` are set.
    pub(crate) fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A pair of timestamps (RFC 7323 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamps {
    /// Clock reading of the sender, in its own unit.
    pub(crate) value: u32,
    /// The last clock reading that the sender received; undefined without ACK.
    pub(crate) echo: u32,
}

/// The blocks of a SACK option: received data above the acknowledged data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SackBlocks {
    blocks: [(Sequence, Sequence); 4],
    count: u8,
}

impl SackBlocks {
    /// Adds a block from `start` to `end`, which is the byte after the last one. Does nothing if
    /// there are four blocks already.
    pub(crate) fn push(&mut self, start: Sequence, end: Sequence) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (start, end);
            self.count += 1;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Sequence, Sequence)> {
        self.blocks.iter().copied().take(usize::from(self.count))
    }

    fn len(&self) -> usize {
        usize::from(self.count)
    }
}

/// A TCP header. Options that a segment doesn't have are `None` or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Segment {
    pub(crate) source_port: u16,
    pub(crate) target_port: u16,
    pub(crate) sequence: Sequence,
    pub(crate) acknowledgment: Sequence,
    pub(crate) flags: Flags,
    /// The window field, before scaling.
    pub(crate) window: u16,
    /// Maximum segment size in bytes, which only a SYN contains.
    pub(crate) mss: Option<u16>,
    /// Window scale (a shift), which only a SYN contains.
    pub(crate) window_scale: Option<u8>,
    /// The SACK-permitted option, which only a SYN contains.
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) sack: SackBlocks,
}

/// Reason to drop a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The header is truncated, or its length is impossible.
    Header,
    /// The checksum is wrong.
    Checksum,
}

/// Part of a segment that a valid checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumState {
    /// The checksum covers the segment.
    Verified,
    /// The checksum covers only the pseudo-header. The peer left the rest to its network adapter,
    /// and a virtual link has none (CHECKSUM_PARTIAL in Linux).
    Offloaded,
}

impl Segment {
    /// Parses a segment and verifies its checksum. Returns the header, the range of the data within
    /// `bytes`, and the state of the checksum. Unknown and malformed options are ignored.
    pub(crate) fn parse(
        bytes: &[u8],
        source: IpAddr,
        target: IpAddr,
    ) -> Result<(Segment, Range<usize>, ChecksumState), Malformed> {
        let header = bytes.get(..TCP_HEADER).ok_or(Malformed::Header)?;
        let header_length = usize::from(header[12] >> 4) * 4;
        if header_length < TCP_HEADER {
            return Err(Malformed::Header);
        }
        let options = bytes
            .get(TCP_HEADER..header_length)
            .ok_or(Malformed::Header)?;
        let checksum = verify(bytes, source, target)?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let mut segment = Segment {
            source_port: half(0),
            target_port: half(2),
            sequence: Sequence(word(4)),
            acknowledgment: Sequence(word(8)),
            flags: Flags(header[13] & 0x3f),
            window: half(14),
            ..Segment::default()
        };
        segment.parse_options(options);
        Ok((segment, header_length..bytes.len(), checksum))
    }

    fn parse_options(&mut self, mut options: &[u8]) {
        while let Some((&kind, rest)) = options.split_first() {
            match kind {
                0 => return,
                1 => options = rest,
                _ => {
                    let Some(&length) = rest.first() else { return };
                    let Some(option) = options.get(2..usize::from(length)) else {
                        return;
                    };
                    self.take_option(kind, option);
                    options = &options[usize::from(length)..];
                }
            }
        }
    }

    fn take_option(&mut self, kind: u8, option: &[u8]) {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_be_bytes);
        match (kind, option.len()) {
            (2, 2) => self.mss = Some(u16::from_be_bytes([option[0], option[1]])),
            (3, 1) => self.window_scale = Some(option[0]),
            (4, 0) => self.sack_permitted = true,
            (5, length) if length.is_multiple_of(8) => {
                for block in option.chunks_exact(8) {
                    self.sack
                        .push(Sequence(word(&block[..4])), Sequence(word(&block[4..])));
                }
            }
            (8, 8) => {
                self.timestamps = Some(Timestamps {
                    value: word(&option[..4]),
                    echo: word(&option[4..]),
                });
            }
            _ => {}
        }
    }

    /// Returns the size of the header including its options, in bytes.
    pub(crate) fn header_length(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let permitted = if self.sack_permitted { 4 } else { 0 };
        let timestamps = self.timestamps.map_or(0, |_| TIMESTAMP_OPTION);
        let sack = match self.sack.len() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        TCP_HEADER + mss + scale + permitted + timestamps + sack
    }

    /// Writes the header with its options to the start of `bytes`; the data must already follow it.
    /// `bytes` ends at the end of the segment.
    pub(crate) fn write(&self, bytes: &mut [u8], source: IpAddr, target: IpAddr) {
        let header_length = self.header_length();
        bytes[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.target_port.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.acknowledgment.0.to_be_bytes());
        bytes[12] = ((header_length / 4) as u8) << 4;
        bytes[13] = self.flags.0;
        bytes[14..16].copy_from_slice(&self.window.to_be_bytes());
        bytes[16..20].copy_from_slice(&[0; 4]);
        self.write_options(&mut bytes[TCP_HEADER..header_length]);
        let sum = pseudo_header(source, target, bytes.len()).add(bytes);
        bytes[16..18].copy_from_slice(&sum.checksum());
    }

    /// Writes the options. Each is padded with no-operation options to a multiple of four bytes.
    fn write_options(&self, options: &mut [u8]) {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            options[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            put(&[2, 4]);
            put(&mss.to_be_bytes());
        }
        if let Some(scale) = self.window_scale {
            put(&[1, 3, 3, scale]);
        }
        if self.sack_permitted {
            put(&[1, 1, 4, 2]);
        }
        if let Some(timestamps) = self.timestamps {
            put(&[1, 1, 8, 10]);
            put(&timestamps.value.to_be_bytes());
            put(&timestamps.echo.to_be_bytes());
        }
        if self.sack.len() > 0 {
            put(&[1, 1, 5, (2 + 8 * self.sack.len()) as u8]);
            for (start, end) in self.sack.iter() {
                put(&start.0.to_be_bytes());
                put(&end.0.to_be_bytes());
            }
        }
    }
}

/// Returns the sum of the pseudo-header of a segment of `length` bytes (RFC 9293 §3.1, RFC 8200
/// §8.1).
fn pseudo_header(source: IpAddr, target: IpAddr, length: usize) -> Sum {
    let sum = match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            Sum::default().add(&source.octets()).add(&target.octets())
        }
        (source, target) => {
            let octets = |address| packet::as_v6(address).octets();
            Sum::default().add(&octets(source)).add(&octets(target))
        }
    };
    let length = (length as u32).to_be_bytes();
    sum.add(&length).add(&[0, 0, 0, packet::PROTOCOL_TCP])
}

fn verify(bytes: &[u8], source: IpAddr, target: IpAddr) -> Result<ChecksumState, Malformed> {
    let pseudo_header = pseudo_header(source, target, bytes.len());
    if pseudo_header.add(bytes).folded() == [0xff, 0xff] {
        Ok(ChecksumState::Verified)
    } else if bytes.get(16..18) == Some(&pseudo_header.folded()) {
        Ok(ChecksumState::Offloaded)
    } else {
        Err(Malformed::Checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> (IpAddr, IpAddr) {
        ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
    }

    fn example() -> Segment {
        let mut segment = Segment {
            source_port: 40_000,
            target_port: 80,
            sequence: Sequence(7),
            acknowledgment: Sequence(u32::MAX),
            flags: Flags::SYN.and(Flags::ACK),
            window: 65_535,
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            sack: SackBlocks::default(),
        };
        segment.sack.push(Sequence(10), Sequence(20));
        segment
    }

    fn written(segment: &Segment, data: &[u8]) -> Vec<u8> {
        let (source, target) = addresses();
        let mut bytes = vec![0; segment.header_length() + data.len()];
        bytes[segment.header_length()..].copy_from_slice(data);
        segment.write(&mut bytes, source, target);
        bytes
    }

    #[test]
    fn a_written_segment_is_parsed_with_all_its_options() {
        let (source, target) = addresses();
        let bytes = written(&example(), b"data!");
        let (segment, data, checksum) = Segment::parse(&bytes, source, target).unwrap();
        assert_eq!(segment, example());
        assert_eq!(&bytes[data], b"data!");
        assert_eq!(checksum, ChecksumState::Verified);
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let (source, target) = addresses();
        let bytes = written(&example(), b"data!");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Segment::parse(&bytes, source, target).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn an_offloaded_checksum_is_accepted() {
        let (source, target) = addresses();
        let mut bytes = written(&example(), b"data!");
        let partial = pseudo_header(source, target, bytes.len());
        bytes[16..18].copy_from_slice(&partial.folded());
        let (_, _, checksum) = Segment::parse(&bytes, source, target).unwrap();
        assert_eq!(checksum, ChecksumState::Offloaded);
    }

    #[test]
    fn malformed_options_end_the_list_without_harm() {
        let mut segment = Segment::default();
        for options in [
            &[2u8][..],
            &[2, 0],
            &[2, 1],
            &[8, 10, 1],
            &[5, 9, 0, 0],
            &[255; 40],
        ] {
            segment.parse_options(options);
        }
        assert_eq!(segment, Segment::default());
    }
}
