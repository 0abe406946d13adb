//! The processor capabilities that a server's library uses, read from the server's memory.
//!
//! The environment and the command line are not reliable: nginx overwrites its environment with a
//! title, and a wrapper script may have set the mask variable. OpenSSL stores the unmasked
//! capabilities of the processor as a few words in its data when it is loaded. The child process
//! finds the offset of these words from the library's lowest address, and prony reads the server's
//! memory at the same offset.

use std::fs::File;
use std::os::unix::fs::FileExt;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

/// Addresses of a mapped file: the lowest address, and the address ranges of its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemoryLayout {
    pub(super) base: u64,
    data: Vec<(u64, u64)>,
}

/// Finds the address layout of a file in a memory map. The file is identified by its device and
/// inode. Zeroed memory directly after the file's data counts as part of the data.
pub(super) fn layout(maps: &[MemoryMap], file: ((i32, i32), u64)) -> Option<MemoryLayout> {
    let own = |map: &&MemoryMap| (map.dev, map.inode) == file;
    let base = maps.iter().filter(own).map(|map| map.address.0).min()?;
    let writable = |map: &MemoryMap| map.perms.contains(MMPermissions::WRITE);
    let mut data: Vec<(u64, u64)> = Vec::new();
    for map in maps {
        let follows = data.last().is_some_and(|last| last.1 == map.address.0);
        let zeroed = map.inode == 0 && matches!(map.pathname, MMapPath::Anonymous) && follows;
        if writable(map) && (own(&map) || zeroed) {
            data.push(map.address);
        }
    }
    Some(MemoryLayout { base, data })
}

/// Searches for `words` in the data of the library that contains the code at `address` in this
/// process. Returns the offset of the words in bytes; `None` unless they occur exactly once.
pub(super) fn find_own(address: u64, words: &[u64]) -> Option<u64> {
    if words.is_empty() {
        return None;
    }
    let process = Process::myself().ok()?;
    let maps: Vec<MemoryMap> = process.maps().ok()?.into_iter().collect();
    let holds = |map: &&MemoryMap| (map.address.0..map.address.1).contains(&address);
    let code = maps.iter().find(holds)?;
    let layout = layout(&maps, (code.dev, code.inode))?;
    let wanted: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory = File::open("/proc/self/mem").ok()?;
    let mut found = Vec::new();
    for (start, end) in layout.data {
        let mut bytes = vec![0; usize::try_from(end - start).ok()?];
        memory.read_exact_at(&mut bytes, start).ok()?;
        let offsets = memchr::memmem::find_iter(&bytes, &wanted);
        found.extend(offsets.map(|offset| start + offset as u64 - layout.base));
    }
    (found.len() == 1).then(|| found[0])
}

/// Reads `count` words from a process's memory; `None` if they can't be read or are not in the
/// library's data.
pub(super) fn read_words(
    pid: i32,
    layout: &MemoryLayout,
    offset: u64,
    count: usize,
) -> Option<Vec<u64>> {
    let from = layout.base.checked_add(offset)?;
    let mut bytes = vec![0; count * 8];
    let to = from.checked_add(bytes.len() as u64)?;
    let within = |range: &(u64, u64)| range.0 <= from && to <= range.1;
    if !layout.data.iter().any(within) {
        return None;
    }
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, from).ok()?;
    let words = bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    Some(words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;
    use procfs::process::MemoryMaps;

    const MAPS: &str = "\
1000-2000 r-xp 00000000 fe:00 7 /lib/libcrypto.so.3
2000-3000 rw-p 00001000 fe:00 7 /lib/libcrypto.so.3
3000-5000 rw-p 00000000 00:00 0\x20
6000-7000 rw-p 00000000 00:00 0\x20
8000-9000 rw-p 00000000 fe:00 8 /lib/libssl.so.3
";

    #[test]
    fn data_includes_adjacent_zeroed_memory() {
        let maps = MemoryMaps::from_read(MAPS.as_bytes()).unwrap();
        let maps: Vec<MemoryMap> = maps.into_iter().collect();
        let device = maps[0].dev;
        let expected = MemoryLayout {
            base: 0x1000,
            data: vec![(0x2000, 0x3000), (0x3000, 0x5000)],
        };
        assert_eq!(layout(&maps, (device, 7)), Some(expected));
        assert_eq!(layout(&maps, (device, 9)), None);
    }

    #[test]
    fn words_are_found_in_this_program_and_read_again() {
        static WORDS: std::sync::Mutex<[u64; 2]> = std::sync::Mutex::new([1, 2]);
        // Compute the words at run time. Otherwise they would also be among the program's
        // constants.
        let words = {
            let mut words = WORDS.lock().unwrap();
            words[0] = 0x5eed_0000_0000_0000 | u64::from(std::process::id());
            words[1] = !words[0];
            *words
        };
        let code = find_own as *const () as usize as u64;
        let at = find_own(code, &words).expect("in the data, once");
        let process = Process::myself().unwrap();
        let maps: Vec<MemoryMap> = process.maps().unwrap().into_iter().collect();
        let own = maps
            .iter()
            .find(|map| (map.address.0..map.address.1).contains(&code));
        let own = own.unwrap();
        let layout = layout(&maps, (own.dev, own.inode)).unwrap();
        assert_eq!(
            read_words(process.pid, &layout, at, 2),
            Some(words.to_vec())
        );
        assert_eq!(read_words(process.pid, &layout, u64::MAX - 4, 2), None);
        assert_eq!(find_own(code, &[]), None);
    }
}
