//! Registry rows of the findings that any load can have.

use super::Severity::{Error, Note, Warning};
use super::{FindingInfo, TrialFolding, WithheldVerdicts};

const BASE: FindingInfo = FindingInfo::BASE;

pub(super) const GENERATOR_SATURATED: FindingInfo = FindingInfo {
    seen: "The load generator, not the server, may have limited the rate.",
    severities: &[
        (
            Warning,
            "a worker was awake for at least 85% of the time, and at least 30% of its \
                connections waited for it; or the conditions for an error hold, but other \
                processes used the worker's core",
        ),
        (
            Error,
            "a worker was awake for at least 85% of the time, and at least 50% of its \
            connections waited for it (`queue_share`); or, in an open loop, at least 1% of the \
            starts were more than 1 ms late",
        ),
    ],
    withholds: WithheldVerdicts::SpeedUnlessFaster,
    meaning: "A saturated generator makes servers look alike. If only the faster of two variants \
        reached the generator's limit, the direction of the difference is still right, and the \
        true difference is at least as large as measured. If a worker has few connections, the \
        one that it is handling is a large share of them even if the generator is not saturated. \
        Therefore, 0.35 connections per worker are added to the thresholds of 30% and 50%.",
    action: "Give the generator more cores (`--cores`, `--threads`), or reduce the load.",
    ..BASE
};

pub(super) const GENERATOR_STALLED: FindingInfo = FindingInfo {
    seen: "The load generator stalled for 500 ms or longer within the measured part.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::Speed,
    meaning: "The cause is not observed; usually the process was stopped (SIGSTOP, Ctrl-Z), or its \
              machine was paused or suspended. It started no requests during that time and read responses late. The rate and the \
              times include the pause. Shorter pauses are reported as `generator-starved`.",
    action: "Repeat the load.",
    folding: TrialFolding::Worst,
    ..BASE
};

pub(super) const GENERATOR_THROTTLED: FindingInfo = FindingInfo {
    seen: "The load generator used up the CPU quota of its control group (cgroup) and was stopped.",
    severities: &[
        (Warning, "in less than 5% of the quota's periods"),
        (Error, "in at least 5% of the quota's periods"),
    ],
    withholds: WithheldVerdicts::SpeedUnlessFaster,
    meaning: "The kernel stops all processes of the group until the next period, for up to 100 ms. \
        The kernel's counters (`nr_periods`, `nr_throttled` in `cpu.stat`) of the generator's \
        group and its ancestors were read over the measured part. Servers in the same group are \
        stopped as well. As with `generator-saturated`, the direction of a difference is right if \
        only the faster variant reached the limit. `generator-starved` is not reported, because a \
        stopped worker is ready to run, too.",
    action: "Raise the quota, run the load outside of the group, or reduce the load.",
    ..BASE
};

pub(super) const CPU_QUOTA: FindingInfo = FindingInfo {
    seen: "A CPU quota applies to the load generator. This is reported before the load starts.",
    severities: &[(Note, "")],
    meaning: "The control group of the generator, or an ancestor of it, may use less CPU time than \
        the machine's cores have. This limits nothing until the quota is used up, which \
        `generator-throttled` reports.",
    action: "Raise the quota, or run the load outside of the group, if the load comes close to it.",
    ..BASE
};

pub(super) const RESOLVE_UNUSED: FindingInfo = FindingInfo {
    seen: "No request uses an entry of `--resolve`. This is reported before the load starts.",
    severities: &[(Note, "")],
    meaning: "No URL of the load has the entry's host and port, or an earlier entry has the same \
        ones. Names without an entry are looked up as usual. Loads with a script or `--follow`, \
        which may request any URL, are not checked.",
    action: "Correct the host or the port, or remove the entry.",
    ..BASE
};

pub(super) const SOCKETS_FAILED: FindingInfo = FindingInfo {
    seen: "The operating system refused to wait for socket events, or to send over AF_XDP, while \
           the load ran.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The load ended at that time, so it is shorter than configured. The figures include \
              its measurements until then. A load over AF_XDP ends so if its interface goes down \
              or is removed.",
    action: "Correct the cause that the finding names, and repeat the load. `ip link` lists the \
             state of interfaces.",
    folding: TrialFolding::Worst,
    incomplete_load: true,
    ..BASE
};

pub(super) const GENERATOR_STARVED: FindingInfo = FindingInfo {
    seen: "A worker of the load generator was ready to run but had no core for at least 20% of the time.",
    severities: &[(Warning, "")],
    meaning: "The server or another process runs on the same core. This lowers rates and lengthens \
              times.",
    action: "Give the server and the generator separate cores (`--cores`).",
    ..BASE
};

