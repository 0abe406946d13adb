//! Orders that take long keep an agent from no other order.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use prony_fleet::messages::{Reply, What};

use crate::ground::Ground;
use crate::hands::{Hands, There, load, settings, until};

#[test]
fn leases_are_renewed_while_a_load_gets_ready() {
    let ground = Ground::new(&["one"]);
    let hands = Hands::new(&ground);
    let agent = There::start(settings(&ground, "one"));
    hands.wait_for(&agent);
    // It takes connections and never says a word: a TLS handshake is waited for until it times out.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let is_ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let preparing = scope.spawn(|| {
            let other = Hands::new(&ground);
            let load = load(&url, "-c 1 -d 1s", 1);
            let reply = other.order(&agent.name, "r1", What::Prepare(load));
            is_ready.store(true, Ordering::SeqCst);
            reply
        });
        until("it gets ready", || {
            let reply = hands.order(&agent.name, "r1", What::Renew);
            let is_early = !is_ready.load(Ordering::SeqCst);
            assert!(is_early, "no renewal was answered before it was ready");
            (reply == Reply::Done).then_some(())
        });
        let busy = hands.order(
            &agent.name,
            "r2",
            What::Prepare(load(&url, "-c 1 -d 1s", 1)),
        );
        assert!(
            matches!(&busy, Reply::Busy { text } if text.contains("r1")),
            "{busy:?}"
        );
        assert!(!is_ready.load(Ordering::SeqCst));
        // It is given up, and whoever waits for it hears so.
        assert_eq!(hands.order(&agent.name, "r1", What::Stop), Reply::Done);
        let reply = preparing.join().unwrap();
        let Reply::Environment { text } = &reply else {
            panic!("{reply:?}");
        };
        assert!(text.contains("told to stop"), "{text}");
    });
    assert_eq!(hands.order(&agent.name, "r1", What::Forget), Reply::Done);
    until("it is free", || {
        let registration = hands.registered(&agent.name)?;
        registration.busy_with.is_none().then_some(())
    });
}
