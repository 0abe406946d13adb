//! Tests of plans with UDP listeners.

use prony_load::HttpVersion;

use super::Study;
use super::resolve::{resolved, small};

/// Returns a service with the given listeners and additional keys.
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
    // The readiness probe uses a listener that accepts connections, if there is one.
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
    let request = text.replace("\"udp\"", "\"udp\"\nready = { get = \"/\" }");
    let plan = resolved(&study.read(&request).unwrap(), "1");
    let dns = plan.services.iter().find(|it| it.spec.name == "dns");
    let ready = &dns.unwrap().ready;
    assert_eq!((ready.get.as_deref(), ready.https), (Some("/"), true));
}

#[test]
fn a_load_of_a_udp_listener_is_http3() {
    let study = Study::new();
    let text = with(
        "{ https = \"tcp\", quic = \"udp\" }",
        "env = { A = \"{{ a }}\" }",
    );
    let text = text.replace("target = \"web\"", "target = \"web.quic\"\ninsecure = true");
    let load = resolved(&study.read(&text).unwrap(), "1").load;
    assert_eq!(load.url, "https://10.0.0.1:8001/");
    assert_eq!(load.settings.http, Some(HttpVersion::Http3));
    let messages = study
        .diagnostics(&format!("{text}http = \"2\"\n"))
        .join("\n");
    assert!(
        messages.contains(
            "the target \"web.quic\" is a UDP listener, which means HTTP/3 (remove http, or \
             set another target)"
        ),
        "{messages}"
    );
}
