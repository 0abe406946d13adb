//! Random HTTP/2 servers: each load must end and account for every request, whatever the server
//! sends.

use prony_record::RandomSequence;

use crate::h2_frames::*;
use crate::h2_peer::Peer;
use crate::h2_server::Scripted;

/// Pseudo-random numbers, the same for the same seed.
struct Random(RandomSequence);

impl Random {
    fn new(seed: u64) -> Random {
        Random(RandomSequence::new(seed))
    }

    fn below(&mut self, limit: u32) -> u32 {
        ((self.0.next_u64() >> 32) % u64::from(limit)) as u32
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize]
    }

    fn bytes(&mut self, most: u32) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

/// Returns a random frame for a stream, legal or not.
fn anything(random: &mut Random, stream: u32) -> Vec<u8> {
    let code = random.below(16);
    let number = random.one_of(&[0, 1, 5, 100, 65_535, MAX_U31, u32::MAX]);
    match random.below(20) {
        0 => rst_stream(stream, code),
        1 => window_update(random.one_of(&[0, stream]), number),
        2 => settings(&[(random.below(8) as u16, number)]),
        3 => settings(&[(MAX_CONCURRENT_STREAMS, 1 + random.below(4))]),
        4 => frame(PING, random.one_of(&[0, ACK]), 0, b"whatever"),
        5 => goaway(random.one_of(&[0, stream, MAX_U31]), code),
        6 => headers(
            stream,
            END_HEADERS,
            &status(random.one_of(&[100, 103, 200, 204])),
        ),
        7 => headers(stream, ALL, &status(random.one_of(&[101, 200, 304, 500]))),
        8 => headers(
            stream,
            random.one_of(&[0, 1, 4, 5, 0x2d]),
            &random.bytes(40),
        ),
        9 => data(stream, random.one_of(&[0, 1, 8, 9]), random.bytes(300)),
        10 => frame(
            CONTINUATION,
            random.one_of(&[0, 4]),
            stream,
            &random.bytes(20),
        ),
        11 => frame(
            random.below(12) as u8,
            random.below(256) as u8,
            stream,
            &random.bytes(12),
        ),
        12 => half(stream),
        13 => random.bytes(30),
        14 => head_only(stream),
        15 => frame(PRIORITY, 0, stream, &random.bytes(5)),
        16 => frame(0x40, 0, stream, &random.bytes(99)),
        17 => with_body(stream, random.one_of(&["0", "4", "5"]), b"four"),
        18 => response(stream, b"")[..random.below(12) as usize].to_vec(),
        _ => Vec::new(),
    }
}

/// Serves most requests correctly, but sometimes violates the protocol.
fn misbehave(peer: &mut Peer, random: &mut Random) -> Option<()> {
    if random.below(10) > 0 {
        peer.send_settings(&[])?;
    }
    let steadiness = random.one_of(&[2, 5, 20]);
    loop {
        let stream = peer.next(HEADERS)?.stream;
        let mut bytes = if random.below(steadiness) > 0 {
            response(stream, b"fine")
        } else {
            let other = random.one_of(&[stream, stream, stream, 0, 1, stream + 2, 2]);
            [anything(random, stream), anything(random, other)].concat()
        };
        if random.below(50) == 0 && !bytes.is_empty() {
            let place = random.below(bytes.len() as u32) as usize;
            bytes[place] ^= 1 << random.below(8);
        }
        let (one, two) = bytes.split_at(random.below(bytes.len() as u32 + 1) as usize);
        peer.send(one)?;
        peer.send(two)?;
        match random.below(40) {
            0 => return peer.close(),
            1 => return peer.reset(),
            2 => return None,
            _ => {}
        }
    }
}

fn load_seed(seed: u64, secured: bool) {
    let script = move |peer: &mut Peer| {
        let mut random = Random::new(seed << 16 | peer.connection_index as u64);
        misbehave(peer, &mut random)
    };
    let server = if !secured {
        Scripted::clear(script)
    } else {
        Scripted::secured(&["h2"], script)
    };
    let mut random = Random::new(!seed);
    let connections = 1 + random.below(3);
    let words = match random.below(6) {
        0 => "--streams 1 --no-keepalive",
        1 => "--streams 2",
        2 => "--streams 3 -X POST --body hello",
        3 => "--streams 4 -X HEAD",
        4 => "--streams 30",
        _ => "--streams 1",
    };
    let words = format!("-n 100 -c {connections} --timeout 50ms {words}");
    let record = server.load(&words);
    let totals = &record.totals;
    assert_eq!(
        totals.ok + totals.failed,
        100,
        "seed {seed}: {words}: {totals:?}"
    );
}

#[test]
fn loads_of_random_servers_end_and_account_for_all_requests() {
    for seed in 0..40 {
        load_seed(seed, false);
    }
}

#[test]
fn loads_of_random_servers_end_over_tls() {
    for seed in 1_000..1_020 {
        load_seed(seed, true);
    }
}

#[test]
fn random_servers_end_with_the_load() {
    for (seed, words) in [
        (1, "-d 300ms -c 3 --streams 7"),
        (2, "-d 300ms -c 4 --streams 2 -t 2"),
        (3, "-d 300ms -c 3 --streams 5 -r 500 -t 2"),
        (4, "-d 300ms -c 1 --streams 20 -r 2000 --arrivals poisson"),
        (5, "-d 300ms --warmup 100ms -c 2 --streams 3 --timeout 40ms"),
    ] {
        for seed in [seed, seed + 100, seed + 200] {
            let server = Scripted::clear(move |peer| {
                misbehave(
                    peer,
                    &mut Random::new(seed << 16 | peer.connection_index as u64),
                )
            });
            let record = server.load(words);
            assert!(record.totals.started > 0, "{words}");
        }
    }
}

/// Maximum number of loads before missing responses of a good server count as a failure. If the
/// machine stalls for a second, good responses time out as well.
const ATTEMPTS_MAX: u32 = 5;

#[test]
fn a_bad_server_does_not_affect_a_good_one() {
    for seed in 2_000..2_010 {
        let are_all_responded = (0..ATTEMPTS_MAX).any(|_| all_good_responses_arrive(seed));
        assert!(are_all_responded, "seed {seed}");
    }
}

/// Loads a misbehaving server and a good one. Returns true if all responses of the good one
/// arrived.
fn all_good_responses_arrive(seed: u64) -> bool {
    let bad = Scripted::clear(move |peer| {
        misbehave(
            peer,
            &mut Random::new(seed << 16 | peer.connection_index as u64),
        )
    });
    let good = Scripted::responding(|stream| response(stream, b"the good"));
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("urls.txt");
    std::fs::write(&list, format!("{}\n{}\n", good.url(), bad.url())).unwrap();
    let words = format!(
        "-n 200 -c 4 --streams 3 --timeout 1s --urls {}",
        list.display()
    );
    let record = good.load(&words);
    let totals = &record.totals;
    assert_eq!(totals.ok + totals.failed, 200, "seed {seed}: {totals:?}");
    // The server counts a retried request twice.
    let requests = good.seen().requests;
    assert!(
        requests <= 100 + totals.retried as usize,
        "seed {seed}: {requests}, {totals:?}"
    );
    requests >= 100 && totals.ok >= 100
}
