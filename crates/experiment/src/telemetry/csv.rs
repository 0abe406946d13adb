//! telemetry.csv: one line for each sample and subject.

use std::io::{self, Write};

use super::{MemoryKind, Sample};

/// The columns of telemetry.csv, each with its unit. A cell is empty where a column does not apply
/// to the line's subject: `host`, `generator` (prony itself) or a service by its name after
/// `service:`.
pub const COLUMNS: [(&str, &str); 23] = [
    ("t_s", "seconds since the host was made"),
    ("subject", "host, generator, or service:<name>"),
    ("cpu_user_s", "CPU seconds in user mode, total so far"),
    ("cpu_system_s", "CPU seconds in the kernel, total so far"),
    ("cpu_softirq_s", "CPU seconds in interrupts, total so far"),
    (
        "cpu_steal_s",
        "CPU seconds taken by other guests of the hypervisor, total so far",
    ),
    ("cpu_idle_s", "CPU seconds idle, total so far"),
    (
        "foreign_cpu_s",
        "CPU seconds of all that is neither service nor generator, total so far",
    ),
    ("memory_bytes", "bytes now"),
    ("memory_kind", "pss (shared pages divided) or rss"),
    ("processes", "number now"),
    ("threads", "number now"),
    ("open_files", "number now"),
    ("context_switches", "number, total so far"),
    (
        "network_sent_bytes",
        "bytes that the place sent, total so far",
    ),
    (
        "network_received_bytes",
        "bytes that the place received, total so far",
    ),
    (
        "listen_overflows",
        "connections dropped at a full listen queue, total so far",
    ),
    (
        "listen_drops",
        "connections dropped by listeners, total so far",
    ),
    (
        "retransmitted_segments",
        "TCP segments sent again, total so far",
    ),
    ("resets_sent", "TCP segments with RST, total so far"),
    ("time_wait", "connections in TIME_WAIT now"),
    ("load_average", "over one minute"),
    ("sample_cost_us", "microseconds that the reading took"),
];

/// Writes the header and every sample.
///
/// # Errors
/// What `out` reports.
pub fn write_csv(samples: &[Sample], out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    writeln!(out, "{}", names.join(","))?;
    for sample in samples {
        let t_s = format!("{:.3}", sample.t_s);
        let host = &sample.host;
        let tcp = &host.tcp;
        writeln!(
            out,
            "{t_s},host,{:.2},{:.2},{:.2},{:.2},{:.2},{:.2},,,,,,,,,{},{},{},{},{},{:.2},{}",
            host.cpu_user_s,
            host.cpu_system_s,
            host.cpu_softirq_s,
            host.cpu_steal_s,
            host.cpu_idle_s,
            host.foreign_cpu_s,
            tcp.listen_overflows,
            tcp.listen_drops,
            tcp.retransmitted_segments,
            tcp.resets_sent,
            tcp.time_wait,
            host.load_average,
            sample.cost.as_micros(),
        )?;
        writeln!(
            out,
            "{t_s},generator,{:.3},{:.3},,,,,,,,,,,,,,,,,,,",
            host.generator_user_s, host.generator_system_s
        )?;
        for (name, service) in &sample.services {
            let kind = match service.memory_kind {
                MemoryKind::Proportional => "pss",
                MemoryKind::Resident => "rss",
            };
            let tcp = &service.tcp;
            writeln!(
                out,
                "{t_s},{},{:.2},{:.2},,,,,{},{kind},{},{},{},{},{},{},{},{},{},{},{},,",
                quoted(&format!("service:{name}")),
                service.cpu_user_s,
                service.cpu_system_s,
                service.memory_bytes,
                service.processes,
                service.threads,
                service.open_files,
                service.context_switches,
                service.network.sent,
                service.network.received,
                tcp.listen_overflows,
                tcp.listen_drops,
                tcp.retransmitted_segments,
                tcp.resets_sent,
                tcp.time_wait,
            )?;
        }
    }
    Ok(())
}

/// A cell by RFC 4180, section 2.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{HostSample, NetworkBytes, ServiceSample, TcpCounters};
    use std::time::Duration;

    #[test]
    fn every_line_has_every_column() {
        let tcp = TcpCounters {
            listen_overflows: 1,
            listen_drops: 2,
            retransmitted_segments: 3,
            resets_sent: 4,
            established: 5,
            time_wait: 6,
        };
        let service = ServiceSample {
            cpu_user_s: 1.5,
            cpu_system_s: 0.25,
            memory_bytes: 4096,
            context_switches: 9,
            open_files: 8,
            processes: 2,
            threads: 3,
            network: NetworkBytes {
                sent: 10,
                received: 11,
                shared: true,
            },
            tcp,
            ..ServiceSample::default()
        };
        let host = HostSample {
            cores: 2,
            cpu_user_s: 7.0,
            foreign_cpu_s: 0.5,
            load_average: 0.25,
            tcp,
            ..HostSample::default()
        };
        let sample = Sample {
            t_s: 0.5,
            services: [("a,b".to_owned(), service)].into(),
            host,
            cost: Duration::from_micros(120),
        };
        let mut out = Vec::new();
        write_csv(&[sample], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        for line in &lines[..3] {
            assert_eq!(line.split(',').count(), COLUMNS.len(), "{line}");
        }
        assert_eq!(
            lines[1],
            "0.500,host,7.00,0.00,0.00,0.00,0.00,0.50,,,,,,,,,1,2,3,4,6,0.25,120"
        );
        assert_eq!(
            lines[3],
            "0.500,\"service:a,b\",1.50,0.25,,,,,4096,pss,2,3,8,9,10,11,1,2,3,4,6,,"
        );
    }
}
