//! Lines of a file of any size, plain or compressed with gzip or zstd.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Maximum length of a line; longer ones are skipped.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;
/// Number of bytes that are read at a time.
const BUFFER_BYTES: usize = 128 << 10;
/// The largest window of a zstd file: that of `zstd -19`.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 << 20;

/// Opens a log, decompressed.
///
/// # Errors
///
/// The file can't be opened, or is not a regular file.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        let text = "not a regular file, which can be read several times";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    Ok(match file.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(ZstdFrames::Between(file)),
        _ => Box::new(file),
    })
}

/// The frames of a zstd file, one after the other.
enum ZstdFrames<R: Read> {
    Between(R),
    Within(Box<StreamingDecoder<R, FrameDecoder>>),
    Ended,
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            *self = match std::mem::replace(self, ZstdFrames::Ended) {
                ZstdFrames::Ended => return Ok(0),
                ZstdFrames::Between(mut file) => {
                    if file.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let limit = ZSTD_WINDOW_BYTES_MAX;
                    let decoder = StreamingDecoder::new_with_max_window_size(file, limit);
                    ZstdFrames::Within(Box::new(decoder.map_err(io::Error::other)?))
                }
                ZstdFrames::Within(mut decoder) => match decoder.read(to)? {
                    0 => ZstdFrames::Between(decoder.into_inner()),
                    count => {
                        *self = ZstdFrames::Within(decoder);
                        return Ok(count);
                    }
                },
            };
        }
    }
}

/// Reads lines into a buffer of a constant size.
pub(super) struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// The part of the buffer that is not returned yet.
    unread: std::ops::Range<usize>,
    /// Number of the last line, from 1.
    number: u64,
}

/// A line without its line break; `None` if it is too long.
pub(super) type Line<'a> = (u64, Option<&'a [u8]>);

impl<R: Read> LineReader<R> {
    pub(super) fn new(source: R) -> LineReader<R> {
        LineReader {
            source,
            buffer: vec![0; BUFFER_BYTES],
            unread: 0..0,
            number: 0,
        }
    }

    /// Number of the last line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        let mut is_too_long = false;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(length) = memchr::memchr(b'\n', &unread[searched..]) {
                return Ok(Some(self.take(searched + length, 1, is_too_long)));
            }
            searched = unread.len();
            if searched > LINE_BYTES_MAX {
                is_too_long = true;
                self.unread.start = self.unread.end;
                searched = 0;
            }
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            let count = match self.source.read(&mut self.buffer[self.unread.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            };
            if count == 0 {
                let is_empty = self.unread.is_empty() && !is_too_long;
                return Ok((!is_empty).then(|| self.take(searched, 0, is_too_long)));
            }
            self.unread.end += count;
        }
    }

    fn take(&mut self, length: usize, line_break: usize, is_too_long: bool) -> Line<'_> {
        let start = self.unread.start;
        self.unread.start += length + line_break;
        self.number += 1;
        let line = &self.buffer[start..start + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        (
            self.number,
            Some(line).filter(|line| !is_too_long && line.len() <= LINE_BYTES_MAX),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut reader = LineReader::new(bytes);
        let mut all = Vec::new();
        while let Some((number, line)) = reader.next().unwrap() {
            all.push((number, line.map(<[u8]>::to_vec)));
        }
        all
    }

    #[test]
    fn long_lines_are_skipped_whole() {
        let long = vec![b'x'; 1 << 20];
        let limit = vec![b'y'; LINE_BYTES_MAX];
        let text = [b"a\r\n", &long[..], b"\n\n", &limit[..], b"\n", &long[..]].concat();
        let expected = [
            (1, Some(b"a".to_vec())),
            (2, None),
            (3, Some(Vec::new())),
            (4, Some(limit)),
            (5, None),
        ];
        assert_eq!(lines(&text), expected);
        assert_eq!(lines(b""), []);
    }

    #[test]
    fn compressed_files_of_several_parts_are_read_to_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let plain = b"one\ntwo\n";
        let mut gzip = Vec::new();
        for _ in 0..2 {
            let mut to = flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::fast());
            to.write_all(plain).unwrap();
            to.finish().unwrap();
        }
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(&plain[..], level).repeat(2);
        for bytes in [plain.repeat(2), gzip, zstd] {
            let path = folder.path().join("log");
            std::fs::write(&path, &bytes).unwrap();
            let mut text = Vec::new();
            open(&path).unwrap().read_to_end(&mut text).unwrap();
            assert_eq!(text, plain.repeat(2));
            // The end of a cut file is an error, unless the file is plain.
            std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
            let result = open(&path).unwrap().read_to_end(&mut text);
            assert_eq!(result.is_ok(), bytes.starts_with(b"one"));
        }
        assert!(open(folder.path()).is_err());
    }
}
