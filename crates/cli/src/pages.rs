//! Completion scripts and manual pages, made from the command line's own description.

use crate::arguments::{CompletionsArgs, ManArgs};
use crate::ending::{Ending, Failure};
use crate::parsing::command;
use crate::terminal;

/// Prints a completion script.
pub(crate) fn completions(typed: &CompletionsArgs) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(typed.shell, &mut command(), "prony", &mut script);
    terminal::print(&String::from_utf8_lossy(&script));
    Ending::Done
}

/// Prints a manual page: prony(1), or prony-load(1) and the like.
pub(crate) fn man(typed: &ManArgs) -> Result<Ending, Failure> {
    let mut whole = command();
    whole.build();
    let page = match &typed.command {
        None => whole,
        Some(name) => whole
            .find_subcommand(name)
            .filter(|found| found.get_name() != "help")
            .ok_or_else(|| Failure::wrong(format!("prony has no command \"{name}\"")))?
            .clone(),
    };
    let name = page
        .get_display_name()
        .unwrap_or(page.get_name())
        .to_owned();
    let mut roff = Vec::new();
    clap_mangen::Man::new(page)
        .title(name)
        .render(&mut roff)
        .map_err(|error| Failure::refused(format!("the manual page: {error}")))?;
    terminal::print(&String::from_utf8_lossy(&roff));
    Ok(Ending::Done)
}
