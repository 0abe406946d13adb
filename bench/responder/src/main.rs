//! Server for the row `open-max` of `cargo xtask bench`. It sends the same 13 bytes for every
//! request and records the arrival time of each request.
//!
//! Input: the address, the port and the path of a file. Output: the file, written at SIGTERM, with
//! one 12-byte record per request, and exit status 0. A record holds the connection number (4
//! bytes) and the time of the monotonic clock in nanoseconds (8 bytes), both little-endian. One
//! thread, one level-triggered epoll instance.
//!
//! All requests reported by one `epoll_wait` get the time at which the call returned. The time that
//! the server needs to respond to them therefore isn't counted as lateness of the load generator.
//!
//! With `--xdp INTERFACE PORT`, a program in the kernel responds instead, and nothing is recorded;
//! see `echo`.

mod echo;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["--xdp", interface, port] => respond_in_kernel(interface, port),
        [address, file] => server::run(address, file),
        _ => {
            eprintln!("usage: prony-responder ADDRESS:PORT FILE | --xdp INTERFACE PORT");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("prony-responder: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn respond_in_kernel(interface: &str, port: &str) -> Result<(), String> {
    let port = port.parse().map_err(|e| format!("{port}: {e}"))?;
    let _link = echo::attach(interface, port)?;
    println!("attached");
    server::wait_for_sigterm();
    Ok(())
}
