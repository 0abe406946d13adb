//! Compares `prony siege` with siege. Both use the test's configuration file and an empty home
//! folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::programs::{CommandOutput, Origin, command, original, ours, through};
use crate::site::Site;

/// Creates a folder with the configuration file `rc`. The empty subfolder prevents siege from
/// creating it and printing a message.
fn folder(more: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".siege")).unwrap();
    let rc = format!(
        "verbose = true\ncolor = off\nprotocol = HTTP/1.1\nchunked = true\nparser = true\n\
         accept-encoding = gzip, deflate\n{more}\n"
    );
    fs::write(folder.path().join("rc"), rc).unwrap();
    folder
}

/// Runs siege and `prony siege` with the same arguments. Returns siege's result first.
fn both(words: &[&str], dir: &Path) -> [CommandOutput; 2] {
    let all: Vec<&str> = ["-R", "rc", "-b"].iter().chain(words).copied().collect();
    [original("siege", &all, dir), ours("siege", &all, dir)]
}

/// Extracts the counts of transactions, successes and failures as users' scripts do.
fn counts(output: &CommandOutput) -> [String; 3] {
    [
        "^Transactions:",
        "^Successful transactions:",
        "^Failed transactions:",
    ]
    .map(|label| {
        through(
            &format!("grep '{label}' | cut -d: -f2 | awk '{{print $1}}'"),
            &output.err,
        )
    })
}

/// Returns the lines of verbose output without their times.
fn lines(output: &CommandOutput) -> Vec<String> {
    through("sed -E 's/ +[0-9]+\\.[0-9]+ secs/ T/'", &output.out)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Returns the requests without the parts that differ by design.
fn asked(site: &Site) -> Vec<String> {
    let without = |text: &String| -> String {
        text.split_inclusive('\n')
            .filter(|line| !line.starts_with("User-Agent: Mozilla"))
            .collect()
    };
    site.take().iter().map(without).collect()
}

/// Typical scripts that users apply to siege's output, and the text that each must print. They are
/// run on the output for 3 users with 4 requests each.
const SCRIPTS: &[(&str, &str)] = &[
    ("awk '/^Transactions:/ {print $2}'", "12"),
    ("awk '/^Transactions:/ {print $3}'", "hits"),
    ("grep Availability | awk '{print $2 $3}'", "100.00%"),
    ("sed -n 's/^Successful transactions: *//p'", "12"),
    ("grep '^Failed' | awk '{print $NF}'", "0"),
    (
        "awk '/^Elapsed time:/ {print $4, $3 ~ /^[0-9.]+$/}'",
        "secs 1",
    ),
    ("grep 'Transaction rate' | awk '{print $NF}'", "trans/sec"),
    ("grep 'Throughput' | awk '{print $3}'", "MB/sec"),
    (
        "awk -F: '/transaction/ {print $1}' | xargs",
        "Successful transactions Failed transactions Longest transaction Shortest transaction",
    ),
    ("grep '^\\*\\* Preparing' | cut -d' ' -f3", "3"),
    ("grep -c 'The server is now under siege...'", "1"),
    ("grep '^\\*\\* SIEGE' | awk '{print $3}'", "4.0.7"),
    // The numbers are right-aligned at a fixed column.
    (
        "grep '^Availability' | expand | cut -c24-36",
        "      100.00 ",
    ),
    (
        "grep '^Shortest' | expand | cut -c1-24",
        "Shortest transaction:",
    ),
    ("tail -2 | head -1 | cut -d: -f1", "Shortest transaction"),
];

#[test]
fn scripts_find_the_same_in_both_reports() {
    let origin = Origin::start(&[]);
    let dir = folder("");
    let output = both(&["-c3", "-r", "4", &origin.url("/")], dir.path());
    for output in output {
        let output = output.expect(0);
        for (script, found) in SCRIPTS {
            assert_eq!(
                through(script, &output.err),
                found.trim(),
                "{script}\n{}",
                output.err
            );
        }
        assert_eq!(
            lines(&output),
            vec!["HTTP/1.1 200 T:      13 bytes ==> GET  /"; 12]
        );
    }
}

#[test]
fn json_has_the_same_keys_and_counts() {
    let origin = Origin::start(&[]);
    let dir = folder("");
    let [theirs, own] = both(
        &["-j", "-c2", "--reps=3", &origin.url("/bytes/1048576")],
        dir.path(),
    )
    .map(|output| serde_json::from_str::<serde_json::Value>(&output.expect(0).out).unwrap());
    let keys = |value: &serde_json::Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&own), keys(&theirs));
    for key in [
        "transactions",
        "availability",
        "data_transferred",
        "successful_transactions",
        "failed_transactions",
    ] {
        assert_eq!(own[key], theirs[key], "{key}");
    }
    assert_eq!(own["data_transferred"], 6.0);
}

