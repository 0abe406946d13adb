//! Checks that slow orders don't delay other orders.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use prony_fleet::wire::{Command, Reply};

use crate::harness::{RunningAgent, TestCoordinator, load, settings, wait_until};
use crate::nats_server::TestServer;

#[test]
fn leases_are_renewed_while_a_load_gets_ready() {
    let nats = TestServer::new(&["one"]);
    let coordinator = TestCoordinator::new(&nats);
    let agent = RunningAgent::start(settings(&nats, "one"));
    coordinator.wait_for(&agent);
    // The server accepts connections but never sends anything, so TLS handshakes time out.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let is_ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let preparing = scope.spawn(|| {
            let other = TestCoordinator::new(&nats);
            let load = load(&url, "-c 1 -d 1s", 1);
            let reply = other.order(&agent.name, "r1", Command::Prepare(load));
            is_ready.store(true, Ordering::SeqCst);
            reply
        });
        wait_until("the agent is preparing", || {
            let reply = coordinator.order(&agent.name, "r1", Command::Renew);
            let is_early = !is_ready.load(Ordering::SeqCst);
            assert!(is_early, "no renewal got a reply before the load was ready");
            (reply == Reply::Done).then_some(())
        });
        let busy = coordinator.order(
            &agent.name,
            "r2",
            Command::Prepare(load(&url, "-c 1 -d 1s", 1)),
        );
        assert!(
            matches!(&busy, Reply::Busy { text } if text.contains("r1")),
            "{busy:?}"
        );
        assert!(!is_ready.load(Ordering::SeqCst));
        // The preparation is abandoned, and the order to prepare gets a reply.
        assert_eq!(
            coordinator.order(&agent.name, "r1", Command::Stop),
            Reply::Done
        );
        let reply = preparing.join().unwrap();
        let Reply::Environment { text } = &reply else {
            panic!("{reply:?}");
        };
        assert!(text.contains("stopped before"), "{text}");
    });
    assert_eq!(
        coordinator.order(&agent.name, "r1", Command::Forget),
        Reply::Done
    );
    wait_until("the agent is free", || {
        let registration = coordinator.registered(&agent.name)?;
        registration.busy_with.is_none().then_some(())
    });
}
