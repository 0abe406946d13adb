//! Generates completion scripts and manual pages from the definition of the command line.

pub(crate) mod findings_reference;
mod markdown_page;
pub(crate) mod plan_reference;

use std::fs;
use std::path::{Path, PathBuf};

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments::{CompletionsArgs, ManArgs};
use crate::ending::{self, Ending, Failure};
use crate::output::replaced_file;
use crate::parsing::command;
use crate::terminal;

/// Commands whose manual lists all exit statuses.
const WITH_STATUSES: [&str; 7] = [
    "prony", "load", "capacity", "compare", "bisect", "report", "study",
];

/// Commands whose manual describes the folder `prony-runs`.
const WITH_RUNS: [&str; 5] = ["prony", "compare", "demo", "study", "runs"];

/// Prints a completion script.
pub(crate) fn completions(arguments: &CompletionsArgs) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "prony", &mut script);
    terminal::print(&String::from_utf8_lossy(&script));
    Ending::Done
}

/// Manual pages about topics that aren't commands, with their sections of the manual.
const TOPICS: [(&str, &str); 2] = [("plan", "5"), ("findings", "7")];

/// Prints a manual page, such as prony(1), prony-load(1) or prony-runs-prune(1), or installs all.
pub(crate) fn man(arguments: &ManArgs) -> Result<Ending, Failure> {
    if let Some(folder) = &arguments.install {
        return install_pages(folder.as_deref());
    }
    let page = match arguments.command.as_slice() {
        [topic] if TOPICS.iter().any(|(name, _)| name == topic) => {
            if arguments.markdown {
                topic_markdown(topic)
            } else {
                topic_page(topic)
            }
        }
        words => command_page(&find_command(words)?)?,
    };
    terminal::print(&page);
    Ok(Ending::Done)
}

/// Writes all manual pages to `folder`, in one folder for each section of the manual.
fn install_pages(folder: Option<&Path>) -> Result<Ending, Failure> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => default_folder().ok_or_else(|| {
            Failure::wrong("--install: HOME is not set; name a folder: --install DIR")
        })?,
    };
    let mut pages = Vec::new();
    let mut root = command();
    root.build();
    command_pages(&root, &mut pages)?;
    for (topic, section) in TOPICS {
        let file = format!("man{section}/prony-{topic}.{section}");
        pages.push((file, topic_page(topic)));
    }
    for (file, page) in &pages {
        let path = folder.join(file);
        let failed = |error| Failure::file(format!("--install {}", path.display()), &error);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(failed)?;
        replaced_file::replace(&path, page.as_bytes()).map_err(failed)?;
    }
    terminal::print_message(format_args!(
        "{} manual pages are now in {folder}; read them with `man prony`, or with `man -M \
         {folder} prony` if man doesn't look there",
        pages.len(),
        folder = folder.display(),
    ));
    Ok(Ending::Done)
}

/// Returns the folder of manual pages that belongs to the program. For a program in `bin`, man
/// looks in `share/man` next to it.
fn default_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let bin = program.as_deref().and_then(Path::parent);
    match bin
        .filter(|bin| bin.ends_with("bin"))
        .and_then(Path::parent)
    {
        Some(prefix) => Some(prefix.join("share/man")),
        None => std::env::home_dir().map(|home| home.join(".local/share/man")),
    }
}

/// Adds the page of a command and those of its subcommands, each with the name of its file.
fn command_pages(page: &clap::Command, pages: &mut Vec<(String, String)>) -> Result<(), Failure> {
    let title = page.get_display_name().unwrap_or(page.get_name());
    pages.push((format!("man1/{title}.1"), command_page(page)?));
    let subcommands = page.get_subcommands();
    for subcommand in subcommands.filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
        command_pages(subcommand, pages)?;
    }
    Ok(())
}

fn topic_markdown(topic: &str) -> String {
    match topic {
        "plan" => plan_reference::MANUAL.to_owned(),
        _ => findings_reference::markdown(),
    }
}

fn topic_page(topic: &str) -> String {
    let section = TOPICS.iter().find(|(name, _)| *name == topic);
    let section = section.map_or("7", |(_, section)| section);
    let about = match topic {
        "plan" => "the file that describes an experiment",
        _ => "observations that qualify a result",
    };
    let source = concat!("prony ", env!("CARGO_PKG_VERSION"));
    let mut roff = Roff::new();
    let title = format!("prony-{topic}");
    roff.control("TH", [title.as_str(), section, "", source, "prony"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("prony-{topic} - {about}"))]);
    markdown_page::write_roff(&topic_markdown(topic), &mut roff);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("prony"), roman("(1)")]);
    roff.render()
}

/// Finds the command that `words` name.
fn find_command(words: &[String]) -> Result<clap::Command, Failure> {
    let mut page = command();
    page.build();
    for name in words {
        let found = page.find_subcommand(name);
        let found = found.filter(|found| found.get_name() != "help").cloned();
        page = found.ok_or_else(|| {
            let parent = page.get_bin_name().unwrap_or("prony");
            Failure::wrong(format!("{parent} has no command \"{name}\""))
        })?;
    }
    Ok(page)
}

fn command_page(page: &clap::Command) -> Result<String, Failure> {
    let page = command_roff(page).map(|page| String::from_utf8_lossy(&page).into_owned());
    let page = page.map_err(|error| Failure::refused(format!("manual page: {error}")))?;
    // Each rendered section starts with a macro that defines an apostrophe. Keep only the first of
    // these macros.
    let begins = page.find(".TH").unwrap_or(0);
    let (preamble, rest) = page.split_at(begins);
    let rest = if preamble.is_empty() {
        rest.to_owned()
    } else {
        rest.replace(preamble, "")
    };
    Ok(format!("{preamble}{rest}"))
}

