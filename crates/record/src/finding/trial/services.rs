//! Findings about the services of a trial, and their figures.

use super::BASE;
use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, WithheldVerdicts};
use crate::memory_events::MemoryEvents;
use crate::number;
use crate::throttling::Throttling;

pub(in crate::finding) const SERVICE_ENDED: FindingInfo = FindingInfo {
    seen: "A service exited before its load ended.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "Usually, the service crashed, or its command moved it to the background and exited.",
    action: "Read the service's log in the trial's folder; start the service in the foreground.",
    explains_difference: true,
    ..BASE
};

figures! {
    /// A service that ended during the load.
    ServiceEnded {
        /// Exit status, such as `exit status: 1`.
        status: String = same,
        /// Last line of the service's log, if it has one.
        last_line: Option<String> = same,
    }
    |it, subject| format!(
        "{} ended during the load ({}). The last line of its log: {}. The result does not reflect \
         the speed of the service; fix the service first.",
        subject.service("Service"),
        it.status,
        it.last_line.as_deref().unwrap_or("empty")
    )
}

pub(in crate::finding) const SERVICE_KILLED: FindingInfo = FindingInfo {
    seen: "A service ignored its stop signal for 10 s and was killed.",
    severities: &[(Note, "")],
    meaning: "The figures are not affected, but every trial takes 10 s longer.",
    action: "Set a stop signal that ends the service.",
    ..BASE
};

figures! {
    /// A service that ignored its stop signal.
    ServiceKilled {
        /// Seconds from the stop signal until the service was killed.
        took_s: f64 = most,
    }
    |it, subject| format!(
        "{} did not end within {:.0} s of its stop signal and was killed. If it expects another \
         signal, set it: stop = \"SIGQUIT\".",
        subject.service("Service"),
        it.took_s
    )
}

pub(in crate::finding) const SERVICE_THROTTLED: FindingInfo = FindingInfo {
    seen: "A service used up the CPU quota of its control group (cgroup) and was stopped.",
    severities: &[(Warning, "in at least 1% of the quota's periods")],
    meaning: "The kernel stops all processes of the group until the next period, for up to 100 ms. \
        This lowers the rate and lengthens response times, but the CPU usage doesn't show it. The \
        kernel's counters of the service's group and its ancestors were read during the trial.",
    action: "Raise the quota, unless it is what you are comparing.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// A service that its CPU quota stopped.
    ServiceThrottled {
        /// Throttling of the service's control group during the trial.
        throttling: Throttling = worst_quota,
    }
    |it, subject| format!(
        "{} was {}, together with every other program of its control group. Raise the quota, \
         unless it is what you are comparing.",
        subject.service("Service"),
        it.throttling.text()
    )
}

pub(in crate::finding) const SERVICE_OUT_OF_MEMORY: FindingInfo = FindingInfo {
    seen: "The kernel killed a process of a service because it exceeded the memory limit of its control group (cgroup).",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The kernel's counter of the service's group (`oom_kill`) rose during the trial. The \
        killed process's requests failed, and the service may have started another process in its \
        place.",
    action: "Raise `memory`, or make the service use less memory.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// A service whose memory limit ended one of its processes.
    ServiceOutOfMemory {
        /// Events at the memory limit of the service's control group during the trial.
        events: MemoryEvents = worst_memory,
    }
    |it, subject| format!(
        "{} ran out of memory: the kernel killed {} of its processes, because they used more than \
         the limit of their control group ({}). Raise the limit, or make the service use less \
         memory.",
        subject.service("Service"),
        number::count(it.events.oom_kills),
        number::bytes(it.events.limit_bytes as f64)
    )
}

pub(in crate::finding) const SERVICE_MEMORY_LIMITED: FindingInfo = FindingInfo {
    seen: "A service reached the memory limit of its control group (cgroup).",
    severities: &[(Warning, "")],
    meaning: "Each time, the kernel reclaimed memory from the group before it gave the service more: \
        it dropped cached files, which must then be read from the disk again. This costs the \
        service time.",
    action: "Raise `memory`, unless it is what you are comparing.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// A service that reached its memory limit without losing a process.
    ServiceMemoryLimited {
        /// Events at the memory limit of the service's control group during the trial.
        events: MemoryEvents = worst_memory,
    }
    |it, subject| format!(
        "{} reached the memory limit of its control group ({}) {} times, and the kernel had to \
         reclaim memory each time, such as cached files. Raise the limit, unless it is what you are \
         comparing.",
        subject.service("Service"),
        number::bytes(it.events.limit_bytes as f64),
        number::count(it.events.limit_hits)
    )
}

