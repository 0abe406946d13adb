use super::*;
use crate::finding::Severity::{Error, Warning};
use crate::finding::{Finding, FindingKind, Severity, Subject};
use crate::memory_events::MemoryEvents;
use crate::number::RateUnit;
use crate::throttling::Throttling;

fn about_web<F: FindingKind>(severity: Severity, figures: &F) -> String {
    Finding::about(Subject::Service("web".to_owned()), severity, figures).text
}

#[test]
fn services_are_named_in_quotes() {
    let ended = ServiceEnded {
        status: "exit status: 1".to_owned(),
        last_line: None,
    };
    assert_eq!(
        about_web(Error, &ended),
        "Service \"web\" ended during the load (exit status: 1). The last line of its log: empty. The \
         result does not reflect the speed of the service; fix the service first."
    );
    assert_eq!(
        about_web(Severity::Note, &ServiceKilled { took_s: 10.2 }),
        "Service \"web\" did not end within 10 s of its stop signal and was killed. If it expects \
         another signal, set it: stop = \"SIGQUIT\"."
    );
    assert_eq!(
        about_web(Severity::Note, &ServiceLogCut { bytes_cut: 12 }),
        "Service \"web\" wrote a log so large that 12 bytes were cut from its middle. Writing the log \
         cost the service CPU time. Log less (access_log off), unless logging is what you are \
         comparing."
    );
    let throttling = Throttling {
        quota_cores: 0.5,
        periods: 299,
        throttled_periods: 196,
        throttled_s: 3.0,
    };
    assert_eq!(
        about_web(Warning, &ServiceThrottled { throttling }),
        "Service \"web\" was throttled in 66% of the periods of its CPU quota (196 of 299; 0.50 \
         cores), together with every other program of its control group. Raise the quota, unless it is what you are \
         comparing."
    );
    let events = MemoryEvents {
        limit_bytes: 64 << 20,
        limit_hits: 1200,
        oom_kills: 2,
    };
    assert_eq!(
        about_web(Severity::Error, &ServiceOutOfMemory { events }),
        "Service \"web\" ran out of memory: the kernel killed 2 of its processes, because they used \
         more than the limit of their control group (64.0 MiB). Raise the limit, or make the service \
         use less memory."
    );
    assert_eq!(
        about_web(Warning, &ServiceMemoryLimited { events }),
        "Service \"web\" reached the memory limit of its control group (64.0 MiB) 1,200 times, and the \
         kernel had to reclaim memory each time, such as cached files. Raise the limit, unless it is \
         what you are comparing."
    );
    assert_eq!(
        Finding::of(Warning, &NotIdle { percent: 12.4 }).text,
        "The services used 12% of a core while other variants were under load, which slows down \
         those variants. If the services are also active without requests, run the trials \
         sequentially (--interleave off)."
    );
}

#[test]
fn lost_telemetry_is_of_a_service_or_of_a_machine() {
    let lost = TelemetryLost {
        reason: None,
        looked_in: vec!["a.slice".to_owned(), "/run/web.pid".to_owned()],
    };
    assert_eq!(
        about_web(Warning, &lost),
        "No process of service \"web\" was found (looked in a.slice, /run/web.pid), so its CPU and \
         memory usage are missing."
    );
    let lost = TelemetryLost {
        reason: Some("ssh ended".to_owned()),
        looked_in: Vec::new(),
    };
    assert_eq!(
        Finding::of(Warning, &lost).text,
        "The metrics of the machine in [telemetry] could not be read over ssh: ssh ended. Its CPU, \
         memory and network data are missing from this trial; the load's own figures are complete. \
         Check that `ssh` to it works without a prompt, and that its login shell is a POSIX shell."
    );
}

#[test]
fn each_limit_has_its_line_and_hint() {
    let reached = |limit, line: &str, count| ReachedLimit {
        limit,
        line: line.to_owned(),
        count,
    };
    let limits = vec![
        reached(ServiceLimitKind::OpenFiles, "too many open files", 3),
        reached(ServiceLimitKind::Memory, "cannot allocate memory", 1),
    ];
    assert_eq!(
        about_web(Warning, &ServiceLimit { limits }),
        "Service \"web\" reached one of its own limits and logged, 3 times: \"too many open files\" \
         (raise open_files of the service). Service \"web\" reached one of its own limits and logged: \
         \"cannot allocate memory\" (give the service more memory, or fewer workers). The figures \
         reflect this limit. Raise it, unless the limit itself is what you are comparing."
    );
    let limits = vec![reached(ServiceLimitKind::ListenQueue, "SYN flooding", 1)];
    assert_eq!(
        about_web(Warning, &ServiceLimit { limits }),
        "The listen queue of service \"web\" was full, and the kernel logged: \"SYN flooding\" (raise \
         the service's backlog, net.core.somaxconn and net.ipv4.tcp_max_syn_backlog). The result \
         reflects that limit, so raise it unless you want to compare with it in place."
    );
}

