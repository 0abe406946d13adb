//! Requirements of the tests and the benchmark, and their packages on each system. Pure: `install`
//! does the detection and installation.

/// A system's package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Debian, Ubuntu and what descends from them.
    Apt,
    /// Fedora and its family.
    Dnf,
    /// Arch.
    Pacman,
    /// Alpine.
    Apk,
    /// FreeBSD.
    Pkg,
}

impl Manager {
    /// Name of the manager's program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Manager::Apt => "apt-get",
            Manager::Dnf => "dnf",
            Manager::Pacman => "pacman",
            Manager::Apk => "apk",
            Manager::Pkg => "pkg",
        }
    }

    /// Determines the manager of a system (`std::env::consts::OS`) from its programs.
    pub(crate) fn detect(os: &str, has: impl Fn(&str) -> bool) -> Option<Manager> {
        let candidates: &[Manager] = match os {
            "linux" => &[Manager::Apt, Manager::Dnf, Manager::Pacman, Manager::Apk],
            "freebsd" => &[Manager::Pkg],
            _ => &[],
        };
        candidates.iter().copied().find(|m| has(m.program()))
    }
}

/// A program or module that the tests or the benchmark need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Name in messages.
    pub(crate) name: &'static str,
    /// Purpose.
    pub(crate) why: &'static str,
    /// Method of detection.
    pub(crate) probe: Probe,
    apt: &'static str,
    dnf: &'static str,
    pacman: &'static str,
    apk: &'static str,
    /// Empty if the base system has it, or if FreeBSD doesn't need it.
    pkg: &'static str,
    /// Source for `go install` if there is no package; otherwise empty.
    go: &'static str,
}

/// Method that detects if a need is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// One of these programs is on the path.
    Program(&'static [&'static str]),
    /// The Python that runs gunicorn can import this module.
    PythonModule(&'static str),
    /// One of these programs is on the path and supports `--version`: Ubuntu's browser packages
    /// install a program that only refers to snap.
    Browser(&'static [&'static str]),
}

/// Names of Chromium.
pub(crate) const BROWSERS: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// Servers for Linux only: the test that starts them depends on the builds of its distributions.
const HTTP2: &str = "a server that HTTP/2 is tested with";

/// The test that uses it starts its own server, with its own keys.
const SSH: &str = "the telemetry of a machine elsewhere";

/// Names of php-fpm, by version on Debian, Ubuntu and Alpine.
const PHP_FPM: &[&str] = &[
    "php-fpm",
    "php-fpm8.2",
    "php-fpm8.3",
    "php-fpm8.4",
    "php-fpm8.5",
    "php-fpm83",
    "php-fpm84",
];

