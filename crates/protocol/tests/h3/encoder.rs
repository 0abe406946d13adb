//! A QPACK encoder with a dynamic table (RFC 9204 §2.1), written for clarity. It checks the
//! decoder's instructions, and refers only to acknowledged entries.

use std::collections::{BTreeMap, VecDeque};

/// Encoding of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Literal,
    Huffman,
    /// Reference to a matching acknowledged entry of the dynamic table. If there is none, encodes a
    /// literal and inserts an entry for later sections.
    Indexed,
    /// Literal value with the name of an acknowledged entry, if there is one.
    NamedByTable,
    /// Like `Indexed`, but also duplicates an entry that is about to be evicted.
    Duplicated,
}

pub(crate) const CODINGS: [Coding; 5] = [
    Coding::Literal,
    Coding::Huffman,
    Coding::Indexed,
    Coding::NamedByTable,
    Coding::Duplicated,
];

pub(crate) type Field = (String, String, Coding);

/// A reference from a section that hasn't been acknowledged.
struct Outstanding {
    required: u64,
    lowest: u64,
}

pub(crate) struct Encoder {
    /// Entries, the oldest first.
    entries: VecDeque<(String, String)>,
    /// Number of evicted entries, which is also the absolute index of the oldest entry.
    evicted: u64,
    bytes: usize,
    capacity: usize,
    capacity_limit: usize,
    /// Number of insertions that the decoder has acknowledged.
    known: u64,
    outstanding: BTreeMap<u64, VecDeque<Outstanding>>,
    /// Output for the encoder stream.
    pub(crate) instructions: Vec<u8>,
}

/// A field line before its indices are written.
enum Line {
    Indexed(u64),
    Named(u64, String),
    Literal(String, String, bool),
}

fn size(name: &str, value: &str) -> usize {
    name.len() + value.len() + 32
}

