//! `prony init`: a commented plan to start from.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use prony_experiment::plan;

use crate::arguments::InitArgs;
use crate::ending::{Ending, Failure};
use crate::terminal;

/// Writes the plan, and never over another.
pub(crate) fn run(typed: &InitArgs) -> Result<Ending, Failure> {
    if typed.file == Path::new("-") {
        terminal::print(plan::STARTER);
        return Ok(Ending::Done);
    }
    let name = typed.file.display().to_string();
    let mut file = File::create_new(&typed.file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::wrong(format!("{name} is there already; name another file"))
        }
        _ => Failure::file(&name, &error),
    })?;
    file.write_all(plan::STARTER.as_bytes())
        .map_err(|error| Failure::refused(format!("{name}: {error}")))?;
    terminal::print(&format!(
        "{name} is written. Next:\n  prony compare {name} --dry-run   checks it\n  \
         prony compare {name}             runs it\n"
    ));
    Ok(Ending::Done)
}
