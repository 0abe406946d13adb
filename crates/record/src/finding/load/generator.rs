//! Findings about the load generator.

use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, TrialFolding, WithheldVerdicts};
use crate::number;
use crate::stalls::Stalls;
use crate::throttling::Throttling;

const BASE: FindingInfo = FindingInfo::BASE;

pub(in crate::finding) const GENERATOR_SATURATED: FindingInfo = FindingInfo {
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

figures! {
    /// Use of the busiest workers. Each share is a maximum over all workers, so two shares may come
    /// from different workers.
    GeneratorSaturated {
        /// Share of the time in which a worker was busy.
        busy_share: f64 = most,
        /// Share of the time in which a worker was ready to run but had no core, if that limited it.
        starved_share: Option<f64> = most,
        /// Share of a worker's connections that waited for it; `None` if requests started late.
        queue_share: Option<f64> = most,
    }
    |it, _subject| {
        let busy = format!("busy {:.0}% of the time", it.busy_share * 100.0);
        let busy = match it.starved_share {
            Some(share) => {
                format!("{busy}, a worker had no core for {:.0}% of the time", share * 100.0)
            }
            None => busy,
        };
        let seen = match it.queue_share {
            Some(share) => format!(
                "up to {:.0}% of a worker's connections were waiting for that worker",
                share * 100.0
            ),
            None => "requests started late".to_owned(),
        };
        format!(
            "The generator's busiest worker was {busy}, and {seen}: the generator, not the server, \
             may have limited the rate. Give it more cores (--cores, --threads), or reduce the load."
        )
    }
}

pub(in crate::finding) const GENERATOR_STALLED: FindingInfo = FindingInfo {
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

figures! {
    /// Stalls of the generator.
    GeneratorStalled {
        /// The stalls.
        stalls: Stalls = longest_stalls,
    }
    |it, subject| stalled(&subject.generator(), &it.stalls)
}

pub(in crate::finding) fn stalled(subject: &str, stalls: &Stalls) -> String {
    let at = format!("{:.1} s into the measured part", stalls.longest_at_s);
    let seen = match stalls.count {
        1 => format!("for {:.1} s, {at}", stalls.total_s),
        count => format!(
            "for {:.1} s in total ({count} stalls; the longest, {at}, lasted {:.1} s)",
            stalls.total_s, stalls.longest_s
        ),
    };
    format!(
        "{subject} stalled {seen}. The cause was not observed; usually the process was stopped \
         (SIGSTOP, Ctrl-Z), or its machine was paused or suspended. It started no requests during \
         that time and read responses late. The rate and the times include this pause, which is \
         not the server's fault. Repeat the load."
    )
}

pub(in crate::finding) const GENERATOR_THROTTLED: FindingInfo = FindingInfo {
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

figures! {
    /// Throttling of the generator.
    GeneratorThrottled {
        /// The quota that stopped it.
        throttling: Throttling = worst_quota,
    }
    |it, subject| format!(
        "{} was {}, together with every other program of its control group. Meanwhile, it sent no \
         requests and read no responses, which is not the server's fault. Raise the quota, run \
         the load outside of the group, or reduce the load.",
        subject.generator(),
        it.throttling.text()
    )
}

pub(in crate::finding) const GENERATOR_STARVED: FindingInfo = FindingInfo {
    seen: "A worker of the load generator was ready to run but had no core for at least 20% of the time.",
    severities: &[(Warning, "")],
    meaning: "The server or another process runs on the same core. This lowers rates and lengthens \
              times.",
    action: "Give the server and the generator separate cores (`--cores`).",
    ..BASE
};

figures! {
    /// Lack of a core.
    GeneratorStarved {
        /// Share of the time in which a worker was ready to run but had no core.
        starved_share: f64 = most,
    }
    |it, _subject| format!(
        "A generator worker was ready to run but had no core for {:.0}% of the time: the server or \
         another process runs on the same core. This lowers rates and increases response times. \
         Give the server and the generator cores of their own (--cores).",
        it.starved_share * 100.0
    )
}

pub(in crate::finding) const SCHEDULE_MISSED: FindingInfo = FindingInfo {
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

figures! {
    /// Requests of an open loop that started late or not at all.
    ScheduleMissed {
        /// The p99 of the lateness of starts that had a free connection, in microseconds, if it is
        /// the reason for the finding.
        late_p99_us: Option<f64> = most,
        /// Number of due requests that found no free connection.
        unstarted: u64 = sum,
        /// Number of due requests.
        due: u64 = sum,
        /// True if the generator stalled.
        stalled: bool = most,
        /// True if more connection attempts failed than requests succeeded.
        unconnected: bool = most,
        /// True if the generator was saturated.
        saturated: bool = most,
        /// The highest arrival rate.
        rate_per_s: f64 = sum_of_rates,
        /// True if the rate changed.
        rate_changes: bool = same,
        /// Connections.
        connections: u64 = sum,
        /// Concurrent requests on each connection.
        streams: u64 = same,
    }
    |it, _subject| match it.late_p99_us {
        Some(late_p99_us) => {
            let action = if !it.stalled { "Give it a core of its own (--cores), or reduce the rate." } else { "It stalled during the load (generator-stalled)." };
            format!(
                "The generator started 1% of the requests more than {:.1} ms after they were due \
                 and a connection was free. The response times include that delay. {action}",
                late_p99_us / 1e3
            )
        }
        None => it.unstarted(),
    }
}

impl ScheduleMissed {
    fn unstarted(&self) -> String {
        let cause = match self {
            // A generator that stalled until the end has unstarted requests even if the server is
            // fast.
            it if it.stalled => "The generator stalled (generator-stalled), and did not catch up",
            it if it.unconnected => {
                "Most connection attempts failed, and a connection waits longer after each \
                 failure: the load could not keep up"
            }
            it if it.saturated => "The generator or the server does not keep up",
            _ => "The server does not keep up",
        };
        let many = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let connections = many(self.connections, "connection");
        let (slot, capacity) = match self.streams {
            0 | 1 => ("connection", connections),
            streams => (
                "stream",
                format!("{connections} of {}", many(streams, "stream")),
            ),
        };
        format!(
            "{} of {} requests that were due found no free {slot} before the load ended; their \
             response times are lower bounds. {cause} with {}{} requests per second over {capacity}.",
            number::count(self.unstarted),
            number::count(self.due),
            if self.rate_changes { "up to " } else { "" },
            number::rate_figure(self.rate_per_s),
        )
    }
}

pub(in crate::finding) const CPU_QUOTA: FindingInfo = FindingInfo {
    seen: "A CPU quota applies to the load generator. This is reported before the load starts.",
    severities: &[(Note, "")],
    meaning: "The control group of the generator, or an ancestor of it, may use less CPU time than \
        the machine's cores have. This limits nothing until the quota is used up, which \
        `generator-throttled` reports.",
    action: "Raise the quota, or run the load outside of the group, if the load comes close to it.",
    ..BASE
};

figures! {
    /// A quota that may limit the generator.
    CpuQuota {
        /// CPU time that the control group may use, in cores.
        quota_cores: f64 = same,
        /// Cores that the generator may run on.
        cores: u64 = same,
        /// Path of the control group.
        group: String = same,
    }
    |it, _subject| format!(
        "A CPU quota of {} is in force (control group {}), on {} cores. It limits this load and \
         every other program of the group together. Raise it, or run the load outside of the group.",
        Throttling::cores_text(it.quota_cores),
        it.group,
        it.cores
    )
}

pub(in crate::finding) const IO_FALLBACK: FindingInfo = FindingInfo {
    seen: "io_uring was chosen automatically but is not available.",
    severities: &[(Note, "")],
    meaning: "The load ran on the readiness backend, which needs more CPU per request.",
    action: "Nothing, unless the generator is at its limit. The text says why io_uring is not \
    available.",
    ..BASE
};

figures! {
    /// A load without io_uring.
    IoFallback {
        /// Reason why io_uring is not available, as the operating system states it.
        error: String = same,
    }
    |it, _subject| format!(
        "io_uring is not available on this system ({}), so the load used epoll",
        it.error
    )
}
