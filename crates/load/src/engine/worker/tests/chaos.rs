//! Random servers against random loads. Every request must be accounted for, the load must end in
//! bounded (virtual) time, and the worker must obey the socket contract, which the simulation
//! checks. Each case depends only on its seed. A failure prints the seed.

use prony_record::Outcome;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::scripts::{RandomScript, ScriptCounts};
use super::*;
use crate::settings::RequestOrder;
use crate::socket::simulated::SendTiming;

const CASES: u64 = 750;

/// A server with random responses, some of them invalid.
struct RandomServer {
    random: ChaCha8Rng,
    /// Percentage of invalid responses, from 0 to 100.
    badness: u32,
}

const GOOD: [&[u8]; 11] = [
    OK,
    OK_CLOSE,
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx",
    b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.1 302 Found\r\nLocation: there\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.1 307 Elsewhere\r\nLocation: //127.0.0.7:7/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 303 Away\r\nLocation: //127.0.0.1:1/\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
];

const BAD: [&[u8]; 9] = [
    b"\x00\x01garbage",
    b"HTTP/1.1 302 Found\r\nLocation: ftp://h/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nno end",
    b"HTTP/1.1 101 Switching\r\n\r\n",
    b"\x15\x03\x01\x00\x02\x02\x28",
];

const ERRORS: [i32; 4] = [libc::ECONNRESET, libc::EPIPE, libc::ETIMEDOUT, libc::EIO];

impl RandomServer {
    fn is_bad(&mut self) -> bool {
        self.random.random_range(0..100) < self.badness
    }

    fn time(&mut self) -> Nanos {
        match self.random.random_range(0..10) {
            0..3 => Nanos::ZERO,
            3..8 => Nanos(self.random.random_range(0..5_000_000)),
            8 => Nanos(self.random.random_range(0..100_000_000)),
            _ => Nanos(self.random.random_range(0..3_000_000_000)),
        }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.random.random_range(0..from.len())].clone()
    }

    fn pieces(&mut self, bytes: &[u8]) -> Vec<(Nanos, Step)> {
        let mut steps = Vec::new();
        let mut at = self.time();
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = match self.random.random_range(0..3) {
                0 => self.random.random_range(1..=rest.len()),
                _ => rest.len(),
            };
            steps.push((at, Step::Send(rest[..length].to_vec())));
            rest = &rest[length..];
            at = at + self.time();
        }
        steps
    }
}

impl Server for RandomServer {
    fn connect(&mut self, _now: Nanos) -> Connect {
        if !self.is_bad() {
            return Connect::Accept(self.time());
        }
        let after = self.time();
        match self.random.random_range(0..5) {
            0 => Connect::Never,
            1 => Connect::Fail(after, libc::ECONNREFUSED),
            2 => Connect::Fail(Nanos::ZERO, libc::EAGAIN),
            3 => Connect::Fail(Nanos::ZERO, libc::EMFILE),
            _ => Connect::Fail(after, libc::ENETUNREACH),
        }
    }

    fn response(&mut self, _asked: &ReceivedRequest) -> Reply {
        let taken = if !self.is_bad() {
            SendTiming::AtOnce
        } else {
            match self.random.random_range(0..3) {
                0 => SendTiming::Never,
                1 => SendTiming::After(self.time()),
                _ => SendTiming::Fail(self.time(), self.pick(&ERRORS)),
            }
        };
        let bytes = if !self.is_bad() {
            self.pick(&GOOD)
        } else {
            self.pick(&BAD)
        };
        let mut steps = self.pieces(bytes);
        if self.is_bad() {
            let kept = self.random.random_range(0..=steps.len());
            steps.truncate(kept);
        }
        if self.is_bad() || bytes == OK_CLOSE {
            let last = steps.last().map_or(Nanos::ZERO, |(at, _)| *at);
            let end = match self.random.random_range(0..3) {
                0 => Step::Fail(self.pick(&ERRORS)),
                1 => Step::Send(b"more".to_vec()),
                _ => Step::Close,
            };
            steps.push((last + self.time(), end));
        }
        Reply { taken, steps }
    }
}

