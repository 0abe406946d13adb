//! Tests of starting, observing and stopping native services.

use super::*;

#[test]
fn a_service_gets_its_folder_its_variables_and_its_limit() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        let mut spec = shell(
            place,
            "echo var $WORD; echo limit $(ulimit -n); echo where $(pwd); sleep 1000",
        );
        spec.env.insert("WORD".to_owned(), "hello".to_owned());
        spec.open_files = Some(77);
        spec.cwd = PathBuf::from("/usr");
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        assert_eq!(bench.logged("var "), "hello");
        assert_eq!(bench.logged("limit "), "77");
        assert_eq!(bench.logged("where "), "/usr");
        bench.host.alive("s").unwrap();
    }
}

#[test]
fn cores_apply_to_the_whole_service() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    let mut spec = shell(
        PlaceKind::Native,
        "grep Cpus_allowed_list /proc/self/status; sleep 1000",
    );
    spec.cores = vec![0];
    let logs = bench.logs();
    bench.host.start(&spec, &logs).unwrap();
    assert_eq!(bench.logged("Cpus_allowed_list:\t"), "0");
}

#[test]
fn a_missing_core_is_reported() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    let mut spec = shell(PlaceKind::Native, "sleep 1000");
    spec.cores = vec![0, 1000];
    let logs = bench.logs();
    let error = bench.host.start(&spec, &logs).unwrap_err();
    assert!(
        error.to_string().contains("core 1000 is not available "),
        "{error}"
    );
}

#[test]
fn a_stopped_service_leaves_no_process() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        // The service has a daemon that forks twice and has its own session, and a child that
        // ignores SIGTERM.
        bench.start(
            place,
            "setsid sh -c 'sleep 1001 & echo orphan >&2' & sh -c 'trap \"\" TERM; echo deaf; sleep 1002; sleep 1003' & \
             trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.05; done",
        );
        bench.logged("up");
        bench.logged("orphan");
        bench.logged("deaf");
        let inside = wait_for("the whole tree", || {
            Some(bench.host.sample()).filter(|s| s.services["s"].processes >= 4)
        });
        assert!(inside.services["s"].memory_bytes > 10_000);
        bench.host.set_stop_timeout(Duration::from_secs(3));
        let stopped = bench.host.stop("s").unwrap();
        bench.logged("asked");
        assert_eq!(stopped.status.as_deref(), Some("exit status: 3"));
        // The child that ignores SIGTERM is killed after the timeout at the latest.
        assert!(stopped.killed);
        wait_for_end_of_writers(bench.folder.path());
        assert!(bench.host.alive("s").is_err());
    }
}

#[test]
fn the_exit_status_of_a_service_is_reported() {
    for place in places() {
        for (script, status) in [
            ("echo oops; exit 7", "exit status: 7"),
            ("echo oops; kill -SEGV $$; sleep 9", "signal: 11"),
        ] {
            let mut bench = Bench::new();
            bench.allocate(place, &[]);
            bench.start(place, script);
            let exited = wait_for("the end", || bench.host.alive("s").err());
            assert!(exited.status.starts_with(status), "{place:?}: {exited}");
            assert_eq!(exited.log_tail, "oops");
        }
    }
}

#[test]
fn a_daemon_outlives_its_first_process_and_still_ends() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        bench.start(place, "setsid sh -c 'echo up; exec sleep 1000' & exit 0");
        bench.logged("up");
        for _ in 0..20 {
            bench.host.alive("s").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            !bench.host.stop("s").unwrap().killed,
            "a daemon gets the stop signal"
        );
        wait_for_end_of_writers(bench.folder.path());
    }
}

#[test]
fn cpu_of_ended_processes_still_counts() {
    const SPIN: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        // The service has a child that the shell waits for, and an orphan.
        bench.start(place, &format!("sh -c '{SPIN}'; sh -c \"sh -c '{SPIN}; echo orphan done' &\"; echo done; sleep 1000"));
        bench.logged("done");
        bench.logged("orphan done");
        let used = wait_for("the CPU time of ended processes", || {
            let sample = bench.host.sample();
            let service = &sample.services["s"];
            (service.processes <= 2 && service.cpu_user_s > 0.0).then_some(service.cpu_user_s)
        });
        let again = bench.host.sample();
        let service = &again.services["s"];
        assert!(service.cpu_user_s >= used);
        assert!(
            service.cpu_user_s + service.cpu_system_s >= 0.04,
            "{service:?}"
        );
    }
}