fn command_roff(page: &clap::Command) -> std::io::Result<Vec<u8>> {
    let title = page
        .get_display_name()
        .unwrap_or(page.get_name())
        .to_owned();
    let after = page.get_after_help().map(ToString::to_string);
    let man = Man::new(page.clone())
        .title(&title)
        .source(concat!("prony ", env!("CARGO_PKG_VERSION")))
        .manual("prony");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    let mut roff = Roff::new();
    let after = sections(after.as_deref().unwrap_or_default());
    for text in &after.notes {
        roff.control("PP", []);
        push_lines(&mut roff, text);
    }
    roff.to_writer(&mut out)?;
    if page.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if page.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    push_examples(&mut roff, &after.examples);
    push_statuses(&mut roff, page.get_name());
    push_environment(&mut roff, page);
    push_files(&mut roff, page.get_name());
    push_see_also(&mut roff, &title, page);
    roff.to_writer(&mut out)?;
    Ok(out)
}

/// The text that follows the options on a help page, split into notes and examples.
#[derive(Debug, Default, PartialEq)]
struct HelpSections {
    /// Paragraphs of explanation.
    notes: Vec<String>,
    /// Example commands and their descriptions.
    examples: Vec<String>,
}

fn sections(text: &str) -> HelpSections {
    let mut sections = HelpSections::default();
    for paragraph in text
        .split("\n\n")
        .filter(|paragraph| !paragraph.trim().is_empty())
    {
        if paragraph.starts_with("Exit status:") {
            continue;
        }
        match paragraph
            .strip_prefix("Examples:")
            .or(paragraph.strip_prefix("Example:"))
        {
            Some(examples) => {
                let lines = examples
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty());
                sections.examples.extend(lines.map(str::to_owned));
            }
            None => sections.notes.push(paragraph.to_owned()),
        }
    }
    sections
}

/// Adds a paragraph. Indented lines stay on separate lines.
fn push_lines(roff: &mut Roff, text: &str) {
    for line in text.lines() {
        if line.starts_with("  ") {
            roff.control("br", []);
        }
        roff.text([roman(line.trim())]);
    }
}

fn push_examples(roff: &mut Roff, examples: &[String]) {
    if examples.is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]);
    for example in examples {
        // Two or more spaces separate a command from its description in help texts.
        let (command, does) = example.split_once("  ").unwrap_or((example, ""));
        roff.control("TP", []);
        roff.text([bold(command)]);
        roff.text([roman(does.trim())]);
    }
}

fn push_statuses(roff: &mut Roff, name: &str) {
    if !WITH_STATUSES.contains(&name) {
        return;
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in ending::STATUSES {
        roff.control("TP", []);
        roff.text([bold(status)]);
        roff.text([roman(meaning)]);
    }
}

fn push_environment(roff: &mut Roff, page: &clap::Command) {
    let mut variables: Vec<(String, String)> = Vec::new();
    collect_variables(page, &mut variables);
    variables.push((
        "NO_COLOR".to_owned(),
        "If set and not empty, output has no colors.".to_owned(),
    ));
    if ["prony", "runs", "open"].contains(&page.get_name()) {
        let browser = "The program that `prony runs open` uses to show a report.";
        variables.push(("BROWSER".to_owned(), browser.to_owned()));
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in variables {
        roff.control("TP", []);
        roff.text([bold(name)]);
        roff.text([roman(meaning)]);
    }
}

fn collect_variables(page: &clap::Command, variables: &mut Vec<(String, String)>) {
    for arg in page.get_arguments() {
        let (Some(name), Some(option)) = (arg.get_env(), arg.get_long()) else {
            continue;
        };
        let name = name.to_string_lossy().into_owned();
        if !variables.iter().any(|(known, _)| *known == name) {
            variables.push((name, format!("Default for --{option}.")));
        }
    }
    for subcommand in page.get_subcommands() {
        collect_variables(subcommand, variables);
    }
}

fn push_files(roff: &mut Roff, name: &str) {
    if !WITH_RUNS.contains(&name) {
        return;
    }
    roff.control("SH", ["FILES"]);
    roff.control("TP", []);
    roff.text([bold("prony-runs/")]);
    roff.text([roman(
        "Experiment runs, each in a folder with its plan, its trials, verdict.json and reports; \
            and the names given with `prony runs name`.",
    )]);
}

fn push_see_also(roff: &mut Roff, title: &str, page: &clap::Command) {
    let mut pages: Vec<String> = Vec::new();
    if let Some((parent, _)) = title.rsplit_once('-') {
        pages.push(parent.to_owned());
    }
    let subcommands = page
        .get_subcommands()
        .filter(|one| one.get_name() != "help");
    pages.extend(subcommands.map(|one| format!("{title}-{}", one.get_name())));
    if pages.is_empty() {
        return;
    }
    roff.control("SH", ["SEE ALSO"]);
    let last = pages.len() - 1;
    for (index, page) in pages.iter().enumerate() {
        let end = if index == last { "(1)" } else { "(1)," };
        roff.text([bold(page), roman(end)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_below_a_help_is_sorted_into_sections() {
        let text =
            "Notes\nof two lines.\n\nExamples:\n  prony a    does b\n  prony c\n\nExit status: 0.";
        let expected = HelpSections {
            notes: vec!["Notes\nof two lines.".to_owned()],
            examples: vec!["prony a    does b".to_owned(), "prony c".to_owned()],
        };
        assert_eq!(sections(text), expected);
    }
}
