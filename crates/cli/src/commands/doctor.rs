//! `prony doctor`: looks for reasons why a server, or this machine as a load generator, may be
//! slow.

use prony_load::LoadSettings;
use prony_machine::doctor::{DoctorSubject, examine};
use prony_report::doctor::DoctorDocument;

use crate::arguments::DoctorArgs;
use crate::ending::{Ending, Failure};
use crate::output::JsonOutput;
use crate::terminal;

/// Runs `prony doctor`.
pub(crate) fn run(arguments: &DoctorArgs) -> Result<Ending, Failure> {
    let output = JsonOutput::open(arguments.json.as_deref())?;
    if terminal::is_live() {
        terminal::print_line("Inspecting; this takes a few seconds for each server.");
    }
    let mut others = examine_urls(&arguments.url, arguments.public)?;
    others.extend(examine_interfaces(&arguments.interface)?);
    let mut report = examine(&arguments.pid, arguments.profile).map_err(Failure::wrong)?;
    // The last subject is this machine, so insert the others before it.
    let last = report.subjects.len().saturating_sub(1);
    report.subjects.splice(last..last, others);
    let json = serde_json::to_string(&report).map_err(Failure::refused)?;
    let doctor = DoctorDocument::read(&json).map_err(Failure::refused)?;
    let options = terminal::text_options(true);
    let print = || terminal::print(&prony_report::text::doctor(&doctor, arguments.all, options));
    output.show(print, &report)?;
    Ok(Ending::Done)
}

fn examine_urls(urls: &[String], public: bool) -> Result<Vec<DoctorSubject>, Failure> {
    let examine = |url: &String| {
        let public = public || LoadSettings::from_environment().public;
        prony_machine::doctor::examine_url(url, public).map_err(|error| format!("--url: {error}"))
    };
    let subjects: Result<_, _> = urls.iter().map(examine).collect();
    subjects.map_err(Failure::wrong)
}

fn examine_interfaces(names: &[String]) -> Result<Vec<DoctorSubject>, Failure> {
    let examine = |name: &String| prony_machine::doctor::examine_interface(name);
    let subjects: Result<_, _> = names.iter().map(examine).collect();
    subjects.map_err(Failure::wrong)
}
