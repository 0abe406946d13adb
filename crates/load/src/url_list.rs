//! Parser of a file with one request per line: `URL`, `URL POST body` or `URL POST <file`; `#`
//! begins a comment.

use std::path::{Path, PathBuf};

use crate::error::SettingsError;
use crate::input_file::{self, DATA_BYTES_MAX};

/// The request of one line. The method and body of the flags apply if the line has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedRequest {
    /// The URL, absolute or a path on the load's own target.
    pub(crate) url: String,
    /// The method, if the line has one.
    pub(crate) method: Option<String>,
    /// The body, if the line has one.
    pub(crate) body: Option<Vec<u8>>,
    /// Number of the line, from 1.
    pub(crate) number: usize,
}

/// Reads the file at `path`.
///
/// # Errors
///
/// Names the file and line if a file can't be read, is not UTF-8 or contains no request.
pub(crate) fn read(path: &Path) -> Result<Vec<ListedRequest>, SettingsError> {
    let text = read_text(path)?;
    let lines = parse(&text, &path.display().to_string(), folder_of(path))?;
    if lines.is_empty() {
        return Err(of_file(path, "no URL in it; write one per line"));
    }
    Ok(lines)
}

/// Paths of the files that contain the bodies of the requests, as they are opened.
///
/// # Errors
///
/// Fails like [`read`] if the file itself can't be read.
pub(crate) fn bodies(path: &Path) -> Result<Vec<PathBuf>, SettingsError> {
    let text = read_text(path)?;
    let named = requests(&text).filter_map(|(_, request)| match request.body {
        ListedBody::File(name) => Some(folder_of(path).join(name)),
        ListedBody::None | ListedBody::Text(_) => None,
    });
    Ok(named.collect())
}

fn read_text(path: &Path) -> Result<String, SettingsError> {
    let bytes = input_file::read(path, DATA_BYTES_MAX)
        .map_err(|error| of_file(path, &error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| of_file(path, "not a text file in UTF-8"))
}

fn of_file(path: &Path, error: &str) -> SettingsError {
    SettingsError::value("urls", path.display()).text(format!(": {error}"))
}

/// Folder of the file: names in the file are relative to it.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// The parts of a line.
struct LineParts<'a> {
    url: &'a str,
    method: &'a str,
    body: ListedBody<'a>,
}

/// Body of a request, as written after the method.
enum ListedBody<'a> {
    None,
    Text(&'a str),
    File(&'a str),
}

/// Every line that contains a request, with its number.
fn requests(text: &str) -> impl Iterator<Item = (usize, LineParts<'_>)> {
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(text, _)| !text.is_empty() && !text.starts_with('#'));
    lines.map(|(text, number)| {
        let (url, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let (method, body) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let body = match (body.trim_start(), body.trim_start().strip_prefix('<')) {
            (_, Some(file)) => ListedBody::File(file.trim()),
            ("", None) => ListedBody::None,
            (text, None) => ListedBody::Text(text),
        };
        (number, LineParts { url, method, body })
    })
}

fn parse(text: &str, shown: &str, folder: &Path) -> Result<Vec<ListedRequest>, SettingsError> {
    let mut lines = Vec::new();
    for (number, LineParts { url, method, body }) in requests(text) {
        let body = match body {
            ListedBody::None => None,
            ListedBody::Text(text) => Some(text.as_bytes().to_vec()),
            ListedBody::File(name) => {
                let file = folder.join(name);
                Some(input_file::read(&file, DATA_BYTES_MAX).map_err(|error| {
                    SettingsError::about("urls")
                        .text(format!("{shown}:{number}: {}: {error}", file.display()))
                })?)
            }
        };
        lines.push(ListedRequest {
            url: url.to_owned(),
            method: (!method.is_empty()).then(|| method.to_owned()),
            body,
            number,
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_the_forms_of_a_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("body.bin"), b"\0\xff").unwrap();
        let text = "# pages\n\n/a\nhttp://h/b  POST  name=x y\r\n/c PUT <body.bin\n/d DELETE\n";
        let lines = parse(text, "urls.txt", folder.path()).unwrap();
        let short: Vec<_> = lines
            .iter()
            .map(|line| (line.number, line.url.as_str(), line.method.as_deref()))
            .collect();
        assert_eq!(
            short,
            [
                (3, "/a", None),
                (4, "http://h/b", Some("POST")),
                (5, "/c", Some("PUT")),
                (6, "/d", Some("DELETE"))
            ]
        );
        assert_eq!(lines[1].body.as_deref(), Some(&b"name=x y"[..]));
        assert_eq!(lines[2].body.as_deref(), Some(&b"\0\xff"[..]));
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = parse("/a\n/b POST <none", "urls.txt", Path::new("/nowhere")).unwrap_err();
        assert!(
            error.to_string().starts_with("urls.txt:2: /nowhere/none: "),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("empty.txt");
        std::fs::write(&file, "# nothing\n").unwrap();
        assert!(
            read(&file)
                .unwrap_err()
                .to_string()
                .contains("no URL in it")
        );
        std::fs::write(&file, b"\xff\xfe").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("UTF-8"));
    }
}
