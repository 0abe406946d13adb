//! Recorded traffic: the requests of a log, and the times at which they are sent again.
//!
//! ```text
//! file ─► lines, or entries of a HAR file ─► LoggedRequest ─► due time ─► DueRequest
//! ```
//!
//! A log is read from its beginning to its end, in constant memory. Nothing here uses a clock.

mod format;
mod json;
mod lines;
mod logged;
mod stamp;
mod timeline;

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use prony_record::Nanos;

use self::format::LogFormat;
use self::lines::LineReader;
pub(crate) use self::logged::{LoggedRequest, SkipReason};
use self::timeline::{GROUP_MAX, Place, Timeline};
use crate::settings::{LoadSettings, ReplayTiming};
use crate::values::error::SettingsError;

/// Number of lines in which the first request must be found.
const FIRST_LINES_MAX: u64 = 1_000;
/// Number of lines from which the format of a log is determined.
const SAMPLE_LINES: u64 = 100;
/// Number of bytes from which the kind of a file is determined.
const BEGINNING_BYTES: u64 = 1_024;
/// Maximum number of bytes of the requests that are spread over a second together.
const GROUP_BYTES_MAX: usize = 6 << 20;
/// Number of numbers of skipped lines that are kept for each reason.
const KEPT_NUMBERS: usize = 5;

/// A log to be replayed.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    path: PathBuf,
    format: FileFormat,
    /// Methods that are sent.
    methods: Vec<String>,
    timing: ReplayTiming,
    /// Maximum number of requests.
    limit: u64,
    /// The first request that can be sent: its form and its path.
    first: (u32, String),
}

#[derive(Debug, Clone)]
enum FileFormat {
    Lines(LogFormat),
    JsonLines,
    Har,
}

/// Form of a request that the server of the log did not refuse, or did refuse (status 400 to 499).
/// The forms of a method follow each other.
const FORMS_PER_METHOD: usize = 2;

impl Replay {
    /// Opens the log of the settings, and looks for its format and its first request.
    ///
    /// # Errors
    ///
    /// The file can't be read, or has no request that can be sent.
    pub(crate) fn resolve(settings: &LoadSettings) -> Result<Option<Replay>, SettingsError> {
        let Some(path) = &settings.replay else {
            return Ok(None);
        };
        let of_file = |text: String| SettingsError::value("replay", path.display()).text(text);
        let mut replay = Replay {
            path: path.clone(),
            format: FileFormat::JsonLines,
            methods: methods(settings)?,
            timing: settings.replay_timing(),
            limit: settings.requests.unwrap_or(u64::MAX),
            first: (0, String::new()),
        };
        let formats = match &settings.log_format {
            Some(text) => {
                let format = LogFormat::parse(text);
                let format = format.map_err(|error| {
                    SettingsError::value("log_format", format!("'{text}'"))
                        .text(format!(": {error}"))
                })?;
                vec![FileFormat::Lines(format)]
            }
            None => formats_of(path).map_err(|error| of_file(format!(": {error}")))?,
        };
        let mut best = None;
        let mut problem = None;
        for format in formats {
            if let (FileFormat::Lines(lines), ReplayTiming::Recorded(_)) = (&format, replay.timing)
                && !lines.has_time()
            {
                let error = SettingsError::of("log_format").text(
                    " has no time, such as $msec, $time_local or %t, which the recorded timing needs",
                );
                return Err(error
                    .hint("set the rate with ")
                    .name("rate")
                    .text(" or ")
                    .name("connections"));
            }
            replay.format = format;
            let sample = replay
                .sample()
                .map_err(|error| of_file(format!(": {error}")))?;
            problem = problem.or(sample.problem);
            if let Some(first) = sample.first
                && best.as_ref().is_none_or(|(sent, _, _)| sample.sent > *sent)
            {
                best = Some((sample.sent, replay.format.clone(), first));
            }
        }
        let Some((_, format, first)) = best else {
            let (line, reason) = problem.unwrap_or((1, SkipReason::Format));
            let error = of_file(format!(
                ": no request among the first {FIRST_LINES_MAX} lines can be sent (line {line} is {})",
                reason.text()
            ));
            return Err(match reason {
                SkipReason::Method => error.hint("allow it with ").name("replay_methods"),
                SkipReason::Format => error
                    .hint("give the server's format string with ")
                    .name("log_format"),
                _ => error,
            });
        };
        Ok(Some(Replay {
            format,
            first,
            ..replay
        }))
    }

    pub(crate) fn timing(&self) -> ReplayTiming {
        self.timing
    }

    /// Returns the method of each form, and true if its request was refused in the log.
    pub(crate) fn forms(&self) -> impl Iterator<Item = (&str, bool)> {
        let methods = self.methods.iter();
        methods.flat_map(|method| [(method.as_str(), false), (method.as_str(), true)])
    }

    /// Returns the form and the path of the first request.
    pub(crate) fn first(&self) -> (u32, &str) {
        (self.first.0, &self.first.1)
    }

