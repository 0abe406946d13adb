//! Measures the cost of an exchange in the user-space TCP and its simulated peer: a request of 18
//! bytes and a response of 250. Run this under `perf stat -e instructions:u` with two different
//! numbers of exchanges, and divide the difference in instructions by the difference in exchanges.

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
