//! The file telemetry.csv, with one line for each sample and subject.

use std::io::{self, Write};

use super::{
    CoreTimes, HardwareCounters, HostSample, InterfaceCounters, LinkTraffic, MemoryKind,
    ServiceSample, TcpCounters, TelemetrySample, UdpCounters,
};

/// Columns of telemetry.csv with their units. A cell is empty if the column doesn't apply to the
/// subject.
pub const COLUMNS: [(&str, &str); 41] = [
    ("t_s", "seconds since the start of this run"),
    (
        "subject",
        "host, core:<number> (of the host), generator (prony itself), remote (the machine \
            measured over ssh), host:<agent>, service:<name>, link:<name> (sent counts traffic \
            from its first place), or interface:<place>:<name> where the place is host, remote \
            or a service",
    ),
    (
        "cpu_s",
        "CPU seconds from the most precise source, cumulative",
    ),
    ("cpu_user_s", "CPU seconds in user mode, cumulative"),
    ("cpu_system_s", "CPU seconds in the kernel, cumulative"),
    (
        "cpu_softirq_s",
        "CPU seconds in soft interrupts, cumulative",
    ),
    ("cpu_irq_s", "CPU seconds in hard interrupts, cumulative"),
    (
        "cpu_steal_s",
        "CPU seconds that the hypervisor gave to other guests, cumulative",
    ),
    ("cpu_idle_s", "idle CPU seconds, cumulative"),
    (
        "foreign_cpu_s",
        "CPU seconds of all processes that belong neither to a service nor to the generator, \
         cumulative",
    ),
    ("memory_bytes", "current number of bytes"),
    (
        "memory_kind",
        "pss (shared pages are divided among their processes), rss, or used (a machine's used \
         memory)",
    ),
    ("processes", "current number"),
    ("threads", "current number"),
    ("open_files", "current number"),
    ("context_switches", "number, cumulative"),
    (
        "voluntary_switches",
        "context switches because a thread had to wait, cumulative",
    ),
    (
        "involuntary_switches",
        "involuntary context switches, cumulative",
    ),
    (
        "network_sent_bytes",
        "bytes that the place or interface sent, cumulative",
    ),
    ("network_received_bytes", "bytes received, cumulative"),
    ("network_sent_packets", "packets sent, cumulative"),
    ("network_received_packets", "packets received, cumulative"),
    (
        "network_dropped_packets",
        "packets dropped in both directions, cumulative",
    ),
    (
        "listen_overflows",
        "connections dropped because the listen queue was full, cumulative",
    ),
    (
        "listen_drops",
        "connections dropped by listeners for any reason, cumulative",
    ),
    (
        "retransmitted_segments",
        "TCP segments retransmitted, cumulative",
    ),
    ("resets_sent", "TCP segments with RST, cumulative"),
    (
        "established_resets",
        "established connections that were reset, cumulative",
    ),
    ("syn_cookies_sent", "SYN cookies sent, cumulative"),
    ("time_wait", "current number of connections in TIME_WAIT"),
    (
        "udp_received_datagrams",
        "datagrams read from sockets, cumulative",
    ),
    ("udp_sent_datagrams", "datagrams sent, cumulative"),
    (
        "udp_receive_drops",
        "datagrams dropped because the receive buffer was full, cumulative",
    ),
    (
        "udp_send_drops",
        "datagrams dropped because the send buffer was full, cumulative",
    ),
    (
        "cycles",
        "processor cycles in which the core was not halted, cumulative",
    ),
    ("instructions", "completed instructions, cumulative"),
    ("cache_misses", "last-level cache misses, cumulative"),
    (
        "io_calls",
        "system calls that read or write files, cumulative",
    ),
    ("disk_written_bytes", "bytes written to disks, cumulative"),
    ("load_average", "load average over one minute"),
    (
        "sample_cost_us",
        "time taken to read the sample, in microseconds",
    ),
];

