//! Formats the report as text, like ab.

use super::report::{AbReport, PERCENTAGES, ReportLine, whole_ms};
use super::times::TimesColumn;

/// Optional parts of the report.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportParts {
    /// True to include the table of percentages (off with `-d`).
    pub(super) percentages: bool,
    /// True to include medians, deviations and warnings (off with `-S`).
    pub(super) deviations: bool,
}

/// Returns the complete report.
pub(super) fn text_report(report: &AbReport, parts: ReportParts) -> String {
    let mut out = String::from("\n\n");
    write_server(report, &mut out);
    write_lines(&mut out, report.counts());
    write_rates(report, &mut out);
    if report.tally.times.total.count() > 0 {
        out += "\nConnection Times (ms)\n";
        if parts.deviations {
            with_deviations(report, &mut out)
        } else {
            write_short_times(report, &mut out)
        }
        if parts.percentages && report.tally.times.total.count() > 1 {
            write_percentages(report, &mut out);
        }
    }
    out
}

/// Adds a line whose value starts in column 25.
fn write_line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    *out += &format!("{:<24}{value}\n", format!("{name}:"));
}

fn write_server(report: &AbReport, out: &mut String) {
    write_line(out, "Server Software", &report.software);
    write_line(out, "Server Hostname", &report.host);
    write_line(out, "Server Port", report.port);
    if let Some(tls) = &report.tls {
        if !tls.protocol.is_empty() {
            write_line(out, "SSL/TLS Protocol", &tls.protocol);
        }
        tls.exchange
            .iter()
            .for_each(|group| write_line(out, "Server Temp Key", group));
        tls.name
            .iter()
            .for_each(|name| write_line(out, "TLS Server Name", name));
    }
    *out += "\n";
    write_line(out, "Document Path", &report.path);
    write_line(out, "Document Length", report.document_length());
    *out += "\n";
}

fn write_lines(out: &mut String, lines: Vec<ReportLine>) {
    for one in lines {
        match one {
            ReportLine::Value(name, value) => write_line(out, name, value),
            ReportLine::Continued(value) => *out += &format!("{:24}{value}\n", ""),
            ReportLine::Note(text) => *out += &format!("{text}\n"),
        }
    }
}

fn write_rates(report: &AbReport, out: &mut String) {
    if !report.has_rates() {
        return;
    }
    let each_ms = report.seconds * 1000.0 / report.tally.complete as f64;
    let of_one_ms = each_ms * report.concurrency as f64;
    write_line(
        out,
        "Requests per second",
        format_args!("{:.2} [#/sec] (mean)", report.rate()),
    );
    write_line(
        out,
        "Time per request",
        format_args!("{of_one_ms:.3} [ms] (mean)"),
    );
    let across = "(mean, across all concurrent requests)";
    write_line(
        out,
        "Time per request",
        format_args!("{each_ms:.3} [ms] {across}"),
    );
    let received = report.kbytes_per_s(report.bytes_in);
    write_line(
        out,
        "Transfer rate",
        format_args!("{received:.2} [Kbytes/sec] received"),
    );
    write_lines(out, report.sent_rates());
}

fn columns(report: &AbReport) -> [(&'static str, &'static str, &TimesColumn); 4] {
    let times = &report.tally.times;
    [
        ("Connect:", "the initial connection time", &times.connect),
        ("Processing:", "the processing time", &times.processing),
        ("Waiting:", "the waiting time", &times.waiting),
        ("Total:", "the total time", &times.total),
    ]
}

fn with_deviations(report: &AbReport, out: &mut String) {
    *out += "              min  mean[+/-sd] median   max\n";
    for (name, _, column) in columns(report) {
        *out += &format!(
            "{name:<12}{:5} {:4} {:5.1} {:6} {:7}\n",
            whole_ms(column.min_ms()),
            whole_ms(column.mean_ms()),
            column.deviation_ms(),
            whole_ms(column.median_ms()),
            whole_ms(column.max_ms()),
        );
    }
    for (_, what, column) in columns(report) {
        // As in ab, the printed values are compared, which are rounded to milliseconds.
        let mean = whole_ms(column.mean_ms()) as f64;
        let apart = (mean - whole_ms(column.median_ms()) as f64).abs();
        if apart > 2.0 * column.deviation_ms() {
            *out += &format!(
                "ERROR: The median and mean for {what} are more than twice the standard\n       \
                 deviation apart. These results are NOT reliable.\n"
            );
        } else if apart > column.deviation_ms() {
            *out += &format!(
                "WARNING: The median and mean for {what} are not within a normal deviation\n        \
                 These results are probably not that reliable.\n"
            );
        }
    }
}

fn write_short_times(report: &AbReport, out: &mut String) {
    *out += "              min   avg   max\n";
    for (name, _, column) in columns(report) {
        *out += &format!(
            "{name:<12}{:5} {:5}{:5}\n",
            whole_ms(column.min_ms()),
            whole_ms(column.mean_ms()),
            whole_ms(column.max_ms()),
        );
    }
}

fn write_percentages(report: &AbReport, out: &mut String) {
    *out += "\nPercentage of the requests served within a certain time (ms)\n";
    for percent in PERCENTAGES {
        let within = whole_ms(report.served_within_ms(percent));
        *out += &match percent {
            100 => format!(" 100%  {within:5} (longest request)\n"),
            _ => format!("  {percent}%  {within:5}\n"),
        };
    }
}

#[cfg(test)]
pub(super) mod tests;