#[test]
fn quiet_prints_nothing() {
    let origin = Origin::start(&[]);
    let dir = folder("");
    for output in both(&["-q", "-c1", "-r1", &origin.url("/")], dir.path()) {
        assert_eq!(
            (output.status, output.out.as_str(), output.err.as_str()),
            (0, "", "")
        );
    }
}

#[test]
fn pages_redirects_and_statuses_count_the_same() {
    let site = Site::open();
    let dir = folder("");
    for path in [
        "/page",
        "/meta",
        "/to/301",
        "/to/302",
        "/to/303",
        "/to/307",
        "/status/204",
        "/status/404",
        "/status/500",
        "/status/408",
        "/status/503",
    ] {
        let [theirs, own] = both(&["-c1", "-r2", &site.url(path)], dir.path());
        assert_eq!(lines(&own), lines(&theirs), "{path}");
        assert_eq!(counts(&own), counts(&theirs), "{path}");
    }
    let [_, own] = both(&["-c1", "-r2", &site.url("/page")], dir.path());
    assert_eq!(counts(&own), ["10", "10", "0"]);
    for flag in ["--no-parser", "--no-follow"] {
        for path in ["/page", "/to/301"] {
            let [theirs, own] = both(&["-c1", "-r2", flag, &site.url(path)], dir.path());
            assert_eq!(lines(&own), lines(&theirs), "{flag} {path}");
        }
    }
}

#[test]
fn requests_are_the_same_to_the_byte() {
    let site = Site::open();
    let dir = folder("");
    fs::write(dir.path().join("form.txt"), "k=v&file=1\n").unwrap();
    fs::write(dir.path().join("raw.json"), "{\"a\":1}\n").unwrap();
    let root = site.url("");
    let bare = root.trim_start_matches("http://");
    let urls = format!(
        "# a list\n\nHOST={bare}\nhttp://$(HOST)/one\nhttp://${{HOST}}/two?a=b;c=d\n{bare}/three\n{bare}\n\
         {root}/sp ace?q=a b\n{root}/part#x\n{root}/post POST a=b&c=d e\n\
         {root}/form POST <form.txt\n{root}/raw POST < raw.json\n{root}/put PUT x=1\n\
         {root}/patch PATCH x=1\n{root}/delete DELETE\n{root}/options OPTIONS\n{root}/to/307 POST again=1\n"
    );
    fs::write(dir.path().join("urls.txt"), urls).unwrap();
    let words = [
        "-R", "rc", "-b", "-c1", "-r", "once", "-f", "urls.txt", "-H", "X-A: b", "-T", "a/b",
    ];
    original("siege", &words, dir.path());
    let theirs = asked(&site);
    ours("siege", &words, dir.path()).expect(0);
    assert_eq!(asked(&site), theirs);
    assert_eq!(theirs.len(), 15, "{theirs:#?}");
}

#[test]
fn each_user_requests_the_list_in_order_or_at_random() {
    let site = Site::open();
    let dir = folder("");
    let urls: String = (0..4).map(|n| site.url(&format!("/{n}\n"))).collect();
    fs::write(dir.path().join("urls.txt"), urls).unwrap();
    for (words, requests) in [
        (&["-c2", "-r", "once"][..], 8),
        (&["-c2", "-r3"], 6),
        (&["-c1", "-r9"], 9),
    ] {
        let words = [words, &["-f", "urls.txt"]].concat();
        let [theirs, own] = both(&words, dir.path()).map(|output| {
            let mut lines = lines(&output);
            lines.sort();
            lines
        });
        assert_eq!(own, theirs, "{words:?}");
        assert_eq!(own.len(), requests, "{words:?}");
    }
    let random = both(&["-c3", "-r20", "-i", "-f", "urls.txt"], dir.path());
    for output in random {
        assert_eq!(counts(&output), ["60", "60", "0"]);
    }
}

#[test]
fn cookies_are_sent_back_to_their_site() {
    let site = Site::open();
    let dir = folder("");
    ours(
        "siege",
        &["-R", "rc", "-b", "-c1", "-r2", &site.url("/cookie")],
        dir.path(),
    )
    .expect(0);
    let asked = site.take();
    assert!(!asked[0].contains("Cookie:"), "{asked:?}");
    assert!(asked[1].contains("\r\nCookie: seen=yes\r\n"), "{asked:?}");
    let dir = folder("cookies = false");
    ours(
        "siege",
        &["-R", "rc", "-b", "-c1", "-r2", &site.url("/cookie")],
        dir.path(),
    )
    .expect(0);
    assert!(site.take().iter().all(|asked| !asked.contains("Cookie:")));
}

