//! HTTP/3 clients: one that uses quinn and h3, and one that reads the raw bytes of a stream.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use h3_quinn::{BidiStream, OpenStreams};
use http::{Method, Request, Response};
use prony_origin::{Config, Origin};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectionError, Endpoint};
use tokio::task::JoinHandle;

use crate::client::{TEST_TIMEOUT, trusting};

/// Runs a client. The test fails if the client hangs.
pub(crate) fn run<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(TEST_TIMEOUT, client).await })
        .expect("the client hangs")
}

fn any_port() -> Vec<SocketAddr> {
    vec!["127.0.0.1:0".parse().unwrap()]
}

/// Starts an origin that has only a UDP address.
pub(crate) fn quic_only(config: Config) -> Origin {
    Origin::start(Config {
        quic: any_port(),
        ..config
    })
    .unwrap()
}

pub(crate) fn client_config(origin: &Origin) -> quinn::ClientConfig {
    let mut tls = trusting(origin);
    tls.alpn_protocols = vec![b"h3".to_vec()];
    quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// A client connection that uses HTTP/3 over QUIC.
pub(crate) struct H3Client {
    pub(crate) quic: quinn::Connection,
    pub(crate) http: SendRequest<OpenStreams, Bytes>,
    pub(crate) driver: JoinHandle<h3::error::ConnectionError>,
}

pub(crate) async fn dial(
    origin: &Origin,
    address: SocketAddr,
) -> Result<quinn::Connection, ConnectionError> {
    let bind = SocketAddr::new(address.ip(), 0);
    let endpoint = Endpoint::client(bind).unwrap();
    let connecting = endpoint.connect_with(client_config(origin), address, "localhost");
    connecting.unwrap().await
}

impl H3Client {
    pub(crate) async fn connect(origin: &Origin) -> Self {
        Self::connect_to(origin, origin.quic_addresses()[0]).await
    }

    pub(crate) async fn connect_to(origin: &Origin, address: SocketAddr) -> Self {
        let quic = dial(origin, address).await.unwrap();
        let transport = h3_quinn::Connection::new(quic.clone());
        let (mut driver, http) = h3::client::new(transport).await.unwrap();
        let driver =
            tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        Self { quic, http, driver }
    }

    /// Sends a request with a body and reads the head of its response.
    pub(crate) async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(Response<()>, Stream), StreamError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://origin{path}"))
            .body(())
            .unwrap();
        let mut stream = self.http.send_request(request).await?;
        if !body.is_empty() {
            stream.send_data(body).await?;
        }
        stream.finish().await?;
        Ok((stream.recv_response().await?, stream))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Response<Vec<u8>>, StreamError> {
        let (head, mut stream) = self.request(Method::GET, path, Bytes::new()).await?;
        let mut body = Vec::new();
        receive(&mut stream, &mut body).await?;
        Ok(head.map(|()| body))
    }
}

pub(crate) type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// Reads a body to its end. Bytes that arrived before an error stay in `body`.
pub(crate) async fn receive(stream: &mut Stream, body: &mut Vec<u8>) -> Result<(), StreamError> {
    while let Some(mut data) = stream.recv_data().await? {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Ok(())
}

/// Returns the code with which the server reset a stream.
pub(crate) fn reset_code(error: &StreamError) -> Code {
    match error {
        StreamError::RemoteTerminate { code, .. } => *code,
        other => panic!("not a reset: {other}"),
    }
}

/// Returns the code with which the server closed the connection.
pub(crate) fn close_code(error: &ConnectionError) -> u64 {
    match error {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("not closed by HTTP/3: {other}"),
    }
}

/// Sends a GET request without h3. Returns both halves of the stream; the sending half must be kept
/// until the response has been read.
pub(crate) async fn raw_get(
    quic: &quinn::Connection,
    path: &str,
) -> (quinn::SendStream, quinn::RecvStream) {
    let (mut send, receive) = quic.open_bi().await.unwrap();
    // References to the static table: `:method: GET`, `:scheme: https`, and the names of
    // `:authority` and `:path`.
    let mut fields = b"\x00\x00\xd1\xd7\x50\x06origin\x51".to_vec();
    fields.push(u8::try_from(path.len()).unwrap());
    fields.extend_from_slice(path.as_bytes());
    let mut frame = vec![0x01, u8::try_from(fields.len()).unwrap()];
    frame.append(&mut fields);
    send.write_all(&frame).await.unwrap();
    send.finish().unwrap();
    (send, receive)
}
