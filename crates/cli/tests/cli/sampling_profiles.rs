//! Sampling profiles of services: of a plan's, of servers that are already running, and of a load's
//! server.

use crate::running::{Origin, Workdir, check_schema};

/// A plan whose server works for each request, with trials of one second.
const PLAN: &str = r#"
name     = "work"
baseline = { rounds = 20000 }

[trials]
blocks   = 3
warmup   = "200ms"
duration = "1s"

[factors]
rounds = [20000, 40000]

[service.origin]
command = ["prony", "origin", "--listen", "{{ origin.address }}", "--work", "{{ rounds }}"]

[load]
target      = "origin"
connections = 4

[telemetry]
profile = true
profile_rate = 499
"#;

#[test]
fn a_plan_with_a_profile_reports_functions_everywhere() {
    let workdir = Workdir::new();
    workdir.write("work.toml", PLAN);
    let output = workdir.run(&["compare", "work.toml", "--out", "r"]);
    assert!(
        output.out.contains("CPU by function"),
        "{}{}",
        output.out,
        output.err
    );
    let verdict = workdir.json("r/verdict.json");
    check_schema("prony.verdict-1.schema.json", &verdict);
    let table = &verdict["functions"][0];
    assert_eq!(table["service"], "origin", "{verdict:#}");
    let rows = table["functions"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["module"] == "prony"), "{table:#}");
    // All rows of a variant add up to the service's CPU time per request.
    for (place, variant) in verdict["variants"].as_array().unwrap().iter().enumerate() {
        let costs = rows
            .iter()
            .map(|row| row["us_per_request"][place].as_f64().unwrap());
        let sum: f64 = costs.sum();
        let cpu = &variant["metrics"]["server_cpu_us_per_request"];
        let cpu = cpu["arithmetic_mean"].as_f64().or(cpu["mean"].as_f64());
        if let Some(cpu) = cpu {
            assert!((sum / cpu - 1.0).abs() < 0.2, "{sum} {cpu}: {variant:#}");
        }
        assert!(sum > 0.0, "{table:#}");
    }
    let profile = workdir.json("r/trials/1-20000/origin.sampling.json");
    assert_eq!(profile["schema"], "prony.sampling/1");
    assert!(profile["samples"].as_u64().unwrap() > 10, "{profile:#}");
    let stacks = workdir.read("r/rounds-20000-origin.collapsed.txt");
    let is_stack = |line: &str| {
        line.rsplit_once(' ')
            .is_some_and(|(_, it)| it.parse::<u64>().is_ok())
    };
    assert!(
        stacks.lines().count() > 1 && stacks.lines().all(is_stack),
        "{stacks}"
    );
    let page = workdir.read("r/report.html");
    assert!(
        page.contains("Flame graph of each variant"),
        "the page has no flame graph"
    );
    // The status is that of the run, whose verdict may be withheld on a busy machine.
    workdir.run(&["report", "r", "--tables", "t"]);
    let csv = workdir.read("t/functions.csv");
    assert!(
        csv.starts_with("service,variant,function,module,waits_for,us_per_request,against,"),
        "{csv}"
    );
}

/// A server with a thread per connection. The second argument is the number of microseconds for which
/// another thread holds the lock that each request needs; without one, a request needs no lock.
const LOCKING_SERVER: &str = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned held_us;
static void *hold_lock(void *x) {
    for (;;) { pthread_mutex_lock(&lock); usleep(held_us); pthread_mutex_unlock(&lock); usleep(100); }
    return x;
}
static void *serve(void *fd_value) {
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
    int fd = (int)(long)fd_value;
    char buffer[4096];
    while (read(fd, buffer, sizeof buffer) > 0) {
        if (held_us) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); }
        if (write(fd, response, sizeof response - 1) < 0) break;
    }
    close(fd);
    return 0;
}
int main(int argc, char **argv) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    held_us = strtoul(argv[2], 0, 10);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 511)) return 1;
    pthread_t thread;
    if (held_us) pthread_create(&thread, 0, hold_lock, 0);
    for (;;) {
        long client = accept(listener, 0, 0);
        if (pthread_create(&thread, 0, serve, (void *)client) == 0) pthread_detach(thread);
    }
}
"#;

#[test]
fn a_lock_that_only_waits_is_named() {
    let workdir = Workdir::new();
    workdir.write("server.c", LOCKING_SERVER);
    let compiled = std::process::Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .args([workdir.path("server"), workdir.path("server.c")])
        .status();
    assert!(compiled.expect("cc is missing").success());
    let plan = PLAN
        .replace("rounds", "held")
        .replace("20000, 40000", "0, 1000")
        .replace("= 20000", "= 0");
    let command = plan.lines().find(|line| line.starts_with("command"));
    let own = format!(
        "command = [{:?}, \"{{{{ origin.port }}}}\", \"{{{{ held }}}}\"]",
        workdir.path("server")
    );
    workdir.write("lock.toml", &plan.replace(command.unwrap(), &own));
    let output = workdir.run(&["compare", "lock.toml", "--out", "r"]);
    let verdict = workdir.json("r/verdict.json");
    check_schema("prony.verdict-1.schema.json", &verdict);
    let rows = verdict["waits"][0]["functions"].as_array().unwrap();
    let of_lock = rows.iter().find(|row| row["waits_for"] == "lock");
    let us = |variant: usize| {
        of_lock.map_or(0.0, |row| row["us_per_request"][variant].as_f64().unwrap())
    };
    assert_eq!(of_lock.unwrap()["function"], "serve", "{rows:#?}");
    // On average, a request waits for half of the time for which the lock is held, or longer.
    assert!(us(0) == 0.0 && us(1) > 200.0, "{rows:#?}");
    assert!(output.out.contains("Waiting by function"), "{}", output.out);
    assert!(workdir.read("r/report.html").contains("a lock"));
    assert!(verdict["modules"][0]["functions"].is_array(), "{verdict:#}");
}