/// Creates a load with random options and a bounded length.
pub(super) fn random_load(random: &mut ChaCha8Rng) -> (LoadSpec, u64) {
    let connections = random.random_range(1..12u64);
    let workers = random.random_range(1..=connections.min(3));
    let mut words = format!("-c {connections}");
    let mut add = |word: String| words.push_str(&word);
    let by_count = random.random_bool(0.5);
    if by_count {
        add(format!(" -n {}", random.random_range(1..200)));
    }
    if !by_count || random.random_bool(0.3) {
        add(format!(" -d {}ms", random.random_range(1..3000)));
    }
    if random.random_bool(0.5) {
        add(format!(" -r {}", random.random_range(10..3000)));
        if random.random_bool(0.5) {
            add(" --arrivals poisson".to_owned());
        }
    }
    if random.random_bool(0.3) {
        add(format!(" --warmup {}ms", random.random_range(1..500)));
    }
    if random.random_bool(0.3) {
        add(" --no-keepalive".to_owned());
    }
    if random.random_bool(0.2) {
        add(" --http 1.0".to_owned());
    }
    if random.random_bool(0.3) {
        add(format!(" --follow {}", random.random_range(1..4)));
    }
    let method = ["GET", "POST", "HEAD"][random.random_range(0..3)];
    add(format!(" -X {method}"));
    add(format!(" --timeout {}ms", random.random_range(1..2000)));
    add(format!(
        " --connect-timeout {}ms",
        random.random_range(1..2000)
    ));
    add(format!(" --seed {}", random.random_range(0..1000)));
    if random.random_bool(0.2) {
        let timeout = random.random_range(1..2000);
        add(format!(" --events chunks --gap-timeout {timeout}ms"));
        if random.random_bool(0.5) {
            add(" --end-marker end".to_owned());
        }
    }
    let mut spec = spec(&words);
    if random.random_bool(0.3) {
        // Three copies of one target, as if the server had three names.
        spec.targets = vec![spec.targets[0].clone(); 3];
        spec.requests = vec![spec.requests[0].clone(); 3];
        for (request, target) in spec.requests.iter_mut().zip(0..) {
            request.target = target;
        }
        spec.order = [RequestOrder::Sequence, RequestOrder::Random][random.random_range(0..2)];
    }
    (spec, workers)
}

fn one_case(seed: u64) -> Outcomes {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (spec, workers) = random_load(&mut random);
    let cost = Nanos([0, 0, 1_000, 100_000][random.random_range(0..4)]);
    let badness = [0, 3, 30, 80][random.random_range(0..4)];
    let servers = (0..workers).map(|worker| fickle(seed * 16 + worker, badness));
    let outcomes = simulate_costly(&spec, servers.collect(), cost, &Control::new(1));
    check_outcomes(&spec, &outcomes);
    outcomes
}

pub(super) fn fickle(seed: u64, badness: u32) -> Box<dyn Server> {
    Box::new(RandomServer {
        random: ChaCha8Rng::seed_from_u64(seed),
        badness,
    })
}

/// Runs a random load whose connections are opened before the load begins. The server may close
/// them before that.
fn one_prepared_case(seed: u64) -> Outcomes {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (spec, workers) = random_load(&mut random);
    let cost = Nanos([0, 0, 1_000, 100_000][random.random_range(0..4)]);
    let badness = [0, 3, 30, 80][random.random_range(0..4)];
    let servers = (0..workers).map(|worker| -> Box<dyn Server> {
        Box::new(IdleFailingServer {
            server: fickle(seed * 16 + worker, badness),
            random: ChaCha8Rng::seed_from_u64(seed * 16 + worker),
            badness,
        })
    });
    let servers = servers.collect();
    let until = PreconnectWait::random(&mut random);
    let control = Control::new(1);
    let outcomes = simulate_prepared(spec.clone(), servers, until, cost, &control);
    check_outcomes(&spec, &outcomes);
    outcomes
}

