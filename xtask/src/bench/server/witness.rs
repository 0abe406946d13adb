//! Analysis of the server's log: completeness of responses, use of connections, and resumption of
//! TLS sessions. This module does no I/O.

use std::collections::BTreeSet;

use crate::bench::rows::{ConnectionUse, Http, Row, Security};

/// Format of a log line, in nginx syntax.
pub(super) const FORMAT: &str =
    "$status $connection_requests $ssl_session_reused $ssl_protocol $server_protocol";

/// Minimum fraction of TLS sessions that a tool must resume if it supports resumption.
const RESUMED_SHARE_MIN: f64 = 0.2;

/// Fraction of resumed TLS sessions below which a tool gets a remark. Only the first session of
/// each concurrent connection needs a full handshake.
const FULLY_RESUMED_SHARE_MIN: f64 = 0.9;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LogTotals {
    requests: u64,
    /// Number of requests with status 200.
    answered: u64,
    /// Number of requests that were the first on their connection.
    connections: u64,
    /// Number of connections that resumed a TLS session.
    resumed: u64,
    /// TLS versions that occurred.
    protocols: BTreeSet<String>,
    /// HTTP versions that occurred.
    versions: BTreeSet<String>,
}

impl LogTotals {
    /// Adds up the lines of a log.
    pub(super) fn of(log: &str) -> LogTotals {
        let mut sum = LogTotals::default();
        for line in log.lines() {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let (status, nth, reused, protocol) = (word(), word(), word(), word());
            let version = word();
            sum.requests += 1;
            sum.answered += u64::from(status == "200");
            let first = nth == "1";
            sum.connections += u64::from(first);
            sum.resumed += u64::from(first && reused == "r");
            sum.protocols.insert(protocol.to_string());
            sum.versions.insert(version.to_string());
        }
        sum
    }

    /// Deviation of a tool from a row's requirements, according to the log.
    pub(super) fn objection(&self, row: &Row) -> Option<String> {
        let LogTotals {
            requests,
            connections,
            ..
        } = *self;
        if requests == 0 {
            return Some("no request arrived".to_string());
        }
        if self.answered < requests {
            let others = requests - self.answered;
            return Some(format!(
                "{others} of {requests} requests had a status other than 200"
            ));
        }
        let each = requests as f64 / connections.max(1) as f64;
        match row.shape {
            ConnectionUse::Close if connections < requests => {
                return Some(format!("{each:.1} requests per connection, not 1"));
            }
            ConnectionUse::KeepAlive | ConnectionUse::Paced(_) if each < 2.0 => {
                return Some("nearly every request opened a connection".to_string());
            }
            _ => {}
        }
        if let Some(problem) = self.other_than_http_2(row) {
            return Some(problem);
        }
        if row.security == Security::Clear {
            return None;
        }
        if !self.protocols.iter().eq(["TLSv1.3"]) {
            let spoken: Vec<&str> = self.protocols.iter().map(String::as_str).collect();
            return Some(format!("uses {}, not TLSv1.3", spoken.join(" and ")));
        }
        let share = self.resumed_share();
        (is_resumed(row) && share < RESUMED_SHARE_MIN).then(|| resumes(share))
    }

    /// Returns a deviation from HTTP/2, or from the row's number of connections.
    fn other_than_http_2(&self, row: &Row) -> Option<String> {
        if row.http == Http::One {
            return None;
        }
        if !self.versions.iter().eq(["HTTP/2.0"]) {
            let spoken: Vec<&str> = self.versions.iter().map(String::as_str).collect();
            return Some(format!("speaks {}", spoken.join(" and ")));
        }
        let wanted = row.connections;
        (self.connections != u64::from(wanted))
            .then(|| format!("uses {} connections, not {wanted}", self.connections))
    }

    /// Remark about a tool that meets the row's requirements and opened `opened` connections.
    pub(super) fn remark(&self, row: &Row, opened: u64) -> Option<String> {
        let share = self.resumed_share();
        if is_resumed(row) && share < FULLY_RESUMED_SHARE_MIN {
            return Some(resumes(share));
        }
        let used = self.connections;
        (row.http != Http::One && opened > used)
            .then(|| format!("opens {opened} connections but uses {used}"))
    }

    fn resumed_share(&self) -> f64 {
        self.resumed as f64 / self.connections.max(1) as f64
    }
}

