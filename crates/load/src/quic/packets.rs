//! Counts the packets in a datagram.

/// First bit of packets with a long header (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0x80;
/// Mask of the type bits of long headers.
const TYPE_BITS: u8 = 0x30;
/// Type bits of Initial packets. The header of an Initial packet has a token field.
const INITIAL: u8 = 0x00;
/// Type bits of Retry packets, which have no length and end the datagram.
const RETRY: u8 = 0x30;
/// Length of a long header's first byte and version, in bytes.
const VERSION_END: usize = 5;

/// Returns the number of packets in a datagram. Packets are coalesced only during a handshake (RFC
/// 9000 §12.2). A datagram that isn't QUIC counts as one packet.
pub(super) fn packets_in(datagram: &[u8]) -> u64 {
    let mut count = 0;
    let mut rest = datagram;
    while let Some(&first) = rest.first() {
        // Padding follows the last packet. Unlike a packet, it has no fixed bit (RFC 9000 §17.2).
        if count > 0 && first == 0 {
            break;
        }
        count += 1;
        if first & LONG_HEADER == 0 || first & TYPE_BITS == RETRY {
            break;
        }
        rest = after_long(first, rest).unwrap_or_default();
    }
    count
}

/// Returns the bytes after a packet with a long header; `None` if the packet doesn't end within the
/// datagram.
fn after_long(first: u8, packet: &[u8]) -> Option<&[u8]> {
    let mut rest = packet.get(VERSION_END..)?;
    // Skip the connection identifiers of the destination and the source.
    for _ in 0..2 {
        let length = usize::from(*rest.first()?);
        rest = rest.get(1 + length..)?;
    }
    if first & TYPE_BITS == INITIAL {
        let length = varint(&mut rest)?;
        rest = rest.get(length..)?;
    }
    let length = varint(&mut rest)?;
    rest.get(length..)
}

/// Reads a variable-length integer (RFC 9000 §16).
fn varint(rest: &mut &[u8]) -> Option<usize> {
    let first = *rest.first()?;
    let length = 1 << (first >> 6);
    let bytes = rest.get(..length)?;
    let high = u64::from(first & 0x3f);
    let value = bytes[1..]
        .iter()
        .fold(high, |value, byte| value << 8 | u64::from(*byte));
    *rest = &rest[length..];
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Creates a packet with a payload and a long header whose type bits are `kind`.
    fn long(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xc0 | kind, 0, 0, 0, 1, 2, 7, 7, 0];
        if kind == INITIAL {
            bytes.extend([3, 1, 2, 3]);
        }
        bytes.extend([0x40, payload.len() as u8]);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn coalesced_packets_are_counted() {
        let (initial, handshake) = (long(INITIAL, &[5; 30]), long(0x20, &[6; 200]));
        let short = vec![0x40; 50];
        assert_eq!(packets_in(&short), 1);
        assert_eq!(packets_in(&initial), 1);
        let mut datagram = [initial, handshake, short].concat();
        assert_eq!(packets_in(&datagram), 3);
        datagram.truncate(100);
        assert_eq!(packets_in(&datagram), 2);
        let padded = [long(INITIAL, &[5; 30]), vec![0; 900]].concat();
        assert_eq!(packets_in(&padded), 1);
        assert_eq!(packets_in(&[]), 0);
        assert_eq!(packets_in(&long(RETRY, &[1; 16])), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_at_most_as_many_packets(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(packets_in(&bytes) <= bytes.len() as u64);
        }
    }
}
