//! Functions of programs and libraries, by addresses: their symbols, or where they begin according
//! to the tables for stack unwinding.

use std::fs::File;
use std::path::PathBuf;

use object::read::{ReadCache, ReadCacheOps};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadRef, SymbolKind};

/// Maximum size of a program or library in bytes. Its symbols are held in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Folder with separate debug files, by build ID.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// The function at an address, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundFunction {
    /// Its symbol.
    Symbol(Vec<u8>),
    /// The address at which it begins.
    Start(u64),
}

/// Finds the functions at the given offsets in a program or library. `offsets` must be sorted.
///
/// # Errors
/// The file can't be read as a program.
pub(super) fn functions(file: File, offsets: &[u64]) -> Result<Vec<Option<FoundFunction>>, String> {
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err("it is larger than 1 GiB".to_owned());
    }
    let cache = ReadCache::new(file);
    let parsed = object::File::parse(&cache).map_err(|error| error.to_string())?;
    let mut search = AddressSearch::new(&parsed, offsets);
    if let Some(path) = debug_path(&parsed)
        && let Ok(file) = File::open(path)
        && file.metadata().is_ok_and(|it| it.len() <= FILE_BYTES_MAX)
    {
        let cache = ReadCache::new(file);
        if let Ok(debug) = object::File::parse(&cache) {
            search.symbols(&debug);
        }
    }
    search.symbols(&parsed);
    search.starts(&parsed);
    Ok(search.in_order_of_offsets())
}

fn debug_path<'d>(file: &object::File<'d, impl ReadRef<'d>>) -> Option<PathBuf> {
    let id = file.build_id().ok().flatten()?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    (!rest.is_empty()).then(|| PathBuf::from(format!("{DEBUG_FOLDER}/{first}/{rest}.debug")))
}

/// Addresses whose functions are searched.
struct AddressSearch {
    /// Addresses in memory, sorted, each with its position among the offsets.
    addresses: Vec<(u64, usize)>,
    found: Vec<Option<FoundFunction>>,
    offsets: usize,
}

/// Rank of a symbol among those that contain an address: the smallest one is the innermost
/// function. Global names and short names are preferred.
type SymbolRank = (u64, bool, usize, Vec<u8>);

impl AddressSearch {
    fn new<'d>(file: &object::File<'d, impl ReadRef<'d>>, offsets: &[u64]) -> Self {
        let address = |offset: u64| {
            let mut segments = file.segments().map(|it| (it.file_range(), it.address()));
            segments.find_map(|((start, size), address)| {
                let within = offset.checked_sub(start).filter(|within| *within < size)?;
                address.checked_add(within)
            })
        };
        let numbered = offsets.iter().enumerate();
        let known = numbered.filter_map(|(number, offset)| Some((address(*offset)?, number)));
        let mut addresses: Vec<(u64, usize)> = known.collect();
        addresses.sort_unstable();
        Self {
            found: vec![None; addresses.len()],
            addresses,
            offsets: offsets.len(),
        }
    }

    /// Returns the indexes of the addresses in a range.
    fn within(&self, start: u64, size: u64) -> std::ops::Range<usize> {
        let first = self.addresses.partition_point(|(it, _)| *it < start);
        let end = start.saturating_add(size);
        let last = self.addresses.partition_point(|(it, _)| *it < end);
        first..last.max(first)
    }

    /// Names the functions that have a symbol.
    fn symbols<'d>(&mut self, file: &object::File<'d, impl ReadRef<'d>>) {
        let mut ranks: Vec<Option<SymbolRank>> = vec![None; self.found.len()];
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Text || symbol.size() == 0 || symbol.is_undefined() {
                continue;
            }
            let within = self.within(symbol.address(), symbol.size());
            if within.is_empty() {
                continue;
            }
            let Ok(name) = symbol.name_bytes() else {
                continue;
            };
            let rank = (
                symbol.size(),
                !symbol.is_global(),
                name.len(),
                name.to_vec(),
            );
            for known in &mut ranks[within] {
                if known.as_ref().is_none_or(|known| rank < *known) {
                    *known = Some(rank.clone());
                }
            }
        }
        for (found, rank) in self.found.iter_mut().zip(ranks) {
            if let (None, Some((.., name))) = (&found, rank) {
                *found = Some(FoundFunction::Symbol(name));
            }
        }
    }

    /// Finds where functions without symbol begin.
    fn starts<'d>(&mut self, file: &object::File<'d, impl ReadRef<'d>>) {
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address(), section.data().ok()?))
        };
        let (Some(header), Some(frames)) = (section(".eh_frame_hdr"), section(".eh_frame")) else {
            return;
        };
        let Some(table) = FunctionStarts::parse(header, frames) else {
            return;
        };
        for (found, (address, _)) in self.found.iter_mut().zip(&self.addresses) {
            if found.is_none() {
                *found = table.start_of(*address).map(FoundFunction::Start);
            }
        }
    }

    fn in_order_of_offsets(self) -> Vec<Option<FoundFunction>> {
        let mut ordered = vec![None; self.offsets];
        for (found, (_, number)) in self.found.into_iter().zip(&self.addresses) {
            ordered[*number] = found;
        }
        ordered
    }
}

