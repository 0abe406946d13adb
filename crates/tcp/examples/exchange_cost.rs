//! Cost of an exchange in the user-space TCP, with its peer: a request of 18 bytes, a response of
//! 250. Run it under `perf stat -e instructions:u`, with two numbers of exchanges, and divide the
//! difference.

use prony_tcp::Chunk;

#[path = "exchange/mod.rs"]
mod exchange;

fn main() {
    let set = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let count: u64 = set.unwrap_or(1_000_000);
    let mut echo = exchange::Echo::new();
    for _ in 0..count {
        echo.exchange(Chunk::Shared(b"GET / HTTP/1.1\r\n\r\n"));
    }
    println!("{count} exchanges");
}
