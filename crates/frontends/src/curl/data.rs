//! Builds the request body from curl's data options.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use prony_load::SettingsError;
use prony_load::input_file::{self, DATA_BYTES_MAX};

use super::options::DataKind;

/// Characters that `--data-urlencode` encodes: all except unreserved ones (RFC 3986 §2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Data from the options of a curl command.
#[derive(Debug, Default)]
pub(super) struct RequestData {
    pieces: Vec<u8>,
    /// File that contains the whole body, if it is the only piece of data.
    file: Option<PathBuf>,
    /// True if there is any data, even if it is empty.
    is_given: bool,
    /// True if `--json` provided data.
    is_json: bool,
}

/// Complete body of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DataBody {
    Text(String),
    File(PathBuf),
}

impl RequestData {
    pub(super) fn is_given(&self) -> bool {
        self.is_given
    }

    pub(super) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Adds a piece of JSON. Pieces are joined without a separator.
    pub(super) fn add_json(&mut self, value: &[u8]) -> Result<(), SettingsError> {
        self.is_json = true;
        self.add_piece(value, DataKind::Binary, "")
    }

    /// Adds a piece of data, with an `&` before it unless it is the first.
    pub(super) fn add(&mut self, value: &[u8], kind: DataKind) -> Result<(), SettingsError> {
        self.add_piece(value, kind, "&")
    }

    fn add_piece(
        &mut self,
        value: &[u8],
        kind: DataKind,
        separator: &str,
    ) -> Result<(), SettingsError> {
        let is_first = !std::mem::replace(&mut self.is_given, true);
        if is_first
            && kind == DataKind::Binary
            && let Some(name) = value.strip_prefix(b"@")
        {
            self.file = Some(file_path(name)?);
            return Ok(());
        }
        // The file is no longer the only piece, so it is read and joined with the other pieces as
        // text.
        if let Some(file) = self.file.take() {
            self.pieces = read_file(&file)?;
        }
        let piece = data_piece(value, kind)?;
        if !is_first {
            self.pieces.extend_from_slice(separator.as_bytes());
        }
        self.pieces.extend_from_slice(&piece);
        Ok(())
    }

    pub(super) fn into_body(self) -> Result<DataBody, SettingsError> {
        match self.file {
            Some(file) => Ok(DataBody::File(file)),
            None => String::from_utf8(self.pieces)
                .map(DataBody::Text)
                .map_err(|_| {
                    let error = SettingsError::from("the body is not UTF-8 text");
                    error.hint("give it as --data-binary @FILE")
                }),
        }
    }

    /// Returns the data as a query, for `-G`.
    pub(super) fn into_query(mut self) -> Result<String, SettingsError> {
        if let Some(file) = self.file.take() {
            self.pieces = read_file(&file)?;
        }
        String::from_utf8(self.pieces).map_err(|_| "the query is not UTF-8 text".into())
    }
}

fn data_piece(value: &[u8], kind: DataKind) -> Result<Vec<u8>, SettingsError> {
    match (kind, value.strip_prefix(b"@")) {
        (DataKind::Text, Some(name)) => {
            let bytes = read_file(&file_path(name)?)?;
            let kept = bytes.into_iter().filter(|byte| !b"\r\n\0".contains(byte));
            Ok(kept.collect())
        }
        (DataKind::Binary, Some(name)) => read_file(&file_path(name)?),
        (DataKind::UrlEncoded, _) => url_encoded(value),
        _ => Ok(value.to_vec()),
    }
}

/// Encodes the value of `--data-urlencode`, which has the form `CONTENT`, `=CONTENT`,
/// `NAME=CONTENT`, `@FILE` or `NAME@FILE`.
fn url_encoded(value: &[u8]) -> Result<Vec<u8>, SettingsError> {
    let sign = value.iter().position(|byte| b"=@".contains(byte));
    let (name, content) = match sign {
        None => (&[][..], value.to_vec()),
        Some(at) if value[at] == b'=' => (&value[..at], value[at + 1..].to_vec()),
        Some(at) => (&value[..at], read_file(&file_path(&value[at + 1..])?)?),
    };
    let mut piece = name.to_vec();
    if !name.is_empty() {
        piece.push(b'=');
    }
    piece.extend(percent_encode(&content, ENCODED).flat_map(str::bytes));
    Ok(piece)
}

/// Converts the name of a file to a path. Rejects standard input.
fn file_path(name: &[u8]) -> Result<PathBuf, SettingsError> {
    match std::str::from_utf8(name) {
        Ok("-") => {
            let error = SettingsError::from("@- is standard input");
            Err(error.hint("save it to a file and write @FILE"))
        }
        Ok("") => Err("@ needs the name of a file".into()),
        Ok(name) => Ok(PathBuf::from(name)),
        Err(_) => Err("the file name is not UTF-8 text".into()),
    }
}

fn read_file(file: &Path) -> Result<Vec<u8>, SettingsError> {
    input_file::read_file(file, DATA_BYTES_MAX)
        .map_err(|error| SettingsError::from(error.to_string()).at(file.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: &[(&str, DataKind)]) -> String {
        let mut data = RequestData::default();
        for (value, kind) in pieces {
            data.add(value.as_bytes(), *kind).unwrap();
        }
        match data.into_body().unwrap() {
            DataBody::Text(text) => text,
            DataBody::File(file) => panic!("{}", file.display()),
        }
    }

    #[test]
    fn pieces_are_joined_and_encoded() {
        use DataKind::{Raw, Text, UrlEncoded};
        assert_eq!(text(&[("a=1", Text), ("@b", Raw)]), "a=1&@b");
        assert_eq!(text(&[("", Text)]), "");
        for (value, encoded) in [
            ("a b", "a%20b"),
            ("=a=b", "a%3Db"),
            ("name=é&", "name=%C3%A9%26"),
            ("a-._~", "a-._~"),
        ] {
            assert_eq!(text(&[(value, UrlEncoded)]), encoded);
        }
    }

    #[test]
    fn files_are_read_as_their_option_requires() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, "a\r\nb").unwrap();
        let at = format!("@{}", file.display());
        assert_eq!(text(&[(&at, DataKind::Text)]), "ab");
        assert_eq!(
            text(&[("x", DataKind::Raw), (&at, DataKind::Binary)]),
            "x&a\r\nb"
        );
        assert_eq!(
            text(&[(&at, DataKind::Binary), ("x", DataKind::Raw)]),
            "a\r\nb&x"
        );
        let named = format!("n{at}");
        assert_eq!(text(&[(&named, DataKind::UrlEncoded)]), "n=a%0D%0Ab");
        let mut data = RequestData::default();
        data.add(at.as_bytes(), DataKind::Binary).unwrap();
        assert_eq!(data.into_body(), Ok(DataBody::File(file)));
    }

    #[test]
    fn unusable_data_is_refused_with_a_hint() {
        for (value, kind, reason) in [
            (&b"@-"[..], DataKind::Text, "standard input"),
            (b"@/nowhere/x", DataKind::Text, "/nowhere/x"),
            (b"@", DataKind::Binary, "name of a file"),
            (b"a@-", DataKind::UrlEncoded, "standard input"),
        ] {
            let error = RequestData::default()
                .add(value, kind)
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{error}");
        }
        let mut data = RequestData::default();
        data.add(b"\xff", DataKind::Raw).unwrap();
        assert!(
            data.into_body()
                .unwrap_err()
                .to_string()
                .contains("--data-binary @FILE")
        );
    }
}
