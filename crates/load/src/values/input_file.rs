//! Reads a load's input files up to a maximum size, because reading from a device may never end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Maximum size of a file with a body or with a list of URLs, in bytes.
pub const DATA_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of a certificate, key, script or settings file, in bytes.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Maximum size, in bytes, of any input that isn't a regular file, such as a pipe or a device,
/// whose size isn't known in advance.
const STREAM_BYTES_MAX: u64 = 64 << 20;

/// Reads a whole file of up to `limit` bytes.
///
/// # Errors
///
/// The file can't be read, is larger than the limit, or doesn't fit in memory.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let limit = if metadata.is_file() {
        limit
    } else {
        limit.min(STREAM_BYTES_MAX)
    };
    if metadata.len() > limit {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::new();
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    bytes
        .try_reserve_exact(size.saturating_add(1))
        .map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        Err(too_large(limit))
    } else {
        Ok(bytes)
    }
}

/// Decodes a text file: UTF-8, with or without a byte order mark.
///
/// # Errors
///
/// A message about the file, such as `not UTF-8 text`.
pub fn decode(bytes: Vec<u8>) -> std::result::Result<String, &'static str> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err("UTF-16 text; convert it to UTF-8, for example with iconv");
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "not UTF-8 text")?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// Returns the bytes of a text file without a byte order mark, for files that need not be UTF-8.
pub fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn too_large(limit: u64) -> Error {
    let text = format!("larger than {} MiB; is it the right file?", limit >> 20);
    Error::new(ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(
            decode(b"\xef\xbb\xbf/a\r\n".to_vec()),
            Ok("/a\r\n".to_owned())
        );
        assert_eq!(decode("/ü".into()), Ok("/ü".to_owned()));
        assert!(
            decode(b"\xff\xfe/\0".to_vec())
                .unwrap_err()
                .contains("UTF-16")
        );
        assert!(decode(b"a\xff".to_vec()).unwrap_err().contains("UTF-8"));
        assert_eq!(without_byte_order_mark(b"\xef\xbb\xbfx=1"), b"x=1");
        assert_eq!(without_byte_order_mark(b"x=1"), b"x=1");
    }

    #[test]
    fn endless_files_are_refused() {
        let error = read_file(Path::new("/dev/zero"), TEXT_BYTES_MAX).unwrap_err();
        assert!(error.to_string().contains("larger than 16 MiB"), "{error}");
        let error = read_file(Path::new("/dev/zero"), DATA_BYTES_MAX).unwrap_err();
        assert!(error.to_string().contains("larger than 64 MiB"), "{error}");
        assert_eq!(read_file(Path::new("/dev/null"), 1).unwrap(), b"");
        assert!(read_file(Path::new("/"), 1 << 20).is_err());
    }

    #[test]
    fn the_limit_is_inclusive_and_huge_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, b"1234").unwrap();
        assert_eq!(read_file(&path, 4).unwrap(), b"1234");
        assert!(read_file(&path, 3).is_err());
        // A sparse file takes no disk space.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read_file(&path, DATA_BYTES_MAX).is_err());
    }

    #[test]
    fn pipes_are_read() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"piped").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(
            read_file(Path::new(&path), TEXT_BYTES_MAX).unwrap(),
            b"piped"
        );
    }
}
