//! Functions of programs and libraries, by addresses: their symbols, or where they begin according
//! to the tables for stack unwinding.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::{ReadCache, ReadCacheOps};
use object::{Object, ObjectSymbol, ReadRef, SymbolKind};

use super::unwinding::{UnwindTable, address_of};

/// Maximum size of a program or library in bytes. Its symbols are held in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Folder with separate debug files.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// The function at an address, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundFunction {
    /// Its symbol.
    Symbol(Vec<u8>),
    /// The address at which it begins.
    Start(u64),
}

/// Finds the functions at the given offsets in the program or library with the given path. `offsets`
/// must be sorted.
///
/// # Errors
/// The file can't be read as a program.
pub(super) fn functions(
    file: File,
    path: &Path,
    offsets: &[u64],
) -> Result<Vec<Option<FoundFunction>>, String> {
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err("it is larger than 1 GiB".to_owned());
    }
    let cache = ReadCache::new(file);
    let parsed = object::File::parse(&cache).map_err(|error| error.to_string())?;
    let mut search = AddressSearch::new(&parsed, offsets);
    if let Some(path) = debug_path(&parsed).or_else(|| linked_path(&parsed, path))
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
    let path = PathBuf::from(format!("{DEBUG_FOLDER}/.build-id/{first}/{rest}.debug"));
    (!rest.is_empty() && path.exists()).then_some(path)
}

/// Returns the debug file that a program or library names, in its folder or below the folder of debug
/// files.
fn linked_path<'d>(file: &object::File<'d, impl ReadRef<'d>>, path: &Path) -> Option<PathBuf> {
    let (name, _) = file.gnu_debuglink().ok().flatten()?;
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty() && !name.contains('/')).then_some(())?;
    let folder = path.parent()?;
    let below = Path::new(DEBUG_FOLDER).join(folder.strip_prefix("/").ok()?);
    let folders = [folder.to_owned(), folder.join(".debug"), below];
    let mut paths = folders.into_iter().map(|folder| folder.join(name));
    paths.find(|found| found != path && found.exists())
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
        let numbered = offsets.iter().enumerate();
        let known =
            numbered.filter_map(|(number, offset)| Some((address_of(file, *offset)?, number)));
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
        let Some(table) = UnwindTable::of_file(file) else {
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
        if let Some(table) = UnwindTable::of_file(&parsed) {
            for offset in &offsets {
                let _ = table.frame_bytes(*offset);
            }
        }
        let _ = debug_path(&parsed);
        assert_eq!(search.in_order_of_offsets().len(), offsets.len());
    }
    search(&cache);
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let found = functions(file, Path::new("/web"), &[0, offset, u64::MAX]).unwrap();
        let Some(FoundFunction::Symbol(name)) = &found[1] else {
            panic!("{found:?}");
        };
        let name = String::from_utf8_lossy(name);
        assert!(name.contains("function_with_a_name"), "{name}");
        assert_eq!(found[2], None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "no program").unwrap();
        assert!(functions(File::open(&path).unwrap(), &path, &[0]).is_err());
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
