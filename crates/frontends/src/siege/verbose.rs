//! Prints a line for each transaction during a run, and requests and responses for `-g` and `-p`. A
//! separate thread prints the lines, so that a slow terminal delays the load only when a long queue
//! is full.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::clock;
use super::settings::SiegeSettings;
use crate::output::{print_error, record_write};

/// Maximum number of queued lines.
const QUEUED_LINES_MAX: usize = 8192;

/// An item to print.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OutputLine {
    /// A finished transaction.
    Finished(FinishedTransaction),
    /// A failure, which is printed on standard error.
    Failed(String),
    /// Text for standard output, which is printed unchanged.
    Plain(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FinishedTransaction {
    pub(super) user: u32,
    /// Protocol version, such as `HTTP/1.1`.
    pub(super) protocol: String,
    pub(super) status: u16,
    pub(super) took_s: f64,
    pub(super) body_bytes: u64,
    pub(super) method: &'static str,
    pub(super) url: Arc<str>,
    /// Index of the URL in the list.
    pub(super) place: usize,
}

/// Format of the lines for transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineFormat {
    is_csv: bool,
    has_stamp: bool,
    has_user: bool,
    mark: Option<String>,
    is_colored: bool,
}

impl LineFormat {
    /// Creates the format. Colors are used only on terminals.
    pub(super) fn new(settings: &SiegeSettings) -> LineFormat {
        LineFormat {
            is_csv: settings.csv,
            has_stamp: settings.timestamp,
            has_user: settings.display_id,
            mark: settings.mark.clone(),
            is_colored: settings.color && io::stdout().is_terminal(),
        }
    }

    fn line(&self, done: &FinishedTransaction) -> String {
        let stamp = if self.has_stamp {
            clock::stamp()
        } else {
            String::new()
        };
        let line = match (self.is_csv, self.has_user) {
            (true, _) => self.csv(done, &stamp),
            (false, true) => format!(
                "{:>4}) {} {} {:>6.2} secs: {:>7} bytes ==> {:<4} {}",
                done.user,
                done.protocol,
                done.status,
                done.took_s,
                done.body_bytes,
                done.method,
                done.url
            ),
            (false, false) => format!(
                "{stamp}{} {}    {:>5.2} secs: {:>7} bytes ==> {:<4} {}",
                done.protocol, done.status, done.took_s, done.body_bytes, done.method, done.url
            ),
        };
        if self.is_colored {
            format!("\x1b[0;{}m{line}\x1b[0m\n", color(done.status))
        } else {
            format!("{line}\n")
        }
    }

    fn csv(&self, done: &FinishedTransaction, stamp: &str) -> String {
        let mark = match &self.mark {
            Some(mark) => format!("{mark},"),
            None => String::new(),
        };
        let user = if self.has_user {
            format!("{:>4},", done.user)
        } else {
            String::new()
        };
        format!(
            "{stamp}{mark}{user}{},{},{:>6.2},{:>7},{},{},{}",
            done.protocol,
            done.status,
            done.took_s,
            done.body_bytes,
            done.url,
            done.place,
            clock::time()
        )
    }
}

/// Returns the terminal's color code for a status: blue, cyan, magenta or red.
fn color(status: u16) -> u8 {
    match status {
        150 | 200..=299 => 34,
        300..=399 => 36,
        400..=499 => 35,
        _ => 31,
    }
}

/// Thread that prints the lines sent to it.
pub(super) struct LinePrinter {
    lines: SyncSender<OutputLine>,
    thread: JoinHandle<()>,
}

impl LinePrinter {
    /// Starts the printing thread.
    pub(super) fn start(form: LineFormat) -> LinePrinter {
        let (lines, waiting) = sync_channel(QUEUED_LINES_MAX);
        LinePrinter {
            lines,
            thread: thread::spawn(move || print_lines(&form, &waiting)),
        }
    }

    pub(super) fn lines(&self) -> SyncSender<OutputLine> {
        self.lines.clone()
    }

    /// Waits until all lines are printed. All other senders must have been dropped.
    pub(super) fn finish(self) {
        drop(self.lines);
        // The error is ignored: it means that the printer panicked, and nothing more can be
        // printed.
        let _ = self.thread.join();
    }
}

fn print_lines(form: &LineFormat, waiting: &Receiver<OutputLine>) {
    let mut out = io::BufWriter::new(io::stdout().lock());
    while let Ok(first) = waiting.recv() {
        for line in std::iter::once(first).chain(waiting.try_iter()) {
            record_write(match line {
                OutputLine::Finished(done) => out.write_all(form.line(&done).as_bytes()),
                OutputLine::Plain(bytes) => out.write_all(&bytes),
                OutputLine::Failed(text) => {
                    let flushed = out.flush();
                    print_error(&format!("[error] {text}\n"));
                    flushed
                }
            });
        }
        record_write(out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(change: impl FnOnce(&mut SiegeSettings)) -> LineFormat {
        let mut settings = SiegeSettings::template();
        change(&mut settings);
        LineFormat {
            is_colored: false,
            ..LineFormat::new(&settings)
        }
    }

    fn done() -> FinishedTransaction {
        FinishedTransaction {
            user: 7,
            protocol: "HTTP/1.1".to_owned(),
            status: 404,
            took_s: 0.126,
            body_bytes: 13,
            method: "GET",
            url: "/x".into(),
            place: 3,
        }
    }

    #[test]
    fn the_usual_line() {
        let line = form(|_| {}).line(&done());
        assert_eq!(
            line,
            "HTTP/1.1 404     0.13 secs:      13 bytes ==> GET  /x\n"
        );
        let stamped = form(|settings| settings.timestamp = true).line(&done());
        let (stamp, rest) = stamped.split_at(stamped.len() - line.len());
        assert_eq!(rest, line);
        assert_eq!(
            (stamp.len(), &stamp[..1], &stamp[25..]),
            (27, "[", "] "),
            "{stamp:?}"
        );
    }

    #[test]
    fn users_csv_and_marks() {
        let line = form(|settings| settings.display_id = true).line(&done());
        assert_eq!(
            line,
            "   7) HTTP/1.1 404   0.13 secs:      13 bytes ==> GET  /x\n"
        );
        let line = form(|settings| {
            settings.csv = true;
            settings.display_id = true;
            settings.mark = Some("a b".to_owned());
        })
        .line(&done());
        assert!(
            line.starts_with("a b,   7,HTTP/1.1,404,  0.13,     13,/x,3,20"),
            "{line}"
        );
        let line = form(|settings| settings.csv = true).line(&done());
        assert!(
            line.starts_with("HTTP/1.1,404,  0.13,     13,/x,3,20"),
            "{line}"
        );
        assert_eq!(
            line.trim_end().len(),
            "HTTP/1.1,404,  0.13,     13,/x,3,2026-11-22 06:05:07".len()
        );
    }

    #[test]
    fn colors_are_those_of_the_status() {
        let mut form = form(|_| {});
        form.is_colored = true;
        assert!(form.line(&done()).starts_with("\x1b[0;35mHTTP/1.1 404"));
        assert!(form.line(&done()).ends_with("/x\x1b[0m\n"));
        assert_eq!([200, 302, 404, 500, 600].map(color), [34, 36, 35, 31, 31]);
    }
}