/// All requirements of the tests besides Rust.
pub(crate) const NEEDS: &[Need] = &[
    Need {
        name: "nginx",
        why: "the real server of the experiments and of the hostile cases",
        probe: Probe::Program(&["nginx"]),
        apt: "nginx",
        dnf: "nginx",
        pacman: "nginx",
        apk: "nginx",
        pkg: "nginx",
        go: "",
    },
    Need {
        name: "gunicorn",
        why: "the application server of studies/gunicorn-sockets",
        probe: Probe::Program(&["gunicorn"]),
        apt: "gunicorn",
        dnf: "python3-gunicorn",
        pacman: "gunicorn",
        apk: "py3-gunicorn",
        pkg: "py311-gunicorn",
        go: "",
    },
    Need {
        name: "Django",
        why: "the site that studies/gunicorn-sockets serves",
        probe: Probe::PythonModule("django"),
        apt: "python3-django",
        dnf: "python3-django",
        pacman: "python-django",
        apk: "py3-django",
        pkg: "py311-django42",
        go: "",
    },
    Need {
        name: "php-fpm",
        why: "the page of studies/nginx-http2",
        probe: Probe::Program(PHP_FPM),
        apt: "php-fpm",
        dnf: "php-fpm",
        pacman: "php-fpm",
        apk: "php83-fpm",
        pkg: "php84",
        go: "",
    },
    Need {
        name: "ip (iproute2)",
        why: "network namespaces and the links into them",
        probe: Probe::Program(&["ip"]),
        apt: "iproute2",
        dnf: "iproute",
        pacman: "iproute2",
        apk: "iproute2",
        pkg: "",
        go: "",
    },
    Need {
        name: "openssl",
        why: "certificates and a second opinion in the TLS tests",
        probe: Probe::Program(&["openssl"]),
        apt: "openssl",
        dnf: "openssl",
        pacman: "openssl",
        apk: "openssl",
        pkg: "",
        go: "",
    },
    Need {
        name: "Apache httpd",
        why: HTTP2,
        probe: Probe::Program(&["apache2", "httpd"]),
        apt: "apache2",
        // The package includes the server.
        dnf: "mod_ssl",
        pacman: "apache",
        apk: "apache2-http2",
        pkg: "",
        go: "",
    },
    Need {
        name: "HAProxy",
        why: HTTP2,
        probe: Probe::Program(&["haproxy"]),
        apt: "haproxy",
        dnf: "haproxy",
        pacman: "haproxy",
        apk: "haproxy",
        pkg: "",
        go: "",
    },
    Need {
        name: "Caddy",
        why: HTTP2,
        probe: Probe::Program(&["caddy"]),
        apt: "caddy",
        dnf: "caddy",
        pacman: "caddy",
        apk: "caddy",
        pkg: "",
        go: "",
    },
    Need {
        name: "nghttpd",
        why: HTTP2,
        probe: Probe::Program(&["nghttpd"]),
        apt: "nghttp2-server",
        dnf: "nghttp2",
        pacman: "nghttp2",
        apk: "nghttp2",
        pkg: "",
        go: "",
    },
    Need {
        name: "OpenSSH's server",
        why: SSH,
        probe: Probe::Program(&["sshd"]),
        apt: "openssh-server",
        dnf: "openssh-server",
        pacman: "openssh",
        apk: "openssh-server",
        pkg: "",
        go: "",
    },
    Need {
        name: "OpenSSH's client",
        why: SSH,
        probe: Probe::Program(&["ssh"]),
        apt: "openssh-client",
        dnf: "openssh-clients",
        pacman: "openssh",
        apk: "openssh-client",
        pkg: "",
        go: "",
    },
    Need {
        name: "Chromium",
        why: "the headless check of the HTML report",
        probe: Probe::Browser(BROWSERS),
        apt: "chromium",
        dnf: "chromium",
        pacman: "chromium",
        apk: "chromium",
        pkg: "chromium",
        go: "",
    },
    Need {
        name: "poppler's programs",
        why: "the PDF report, read as a reader would",
        probe: Probe::Program(&["pdftotext"]),
        apt: "poppler-utils",
        dnf: "poppler-utils",
        pacman: "poppler",
        apk: "poppler-utils",
        pkg: "poppler-utils",
        go: "",
    },
    HEY,
    WRK,
    AB,
    SIEGE,
    NATS,
];

/// A version on Go's proxy; Debian's own is older.
const NATS: Need = Need {
    name: "nats-server",
    why: "the server between agents and coordinator",
    probe: Probe::Program(&["nats-server"]),
    apt: "nats-server",
    dnf: "",
    pacman: "nats-server",
    apk: "nats-server",
    pkg: "nats-server",
    go: "github.com/nats-io/nats-server/v2@v2.10.29",
};

const FRONT_END: &str = "what a front end is compared with";

/// The latest version of hey on Go's proxy.
pub(crate) const HEY_SOURCE: &str = "github.com/rakyll/hey@v0.1.5";

const HEY: Need = Need {
    name: "hey",
    why: FRONT_END,
    probe: Probe::Program(&["hey"]),
    apt: "hey",
    dnf: "",
    pacman: "",
    apk: "",
    pkg: "",
    go: HEY_SOURCE,
};

