//! The table of all settings. To add a setting, add a row here and use its field.
//!
//! A row states the field and its type, the kind of the value, the meaning, and then, where they
//! apply, the other properties of a [`Setting`].

use std::path::PathBuf;
use std::time::Duration;

use super::declare::settings;
use super::deflate_offer::DeflateOffer;
use super::event_field::EventField;
use super::form::FormField;
use super::grpc_method::GrpcMethod;
use super::http_proxy::HttpProxy;
use super::rate::{ArrivalRate, Stage};
use super::replay_timing::ReplaySpeed;
use super::setting::Setting;
use super::setting::ValueKind::{
    Choice, Cores, Count, File, Headers, List, Number, Numbers, PositiveTime, Rate, Size,
    SocketPath, Steps, Switch, Text, Texts, Time, TlsVersion as Tls,
};
use super::source_range::SourceRange;
use super::step::JourneyStep;
use super::think_time::ThinkTime;
use super::values::{
    AddressOrder, CoreList, DataOrder, EventChoice, FanOut, GatewayMac, HttpVersion, IoChoice,
    ProxyVersion, RequestOrder, Sha256, SourceOrder, TlsVersion,
};
use crate::values::credentials::Credentials;
use crate::values::pacing::Arrivals;
use crate::values::status_set::StatusSet;

/// Environment variable that has the effect of `public`.
pub const PUBLIC_VARIABLE: &str = "PRONY_PUBLIC";

/// Settings that a gRPC call determines.
const CALL_EXCLUDES: &[(&str, &str)] = &[
    ("urls", ""),
    ("steps", ""),
    ("step", ""),
    ("script", ""),
    ("method", ""),
    ("form", ""),
    ("events", ""),
    ("no_keepalive", ""),
    ("tcp_only", ""),
    ("message", ""),
    ("message_file", ""),
    ("messages", ""),
];

/// Settings that don't apply to the messages of WebSockets.
const MESSAGE_EXCLUDES: &[(&str, &str)] = &[
    ("urls", ""),
    ("steps", ""),
    ("step", ""),
    ("script", ""),
    ("method", ""),
    ("body", ""),
    ("body_file", ""),
    ("form", ""),
    ("cookies", ""),
    ("follow", ""),
    ("events", ""),
    ("proxy", ""),
    ("tcp_only", ""),
    ("expect_status", "because messages have no status"),
];

/// Settings that a journey's steps replace.
const JOURNEY_EXCLUDES: &[(&str, &str)] = &[
    ("urls", "because the steps are the requests"),
    ("script", "because the steps are the requests"),
    (
        "order",
        "because the steps are taken in order; a step's weight chooses at random",
    ),
    ("method", "because each step has a method"),
    ("body", "because each step has a body"),
    ("body_file", "because each step has a body"),
    ("form", "because each step has a form"),
];

/// Settings that a log replaces, or that could lead its requests to other servers.
const REPLAY_EXCLUDES: &[(&str, &str)] = &[
    ("urls", ""),
    ("steps", ""),
    ("step", ""),
    ("script", ""),
    ("stages", ""),
    ("connection_rate", ""),
    ("think", "because the log determines the pauses"),
    ("tcp_only", ""),
    ("message", ""),
    ("message_file", ""),
    ("messages", ""),
    ("grpc", ""),
    ("method", "because the log has the methods"),
    ("body", ""),
    ("body_file", ""),
    ("form", ""),
    ("data", ""),
    ("order", "because the log has an order"),
    ("follow", "because a redirect could lead to another server"),
    ("early_data", ""),
];

