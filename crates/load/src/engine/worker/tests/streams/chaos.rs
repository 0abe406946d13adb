//! Random HTTP/2 servers against random loads, like [`super::super::chaos`] for HTTP/1. Every
//! request must be accounted for, the load must end in bounded (virtual) time, and no request slot
//! may get stuck.

use std::collections::BTreeMap;

use prony_record::{Nanos, Outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use rustls::version::{TLS12, TLS13};

use super::super::scripts::{RandomScript, ScriptCounts};
use super::server::{
    self, CANCEL, END_STREAM, FAILED, INTERNAL_ERROR, NO_ERROR, OK, REFUSED_STREAM, data, goaway,
    head, limit, ping, reset, settings, trailers, window_update,
};
use super::tls::{TlsServer, config};
use super::*;
use crate::settings::RequestOrder;
use crate::socket::simulated::SendTiming;

const CASES: u64 = 750;
/// Number of cases over TLS. There are fewer because they take longer.
const CASES_OVER_TLS: u64 = 150;

/// Source of a server's random actions, valid and invalid.
#[derive(Clone)]
struct RandomChoices {
    random: Rc<RefCell<ChaCha8Rng>>,
    /// Percentage of invalid responses, from 0 to 100.
    badness: u32,
}

impl RandomChoices {
    fn below(&self, end: u64) -> u64 {
        self.random.borrow_mut().random_range(0..end)
    }

    fn is_bad(&self) -> bool {
        self.below(100) < u64::from(self.badness)
    }

    fn time(&self) -> Nanos {
        Nanos(match self.below(10) {
            0..3 => 0,
            3..8 => self.below(5_000_000),
            8 => self.below(100_000_000),
            _ => self.below(3_000_000_000),
        })
    }

    fn connect(&self) -> Connect {
        let after = self.time();
        if !self.is_bad() {
            return Connect::Accept(after);
        }
        match self.below(5) {
            0 => Connect::Never,
            1 => Connect::Fail(after, libc::ECONNREFUSED),
            2 => Connect::Fail(Nanos::ZERO, libc::EAGAIN),
            3 => Connect::Fail(Nanos::ZERO, libc::EMFILE),
            _ => Connect::Fail(after, libc::ENETUNREACH),
        }
    }

    fn taken(&self) -> SendTiming {
        if !(self.is_bad() && self.below(4) == 0) {
            SendTiming::AtOnce
        } else {
            match self.below(3) {
                0 => SendTiming::Never,
                1 => SendTiming::After(self.time()),
                _ => SendTiming::Fail(self.time(), libc::EPIPE),
            }
        }
    }

    fn settings(&self) -> Vec<u8> {
        match self.below(5) {
            0 => settings(&[]),
            1 => limit(100),
            2 => settings(&[(1, self.below(8192) as u32), (5, 1 << 20)]),
            3 if self.is_bad() => limit(0),
            3 => limit(self.below(9) as u32 + 1),
            _ if self.is_bad() => settings(&[(server::MAX_HEADER_LIST_SIZE, 100)]),
            _ => settings(&[(server::MAX_HEADER_LIST_SIZE, 10_000)]),
        }
    }

    fn greeting(&self, window: u32) -> Steps {
        let first = self.time();
        let mut steps = after(first, settings(&[(server::INITIAL_WINDOW_SIZE, window)]));
        while self.below(3) == 0 {
            steps.extend(after(first + self.time(), self.settings()));
        }
        if self.is_bad() {
            steps.truncate(self.below(2) as usize);
        }
        steps
    }

    fn good(&self, stream: u32) -> Vec<Vec<u8>> {
        match self.below(9) {
            6 => vec![server::redirect(stream, "/there")],
            7 => vec![server::redirect(stream, "//127.0.0.7:7/")],
            0 => vec![head(stream, OK, END_STREAM)],
            1 => vec![head(stream, FAILED, 0), data(stream, b"oh", END_STREAM)],
            2 => vec![server::interim(stream), ok(stream)],
            3 => vec![
                head(stream, OK, 0),
                data(stream, b"hi", 0),
                trailers(stream),
            ],
            _ => vec![ok(stream)],
        }
    }

    fn bad(&self, call: &Call) -> Vec<Vec<u8>> {
        let stream = call.stream;
        match self.below(17) {
            16 => vec![server::redirect(stream, "ftp://h/")],
            0..4 => vec![reset(stream, REFUSED_STREAM)],
            4 => vec![reset(stream, INTERNAL_ERROR)],
            5 => vec![head(stream, OK, 0), reset(stream, CANCEL)],
            6 => vec![goaway(stream.saturating_sub(4), NO_ERROR), ok(stream)],
            7 => vec![goaway(stream, INTERNAL_ERROR)],
            8 => vec![head(stream, OK, 0)],
            9 => vec![ping(), self.settings(), ok(stream)],
            10 => vec![data(stream, b"hi", 0)],
            11 => vec![data(9_999, b"hi", 0)],
            12 => vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()],
            13 => vec![ok(stream), window_update(stream, 0)],
            14 => vec![server::frame(9, 0, stream, b"")],
            _ => vec![],
        }
    }

    fn response(&self, call: &Call) -> Steps {
        let frames = if !self.is_bad() {
            self.good(call.stream)
        } else {
            self.bad(call)
        };
        let mut steps = Vec::new();
        let mut at = self.time();
        for frame in frames {
            at = at + Nanos(self.time().0 / 4);
            steps.extend(after(at, frame));
        }
        if self.is_bad() && self.below(3) == 0 {
            let end = match self.below(2) {
                0 => Step::Close,
                _ => Step::Fail(libc::ECONNRESET),
            };
            steps.push((at + self.time(), end));
        }
        steps
    }

    /// Puts the server behind a random version of TLS, with random ALPN protocols and handshakes.
    fn secured(self) -> TlsServer {
        let version = [&TLS12, &TLS13][self.below(2) as usize];
        let configs = [
            config(version, &[b"h2"]),
            config(version, &[b"h2", b"http/1.1"]),
            config(version, &[b"http/1.1"]),
            config(version, &[]),
        ];
        let window = self.window();
        let first = settings(&[(server::INITIAL_WINDOW_SIZE, window)]);
        let early = match self.below(8) {
            0 => first,
            1 => [first, self.settings()].concat(),
            2 if self.is_bad() => [first, goaway(0, NO_ERROR)].concat(),
            3 if self.is_bad() => [first, data(1, b"hi", 0)].concat(),
            _ => Vec::new(),
        };
        let one = self.clone();
        let configs = move |_| {
            if !one.is_bad() {
                configs[1].clone()
            } else {
                configs[one.below(4) as usize].clone()
            }
        };
        TlsServer::new(configs, self.server(window)).with_early(early)
    }

    fn window(&self) -> u32 {
        self.below(3) as u32 * 30_000 + 3_000
    }

    fn server(self, window: u32) -> ScriptedH2Server {
        let (one, two, three) = (self.clone(), self.clone(), self.clone());
        let opened = self.time();
        ScriptedH2Server::new(move |call| self.response(call))
            .with_windows(window, Some(opened))
            .connecting(move |_| one.connect())
            .greeting(move |_| two.greeting(window))
            .taking(move |_| three.taken())
    }
}

