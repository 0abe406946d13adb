//! Output files. They are opened before anything runs, because a result that can't be written is
//! worse than no result. Their content is replaced in one step at the end.

pub(crate) mod load_results;
pub(crate) mod replaced_file;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::replaced_file::ReplacedFile;
use crate::ending::Failure;
use crate::terminal;

/// Destination of an output.
#[derive(Debug)]
pub(crate) enum Output {
    /// Standard output, which then carries the data instead of the summary.
    Standard,
    /// A file that keeps its old content until the new content is complete.
    File(ReplacedFile, PathBuf),
}

impl Output {
    /// Opens the file or stream that `option` names; `-` means standard output.
    pub(crate) fn open(option: &str, path: Option<&Path>) -> Result<Option<Output>, Failure> {
        match path {
            None => Ok(None),
            Some(path) if path == Path::new("-") => Ok(Some(Output::Standard)),
            Some(path) => Self::file(option, path).map(Some),
        }
    }

    /// Opens a file. Rejects standard output, because the content is not text or must not mix with
    /// other output.
    pub(crate) fn open_file(option: &str, path: Option<&Path>) -> Result<Option<Output>, Failure> {
        match path {
            Some(path) if path == Path::new("-") => {
                Err(Failure::wrong(format!("{option} needs a file, not -")))
            }
            path => Self::open(option, path),
        }
    }

    fn file(option: &str, path: &Path) -> Result<Output, Failure> {
        let file = ReplacedFile::prepare(path);
        let file =
            file.map_err(|error| Failure::file(format!("{option} {}", path.display()), &error))?;
        Ok(Output::File(file, path.to_owned()))
    }

    pub(crate) fn is_standard(&self) -> bool {
        matches!(self, Output::Standard)
    }

    /// Writes the output. A file that can't be written is reported, and changes only the exit
    /// status, so that the command's other results are not lost too.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        match self {
            Output::Standard => {
                terminal::print_data(text);
                Ok(())
            }
            file => file.write_bytes(text.as_bytes()),
        }
    }

    /// Writes binary content to a file. Standard output is rejected, because it accepts only text.
    pub(crate) fn write_bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Output::Standard => Err(Failure::wrong(
                "only the text format can be written to standard output",
            )),
            Output::File(file, path) => {
                if let Err(error) = file.write(bytes) {
                    report_lost(format!("{}: {error}", path.display()));
                }
                Ok(())
            }
        }
    }
}

/// The output of `--json`, for commands that print a text otherwise.
#[derive(Debug)]
pub(crate) struct JsonOutput(Option<Output>);

impl JsonOutput {
    /// Opens the output, if `--json` names one.
    pub(crate) fn open(path: Option<&Path>) -> Result<JsonOutput, Failure> {
        Output::open("--json", path).map(JsonOutput)
    }

    /// Prints the text by calling `print` unless standard output carries the JSON, and writes the
    /// JSON if it was requested.
    pub(crate) fn show(
        self,
        print: impl FnOnce(),
        document: &impl Serialize,
    ) -> Result<(), Failure> {
        if !self.0.as_ref().is_some_and(Output::is_standard) {
            print();
        }
        let Some(output) = self.0 else {
            return Ok(());
        };
        let json = serde_json::to_string_pretty(document).map_err(Failure::refused)?;
        output.write(&(json + "\n"))
    }
}

/// Writes the text to an output, if that output was requested.
pub(crate) fn write_output(
    output: Option<Output>,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    output.map_or(Ok(()), |output| output.write(&text()))
}

/// Reports a result that could not be stored.
pub(crate) fn report_lost(error: impl std::fmt::Display) {
    terminal::print_message(error);
    terminal::note_lost_output();
}

/// Rejects outputs that would overwrite each other.
pub(crate) fn check_distinct(outputs: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let given: Vec<_> = outputs
        .iter()
        .filter_map(|(option, path)| Some((*option, (*path)?)))
        .collect();
    for (index, (option, path)) in given.iter().enumerate() {
        let Some((first, _)) = given[..index].iter().find(|(_, other)| other == path) else {
            continue;
        };
        let place = match path.to_str() {
            Some("-") => "standard output".to_owned(),
            _ => path.display().to_string(),
        };
        return Err(Failure::wrong(format!(
            "{first} and {option} can't both be written to {place}; name another file for one of them"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outputs_can_not_share_a_place() {
        let clash = check_distinct(&[
            ("--json", Some(Path::new("-"))),
            ("--csv", Some(Path::new("-"))),
        ]);
        assert_eq!(
            clash.unwrap_err().to_string(),
            "--json and --csv can't both be written to standard output; name another file for one of them"
        );
        let apart = [
            ("--json", Some(Path::new("a"))),
            ("--csv", Some(Path::new("b"))),
            ("--html", None),
        ];
        assert_eq!(check_distinct(&apart), Ok(()));
    }
}