fn check_outcomes(spec: &LoadSpec, outcomes: &Outcomes) {
    let totals = &outcomes.record.totals;
    assert_eq!(
        totals.started,
        totals.ok + totals.failed + totals.unfinished
    );
    let per_status: u64 = outcomes.record.status.values().sum();
    let whole = [
        Outcome::Ok,
        Outcome::UnexpectedStatus,
        Outcome::UnexpectedSize,
        Outcome::UnexpectedBody,
        Outcome::StoppedEarly,
        Outcome::NoEndMarker,
    ];
    let responded: u64 = whole.iter().map(|outcome| outcomes.count(*outcome)).sum();
    assert_eq!(per_status, responded);
    let in_slices: u64 = outcomes.record.series.iter().map(|s| s.ok + s.failed).sum();
    assert_eq!(in_slices, totals.ok + totals.failed);
    assert!(totals.body_bytes_in <= totals.bytes_in);
    match (spec.span.requests, spec.span.duration) {
        // Without a duration, the load ends only when all requests have finished. Even with a
        // single connection, each request takes at most its timeout plus the backoff after it. Gaps
        // between Poisson arrivals may be long.
        (Some(limit), None) if outcomes.finding("nothing-listens").is_some() => {
            assert!(totals.started + totals.unstarted <= limit);
        }
        (Some(limit), None) => {
            assert_eq!((totals.started, totals.unstarted), (limit, 0));
            assert_eq!(totals.unfinished, 0);
            let warming = spec.info.rate_per_s.unwrap_or(0.0) * spec.span.warmup.as_secs_f64();
            assert!(totals.elapsed_s < 3.0 * ((limit + 10) as f64 + warming));
        }
        (Some(limit), Some(_)) => assert!(totals.started + totals.unstarted <= limit),
        _ => {}
    }
    if let Some(duration) = spec.span.duration {
        assert!(totals.elapsed_s <= duration.as_secs_f64());
    }
}

#[test]
fn no_request_is_lost_or_hangs_for_any_server_behavior() {
    let mut seen = std::collections::BTreeSet::new();
    let (mut retried, mut redirected) = (0, 0);
    for seed in 0..CASES {
        let outcomes = std::panic::catch_unwind(|| one_case(seed));
        let outcomes = outcomes.unwrap_or_else(|_| panic!("seed {seed}"));
        seen.extend(outcomes.record.outcomes.keys().copied());
        retried += outcomes.record.totals.retried;
        redirected += outcomes.record.totals.redirected;
    }
    // The random cases produce all outcomes except those that need host names, TLS, gRPC,
    // journeys or expectations.
    use Outcome::{Capture, Dns, NoLocalPort, Tls, UnexpectedBody, UnexpectedSize};
    for outcome in Outcome::ALL {
        let beyond = [
            Capture,
            Dns,
            NoLocalPort,
            Tls,
            UnexpectedBody,
            UnexpectedSize,
            Outcome::ConnectFailed,
        ];
        assert_eq!(
            seen.contains(outcome),
            !beyond.contains(outcome) && !matches!(outcome, Outcome::Call(_)),
            "{outcome:?}"
        );
    }
    assert!(retried > 0 && redirected > 1000, "{retried} {redirected}");
}

#[test]
fn preconnected_loads_account_for_every_request() {
    let (mut late, mut retried) = (0, 0);
    for seed in 0..CASES / 3 {
        let outcomes = std::panic::catch_unwind(|| one_prepared_case(seed));
        let outcomes = outcomes.unwrap_or_else(|_| panic!("seed {seed}"));
        late += u64::from(outcomes.finding("connections-late").is_some());
        retried += outcomes.record.totals.retried;
    }
    assert!(late > 50 && retried > 50, "{late} {retried}");
}

