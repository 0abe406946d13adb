//! Names whose addresses change while a load runs. The name is in a hosts file of the test, which
//! only the thread of the load sees.

use std::ffi::CString;
use std::io;
use std::path::Path;

use prony_origin::{Config, Origin};
use prony_record::Record;

use crate::load::run;

/// Starts two origins on the same port of two loopback addresses.
fn origins() -> [Origin; 2] {
    let listen = |address: String| {
        Origin::start(Config {
            listen: vec![address.parse().unwrap()],
            ..Config::default()
        })
    };
    loop {
        let first = listen("127.0.0.1:0".to_owned()).unwrap();
        let port = first.addresses()[0].port();
        if let Ok(second) = listen(format!("127.0.0.2:{port}")) {
            return [first, second];
        }
    }
}

/// Gives the calling thread, and threads that it starts, this hosts file.
fn use_hosts(file: &Path) -> io::Result<()> {
    let text = |text: &str| CString::new(text).unwrap();
    let (file, hosts, root) = (text(file.to_str().unwrap()), text("/etc/hosts"), text("/"));
    let check = |result| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let mount = |from: &CString, to: &CString, flags| {
        let none = std::ptr::null();
        // SAFETY: the texts outlive the call, and these mounts need no type and no data.
        check(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), none, flags, none.cast()) })
    };
    // SAFETY: a plain system call. Only this thread gets another mount namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(&root, &root, libc::MS_REC | libc::MS_PRIVATE)?;
    mount(&file, &hosts, libc::MS_BIND)
}

#[test]
fn connections_follow_a_name_to_its_new_address() {
    let [first, second] = origins();
    let port = first.addresses()[0].port();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts");
    std::fs::write(&file, "127.0.0.1 moving.test\n").unwrap();
    let record: Record = std::thread::scope(|scope| {
        let loading = scope.spawn(|| {
            use_hosts(&file).expect("this test needs root");
            let words = "-d 4s -c 4 -r 200 --resolve-every 20ms";
            let url = format!("http://moving.test:{port}/");
            run(&url, &words.split(' ').collect::<Vec<_>>())
        });
        while first.requests() < 20 && !loading.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // The file must stay the same one, because it is mounted.
        std::fs::write(&file, "127.0.0.2 moving.test\n").unwrap();
        loading.join().unwrap()
    });
    assert_eq!(record.totals.failed, 0);
    let used = record.addresses.unwrap();
    let each = used.each.iter();
    let each: Vec<_> = each
        .map(|it| (it.address.to_string(), it.totals.ok))
        .collect();
    let counts = [first.requests(), second.requests()];
    assert_eq!(each.len(), 2, "{each:?}");
    for ((address, ok), (name, count)) in each
        .iter()
        .zip(["127.0.0.1", "127.0.0.2"].iter().zip(counts))
    {
        assert_eq!(address, name);
        // Requests in flight at the end may have reached the server.
        assert!(
            (*ok..=ok + record.totals.unfinished).contains(&count),
            "{each:?} {counts:?}"
        );
    }
    assert!(counts[1] > 0, "{counts:?}");
}
