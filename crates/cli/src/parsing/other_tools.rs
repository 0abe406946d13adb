//! Hints for options of other load tools that have a different meaning in prony or don't exist in
//! it. prony rejects these options and prints the hint. Options that mean the same as in another
//! tool are aliases of flags of `prony load`.

/// Options of other tools, and the hint for each.
const HINTS: &[(&[&str], &str)] = &[
    (
        &["-q", "--query-per-second"],
        "for a request rate, use -r N, the total per second (hey's -q is per \
         connection); for no progress output, use --progress none",
    ),
    (
        &["-m"],
        "for the method (as in hey), use -X METHOD; for requests in flight per HTTP/2 connection \
         (as in h2load), use --streams N",
    ),
    (
        &["-L", "--location"],
        "for redirects (as in curl), use --follow N; for percentiles (as in wrk), no flag \
         is needed",
    ),
    (&["--latency"], "percentiles are always printed"),
    (
        &["--data-raw", "--data-binary", "--data-ascii"],
        "--body TEXT sends a body, --body @FILE a file; add -X POST",
    ),
    (&["--http2"], "write --http 2"),
    (&["--http1.1"], "write --http 1.1"),
    (&["--http1.0"], "write --http 1.0"),
    (&["--http3"], "HTTP/3 is not supported"),
    (
        &["--basic"],
        "-u USER:PASSWORD always sends basic authentication",
    ),
    (
        &["-b", "--cookie"],
        "-H 'Cookie: NAME=VALUE' sends a cookie",
    ),
    (&["-T"], "-H 'Content-Type: TYPE' sets the body's type"),
    (&["-x"], "--proxy HOST:PORT sends requests through a proxy"),
    (
        &["-s", "--script"],
        "prony wrk runs wrk's Lua scripts: prony wrk -s FILE URL",
    ),
    (
        &["--concurrency", "--users"],
        "-c N sets the number of connections",
    ),
    (
        &["--max-time"],
        "for each request, use --timeout TIME; for the whole load, use -d TIME",
    ),
    (
        &["--no-tui"],
        "--progress lines and --progress none turn off the live view",
    ),
    (&["--url"], "pass the URL without a flag"),
    (
        &["--pdf"],
        "prony report renders a record: --json FILE here, then prony report FILE --pdf FILE",
    ),
];

/// Commands that accept load options.
const COMMANDS: [&str; 4] = ["load", "compare", "bisect", "capacity"];

/// Returns the hint for an option of another tool.
pub(crate) fn hint(command: &str, option: &str) -> Option<String> {
    let name = option.split('=').next().unwrap_or(option);
    let mut hints = HINTS.iter().filter(|_| COMMANDS.contains(&command));
    let (_, hint) = hints.find(|(names, _)| names.contains(&name))?;
    Some(format!("{command} has no option {name}: {hint}"))
}