pub(in crate::finding) const SERVICE_LOG_CUT: FindingInfo = FindingInfo {
    seen: "A service logged more than 1 MiB in a trial.",
    severities: &[(Note, "")],
    meaning: "The stored log keeps the first and the last 512 KiB; a line between them gives the \
        number of missing bytes. Logging that much costs the service time.",
    action: "Make the service log less, unless its logging is what you are comparing.",
    ..BASE
};

figures! {
    /// A log that was too large to be stored in full.
    ServiceLogCut {
        /// Number of bytes that were cut from the log's middle.
        bytes_cut: u64 = sum,
    }
    |it, subject| format!(
        "{} wrote a log so large that {} bytes were cut from its middle. Writing the log cost the \
         service CPU time. Log less (access_log off), unless logging is what you are comparing.",
        subject.service("Service"),
        it.bytes_cut
    )
}

pub(in crate::finding) const TELEMETRY_LOST: FindingInfo = FindingInfo {
    seen: "The telemetry of a machine or of a remote service is missing in a trial.",
    severities: &[(Warning, "")],
    meaning: "The telemetry of the machine in `[telemetry] remote` could not be read over ssh, \
        or the `cgroup` or `pid_file` of a `remote` service led to no process. The load's own \
        figures are not affected.",
    action: "Check that `ssh` works without a prompt, and that `cgroup` or `pid_file` names the \
             running service.",
    ..BASE
};

figures! {
    /// Telemetry that could not be read: of the machine in `[telemetry]`, or of a service.
    TelemetryLost {
        /// Reason why the machine could not be read over ssh.
        reason: Option<String> = same,
        /// Control groups and files in which the service's processes were sought.
        looked_in: Vec<String> = same,
    }
    |it, subject| match &it.reason {
        Some(reason) => format!(
            "The metrics of the machine in [telemetry] could not be read over ssh: {reason}. Its \
             CPU, memory and network data are missing from this trial; the load's own figures are \
             complete. Check that `ssh` to it works without a prompt, and that its login shell is \
             a POSIX shell."
        ),
        None => format!(
            "No process of {} was found (looked in {}), so its CPU and memory usage are missing.",
            subject.service("service"),
            it.looked_in.join(", ")
        ),
    }
}

pub(in crate::finding) const NOT_IDLE: FindingInfo = FindingInfo {
    seen: "In an interleaved block, a variant's services used at least 2% of a core in the slices of other variants.",
    severities: &[(Warning, "")],
    meaning: "The services of all variants run at the same time, and each should be idle while \
        another variant is measured. Background work, such as garbage collection, timers or log \
        rotation, took CPU time from the other variants, and is missing from the variant's own \
        figures.",
    action: "Run the experiment with `--interleave off` as well and compare, or pin the services \
        to separate cores (`cores`).",
    explains_difference: true,
    per_variant: true,
    ..BASE
};

figures! {
    /// Services that were busy while other variants were measured.
    NotIdle {
        /// CPU time in percent of one core.
        percent: f64 = most,
    }
    |it, _subject| format!(
        "The services used {:.0}% of a core while other variants were under load, which slows down \
         those variants. If the services are also active without requests, run the trials \
         sequentially (--interleave off).",
        it.percent
    )
}

pub(in crate::finding) const PROFILE_LIMITED: FindingInfo = FindingInfo {
    seen: "A sampling profile is missing, or shows less than it could.",
    severities: &[(Note, "")],
    meaning: "Sampling needs the kernel's permission, and names need symbols or perf maps. The load's \
        results are not affected.",
    action: "Follow the hint in the finding, or remove `profile`.",
    ..BASE
};

figures! {
    /// A sampling profile that is missing or limited.
    ProfileLimited {
        /// Limitation, with its cause.
        reason: String = same,
    }
    |it, subject| format!(
        "Sampling profile of {}: {}.",
        subject.service("a service"),
        it.reason
    )
}
