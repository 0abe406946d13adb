//! Tests that a host removes everything that it created.

use super::*;

#[test]
fn nothing_is_left_after_release() {
    places();
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Namespace, &[ListenKind::Unix, ListenKind::Tcp]);
    bench.start(PlaceKind::Namespace, "echo up; exec sleep 1000");
    bench.logged("up");
    let state = bench.folder.path().join("state");
    let made = std::fs::read_dir(&state)
        .unwrap()
        .flatten()
        .find(|entry| entry.path().is_dir())
        .unwrap();
    let made = std::fs::read_to_string(made.path().join("made")).unwrap();
    let names = |kind: &str| -> Vec<String> {
        let prefix = format!("{{\"kind\":\"{kind}\",\"name\":\"");
        made.lines()
            .filter_map(|line| Some(line.strip_prefix(&prefix)?.split_once('"')?.0.to_owned()))
            .collect()
    };
    let (link, namespace) = (names("link"), names("namespace"));
    let traces = || {
        let folder = std::fs::read_dir(&state)
            .unwrap()
            .flatten()
            .any(|entry| entry.path().is_dir());
        // Another test may have reused the link's name by now, but not its alias.
        let alias = Path::new("/sys/class/net").join(&link[0]).join("ifalias");
        let network =
            std::fs::read_to_string(alias).is_ok_and(|text| text.trim_end() == namespace[0]);
        [
            folder,
            network,
            Path::new("/run/netns").join(&namespace[0]).exists(),
        ]
    };
    assert_eq!(traces(), [true; 3]);
    bench.host.release().unwrap();
    assert_eq!(traces(), [false; 3]);
    wait_for_end_of_writers(bench.folder.path());
    bench.allocate(PlaceKind::Native, &[ListenKind::Tcp]);
    bench.host.release().unwrap();
}

#[test]
fn a_panic_leaves_nothing() {
    let _hosts = HostsGuard::shared();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let panicked = std::thread::spawn(move || {
        let mut host = LocalHost::with_state_in(path.clone());
        let listen = BTreeMap::new();
        host.allocate(
            &[Allocation {
                jail: None,
                service: "s".into(),
                host: None,
                exposed: false,
                place: PlaceKind::Native,
                listen,
            }],
            &Topology::default(),
        )
        .unwrap();
        let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
        host.start(&shell(PlaceKind::Native, script), &path.join("logs"))
            .unwrap();
        wait_for("the start", || {
            (host.log_tail("s", 1) == "up").then_some(())
        });
        panic!("as meant");
    });
    assert!(panicked.join().is_err());
    wait_for_end_of_writers(folder.path());
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        left.iter().all(|name| name == "logs" || name == "lock"),
        "{left:?}"
    );
}
