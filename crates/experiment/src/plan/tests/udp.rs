//! UDP listeners.

use super::Study;
use super::resolve::{resolved, small};

/// A service with these listeners and further keys.
fn with(listen: &str, keys: &str) -> String {
    small("a = [1, 2]", &format!("listen = {listen}\n{keys}"), "")
}

#[test]
fn https_and_quic_have_one_port_number() {
    let study = Study::new();
    let text = with(
        "{ http = \"tcp\", https = \"tcp\", quic = \"udp\" }",
        "command = [\"web-server\", \"{{ web.http.port }}\", \"{{ web.https.port }}\", \
         \"{{ web.quic.port }}\", \"{{ web.quic.address }}\", \"{{ web.quic.host }}\", \"{{ a }}\"]",
    );
    let text = text.replace("target = \"web\"", "target = \"web.https\"");
    let web = resolved(&study.read(&text).unwrap(), "1");
    assert_eq!(
        web.services[0].spec.command[1..],
        ["8001", "8002", "8002", "10.0.0.1:8002", "10.0.0.1", "1"]
    );
    assert_eq!(web.load.url, "https://10.0.0.1:8002/");
    // A service is probed where it accepts connections.
    assert_eq!(web.services[0].ready.listener.as_deref(), Some("http"));
}

#[test]
fn the_only_listener_that_accepts_connections_is_the_default() {
    let study = Study::new();
    let text = with(
        "{ dns = \"udp\", web = \"tcp\" }",
        "env = { A = \"{{ a }}\" }",
    );
    let web = resolved(&study.read(&text).unwrap(), "1");
    assert_eq!(web.load.listener, "web");
    assert_eq!(web.services[0].ready.listener.as_deref(), Some("web"));
}

#[test]
fn a_service_with_only_udp_is_ready_when_its_port_is_bound() {
    let study = Study::new();
    let text = small("a = [1, 2]", "env = { A = \"{{ a }}\" }", "").replace(
        "[load]",
        "[service.dns]\ncommand = [\"app-server\"]\nlisten = \"udp\"\n[load]",
    );
    let plan = resolved(&study.read(&text).unwrap(), "1");
    let dns = plan.services.iter().find(|it| it.spec.name == "dns");
    assert_eq!(dns.unwrap().ready.listener.as_deref(), Some(""));
    let request = text.replace(
        "listen = \"udp\"",
        "listen = \"udp\"\nready = { get = \"/\" }",
    );
    let messages = study.diagnostics(&request).join("\n");
    assert!(
        messages.contains(
            "service \"dns\" listens on UDP, over which readiness can't request a path (set \
             ready.listener to a TCP listener, or remove get: a bound port is enough)"
        ),
        "{messages}"
    );
}

#[test]
fn the_load_targets_no_udp_listener() {
    let study = Study::new();
    let text = with(
        "{ https = \"tcp\", quic = \"udp\" }",
        "env = { A = \"{{ a }}\" }",
    );
    let quic = text.replace("target = \"web\"", "target = \"web.quic\"");
    let messages = study.diagnostics(&quic).join("\n");
    assert!(
        messages.contains(
            "the load can't use UDP, on which its target \"web\" listens (set target = \"web.https\")"
        ),
        "{messages}"
    );
}