#[test]
fn a_missing_program_names_its_package_and_a_taken_port_its_holder() {
    let mut bench = Bench::new();
    let endpoints = bench.allocate(PlaceKind::Native, &[ListenKind::Tcp]);
    let Endpoint::Tcp(address) = endpoints[0] else {
        panic!("{endpoints:?}")
    };
    let logs = bench.logs();
    let mut spec = shell(PlaceKind::Native, "");
    spec.env.insert("PATH".into(), "/nowhere".into());
    spec.command = vec!["varnishd".into()];
    if Path::new("/usr/sbin/varnishd").exists() {
        spec.command = vec!["uwsgi".into()];
    }
    let error = bench.host.start(&spec, &logs).unwrap_err();
    assert!(
        matches!(&error, HostError::MissingProgram { missing, .. } if missing.package.is_some()),
        "{error}"
    );
    let _taken = std::net::TcpListener::bind(address).unwrap();
    let error = bench
        .host
        .start(&shell(PlaceKind::Native, "sleep 1"), &logs)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("(process {})", std::process::id())),
        "{error}"
    );
}

#[test]
fn files_are_written_into_the_allocated_folder() {
    let mut bench = Bench::new();
    let wanted = Allocation {
        jail: None,
        service: "s".into(),
        host: None,
        exposed: false,
        place: PlaceKind::Native,
        listen: BTreeMap::new(),
    };
    let files_dir = bench
        .host
        .allocate(&[wanted], &Topology::default())
        .unwrap()["s"]
        .files_dir
        .clone();
    let mut spec = shell(
        PlaceKind::Native,
        &format!("cat {}/conf.d/a.conf; sleep 1000", files_dir.display()),
    );
    spec.files
        .insert("conf.d/a.conf".into(), b"content 1\n".to_vec());
    spec.secrets.insert("tls/a.key".into(), b"secret".to_vec());
    let logs = bench.logs();
    // An earlier service left behind a world-readable file with the name of the key.
    let key = files_dir.join("tls/a.key");
    std::fs::create_dir(files_dir.join("tls")).unwrap();
    std::fs::write(&key, "no secret yet").unwrap();
    bench.host.start(&spec, &logs).unwrap();
    assert_eq!(bench.logged("content "), "1");
    assert_eq!(std::fs::read(&key).unwrap(), b"secret");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner can read the key");
    spec.files.insert("../x".into(), Vec::new());
    bench.host.stop("s").unwrap();
    assert!(matches!(
        bench.host.start(&spec, &logs),
        Err(HostError::BadName(_))
    ));
}

#[test]
fn the_environment_names_programs_and_libraries() {
    for place in places() {
        let mut bench = Bench::new();
        bench.allocate(place, &[]);
        let mut spec = shell(place, "");
        spec.command = vec![
            "python3".into(),
            "-c".into(),
            "print('up', flush=True); input()".into(),
        ];
        spec.command[2] = "import time; print('up', flush=True); time.sleep(1000)".into();
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        bench.logged("up");
        let environment = bench.host.environment();
        let programs = &environment.services["s"];
        assert_eq!(programs.len(), 1, "{programs:?}");
        let python = &programs[0];
        assert!(
            python.path.to_string_lossy().contains("python3"),
            "{python:?}"
        );
        assert!(
            python.version.as_ref().unwrap().starts_with("Python 3"),
            "{python:?}"
        );
        assert_eq!(python.sha256.as_ref().unwrap().len(), 64);
        assert!(
            python
                .libraries
                .iter()
                .any(|path| path.to_string_lossy().contains("libc.so")),
            "{python:?}"
        );
    }
}

#[test]
fn a_long_log_keeps_its_head_and_tail() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(
        PlaceKind::Native,
        "echo the beginning; head -c 12000000 /dev/zero | tr '\\0' x | fold -w 99; echo; \
         echo the end; sleep 1000",
    );
    bench.logged("the end");
    let log = bench.logs().join("s.log");
    let written = log.metadata().unwrap().len();
    let stopped = bench.host.stop("s").unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.len() < 1_100_000, "{}", text.len());
    assert!(text.starts_with("the beginning\nxxx"));
    assert!(text.ends_with("x\nthe end\n"));
    let line = format!("\n[prony removed {} bytes here;", stopped.log_bytes_cut);
    assert!(text.contains(&line), "{}", stopped.log_bytes_cut);
    assert!(stopped.log_bytes_cut > written - 1_100_000);
}

