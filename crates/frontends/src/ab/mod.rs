//! Emulates ab's arguments and output. docs/front-ends.md lists the differences from Apache's ab.

mod arguments;
mod banner;
mod files;
mod html;
mod load;
mod report;
mod request;
mod secured;
mod tally;
mod text;
mod times;
mod trace;
mod url;

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use prony_load::input_file::{self, DATA_BYTES_MAX};
use prony_load::{LoadSpec, RunResult, SettingsError, SpecError};
use prony_record::FindingId;

use crate::local_time::LocalTime;
use crate::output::{complain, print, print_error};
use crate::session::{self, PeriodicCallback, ToolEnding, ToolSession, resolve_literal, run_load};
use crate::tool::Tool;

use arguments::{AbArguments, AbArgumentsError, AbCommand};
use files::ResultFile;
pub(crate) use load::NOTATION;
use report::AbReport;
use request::Http10Request;
use tally::{AbTally, AbWatch, FirstResponse};
use text::ReportParts;
use trace::VerboseTrace;

/// ab's exit status for an invalid command (EINVAL).
const WRONG_COMMAND: ToolEnding = ToolEnding::Status(22);
/// ab's exit status for an invalid value.
const WRONG_VALUE: ToolEnding = ToolEnding::Status(1);
/// Interval at which the progress is checked.
const PROGRESS_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs ab's front end; see [`crate::Tool::run`].
pub(crate) fn run(words: &[OsString], session: &ToolSession) -> ToolEnding {
    match arguments::parse(words) {
        Ok(AbCommand::Version) => {
            print(&banner::banner(None));
            ToolEnding::Done
        }
        Ok(AbCommand::Usage) => {
            print_error(banner::USAGE);
            WRONG_COMMAND
        }
        Ok(AbCommand::Load(arguments)) => {
            perform(&arguments, session).unwrap_or_else(|error_of| report_error(&error_of))
        }
        Err(error_of) => report_error(&error_of),
    }
}

fn report_error(error_of: &AbArgumentsError) -> ToolEnding {
    match error_of {
        AbArgumentsError::Usage(error) => {
            complain("ab", &error.to_string());
            print_error(banner::USAGE);
            WRONG_COMMAND
        }
        AbArgumentsError::Value(error) => {
            complain("ab", &error.to_string());
            WRONG_VALUE
        }
        AbArgumentsError::Refused(error) => session::report_error(error, Tool::Ab),
    }
}

/// Everything that a run needs, including its output files.
struct PreparedRun {
    written: Http10Request,
    spec: LoadSpec,
    csv: Option<ResultFile>,
    gnuplot: Option<ResultFile>,
}

impl PreparedRun {
    /// Reads and opens all files and looks up all names, so that errors occur before the load
    /// starts.
    fn prepare(arguments: &AbArguments) -> Result<PreparedRun, AbArgumentsError> {
        let body = match &arguments.body_file {
            Some(path) => input_file::read_file(path, DATA_BYTES_MAX).map_err(|error| {
                let place = format!("Could not open POST data file ({})", path.display());
                AbArgumentsError::Value(SettingsError::from(error.to_string()).at(place))
            })?,
            None => Vec::new(),
        };
        let written = Http10Request::new(arguments, body);
        let options = load::engine_settings(arguments);
        let mut spec = resolve_literal(&arguments.url.root(), &options)?;
        let request = spec.writer().raw(&arguments.method, written.bytes());
        spec.send_only(&request);
        let create = |path: &Option<PathBuf>| {
            let file = path.as_deref().map(ResultFile::create).transpose();
            file.map_err(AbArgumentsError::Value)
        };
        Ok(PreparedRun {
            written,
            spec,
            csv: create(&arguments.csv)?,
            gnuplot: create(&arguments.gnuplot)?,
        })
    }

    /// Writes the output files that `-e` and `-g` name.
    fn leave(&mut self, report: &AbReport, began: SystemTime) -> Result<(), SettingsError> {
        if let Some(file) = &mut self.csv {
            file.write(&files::csv(&report.tally.times.total))?;
        }
        if let Some(file) = &mut self.gnuplot {
            file.write(&files::gnuplot(&report.tally.rows, began, LocalTime::of))?;
        }
        Ok(())
    }
}