const NGINX_PLAN: &str = r#"
name = "nginx"

[trials]
blocks   = 1
warmup   = "200ms"
duration = "1s"

[factors]
level = [1, 2]

[service.web]
command = ["nginx", "-c", "{{ web.files['nginx.conf'] }}", "-g", "daemon off;"]
[service.web.files]
"nginx.conf" = { text = """
pid {{ web.dir }}/nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path {{ web.dir }}/client_body_temp_path;
    proxy_temp_path {{ web.dir }}/proxy_temp_path;
    fastcgi_temp_path {{ web.dir }}/fastcgi_temp_path;
    uwsgi_temp_path {{ web.dir }}/uwsgi_temp_path;
    scgi_temp_path {{ web.dir }}/scgi_temp_path;
    server { listen {{ web.address }}; return 200 "ok\n"; }
}
""" }

[load]
target      = "web"
connections = 4

[telemetry]
profile      = true
profile_rate = 1999
"#;

#[test]
fn functions_of_a_stripped_nginx_are_told_apart() {
    let workdir = Workdir::new();
    workdir.write("nginx.toml", NGINX_PLAN);
    let output = workdir.run(&["compare", "nginx.toml", "--out", "r"]);
    assert!(workdir.path("r/verdict.json").exists(), "{}", output.err);
    let profile = workdir.json("r/trials/1-1/web.sampling.json");
    let functions = profile["functions"].as_array().unwrap();
    let of_nginx = functions.iter().filter(|it| it["module"] == "nginx");
    let names: Vec<&str> = of_nginx
        .map(|it| it["function"].as_str().unwrap())
        .collect();
    // With debugging symbols, the functions have names.
    let is_named = |name: &&str| name.starts_with("nginx+0x") || name.starts_with("ngx_");
    let named = names.iter().filter(|name| is_named(name)).count();
    assert!(named >= 5 && named * 10 >= names.len() * 9, "{names:?}");
}

#[test]
fn running_servers_are_sampled_by_their_address() {
    let workdir = Workdir::new();
    let origin = Origin::start(&workdir, &["--listen", "127.0.0.1:0", "--work", "20000"]);
    let url = origin.url("/");
    let output = workdir
        .run(&[
            "load",
            "-c",
            "2",
            "-d",
            "1s",
            "--profile",
            "--json",
            "l.json",
            "--html",
            "l.html",
            &url,
        ])
        .expect(0);
    let record = workdir.json("l.json");
    check_schema("prony.record-1.schema.json", &record);
    let profile = &record["profiles"][0];
    let is_own = |it: &serde_json::Value| it["module"] == "prony";
    let functions = profile["functions"].as_array();
    assert!(
        functions.is_some_and(|all| all.iter().any(is_own)),
        "{record:#}"
    );
    assert!(profile["waits"].is_array(), "{record:#}");
    assert!(
        workdir
            .read("l.html")
            .contains("CPU of the server by function")
    );
    assert!(
        output.out.contains("CPU of the server by function"),
        "{}",
        output.out
    );
    assert!(output.out.contains("  prony\n"), "{}", output.out);
    let compare = [
        "compare",
        "-c",
        "2",
        "-d",
        "1s",
        "--blocks",
        "2",
        "--profile",
        "--names",
        "a,b",
    ];
    workdir.run(&[&compare[..], &["--out", "r", &url, &url]].concat());
    let verdict = workdir.json("r/verdict.json");
    let rows = verdict["functions"][0]["functions"].as_array();
    assert!(rows.is_some_and(|rows| !rows.is_empty()), "{verdict:#}");
}

#[test]
fn a_server_behind_a_unix_socket_is_sampled() {
    let workdir = Workdir::new();
    let socket = workdir.path("origin.sock");
    let socket = socket.to_str().unwrap();
    let _origin = Origin::start(&workdir, &["--unix", socket, "--work", "20000"]);
    let output = workdir.run(&[
        "load",
        "-c",
        "2",
        "-d",
        "1s",
        "--profile",
        "--unix",
        socket,
        "http://localhost/",
    ]);
    let output = output.expect(0);
    assert!(
        output.out.contains("  prony\n"),
        "{}{}",
        output.out,
        output.err
    );
}

#[test]
fn a_load_without_samples_ends_as_usual() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    // With so few requests, there may be no sample at all.
    let url = origin.url("/").replace("127.0.0.1", "localhost");
    let output = workdir
        .run(&["load", "-n", "10", "-c", "1", "--profile", &url])
        .expect(0);
    assert!(!output.err.contains("panicked"), "{}", output.err);
}