#[test]
fn foreign_cpu_is_not_the_services() {
    let mut bench = Bench::new();
    bench.allocate(PlaceKind::Native, &[]);
    bench.start(PlaceKind::Native, "echo up; sleep 1000");
    bench.logged("up");
    bench.host.sample();
    let mut stranger = std::process::Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let top = wait_for("the stranger", || {
        bench
            .host
            .sample()
            .host
            .foreign
            .into_iter()
            .find(|process| process.pid == stranger.id().cast_signed())
    });
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(top.name, "sh");
    std::io::stderr().flush().unwrap();
}

#[test]
fn a_service_is_ready_when_its_udp_port_is_bound() {
    for place in places() {
        let mut bench = Bench::new();
        let endpoints = bench.allocate(place, &[ListenKind::Tcp, ListenKind::Udp]);
        let (Endpoint::Tcp(tcp), Endpoint::Udp(udp)) = (&endpoints[0], &endpoints[1]) else {
            panic!("{endpoints:?}")
        };
        assert_eq!(tcp, udp);
        let probe = ReadinessProbe {
            endpoint: endpoints[1].clone(),
            get: None,
            https: false,
            sni: None,
            host: None,
        };
        let program = "import socket,sys\n\
            s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
            s.bind((sys.argv[1],int(sys.argv[2])))\ns.recv(1)";
        // The server waits for a file before it binds its port.
        let gate = bench.folder.path().join("gate");
        let script =
            "while [ ! -e $GATE ]; do sleep 0.01; done; exec python3 -c \"$PROGRAM\" $HOST $PORT";
        let mut spec = shell(place, script);
        let variables = [
            ("GATE", gate.display().to_string()),
            ("PROGRAM", program.to_owned()),
            ("HOST", udp.ip().to_string()),
            ("PORT", udp.port().to_string()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        spec.env.extend(variables);
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        let early = bench.host.probe_readiness("s", &probe).unwrap_err();
        let early = early.to_string();
        assert!(early.contains(&format!("UDP {udp}")), "{early}");
        std::fs::write(&gate, "").unwrap();
        wait_for(
            &format!("a bound port in {place:?}: {}", bench.log()),
            || bench.host.probe_readiness("s", &probe).ok(),
        );
    }
}

#[test]
fn a_taken_udp_port_is_named() {
    let mut bench = Bench::new();
    let endpoints = bench.allocate(PlaceKind::Native, &[ListenKind::Udp]);
    let Endpoint::Udp(address) = endpoints[0] else {
        panic!("{endpoints:?}")
    };
    let logs = bench.logs();
    let _taken = std::net::UdpSocket::bind(address).unwrap();
    let error = bench
        .host
        .start(&shell(PlaceKind::Native, "sleep 1"), &logs)
        .unwrap_err()
        .to_string();
    let holder = format!("(process {})", std::process::id());
    assert!(
        error.contains(&format!("UDP {address} is in use")),
        "{error}"
    );
    assert!(error.contains(&holder), "{error}");
}

#[test]
fn datagrams_dropped_at_a_full_buffer_are_counted() {
    for place in places() {
        let mut bench = Bench::new();
        let endpoints = bench.allocate(place, &[ListenKind::Udp]);
        let Endpoint::Udp(address) = endpoints[0] else {
            panic!("{endpoints:?}")
        };
        // The server never reads from its socket.
        let program = "import socket,sys,time\n\
            s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
            s.setsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF,4096)\n\
            s.bind((sys.argv[1],int(sys.argv[2])))\nprint('bound',flush=True)\ntime.sleep(1000)";
        let mut spec = shell(place, "");
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        spec.command = vec!["python3".into(), "-c".into(), program.into(), host, port];
        let logs = bench.logs();
        bench.host.start(&spec, &logs).unwrap();
        bench.logged("bound");
        let before = bench.host.sample().services["s"].udp;
        let client = std::net::UdpSocket::bind((address.ip(), 0));
        let client = client.unwrap_or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0").unwrap());
        for _ in 0..200 {
            client.send_to(&[0; 1_000], address).unwrap();
        }
        // The receive buffer holds only a few datagrams, and all others are dropped.
        wait_for("dropped datagrams", || {
            let after = bench.host.sample().services["s"].udp;
            let dropped = after.receive_buffer_drops - before.receive_buffer_drops;
            (dropped >= 150).then_some(())
        });
    }
}
