//! Requirements of the tests and the benchmark, with their packages on Debian and Ubuntu. `install`
//! detects and installs them.

/// A program or module that the tests or the benchmark need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Name of the requirement in messages.
    pub(crate) name: &'static str,
    /// Reason why the program or module is needed, shown to the user.
    pub(crate) why: &'static str,
    /// Check that detects whether the requirement is met.
    pub(crate) detection: Detection,
    /// Name of the Debian package.
    pub(crate) package: &'static str,
    /// Source for `go install`, used on systems other than Debian and Ubuntu, or if there is no
    /// package.
    pub(crate) source: Option<&'static str>,
}

/// Method of detecting whether a requirement is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detection {
    /// One of these programs is in `PATH`.
    Program(&'static [&'static str]),
    /// The Python that runs gunicorn can import this module.
    PythonModule(&'static str),
    /// One of these programs is in `PATH` and supports `--version`. Ubuntu's browser packages
    /// only contain a stub that refers to snap.
    Browser(&'static [&'static str]),
}

/// Names under which systems install Chromium or Chrome.
pub(crate) const BROWSERS: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// Names of php-fpm on Debian, Ubuntu and Alpine, which contain the PHP version.
const PHP_FPM: &[&str] = &[
    "php-fpm",
    "php-fpm8.2",
    "php-fpm8.3",
    "php-fpm8.4",
    "php-fpm8.5",
    "php-fpm83",
    "php-fpm84",
];

/// The latest version of hey on the Go module proxy.
pub(crate) const HEY_SOURCE: &str = "github.com/rakyll/hey@v0.1.5";

/// A version of nats-server on the Go module proxy. Debian's package is older.
const NATS_SOURCE: &str = "github.com/nats-io/nats-server/v2@v2.10.29";

const HTTP2: &str = "a server for the HTTP/2 tests";
/// Purpose of the ssh client and server. The test starts its own server with its own keys.
const SSH: &str = "the telemetry of a remote machine";
const CONTAINERS: &str = "services in containers";
const FRONT_END: &str = "the tool that a drop-in front end imitates";
const PEER: &str = "a peer in the benchmark";

const fn program(
    name: &'static str,
    why: &'static str,
    programs: &'static [&'static str],
    package: &'static str,
) -> Need {
    Need {
        name,
        why,
        detection: Detection::Program(programs),
        package,
        source: None,
    }
}

/// All requirements of the tests except Rust.
pub(crate) const NEEDS: &[Need] = &[
    program(
        "nginx",
        "the real server in experiments and in tests with faulty responses",
        &["nginx"],
        "nginx",
    ),
    program(
        "gunicorn",
        "the application server of studies/gunicorn-sockets",
        &["gunicorn"],
        "gunicorn",
    ),
    Need {
        name: "Django",
        why: "the website that studies/gunicorn-sockets serves",
        detection: Detection::PythonModule("django"),
        package: "python3-django",
        source: None,
    },
    Need {
        name: "grpcio",
        why: "the server of the tests of gRPC",
        detection: Detection::PythonModule("grpc"),
        package: "python3-grpcio",
        source: None,
    },
    program(
        "uvicorn",
        "the application server of a login journey with a streamed answer",
        &["uvicorn"],
        "uvicorn",
    ),
    Need {
        name: "FastAPI",
        why: "the application of a login journey with a streamed answer",
        detection: Detection::PythonModule("fastapi"),
        package: "python3-fastapi",
        source: None,
    },
    Need {
        name: "websockets",
        why: "an independent server of WebSockets",
        detection: Detection::PythonModule("websockets"),
        package: "python3-websockets",
        source: None,
    },
    Need {
        name: "wsproto",
        why: "frames of WebSockets that no server would send",
        detection: Detection::PythonModule("wsproto"),
        package: "python3-wsproto",
        source: None,
    },
    program(
        "prometheus",
        "a system that receives metrics",
        &["prometheus"],
        "prometheus",
    ),
    program(
        "php-fpm",
        "the page that studies/nginx-http2 serves",
        PHP_FPM,
        "php-fpm",
    ),
    program(
        "ip (iproute2)",
        "network namespaces and their links",
        &["ip"],
        "iproute2",
    ),
    program(
        "nft (nftables)",
        "links that lose packets",
        &["nft"],
        "nftables",
    ),
    program("podman", CONTAINERS, &["podman"], "podman"),
    program("runc", CONTAINERS, &["runc"], "runc"),
    program("busybox", CONTAINERS, &["busybox"], "busybox-static"),
    program(
        "openssl",
        "certificates and an independent TLS implementation",
        &["openssl"],
        "openssl",
    ),
    program("Apache httpd", HTTP2, &["apache2", "httpd"], "apache2"),
    program("HAProxy", HTTP2, &["haproxy"], "haproxy"),
    program("Caddy", HTTP2, &["caddy"], "caddy"),
    program("nghttpd", HTTP2, &["nghttpd"], "nghttp2-server"),
    program("OpenSSH's server", SSH, &["sshd"], "openssh-server"),
    program("OpenSSH's client", SSH, &["ssh"], "openssh-client"),
    Need {
        name: "Chromium",
        why: "the test of the HTML report in a headless browser",
        detection: Detection::Browser(BROWSERS),
        package: "chromium",
        source: None,
    },
    program(
        "poppler's programs",
        "inspection of printed reports",
        &["pdftotext", "pdftoppm"],
        "poppler-utils",
    ),
    Need {
        source: Some(HEY_SOURCE),
        ..program("hey", FRONT_END, &["hey"], "hey")
    },
    program("wrk", FRONT_END, &["wrk"], "wrk"),
    program("ab", FRONT_END, &["ab"], "apache2-utils"),
    program("siege", FRONT_END, &["siege"], "siege"),
    Need {
        source: Some(NATS_SOURCE),
        ..program(
            "nats-server",
            "the message server between agents and coordinator",
            &["nats-server"],
            "nats-server",
        )
    },
];