/// Runs a load and prints its report.
fn perform(arguments: &AbArguments, session: &ToolSession) -> Result<ToolEnding, AbArgumentsError> {
    let mut run = PreparedRun::prepare(arguments)?;
    print(&banner::banner(arguments.html.as_ref()));
    let schedule = ProgressSchedule::of(arguments);
    if arguments.html.is_none() {
        print(&announcement(arguments, &schedule));
    }
    let trace = VerboseTrace::new(arguments.verbosity);
    trace.request(&arguments.method, &run.written);
    let watch = AbWatch::new(arguments);
    wait_until(arguments.start_at, session)?;

    let mut printed = 0;
    let tick = PeriodicCallback {
        every: PROGRESS_POLL_INTERVAL,
        call: &mut |_, control| schedule.print(control.counts().0, &mut printed),
    };
    let began = SystemTime::now();
    let loaded = run_load(session, &run.spec, Some(&watch), Some(tick))?;
    let tally = watch.take();
    schedule.print(tally.complete, &mut printed);
    let is_interrupted = session.stop.is_asked();
    schedule.finish(tally.complete, is_interrupted);
    trace.agreed(&loaded.record.negotiated);

    let report = report_of(arguments, &loaded, watch.first(), tally);
    print(&match &arguments.html {
        Some(attributes) => html::html_report(&report, attributes),
        None => text::text_report(&report, ReportParts::of(arguments)),
    });
    run.leave(&report, began).map_err(AbArgumentsError::Value)?;
    let mut findings = loaded.record.findings.iter();
    if let Some(errors) = findings.find(|finding| finding.id == FindingId::Errors) {
        complain("ab", &errors.text);
    }
    Ok(session.ending(report.tally.failed.all() < report.tally.complete))
}

/// Returns the line that is printed before the load. Progress messages follow on the same line.
fn announcement(arguments: &AbArguments, schedule: &ProgressSchedule) -> String {
    let through = match &arguments.proxy {
        Some(proxy) => format!("[through {}:{}] ", proxy.host, proxy.port),
        None => String::new(),
    };
    let end = if schedule.every.is_some() {
        "\n"
    } else {
        "..."
    };
    format!(
        "Benchmarking {} {through}(be patient){end}",
        arguments.url.host
    )
}

/// Waits until the time given with `--start-at`, with which several runs can be started together.
fn wait_until(moment: Option<SystemTime>, session: &ToolSession) -> Result<(), AbArgumentsError> {
    let Some(moment) = moment else {
        return Ok(());
    };
    let left = || moment.duration_since(SystemTime::now());
    if let Err(past) = left() {
        let ago = past.duration().as_secs_f64();
        let error = SettingsError::from(format!("that time was {ago:.1} s ago"));
        let error = error.hint("nothing was run").at("--start-at");
        return Err(AbArgumentsError::Value(error));
    }
    while let Ok(left) = left() {
        if session.stop.is_asked() {
            break;
        }
        thread::sleep(left.min(PROGRESS_POLL_INTERVAL));
    }
    Ok(())
}

/// Schedule of progress messages.
struct ProgressSchedule {
    /// Number of requests between messages, or `None` for no messages.
    every: Option<u64>,
}

impl ProgressSchedule {
    /// Returns a schedule with a message after each tenth of the requests, but no more than one
    /// message per hundred requests. Small loads have no messages.
    fn of(arguments: &AbArguments) -> ProgressSchedule {
        let every = (arguments.requests / 10).max(100);
        ProgressSchedule {
            every: (!arguments.quiet && arguments.requests > 150).then_some(every),
        }
    }

    /// Prints the messages that are due after `done` requests. `printed` is the number of requests
    /// in the last message so far.
    fn print(&self, done: u64, printed: &mut u64) {
        let Some(every) = self.every else {
            return;
        };
        while *printed + every <= done {
            *printed += every;
            print_error(&format!("Completed {printed} requests\n"));
        }
    }

    /// Prints the last progress message.
    fn finish(&self, done: u64, is_interrupted: bool) {
        match self.every {
            _ if is_interrupted => {}
            Some(_) => print_error(&format!("Finished {done} requests\n")),
            None => print("..done\n"),
        }
    }
}

fn report_of(
    arguments: &AbArguments,
    loaded: &RunResult,
    first: Option<&FirstResponse>,
    tally: AbTally,
) -> AbReport {
    let totals = &loaded.record.totals;
    let length = arguments.expected_size.or(first.map(|first| first.length));
    let went_wrong = tally.successful < tally.complete || arguments.expected_size.is_some();
    let is_tls = arguments.url.is_tls;
    AbReport {
        software: first.map(|first| first.server.clone()).unwrap_or_default(),
        host: arguments.url.host.clone(),
        port: arguments.url.port,
        tls: is_tls.then(|| secured::tls_of(&loaded.record.negotiated, arguments)),
        path: arguments.url.path.clone(),
        length: (!arguments.any_length).then_some(length.unwrap_or_default()),
        concurrency: arguments.concurrency,
        seconds: totals.elapsed_s,
        shows_successful: went_wrong,
        keepalive: arguments.keepalive,
        bytes_in: totals.bytes_in,
        body_bytes_in: totals.body_bytes_in,
        bytes_out: arguments.body_file.is_some().then_some(totals.bytes_out),
        tally,
    }
}

impl ReportParts {
    fn of(arguments: &AbArguments) -> ReportParts {
        ReportParts {
            percentages: arguments.percentages,
            deviations: arguments.deviations,
        }
    }
}

impl From<SpecError> for AbArgumentsError {
    fn from(error: SpecError) -> AbArgumentsError {
        AbArgumentsError::Refused(error)
    }
}
