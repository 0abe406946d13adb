//! Tests that a worker in the steady state allocates nothing for a request, and that a connection
//! needs little memory. This test has its own binary, because it replaces the allocator. The origin
//! runs in the same process, so the test recognizes the workers' threads by their names.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prony_load::{Control, LoadSettings, run};
use prony_origin::{Config, Origin, Tls};
use prony_record::Record;

/// Number of allocations by threads whose name begins with `load-`.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Number of bytes that those threads currently hold, and the maximum number so far. Memory freed
/// by other threads is not subtracted, so the values are meaningful only from a reset to the end of
/// a load.
static HELD_BYTES: AtomicI64 = AtomicI64::new(0);
static PEAK_BYTES: AtomicI64 = AtomicI64::new(0);

/// Size of a histogram's buckets for times between two powers of two.
const OCTAVE_BYTES: usize = 1024 * size_of::<u64>();
/// Possible sizes of a histogram's buckets.
const HISTOGRAM_BYTES: RangeInclusive<usize> = 2 * OCTAVE_BYTES..=40 * OCTAVE_BYTES;

struct CountingAllocator;

/// Counts an allocation of `bytes` bytes that replaces one of `instead_of` bytes.
fn count(bytes: usize, instead_of: usize) {
    if !is_worker() {
        return;
    }
    if bytes > 0 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
    let more = held(bytes) - held(instead_of);
    let held = HELD_BYTES.fetch_add(more, Ordering::Relaxed) + more;
    PEAK_BYTES.fetch_max(held, Ordering::Relaxed);
}

/// Returns the counted bytes of an allocation: all, except for the buckets of histograms, which grow
/// with the longest time, and so depend on how busy the machine is.
fn held(bytes: usize) -> i64 {
    let is_histogram = HISTOGRAM_BYTES.contains(&bytes) && bytes.is_multiple_of(OCTAVE_BYTES);
    if is_histogram { 0 } else { bytes as i64 }
}

