//! `prony steps`: turns requests that a browser recorded into the steps of a journey.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use prony_frontends::recorded;
use prony_load::input_file;
use prony_record::number;

use crate::arguments::StepsArgs;
use crate::ending::{Ending, Failure};
use crate::terminal;

/// Maximum size of the recorded requests, in bytes.
const RECORDED_BYTES_MAX: u64 = 256 << 20;

/// Runs `prony steps`. Never overwrites a file.
pub(crate) fn run(arguments: &StepsArgs) -> Result<Ending, Failure> {
    let is_stream = |path: &Path| path == Path::new("-");
    let (from, shown) = if is_stream(&arguments.recorded) {
        (Path::new("/dev/stdin"), "standard input".to_owned())
    } else {
        let path = arguments.recorded.as_path();
        (path, path.display().to_string())
    };
    let bytes = input_file::read_file(from, RECORDED_BYTES_MAX)
        .map_err(|error| Failure::wrong(format!("{shown}: {error}")))?;
    let text =
        input_file::decode(bytes).map_err(|error| Failure::wrong(format!("{shown}: {error}")))?;
    let recorded =
        recorded::steps(&text).map_err(|error| Failure::wrong(format!("{shown}: {error}")))?;
    let is_printed = is_stream(&arguments.file);
    let name = if is_printed {
        "journey.toml".to_owned()
    } else {
        arguments.file.display().to_string()
    };
    let steps = recorded::steps_text(&recorded, &name);
    if is_printed {
        terminal::print(&steps);
        return Ok(Ending::Done);
    }
    let mut file = File::create_new(&arguments.file).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::wrong(format!(
            "{name} already exists (name another file, or remove it first)"
        )),
        _ => Failure::file(&name, &error),
    })?;
    file.write_all(steps.as_bytes())
        .map_err(|error| Failure::refused(format!("{name}: {error}")))?;
    terminal::print(&format!(
        "wrote {name} with {}. Edit it, then:\n  prony load --steps {name} {}\n",
        number::plural(recorded.steps.len() as u64, "step", "steps"),
        recorded.server
    ));
    Ok(Ending::Done)
}