/// Writes the header and all samples.
///
/// # Errors
/// Returns the error if writing to `out` fails.
pub fn write_csv(samples: &[TelemetrySample], out: &mut dyn Write) -> io::Result<()> {
    let out = &mut csv::Writer::from_writer(out);
    out.write_record(COLUMNS.iter().map(|(name, _)| *name))?;
    for sample in samples {
        let mut host = Line::of_machine(sample.t_s, "host", &sample.host);
        host.set("foreign_cpu_s", seconds(sample.host.foreign_cpu_s));
        host.set("sample_cost_us", sample.cost.as_micros());
        host.write(out)?;
        for (core, times) in &sample.host.core_times {
            Line::of_core(sample.t_s, *core, times).write(out)?;
        }
        let mut generator = Line::new(sample.t_s, "generator");
        let (user_s, system_s) = (sample.host.generator_user_s, sample.host.generator_system_s);
        generator.set("cpu_s", format!("{:.6}", user_s + system_s));
        generator.set("cpu_user_s", format!("{user_s:.3}"));
        generator.set("cpu_system_s", format!("{system_s:.3}"));
        generator.write(out)?;
        if let Some(remote) = &sample.remote {
            Line::of_machine(sample.t_s, "remote", remote).write(out)?;
        }
        for (name, host) in &sample.hosts {
            Line::of_machine(sample.t_s, &format!("host:{name}"), host).write(out)?;
        }
        for (name, service) in &sample.services {
            Line::of_service(sample.t_s, name, service).write(out)?;
        }
        for (name, traffic) in &sample.links {
            Line::of_link(sample.t_s, name, traffic).write(out)?;
        }
        let of_services = sample
            .services
            .iter()
            .map(|(name, service)| (name.as_str(), &service.interfaces));
        let of_remote = sample
            .remote
            .as_ref()
            .map(|remote| ("remote", &remote.interfaces));
        let places = std::iter::once(("host", &sample.host.interfaces))
            .chain(of_remote)
            .chain(of_services);
        for (place, interfaces) in places {
            for (name, interface) in interfaces {
                Line::of_interface(sample.t_s, place, name, interface).write(out)?;
            }
        }
    }
    out.flush()
}

/// Formats seconds with the resolution of the kernel's clock ticks.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.2}")
}

/// A line of the file that is being built.
struct Line([String; COLUMNS.len()]);

impl Line {
    fn new(t_s: f64, subject: &str) -> Self {
        let mut line = Self(std::array::from_fn(|_| String::new()));
        line.set("t_s", format!("{t_s:.3}"));
        line.set("subject", subject);
        line
    }

    fn of_machine(t_s: f64, subject: &str, machine: &HostSample) -> Self {
        let mut line = Self::new(t_s, subject);
        line.set("cpu_user_s", seconds(machine.cpu_user_s));
        line.set("cpu_system_s", seconds(machine.cpu_system_s));
        line.set("cpu_softirq_s", seconds(machine.cpu_softirq_s));
        line.set("cpu_irq_s", seconds(machine.cpu_irq_s));
        line.set("cpu_steal_s", seconds(machine.cpu_steal_s));
        line.set("cpu_idle_s", seconds(machine.cpu_idle_s));
        line.set("memory_bytes", machine.memory_used_bytes);
        line.set("memory_kind", "used");
        line.set("open_files", machine.open_files);
        line.set("context_switches", machine.context_switches);
        line.set("load_average", format!("{:.2}", machine.load_average));
        line.set_tcp(&machine.tcp);
        line.set_udp(&machine.udp);
        line.set_hardware(machine.hardware);
        line
    }

    fn of_core(t_s: f64, core: usize, times: &CoreTimes) -> Self {
        let mut line = Self::new(t_s, &format!("core:{core}"));
        line.set("cpu_user_s", seconds(times.user_s));
        line.set("cpu_system_s", seconds(times.system_s));
        line.set("cpu_softirq_s", seconds(times.softirq_s));
        line.set("cpu_irq_s", seconds(times.irq_s));
        line.set("cpu_steal_s", seconds(times.steal_s));
        line.set("cpu_idle_s", seconds(times.idle_s));
        line
    }