settings! {
    "Load" {
        connections: Option<u64> = Count,
            "Connections to keep open",
            short('c'), alias("vus"), default("50"), example("64");
        requests: Option<u64> = Count,
            "Stop after N requests",
            short('n'), default("no limit"), example("100000");
        duration: Option<Duration> = PositiveTime,
            "Length of the measurement, such as 500ms, 30s or 1m30s",
            short('d'), other_short('z'), default("10s, or until --requests have finished"),
            example("\"30s\"");
        warmup: Option<Duration> = Time,
            "Duration of the warm-up, before the measurement",
            default("0s"), example("\"1s\"");
        rate: Option<ArrivalRate> = Rate,
            "Total requests per second, such as 1000, 20k or 100:5000 (a linear ramp); switches to \
             an open loop",
            short('r'), other_short('R'), alias("rps"),
            default("closed loop, as fast as the server responds"), example("2000");
        stages: Vec<Stage> = List,
            "Change the rate linearly to each RATE over its TIME, starting from 0; a TIME of 0s \
             jumps",
            placeholder("RATE@TIME,..."), default("a constant rate"),
            example("[\"500@30s\", \"2000@1m\", \"2000@5m\"]");
        arrivals: Option<Arrivals> = Choice(Arrivals::CHOICES),
            "Spacing of an open loop's requests",
            default("constant"), example("\"poisson\"");
        think: Option<ThinkTime> = Text,
            "Pause of each virtual user between its requests, such as 1s, or exp:1s for \
             exponentially distributed pauses",
            placeholder("TIME|exp:TIME"), default("none"), example("\"exp:1s\""),
            excludes(&[("rate", ""), ("stages", "")]);
        threads: Option<u64> = Count,
            "Worker threads",
            short('t'), default("one per core, but not more than connections");
        cores: Option<CoreList> = Cores,
            "Cores to run the workers on, such as 1 or 0-3",
            default("any"), example("\"1\"");
        seed: Option<u64> = Number,
            "Seed of Poisson arrivals, think times and random orders",
            default("0");
    }
    "Request" {
        method: Option<String> = Text,
            "Method of the requests",
            short('X'), default("GET, or POST with --form"), example("\"POST\"");
        header: Vec<String> = Headers,
            "Send this header",
            short('H'), default("Host, User-Agent and Accept only"),
            example("{ Accept-Encoding = \"gzip\" }"), repeatable();
        user: Option<Credentials> = Text,
            "Send this user name and password with basic authentication, like credentials in the \
             URL",
            short('u'), placeholder("USER:PASSWORD"), example("\"alice:secret\"");
        body: Option<String> = Text,
            "Body of the requests",
            placeholder("TEXT"), default("none"), example("\"a=1\""),
            excludes(&[("body_file", "")]);
        body_file: Option<PathBuf> = File,
            "File that holds the body of the requests",
            default("none");
        form: Vec<FormField> = Texts,
            "Field of a multipart form, as for curl: \"name=value\", \
             \"name=@file;type=image/png;filename=a.png\" (an upload) or \"name=<file\"",
            short('F'), placeholder("NAME=VALUE"), repeatable(),
            excludes(&[("body", ""), ("body_file", "")]);
        path_as_is: bool = Switch,
            "Send paths with /./ and /../ as they are",
            default("without these segments, like curl");
        http: Option<HttpVersion> = Choice(HttpVersion::CHOICES),
            "HTTP version",
            default("over TLS the version that ALPN selects, 2 or 1.1; in cleartext 1.1"),
            example("\"2\"");
        streams: Option<u64> = Count,
            "Requests in flight on each HTTP/2 or HTTP/3 connection",
            default("1"), example("32");
        no_keepalive: bool = Switch,
            "Open a new connection for each request",
            alias("disable-keepalive");
        requests_per_connection: Option<u64> = Count,
            "Replace a connection after N requests; 1 is --no-keepalive",
            default("no limit"), example("100"), excludes(&[("no_keepalive", "")]);
        connection_lifetime: Option<Duration> = PositiveTime,
            "Replace a connection that is older than TIME; one that is in use carries one more \
             request first",
            default("no limit"), example("\"1m\""), excludes(&[("no_keepalive", "")]);
        connection_rate: Option<ArrivalRate> = Rate,
            "Open N connections per second on a schedule, and send one request on each, or as many as \
             --requests-per-connection says",
            default("off"), example("500"),
            excludes(&[
                ("rate", ""),
                ("stages", ""),
                ("think", ""),
                ("urls", "because the requests of a connection are all the same"),
                ("script", "because the requests of a connection are all the same"),
                ("connection_lifetime", "because each connection carries one request"),
                ("steps", "because each connection carries one request"),
                ("step", "because each connection carries one request"),
            ]);
        tcp_only: bool = Switch,
            "Only connect and close: each connection counts as a request, and nothing is sent",
            excludes(&[
                ("requests_per_connection", "because nothing is sent"),
                ("connection_lifetime", "because nothing is sent"),
                ("script", "because nothing is sent"),
                ("steps", "because nothing is sent"),
                ("step", "because nothing is sent"),
                ("events", "because nothing is received"),
                ("proxy", "because nothing is sent"),
                ("proxy_protocol", "because nothing is sent"),
                ("early_data", "because nothing is sent"),
            ]);
        idle: Option<u64> = Count,
            "Keep N more connections open while the load runs, and send nothing on them",
            default("none"), example("10000");
        cookies: bool = Switch,
            "Give each virtual user a cookie jar, so that it sends back cookies that responses set",
            default("cookies are ignored");
        urls: Option<PathBuf> = File,
            "A file (`-` for standard input) of requests, one per line: URL, \"URL POST body\", \
             \"URL POST <file\" or JSON",
            example("\"urls.txt\"");
        replay: Option<PathBuf> = File,
            "Send the requests of an access log (nginx, Apache, JSON lines or HAR) again, with the \
             recorded timing",
            example("\"access.log.gz\""), excludes(REPLAY_EXCLUDES);
        speed: Option<ReplaySpeed> = Text,
            "Divide the times of --replay by N",
            placeholder("N"), default("as recorded, or in order as fast as --rate or --connections allow"),
            example("\"2\""), needs("replay"), excludes(&[("rate", "")]);
        log_format: Option<String> = Text,
            "Format string of the log, as in nginx's log_format or Apache's LogFormat",
            placeholder("FORMAT"), default("combined or common; JSON and HAR are recognized"),
            example("'$remote_addr [$time_local] \"$request\" $status $msec'"), needs("replay");
        replay_methods: Vec<String> = List,
            "Methods to replay besides GET and HEAD; they may change something on the server",
            placeholder("LIST"), default("GET and HEAD only; others are counted"),
            example("[\"POST\"]"), needs("replay");
        steps: Option<PathBuf> = File,
            "A TOML file with the steps of a journey that each virtual user takes: log in, browse, \
             send a form",
            example("\"journey.toml\""), excludes(JOURNEY_EXCLUDES);
        step: Vec<JourneyStep> = Steps,
            "Step of a journey, which each virtual user takes in order",
            plan_only(), excludes(JOURNEY_EXCLUDES);
        ramp_up: Option<Duration> = PositiveTime,
            "Let the virtual users begin their first journeys evenly over TIME",
            default("all begin at once"), example("\"30s\""),
            excludes(&[("rate", ""), ("stages", "")]);
        follow: Option<u64> = Number,
            "Follow up to N redirects; a redirect chain counts as one request",
            default("0");
        order: Option<RequestOrder> = Choice(RequestOrder::CHOICES),
            "Order in which the --urls are requested",
            default("sequence; per-user with --cookies; weighted if any has a weight");
        data: Option<PathBuf> = File,
            "A CSV file with values for {{column}} in URLs, headers and bodies; {{seq}}, {{uuid}}, \
             {{random(1,9)}} need no file",
            example("\"users.csv\"");
        data_order: Option<DataOrder> = Choice(DataOrder::CHOICES),
            "Order in which requests take the rows of --data; with --order per-user, a user keeps \
             its row per pass",
            default("sequence"), needs("data");
        script: Option<PathBuf> = File,
            "A Lua script with wrk's hooks that generates the requests: request(), response(), \
             delay(), done()",
            example("\"load.lua\""),
            excludes(&[
                ("urls", "because the script chooses the requests; list them in the script"),
                ("data", "because the script writes the requests; read the file in the script"),
                ("cookies", "because the script writes the header fields; set Cookie in the script"),
                ("think", "because the script has pauses of its own; return them from delay()"),
            ]);
        script_args: Vec<String> = Texts,
            "Argument for init() of the script; repeatable; or put all arguments after -- at the \
             end",
            placeholder("ARG"), example("[\"a\", \"b\"]"), needs("script");
    }
    "Connection" {
        unix: Option<PathBuf> = SocketPath,
            "Connect to this UNIX socket; the URL then sets only the host and path of requests",
            alias("unix-socket");
        proxy: Option<HttpProxy> = Text,
            "Send requests through this HTTP proxy, also http://USER:PASSWORD@HOST:PORT; https \
             uses tunnels",
            placeholder("HOST:PORT"), example("\"10.0.0.3:3128\""), excludes(&[("unix", "")]);
        source: Vec<SourceRange> = List,
            "Connect from these addresses of this machine",
            placeholder("ADDR|CIDR|FIRST-LAST"), example("[\"10.50.0.0/16\"]"), repeatable(),
            excludes(&[("unix", "")]);
        source_order: Option<SourceOrder> = Choice(SourceOrder::CHOICES),
            "Assignment of source addresses to connections; per-user: each of --connections keeps \
             its own",
            placeholder("ORDER"), default("round-robin");
        proxy_protocol: Option<ProxyVersion> = Choice(ProxyVersion::CHOICES),
            "Begin each connection with a PROXY protocol header that contains the connection's \
             addresses",
            placeholder("VERSION");
        proxy_source: Vec<SourceRange> = List,
            "Put these addresses into the PROXY protocol header instead, written like those of \
             --source",
            placeholder("ADDRS"), example("[\"10.50.0.0/16\"]"), repeatable(),
            needs("proxy_protocol");
        resolve: Vec<String> = Texts,
            "Connect to ADDR (or the first of ADDR,ADDR… that accepts) for HOST:PORT without a \
             name lookup",
            placeholder("HOST:PORT:ADDR"), example("[\"example.org:443:127.0.0.1\"]"),
            repeatable();
        addresses: Option<AddressOrder> = Choice(AddressOrder::CHOICES),
            "Addresses that connections use if the host has several",
            placeholder("ORDER"), default("first"), excludes(&[("unix", ""), ("proxy", "")]);
        resolve_every: Option<Duration> = PositiveTime,
            "Look the host up again every TIME, and replace connections to addresses that it no \
             longer has",
            default("once, before the load"), example("\"5s\""),
            excludes(&[("unix", ""), ("proxy", "")]);
        timeout: Option<Duration> = Time,
            "Give up on a request after TIME; 0 means never",
            default("20s"), example("\"30s\"");
        connect_timeout: Option<Duration> = PositiveTime,
            "Give up on an attempt to connect after TIME",
            default("5s"), example("\"1s\"");
        wait_for_server: Option<Duration> = PositiveTime,
            "Before the load, wait up to TIME (30s if omitted) for the server to accept \
             connections",
            default("no wait; the load ends after 1s if all connections are refused"),
            example("\"30s\""), if_omitted("30s");
        socket_buffer: Option<u64> = Size,
            "Send and receive buffer size of each TCP socket, such as 64K",
            default("the system's"), example("\"64K\"");
        io: Option<IoChoice> = Choice(IoChoice::CHOICES),
            "Kernel interface for sockets",
            default("auto");
        interface: Option<String> = Text,
            "Network interface for --io xdp",
            placeholder("NAME"), default("none"), example("\"lan\"");
        gateway_mac: Option<GatewayMac> = Text,
            "MAC address of the next hop for --io xdp",
            placeholder("MAC"), default("from the kernel's tables"),
            example("\"02:00:00:00:00:01\"");
        busy_poll: bool = Switch,
            "Spin instead of sleeping with --io xdp: reacts sooner, but uses the cores completely";
    }
    "Expectations" {
        expect_status: Option<StatusSet> = Numbers,
            "Status codes that count as success",
            default("200-399"), example("\"200,304\"");
        expect_size: Option<u64> = Size,
            "Count a response as failed if its body doesn't have this size, such as 512 or 10K",
            placeholder("N"), default("any size"), example("\"64K\"");
        expect_sha256: Option<Sha256> = Text,
            "Count a response as failed if its body doesn't have this SHA-256",
            placeholder("HEX"), default("any body");
    }
    "Streamed responses" {
        events: Option<EventChoice> = Choice(EventChoice::CHOICES),
            "Read responses as streams of events: measure the time to the first event and the gaps",
            placeholder("FORMAT"), default("the whole body is the response"), example("\"sse\""),
            excludes(&[("expect_size", ""), ("expect_sha256", "")]);
        event_field: Option<EventField> = Text,
            "Count only events whose JSON has this field, and count its characters",
            placeholder("FIELD"), default("any event counts"),
            example("\"choices.0.delta.content\""), needs("events");
        end_marker: Option<String> = Text,
            "Data of the event that ends a stream; a response without it fails",
            placeholder("TEXT"), default("none"), example("\"[DONE]\""), needs("events");
        gap_timeout: Option<Duration> = Time,
            "Give up on a stream without another event for TIME; 0 means never",
            default("the value of --timeout, which covers the time until the first event"),
            example("\"5s\"");
    }
    "gRPC" {
        grpc: Option<GrpcMethod> = Text,
            "Call this gRPC method over HTTP/2; --body is its message as JSON, or a list of messages",
            placeholder("SERVICE/METHOD"), default("plain requests"),
            example("\"shop.Cart/Add\""), excludes(CALL_EXCLUDES);
        proto: Option<PathBuf> = File,
            "The .proto file that declares the method",
            default("the server's reflection service; plans need proto or protoset"), example("\"shop.proto\""),
            excludes(&[("protoset", "")]);
        proto_path: Option<PathBuf> = File,
            "Folder in which imports of --proto are found",
            placeholder("DIR"), default("the folder of --proto"), needs("proto");
        protoset: Option<PathBuf> = File,
            "Compiled descriptors of the method, by protoc --include_imports --descriptor_set_out",
            default("none"), example("\"shop.binpb\"");
        grpc_gzip: bool = Switch,
            "Compress messages with gzip, and accept compressed messages";
        grpc_message_max: Option<u64> = Size,
            "Fail calls whose response has a message longer than this",
            placeholder("SIZE"), default("4M");
    }
    "WebSocket" {
        message: Vec<String> = Texts,
            "With a URL of ws:// or wss://, send this message; the next message of the server is its \
             response",
            placeholder("TEXT"), example("[\"hello\"]"), repeatable(),
            excludes(MESSAGE_EXCLUDES);
        message_file: Vec<PathBuf> = Texts,
            "Send the content of this file as a message",
            placeholder("FILE"), example("[\"hello.bin\"]"), repeatable(),
            excludes(MESSAGE_EXCLUDES);
        messages: Option<PathBuf> = File,
            "A file of messages, one per line",
            default("none"), example("\"messages.txt\""), excludes(MESSAGE_EXCLUDES);
        fan_out: Option<FanOut> = Choice(FanOut::CHOICES),
            "Send each message on one connection; its response is its arrival on all connections",
            placeholder("RECEIVERS"), default("the next message is the response"),
            if_omitted("all"),
            excludes(&[
                ("expect_size", ""),
                ("expect_sha256", ""),
                ("think", ""),
                ("no_keepalive", "because all connections stay open"),
                ("requests_per_connection", "because all connections stay open"),
                ("connection_lifetime", "because all connections stay open"),
                ("connection_rate", "because all connections stay open"),
            ]);
        binary: bool = Switch,
            "Send messages as binary messages",
            default("text");
        deflate: Option<DeflateOffer> = Text,
            "Offer compression (permessage-deflate) with these parameters, such as \
             \"server_no_context_takeover; client_max_window_bits=10\"",
            placeholder("PARAMETERS"), default("no compression"),
            example("\"client_no_context_takeover\""), if_omitted("client_max_window_bits");
    }
    "TLS" {
        insecure: bool = Switch,
            "Accept any server certificate",
            short('k');
        ca: Option<PathBuf> = File,
            "Trust the certificates in this PEM file",
            alias("cacert"), default("the system's"), example("\"ca.pem\""),
            excludes(&[("insecure", "")]);
        cert: Option<PathBuf> = File,
            "Certificate chain of the client, as PEM; the file may also contain the private key",
            default("none");
        key: Option<PathBuf> = File,
            "Private key of the client, as PEM",
            default("the file of --cert"), needs("cert");
        sni: Option<String> = Text,
            "Server name to send in the handshake",
            placeholder("NAME"), default("the URL's host"), example("\"example.org\"");
        tls_min: Option<TlsVersion> = Tls,
            "Minimum TLS version",
            default("1.2");
        tls_max: Option<TlsVersion> = Tls,
            "Maximum TLS version",
            default("1.3");
        ciphers: Vec<String> = List,
            "Cipher suites to offer, by their IANA or OpenSSL names, separated by commas",
            placeholder("LIST"), default("the library's"),
            example("[\"TLS13_AES_128_GCM_SHA256\"]");
        groups: Vec<String> = List,
            "Key exchange groups to offer, the preferred one first; the handshake begins with a \
             key share of the first one",
            placeholder("LIST"), default("as browsers: X25519MLKEM768,X25519,P-256,P-384"),
            example("[\"X25519\"]");
        signature_algorithms: Vec<String> = List,
            "Signature algorithms to accept from the server, by their IANA names, the preferred \
             one first",
            placeholder("LIST"),
            default("as browsers: ecdsa_secp256r1_sha256,rsa_pss_rsae_sha256 and others"),
            example("[\"rsa_pss_rsae_sha256\"]");
        no_resumption: bool = Switch,
            "Make a full handshake on every connection";
        early_data: bool = Switch,
            "HTTP/3: send GET and HEAD before a resumed handshake ends (0-RTT)";
    }
    "Connection" {
        no_coalescing: bool = Switch,
            "Handle each response as it arrives, also in closed loops with many requests in flight";
        public: bool = Switch,
            "Allow a target outside the loopback and private ranges",
            environment(PUBLIC_VARIABLE);
    }
}
