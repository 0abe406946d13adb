//! `prony init`: writes a commented plan as a starting point, and a JSON schema that lets editors
//! complete its keys.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::arguments::InitArgs;
use crate::commands::manual::plan_reference;
use crate::ending::{Ending, Failure};
use crate::terminal;

/// Name of the schema file next to the plan.
const SCHEMA_FILE: &str = "plan.schema.json";

/// Runs `prony init`. Never overwrites an existing plan.
pub(crate) fn run(arguments: &InitArgs) -> Result<Ending, Failure> {
    if arguments.schema {
        terminal::print(&plan_reference::schema());
        return Ok(Ending::Done);
    }
    if arguments.reference {
        terminal::print(&plan_reference::markdown());
        return Ok(Ending::Done);
    }
    if arguments.file == Path::new("-") {
        terminal::print(prony_plan::STARTER);
        return Ok(Ending::Done);
    }
    let name = arguments.file.display().to_string();
    let mut file = File::create_new(&arguments.file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::wrong(format!(
            "{name} already exists (name another file, or remove it first)"
        )),
        _ => Failure::file(&name, &error),
    })?;
    let schema = if arguments.no_schema {
        None
    } else {
        Some(write_schema(&arguments.file)?)
    };
    // Editors look for the schema directive in the first line.
    let directive = match schema {
        Some(_) => format!("#:schema ./{SCHEMA_FILE}\n"),
        None => String::new(),
    };
    file.write_all(format!("{directive}{}", prony_plan::STARTER).as_bytes())
        .map_err(|error| Failure::refused(format!("{name}: {error}")))?;
    let schema = schema.map(|file| format!(" ({file} lets editors complete the plan's keys)"));
    let steps = [
        (format!("prony compare {name} --dry-run"), "check it"),
        (format!("prony compare {name}"), "run it"),
        ("prony man plan".to_owned(), "read about every key"),
    ];
    let width = steps.iter().map(|(command, _)| command.chars().count());
    let width = width.max().unwrap_or_default();
    terminal::print(&format!(
        "wrote {name}{}. Next:\n",
        schema.unwrap_or_default()
    ));
    for (command, purpose) in steps {
        terminal::print(&format!("  {command:<width$}   {purpose}\n"));
    }
    Ok(Ending::Done)
}

/// Writes the schema into the plan's folder, replacing an older one, and returns its name.
fn write_schema(plan: &Path) -> Result<String, Failure> {
    let path = plan.with_file_name(SCHEMA_FILE);
    let name = path.display().to_string();
    std::fs::write(&path, plan_reference::schema())
        .map_err(|error| Failure::file(&name, &error))?;
    Ok(name)
}
