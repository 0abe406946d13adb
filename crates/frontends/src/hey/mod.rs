//! Emulates hey. Input: hey's flags. Output: hey's summary or CSV.

mod arguments;
mod failures;
mod flags;
mod options;
mod print;
mod url;
mod usage;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use prony_load::{Control, RunResult, SettingsError, SpecError, check_request};
use prony_record::Outcome;

use self::arguments::{HeyArguments, HeyError};
use self::failures::{FailedRequestInfo, failures};
use self::flags::FlagError;
pub(crate) use self::options::NOTATION;
use self::options::RequestDistribution;
use self::print::{HeyResults, timeline};
use self::watch::{CollectedRequests, HeyWatch};
use crate::output::{complain, print, print_error, record_write};
use crate::session::{
    self, PeriodicCallback, ToolEnding, ToolSession, file_error, resolve_literal,
};
use crate::tool::Tool;

const TOOL: &str = "hey";

/// Interval at which the line `N requests done.` is printed, as in older versions of hey.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Timeout of the request that detects HTTP/2.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs hey's front end; see [`crate::Tool::run`].
pub(crate) fn run(arguments: &[OsString], session: &ToolSession) -> ToolEnding {
    match HeyArguments::read(arguments) {
        Ok(arguments) => run_load(&arguments, session)
            .unwrap_or_else(|error| session::report_error(&error, Tool::Hey)),
        Err(wrong) => report_error(&wrong),
    }
}

/// Reports invalid arguments as hey does.
fn report_error(wrong: &HeyError) -> ToolEnding {
    let usage = usage::usage(std::thread::available_parallelism().map_or(1, |n| n.get()));
    let (text, ending) = match wrong {
        HeyError::Flag(FlagError::Help) => (usage, ToolEnding::Done),
        HeyError::Flag(why) => (format!("{why}\n{usage}"), ToolEnding::Wrong),
        HeyError::Load(None) => (format!("{usage}\n"), ToolEnding::Wrong),
        HeyError::Load(Some(why)) => (format!("{why}\n\n{usage}\n"), ToolEnding::Wrong),
    };
    print_error(&text);
    ending
}

/// Distributes the workers over connections and streams. With `-h2`, sends one HEAD request to
/// detect whether the server supports HTTP/2.
fn spread(arguments: &HeyArguments) -> RequestDistribution {
    let each = RequestDistribution::connections(arguments.workers);
    if !(arguments.h2 && arguments.is_tls() && arguments.keepalive) {
        return each;
    }
    let mut question = arguments.options(RequestDistribution::connections(1));
    question.method = Some("HEAD".to_owned());
    (question.body, question.body_file) = (None, None);
    let spec = resolve_literal(&arguments.url, &question).ok();
    let response = spec.and_then(|spec| check_request(&spec, 0, CHECK_TIMEOUT).ok());
    match response
        .and_then(|response| response.negotiated.alpn)
        .as_deref()
    {
        Some("h2") => RequestDistribution::streams(arguments.workers),
        _ => each,
    }
}

/// Opens the input and output files, so that errors are reported before the load.
fn open_files(arguments: &HeyArguments) -> Result<Option<(File, String)>, SpecError> {
    if let Some(body) = &arguments.body_file {
        File::open(body).map_err(|error| {
            SettingsError::from(format!("open {}: {error}", body.display())).at("-D")
        })?;
    }
    let Some(path) = &arguments.timeline else {
        return Ok(None);
    };
    let name = path.display().to_string();
    match File::create(path) {
        Ok(file) => Ok(Some((file, name))),
        Err(error) => Err(file_error(&format!("-timeline {name}"), &error)),
    }
}

fn run_load(arguments: &HeyArguments, session: &ToolSession) -> Result<ToolEnding, SpecError> {
    for remark in &arguments.notes {
        complain(TOOL, remark);
    }
    let timeline_file = open_files(arguments)?;
    let mut spec = resolve_literal(&arguments.url, &arguments.options(spread(arguments)))?;
    if arguments.redirects {
        // hey stops with an error after 10 redirects.
        spec.fail_redirects_beyond_limit();
    }
    let watch = HeyWatch::new(arguments.csv, arguments.until(), arguments.workers);
    let shows_progress = arguments.progress && !arguments.csv;
    let mut printed = 0;
    let mut print_progress = |_, control: &Control| {
        let (done, _) = control.counts();
        if done > printed {
            printed = done;
            print(&format!("{done} requests done.\n"));
        }
    };
    let tick = shows_progress.then_some(PeriodicCallback {
        every: PROGRESS_INTERVAL,
        call: &mut print_progress,
    });
    let loaded = session::run_load(session, &spec, Some(&watch), tick)?;
    if let Some((mut file, name)) = timeline_file {
        let written = file.write_all(timeline(&loaded.record.series).as_bytes());
        written.map_err(|error| file_error(&name, &error))?;
    }
    Ok(report_results(arguments, session, &loaded, watch.noted()))
}

/// Prints the results.
fn report_results(
    arguments: &HeyArguments,
    session: &ToolSession,
    loaded: &RunResult,
    noted: CollectedRequests,
) -> ToolEnding {
    let asked = FailedRequestInfo {
        method: &arguments.method,
        url: &arguments.url,
        proxy: arguments.proxy.as_ref().map(|proxy| proxy.address.as_str()),
    };
    let is_interrupted = session.stop.is_asked();
    let took_s = loaded.record.totals.elapsed_s;
    let results = HeyResults {
        total_s: if is_interrupted {
            took_s
        } else {
            took_s.max(arguments.schedule_s())
        },
        times: loaded.recorder.response_time().clone(),
        statuses: loaded.recorder.statuses().collect(),
        failures: failures(&noted, asked),
        noted,
    };
    if arguments.csv {
        record_write(results.write_csv(&mut BufWriter::new(std::io::stdout().lock())));
        if !results.failures.is_empty() {
            complain(
                TOOL,
                &format!(
                    "failed requests, which are not in the CSV: {}",
                    results.failures()
                ),
            );
        }
    } else {
        if arguments.progress && !is_interrupted {
            print("All requests done.\n");
        }
        print(&results.summary());
    }
    let unstarted = loaded.recorder.outcomes().get(Outcome::Unstarted);
    if unstarted > 0 && !is_interrupted {
        complain(
            TOOL,
            &format!(
                "{unstarted} requests were due according to -q but not started, because no worker was free"
            ),
        );
    }
    session.ending(results.noted.response.count() > 0)
}
