//! Perf maps: files in which interpreters and just-in-time compilers list the functions that they
//! have generated. Each line has an address, a size and a name.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::crypto::ProcessFiles;

/// Maximum number of bytes read from a perf map.
const BYTES_MAX: u64 = 256 << 20;

/// Finds the generated functions at the given addresses, which must be sorted. Returns `None` if the
/// process has no perf map.
///
/// # Errors
/// Returns the reason why the process's perf map is not used.
pub(super) fn functions(
    pid: i32,
    addresses: &[u64],
) -> Result<Option<Vec<Option<Vec<u8>>>>, String> {
    let (path, owner) = match std::fs::metadata(format!("/proc/{pid}")) {
        Ok(process) => (path(own_pid(pid).unwrap_or(pid)), Some(process.uid())),
        Err(_) => (path(pid), None),
    };
    let opened = match owner {
        Some(_) => ProcessFiles::of(pid).open(&path),
        None => File::open(&path),
    };
    let refused = |reason: &str| Err(format!("{} is not used: {reason}", path.display()));
    match opened {
        Ok(file) => match read(&file, owner) {
            Ok(text) => Ok(Some(functions_in(&text, addresses))),
            Err(error) => refused(&error.to_string()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => refused(&error.to_string()),
    }
}

fn path(pid: i32) -> PathBuf {
    Path::new("/tmp").join(format!("perf-{pid}.map"))
}

/// Returns the ID that a process has in its own namespace.
fn own_pid(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Reads the part of a perf map that exists now. The process may append to it in the meantime.
fn read(file: &File, process_owner: Option<u32>) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    // Anyone can create files in the folder for temporary files.
    let own_uid = rustix::process::geteuid().as_raw();
    let owners = [Some(0), Some(own_uid), process_owner];
    if !owners.contains(&Some(metadata.uid())) {
        return Err(io::Error::other(format!(
            "it belongs to another user, with ID {}",
            metadata.uid()
        )));
    }
    if metadata.len() > BYTES_MAX {
        return Err(io::Error::other("it is larger than 256 MiB"));
    }
    let mut text = Vec::new();
    file.take(metadata.len()).read_to_end(&mut text)?;
    Ok(text)
}

/// Finds the functions at the given sorted addresses. Of several functions that were at an address,
/// the last one counts. An incomplete last line is ignored.
fn functions_in(text: &[u8], addresses: &[u64]) -> Vec<Option<Vec<u8>>> {
    let mut found = vec![None; addresses.len()];
    let mut rest = text;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        let Some((start, size, name)) = parse_line(line) else {
            continue;
        };
        let end = start.saturating_add(size);
        let first = addresses.partition_point(|address| *address < start);
        for (address, found) in addresses.iter().zip(&mut found).skip(first) {
            if *address >= end {
                break;
            }
            *found = Some(name.to_vec());
        }
    }
    found
}

fn parse_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut hex = || {
        let word = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (hex()?, hex()?);
    let name = words.next()?.trim_ascii();
    (!name.is_empty()).then_some((start, size, name))
}

/// Reads any bytes as a perf map.
pub fn fuzz(bytes: &[u8]) {
    let addresses: Vec<u64> = (0..256).map(|it| it * 0x111).collect();
    for name in functions_in(bytes, &addresses).into_iter().flatten() {
        let _ = super::names::generated_name(&name);
        let _ = super::names::symbol_name(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_function_at_an_address_counts() {
        let text = b"1000 20 first\n0x1010 0x4 second one\nrubbish\n1030 ffffffffffffffff last\n\
            10 10 \n1000 20 incomplete";
        let found = functions_in(text, &[0x18, 0x1000, 0x1012, 0x1020, 0x1030, u64::MAX]);
        let named = |name: &str| Some(name.as_bytes().to_vec());
        let expected = [
            None,
            named("first"),
            named("second one"),
            None,
            named("last"),
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_map_of_another_user_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        std::fs::write(&path, "1000 20 first\n").unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(read(&file, None).unwrap(), b"1000 20 first\n");
        let error = read(&File::open(folder.path()).unwrap(), None).unwrap_err();
        assert_eq!(error.to_string(), "it is not a file");
        let other = 12_345;
        if std::os::unix::fs::chown(&path, Some(other), None).is_ok() {
            let error = read(&file, None).unwrap_err().to_string();
            assert_eq!(error, "it belongs to another user, with ID 12345");
            assert!(read(&file, Some(other)).is_ok(), "the process's own user");
        }
    }

    #[test]
    fn a_process_without_map_has_no_functions() {
        let own = std::process::id().cast_signed();
        assert_eq!(functions(own, &[0x1000]), Ok(None));
        assert_eq!(own_pid(own), Some(own));
        assert_eq!(functions(1 << 30, &[0x1000]), Ok(None));
    }
}