/// Load generators that the benchmark compares with and that Debian packages.
pub(crate) const PEERS: &[Need] = &[
    program("wrk", PEER, &["wrk"], "wrk"),
    program("ab", PEER, &["ab"], "apache2-utils"),
    program("siege", PEER, &["siege"], "siege"),
    program("h2load", PEER, &["h2load"], "nghttp2-client"),
];

/// Requirement of the benchmark's AF_XDP rows that the tests don't have.
pub(crate) const ETHTOOL: Need = program(
    "ethtool",
    "disabling offloads on the benchmark's virtual link",
    &["ethtool"],
    "ethtool",
);

/// Actions for the requirements that a machine doesn't meet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Requirements to install as packages, in the order of the list.
    pub(crate) install: Vec<&'static Need>,
    /// Requirements to build from source.
    pub(crate) build: Vec<&'static Need>,
    /// Requirements that can't be installed on this machine, each with a hint.
    pub(crate) unavailable: Vec<(&'static Need, String)>,
}

/// Selects the actions for `needs`. `has_apt` is true on Debian and Ubuntu, `os_release` is the
/// content of `/etc/os-release`, and `met` returns true for a requirement that is met.
pub(crate) fn select(
    needs: impl IntoIterator<Item = &'static Need>,
    has_apt: bool,
    os_release: &str,
    met: impl Fn(&Need) -> bool,
) -> Selection {
    let mut selection = Selection::default();
    for need in needs.into_iter().filter(|need| !met(need)) {
        if !has_apt && need.source.is_some() {
            selection.build.push(need);
        } else if !has_apt {
            let remedy = format!(
                "install it (on Debian, the package is named {})",
                need.package
            );
            selection.unavailable.push((need, remedy));
        } else if is_ubuntu(os_release) && matches!(need.detection, Detection::Browser(_)) {
            let remedy = "Ubuntu's packages only contain a stub that refers to snap; install \
                Google Chrome's .deb, or run `snap install chromium`";
            selection.unavailable.push((need, remedy.to_string()));
        } else {
            selection.install.push(need);
        }
    }
    selection
}

/// Returns true if `/etc/os-release` names Ubuntu or a derivative.
fn is_ubuntu(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|l| l.split_once('='))
        .filter(|(key, _)| matches!(*key, "ID" | "ID_LIKE"))
        .any(|(_, value)| {
            value
                .trim_matches('"')
                .split_whitespace()
                .any(|w| w == "ubuntu")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n";
    const UBUNTU: &str = "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n";
    const MINT: &str = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";

    #[test]
    fn nothing_missing_selects_nothing() {
        for has_apt in [true, false] {
            let selection = select(NEEDS, has_apt, DEBIAN, |_| true);
            assert_eq!(selection, Selection::default());
        }
    }

    #[test]
    fn debian_gets_every_missing_package() {
        let selection = select(NEEDS, true, DEBIAN, |n| n.name == "openssl");
        assert_eq!(selection.install.len(), NEEDS.len() - 1);
        assert!(selection.build.is_empty() && selection.unavailable.is_empty());
    }

    #[test]
    fn ubuntu_has_no_browser_package_and_gets_a_hint() {
        for os_release in [UBUNTU, MINT] {
            let selection = select(NEEDS, true, os_release, |n| n.name == "nginx");
            assert!(selection.install.iter().all(|n| n.package != "chromium"));
            let [(need, remedy)] = &selection.unavailable[..] else {
                panic!("{selection:?}")
            };
            assert_eq!(need.name, "Chromium");
            assert!(remedy.contains("Google Chrome"), "{remedy}");
        }
    }

    #[test]
    fn other_systems_build_go_programs_and_list_the_rest() {
        let selection = select(NEEDS, false, "", |n| !matches!(n.name, "hey" | "nginx"));
        assert!(selection.install.is_empty());
        assert_eq!(selection.build[0].name, "hey");
        let [(need, remedy)] = &selection.unavailable[..] else {
            panic!("{selection:?}")
        };
        assert_eq!(need.name, "nginx");
        assert!(remedy.contains("package is named nginx"), "{remedy}");
    }
}