/// Table of all functions in `.eh_frame_hdr`, with their lengths in `.eh_frame`. Every function has
/// an entry, even in stripped programs, because exceptions and debuggers need it.
struct FunctionStarts<'a> {
    header_address: u64,
    /// Pairs of a function's start and the position of its frame description, both relative to the
    /// header and sorted by start.
    pairs: &'a [u8],
    frames_address: u64,
    frames: &'a [u8],
}

impl<'a> FunctionStarts<'a> {
    /// Size of a pair in bytes.
    const PAIR_BYTES: usize = 8;

    /// Reads the table; `None` if its encoding is not the one that all linkers use.
    fn parse((header_address, header): (u64, &'a [u8]), frames: (u64, &'a [u8])) -> Option<Self> {
        // version 1; the position of the frames (4 bytes); the count as udata4; pairs as sdata4,
        // relative to the header
        let [1, pointer, 0x03, 0x3b, _, _, _, _, count @ ..] = header else {
            return None;
        };
        (pointer & 0x0f == 0x0b).then_some(())?;
        let (count, pairs) = count.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let bytes = count.checked_mul(Self::PAIR_BYTES)?.min(pairs.len());
        Some(Self {
            header_address,
            pairs: &pairs[..bytes - bytes % Self::PAIR_BYTES],
            frames_address: frames.0,
            frames: frames.1,
        })
    }

    /// Returns the start of the function that contains an address.
    fn start_of(&self, address: u64) -> Option<u64> {
        let count = self.pairs.len() / Self::PAIR_BYTES;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.pair(middle)?.0 <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (start, frame) = self.pair(low.checked_sub(1)?)?;
        let length = self.length(frame)?;
        (address.checked_sub(start)? < u64::from(length)).then_some(start)
    }

    fn pair(&self, index: usize) -> Option<(u64, u64)> {
        let pair = self.pairs.get(index * Self::PAIR_BYTES..)?;
        let (start, rest) = pair.split_first_chunk::<4>()?;
        let (frame, _) = rest.split_first_chunk::<4>()?;
        let relative = |offset: [u8; 4]| {
            let offset = i64::from(i32::from_le_bytes(offset));
            self.header_address.wrapping_add_signed(offset)
        };
        Some((relative(*start), relative(*frame)))
    }

    /// Returns the length of a function. A frame description consists of its size, a reference, the
    /// function's start and the function's length, with 4 bytes each.
    fn length(&self, frame: u64) -> Option<u32> {
        let position = usize::try_from(frame.checked_sub(self.frames_address)?).ok()?;
        let bytes = self.frames.get(position.checked_add(12)?..)?;
        Some(u32::from_le_bytes(*bytes.first_chunk::<4>()?))
    }
}

