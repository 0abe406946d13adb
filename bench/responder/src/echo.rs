//! A responder inside the kernel: an XDP program that sends a fixed response for each segment with
//! data, and keeps no state.
//!
//! | segment | reply |
//! |---|---|
//! | SYN | SYN and ACK, with the initial sequence number 0 |
//! | FIN | FIN and ACK |
//! | with data | the response; its sequence number is the segment's acknowledgment |
//! | others | none |
//!
//! It serves IPv4 on one port. Requests must fit into one segment, and lost segments are not
//! retransmitted. With this server, the generator is the bottleneck, so its cost can be measured.

use std::os::fd::OwnedFd;

use prony_xdp::Interface;
use prony_xdp::bpf::{Assembler, BpfProgram, Condition, Instruction, Label, Register, Size};

use Condition::{Equal, NotEqual};
use Register::{Frame, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use Size::{Byte, Double, Half, Word};

use crate::server::RESPONSE;

/// Offsets of the headers and the data in the frame, in bytes.
const IP: i16 = 14;
const TCP: i16 = IP + 20;
const DATA: i16 = TCP + 20;

const FIN: u32 = 0x01;
const SYN: u32 = 0x02;
const RST: u32 = 0x04;
const PSH: u32 = 0x08;
const ACK: u32 = 0x10;

/// Return values of the program (`XDP_DROP` and so on).
const DROP: i32 = 1;
const PASS: i32 = 2;
const TRANSMIT: i32 = 3;

/// Number of the helper `bpf_xdp_adjust_tail`, which changes the length of the frame
/// (bpf-helpers(7)).
const ADJUST_TAIL: i32 = 65;

/// Stack offsets of the new sequence number and acknowledgment, which are in network byte order.
const SEQUENCE: i16 = -8;
const ACKNOWLEDGMENT: i16 = -16;

/// Flag that attaches in native mode (`XDP_FLAGS_DRV_MODE`).
const NATIVE: u32 = 1 << 2;

/// Attaches the responder to an interface until the result is dropped.
///
/// # Errors
///
/// The kernel rejects the program. The message contains the reason.
pub(crate) fn attach(interface: &str, port: u16) -> Result<OwnedFd, String> {
    let interface = Interface::find(interface).map_err(|e| e.to_string())?;
    let code = assemble(port).ok_or("a jump is too far")?;
    let program = BpfProgram::load_xdp(&code).map_err(|e| format!("loading the program: {e}"))?;
    let link = program.attach(interface.index(), NATIVE);
    link.map_err(|e| format!("{}: {e}", interface.name()))
}

/// The program while it is assembled. `R6` is the context, `R7` the start of the frame, and `R8`
/// its end.
struct Echo {
    code: Assembler,
    pass: Label,
    drop: Label,
}

fn assemble(port: u16) -> Option<Vec<Instruction>> {
    let mut code = Assembler::default();
    let [pass, drop] = [(); 2].map(|()| code.label());
    let mut echo = Echo { code, pass, drop };
    echo.code.copy(R6, R1);
    echo.load_frame(DATA);
    echo.match_port(port);
    let [syn, fin] = [(); 2].map(|()| echo.code.label());
    let code = &mut echo.code;
    // R9 = number of data bytes.
    code.load(Half, R9, R7, IP + 2);
    code.swap_from_network(R9, 16);
    code.load(Byte, R3, R7, TCP + 12);
    code.shift_right(R3, 4);
    code.copy(R4, R3);
    for _ in 0..3 {
        code.add_register(R4, R3);
    }
    code.subtract(R9, R4);
    code.add(R9, -20);
    // The peer's acknowledgment is the next sequence number to send.
    code.load(Word, R3, R7, TCP + 8);
    code.store(Word, Frame, SEQUENCE, R3);
    // R4 = the peer's sequence number.
    code.load(Word, R4, R7, TCP + 4);
    code.swap_from_network(R4, 32);
    code.load(Byte, R3, R7, TCP + 13);
    for (flag, label) in [(RST, drop), (SYN, syn), (FIN, fin)] {
        code.copy(R2, R3);
        code.and(R2, flag as i32);
        code.jump_if(R2, NotEqual, 0, label);
    }
    code.jump_if(R9, Equal, 0, drop);
    code.add_register(R4, R9);
    echo.reply(PSH | ACK, RESPONSE);
    echo.code.place(syn);
    echo.code.store_value(Double, Frame, SEQUENCE, 0);
    echo.code.add(R4, 1);
    echo.reply(SYN | ACK, &[]);
    echo.code.place(fin);
    echo.code.add_register(R4, R9);
    echo.code.add(R4, 1);
    echo.reply(FIN | ACK, &[]);
    for (label, result) in [(pass, PASS), (drop, DROP)] {
        echo.code.place(label);
        echo.code.set(R0, result);
        echo.code.exit();
    }
    echo.code.finish()
}

impl Echo {
    /// Loads the start and the end of the frame. Passes frames shorter than `bytes` to the kernel.
    fn load_frame(&mut self, bytes: i16) {
        let code = &mut self.code;
        code.load(Word, R7, R6, 0);
        code.load(Word, R8, R6, 4);
        code.copy(R2, R7);
        code.add(R2, bytes.into());
        code.jump_if_both(R2, Condition::Greater, R8, self.pass);
    }

    /// Passes everything to the kernel except TCP segments over IPv4 to this port.
    fn match_port(&mut self, port: u16) {
        let pass = self.pass;
        for (at, value) in [(12, 0x0800), (TCP + 2, port.into())] {
            self.code.load(Half, R3, R7, at);
            self.code.swap_from_network(R3, 16);
            self.code.jump_if(R3, NotEqual, value, pass);
        }
        for (at, value) in [(IP, 0x45), (IP + 9, 6)] {
            self.code.load(Byte, R3, R7, at);
            self.code.jump_if(R3, NotEqual, value, pass);
        }
    }

    /// Turns the frame into a reply with these flags and data, and sends it. `R4` is the
    /// acknowledgment.
    fn reply(&mut self, flags: u32, data: &[u8]) {
        let length = 40 + data.len() as u16;
        let code = &mut self.code;
        code.swap_from_network(R4, 32);
        code.store(Word, Frame, ACKNOWLEDGMENT, R4);
        code.copy(R1, R6);
        code.copy(R2, R7);
        code.subtract(R2, R8);
        code.add(R2, i32::from(length) + 14);
        code.call(ADJUST_TAIL);
        code.jump_if(R0, NotEqual, 0, self.drop);
        self.load_frame(14 + length as i16);
        // Swap source and destination: MAC addresses, IP addresses, and ports.
        self.exchange(Word, 0, 6);
        self.exchange(Half, 4, 10);
        self.exchange(Word, IP + 12, IP + 16);
        self.exchange(Half, TCP, TCP + 2);
        let [high, low] = length.to_be_bytes();
        // "Don't fragment", and a TTL of 64.
        for (at, word) in [
            (0, [0x45, 0, high, low]),
            (4, [0, 0, 0x40, 0]),
            (8, [64, 6, 0, 0]),
        ] {
            self.store_word(IP + at, word);
        }
        self.code.set(R0, 0);
        self.add_words(IP, 5);
        self.store_checksum(IP + 10);
        for (at, place) in [(4, SEQUENCE), (8, ACKNOWLEDGMENT)] {
            self.code.load(Word, R3, Frame, place);
            self.code.store(Word, R7, TCP + at, R3);
        }
        self.store_word(TCP + 12, [0x50, flags as u8, 0xff, 0xff]);
        self.store_word(TCP + 16, [0; 4]);
        for (at, word) in data.chunks_exact(4).enumerate() {
            let word = [word[0], word[1], word[2], word[3]];
            self.store_word(DATA + 4 * at as i16, word);
        }
        // The checksum includes the addresses, the protocol and the length (RFC 9293 §3.1).
        let [high, low] = (length - 20).to_be_bytes();
        let words = data
            .chunks_exact(4)
            .map(|word| [word[0], word[1], word[2], word[3]]);
        let fixed: u64 = words
            .chain([[0, 6, high, low]])
            .map(|word| u64::from(u32::from_ne_bytes(word)))
            .sum();
        self.code.set_double(R0, fixed);
        self.add_words(IP + 12, 2);
        self.add_words(TCP, 5);
        self.store_checksum(TCP + 16);
        self.code.set(R0, TRANSMIT);
        self.code.exit();
    }

    fn exchange(&mut self, size: Size, one: i16, other: i16) {
        self.code.load(size, R2, R7, one);
        self.code.load(size, R3, R7, other);
        self.code.store(size, R7, one, R3);
        self.code.store(size, R7, other, R2);
    }

    fn store_word(&mut self, at: i16, word: [u8; 4]) {
        let value = i32::from_ne_bytes(word);
        self.code.store_value(Word, R7, at, value);
    }

    /// Adds `count` words of the frame, starting at `at`, to the sum in `R0`.
    fn add_words(&mut self, at: i16, count: i16) {
        for word in 0..count {
            self.code.load(Word, R3, R7, at + 4 * word);
            self.code.add_register(R0, R3);
        }
    }

    /// Folds the sum in `R0` into a checksum (RFC 1071) and stores it at `at`.
    fn store_checksum(&mut self, at: i16) {
        for bits in [32, 32, 16, 16] {
            self.code.copy(R3, R0);
            self.code.shift_right(R3, bits);
            match bits {
                // The 32-bit operation clears the high half.
                32 => self.code.and(R0, -1),
                _ => self.code.and(R0, 0xffff),
            }
            self.code.add_register(R0, R3);
        }
        self.code.xor(R0, 0xffff);
        self.code.store(Half, R7, at, R0);
    }
}