    fn of_service(t_s: f64, name: &str, service: &ServiceSample) -> Self {
        let mut line = Self::new(t_s, &format!("service:{name}"));
        line.set("cpu_s", format!("{:.6}", service.cpu_s));
        line.set("cpu_user_s", seconds(service.cpu_user_s));
        line.set("cpu_system_s", seconds(service.cpu_system_s));
        line.set("memory_bytes", service.memory_bytes);
        let kind = match service.memory_kind {
            MemoryKind::Proportional => "pss",
            MemoryKind::Resident => "rss",
        };
        line.set("memory_kind", kind);
        line.set("processes", service.processes);
        line.set("threads", service.threads);
        line.set("open_files", service.open_files);
        line.set("context_switches", service.context_switches());
        line.set("voluntary_switches", service.voluntary_switches);
        line.set("involuntary_switches", service.involuntary_switches);
        let network = &service.network;
        line.set("network_sent_bytes", network.sent);
        line.set("network_received_bytes", network.received);
        line.set("network_sent_packets", network.packets_sent);
        line.set("network_received_packets", network.packets_received);
        if let Some(io) = service.io {
            line.set("io_calls", io.calls);
            line.set("disk_written_bytes", io.disk_written_bytes);
        }
        line.set_tcp(&service.tcp);
        line.set_udp(&service.udp);
        line.set_hardware(service.hardware);
        line
    }

    fn of_interface(t_s: f64, place: &str, name: &str, interface: &InterfaceCounters) -> Self {
        let mut line = Self::new(t_s, &format!("interface:{place}:{name}"));
        line.set("network_sent_bytes", interface.sent);
        line.set("network_received_bytes", interface.received);
        line.set("network_sent_packets", interface.packets_sent);
        line.set("network_received_packets", interface.packets_received);
        line.set("network_dropped_packets", interface.packets_dropped);
        line
    }

    fn of_link(t_s: f64, name: &str, traffic: &LinkTraffic) -> Self {
        let mut line = Self::new(t_s, &format!("link:{name}"));
        line.set("network_sent_bytes", traffic.forward_bytes);
        line.set("network_received_bytes", traffic.reverse_bytes);
        line.set("network_sent_packets", traffic.forward_packets);
        line.set("network_received_packets", traffic.reverse_packets);
        line
    }

    fn set_tcp(&mut self, tcp: &TcpCounters) {
        self.set("listen_overflows", tcp.listen_overflows);
        self.set("listen_drops", tcp.listen_drops);
        self.set("retransmitted_segments", tcp.retransmitted_segments);
        self.set("resets_sent", tcp.resets_sent);
        self.set("established_resets", tcp.established_resets);
        self.set("syn_cookies_sent", tcp.syn_cookies_sent);
        self.set("time_wait", tcp.time_wait);
    }

    fn set_udp(&mut self, udp: &UdpCounters) {
        self.set("udp_received_datagrams", udp.received);
        self.set("udp_sent_datagrams", udp.sent);
        self.set("udp_receive_drops", udp.receive_buffer_drops);
        self.set("udp_send_drops", udp.send_buffer_drops);
    }

    fn set_hardware(&mut self, hardware: Option<HardwareCounters>) {
        let Some(hardware) = hardware else { return };
        let counts = [
            ("cycles", hardware.cycles),
            ("instructions", hardware.instructions),
            ("cache_misses", hardware.cache_misses),
        ];
        for (column, count) in counts {
            if let Some(count) = count {
                self.set(column, count);
            }
        }
    }

    fn set(&mut self, column: &str, value: impl ToString) {
        let index = COLUMNS.iter().position(|(name, _)| *name == column);
        debug_assert!(index.is_some(), "{column} is not a column");
        if let Some(cell) = index.and_then(|index| self.0.get_mut(index)) {
            *cell = value.to_string();
        }
    }

