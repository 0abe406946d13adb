//! Tests of faults over HTTP/3.

use std::time::Duration;

use bytes::Bytes;
use h3::error::Code;
use http::{Method, Request};
use prony_origin::{AcceptFault, Config, Fault, HELLO, Origin};
use quinn::ConnectionError;

use crate::http3_client::{
    H3Client, close_code, dial, quic_only, raw_get, receive, reset_code, run,
};

/// Time without received bytes after which the server is assumed not to respond.
const SILENCE: Duration = Duration::from_millis(150);

/// Opens a QUIC connection on which the client doesn't speak HTTP/3.
async fn connect_raw(origin: &Origin) -> quinn::Connection {
    dial(origin, origin.quic_addresses()[0]).await.unwrap()
}

#[test]
fn a_reset_ends_the_stream_and_not_the_connection() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        let error = client.get("/fault/reset").await.unwrap_err();
        assert_eq!(reset_code(&error), Code::H3_INTERNAL_ERROR);
        let (head, mut stream) = client
            .request(Method::GET, "/fault/reset-body", Bytes::new())
            .await
            .unwrap();
        assert_eq!(head.headers()["content-length"], "26");
        let mut body = Vec::new();
        let error = receive(&mut stream, &mut body).await.unwrap_err();
        assert_eq!(reset_code(&error), Code::H3_INTERNAL_ERROR);
        assert!(body.len() <= HELLO.len());
        assert_eq!(client.get("/").await.unwrap().body(), HELLO.as_bytes());
    });
    assert_eq!(origin.connections(), 1);
}

#[test]
fn lengths_that_contradict_the_body() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        for (path, lengths) in [
            ("/fault/truncate", vec!["26"]),
            ("/fault/lies-short", vec!["5"]),
            ("/fault/two-lengths", vec!["13", "5"]),
            ("/fault/bad-length", vec!["1e1"]),
        ] {
            let response = client.get(path).await.unwrap();
            let announced = response.headers().get_all("content-length");
            assert_eq!(announced.iter().collect::<Vec<_>>(), lengths, "{path}");
            assert_eq!(response.body(), HELLO.as_bytes(), "{path}");
        }
        let response = client.get("/fault/length-and-chunked").await.unwrap();
        assert_eq!(response.headers()["transfer-encoding"], "chunked");
    });
}

#[test]
fn silence_holds_up_nobody_else() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        let (head, mut stream) = client
            .request(Method::GET, "/fault/stall-body", Bytes::new())
            .await
            .unwrap();
        assert_eq!(head.headers()["content-length"], "26");
        let mut body = Vec::new();
        let rest = tokio::time::timeout(SILENCE, receive(&mut stream, &mut body));
        assert!(rest.await.is_err());
        assert_eq!(body, HELLO.as_bytes());
        let stalled = client.request(Method::GET, "/fault/stall", Bytes::new());
        assert!(tokio::time::timeout(SILENCE, stalled).await.is_err());
        assert_eq!(client.get("/").await.unwrap().status(), 200);
    });
}

#[test]
fn requests_that_the_client_gives_up_free_their_streams() {
    let origin = quic_only(Config::default());
    run(async {
        let quic = connect_raw(&origin).await;
        // Send more requests than the number of streams that may be open at the same time.
        for _ in 0..10_100 {
            let (_send, mut receive) = raw_get(&quic, "/fault/stall").await;
            receive.stop(0x10c_u32.into()).unwrap();
        }
    });
}

#[test]
fn interim_responses_come_first() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        for (path, status) in [("/fault/interim", 103), ("/fault/continue", 100)] {
            let (head, mut stream) = client
                .request(Method::GET, path, Bytes::new())
                .await
                .unwrap();
            assert_eq!(head.status(), status);
            assert_eq!(stream.recv_response().await.unwrap().status(), 200);
            let mut body = Vec::new();
            receive(&mut stream, &mut body).await.unwrap();
            assert_eq!(body, HELLO.as_bytes());
        }
    });
}

#[test]
fn trailers() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        let (_, mut stream) = client
            .request(Method::GET, "/fault/trailers", Bytes::new())
            .await
            .unwrap();
        receive(&mut stream, &mut Vec::new()).await.unwrap();
        let trailers = stream.recv_trailers().await.unwrap().unwrap();
        assert_eq!(trailers["pieces"], "1");
    });
}

#[test]
fn an_early_response_does_not_wait_for_the_body() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        let request = Request::post("https://origin/fault/early-answer")
            .body(())
            .unwrap();
        let mut stream = client.http.send_request(request).await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        let mut body = Vec::new();
        receive(&mut stream, &mut body).await.unwrap();
        assert_eq!(body, HELLO.as_bytes());
        let piece = || Bytes::from_static(b"too late");
        let error = loop {
            if let Err(error) = stream.send_data(piece()).await {
                break error;
            }
        };
        assert_eq!(reset_code(&error), Code::H3_NO_ERROR);
        assert_eq!(client.get("/").await.unwrap().status(), 200);
    });
}

#[test]
fn faults_that_close_the_connection() {
    let origin = quic_only(Config::default());
    for (path, has_response, code) in [
        ("/fault/close", false, Code::H3_NO_ERROR),
        ("/fault/early-close-keepalive", true, Code::H3_NO_ERROR),
        ("/fault/connection-error", false, Code::H3_INTERNAL_ERROR),
    ] {
        run(async {
            let mut client = H3Client::connect(&origin).await;
            let response = client.get(path).await;
            assert_eq!(response.is_ok(), has_response, "{path}");
            let seen = close_code(&client.quic.closed().await);
            assert_eq!(seen, code.value(), "{path}");
        });
    }
}