pub(super) const SCHEDULE_MISSED: FindingInfo = FindingInfo {
    seen: "In an open loop, requests did not start when they were due.",
    severities: &[
        (
            Warning,
            "at least 1% of the requests started more than 1 ms late even though a connection was free, or more than 0.1% found no free connection before the load ended",
        ),
        (
            Error,
            "the p99 lateness exceeds both 1 ms and 10% of the p99 response time, with at least \
                100 requests",
        ),
    ],
    withholds: WithheldVerdicts::Speed,
    meaning: "Late starts are the generator's fault, and the response times include them. \
        Requests that found no free connection are counted with a lower bound on their response \
        time; the usual cause is a server that does not keep up with the rate.",
    action: "Give the generator its own core (`--cores`), reduce the rate, or use more \
    connections.",
    ..BASE
};

pub(super) const ERRORS: FindingInfo = FindingInfo {
    seen: "Requests failed.",
    severities: &[
        (Note, "any request failed"),
        (Warning, "more than 0.1% failed"),
        (
            Error,
            "more than 5% failed, or more than 10% of the half-second slices had failed requests \
             but no successful ones",
        ),
    ],
    withholds: WithheldVerdicts::AllButFailures,
    meaning: "Rate and times describe the successful requests only. A server that fails quickly can \
              look fast. The verdict on the share of failed requests is still given.",
    action: "Read the outcomes and the most frequent reasons, and check the server's log.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

pub(super) const NOTHING_LISTENS: FindingInfo = FindingInfo {
    seen: "Every connection attempt was refused, or the UNIX socket does not exist.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "No server listens at the address, or a firewall rejects connections to it. The load ends at the first refusal that occurs one second or more after the initial one.",
    action: "Start the server, correct the address, or wait for the server with \
             `--wait-for-server`.",
    ..BASE
};

pub(super) const TLS_FAILED: FindingInfo = FindingInfo {
    seen: "No TLS connection was established: every handshake failed.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "No request was served, so there is nothing to measure. The load ends at the first \
              failure that occurs one second or more after the initial one.",
    action: "The finding names the reason. Correct the certificate, the name (`--sni`), the \
             versions and ciphers, or the port.",
    ..BASE
};

pub(super) const SYN_RETRANSMITTED: FindingInfo = FindingInfo {
    seen: "TCP connection attempts took as long as if a SYN had been lost and retransmitted.",
    severities: &[
        (
            Note,
            "a connection attempt took 1, 2, 3, 4, 5 or 7 s, or longer than that by up to 100 ms \
             plus 4%",
        ),
        (
            Warning,
            "more than 1% of the connection attempts took that long",
        ),
    ],
    meaning: "That SYNs were lost is a conclusion from these times. Usual causes are a listen queue \
        that overflows and packet loss; prony observes neither.",
    action: "Raise the server's backlog (on Linux with `net.core.somaxconn`), or look for packet \
             loss on the path.",
    ..BASE
};

pub(super) const PORT_EXHAUSTION: FindingInfo = FindingInfo {
    seen: "Requests failed because no local port was free.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::Speed,
    meaning: "Each source address has a limited number of ports per server address. The side that \
        closes a connection first keeps its port for another minute.",
    action: "Use more source addresses (`--source`), or fewer concurrent connections.",
    explains_difference: true,
    ..BASE
};

pub(super) const PORTS_SCARCE: FindingInfo = FindingInfo {
    seen: "Local ports may run out. This is reported before the load starts.",
    severities: &[
        (
            Note,
            "the connections, plus the ports that other programs use to reach the same server, \
            exceed 80% of all local ports",
        ),
        (Warning, "they exceed 100%"),
    ],
    meaning: "Connection attempts fail when no local port is left.",
    action: "Use more source addresses (`--source`) or fewer connections, or widen the port range.",
    ..BASE
};

pub(super) const CONNECTIONS_LATE: FindingInfo = FindingInfo {
    seen: "Some connections that should have been open at the start of the load were not.",
    severities: &[(Note, "")],
    meaning: "In a load generated by several machines, connection attempts failed or took longer \
        than 5 s, or open connections were closed before the start. The first requests on these \
        connections had to wait for them to be opened.",
    action: "Read the reasons; raise the server's backlog if connection attempts time out.",
    ..BASE
};

pub(super) const CONNECTIONS_NOT_REUSED: FindingInfo = FindingInfo {
    seen: "Keep-alive was requested, but the load opened many connections.",
    severities: &[(Note, "")],
    meaning: "The number of connections that ended between requests exceeds the sum of the configured \
              connections, 5% of the requests, and one for each failure. The finding names the \
              side that ended them: the server, or prony, because a redirect or a list led to \
              another server. The figures include the cost of connecting.",
    action: "Check the server's keep-alive limits, unless they are what you are comparing. To avoid \
             connects to other servers, load each server alone.",
    explains_difference: true,
    ..BASE
};

pub(super) const DELAYED_ACKS: FindingInfo = FindingInfo {
    seen: "The server held back the rest of responses until their beginning was acknowledged.",
    severities: &[(Warning, "")],
    meaning: "The server sends a response in several writes without TCP_NODELAY. Nagle's algorithm \
        then holds the last write back until the peer acknowledges the earlier ones, and the peer \
        delays this acknowledgment, on Linux by 40 ms or more. At least half of the responses \
        that arrived in several parts took 35 ms or longer from the first to the last byte. prony \
        then acknowledged the beginning of up to 8 responses per worker immediately, and their \
        rest arrived at least 30 ms sooner. These responses are part of the results.",
    action: "Send head and body in one write, or set TCP_NODELAY on the server's connections.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

pub(super) const REQUESTS_RETRIED: FindingInfo = FindingInfo {
    seen: "Requests on reused connections were lost and sent again.",
    severities: &[
        (Note, "more than 0.1% of the requests"),
        (Warning, "more than 5% of the requests"),
    ],
    meaning: "The server closed a connection that it had announced as persistent, or refused a \
        stream. The response times include both attempts.",
    action: "Check the server's keep-alive timeout and its limit on requests per connection.",
    explains_difference: true,
    ..BASE
};

pub(super) const STREAMS_LIMITED: FindingInfo = FindingInfo {
    seen: "The server allows fewer requests per connection than `--streams` asks for.",
    severities: &[(Warning, "")],
    meaning: "Its SETTINGS_MAX_CONCURRENT_STREAMS (HTTP/2) or MAX_STREAMS (QUIC) is lower, or \
        HTTP/1.1 was negotiated. The load was lighter than configured.",
    action: "Raise the server's limit, use more connections, or reduce `--streams`.",
    explains_difference: true,
    ..BASE
};

pub(super) const PACKETS_LOST: FindingInfo = FindingInfo {
    seen: "More than 1% of the packets that the load sent over QUIC or AF_XDP were declared lost.",
    severities: &[(Warning, "")],
    meaning: "Their data was sent again after a delay, and the sender slowed down. The server may have \
              lost packets as well. The results describe the network, or a receiver that was too \
              slow, as much as the server.",
    action: "Look for drops on the path and in the server's UDP buffers (`netstat -su`: receive \
        buffer errors). On a network that loses packets, this is expected.",
    explains_difference: true,
    ..BASE
};

pub(super) const UDP_BUFFER_SMALL: FindingInfo = FindingInfo {
    seen: "Datagrams that had arrived were dropped because the load's receive buffers were full.",
    severities: &[(Warning, "")],
    meaning: "The server had to send them again, so responses were late.",
    action: "Raise the system's limit (`net.core.rmem_max`), or use more workers or fewer streams.",
    ..BASE
};

pub(super) const FRAMES_DROPPED: FindingInfo = FindingInfo {
    seen: "Frames were dropped on this machine during a load over AF_XDP: the kernel dropped \
        received frames because a ring was full or a frame was too large, the kernel rejected \
        outgoing frames, or a worker's inbox was full.",
    severities: &[(Warning, "")],
    meaning: "TCP sent the data again after a delay, so responses were late.",
    action: "Use more workers, fewer connections or a lower rate. Frames are too large if the \
        server's end of a virtual link sends frames larger than the MTU (run `ethtool -K NAME tso \
        off gso off` there).",
    ..BASE
};

pub(super) const UNASKED_BYTES: FindingInfo = FindingInfo {
    seen: "The server sent bytes while no request was in flight.",
    severities: &[(Warning, "")],
    meaning: "The connections were closed. The server may send a body that is longer than its \
              Content-Length.",
    action: "Check the Content-Length that the server sends.",
    ..BASE
};

pub(super) const LOAD_ABORTED: FindingInfo = FindingInfo {
    seen: "A condition of `--abort-if` ended the load early.",
    severities: &[(Warning, "")],
    meaning: "The condition held over the most recent window (`--abort-window`). The results \
        cover the time up to the end of the load, including the requests in flight. In an \
        experiment, the block is not counted, and no more blocks are run.",
    action: "Look at the rate and the response times over time (`--html`) to see where the \
    condition \
             began to hold.",
    ..BASE
};

pub(super) const IO_FALLBACK: FindingInfo = FindingInfo {
    seen: "io_uring was chosen automatically but is not available.",
    severities: &[(Note, "")],
    meaning: "The load ran on the readiness backend, which needs more CPU per request.",
    action: "Nothing, unless the generator is at its limit. The text says why io_uring is not \
    available.",
    ..BASE
};
