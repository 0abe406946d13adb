//! Writes siege's log file, which contains a heading, one line per run, and marks.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

const HEADING: &str = "      Date & Time,  Trans,  Elap Time,  Data Trans,  Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed\n";

/// Appends the mark, if there is one, and the lines to the log file. A new file begins with the
/// heading.
///
/// # Errors
///
/// Returns the error of the operating system.
pub(super) fn append(file: &Path, mark: Option<&str>, lines: &[String]) -> io::Result<()> {
    let mut text = String::new();
    let is_new = !file.exists();
    if is_new {
        text.push_str(HEADING);
    }
    if let Some(mark) = mark {
        text.push_str(&marked(mark));
    }
    text.extend(lines.iter().map(String::as_str));
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)?
        .write_all(text.as_bytes())
}

/// Formats a mark as a line of the log file.
pub(super) fn marked(text: &str) -> String {
    format!("**** {text} ****\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heading_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("siege.log");
        append(&file, Some("one"), &["a\n".to_owned()]).unwrap();
        append(&file, None, &["b\n".to_owned(), marked("c")]).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{HEADING}**** one ****\na\nb\n**** c ****\n"));
        assert!(append(Path::new("/no/such/folder/x"), None, &[]).is_err());
    }
}
