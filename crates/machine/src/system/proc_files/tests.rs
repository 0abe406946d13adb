use super::*;

const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\n\
    Tcp: RtoAlgorithm MaxConn ActiveOpens EstabResets CurrEstab OutSegs RetransSegs InErrs OutRsts\n\
    Tcp: 1 -1 9 10 11 900 12 0 13\n\
    Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
    Udp: 40 1 9 50 6 7\n\
    UdpLite: InDatagrams OutDatagrams RcvbufErrors\nUdpLite: 98 98 98\n";
const SNMP6: &str = "Ip6InReceives                   \t77\nUdp6InDatagrams                 \t400\n\
    Udp6OutDatagrams                \t500\nUdp6RcvbufErrors                \t60\n\
    Udp6SndbufErrors                \t70\nUdpLite6InDatagrams             \t98\n";
const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 20 21 22\n\
    IpExt: InOctets ListenDrops\nIpExt: 5 99\n";
const SOCKSTAT: &str =
    "sockets: used 3\nTCP: inuse 5 orphan 0 tw 31 alloc 6 mem 2\nUDP: inuse 1 mem 0\n";

#[test]
fn every_counter_comes_from_its_own_column() {
    let expected = TcpCounters {
        listen_overflows: 21,
        listen_drops: 22,
        retransmitted_segments: 12,
        connects: 9,
        segments_sent: 900,
        resets_sent: 13,
        established_resets: 10,
        syn_cookies_sent: 20,
        established: 11,
        time_wait: 31,
    };
    let texts = NetFiles {
        snmp: SNMP,
        snmp6: SNMP6,
        netstat: NETSTAT,
        sockstat: SOCKSTAT,
    };
    assert_eq!(tcp_counters(&texts), expected);
    let expected = UdpCounters {
        received: 440,
        sent: 550,
        receive_buffer_drops: 66,
        send_buffer_drops: 77,
    };
    assert_eq!(udp_counters(&texts), expected);
}

#[test]
fn missing_values_are_zero() {
    let texts = NetFiles {
        snmp: "Udp: InDatagrams\n",
        snmp6: "Udp6InDatagrams\nUdp6OutDatagrams x\n",
        netstat: "TcpExt: ListenDrops\n",
        sockstat: "TCP: inuse 5 tw",
    };
    assert_eq!(tcp_counters(&texts), TcpCounters::default());
    assert_eq!(udp_counters(&texts), UdpCounters::default());
    assert_eq!(machine(""), HostSample::default());
    assert_eq!(memory_used_bytes(""), 0);
    assert_eq!(switches(""), (0, 0));
    assert_eq!(process("", 4096), None);
    assert_eq!(process("7 (x) R 1", 4096), None);
}

const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    1000      10    0    0    0     0          0         0     1000      10    0    0    0     0       0          0
  eth0:    5000      50    0    1    0     0          0         0     7000      70    0    2    0     0       0          0
eth1.5:       1       1    0    0    0     0          0         0        2       2    0    0    0     0       0          0
";

#[test]
fn interfaces_and_traffic_of_a_place() {
    let all = interfaces(DEV);
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(names, ["eth0", "eth1.5", "lo"]);
    let eth0 = all["eth0"];
    assert_eq!((eth0.sent, eth0.received), (7000, 5000));
    assert_eq!((eth0.packets_sent, eth0.packets_received), (70, 50));
    assert_eq!(eth0.packets_dropped, 3);
    let own = traffic(&all, false);
    assert_eq!((own.sent, own.received, own.packets_sent), (7002, 5001, 72));
    let shared = traffic(&all, true);
    assert_eq!((shared.sent, shared.shared), (1000, true));
    let alone: BTreeMap<_, _> = all.into_iter().filter(|(name, _)| name == "lo").collect();
    assert_eq!(traffic(&alone, false).sent, 1000);
}

#[test]
fn a_machines_times() {
    let stat = "cpu  100 20 300 4000 50 6 70 8 9 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5 6\n\
        ctxt 12345\nbtime 1700000000\n";
    let host = machine(stat);
    assert_eq!((host.cores, host.context_switches), (2, 12_345));
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
    near(host.cpu_user_s, 1.2);
    near(host.cpu_system_s, 3.0);
    near(host.cpu_idle_s, 40.5);
    near(host.cpu_irq_s, 0.06);
    near(host.cpu_softirq_s, 0.7);
    near(host.cpu_steal_s, 0.08);
    let cores: Vec<usize> = host.core_times.keys().copied().collect();
    assert_eq!(cores, [0, 1]);
    near(host.core_times[&1].user_s, 0.02);
    near(host.core_times[&1].idle_s, 0.01);
    assert_eq!(boot_time_s(stat), Some(1_700_000_000));
    let memory = "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:   600 kB\n";
    assert_eq!(memory_used_bytes(memory), 400 * 1024);
    assert_eq!(open_files("1344\t0\t9223372036854775807\n"), 1344);
    near(load_average("0.50 0.4 0.3 1/200 999\n"), 0.5);
}