/// Deviation from the row's number of concurrent requests; `most` is the observed maximum.
pub(super) fn objection_to_most(row: &Row, most: u64) -> Option<String> {
    let wanted = row.at_once();
    (most != u64::from(wanted)).then(|| format!("makes {most} concurrent requests, not {wanted}"))
}

fn is_resumed(row: &Row) -> bool {
    row.shape == ConnectionUse::Close && row.security == Security::Resumable
}

fn resumes(share: f64) -> String {
    format!("resumes {:.0}% of its TLS sessions", share * 100.0)
}

#[cfg(test)]
mod tests {
    use crate::bench::rows::find;

    use super::*;

    fn objection(id: &str, log: &str) -> Option<String> {
        let row = find(id).unwrap();
        LogTotals::of(log).objection(row)
    }

    #[test]
    fn answers_other_than_200_disqualify() {
        assert_eq!(objection("ka-1k", "200 1 - -\n200 2 - -\n"), None);
        let problem = objection("ka-1k", "200 1 - -\n404 2 - -\n").unwrap();
        assert_eq!(problem, "1 of 2 requests had a status other than 200");
        assert!(objection("ka-1k", "").is_some());
    }

    #[test]
    fn connections_are_kept_or_not_as_the_row_says() {
        let kept = "200 1 - -\n200 2 - -\n200 3 - -\n";
        let closed = "200 1 - -\n200 1 - -\n200 1 - -\n";
        assert_eq!(objection("ka-1k", kept), None);
        assert!(objection("ka-1k", closed).is_some());
        assert_eq!(objection("close-1k", closed), None);
        let problem = objection("close-1k", kept).unwrap();
        assert_eq!(problem, "3.0 requests per connection, not 1");
    }

    #[test]
    fn sessions_are_resumed_if_the_row_requests_it() {
        let resumed = "200 1 . TLSv1.3\n".to_string() + &"200 1 r TLSv1.3\n".repeat(9);
        assert_eq!(objection("tls-resumed", &resumed), None);
        let full = "200 1 . TLSv1.3\n".repeat(10);
        assert_eq!(
            objection("tls-resumed", &full).unwrap(),
            "resumes 0% of its TLS sessions"
        );
        assert_eq!(objection("tls-full", &full), None);
        let half = "200 1 . TLSv1.3\n200 1 r TLSv1.3\n".repeat(9);
        assert_eq!(objection("tls-resumed", &half), None);
        let row = find("tls-resumed").unwrap();
        let remark = |log: &str| LogTotals::of(log).remark(row, 0);
        assert_eq!(remark(&half).unwrap(), "resumes 50% of its TLS sessions");
        assert_eq!(remark(&resumed), None);
        assert_eq!(
            objection("tls-1k", "200 1 . TLSv1.3\n200 2 . TLSv1.3\n"),
            None
        );
    }

    #[test]
    fn http_2_is_spoken_over_as_many_connections_as_the_row_says() {
        let log = |connections: usize, version: &str| {
            let first = format!("200 1 . TLSv1.3 {version}\n").repeat(connections);
            first + &format!("200 2 . TLSv1.3 {version}\n").repeat(connections)
        };
        let good = log(16, "HTTP/2.0");
        assert_eq!(objection("h2-tls-16x32", &good), None);
        assert_eq!(
            objection("h2-tls-1x100", &good).unwrap(),
            "uses 16 connections, not 1"
        );
        assert_eq!(
            objection("h2-tls-16x32", &log(16, "HTTP/1.1")).unwrap(),
            "speaks HTTP/1.1"
        );
        let row = find("h2-tls-16x32").unwrap();
        let remark = |opened| LogTotals::of(&good).remark(row, opened);
        assert_eq!(remark(16), None);
        assert_eq!(remark(500).unwrap(), "opens 500 connections but uses 16");
        assert_eq!(objection_to_most(row, 512), None);
        assert_eq!(
            objection_to_most(row, 16).unwrap(),
            "makes 16 concurrent requests, not 512"
        );
    }

    #[test]
    fn an_older_tls_is_another_measurement() {
        let old = "200 1 . TLSv1.2\n200 2 . TLSv1.2\n";
        assert_eq!(
            objection("tls-1k", old).unwrap(),
            "uses TLSv1.2, not TLSv1.3"
        );
    }
}
