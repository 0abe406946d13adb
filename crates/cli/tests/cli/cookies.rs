//! Checks the cookies that the server receives from virtual users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fleet_loads::FleetSetup;
use crate::recorder::{RecordedRequest, Recorder};
use crate::running::{Origin, Workdir, check_schema};

/// Starts a server that creates a session for each client that has no session. `/login` redirects
/// to `/home`.
fn sessions() -> Recorder {
    let count = AtomicU32::new(0);
    Recorder::responding(move |request| {
        let status = if request.line.contains("/login") {
            "302 Found\r\nLocation: /home"
        } else {
            "200 OK"
        };
        match request.header("cookie") {
            Some(_) => status.to_owned(),
            None => {
                let number = count.fetch_add(1, Ordering::SeqCst);
                format!(
                    "{status}\r\nSet-Cookie: id={number}; Path=/; HttpOnly\r\n\
                     set-cookie: secret=1; Secure\r\nSet-Cookie: area=1; Path=/admin"
                )
            }
        }
    })
}

/// Returns the number of requests without a cookie, and the distinct cookies of the others.
fn cookies(requests: &[RecordedRequest]) -> (usize, BTreeSet<String>) {
    let cookies = requests.iter().map(|request| request.header("cookie"));
    let without = cookies.clone().filter(Option::is_none).count();
    (without, cookies.flatten().map(str::to_owned).collect())
}

fn ids(numbers: std::ops::Range<u32>) -> BTreeSet<String> {
    // The loopback interface counts as secure, as in browsers.
    let cookie = |number| format!("secret=1; id={number}");
    numbers.map(cookie).collect()
}

#[test]
fn each_user_returns_its_own_session() {
    let workdir = Workdir::new();
    let server = sessions();
    let url = server.url("/shop/{{ seq }}");
    let words = ["load", "-n", "60", "-c", "3", "-t", "1", "--cookies", &url];
    workdir.run(&words).expect(0);
    let requests = server.take();
    assert_eq!(requests.len(), 60);
    assert_eq!(cookies(&requests).0, 3);
    let mut by_connection: BTreeMap<usize, Vec<RecordedRequest>> = BTreeMap::new();
    for request in requests {
        let own = by_connection.entry(request.connection).or_default();
        own.push(request);
    }
    let mut seen = BTreeSet::new();
    for own in by_connection.values() {
        let (without, sent) = cookies(own);
        assert!(without == 1 && sent.len() <= 1, "{own:?}");
        // No other user may have returned the same session.
        assert!(sent.iter().all(|id| seen.insert(id.clone())), "{own:?}");
    }
    // On a busy machine, two users may send all requests before the third has its first response.
    assert!(!seen.is_empty() && seen.is_subset(&ids(0..3)), "{seen:?}");
}

#[test]
fn sessions_outlive_connections_and_differ_by_path() {
    let workdir = Workdir::new();
    let server = sessions();
    workdir.write("list", "/a\n/admin/b POST hello\n");
    let url = server.url("/");
    let words = [
        "load",
        "-n",
        "20",
        "-c",
        "2",
        "-t",
        "1",
        "--cookies",
        "--no-keepalive",
        "--urls",
        "list",
        &url,
    ];
    workdir.run(&words).expect(0);
    let requests = server.take();
    assert_eq!(requests.len(), 20);
    let (without, _) = cookies(&requests);
    assert_eq!(without, 2);
    for request in requests {
        let sent = request.header("cookie").unwrap_or_default();
        let is_admin = request.line.starts_with("POST /admin/b ");
        assert_eq!(is_admin, request.body == b"hello");
        assert!(
            sent.is_empty() || is_admin == sent.contains("area=1; id="),
            "{request:?}"
        );
    }
}

#[test]
fn without_the_flag_cookies_are_ignored() {
    let workdir = Workdir::new();
    let server = sessions();
    let url = server.url("/");
    workdir.run(&["load", "-n", "5", "-c", "1", &url]).expect(0);
    assert_eq!(cookies(&server.take()), (5, BTreeSet::new()));
}

#[test]
fn redirects_set_and_receive_cookies() {
    let workdir = Workdir::new();
    let server = sessions();
    let url = server.url("/login");
    let words = [
        "load",
        "-n",
        "3",
        "-c",
        "1",
        "--cookies",
        "--follow",
        "2",
        &url,
    ];
    workdir.run(&words).expect(0);
    let requests = server.take();
    let sent = requests.iter().map(|request| {
        let path = request.line.split(' ').nth(1).unwrap();
        (path, request.header("cookie"))
    });
    let own = Some("id=0; secret=1");
    let (login, home) = ("/login", "/home");
    let expected = [
        (login, None),
        (home, own),
        (login, own),
        (home, own),
        (login, own),
        (home, own),
    ];
    assert_eq!(sent.collect::<Vec<_>>(), expected);
}

#[test]
fn agents_keep_the_cookies_of_their_users() {
    let ground = FleetSetup::new(2);
    let server = sessions();
    let url = server.url("/");
    let words = [
        "load",
        "--agents",
        "2",
        "-c",
        "4",
        "-n",
        "100",
        "--cookies",
        &url,
    ];
    ground.workdir.run(&ground.words(&words)).expect(0);
    let (without, sent) = cookies(&server.take());
    // Each agent sends one extra request to check the target.
    assert!(without <= 6, "{without}");
    assert!((2..=4).contains(&sent.len()), "{sent:?}");
    ground.end();
}

#[test]
fn a_second_source_of_cookies_is_refused() {
    let workdir = Workdir::new();
    let server = Recorder::start();
    let url = server.url("/");
    workdir.write(
        "list",
        "/\n{\"url\": \"/\", \"headers\": {\"cookie\": \"a=1\"}}\n",
    );
    for (words, expected) in [
        (
            &["-H", "cookie: a=1"][..],
            "--cookies and the header --header 'Cookie: …' can't be combined",
        ),
        (
            &["--urls", "list"],
            "list:2: --cookies and the header Cookie can't be combined",
        ),
    ] {
        let words = [&["load", "-n", "1", "--cookies"], words, &[&url]].concat();
        let output = workdir.run(&words).expect(2);
        assert!(output.err.contains(expected), "{}", output.err);
    }
    assert_eq!(server.take(), []);
}

#[test]
fn the_record_names_the_data_and_says_that_users_have_cookies() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    workdir.write("users.csv", "name\nada\ngrace\n");
    let url = origin.url("/?{{ name }}");
    let words = ["load", "-n", "4", "-c", "2", "--json", "r.json"];
    let more = ["--data", "users.csv", "--cookies", &url];
    let output = workdir.run(&[&words[..], &more].concat()).expect(0);
    let facts = output.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(facts.contains("data from users.csv, cookies"), "{facts}");
    let record = workdir.json("r.json");
    check_schema("prony.record-1.schema.json", &record);
    assert_eq!(record["load"]["data"], "users.csv");
    assert_eq!(record["load"]["cookies"], true);
    let url = origin.url("/");
    workdir.run(&[&words[..], &[&url]].concat()).expect(0);
    let load = &workdir.json("r.json")["load"];
    assert!(load.get("data").is_none() && load.get("cookies").is_none());
}
