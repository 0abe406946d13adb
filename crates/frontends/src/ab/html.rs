//! Formats the report as an HTML table (`-w`).

use super::arguments::HtmlAttributes;
use super::report::{AbReport, ReportLine, whole_ms};
use super::times::TimesColumn;

/// Returns the report as a complete HTML table.
pub(super) fn html_report(report: &AbReport, attributes: &HtmlAttributes) -> String {
    let mut table = HtmlTable {
        attributes,
        out: format!("\n\n<table {}>\n", attributes.table),
    };
    table.head(report);
    table.rates(report);
    if report.tally.times.total.count() > 0 {
        table.times(report);
    }
    table.out + "</table>\n"
}

struct HtmlTable<'a> {
    attributes: &'a HtmlAttributes,
    out: String,
}

impl HtmlTable<'_> {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let HtmlAttributes { row, cell, .. } = self.attributes;
        self.out += &format!(
            "<tr {row}><th colspan=2 {cell}>{name}:</th><td colspan=2 {cell}>{value}</td></tr>\n"
        );
    }

    fn head(&mut self, report: &AbReport) {
        self.line("Server Software", escaped(&report.software));
        self.line("Server Hostname", escaped(&report.host));
        self.line("Server Port", report.port);
        self.line("Document Path", escaped(&report.path));
        self.line("Document Length", report.document_length());
        self.lines(report.counts());
    }

    fn lines(&mut self, lines: Vec<ReportLine>) {
        let HtmlAttributes { row, cell, .. } = self.attributes;
        for line in lines {
            match line {
                ReportLine::Value(name, value) => self.line(name, value),
                ReportLine::Continued(value) => {
                    self.out += &format!(
                        "<tr {row}><td colspan=2 {cell}>&nbsp;</td>\
                         <td colspan=2 {cell}>{value}</td></tr>\n"
                    );
                }
                ReportLine::Note(text) => {
                    self.out += &format!("<tr {row}><td colspan=4 {cell} >{text}</td></tr>\n");
                }
            }
        }
    }

    fn rates(&mut self, report: &AbReport) {
        if !report.has_rates() {
            return;
        }
        self.line("Requests per second", format_args!("{:.2}", report.rate()));
        let received = report.kbytes_per_s(report.bytes_in);
        self.line("Transfer rate", format_args!("{received:.2} kb/s received"));
        self.lines(report.sent_rates());
    }

    fn times(&mut self, report: &AbReport) {
        let HtmlAttributes { row, cell, .. } = self.attributes;
        self.out += &format!(
            "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>\n\
             <tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   \
             <th {cell}>max</th></tr>\n"
        );
        let times = &report.tally.times;
        for (name, column) in [
            ("Connect", &times.connect),
            ("Processing", &times.processing),
            ("Total", &times.total),
        ] {
            let [min, mean, max] = column_figures(column);
            self.out += &format!(
                "<tr {row}><th {cell}>{name}:</th><td {cell}>{min:5}</td>\
                 <td {cell}>{mean:5}</td><td {cell}>{max:5}</td></tr>\n"
            );
        }
    }
}

fn column_figures(column: &TimesColumn) -> [u64; 3] {
    [column.min_ms(), column.mean_ms(), column.max_ms()].map(whole_ms)
}

/// Escapes a value that comes from the server or the URL.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::tally::{AbTally, FailureCounts};
    use super::super::text::tests::plain;
    use super::*;

    #[test]
    fn a_table_with_attributes() {
        let attributes = HtmlAttributes {
            table: "border=1".to_owned(),
            row: "a=b".to_owned(),
            cell: "c=d".to_owned(),
        };
        let report = AbReport {
            path: "/<b>&".to_owned(),
            tally: AbTally {
                failed: FailureCounts {
                    length: 2,
                    ..FailureCounts::default()
                },
                successful: 8,
                ..plain().tally
            },
            shows_successful: true,
            bytes_out: Some(2_560),
            ..plain()
        };
        let text = html_report(&report, &attributes);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "",
                "",
                "<table border=1>",
                "<tr a=b><th colspan=2 c=d>Server Software:</th><td colspan=2 c=d>nginx/1.22.1</td></tr>",
            ]
        );
        for line in [
            "<tr a=b><th colspan=2 c=d>Document Path:</th><td colspan=2 c=d>/&lt;b&gt;&amp;</td></tr>",
            "<tr a=b><th colspan=2 c=d>Failed requests:</th><td colspan=2 c=d>2</td></tr>",
            "<tr a=b><td colspan=4 c=d >   (Connect: 0, Receive: 0, Length: 2, Exceptions: 0)</td></tr>",
            "<tr a=b><th colspan=2 c=d>Requests per second:</th><td colspan=2 c=d>4.00</td></tr>",
            "<tr a=b><td colspan=2 c=d>&nbsp;</td><td colspan=2 c=d>1.00 kb/s sent</td></tr>",
            "<tr a=b><th c=d colspan=4>Connection Times (ms)</th></tr>",
            "<tr a=b><th c=d>Total:</th><td c=d>   11</td><td c=d>   61</td><td c=d>  110</td></tr>",
        ] {
            assert!(lines.contains(&line), "{line}\nis not in\n{text}");
        }
        assert!(text.ends_with("</table>\n"));
    }
}