fn is_worker() -> bool {
    let mut name = [0u8; 16];
    // SAFETY: the buffer has the 16 bytes that the call requires (prctl(2)).
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"load-")
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller fulfills the contract of `alloc`, which the system's allocator shares.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the same as for `alloc`; `memory` comes from the system's allocator.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the same as for `realloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[path = "flags/mod.rs"]
mod flags;

/// Runs a load and returns its record and the allocations of its workers.
fn load(url: &str, words: &str) -> (Record, u64) {
    let flags = flags::settings(words.split_whitespace());
    let options: LoadSettings = serde_json::from_value(flags).unwrap();
    let spec = options.resolve(Some(url)).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let record = run(&spec, &Control::new(2)).unwrap();
    assert_eq!(record.totals.failed, 0, "{:?}", record.outcomes);
    (record, ALLOCATIONS.load(Ordering::Relaxed) - before)
}

/// Returns the number of allocations that 2,500 requests need beyond the allocations for 500. Also
/// returns the number of half seconds that elapsed, because the recorder may allocate when a half
/// second ends.
fn more_for_more(url: &str, words: &str) -> (u64, u64) {
    let (_, few) = load(url, &format!("-n 500 {words}"));
    let (record, many) = load(url, &format!("-n 2500 {words}"));
    assert!(few > 0, "no allocation was counted");
    (many.saturating_sub(few), record.series.len() as u64)
}

/// Maximum number of allocations per half second. The end of a half second needs up to 24, for a list
/// of buckets that grows by doubling. The rest is a margin for two workers, one of which may get so
/// few requests in the shorter load that its buffers stay small. One allocation per request would be
/// 2,000.
const ALLOCATIONS_PER_SLICE_MAX: u64 = 60;

fn origin(tls: Option<Tls>) -> Origin {
    Origin::start(Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tls,
        ..Config::default()
    })
    .unwrap()
}

// All checks are in a single test, so no other load runs at the same time.
#[test]
fn memory_of_requests_and_connections() {
    requests_allocate_nothing();
    requests_over_tls_allocate_nothing();
    connections_take_few_bytes();
    idle_websockets_take_few_bytes();
    a_long_event_takes_no_memory();
}

/// Starts a server that reads to the end of a request's head, including anything before it,
/// responds, and closes. Each of its threads serves one connection at a time. The threads end with
/// the process.
fn closing_server() -> SocketAddr {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    for _ in 0..8 {
        let listener = listener.clone();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut read = Vec::new();
                let mut piece = [0; 1024];
                while !read.ends_with(b"close\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(length @ 1..) => read.extend_from_slice(&piece[..length]),
                        _ => break,
                    }
                }
                let is_told = read.starts_with(b"PROXY ") || read.starts_with(b"\r\n\r\n\0");
                let status = if is_told { "200 OK" } else { "400 Bad" };
                let head = "Content-Length: 0\r\nConnection: close";
                let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n\r\n");
            }
        });
    }
    listener.local_addr().unwrap()
}

/// Returns the maximum number of bytes that the workers of a load held.
fn most_held(url: &str, words: &str) -> i64 {
    HELD_BYTES.store(0, Ordering::Relaxed);
    PEAK_BYTES.store(0, Ordering::Relaxed);
    load(url, words);
    PEAK_BYTES.load(Ordering::Relaxed)
}

/// Maximum heap bytes per additional connection. The measured values are about 564 with readiness
/// and 520 with io_uring, and about ten more if a half second of the series ends at another time.
/// Lower this bound when the measured values decrease.
const BYTES_PER_CONNECTION_MAX: f64 = 590.0;

fn connections_take_few_bytes() {
    let origin = origin(None);
    let url = format!("http://{}/delay/20ms/bytes/1K", origin.addresses()[0]);
    for io in ["poll", "uring"] {
        // A busy machine spreads a load over more half seconds of the series, which adds bytes to
        // some of the measurements.
        let measured = (0..5).map(|_| {
            let few = most_held(&url, &format!("-c 500 -n 1000 -t 1 --io {io}"));
            let many = most_held(&url, &format!("-c 1500 -n 3000 -t 1 --io {io}"));
            (many - few) as f64 / 1000.0
        });
        let each = measured.fold(f64::INFINITY, f64::min);
        println!("{io}: {each:.0} heap bytes per connection");
        assert!(
            each < BYTES_PER_CONNECTION_MAX,
            "{io}: {each} bytes per connection"
        );
        assert!(each > size_of::<u64>() as f64, "no bytes were counted");
    }
}

/// Number of WebSockets that stay open, if this process may open twice as many files.
const IDLE_WEBSOCKETS: usize = 20_000;
/// Maximum heap bytes per idle WebSocket. The measured values are about 1,010 with readiness and
/// 1,180 with io_uring.
const BYTES_PER_WEBSOCKET_MAX: i64 = 3 * 1024;

/// Raises the limit on open files if this process may. Returns the number of WebSockets for which
/// it suffices, with both ends in this process.
fn websockets_possible() -> usize {
    let files = 2 * IDLE_WEBSOCKETS as u64 + 500;
    let mut limit = libc::rlimit {
        rlim_cur: files,
        rlim_max: files,
    };
    // SAFETY: plain system calls with a valid structure. Raising the limit may fail.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
    }
    let possible = (limit.rlim_max as usize).saturating_sub(500) / 2;
    possible.min(IDLE_WEBSOCKETS)
}

/// Starts a server that opens WebSockets. It keeps the first `idle` ones open, and sends each message
/// of the next one back.
fn websocket_server(idle: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = [0; 1024];
            let length = stream.read(&mut head).unwrap();
            let head = std::str::from_utf8(&head[..length]).unwrap();
            let key = head
                .lines()
                .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
            let source = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.unwrap());
            let sha1 = &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY;
            let accept = STANDARD.encode(aws_lc_rs::digest::digest(sha1, source.as_bytes()));
            let response = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            stream.write_all(response.as_bytes()).unwrap();
            if open.len() < idle {
                open.push(stream);
                continue;
            }
            // The message `x` has two bytes of header, four of the key, and its own.
            while stream.read_exact(&mut [0; 7]).is_ok() {
                stream.write_all(&[0x81, 1, b'x']).unwrap();
            }
            // The idle connections must not close before those of the load.
            let _ = open[0].read(&mut [0]);
            return;
        }
    });
    address
}

fn idle_websockets_take_few_bytes() {
    let idle = websockets_possible();
    if idle < IDLE_WEBSOCKETS {
        println!("{idle} idle WebSockets, because of the limit on open files");
    }
    for io in ["poll", "uring"] {
        let url = format!("ws://{}/", websocket_server(idle));
        HELD_BYTES.store(0, Ordering::Relaxed);
        PEAK_BYTES.store(0, Ordering::Relaxed);
        let words = format!("-n 3 -c 1 -t 1 --message x --idle {idle} --io {io}");
        let (record, _) = load(&url, &words);
        let each = PEAK_BYTES.load(Ordering::Relaxed) / idle as i64;
        let used = record.idle.unwrap();
        let counts = (used.open_at_begin, used.open_at_end, used.reopened);
        assert_eq!(counts, (idle as u64, idle as u64, 0), "{io}");
        println!("{io}: {each} heap bytes for each of {idle} idle WebSockets");
        assert!(each < BYTES_PER_WEBSOCKET_MAX, "{io}: {each} bytes");
        assert!(each > size_of::<u64>() as i64, "no bytes were counted");
    }
}

/// Length of an event, in MiB.
const LONG_EVENT_MIB: usize = 32;
/// Maximum number of bytes that a load with such an event may hold.
const HELD_WITH_LONG_EVENT_MAX: i64 = 2 << 20;

fn a_long_event_takes_no_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1024]);
            let head = "HTTP/1.1 200 OK\r\n\r\ndata: {\"a\":\"";
            let mut sent = stream.write_all(head.as_bytes());
            for _ in 0..LONG_EVENT_MIB {
                sent = sent.and_then(|()| stream.write_all(&vec![b'x'; 1 << 20]));
            }
            let _ = sent.and_then(|()| stream.write_all(b"\"}\n\ndata: xx\n\n"));
        }
    });
    let words = "--events sse --event-field a --end-marker xx -c 1 -n 1 -t 1";
    let held = most_held(&format!("http://{address}/"), words);
    println!("{held} bytes held with an event of {LONG_EVENT_MIB} MiB");
    assert!(held < HELD_WITH_LONG_EVENT_MAX, "{held} bytes");
}

fn requests_allocate_nothing() {
    let clear = origin(None);
    for (path, words) in [
        ("/", "-c 8 -t 1"),
        ("/", "-c 8 -t 2"),
        ("/", "-c 8 -t 2 -X POST --body something"),
        ("/", "-c 8 -t 1 -r 20000"),
        ("/bytes/20K", "-c 8 -t 1"),
        ("/chunked/5000", "-c 8 -t 1 --expect-size 5000"),
        // A new connection per request is expensive for the kernel, but needs no additional memory
        // in the worker.
        ("/", "-c 8 -t 1 --no-keepalive"),
        ("/", "-c 8 -t 1 --http 2"),
        ("/", "-c 4 -t 1 --http 2 --streams 32"),
        (
            "/",
            "-c 4 -t 2 --http 2 --streams 32 -X POST --body something",
        ),
        ("/", "-c 4 -t 1 --http 2 --streams 32 -r 20000"),
        ("/", "-c 4 -t 1 --http 2 --streams 32 --io poll"),
        ("/bytes/20K", "-c 4 -t 1 --http 2 --streams 8"),
        // Requests with placeholders are rendered into buffers that are reused.
        (
            "/?{{seq}}={{random(1,9)}}",
            "-c 8 -t 1 -H X-Id:{{uuid}} -X POST --body {{seq}}",
        ),
        (
            "/?{{seq}}={{random(1,9)}}",
            "-c 4 -t 1 --http 2 --streams 32 -H X-Id:{{uuid}} -X POST --body {{seq}}",
        ),
    ] {
        let url = format!("http://{}{path}", clear.addresses()[0]);
        let (more, slices) = more_for_more(&url, words);
        assert!(
            more <= ALLOCATIONS_PER_SLICE_MAX * slices,
            "{path} {words}: {more} allocations for 2000 requests in {slices} half seconds"
        );
    }
    // The results of the list's entries take memory only at the end of a half second.
    let list = tempfile::NamedTempFile::new().unwrap();
    let lines: String = (0..20).map(|n| format!("/bytes/{n}\n")).collect();
    std::fs::write(list.path(), lines).unwrap();
    let url = format!("http://{}/", clear.addresses()[0]);
    let words = format!("-c 8 -t 1 --urls {}", list.path().display());
    let (more, slices) = more_for_more(&url, &words);
    assert!(
        more <= 20 * ALLOCATIONS_PER_SLICE_MAX * slices,
        "{words}: {more} allocations for 2000 requests in {slices} half seconds"
    );
    // The PROXY header, which differs for each connection, needs no memory either.
    let address = closing_server();
    for words in [
        "--proxy-protocol v1 --proxy-source 10.0.0.0/8,fd00::/64",
        "--proxy-protocol v2",
    ] {
        let url = format!("http://{address}/");
        let (more, slices) = more_for_more(&url, &format!("-c 8 -t 1 --no-keepalive {words}"));
        assert!(
            more <= ALLOCATIONS_PER_SLICE_MAX * slices,
            "{words}: {more} allocations for 2000 connections in {slices} half seconds"
        );
    }
}

/// TLS doesn't allocate either, because records are decrypted and encrypted in the worker's own
/// buffers.
fn requests_over_tls_allocate_nothing() {
    let secured = origin(Some(Tls::Generated));
    for (path, words) in [
        ("/", "-c 8 -t 1"),
        ("/", "-c 8 -t 2 --tls-max 1.2"),
        ("/", "-c 8 -t 1 -X POST --body something"),
        // The responses consist of records of 16 KiB, which arrive in parts.
        ("/bytes/100K", "-c 8 -t 1"),
        ("/", "-c 8 -t 1 --http 2"),
        ("/", "-c 4 -t 1 --http 2 --streams 32"),
        ("/", "-c 4 -t 1 --http 2 --streams 32 --io poll"),
        (
            "/",
            "-c 4 -t 2 --http 2 --streams 32 -X POST --body something",
        ),
        ("/bytes/100K", "-c 2 -t 1 --http 2 --streams 8"),
        ("/?{{seq}}", "-c 8 -t 1 -H X-Id:{{uuid}} --http 1.1"),
        ("/?{{seq}}", "-c 4 -t 1 --streams 8 -H X-Id:{{uuid}}"),
    ] {
        let url = format!("https://{}{path}", secured.addresses()[0]);
        let (more, slices) = more_for_more(&url, &format!("{words} --insecure"));
        assert!(
            more <= ALLOCATIONS_PER_SLICE_MAX * slices,
            "TLS {path} {words}: {more} allocations for 2000 requests in {slices} half seconds"
        );
    }
}