    /// Returns the form of a request; `None` if its method is not sent.
    fn form_of(&self, request: &LoggedRequest) -> Option<u32> {
        let method = self.methods.iter().position(|it| *it == request.method)?;
        let was_refused = (400..500).contains(&request.status);
        Some((method * FORMS_PER_METHOD) as u32 + u32::from(was_refused))
    }

    /// Reads the first lines.
    fn sample(&self) -> io::Result<Sample> {
        let mut sample = Sample::default();
        let read = self.each(&mut |number, read| {
            match read.and_then(|it| self.check(it)) {
                Ok((form, request)) => {
                    let path = || String::from_utf8_lossy(&request.path).into_owned();
                    sample.first.get_or_insert_with(|| (form, path()));
                    sample.sent += 1;
                }
                Err(reason) => {
                    sample.problem.get_or_insert((number, reason));
                }
            }
            let is_enough = match sample.first {
                Some(_) => number >= SAMPLE_LINES,
                None => number >= FIRST_LINES_MAX,
            };
            if is_enough {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match read {
            Err(error) if sample.first.is_none() => Err(error),
            _ => Ok(sample),
        }
    }

    /// Checks that a request is sent. Returns its form.
    fn check<'a>(
        &self,
        request: &'a LoggedRequest,
    ) -> Result<(u32, &'a LoggedRequest), SkipReason> {
        let form = self.form_of(request).ok_or(SkipReason::Method)?;
        match (request.stamp, self.timing) {
            (None, ReplayTiming::Recorded(_)) => Err(SkipReason::NoTime),
            _ => Ok((form, request)),
        }
    }

    /// Reads the log line by line, or entry by entry.
    fn each(&self, sink: json::EntrySink<'_>) -> io::Result<()> {
        let source = lines::open(&self.path)?;
        if let FileFormat::Har = self.format {
            return json::read_har(source, sink);
        }
        let mut reader = LineReader::new(source);
        let mut request = LoggedRequest::default();
        loop {
            let before = reader.number();
            let at_line = |error: io::Error| {
                io::Error::new(error.kind(), format!("after line {before}: {error}"))
            };
            let Some((number, line)) = reader.next().map_err(at_line)? else {
                return Ok(());
            };
            let read = match (line, &self.format) {
                (None, _) => Err(SkipReason::TooLong),
                // Empty lines are no requests, and nothing is missing.
                (Some([]), _) => continue,
                (Some(line), FileFormat::Lines(format)) => format.read(line, &mut request),
                (Some(line), _) => json::read_line(line, &mut request),
            };
            if sink(number, read.map(|()| &request)).is_break() {
                return Ok(());
            }
        }
    }

    /// Reads the whole log, and passes each request to `send` with its due time, in the order of
    /// the file. Without recorded timing, all are due at 0. Ends early if `send` breaks.
    pub(crate) fn read(
        &self,
        send: &mut dyn FnMut(DueRequest<'_>) -> ControlFlow<()>,
    ) -> ReplayLog {
        let speed = match self.timing {
            ReplayTiming::Recorded(speed) => Some(speed.0),
            ReplayTiming::AtRate | ReplayTiming::AsFastAsPossible => None,
        };
        let mut log = ReplayLog::default();
        let mut timeline = Timeline::new(speed.unwrap_or(1.0));
        let mut group = SecondGroup::default();
        let mut left = self.limit;
        let mut is_stopped = false;
        let result = self.each(&mut |number, read| {
            log.lines = number;
            let (form, request) = match read.and_then(|it| self.check(it)) {
                Ok(found) => found,
                Err(reason) => {
                    log.skip(reason, number);
                    return ControlFlow::Continue(());
                }
            };
            if left == 0 {
                log.is_cut = true;
                return ControlFlow::Break(());
            }
            left -= 1;
            let place = match (speed, request.stamp) {
                (Some(_), Some(stamp)) => timeline.place(stamp),
                _ => Place::At(0),
            };
            let due = |due| DueRequest {
                due,
                client: request.client,
                form,
                path: &request.path,
                body: &request.body,
            };
            let flow = match place {
                Place::At(at) => match group.begin(None, &timeline, send) {
                    ControlFlow::Continue(()) => send(due(timeline.due(at))),
                    flow => flow,
                },
                Place::Within(at) => match group.begin(Some(at), &timeline, send) {
                    ControlFlow::Continue(()) if group.is_full => {
                        send(due(timeline.due_within(at, 1, 1)))
                    }
                    ControlFlow::Continue(()) => group.push(form, request, &timeline, send),
                    flow => flow,
                },
            };
            is_stopped = flow.is_break();
            flow
        });
        if !is_stopped {
            is_stopped = group.begin(None, &timeline, send).is_break();
        }
        log.is_cut |= is_stopped;
        log.set_forward = timeline.set_forward;
        log.jumps = timeline.jumps;
        log.error = result.err().map(|error| error.to_string());
        log
    }
}

/// A request of a log that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueRequest<'a> {
    pub(crate) due: Nanos,
    /// Hash of the client's address.
    pub(crate) client: u64,
    pub(crate) form: u32,
    pub(crate) path: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// Counts of a log's lines, and the error that ended its reading, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplayLog {
    /// Number of lines, or of entries of a HAR file.
    pub(crate) lines: u64,
    /// Number of skipped lines for each reason in [`SkipReason::ALL`], and the first line numbers.
    pub(crate) skipped: [(u64, Vec<u64>); SkipReason::ALL.len()],
    /// Number of requests whose times were earlier than those of requests before them.
    pub(crate) set_forward: u64,
    /// Number of pauses and steps back that were left out.
    pub(crate) jumps: u64,
    /// True if the load ended before the log.
    pub(crate) is_cut: bool,
    /// Error because of which the rest of the log could not be read.
    pub(crate) error: Option<String>,
}

impl ReplayLog {
    fn skip(&mut self, reason: SkipReason, number: u64) {
        let (count, first) = &mut self.skipped[reason as usize];
        *count += 1;
        if first.len() < KEPT_NUMBERS {
            first.push(number);
        }
    }
}

/// The first lines of a log.
#[derive(Debug, Default)]
struct Sample {
    /// Number of requests that can be sent.
    sent: u64,
    first: Option<(u32, String)>,
    /// Number of the first line that can't be sent, and the reason.
    problem: Option<(u64, SkipReason)>,
}

/// Requests with the same whole second, until their number is known.
#[derive(Default)]
struct SecondGroup {
    /// Beginning of the second; `None` before the first group.
    at: Option<i64>,
    /// True if the group was sent because it had become too large.
    is_full: bool,
    requests: Vec<GroupedRequest>,
    /// The paths and bodies of all requests, concatenated.
    texts: Vec<u8>,
}

struct GroupedRequest {
    client: u64,
    form: u32,
    path_end: usize,
    body_end: usize,
}

impl SecondGroup {
    /// Sends the requests of another second, and begins the group of this one.
    fn begin(
        &mut self,
        at: Option<i64>,
        timeline: &Timeline,
        send: &mut dyn FnMut(DueRequest<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if at.is_some() && at == self.at {
            return ControlFlow::Continue(());
        }
        self.send(timeline, send)?;
        self.at = at;
        self.is_full = false;
        ControlFlow::Continue(())
    }

    fn push(
        &mut self,
        form: u32,
        request: &LoggedRequest,
        timeline: &Timeline,
        send: &mut dyn FnMut(DueRequest<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.texts.extend_from_slice(&request.path);
        let path_end = self.texts.len();
        self.texts.extend_from_slice(&request.body);
        self.requests.push(GroupedRequest {
            client: request.client,
            form,
            path_end,
            body_end: self.texts.len(),
        });
        if self.requests.len() < GROUP_MAX && self.texts.len() < GROUP_BYTES_MAX {
            return ControlFlow::Continue(());
        }
        self.is_full = true;
        self.send(timeline, send)
    }

    fn send(
        &mut self,
        timeline: &Timeline,
        send: &mut dyn FnMut(DueRequest<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (count, at) = (self.requests.len(), self.at.unwrap_or(0));
        let mut start = 0;
        for (index, request) in self.requests.drain(..).enumerate() {
            send(DueRequest {
                due: timeline.due_within(at, index, count),
                client: request.client,
                form: request.form,
                path: &self.texts[start..request.path_end],
                body: &self.texts[request.path_end..request.body_end],
            })?;
            start = request.body_end;
        }
        self.texts.clear();
        ControlFlow::Continue(())
    }
}

/// Returns the methods that are sent: GET, HEAD and those that the settings allow.
fn methods(settings: &LoadSettings) -> Result<Vec<String>, SettingsError> {
    let mut methods = vec!["GET".to_owned(), "HEAD".to_owned()];
    for method in &settings.replay_methods {
        let method = method.to_ascii_uppercase();
        if method == "CONNECT" {
            let error = SettingsError::value("replay_methods", method);
            return Err(error.text(": tunnels can't be replayed"));
        }
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    Ok(methods)
}

/// Returns the formats that the beginning of a log may have.
fn formats_of(path: &Path) -> io::Result<Vec<FileFormat>> {
    let mut beginning = Vec::new();
    lines::open(path)?
        .take(BEGINNING_BYTES)
        .read_to_end(&mut beginning)?;
    let beginning = beginning.trim_ascii();
    let is_har = path
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("har"));
    // The only key of a HAR file is "log", an object.
    let key = beginning.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let value = key
        .and_then(|it| it.strip_prefix(b"\"log\""))
        .map(<[u8]>::trim_ascii_start);
    let object = value
        .and_then(|it| it.strip_prefix(b":"))
        .map(<[u8]>::trim_ascii_start);
    Ok(match beginning.first() {
        None => {
            let text = "the file is empty";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Some(b'{') if is_har || object.is_some_and(|it| it.starts_with(b"{")) => {
            vec![FileFormat::Har]
        }
        Some(b'{') => vec![FileFormat::JsonLines],
        Some(_) => LogFormat::defaults().map(FileFormat::Lines).into(),
    })
}

#[cfg(test)]
mod tests;