pub(crate) fn integer(bits: u32, pattern: u8, number: u64, out: &mut Vec<u8>) {
    let most = (1u64 << bits) - 1;
    if number < most {
        out.push(pattern | number as u8);
        return;
    }
    out.push(pattern | most as u8);
    let mut rest = number - most;
    while rest > 127 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

fn string(bits: u32, pattern: u8, text: &str, huffman: bool, out: &mut Vec<u8>) {
    let mut bytes = text.as_bytes().to_vec();
    if huffman {
        bytes.clear();
        httlib_huffman::encode(text.as_bytes(), &mut bytes).expect("all bytes can be coded");
    }
    let flag = if huffman { 1 << bits } else { 0 };
    integer(bits, pattern | flag, bytes.len() as u64, out);
    out.extend_from_slice(&bytes);
}

impl Encoder {
    /// Creates an encoder for a decoder with this limit. At first, the dynamic table has no
    /// capacity.
    pub(crate) fn new(capacity_limit: usize) -> Encoder {
        Encoder {
            entries: VecDeque::new(),
            evicted: 0,
            bytes: 0,
            capacity: 0,
            capacity_limit,
            known: 0,
            outstanding: BTreeMap::new(),
            instructions: Vec::new(),
        }
    }

    fn inserted(&self) -> u64 {
        self.evicted + self.entries.len() as u64
    }

    /// Returns the absolute index of the first entry that must not be evicted, because it isn't
    /// acknowledged or because a section refers to it.
    fn pinned(&self) -> u64 {
        let sections = self.outstanding.values().flatten();
        let lowest = sections.map(|section| section.lowest).min();
        lowest.unwrap_or(u64::MAX).min(self.known)
    }

    /// Evicts entries until the rest fits. Returns false if an entry that must not be evicted
    /// prevents this.
    fn make_room(&mut self, most: usize) -> bool {
        let (pinned, mut count, mut bytes) = (self.pinned(), 0, self.bytes);
        for (name, value) in &self.entries {
            if bytes <= most {
                break;
            }
            if self.evicted + count >= pinned {
                return false;
            }
            bytes -= size(name, value);
            count += 1;
        }
        if bytes > most {
            return false;
        }
        self.entries.drain(..count as usize);
        self.evicted += count;
        self.bytes = bytes;
        true
    }

    /// Changes the capacity, unless the change would evict an entry that is in use.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        if self.make_room(capacity) {
            self.capacity = capacity;
            integer(5, 0x20, capacity as u64, &mut self.instructions);
        }
    }

    /// Inserts an entry with the shortest instruction, if there is space.
    fn insert(&mut self, name: &str, value: &str, huffman: bool) {
        // The reference to the name must be determined before entries are evicted.
        let named = self.entries.iter().position(|entry| entry.0 == name);
        let inserted = self.inserted();
        let index = named.map(|at| inserted - 1 - (self.evicted + at as u64));
        let bytes = size(name, value);
        if bytes > self.capacity || !self.make_room(self.capacity - bytes) {
            return;
        }
        let out = &mut self.instructions;
        match index {
            Some(index) => integer(6, 0x80, index, out),
            // These names have the indices 6 and 92 in the static table.
            None if name == "date" => integer(6, 0xc0, 6, out),
            None if name == "server" => integer(6, 0xc0, 92, out),
            None => string(5, 0x40, name, huffman, out),
        }
        string(7, 0, value, huffman, out);
        self.entries.push_back((name.to_owned(), value.to_owned()));
        self.bytes += bytes;
    }

    /// Inserts a copy of the oldest entry.
    fn duplicate(&mut self) {
        let Some((name, value)) = self.entries.front().cloned() else {
            return;
        };
        let index = self.entries.len() as u64 - 1;
        let bytes = size(&name, &value);
        if bytes <= self.capacity && self.make_room(self.capacity - bytes) {
            integer(5, 0, index, &mut self.instructions);
            self.entries.push_back((name, value));
            self.bytes += bytes;
        }
    }

    /// Returns the absolute index of a matching entry, if it has been acknowledged.
    fn find(&self, is_wanted: impl Fn(&(String, String)) -> bool) -> Option<u64> {
        let at = self.entries.iter().rposition(is_wanted)?;
        let absolute = self.evicted + at as u64;
        (absolute < self.known).then_some(absolute)
    }

    /// Encodes a section, and appends its encoder instructions to `instructions`. The base differs
    /// from the Required Insert Count by `base_offset`, unless that would make it negative.
    pub(crate) fn section(&mut self, stream: u64, fields: &[Field], base_offset: i64) -> Vec<u8> {
        let mut lines = Vec::new();
        let mut references = Vec::new();
        for (name, value, coding) in fields {
            let line = match coding {
                Coding::Literal | Coding::Huffman => None,
                Coding::NamedByTable => self
                    .find(|entry| entry.0 == *name)
                    .map(|at| Line::Named(at, value.clone())),
                Coding::Indexed | Coding::Duplicated => self
                    .find(|entry| entry.0 == *name && entry.1 == *value)
                    .map(Line::Indexed),
            };
            if let Some(Line::Indexed(at) | Line::Named(at, _)) = line {
                references.push(at);
                // Pins the entry while the section is encoded.
                let pin = Outstanding {
                    required: 0,
                    lowest: at,
                };
                self.outstanding.entry(stream).or_default().push_back(pin);
            } else if *coding != Coding::Literal && *coding != Coding::Huffman {
                self.insert(name, value, *coding == Coding::Duplicated);
            }
            if *coding == Coding::Duplicated {
                self.duplicate();
            }
            let huffman = *coding == Coding::Huffman;
            lines.push(line.unwrap_or_else(|| Line::Literal(name.clone(), value.clone(), huffman)));
        }
        let required = references.iter().max().map_or(0, |highest| highest + 1);
        self.pin(stream, &references, required);
        let base = required.saturating_add_signed(base_offset);
        let mut out = Vec::new();
        let full_range = 2 * (self.capacity_limit as u64 / 32);
        let encoded = if required == 0 {
            0
        } else {
            required % full_range + 1
        };
        integer(8, 0, encoded, &mut out);
        match base.checked_sub(required) {
            Some(delta) => integer(7, 0, delta, &mut out),
            None => integer(7, 0x80, required - base - 1, &mut out),
        }
        for line in &lines {
            write_line(line, base, &mut out);
        }
        out
    }

    /// Replaces the pins of single lines with the section's references.
    fn pin(&mut self, stream: u64, references: &[u64], required: u64) {
        let sections = self.outstanding.entry(stream).or_default();
        sections.truncate(sections.len() - references.len());
        if let Some(&lowest) = references.iter().min() {
            sections.push_back(Outstanding { required, lowest });
        }
    }

    /// Processes the decoder's instructions, which must be valid.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) {
        while let Some(&first) = bytes.first() {
            let bits = if first & 0x80 != 0 { 7 } else { 6 };
            let number = take_integer(bits, &mut bytes);
            match first >> 6 {
                0 => {
                    assert!(number > 0, "an increment of 0");
                    self.known += number;
                    assert!(
                        self.known <= self.inserted(),
                        "more insertions acknowledged than sent"
                    );
                }
                1 => drop(self.outstanding.remove(&number)),
                _ => {
                    let sections = self.outstanding.get_mut(&number);
                    let section = sections.and_then(VecDeque::pop_front);
                    let section = section.expect("a section to be acknowledged");
                    self.known = self.known.max(section.required);
                }
            }
        }
    }
}

fn take_integer(bits: u32, bytes: &mut &[u8]) -> u64 {
    let most = (1u8 << bits) - 1;
    let (first, mut rest) = bytes.split_first().expect("a byte");
    let mut number = u64::from(first & most);
    if first & most == most {
        for at in 0.. {
            let (byte, behind) = rest.split_first().expect("another byte");
            rest = behind;
            number += u64::from(byte & 127) << (7 * at);
            if byte & 128 == 0 {
                break;
            }
        }
    }
    *bytes = rest;
    number
}

fn write_line(line: &Line, base: u64, out: &mut Vec<u8>) {
    match line {
        Line::Indexed(at) if *at < base => integer(6, 0x80, base - 1 - at, out),
        Line::Indexed(at) => integer(4, 0x10, at - base, out),
        Line::Named(at, value) => {
            if *at < base {
                integer(4, 0x40, base - 1 - at, out)
            } else {
                integer(3, 0, at - base, out)
            }
            string(7, 0, value, false, out);
        }
        Line::Literal(name, value, _) if name == ":status" && value == "200" => {
            integer(6, 0xc0, 25, out);
        }
        Line::Literal(name, value, huffman) => {
            match name.as_str() {
                ":status" => integer(4, 0x50, 24, out),
                "server" => integer(4, 0x70, 92, out),
                _ => string(3, 0x20, name, *huffman, out),
            }
            string(7, 0, value, *huffman, out);
        }
    }
}