#[test]
fn a_slow_library_is_named_with_its_speeds_or_its_mask() {
    let library = LibrarySpeed {
        path: Some("/lib/libcrypto.so.3".to_owned()),
        version: Some("OpenSSL 3.0.17".to_owned()),
        on: Some(1.2e8),
        masked: Some(1.1e8),
        ratio: Some(1.09),
        cycles_per_byte: Some(21.04),
    };
    let slow = CryptoUnaccelerated {
        library,
        assembly: Some(false),
        mask: None,
    };
    assert_eq!(
        about_web(Warning, &slow),
        "Service \"web\": /lib/libcrypto.so.3 (OpenSSL 3.0.17) is not accelerated (it is built \
         without assembly): AES-128-GCM at 120 MB/s (21.0 cycles per byte), 1.1 times the 110 MB/s \
         that it reaches with the AES instructions masked."
    );
    let evidence = MaskEvidence::Memory(vec!["AES-NI".to_owned(), "PCLMULQDQ".to_owned()]);
    let masked = CryptoUnaccelerated {
        mask: Some(MaskedInstructions {
            evidence,
            bytes_per_s: 1e8,
        }),
        ..slow
    };
    assert_eq!(
        about_web(Warning, &masked),
        "Service \"web\": /lib/libcrypto.so.3 (OpenSSL 3.0.17) could use the processor's AES \
         instructions, but this process runs with them masked (the server's memory shows no AES-NI, \
         no PCLMULQDQ): AES-128-GCM at 100 MB/s instead of 120 MB/s."
    );
}

#[test]
fn a_search_names_its_connections_or_the_reason_for_no_capacity() {
    let limited = ConnectionsLimited {
        offered_per_s: 210.0,
        rate_unit: None,
        connections: 1,
        response_time_p99_us: 70e3,
        service_time_p99_us: 5.2e3,
    };
    assert_eq!(
        Finding::of(Warning, &limited).text,
        "At 210 req/s with 1 connection, requests waited for a free connection: the p99 response \
         time was 70.0 ms, and the p99 service time was 5.20 ms. The service times meet the goals. \
         The connections, not the server, may be the limit, so the capacity may be higher. Use more \
         connections (--connections)."
    );
    let unmet = CapacityUnknown {
        reason: UnknownCapacity::Unmet,
        goals: vec!["p99<50ms".to_owned()],
        per_s: Some(1.0),
        rate_unit: None,
        readings: Some(ProbeReadings {
            goals: vec!["p99 is 61.3 ms".to_owned()],
            kept_up: false,
        }),
    };
    assert_eq!(
        Finding::of(Error, &unmet).text,
        "p99 < 50 ms is not met even at 1 request per second: p99 is 61.3 ms, the server did not \
         keep up."
    );
    let above = CapacityUnknown {
        reason: UnknownCapacity::AboveRateMax,
        per_s: Some(2e4),
        rate_unit: Some(RateUnit::Journeys),
        readings: None,
        ..unmet
    };
    assert_eq!(
        Finding::of(Error, &above).text,
        "The capacity is at least 20,000 journeys per second: p99 < 50 ms is met at that rate, and \
         max_rate does not allow higher rates. Raise max_rate."
    );
}

#[test]
fn links_are_described_with_what_was_measured() {
    let mut deviation = RoundTripDeviates {
        link: "wan".to_owned(),
        planned_us: 20_000,
        measured_us: Some(23_400),
        emulator: "relay".to_owned(),
    };
    assert_eq!(
        Finding::of(Warning, &deviation).text,
        "Before the load, the round-trip time of link \"wan\" was 23.40 ms, and the plan asks for 20.00 ms. \
         Response times include the round-trip time that was measured."
    );
    deviation.measured_us = None;
    assert!(
        Finding::of(Warning, &deviation)
            .text
            .contains("no echo request was answered")
    );
    let mut overloaded = LinkOverloaded {
        link: "wan".to_owned(),
        packets: 12_000,
        late: 400,
        late_us_max: 2_500,
        dropped: 0,
    };
    assert_eq!(
        Finding::of(Warning, &overloaded).text,
        "The relay of link \"wan\" forwarded 400 of 12,000 packets more than 0.3 ms late (up to 2.50 ms). \
         Response times include these delays. Give the relay a core of its own (relay_core), set a rate, \
         or use a lower load."
    );
    overloaded.dropped = 7;
    assert!(
        Finding::of(Warning, &overloaded)
            .text
            .contains("(up to 2.50 ms), and dropped 7.")
    );
}
