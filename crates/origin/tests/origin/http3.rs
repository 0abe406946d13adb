//! Tests of HTTP/3, with quinn and h3 as the client.

use std::net::UdpSocket;
use std::sync::Arc;

use bytes::Bytes;
use h3::error::Code;
use http::{Method, Request, StatusCode, Version};
use prony_origin::{Config, HELLO, Origin, OriginError, Tls, pattern};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectionError, Endpoint};

use crate::client::{Client, Via, start, trusting};
use crate::http3_client::{H3Client, client_config, close_code, quic_only, raw_get, receive, run};

#[test]
fn every_path() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        for (path, body) in [
            ("/", HELLO.as_bytes().to_vec()),
            ("/bytes/10K", pattern::first(10_240)),
            ("/bytes/2M", pattern::first(2 << 20)),
            ("/chunked/100", pattern::first(100)),
            ("/slow/30?over=5ms", pattern::first(30)),
            ("/delay/1ms", HELLO.as_bytes().to_vec()),
            ("/delay/1ms/bytes/7", pattern::first(7)),
            ("/stall?every=1s&for=0s", HELLO.as_bytes().to_vec()),
            ("/fault/slow-body", pattern::first(13)),
        ] {
            let response = client.get(path).await.unwrap();
            assert_eq!(response.version(), Version::HTTP_3);
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            assert!(response.body() == &body, "{path}");
        }
        assert_eq!(client.get("/status/503").await.unwrap().status(), 503);
        assert_eq!(client.get("/none").await.unwrap().status(), 404);
        let redirect = client.get("/redirect/2").await.unwrap();
        assert_eq!(redirect.headers()["location"], "/redirect/1");
    });
    assert_eq!(origin.requests(), 12);
    assert_eq!(origin.connections(), 1);
    assert!(origin.addresses().is_empty());
}

#[test]
fn head_has_the_length_without_the_body() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        for (path, length) in [
            ("/", Some("13")),
            ("/bytes/5M", Some("5242880")),
            ("/chunked/9", None),
            ("/status/204", None),
        ] {
            let (head, mut stream) = client
                .request(Method::HEAD, path, Bytes::new())
                .await
                .unwrap();
            let announced = head.headers().get("content-length");
            assert_eq!(announced.map(|value| value.to_str().unwrap()), length);
            let mut body = Vec::new();
            receive(&mut stream, &mut body).await.unwrap();
            assert!(body.is_empty(), "{path}");
        }
    });
}

#[test]
fn request_bodies() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        // The body is larger than the flow-control window of a stream.
        let sent = pattern::first(3 << 20);
        let (head, mut stream) = client
            .request(Method::POST, "/echo", Bytes::from(sent.clone()))
            .await
            .unwrap();
        assert_eq!(head.headers()["prony-method"], "POST");
        let mut body = Vec::new();
        receive(&mut stream, &mut body).await.unwrap();
        assert!(body == sent);
        // The origin reads the body even if the path ignores it.
        let (head, _) = client
            .request(Method::PUT, "/status/201", Bytes::from(vec![b'x'; 100_000]))
            .await
            .unwrap();
        assert_eq!(head.status(), 201);
    });
}

#[test]
fn a_body_too_long_for_echo_is_refused_by_its_announced_length() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        let request = Request::post("https://origin/echo")
            .header("content-length", 17 << 20)
            .body(())
            .unwrap();
        let mut stream = client.http.send_request(request).await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 413);
    });
}

#[test]
fn a_hundred_streams_at_the_same_time() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        // A stream that never ends must not hold up other streams.
        let request = Request::get("https://origin/fault/stall").body(()).unwrap();
        let mut stalled = client.http.send_request(request).await.unwrap();
        stalled.finish().await.unwrap();
        let mut streams = Vec::new();
        for index in 0..100_usize {
            let uri = format!("https://origin/delay/1ms/bytes/{}", index * 1_000);
            let request = Request::get(uri).body(()).unwrap();
            let mut stream = client.http.send_request(request).await.unwrap();
            stream.finish().await.unwrap();
            streams.push((index * 1_000, stream));
        }
        for (size, mut stream) in streams.into_iter().rev() {
            assert_eq!(stream.recv_response().await.unwrap().status(), 200);
            let mut body = Vec::new();
            receive(&mut stream, &mut body).await.unwrap();
            assert!(body == pattern::first(size), "{size} bytes");
        }
    });
    assert_eq!(origin.requests(), 101);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn tcp_and_udp_share_a_port_and_a_certificate() {
    let running = start(Config {
        tls: Some(Tls::Generated),
        quic_on_tcp_ports: true,
        threads: 2,
        ..Config::default()
    });
    let origin = &running.origin;
    assert_eq!(origin.quic_addresses(), origin.addresses());
    for _ in 0..5 {
        assert_eq!(Client::connect(&running, Via::Tls).get("/").status, 200);
        run(async {
            let mut client = H3Client::connect(origin).await;
            assert_eq!(client.get("/").await.unwrap().body(), HELLO.as_bytes());
        });
    }
    assert_eq!(origin.requests(), 10);
    assert_eq!(origin.connections(), 10);
}