/// Runs a random load with a script whose requests go to several targets.
fn one_scripted_case(seed: u64) -> ScriptCounts {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let connections = random.random_range(1..8u64);
    let end = if random.random_bool(0.5) {
        format!("-n {}", random.random_range(1..150))
    } else {
        format!("-d {}ms", random.random_range(1..3000))
    };
    let open = ["", "-r 500", "-r 2000 --warmup 100ms"][random.random_range(0..3)];
    let closed = ["", "--no-keepalive"][random.random_range(0..2)];
    let follow = random.random_range(0..3);
    let spec = spec(&format!(
        "-c {connections} {end} {open} {closed} --timeout 500ms --follow {follow}"
    ));
    let writer = spec.writer();
    let requests = ["/own", "http://127.0.0.2:1/other", "http://127.0.0.3:1/"]
        .into_iter()
        .flat_map(|url| [("GET", url), ("POST", url)])
        .map(|(method, url)| writer.request(method, url, &[], b"").unwrap());
    let counts = Rc::new(RefCell::new(ScriptCounts::default()));
    let script = RandomScript {
        requests: requests.collect(),
        counts: counts.clone(),
        random: prony_record::RandomSequence::new(seed),
        left: random.random_range(0..=connections as u32),
    };
    let server = Box::new(RandomServer {
        random: ChaCha8Rng::seed_from_u64(seed),
        badness: [0, 3, 30, 80][random.random_range(0..4)],
    });
    let sees = CaptureSpec {
        ends: true,
        heads: true,
        body_bytes: 2,
    };
    let outcomes = simulate_script(&spec, server, script, sees);
    let counts = counts.take();
    assert!(counts.is_finished);
    assert_eq!(counts.begun, counts.ended);
    let mut measured = outcomes.record.outcomes;
    measured.remove(&Outcome::Unstarted);
    assert_eq!(counts.measured, measured);
    counts
}

/// The proxy responds randomly to CONNECT, and then to TLS.
#[test]
fn no_request_is_lost_or_hangs_for_any_proxy_behavior() {
    let mut seen = std::collections::BTreeSet::new();
    let one_case = |seed: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let words = format!(
            "-t 1 -c {} -n {} --proxy 127.0.0.1:1 --insecure --timeout 500ms --connect-timeout {}ms",
            random.random_range(1..6),
            random.random_range(1..60),
            random.random_range(1..900),
        );
        let options = LoadSettings::from_flags(&words);
        let spec = options.resolve(Some("https://127.0.0.1:2/")).unwrap();
        let server = Box::new(RandomServer {
            random,
            badness: [0, 3, 30, 80][seed as usize % 4],
        });
        let outcomes = simulate(&spec, vec![server]);
        check_outcomes(&spec, &outcomes);
        outcomes
    };
    for seed in 0..CASES / 3 {
        let outcomes = std::panic::catch_unwind(|| one_case(seed));
        let outcomes = outcomes.unwrap_or_else(|_| panic!("seed {seed}"));
        seen.extend(outcomes.record.outcomes.keys().copied());
    }
    use Outcome::{ConnectFailed, ConnectRefused, ConnectTimeout, Timeout, Tls};
    for outcome in [ConnectFailed, ConnectRefused, ConnectTimeout, Timeout, Tls] {
        assert!(seen.contains(&outcome), "{outcome:?}");
    }
}

#[test]
fn each_request_of_a_script_ends_once_for_any_server_behavior() {
    let mut ended = 0;
    for seed in 0..CASES / 3 {
        let counts = std::panic::catch_unwind(|| one_scripted_case(seed));
        ended += counts.unwrap_or_else(|_| panic!("seed {seed}")).ended;
    }
    assert!(ended > CASES);
}

#[test]
fn a_seed_reproduces_its_case() {
    for seed in [3, 99, 1234] {
        let (one, two) = (one_case(seed).record, one_case(seed).record);
        assert_eq!(one.totals, two.totals);
        assert_eq!(one.outcomes, two.outcomes);
        assert_eq!(one.histograms, two.histograms);
        assert_eq!(one.series, two.series);
    }
}
