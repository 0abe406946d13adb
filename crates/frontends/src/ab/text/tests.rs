use super::super::secured::AbTls;
use super::super::tally::{AbTally, FailureCounts};
use super::super::times::{ColumnTimes, RequestTimes};
use super::*;
use prony_record::Nanos;

/// Returns the times of `count` requests. Request n takes n ms to connect, and another 10 n ms to
/// complete.
pub(in super::super) fn times(count: u64) -> ColumnTimes {
    let mut times = ColumnTimes::default();
    for n in 1..=count {
        times.add(&RequestTimes {
            start: Nanos::from_millis(n),
            connect: Nanos::from_millis(n),
            processing: Some(Nanos::from_millis(10 * n)),
            waiting: Some(Nanos::from_millis(9 * n)),
        });
    }
    times
}

pub(in super::super) fn plain() -> AbReport {
    AbReport {
        software: "nginx/1.22.1".to_owned(),
        host: "localhost".to_owned(),
        port: 8080,
        path: "/a?b".to_owned(),
        length: Some(13),
        concurrency: 4,
        seconds: 2.5,
        bytes_in: 10_240,
        body_bytes_in: 130,
        tally: AbTally {
            complete: 10,
            times: times(10),
            ..AbTally::default()
        },
        ..AbReport::default()
    }
}

fn with_times(times: ColumnTimes) -> AbReport {
    let mut report = plain();
    report.tally.times = times;
    report
}

const ALL: ReportParts = ReportParts {
    percentages: true,
    deviations: true,
};

#[test]
fn plain_report() {
    assert_eq!(
        text_report(&plain(), ALL),
        "

Server Software:        nginx/1.22.1
Server Hostname:        localhost
Server Port:            8080

Document Path:          /a?b
Document Length:        13 bytes

Concurrency Level:      4
Time taken for tests:   2.500 seconds
Complete requests:      10
Failed requests:        0
Total transferred:      10240 bytes
HTML transferred:       130 bytes
Requests per second:    4.00 [#/sec] (mean)
Time per request:       1000.000 [ms] (mean)
Time per request:       250.000 [ms] (mean, across all concurrent requests)
Transfer rate:          4.00 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        1    6   3.0      6      10
Processing:    10   55  30.3     60     100
Waiting:        9   50  27.2     54      90
Total:         11   61  33.3     66     110

Percentage of the requests served within a certain time (ms)
  50%     66
  66%     77
  75%     88
  80%     99
  90%    110
  95%    110
  98%    110
  99%    110
 100%    110 (longest request)
"
    );
}

#[test]
fn output_with_all_options_and_failures() {
    let report = AbReport {
        tls: Some(AbTls {
            protocol: "TLSv1.3,TLS_AES_256_GCM_SHA384,2048,256".to_owned(),
            exchange: Some("X25519 253 bits".to_owned()),
            name: Some("localhost".to_owned()),
        }),
        length: None,
        tally: AbTally {
            complete: 10,
            failed: FailureCounts {
                connect: 1,
                receive: 2,
                length: 3,
                exceptions: 4,
            },
            non_2xx: 5,
            kept_alive: 6,
            ..AbTally::default()
        },
        shows_successful: true,
        keepalive: true,
        bytes_out: Some(2_560),
        ..plain()
    };
    assert_eq!(
        text_report(&report, ALL),
        "

Server Software:        nginx/1.22.1
Server Hostname:        localhost
Server Port:            8080
SSL/TLS Protocol:       TLSv1.3,TLS_AES_256_GCM_SHA384,2048,256
Server Temp Key:        X25519 253 bits
TLS Server Name:        localhost

Document Path:          /a?b
Document Length:        Variable

Concurrency Level:      4
Time taken for tests:   2.500 seconds
Complete requests:      10
Failed requests:        10
   (Connect: 1, Receive: 2, Length: 3, Exceptions: 4)
Non-2xx responses:      5
Successful requests:    0
Keep-Alive requests:    6
Total transferred:      10240 bytes
Total body sent:        2560
HTML transferred:       130 bytes
Requests per second:    4.00 [#/sec] (mean)
Time per request:       1000.000 [ms] (mean)
Time per request:       250.000 [ms] (mean, across all concurrent requests)
Transfer rate:          4.00 [Kbytes/sec] received
                        1.00 kb/s sent
                        5.00 kb/s total
"
    );
}

#[test]
fn tables_are_left_out_by_d_and_shortened_by_s() {
    let parts = ReportParts {
        percentages: false,
        deviations: false,
    };
    let text = text_report(&plain(), parts);
    let (_, table) = text.split_once("\n\nConnection Times (ms)\n").unwrap();
    assert_eq!(
        table,
        "              min   avg   max
Connect:        1     6   10
Processing:    10    55  100
Waiting:        9    50   90
Total:         11    61  110
"
    );
}

#[test]
fn medians_far_from_their_means_are_warned_of() {
    let mut times = ColumnTimes::default();
    // The mean of 0.4975 ms is rounded twice, to 0.5 and to 1. The median of 0.4 ms is printed as
    // 0.
    for processing in [400_000, 400_000, 400_000, 790_000] {
        times.add(&RequestTimes {
            start: Nanos::ZERO,
            connect: Nanos::ZERO,
            processing: Some(Nanos(processing)),
            waiting: Some(Nanos(400_000)),
        });
    }
    // The median, which is the upper of the two middle values, is 0.4 ms.
    let text = text_report(&with_times(times), ALL);
    let error =
        "ERROR: The median and mean for the processing time are more than twice the standard
       deviation apart. These results are NOT reliable.\n";
    assert!(!text.contains("WARNING"), "{text}");
    assert_eq!(text.matches("ERROR").count(), 0, "{text}");
    let mut times = ColumnTimes::default();
    for processing in [450_000, 450_000, 450_000, 790_000] {
        times.add(&RequestTimes {
            start: Nanos::ZERO,
            connect: Nanos::ZERO,
            processing: Some(Nanos(processing)),
            waiting: Some(Nanos(450_000)),
        });
    }
    let text = super::text_report(&with_times(times), ALL);
    assert!(text.contains(error), "{text}");
    assert!(!text.contains("the waiting time"), "{text}");
}

#[test]
fn nothing_is_divided_by_zero() {
    let nothing = AbReport {
        seconds: 0.0,
        tally: AbTally::default(),
        ..plain()
    };
    let text = text_report(&nothing, ALL);
    assert!(
        text.ends_with("HTML transferred:       130 bytes\n"),
        "{text}"
    );
    let one = with_times(times(1));
    assert!(
        !super::text_report(&one, ALL).contains("Percentage"),
        "a single request has no table"
    );
}