/// Reads any bytes as a program.
pub fn fuzz(bytes: &[u8]) {
    let cache = ReadCache::new(std::io::Cursor::new(bytes.to_vec()));
    fn search(cache: &ReadCache<impl ReadCacheOps>) {
        let Ok(parsed) = object::File::parse(cache) else {
            return;
        };
        let offsets: Vec<u64> = (0..0x4000).step_by(16).collect();
        let mut search = AddressSearch::new(&parsed, &offsets);
        search.symbols(&parsed);
        search.starts(&parsed);
        let _ = debug_path(&parsed);
        assert_eq!(search.in_order_of_offsets().len(), offsets.len());
    }
    search(&cache);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header at 0x2000 with functions at 0x1000 and 0x1100, and frames at 0x3000.
    fn tables() -> (Vec<u8>, Vec<u8>) {
        let mut header = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        for (start, frame) in [(0x1000_i32, 0x3000_i32), (0x1100, 0x3010)] {
            header.extend((start - 0x2000).to_le_bytes());
            header.extend((frame - 0x2000).to_le_bytes());
        }
        let mut frames = Vec::new();
        for length in [0x80_u32, 0x20] {
            frames.extend([0; 12]);
            frames.extend(length.to_le_bytes());
        }
        (header, frames)
    }

    #[test]
    fn functions_of_stripped_programs_have_their_start() {
        let (header, frames) = tables();
        let table = FunctionStarts::parse((0x2000, &header), (0x3000, &frames)).unwrap();
        assert_eq!(table.start_of(0x1000), Some(0x1000));
        assert_eq!(table.start_of(0x107f), Some(0x1000));
        assert_eq!(table.start_of(0x1080), None, "between two functions");
        assert_eq!(table.start_of(0x111f), Some(0x1100));
        assert_eq!(table.start_of(0x1120), None);
        assert_eq!(table.start_of(0xfff), None);
    }

    #[test]
    fn damaged_tables_are_no_tables() {
        let (header, frames) = tables();
        for length in 0..header.len() {
            let header = &header[..length];
            if let Some(table) = FunctionStarts::parse((0x2000, header), (0x3000, &frames)) {
                let _ = table.start_of(0x1110);
            }
        }
        let table = FunctionStarts::parse((0x2000, &header), (u64::MAX, &frames)).unwrap();
        assert_eq!(table.start_of(0x1000), None);
        let mut other = header;
        other[3] = 0x0b;
        assert!(FunctionStarts::parse((0x2000, &other), (0x3000, &frames)).is_none());
    }

    #[test]
    fn this_program_has_symbols() {
        #[inline(never)]
        fn function_with_a_name() -> usize {
            std::hint::black_box(function_with_a_name as fn() -> usize as usize)
        }
        let address = function_with_a_name() as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut processes = super::super::processes::Processes::default();
        processes.add_running(1, maps.as_bytes());
        let (_, offset) = processes.locate(1, address);
        let file = File::open("/proc/self/exe").unwrap();
        let found = functions(file, &[0, offset, u64::MAX]).unwrap();
        let Some(FoundFunction::Symbol(name)) = &found[1] else {
            panic!("{found:?}");
        };
        let name = String::from_utf8_lossy(name);
        assert!(name.contains("function_with_a_name"), "{name}");
        assert_eq!(found[2], None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "no program").unwrap();
        assert!(functions(File::open(&path).unwrap(), &[0]).is_err());
    }

    #[test]
    fn damaged_programs_are_errors_or_have_no_names() {
        let original = std::fs::read("/bin/true").unwrap();
        let mut damaged = original.clone();
        for position in (0..4096).step_by(5).chain((0..original.len()).step_by(211)) {
            damaged[position] ^= 0xff;
            fuzz(&damaged);
            damaged[position] = original[position];
        }
        for length in (0..original.len()).step_by(509) {
            fuzz(&original[..length]);
            super::super::perf_map::fuzz(&original[..length]);
        }
    }
}
