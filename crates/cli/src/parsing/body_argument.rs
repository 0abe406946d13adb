//! Reads a request body from a file or standard input: `--body @FILE`, `--body @-`, `--body -`.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use prony_load::LoadSettings;
use tempfile::NamedTempFile;

/// Maximum size in bytes of a body read from standard input.
const STDIN_BYTES_MAX: u64 = 64 << 20;

/// Replaces `--body @FILE` or `--body -` with `--body-file`. Standard input is copied to a
/// temporary file, which is removed when the returned value is dropped.
///
/// # Errors
///
/// Fails if standard input can't be read or copied. The message names the option.
pub(crate) fn resolve_body(load: &mut LoadSettings) -> Result<Option<NamedTempFile>, String> {
    let file = match (load.body.as_deref(), load.body_file.as_deref()) {
        (Some("-" | "@-"), _) => None,
        (Some(text), _) => match text.strip_prefix('@') {
            Some(file) => Some(PathBuf::from(file)),
            None => return Ok(None),
        },
        (None, Some(file)) if file == Path::new("-") => None,
        (None, _) => return Ok(None),
    };
    if file.is_none() && load.urls.as_deref() == Some(Path::new("-")) {
        let what = "--body - and --urls - both read standard input (save one of them to a file)";
        return Err(what.to_owned());
    }
    let copy = match file {
        Some(_) => None,
        None => Some(
            copied(&mut io::stdin().lock())
                .map_err(|error| format!("--body -: standard input: {error}"))?,
        ),
    };
    let file = file.or_else(|| copy.as_ref().map(|copy| copy.path().to_owned()));
    (load.body, load.body_file) = (None, file);
    Ok(copy)
}

fn copied(from: &mut dyn Read) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("prony-body-").tempfile()?;
    let copied = io::copy(&mut from.take(STDIN_BYTES_MAX + 1), &mut file)?;
    if copied > STDIN_BYTES_MAX {
        let limit = STDIN_BYTES_MAX >> 20;
        return Err(io::Error::other(format!("the body exceeds {limit} MiB")));
    }
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(body: &str) -> LoadSettings {
        let mut load = LoadSettings {
            body: Some(body.to_owned()),
            ..LoadSettings::default()
        };
        assert!(resolve_body(&mut load).unwrap().is_none());
        load
    }

    #[test]
    fn a_body_with_an_at_sign_is_a_file() {
        let load = resolved("@in.json");
        assert_eq!(load.body, None);
        assert_eq!(load.body_file.as_deref(), Some(Path::new("in.json")));
        let load = resolved("a@b");
        assert_eq!(load.body.as_deref(), Some("a@b"));
        assert_eq!(load.body_file, None);
    }

    #[test]
    fn standard_input_is_copied_up_to_a_limit() {
        let copy = copied(&mut &b"{\"a\":1}"[..]).unwrap();
        assert_eq!(std::fs::read(copy.path()).unwrap(), b"{\"a\":1}");
        let error = copied(&mut io::repeat(0)).unwrap_err();
        assert!(error.to_string().contains("64 MiB"), "{error}");
    }
}