    fn write(&self, out: &mut csv::Writer<&mut dyn Write>) -> io::Result<()> {
        Ok(out.write_record(&self.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::NetworkBytes;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn sample() -> TelemetrySample {
        let tcp = TcpCounters {
            listen_overflows: 1,
            listen_drops: 2,
            retransmitted_segments: 3,
            connects: 98,
            segments_sent: 99,
            resets_sent: 4,
            established_resets: 5,
            syn_cookies_sent: 6,
            established: 7,
            time_wait: 8,
        };
        let udp = UdpCounters {
            received: 41,
            sent: 42,
            receive_buffer_drops: 43,
            send_buffer_drops: 44,
        };
        let interface = InterfaceCounters {
            sent: 21,
            received: 22,
            packets_sent: 23,
            packets_received: 24,
            packets_dropped: 25,
        };
        let service = ServiceSample {
            cpu_s: 1.76,
            cpu_user_s: 1.5,
            cpu_system_s: 0.25,
            memory_bytes: 4096,
            voluntary_switches: 9,
            involuntary_switches: 4,
            open_files: 8,
            processes: 2,
            threads: 3,
            network: NetworkBytes {
                sent: 10,
                received: 11,
                packets_sent: 12,
                packets_received: 13,
                shared: true,
            },
            interfaces: BTreeMap::from([("eth0".to_owned(), interface)]),
            tcp,
            udp,
            hardware: Some(HardwareCounters {
                cycles: Some(31),
                instructions: Some(32),
                cache_misses: None,
            }),
            ..ServiceSample::default()
        };
        let host = HostSample {
            cpu_user_s: 7.0,
            cpu_softirq_s: 0.75,
            foreign_cpu_s: 0.5,
            load_average: 0.25,
            memory_used_bytes: 1 << 20,
            interfaces: BTreeMap::from([("lo".to_owned(), interface)]),
            tcp,
            udp,
            ..HostSample::default()
        };
        TelemetrySample {
            t_s: 0.5,
            services: [("a,b".to_owned(), service)].into(),
            remote: Some(host.clone()),
            hosts: BTreeMap::new(),
            host,
            links: BTreeMap::new(),
            round_trips_us: BTreeMap::new(),
            cost: Duration::from_micros(120),
        }
    }

    /// Returns the cells of a line without quotes, by column.
    fn cells(line: &str) -> BTreeMap<&str, &str> {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), COLUMNS.len(), "{line}");
        let names = COLUMNS.iter().map(|(name, _)| *name);
        names
            .zip(cells)
            .filter(|(_, cell)| !cell.is_empty())
            .collect()
    }

    #[test]
    fn every_value_is_in_its_column() {
        let mut out = Vec::new();
        write_csv(&[sample()], &mut out).unwrap();
        let text = String::from_utf8(out)
            .unwrap()
            .replace("\"service:a,b\"", "service:ab");
        let text = text.replace("\"interface:a,b:eth0\"", "interface:ab:eth0");
        let lines: Vec<BTreeMap<&str, &str>> = text.lines().skip(1).map(cells).collect();
        let subjects: Vec<&str> = lines.iter().map(|line| line["subject"]).collect();
        assert_eq!(
            subjects,
            [
                "host",
                "generator",
                "remote",
                "service:ab",
                "interface:host:lo",
                "interface:remote:lo",
                "interface:ab:eth0"
            ]
        );
        let host = &lines[0];
        assert_eq!(
            (host["cpu_user_s"], host["cpu_softirq_s"]),
            ("7.00", "0.75")
        );
        assert_eq!(
            (host["foreign_cpu_s"], host["sample_cost_us"]),
            ("0.50", "120")
        );
        assert_eq!(
            (host["memory_bytes"], host["memory_kind"]),
            ("1048576", "used")
        );
        assert_eq!((host["time_wait"], host["syn_cookies_sent"]), ("8", "6"));
        assert!(!lines[2].contains_key("foreign_cpu_s"));
        let service = &lines[3];
        assert_eq!(
            (service["cpu_s"], service["cpu_user_s"]),
            ("1.760000", "1.50")
        );
        assert_eq!(
            (service["context_switches"], service["involuntary_switches"]),
            ("13", "4")
        );
        assert_eq!(
            (
                service["network_sent_packets"],
                service["network_received_packets"]
            ),
            ("12", "13")
        );
        assert_eq!((service["cycles"], service["instructions"]), ("31", "32"));
        let udp = [
            "received_datagrams",
            "sent_datagrams",
            "receive_drops",
            "send_drops",
        ];
        let udp = udp.map(|name| service[format!("udp_{name}").as_str()]);
        assert_eq!(udp, ["41", "42", "43", "44"]);
        assert!(
            !service.contains_key("cache_misses"),
            "a missing counter must not be zero"
        );
        assert_eq!(lines[6]["network_dropped_packets"], "25");
    }

    #[test]
    fn no_column_appears_twice() {
        let mut names = COLUMNS.map(|(name, _)| name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
