//! hey's arguments and lines. What enters are its flags, what leaves its summary or its CSV.

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

use prony_load::{Control, LoadSpec, RunResult, probe};
use prony_record::Outcome;

use self::arguments::{Arguments, Wrong};
use self::failures::{Asked, failures};
use self::options::{Spread, WORDS};
use self::print::{Results, timeline};
use self::watch::{Noted, Watch};
use crate::output::{complain, heed, note, print};
use crate::session::{self, Ending, Refusal, Session, Tick, resolve};

const TOOL: &str = "hey";

/// How often older versions of hey say how many requests are done.
const PROGRESS: Duration = Duration::from_millis(500);

/// How long a server is asked whether it speaks HTTP/2.
const PATIENCE: Duration = Duration::from_secs(5);

/// See [`crate::Tool::run`].
pub(crate) fn run(arguments: &[OsString], session: &Session) -> Ending {
    match Arguments::read(arguments) {
        Ok(arguments) => {
            load(&arguments, session).unwrap_or_else(|refusal| refusal.reworded(WORDS).say(TOOL))
        }
        Err(wrong) => refuse(&wrong),
    }
}

/// Says what is wrong as hey says it.
fn refuse(wrong: &Wrong) -> Ending {
    let usage = usage::usage(std::thread::available_parallelism().map_or(1, |n| n.get()));
    let (text, ending) = match wrong {
        Wrong::Help => (usage, Ending::Done),
        Wrong::Flag(why) => (format!("{why}\n{usage}"), Ending::Wrong),
        Wrong::Load(None) => (format!("{usage}\n"), Ending::Wrong),
        Wrong::Load(Some(why)) => (format!("{why}\n\n{usage}\n"), Ending::Wrong),
    };
    note(&text);
    ending
}

/// How many connections and streams the load needs. Whether the server speaks HTTP/2 has to be
/// known for that: where it is wished for, it is asked once, by a request that changes nothing.
fn spread(arguments: &Arguments) -> Spread {
    let each = Spread::connections(arguments.workers);
    if !(arguments.h2 && arguments.is_tls() && arguments.keepalive) {
        return each;
    }
    let mut question = arguments.options(Spread::connections(1));
    question.method = "HEAD".to_owned();
    (question.body, question.body_file) = (None, None);
    let spec = LoadSpec::resolve(Some(&arguments.url), &question).ok();
    let answer = spec.and_then(|spec| probe(&spec, 0, PATIENCE).ok());
    match answer.and_then(|answer| answer.negotiated.alpn).as_deref() {
        Some("h2") => Spread::streams(arguments.workers),
        _ => each,
    }
}

/// Checks the files that are read and written, before anything is loaded.
fn files(arguments: &Arguments) -> Result<Option<(File, String)>, Refusal> {
    if let Some(body) = &arguments.body_file {
        File::open(body)
            .map_err(|error| Refusal::Wrong(format!("-D: open {}: {error}", body.display())))?;
    }
    let Some(path) = &arguments.timeline else {
        return Ok(None);
    };
    let name = path.display().to_string();
    match File::create(path) {
        Ok(file) => Ok(Some((file, name))),
        Err(error) => Err(Refusal::Environment(format!("-timeline {name}: {error}"))),
    }
}

fn load(arguments: &Arguments, session: &Session) -> Result<Ending, Refusal> {
    for remark in &arguments.notes {
        complain(TOOL, remark);
    }
    let timeline_file = files(arguments)?;
    let spec = resolve(Some(&arguments.url), &arguments.options(spread(arguments)))?;
    let watch = Watch::new(arguments.csv, arguments.until(), arguments.workers);
    let tells = arguments.progress && !arguments.csv;
    let mut told = 0;
    let mut tell = |_, control: &Control| {
        let (done, _) = control.counts();
        if done > told {
            told = done;
            print(&format!("{done} requests done.\n"));
        }
    };
    let tick = tells.then_some(Tick {
        every: PROGRESS,
        call: &mut tell,
    });
    let loaded = session::run(session, &spec, Some(&watch), tick)?;
    if let Some((mut file, name)) = timeline_file {
        let written = file.write_all(timeline(&loaded.record.series).as_bytes());
        written.map_err(|error| Refusal::Environment(format!("{name}: {error}")))?;
    }
    Ok(report(arguments, session, &loaded, watch.noted()))
}

/// Prints the results.
fn report(arguments: &Arguments, session: &Session, loaded: &RunResult, noted: Noted) -> Ending {
    let asked = Asked {
        method: &arguments.method,
        url: &arguments.url,
        proxy: arguments.proxy.as_ref().map(|proxy| proxy.address.as_str()),
    };
    let is_interrupted = session.stop.is_asked();
    let took_s = loaded.record.totals.elapsed_s;
    let results = Results {
        total_s: match is_interrupted {
            true => took_s,
            false => took_s.max(arguments.schedule_s()),
        },
        times: loaded.recorder.response_time().buckets().collect(),
        statuses: loaded.recorder.statuses().collect(),
        failures: failures(&noted, asked),
        noted,
    };
    if arguments.csv {
        heed(results.write_csv(&mut BufWriter::new(std::io::stdout().lock())));
        if !results.failures.is_empty() {
            complain(
                TOOL,
                &format!("not among the lines: {}", results.failures()),
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
            &format!("{unstarted} requests were due by -q and not begun: no worker was free"),
        );
    }
    match results.noted.answers {
        _ if is_interrupted => Ending::Interrupted,
        0 => Ending::Failed,
        _ => Ending::Done,
    }
}