const WRK: Need = Need {
    name: "wrk",
    why: FRONT_END,
    probe: Probe::Program(&["wrk"]),
    apt: "wrk",
    dnf: "wrk",
    pacman: "wrk",
    apk: "wrk",
    pkg: "wrk",
    go: "",
};

const AB: Need = Need {
    name: "ab",
    why: FRONT_END,
    probe: Probe::Program(&["ab"]),
    apt: "apache2-utils",
    dnf: "httpd-tools",
    pacman: "apache",
    apk: "apache2-utils",
    pkg: "apache24",
    go: "",
};

const SIEGE: Need = Need {
    name: "siege",
    why: FRONT_END,
    probe: Probe::Program(&["siege"]),
    apt: "siege",
    dnf: "siege",
    pacman: "siege",
    apk: "siege",
    pkg: "siege",
    go: "",
};

const PEER: &str = "a peer in the benchmark";

/// Load generators for the benchmark that systems have packages of. None is for FreeBSD, because
/// the benchmark pins and counts processes as on Linux.
pub(crate) const PEERS: &[Need] = &[
    Need {
        why: PEER,
        pkg: "",
        ..WRK
    },
    Need {
        why: PEER,
        pkg: "",
        ..AB
    },
    Need {
        why: PEER,
        pkg: "",
        ..SIEGE
    },
    Need {
        name: "h2load",
        why: PEER,
        probe: Probe::Program(&["h2load"]),
        apt: "nghttp2-client",
        dnf: "nghttp2",
        pacman: "nghttp2",
        apk: "nghttp2",
        pkg: "",
        go: "",
    },
];

impl Need {
    /// Returns true if it can be built where there is no package.
    fn is_built(&self) -> bool {
        !self.go.is_empty()
    }

    /// Source for `go install`; empty if there is none.
    pub(crate) fn source(&self) -> &'static str {
        self.go
    }

    /// Package of a manager; empty if none is needed.
    pub(crate) fn package(&self, manager: Manager) -> &'static str {
        match manager {
            Manager::Apt => self.apt,
            Manager::Dnf => self.dnf,
            Manager::Pacman => self.pacman,
            Manager::Apk => self.apk,
            Manager::Pkg => self.pkg,
        }
    }
}

/// Actions for the needs that a machine doesn't meet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Needs to be installed, in the given order.
    pub(crate) install: Vec<&'static Need>,
    /// Needs to be built from source.
    pub(crate) build: Vec<&'static Need>,
    /// Needs that this system has no package for, with the reason and a remedy.
    pub(crate) unavailable: Vec<(&'static Need, &'static str)>,
}