#[test]
fn frames_that_are_connection_errors() {
    let origin = quic_only(Config::default());
    for (path, code) in [
        ("/fault/garbage", Code::H3_FRAME_UNEXPECTED),
        ("/fault/half", Code::H3_FRAME_ERROR),
        ("/fault/truncate-chunked", Code::H3_FRAME_ERROR),
    ] {
        run(async {
            let mut client = H3Client::connect(&origin).await;
            assert!(client.get(path).await.is_err(), "{path}");
            let error = client.driver.await.unwrap().to_string();
            assert!(error.contains(&code.to_string()), "{path}: {error}");
        });
        // The server still serves other clients.
        run(async {
            let mut client = H3Client::connect(&origin).await;
            assert_eq!(client.get("/").await.unwrap().status(), 200);
        });
    }
}

#[test]
fn heads_that_h3_would_not_send() {
    let origin = quic_only(Config::default());
    run(async {
        let quic = connect_raw(&origin).await;
        let (_send, mut receive) = raw_get(&quic, "/fault/bad-status").await;
        let bytes = receive.read_to_end(1_000).await.unwrap();
        assert!(bytes.windows(5).any(|window| window == b"20000"));
        assert!(bytes.ends_with(HELLO.as_bytes()));
        for (path, piece) in [
            ("/fault/huge-head", &b"aaaaaaaaaaaaa"[..]),
            ("/fault/many-headers", &b"\x27\x00another\x06header"[..]),
        ] {
            let (_send, mut receive) = raw_get(&quic, path).await;
            let mut bytes = vec![0; 3 << 20];
            receive.read_exact(&mut bytes).await.unwrap();
            // The HEADERS frame declares a length of 1 TiB.
            assert_eq!(bytes[..9], [1, 0xc0, 0, 1, 0, 0, 0, 0, 0], "{path}");
            let end = &bytes[bytes.len() - 2 * piece.len()..];
            assert!(end.windows(piece.len()).any(|window| window == piece));
            receive.stop(0x10c_u32.into()).unwrap();
        }
        let (_send, mut receive) = raw_get(&quic, "/").await;
        let bytes = receive.read_to_end(1_000).await.unwrap();
        assert!(
            bytes
                .windows(HELLO.len())
                .any(|window| window == HELLO.as_bytes())
        );
    });
}

#[test]
fn what_http3_does_not_have_is_501() {
    let origin = quic_only(Config::default());
    run(async {
        let mut client = H3Client::connect(&origin).await;
        for fault in Fault::all().filter(|fault| !fault.over_http3()) {
            let response = client.get(&format!("/fault/{fault}")).await.unwrap();
            assert_eq!(response.status(), 501, "{fault}");
            assert!(String::from_utf8_lossy(response.body()).contains("HTTP/3"));
        }
    });
}

#[test]
fn close_sends_goaway_and_closes_after_the_requests_in_flight() {
    let origin = quic_only(Config::default());
    run(async {
        let quic = connect_raw(&origin).await;
        let (_slow, mut slow) = raw_get(&quic, "/delay/100ms").await;
        let (_close, mut closing) = raw_get(&quic, "/close").await;
        let response = closing.read_to_end(1_000).await.unwrap();
        assert!(response.ends_with(HELLO.as_bytes()), "{response:?}");
        let response = slow.read_to_end(1_000).await.unwrap();
        assert!(
            response
                .windows(13)
                .any(|window| window == HELLO.as_bytes())
        );
        // The control stream ends with GOAWAY, which indicates that requests from the third stream
        // on are not served.
        let mut goaway = false;
        while let Ok(mut stream) = quic.accept_uni().await {
            let mut bytes = Vec::new();
            while let Ok(Some(chunk)) = stream.read_chunk(1_000, true).await {
                bytes.extend_from_slice(&chunk.bytes);
                // Other unidirectional streams don't end.
                if bytes[0] != 0 || bytes.ends_with(&[0x07, 0x01, 0x08]) {
                    goaway |= bytes[0] == 0;
                    break;
                }
            }
        }
        assert!(goaway);
        let code = close_code(&quic.closed().await);
        assert_eq!(code, Code::H3_NO_ERROR.value());
    });
}

#[test]
fn faults_of_the_handshake() {
    let with = |fault| {
        quic_only(Config {
            on_accept: Some(fault),
            ..Config::default()
        })
    };
    let origin = with(AcceptFault::Reset);
    match run(dial(&origin, origin.quic_addresses()[0])).unwrap_err() {
        // The error code is CONNECTION_REFUSED.
        ConnectionError::ConnectionClosed(close) => assert_eq!(u64::from(close.error_code), 2),
        other => panic!("{other}"),
    }
    let origin = with(AcceptFault::Close);
    run(async {
        let code = match dial(&origin, origin.quic_addresses()[0]).await {
            Ok(quic) => close_code(&quic.closed().await),
            Err(error) => close_code(&error),
        };
        assert_eq!(code, Code::H3_NO_ERROR.value());
    });
    for (fault, connections) in [(AcceptFault::Ignore, 1), (AcceptFault::Never, 0)] {
        let origin = with(fault);
        run(async {
            let connecting = dial(&origin, origin.quic_addresses()[0]);
            assert!(tokio::time::timeout(SILENCE, connecting).await.is_err());
        });
        assert_eq!(origin.connections(), connections, "{fault:?}");
    }
}
