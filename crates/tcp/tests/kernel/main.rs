//! The client against the kernel's own TCP, over a TUN device in a network namespace, with packets
//! dropped at random by nftables. The tests need root, `ip` and `nft`.

mod load;
mod server;
mod tun;

use std::sync::atomic::Ordering;

use load::{Outcome, Plan, run};
use prony_tcp::Failure;
use server::{End, Server};
use tun::{Tun, isolated, kernel_count, set_parameter, time_wait_count};

fn responses(plan: &Plan) -> usize {
    plan.users * plan.connections * plan.requests
}

/// Asserts that every response arrived unchanged, and that the server got every request unchanged.
fn assert_complete(outcome: &Outcome, plan: &Plan, server: &Server) {
    assert_eq!(outcome.wrong, 0, "{outcome:?}");
    assert_eq!(server.counts.wrong.load(Ordering::Relaxed), 0);
    assert_eq!(
        (outcome.truncated, outcome.abandoned),
        (0, 0),
        "{outcome:?}"
    );
    assert_eq!(outcome.failures, [], "{outcome:?}");
    assert_eq!(outcome.responses, responses(plan), "{outcome:?}");
}

#[test]
fn bodies_arrive_over_ipv4_and_ipv6_and_the_kernel_finds_no_fault() {
    isolated(|| {
        let mut tun = Tun::new();
        let server = Server::new(0);
        for ipv6 in [false, true] {
            for window in [4_096, 65_536, 1 << 20] {
                let plan = Plan {
                    ipv6,
                    window,
                    upload_max: 300_000,
                    download_max: 300_000,
                    ..Plan::new()
                };
                let outcome = run(&mut tun, &plan);
                assert_complete(&outcome, &plan, &server);
                assert!(outcome.counts.offloaded_checksums > 0);
                assert_eq!(outcome.counts.bad_checksums, 0);
                assert_eq!(outcome.counts.malformed, 0);
            }
        }
        assert_eq!(kernel_count("Tcp:", "InErrs"), 0);
        assert_eq!(kernel_count("Tcp:", "InCsumErrors"), 0);
        assert_eq!(kernel_count("TcpExt:", "PAWSEstab"), 0);
    });
}

/// Runs a load over a link that loses packets.
fn run_with_loss(ipv6: bool, percent: u64) {
    isolated(|| {
        let mut tun = Tun::new();
        let server = Server::new(0);
        tun.drop_packets(percent);
        let plan = Plan {
            ipv6,
            users: 48,
            connections: 1,
            requests: 2,
            download_max: 500_000 / percent as usize,
            ..Plan::new()
        };
        let outcome = run(&mut tun, &plan);
        assert!(outcome.counts.retransmitted > 0, "{outcome:?}");
        if percent < 10 {
            return assert_complete(&outcome, &plan, &server);
        }
        // All seven SYNs of a connection, or their responses, are lost in one of 1,200 cases.
        assert_eq!((outcome.wrong, outcome.truncated), (0, 0), "{outcome:?}");
        assert_eq!(server.counts.wrong.load(Ordering::Relaxed), 0);
        let failed = outcome.failures.len() + outcome.abandoned;
        assert!(failed <= plan.users / 4, "{outcome:?}");
        assert!(outcome.responses + failed * plan.requests >= responses(&plan));
    });
}

#[test]
fn bodies_arrive_although_1_percent_of_the_packets_is_lost() {
    run_with_loss(false, 1);
    run_with_loss(true, 1);
}

#[test]
fn bodies_arrive_although_5_percent_of_the_packets_are_lost() {
    run_with_loss(false, 5);
    run_with_loss(true, 5);
}

#[test]
fn bodies_arrive_over_ipv4_although_20_percent_of_the_packets_are_lost() {
    run_with_loss(false, 20);
}

#[test]
fn bodies_arrive_over_ipv6_although_20_percent_of_the_packets_are_lost() {
    run_with_loss(true, 20);
}

#[test]
fn ports_are_reused_at_once_although_the_kernel_is_in_time_wait() {
    for timestamps in ["1", "0"] {
        isolated(move || {
            set_parameter("ipv4/tcp_timestamps", timestamps);
            let mut tun = Tun::new();
            let server = Server::new(0);
            let plan = Plan {
                users: 2,
                connections: 300,
                requests: 1,
                download_max: 100,
                end: End::Close,
                source_ports: 20_000..=20_003,
                ..Plan::new()
            };
            let outcome = run(&mut tun, &plan);
            assert_complete(&outcome, &plan, &server);
            assert_eq!(outcome.syns, 600, "no SYN was dropped: {outcome:?}");
            assert!(time_wait_count() > 0);
        });
    }
}

#[test]
fn ports_are_reused_although_another_program_used_them_with_later_timestamps() {
    isolated(|| {
        let mut tun = Tun::new();
        let server = Server::new(0);
        let mut plan = Plan {
            users: 2,
            connections: 20,
            requests: 1,
            download_max: 100,
            end: End::Close,
            source_ports: 20_000..=20_039,
            clock_ahead_millis: 3_600_000,
            ..Plan::new()
        };
        let outcome = run(&mut tun, &plan);
        assert_complete(&outcome, &plan, &server);
        assert_eq!(outcome.syns, 40, "{outcome:?}");
        plan.clock_ahead_millis = 0;
        let outcome = run(&mut tun, &plan);
        assert_complete(&outcome, &plan, &server);
        assert!(outcome.syns > 40, "the kernel rejected no SYN: {outcome:?}");
    });
}

#[test]
fn bodies_arrive_without_sack_timestamps_and_window_scaling() {
    isolated(|| {
        for option in ["tcp_timestamps", "tcp_sack", "tcp_window_scaling"] {
            set_parameter(&format!("ipv4/{option}"), "0");
        }
        let mut tun = Tun::new();
        let server = Server::new(0);
        tun.drop_packets(2);
        let plan = Plan::new();
        let outcome = run(&mut tun, &plan);
        assert_complete(&outcome, &plan, &server);
    });
}

#[test]
fn a_slow_reader_with_a_small_buffer_gets_every_byte() {
    isolated(|| {
        let mut tun = Tun::new();
        let server = Server::new(2_304);
        let plan = Plan {
            users: 4,
            connections: 1,
            requests: 2,
            upload_max: 300_000,
            end: End::Slow,
            ..Plan::new()
        };
        let outcome = run(&mut tun, &plan);
        assert_complete(&outcome, &plan, &server);
    });
}

#[test]
fn resets_end_connections_on_either_side_and_closed_ports_refuse() {
    isolated(|| {
        let mut tun = Tun::new();
        let server = Server::new(0);
        let refused = Plan {
            port: 81,
            ..Plan::new()
        };
        let outcome = run(&mut tun, &refused);
        assert_eq!(outcome.failures, [Failure::Refused; 32]);

        let reset = Plan {
            end: End::Reset,
            requests: 1,
            ..Plan::new()
        };
        let outcome = run(&mut tun, &reset);
        assert_eq!(outcome.failures, [Failure::Reset; 32]);
        assert_eq!(outcome.wrong, 0);

        let aborted = Plan {
            abort: true,
            ..Plan::new()
        };
        let outcome = run(&mut tun, &aborted);
        assert_complete(&outcome, &aborted, &server);
        // The server's threads might not have seen the last resets yet.
        let resets = || server.counts.resets.load(Ordering::Relaxed);
        for _ in 0..60_000 {
            if resets() < 32 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        assert_eq!(resets(), 32);
    });
}
