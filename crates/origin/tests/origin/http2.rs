//! Tests of HTTP/2, by prior knowledge and by ALPN.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prony_origin::{HELLO, pattern};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::client::{Running, TEST_TIMEOUT, Via, clear, start_for, trusting};

type Sender = http2::SendRequest<Full<Bytes>>;

/// Runs a client. The test fails if the client hangs.
fn run<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(TEST_TIMEOUT, client).await })
        .expect("the client hangs")
}

async fn handshake<I>(io: I) -> Sender
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(io);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn connect(running: &Running, via: Via) -> Sender {
    let origin = &running.origin;
    match via {
        Via::Tcp => handshake(TcpStream::connect(origin.addresses()[0]).await.unwrap()).await,
        Via::Unix => handshake(UnixStream::connect(&origin.unix_paths()[0]).await.unwrap()).await,
        Via::Tls | Via::TlsOverUnix => {
            let mut config = trusting(origin);
            config.alpn_protocols = vec![b"h2".to_vec()];
            let name = ServerName::try_from("localhost").unwrap();
            let tcp = TcpStream::connect(origin.addresses()[0]).await.unwrap();
            let tls = TlsConnector::from(Arc::new(config))
                .connect(name, tcp)
                .await
                .unwrap();
            assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            handshake(tls).await
        }
    }
}

fn request(path: &str) -> Request<Full<Bytes>> {
    let uri = format!("http://origin{path}");
    Request::builder().uri(uri).body(Full::default()).unwrap()
}

async fn get(sender: &mut Sender, path: &str) -> Result<Response<Bytes>, hyper::Error> {
    let (parts, body) = sender.send_request(request(path)).await?.into_parts();
    Ok(Response::from_parts(
        parts,
        body.collect().await?.to_bytes(),
    ))
}

#[test]
fn every_path_by_prior_knowledge_and_by_alpn() {
    for via in [Via::Tcp, Via::Unix, Via::Tls] {
        let running = start_for(via);
        run(async {
            let mut sender = connect(&running, via).await;
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
                ("/close", HELLO.as_bytes().to_vec()),
            ] {
                let response = get(&mut sender, path).await.unwrap();
                assert_eq!(response.version(), Version::HTTP_2);
                assert_eq!(response.status(), StatusCode::OK, "{path}");
                assert!(response.body() == &body, "{path} over {via:?}");
            }
            assert_eq!(get(&mut sender, "/status/503").await.unwrap().status(), 503);
            assert_eq!(get(&mut sender, "/none").await.unwrap().status(), 404);
        });
        assert_eq!(running.origin.requests(), 12);
        assert_eq!(running.origin.connections(), 1);
    }
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let running = clear();
    run(async {
        let mut sender = connect(&running, Via::Tcp).await;
        // A stream that never ends must not hold up other streams.
        let stalled = tokio::spawn(sender.send_request(request("/fault/stall")));
        for _ in 0..3 {
            assert_eq!(get(&mut sender, "/").await.unwrap().body(), HELLO);
        }
        assert!(!stalled.is_finished());
    });
}

#[test]
fn post_and_head() {
    let running = clear();
    run(async {
        let mut sender = connect(&running, Via::Tcp).await;
        let mut post = request("/echo");
        *post.method_mut() = http::Method::POST;
        *post.body_mut() = Full::from(vec![b'x'; 100_000]);
        let response = sender.send_request(post).await.unwrap();
        assert_eq!(response.headers()["prony-method"], "POST");
        assert_eq!(
            response
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .len(),
            100_000
        );
        for (path, length) in [
            ("/", Some("13")),
            ("/bytes/5M", Some("5242880")),
            ("/chunked/9", None),
            ("/status/204", None),
        ] {
            let mut head = request(path);
            *head.method_mut() = http::Method::HEAD;
            let response = sender.send_request(head).await.unwrap();
            let announced = response
                .headers()
                .get("content-length")
                .map(|value| value.to_str().unwrap());
            assert_eq!(announced, length, "{path}");
            assert!(
                response
                    .into_body()
                    .collect()
                    .await
                    .unwrap()
                    .to_bytes()
                    .is_empty(),
                "{path}"
            );
        }
    });
}

#[test]
fn faults_of_a_stream_leave_the_others_alone() {
    let running = clear();
    run(async {
        let mut sender = connect(&running, Via::Tcp).await;
        for path in ["/fault/truncate", "/fault/lies-short"] {
            assert!(get(&mut sender, path).await.is_err(), "{path}");
            assert_eq!(get(&mut sender, "/").await.unwrap().body(), HELLO);
        }
        let mut response = sender
            .send_request(request("/fault/stall-body"))
            .await
            .unwrap();
        assert_eq!(response.headers()["content-length"], "26");
        let first = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), HELLO);
        assert_eq!(get(&mut sender, "/").await.unwrap().body(), HELLO);
        assert_eq!(get(&mut sender, "/fault/half").await.unwrap().status(), 501);
    });
}

#[test]
fn faults_of_the_connection_end_it() {
    for via in [Via::Tcp, Via::Unix, Via::Tls] {
        let running = start_for(via);
        for path in ["/fault/reset", "/fault/close", "/fault/garbage"] {
            run(async {
                let mut sender = connect(&running, via).await;
                assert_eq!(get(&mut sender, "/").await.unwrap().body(), HELLO);
                assert!(get(&mut sender, path).await.is_err(), "{path} over {via:?}");
                assert!(get(&mut sender, "/").await.is_err(), "{path} over {via:?}");
            });
        }
    }
}