/// Selects the actions for `needs`. `os_release` is the text of `/etc/os-release`; `met` returns
/// true for a need that is met.
pub(crate) fn select(
    needs: impl IntoIterator<Item = &'static Need>,
    manager: Option<Manager>,
    os_release: &str,
    met: impl Fn(&Need) -> bool,
) -> Selection {
    let mut selection = Selection::default();
    for need in needs {
        let has_package = manager.is_none_or(|m| !need.package(m).is_empty());
        if !(has_package || need.is_built()) || met(need) {
            continue;
        }
        match manager {
            _ if need.is_built() && (manager.is_none() || !has_package) => {
                selection.build.push(need);
            }
            None => selection
                .unavailable
                .push((need, "no package manager that is known here")),
            Some(Manager::Apt)
                if is_ubuntu(os_release) && matches!(need.probe, Probe::Browser(_)) =>
            {
                selection.unavailable.push((
                    need,
                    "Ubuntu's packages hold only a stub that points to snap; install Google \
                     Chrome's .deb (then google-chrome is found), or `snap install chromium`",
                ));
            }
            Some(_) => selection.install.push(need),
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

    fn names(selection: &Selection, manager: Manager) -> Vec<&'static str> {
        selection
            .install
            .iter()
            .map(|n| n.package(manager))
            .collect()
    }

    #[test]
    fn nothing_missing_selects_nothing() {
        assert_eq!(
            select(NEEDS, Some(Manager::Apt), DEBIAN, |_| true),
            Selection::default()
        );
        assert_eq!(select(NEEDS, None, "", |_| true), Selection::default());
    }

    #[test]
    fn debian_gets_every_missing_package_by_its_name() {
        let selection = select(NEEDS, Some(Manager::Apt), DEBIAN, |n| n.name == "openssl");
        let expected = [
            "nginx",
            "gunicorn",
            "python3-django",
            "php-fpm",
            "iproute2",
            "apache2",
            "haproxy",
            "caddy",
            "nghttp2-server",
            "openssh-server",
            "openssh-client",
            "chromium",
            "poppler-utils",
            "hey",
            "wrk",
            "apache2-utils",
            "siege",
            "nats-server",
        ];
        assert_eq!(names(&selection, Manager::Apt), expected);
        assert!(selection.unavailable.is_empty());
    }

    #[test]
    fn ubuntu_has_no_browser_package_and_says_the_way_out() {
        for os_release in [UBUNTU, MINT] {
            let selection = select(NEEDS, Some(Manager::Apt), os_release, |n| n.name == "nginx");
            assert!(!names(&selection, Manager::Apt).contains(&"chromium"));
            let [(need, reason)] = selection.unavailable[..] else {
                panic!("{selection:?}")
            };
            assert_eq!(need.name, "Chromium");
            assert!(reason.contains("google-chrome"), "{reason}");
        }
    }

    #[test]
    fn freebsd_asks_for_nothing_that_its_base_has() {
        let selection = select(NEEDS, Some(Manager::Pkg), "", |_| false);
        assert!(!names(&selection, Manager::Pkg).iter().any(|p| p.is_empty()));
        assert_eq!(selection.install.len(), 10);
    }

    #[test]
    fn what_no_package_brings_is_built() {
        for manager in [
            None,
            Some(Manager::Dnf),
            Some(Manager::Apk),
            Some(Manager::Pkg),
        ] {
            let selection = select(NEEDS, manager, "", |n| n.name != "hey");
            assert!(selection.install.is_empty(), "{manager:?}");
            assert_eq!(selection.build, [&HEY], "{manager:?}");
        }
        let debian = select(NEEDS, Some(Manager::Apt), DEBIAN, |n| n.name != "hey");
        assert_eq!(
            (names(&debian, Manager::Apt), debian.build),
            (vec!["hey"], vec![])
        );
    }

    #[test]
    fn peers_are_packages_everywhere_but_on_freebsd() {
        let debian = select(PEERS, Some(Manager::Apt), DEBIAN, |n| n.name == "wrk");
        assert_eq!(
            names(&debian, Manager::Apt),
            ["apache2-utils", "siege", "nghttp2-client"]
        );
        let freebsd = select(PEERS, Some(Manager::Pkg), "", |_| false);
        assert_eq!(freebsd, Selection::default());
    }

    #[test]
    fn an_unknown_system_lists_every_missing_program() {
        let selection = select(NEEDS, None, "", |n| {
            n.name != "nginx" && n.name != "openssl"
        });
        let missing: Vec<_> = selection.unavailable.iter().map(|(n, _)| n.name).collect();
        assert_eq!(missing, ["nginx", "openssl"]);
    }

    #[test]
    fn managers_are_found_by_system_and_program() {
        assert_eq!(
            Manager::detect("linux", |p| p == "apt-get"),
            Some(Manager::Apt)
        );
        assert_eq!(Manager::detect("linux", |p| p == "apk"), Some(Manager::Apk));
        // Some Linux distributions have a different program named `pkg`.
        assert_eq!(Manager::detect("linux", |p| p == "pkg"), None);
        assert_eq!(
            Manager::detect("freebsd", |p| p == "pkg"),
            Some(Manager::Pkg)
        );
        assert_eq!(Manager::detect("macos", |_| true), None);
    }
}
