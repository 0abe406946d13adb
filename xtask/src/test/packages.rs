//! Requirements of the tests and the benchmark, and their packages on Debian and Ubuntu. Pure:
//! `install` does the detection and installation.

/// A program or module that the tests or the benchmark need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Name in messages.
    pub(crate) name: &'static str,
    /// Purpose.
    pub(crate) why: &'static str,
    /// Method of detection.
    pub(crate) probe: Probe,
    /// The Debian package.
    pub(crate) package: &'static str,
    /// Source for `go install`, for systems other than Debian and Ubuntu.
    pub(crate) source: Option<&'static str>,
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

/// The latest version of hey on Go's proxy.
pub(crate) const HEY_SOURCE: &str = "github.com/rakyll/hey@v0.1.5";

/// A version on Go's proxy; Debian's own is older.
const NATS_SOURCE: &str = "github.com/nats-io/nats-server/v2@v2.10.29";

const HTTP2: &str = "a server that HTTP/2 is tested with";
/// The test that uses it starts its own server, with its own keys.
const SSH: &str = "the telemetry of a remote machine";
const FRONT_END: &str = "a tool that a front end is compared with";
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
        probe: Probe::Program(programs),
        package,
        source: None,
    }
}

/// All requirements of the tests besides Rust.
pub(crate) const NEEDS: &[Need] = &[
    program(
        "nginx",
        "the real server of the experiments and of the hostile cases",
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
        why: "the site that studies/gunicorn-sockets serves",
        probe: Probe::PythonModule("django"),
        package: "python3-django",
        source: None,
    },
    program(
        "php-fpm",
        "the page of studies/nginx-http2",
        PHP_FPM,
        "php-fpm",
    ),
    program(
        "ip (iproute2)",
        "network namespaces and the links into them",
        &["ip"],
        "iproute2",
    ),
    program(
        "nft (nftables)",
        "links that lose packets",
        &["nft"],
        "nftables",
    ),
    program(
        "openssl",
        "certificates and a second opinion in the TLS tests",
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
        why: "the headless check of the HTML report",
        probe: Probe::Browser(BROWSERS),
        package: "chromium",
        source: None,
    },
    program(
        "poppler's programs",
        "extraction of the text of PDF reports",
        &["pdftotext"],
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
            "the server between agents and coordinator",
            &["nats-server"],
            "nats-server",
        )
    },
];

/// Load generators for the benchmark that Debian has packages of.
pub(crate) const PEERS: &[Need] = &[
    program("wrk", PEER, &["wrk"], "wrk"),
    program("ab", PEER, &["ab"], "apache2-utils"),
    program("siege", PEER, &["siege"], "siege"),
    program("h2load", PEER, &["h2load"], "nghttp2-client"),
];

/// Actions for the needs that a machine doesn't meet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Needs to be installed, in the given order.
    pub(crate) install: Vec<&'static Need>,
    /// Needs to be built from source.
    pub(crate) build: Vec<&'static Need>,
    /// Needs that can't be installed here, with the remedy.
    pub(crate) unavailable: Vec<(&'static Need, String)>,
}

/// Selects the actions for `needs`. `has_apt` is true on Debian and Ubuntu. `os_release` is the text
/// of `/etc/os-release`; `met` returns true for a need that is met.
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
                "install it; the package is named {} on Debian",
                need.package
            );
            selection.unavailable.push((need, remedy));
        } else if is_ubuntu(os_release) && matches!(need.probe, Probe::Browser(_)) {
            let remedy = "Ubuntu's packages hold only a stub that points to snap; install Google \
                          Chrome's .deb (then google-chrome is found), or `snap install chromium`";
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
            assert!(remedy.contains("google-chrome"), "{remedy}");
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
        assert!(remedy.contains("named nginx on Debian"), "{remedy}");
    }
}