#[test]
fn logins_send_credentials_as_the_original_does() {
    let site = Site::open();
    let dir = folder("login = me:secret:R");
    let [theirs, own] = both(&["-c1", "-r2", &site.url("/basic")], dir.path());
    assert_eq!(
        (lines(&own), counts(&own)),
        (lines(&theirs), counts(&theirs))
    );
    let asked = asked(&site);
    assert_eq!(asked[..3], asked[3..]);
    let [theirs, own] = both(&["-c1", "-r2", &site.url("/digest")], dir.path());
    assert_eq!(
        (lines(&own), counts(&own)),
        (lines(&theirs), counts(&theirs))
    );
}

#[test]
fn a_proxy_is_asked_for_the_whole_url() {
    let proxy = Site::open();
    let rc = format!(
        "proxy-host = 127.0.0.1\nproxy-port = {}\nproxy-login: a:b",
        proxy.url("").rsplit(':').next().unwrap()
    );
    let dir = folder(&rc);
    original(
        "siege",
        &["-R", "rc", "-b", "-c1", "-r1", "http://127.0.0.9:81/x?y"],
        dir.path(),
    );
    let theirs = asked(&proxy);
    ours(
        "siege",
        &["-R", "rc", "-b", "-c1", "-r1", "http://127.0.0.9:81/x?y"],
        dir.path(),
    )
    .expect(0);
    let login = "Proxy-Authorization: Basic YTpi\r\n";
    let own = asked(&proxy);
    assert!(own[0].contains(login), "{own:?}");
    // siege sends credentials only after a challenge.
    assert_eq!([own[0].replace(login, "")], theirs[..]);
}

#[test]
fn get_and_print_show_the_same() {
    let site = Site::open();
    let dir = folder("gmethod = HEAD");
    let post = format!("{} POST a=b", site.url("/x"));
    for words in [
        &["-g", &site.url("/to/301")][..],
        &["-g", &post],
        &["-p", &site.url("/x")],
        &["-p", &post],
        &["-q", "-p", &site.url("/x")],
        &["-q", "-g", &site.url("/x")],
    ] {
        let [theirs, own] = both(words, dir.path())
            .map(|output| through("sed 's/^User-Agent: .*/User-Agent/'", &output.expect(0).out));
        assert_eq!(own, theirs, "{words:?}");
    }
}

#[test]
fn the_log_has_the_same_columns() {
    let origin = Origin::start(&[]);
    let dir = folder("show-logfile = true");
    let url = origin.url("/");
    let mut logs = Vec::new();
    for (name, file) in [("theirs", "a.log"), ("own", "b.log")] {
        let log = format!("-l{}", dir.path().join(file).display());
        let words = ["-R", "rc", "-b", "-c2", "-r2", "-m", "a mark", &log, &url];
        let output = match name {
            "theirs" => original("siege", &words, dir.path()),
            _ => ours("siege", &words, dir.path()),
        };
        assert!(output.out.contains("LOG FILE: "), "{output:?}");
        logs.push(fs::read_to_string(dir.path().join(file)).unwrap());
    }
    for script in [
        "head -2",
        "tail -1 | awk -F, '{print NF, $2, $9, $10}'",
        // Every column of the log has a fixed width, whatever its value.
        "tail -1 | awk -F, '{for (n = 1; n <= NF; n++) print length($n)}' | xargs",
    ] {
        assert_eq!(
            through(script, &logs[1]),
            through(script, &logs[0]),
            "{script}"
        );
    }
}

#[test]
fn a_time_ends_both() {
    let origin = Origin::start(&[]);
    let dir = folder("verbose = false");
    for output in both(&["-c2", "-t3S", &origin.url("/")], dir.path()) {
        let output = output.expect(0);
        assert!(
            output
                .err
                .contains("\nLifting the server siege...\nTransactions:"),
            "{output:?}"
        );
        let [transactions, successful, failed] = counts(&output);
        assert!(transactions.parse::<u64>().unwrap() > 0);
        // siege may abort a request between incrementing two of its counters.
        let apart = transactions.parse::<i64>().unwrap() - successful.parse::<i64>().unwrap();
        assert!(apart.abs() <= 2, "{output:?}");
        assert_eq!(failed, "0");
    }
}

#[test]
fn chunked_responses_are_complete() {
    // siege hangs on URLs with chunked responses, so only `prony siege` runs.
    let origin = Origin::start(&[]);
    let dir = folder("connection = keep-alive");
    let output = ours(
        "siege",
        &["-R", "rc", "-b", "-c2", "-r5", &origin.url("/chunked/5000")],
        dir.path(),
    );
    let output = output.expect(0);
    assert_eq!(counts(&output), ["10", "10", "0"]);
    assert_eq!(
        lines(&output),
        vec!["HTTP/1.1 200 T:    5000 bytes ==> GET  /chunked/5000"; 10]
    );
}