/// Creates a load with random options and a bounded length.
pub(super) fn random_load(random: &mut ChaCha8Rng, over_tls: bool) -> (LoadSpec, u64) {
    let connections = random.random_range(1..6u64);
    let workers = random.random_range(1..=connections.min(2));
    let mut words = format!("-c {connections}");
    if !over_tls || random.random_bool(0.3) {
        words.push_str(" --http 2");
    }
    let mut add = |word: String| words.push_str(&word);
    match random.random_range(0..6) {
        0 => add(" --no-keepalive".to_owned()),
        1 => {}
        _ => add(format!(" --streams {}", random.random_range(2..14))),
    }
    let by_count = random.random_bool(0.5);
    if by_count {
        add(format!(" -n {}", random.random_range(1..300)));
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
    match random.random_range(0..4) {
        0 => add(" -X POST".to_owned()),
        1 => add(format!(" -X POST --body {}", "x".repeat(8_000))),
        2 => add(format!(" -X PUT --body {}", "x".repeat(100))),
        _ => {}
    }
    if random.random_bool(0.3) {
        add(format!(" --follow {}", random.random_range(1..4)));
    }
    add(format!(" --timeout {}ms", random.random_range(1..2000)));
    let connect_timeout = random.random_range(1..2000);
    add(format!(" --connect-timeout {connect_timeout}ms"));
    add(format!(" --seed {}", random.random_range(0..1000)));
    if random.random_bool(0.2) {
        let timeout = random.random_range(1..2000);
        add(format!(" --events chunks --gap-timeout {timeout}ms"));
        if random.random_bool(0.5) {
            add(" --end-marker end".to_owned());
        }
    }
    let mut spec = if over_tls {
        tls::spec(&words)
    } else {
        spec(&words)
    };
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

fn one_case(seed: u64, over_tls: bool) -> Outcomes {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (spec, workers) = random_load(&mut random, over_tls);
    let cost = Nanos([0, 0, 1_000, 100_000][random.random_range(0..4)]);
    let badness = [0, 3, 30, 80][random.random_range(0..4)];
    let servers = (0..workers).map(|worker| whimsical(seed * 16 + worker, badness, over_tls));
    let outcomes = simulate_costly(&spec, servers.collect(), cost, &Control::new(1));
    check_outcomes(&spec, &outcomes, badness);
    outcomes
}

pub(super) fn whimsical(seed: u64, badness: u32, over_tls: bool) -> Box<dyn Server> {
    let random = Rc::new(RefCell::new(ChaCha8Rng::seed_from_u64(seed)));
    let whim = RandomChoices { random, badness };
    if over_tls {
        Box::new(whim.secured())
    } else {
        let window = whim.window();
        Box::new(whim.server(window))
    }
}

/// Runs a random load whose connections are opened before the load begins. The server may close
/// them before that.
fn one_prepared_case(seed: u64, over_tls: bool) -> Outcomes {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (spec, workers) = random_load(&mut random, over_tls);
    let cost = Nanos([0, 0, 1_000, 100_000][random.random_range(0..4)]);
    let badness = [0, 3, 30, 80][random.random_range(0..4)];
    let servers = (0..workers).map(|worker| -> Box<dyn Server> {
        Box::new(IdleFailingServer {
            server: whimsical(seed * 16 + worker, badness, over_tls),
            random: ChaCha8Rng::seed_from_u64(seed * 16 + worker),
            badness,
        })
    });
    let servers = servers.collect();
    let until = PreconnectWait::random(&mut random);
    let control = Control::new(1);
    let outcomes = simulate_prepared(spec.clone(), servers, until, cost, &control);
    check_outcomes(&spec, &outcomes, badness);
    outcomes
}

fn check_outcomes(spec: &LoadSpec, outcomes: &Outcomes, badness: u32) {
    let totals = &outcomes.record.totals;
    let ended = totals.ok + totals.failed + totals.unfinished;
    assert_eq!(totals.started, ended);
    let whole = [
        Outcome::Ok,
        Outcome::UnexpectedStatus,
        Outcome::StoppedEarly,
        Outcome::NoEndMarker,
    ];
    let responded: u64 = whole.iter().map(|outcome| outcomes.count(*outcome)).sum();
    let per_status: u64 = outcomes.record.status.values().sum();
    assert_eq!(per_status, responded);
    assert!(totals.body_bytes_in <= totals.bytes_in);
    if badness == 0 {
        let timeouts = [Outcome::Timeout, Outcome::Stalled, Outcome::ConnectTimeout];
        let timeouts: u64 = timeouts.map(|outcome| outcomes.count(outcome)).iter().sum();
        assert_eq!(totals.ok + totals.failed, responded + timeouts);
        assert_eq!(totals.retried, 0);
    }
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
        let outcomes = std::panic::catch_unwind(|| one_case(seed, false));
        let outcomes = outcomes.unwrap_or_else(|_| panic!("seed {seed}"));
        seen.extend(outcomes.record.outcomes.keys().copied());
        retried += outcomes.record.totals.retried;
        redirected += outcomes.record.totals.redirected;
    }
    // The random cases produce all outcomes except those that need host names, TLS, gRPC,
    // journeys or expectations.
    use Outcome::{Capture, ConnectFailed, Dns, NoLocalPort, Tls, UnexpectedBody, UnexpectedSize};
    let beyond = [
        Capture,
        Dns,
        NoLocalPort,
        Tls,
        UnexpectedBody,
        UnexpectedSize,
        ConnectFailed,
    ];
    for outcome in Outcome::ALL {
        let is_expected = !beyond.contains(outcome) && !matches!(outcome, Outcome::Call(_));
        assert_eq!(seen.contains(outcome), is_expected, "{outcome:?}");
    }
    assert!(retried > 0 && redirected > 1000, "{retried} {redirected}");
}

#[test]
fn preconnected_loads_account_for_every_request() {
    let (mut late, mut retried) = (0, 0);
    let seeds = (0..CASES / 3).map(|seed| (seed, false));
    let over_tls = (0..CASES_OVER_TLS / 3).map(|seed| (seed, true));
    for (seed, over_tls) in seeds.chain(over_tls) {
        let outcomes = std::panic::catch_unwind(|| one_prepared_case(seed, over_tls));
        let outcomes = outcomes.unwrap_or_else(|_| panic!("seed {seed} {over_tls}"));
        late += u64::from(outcomes.finding("connections-late").is_some());
        retried += outcomes.record.totals.retried;
    }
    assert!(late > 50 && retried > 50, "{late} {retried}");
}

/// Runs a random load with a script. Each user has a stream. The requests go to several targets,
/// and one is a raw HTTP/1 request.
fn one_scripted_case(seed: u64) -> (u64, BTreeMap<Outcome, u64>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (connections, streams) = (random.random_range(1..4u32), random.random_range(1..8u32));
    let end = if random.random_bool(0.5) {
        format!("-n {}", random.random_range(1..200))
    } else {
        format!("-d {}ms", random.random_range(1..3000))
    };
    let open = ["", "-r 500", "-r 2000 --warmup 100ms"][random.random_range(0..3)];
    let follow = random.random_range(0..3);
    let spec = spec(&format!(
        "--http 2 -c {connections} --streams {streams} {end} {open} --timeout 500ms --follow {follow}"
    ));
    let writer = spec.writer();
    let mut requests: Vec<_> = ["/own", "http://127.0.0.2:1/other", "http://127.0.0.3:1/"]
        .into_iter()
        .flat_map(|url| [("GET", url), ("POST", url)])
        .map(|(method, url)| writer.request(method, url, &[], b"x").unwrap())
        .collect();
    if random.random_bool(0.2) {
        requests.push(writer.raw("GET", b"GET / HTTP/1.1\r\n\r\n".to_vec()));
    }
    let counts = Rc::new(RefCell::new(ScriptCounts::default()));
    let script = RandomScript {
        requests,
        counts: counts.clone(),
        random: prony_record::RandomSequence::new(seed),
        left: random.random_range(0..=connections * streams),
    };
    let badness = [0, 3, 30, 80][random.random_range(0..4)];
    let random = Rc::new(RefCell::new(random));
    let whim = RandomChoices { random, badness };
    let window = whim.window();
    let sees = CaptureSpec {
        ends: true,
        heads: true,
        body_bytes: 2,
    };
    let outcomes = simulate_script(&spec, Box::new(whim.server(window)), script, sees);
    let counts = counts.take();
    assert!(counts.is_finished);
    assert_eq!(counts.begun, counts.ended);
    let mut measured = outcomes.record.outcomes;
    measured.remove(&Outcome::Unstarted);
    assert_eq!(counts.measured, measured);
    (counts.ended, measured)
}

#[test]
fn each_request_of_a_script_ends_once_for_any_server_behavior() {
    let (mut ended, mut ok) = (0, 0);
    for seed in 0..CASES / 3 {
        let case = std::panic::catch_unwind(|| one_scripted_case(seed));
        let (more, measured) = case.unwrap_or_else(|_| panic!("seed {seed}"));
        ended += more;
        ok += measured.get(&Outcome::Ok).copied().unwrap_or(0);
    }
    assert!(ended > CASES && ok > CASES, "{ended} {ok}");
}

#[test]
fn no_request_is_lost_or_hangs_over_tls() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..CASES_OVER_TLS {
        let outcomes = std::panic::catch_unwind(|| one_case(seed, true));
        let outcomes = outcomes.unwrap_or_else(|_| panic!("seed {seed}"));
        seen.extend(outcomes.record.outcomes.keys().copied());
    }
    assert!(seen.contains(&Outcome::Tls));
}

#[test]
fn a_seed_reproduces_its_case() {
    for seed in [3, 99, 1234] {
        let case = || one_case(seed, false).record;
        let (one, two) = (case(), case());
        assert_eq!(one.totals, two.totals);
        assert_eq!(one.outcomes, two.outcomes);
        assert_eq!(one.histograms, two.histograms);
        assert_eq!(one.series, two.series);
    }
}