#[test]
fn tcp_in_cleartext_and_quic_on_both_families() {
    let running = start(Config {
        quic: ["127.0.0.1:0", "[::1]:0"]
            .map(|a| a.parse().unwrap())
            .to_vec(),
        ..Config::default()
    });
    let origin = &running.origin;
    assert_eq!(Client::connect(&running, Via::Tcp).get("/").status, 200);
    assert_eq!(origin.quic_addresses().len(), 2);
    for &address in origin.quic_addresses() {
        run(async {
            let mut client = H3Client::connect_to(origin, address).await;
            assert_eq!(client.get("/").await.unwrap().status(), 200, "{address}");
        });
    }
}

#[test]
fn a_udp_port_in_use_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for threads in [1, 2] {
        let config = Config {
            quic: vec![address],
            threads,
            ..Config::default()
        };
        let error = Origin::start(config)
            .map(|origin| origin.quic_addresses().to_vec())
            .unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, OriginError::Quic { address: a, .. } if a == address));
        assert!(
            text.contains(&format!("UDP {address}")) && text.contains("another process"),
            "{text}"
        );
    }
}

#[test]
fn another_protocol_is_refused_in_the_handshake() {
    let origin = quic_only(Config::default());
    run(async {
        let mut tls = trusting(&origin);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let refused = endpoint
            .connect_with(config, origin.quic_addresses()[0], "localhost")
            .unwrap()
            .await;
        // The error code is the TLS alert no_application_protocol (RFC 9001 §8.1).
        match refused.unwrap_err() {
            ConnectionError::ConnectionClosed(close) => {
                assert_eq!(u64::from(close.error_code), 0x100 + 120);
            }
            other => panic!("{other}"),
        }
    });
}

#[test]
fn a_resumed_session_sends_its_request_with_the_handshake() {
    let origin = quic_only(Config::default());
    run(async {
        let mut tls = trusting(&origin);
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.enable_early_data = true;
        let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(config);
        let address = origin.quic_addresses()[0];
        let first = endpoint.connect(address, "localhost").unwrap();
        let first = first.await.unwrap();
        let (_send, mut response) = raw_get(&first, "/").await;
        assert!(response.read_to_end(1_000).await.is_ok());
        let second = endpoint.connect(address, "localhost").unwrap();
        let Ok((second, accepted)) = second.into_0rtt() else {
            panic!("the first connection left no session to resume");
        };
        let (_send, mut response) = raw_get(&second, "/").await;
        let response = response.read_to_end(1_000).await.unwrap();
        assert!(response.windows(13).any(|it| it == HELLO.as_bytes()));
        assert!(accepted.await);
    });
    assert_eq!(origin.requests(), 2);
}

#[test]
fn a_client_may_change_its_port() {
    let origin = quic_only(Config::default());
    run(async {
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(client_config(&origin));
        let connecting = endpoint.connect(origin.quic_addresses()[0], "localhost");
        let quic = connecting.unwrap().await.unwrap();
        for _ in 0..2 {
            let (_send, mut response) = raw_get(&quic, "/bytes/10K").await;
            assert!(response.read_to_end(20_000).await.is_ok());
            let other = UdpSocket::bind("127.0.0.1:0").unwrap();
            endpoint.rebind(other).unwrap();
        }
    });
    assert_eq!(origin.connections(), 1);
}

#[test]
fn stopping_closes_connections() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        let request = Request::get("https://origin/fault/stall").body(()).unwrap();
        let mut stalled = client.http.send_request(request).await.unwrap();
        stalled.finish().await.unwrap();
        assert_eq!(client.get("/").await.unwrap().status(), 200);
        let stopping = std::thread::spawn(move || origin.stop());
        assert_eq!(
            close_code(&client.quic.closed().await),
            Code::H3_NO_ERROR.value()
        );
        assert!(stalled.recv_response().await.is_err());
        stopping.join().unwrap();
    });
}