#[test]
fn failures_are_reported_and_counted_and_stop_the_run() {
    let dir = folder("failures = 3");
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", refused.local_addr().unwrap());
    drop(refused);
    let [theirs, own] = both(&["-c1", "-r9", &url], dir.path());
    assert_eq!(counts(&own), counts(&theirs));
    assert_eq!(counts(&own), ["0", "0", "3"]);
    for output in [&theirs, &own] {
        assert!(
            output.err.contains("socket: unable to connect"),
            "{output:?}"
        );
        assert!(
            output
                .err
                .contains("siege aborted due to excessive socket failure"),
            "{output:?}"
        );
    }
    // siege exits with status 0 even if it aborts.
    assert_eq!((theirs.status, own.status), (0, 1));
}

#[test]
fn ctrl_c_prints_the_report() {
    let origin = Origin::start(&[]);
    let dir = folder("");
    let program = env!("CARGO_BIN_EXE_prony").into();
    let url = origin.url("/");
    let mut siege = command(
        program,
        &["siege", "-R", "rc", "-c1", "-d0.1", &url],
        dir.path(),
    );
    let siege = siege.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let id = siege.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = CommandOutput::from(siege.wait_with_output().unwrap()).expect(130);
    assert!(
        output
            .err
            .contains("\nLifting the server siege...\nTransactions:"),
        "{output:?}"
    );
    let [transactions, successful, _] = counts(&output);
    assert_eq!(transactions, successful);
    assert_eq!(lines(&output).len().to_string(), transactions);
}

#[test]
fn the_configuration_is_read_and_none_is_made() {
    let origin = Origin::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let url = origin.url("/");
    fs::create_dir(dir.path().join(".siege")).unwrap();
    fs::write(
        dir.path().join(".siege/siege.conf"),
        "concurrent = 2\nreps = 3\nverbose = true\nconnection = keep-alive\ncache = true\nurl = $(PRONY_HOST)/\n\
         protocol = HTTP/1.1\n",
    )
    .unwrap();
    let program = dir.path().join("siege");
    symlink(env!("CARGO_BIN_EXE_prony"), &program).unwrap();
    let output = command(program, &["-b"], dir.path())
        .env("PRONY_HOST", url.trim_end_matches('/'))
        .output();
    let output = CommandOutput::from(output.unwrap()).expect(0);
    assert_eq!(counts(&output), ["6", "6", "0"]);
    assert!(
        output
            .err
            .contains("siege.conf:5: cache: nothing is cached"),
        "{output:?}"
    );
    let dir = tempfile::tempdir().unwrap();
    ours("siege", &["-q", "-b", "-c1", "-r1", &url], dir.path()).expect(0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_configuration_is_shown_in_the_same_rows() {
    let dir = folder("");
    let words = [
        "-R",
        "rc",
        "-C",
        "-c7",
        "-t90",
        "-d2.5",
        "-i",
        "http://a.test/",
    ];
    let [theirs, own] = [
        original("siege", &words, dir.path()),
        ours("siege", &words, dir.path()),
    ]
    .map(|output| output.expect(0).out);
    let labels = "tail -n +4 | cut -c1-32";
    assert_eq!(through(labels, &own), through(labels, &theirs));
    for label in [
        "concurrent users",
        "time to run",
        "delay",
        "internet",
        "named URL",
        "protocol",
    ] {
        let row = format!("grep '^{label}'");
        assert_eq!(through(&row, &own), through(&row, &theirs));
    }
}

#[test]
fn unsupported_options_are_refused_by_name() {
    let dir = folder("");
    for (words, expected_text) in [
        (&["--bogus"][..], "siege: unrecognized option '--bogus'"),
        (&["--co", "1"], "siege: option '--co' is ambiguous"),
        (&["-D"], "siege: -D/--debug: "),
        (&["-R", "none"], "siege: could not open none: "),
        (
            &["-R", "rc", "-f", "none"],
            "siege: unable to open file: none: ",
        ),
        (
            &["-R", "rc", "ftp://127.0.0.1/"],
            "siege: ftp://127.0.0.1/: FTP is not supported",
        ),
        (
            &["-R", "rc", "-H", "x", "127.0.0.1"],
            "siege: no ':' in http-header",
        ),
        (&["-R", "rc", "http://192.0.2.1/"], "set PRONY_PUBLIC=1"),
    ] {
        let output = ours("siege", words, dir.path()).expect(2);
        assert!(
            output.err.contains(expected_text),
            "{words:?}: {}",
            output.err
        );
    }
    let output = ours("siege", &["-R", "rc", "-g"], dir.path()).expect(2);
    assert_eq!(output.out, "ERROR: -g/--get requires a commandline URL\n");
}