#[test]
fn interrupts_are_in_the_processes_time_where_the_kernel_counts_ticks() {
    let with = |irq_ticks: u64, interrupts: u64| {
        let stat = format!("cpu  9 0 9 90 0 {irq_ticks} 5 0 0 0\nintr {interrupts} 5 6\n");
        machine(&stat).softirq_included
    };
    assert_eq!(with(0, 2_000_000), Some(true), "no core has irq time");
    assert_eq!(with(31, 2_000_000), Some(false));
    assert_eq!(with(1, 10), Some(false));
    assert_eq!(with(0, 10), None, "too few interrupts to decide");
    assert_eq!(
        softirq_included_by_config("CONFIG_X=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n"),
        Some(false)
    );
    let ticks = "CONFIG_TICK_CPU_ACCOUNTING=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n";
    assert_eq!(softirq_included_by_config(ticks), Some(true));
    assert_eq!(softirq_included_by_config(""), None);
}

#[test]
fn figures_of_a_thread_and_of_a_group() {
    let status = "Name:\tnginx\nvoluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t7\n";
    assert_eq!(switches(status), (41, 7));
    assert_eq!(run_ns("73730 12 3\n"), Some(73_730));
    assert_eq!(
        proportional_bytes("0-1 ---p [rollup]\nRss: 9 kB\nPss:     5 kB\n"),
        Some(5120)
    );
    let cpu = cgroup_cpu_s("usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n");
    assert_eq!(cpu, Some((3.0, 2.0, 1.0)));
    assert_eq!(cgroup_cpu_s("user_usec 1\n"), None);
}

#[test]
fn process_names_with_special_characters() {
    let line = "812 (a) R (b) S 1 812 700 0 -1 4194560 1 2 3 4 1250 250 30 40 20 0 3 0 99000 1 25 18446744073709551615";
    let process = process(line, 4096).unwrap();
    assert_eq!(
        (process.pid, process.parent, process.session),
        (812, 1, 700)
    );
    assert_eq!((process.name.as_str(), process.zombie), ("a) R (b", false));
    assert!((process.user_s - 12.5).abs() < 1e-9 && (process.system_s - 2.5).abs() < 1e-9);
    assert!((process.reaped_user_s - 0.3).abs() < 1e-9);
    assert_eq!((process.threads, process.start), (3, 99_000));
    assert_eq!(process.resident_bytes, 25 * 4096);
}

#[test]
fn listening_processes() {
    let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1\n\
        \x20  1: 0100007F:1F90 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 78 1\n\
        \x20  2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 79 1\n";
    assert_eq!(listeners(tcp, 8080), [77]);
    assert_eq!(listeners(tcp, 22), [79]);
    let listing = "/proc/5/fd:\ntotal 0\nlrwx------ 1 root root 64 Jan  1 00:00 3 -> socket:[79]\n\n\
        /proc/812/fd:\ntotal 0\nlrwx------ 1 root root 64 Jan  1 00:00 6 -> socket:[77]\n\
        lrwx------ 1 root root 64 Jan  1 00:00 7 -> socket:[77]\nl-wx------ 1 root root 64 Jan  1 00:00 2 -> /dev/null\n\n\
        /proc/813/fd:\nlrwx------ 1 root root 64 Jan  1 00:00 6 -> socket:[77]\n";
    assert_eq!(holders(listing, &[77]), [812, 813]);
}

#[test]
fn the_running_kernel_has_the_files() {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{name}")).unwrap();
    let snmp = read("self/net/snmp");
    let counters = tcp_counters(&NetFiles {
        snmp: &snmp,
        ..NetFiles::default()
    });
    assert!(counters.segments_sent > 0);
    assert!(machine(&read("stat")).cpu_idle_s > 0.0);
    assert!(interfaces(&read("self/net/dev")).contains_key("lo"));
    assert!(memory_used_bytes(&read("meminfo")) > 1 << 20);
    assert!(open_files(&read("sys/fs/file-nr")) > 0);
    let own = process(&read("self/stat"), 4096).unwrap();
    assert_eq!(own.pid, std::process::id().cast_signed());
    assert!(run_ns(&read("thread-self/schedstat")).is_some());
}

#[test]
fn input_and_output_of_a_process() {
    let text = "rchar: 9\nwchar: 8\nsyscr: 70\nsyscw: 6\nread_bytes: 5\nwrite_bytes: \
                4096\ncanceled_write_bytes: 3\n";
    let io = io_counters(text).unwrap();
    assert_eq!((io.calls, io.disk_written_bytes), (76, 4096));
    assert_eq!(io_counters(""), None);
}
