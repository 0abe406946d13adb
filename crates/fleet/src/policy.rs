//! The policy with which an agent's administrator limits what coordinators may request.
//!
//! A policy is a file on the agent's machine; coordinators can't change it. Without a policy, an
//! agent sends loads only to private, loopback and IPv6 link-local addresses, except those of cloud
//! metadata services. It sends none to UNIX sockets, and starts no services.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::Deserialize;

/// Policy, as stored in a TOML file.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Limits on loads.
    pub load: LoadPolicy,
    /// Limits on services.
    pub services: ServicePolicy,
}

/// The `[load]` table of a policy.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadPolicy {
    /// Allowed targets: `10.1.0.0/16`, `192.0.2.7`, `shop.example.org`, `*.example.org`, and UNIX
    /// sockets such as `unix:/run/app.sock`. A name allows the addresses to which this machine
    /// resolves it. If the list is empty, private, loopback and IPv6 link-local addresses are
    /// allowed, except those of cloud metadata services.
    pub targets: Vec<String>,
    /// Maximum requests per second of this agent's share. If set, closed loops are rejected,
    /// because they have no rate.
    pub rate: Option<f64>,
    /// Maximum number of connections in this agent's share.
    pub connections: Option<u64>,
    /// Maximum duration of a load in seconds, including the warm-up.
    pub seconds: Option<f64>,
    /// True to reject all loads.
    pub refuse: bool,
}

/// The `[services]` table of a policy.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServicePolicy {
    /// Programs that may be started, by name or absolute path. None may be started if the list is
    /// empty. `*` allows any program, which gives coordinators all rights of the user that runs the
    /// agent.
    pub commands: Vec<String>,
    /// Environment variables that a plan may set for these programs: names, prefixes such as
    /// `APP_*`, or `*` for any. If the key is missing, any variable is allowed if `commands`
    /// contains `*`, otherwise none. Variables such as LD_PRELOAD, PYTHONPATH, PERL5LIB and
    /// NODE_OPTIONS can make an allowed program run other code.
    pub env: Option<Vec<String>>,
}

/// Error for a request that violates a rule of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyViolation {
    /// Name of the rule, such as `load.targets`.
    pub rule: &'static str,
    /// Description of the requested value and the values that the rule allows.
    pub text: String,
}

impl fmt::Display for PolicyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rejected by policy rule {}: {}", self.rule, self.text)
    }
}

impl std::error::Error for PolicyViolation {}

/// Properties of a load that a policy can limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadDemand {
    /// Requests per second of this agent's share, or `None` for a closed loop.
    pub rate: Option<f64>,
    /// Number of connections in this agent's share.
    pub connections: u64,
    /// Duration in seconds, including the warm-up. `None` if only a number of requests limits the
    /// load.
    pub seconds: Option<f64>,
}

/// Error of a policy file.
#[derive(Debug)]
pub struct PolicyError {
    path: PathBuf,
    fault: PolicyFault,
}

#[derive(Debug)]
enum PolicyFault {
    Read(io::Error),
    Syntax(Box<toml::de::Error>),
    /// An invalid entry of `load.targets`.
    Target(String),
    /// An invalid entry of `services.env`.
    Variable(String),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.fault {
            PolicyFault::Read(error) => error.fmt(f),
            PolicyFault::Syntax(error) => error.fmt(f),
            PolicyFault::Target(entry) => write!(
                f,
                "load.targets: {entry:?} is neither an address, nor a network like 10.0.0.0/8, nor \
                 a name like shop.example.org or *.example.org, nor a UNIX socket like \
                 unix:/run/app.sock"
            ),
            PolicyFault::Variable(entry) => write!(
                f,
                "services.env: {entry:?} is neither the name of a variable nor a prefix with *, \
                 such as APP_*"
            ),
        }
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    ///
    /// The file can't be read, or an entry is invalid.
    pub fn read(path: &Path) -> Result<Policy, PolicyError> {
        let text = std::fs::read_to_string(path).map_err(PolicyFault::Read);
        text.and_then(|text| Policy::parse(&text))
            .map_err(|fault| PolicyError {
                path: path.to_owned(),
                fault,
            })
    }

    fn parse(text: &str) -> Result<Policy, PolicyFault> {
        let policy: Policy =
            toml::from_str(text).map_err(|error| PolicyFault::Syntax(Box::new(error)))?;
        for target in &policy.load.targets {
            TargetRule::parse(target)?;
        }
        for variable in policy.services.env.iter().flatten() {
            check_variable(variable)?;
        }
        Ok(policy)
    }

    /// Checks the rate, connections and duration of a load. [`Policy::allows_target`] checks its
    /// targets.
    ///
    /// # Errors
    ///
    /// Returns the violated rule.
    pub fn allows_load(&self, asked: LoadDemand) -> Result<(), PolicyViolation> {
        let refuse = |rule, text| Err(PolicyViolation { rule, text });
        let rules = &self.load;
        if rules.refuse {
            return Err(no_load());
        }
        match (rules.rate, asked.rate) {
            (Some(most), Some(rate)) if rate > most => {
                let text = format!("{rate} requests per second exceed the limit of {most}");
                return refuse("load.rate", text);
            }
            (Some(most), None) => {
                let text = format!(
                    "a closed loop has no rate limit, and at most {most} requests per second are allowed (add --rate)"
                );
                return refuse("load.rate", text);
            }
            _ => {}
        }
        if let Some(most) = rules.connections.filter(|most| asked.connections > *most) {
            let text = format!(
                "{} connections exceed the limit of {most}",
                asked.connections
            );
            return refuse("load.connections", text);
        }
        match (rules.seconds, asked.seconds) {
            (Some(most), Some(seconds)) if seconds > most => refuse(
                "load.seconds",
                format!("a duration of {seconds} s exceeds the limit of {most} s"),
            ),
            (Some(_), None) => {
                let text = "a load that is limited only by a number of requests has no maximum duration (add --duration)";
                refuse("load.seconds", text.to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks a target, given by the name in the URL and its address. A UNIX socket has no address,
    /// and its name consists of `unix:` and its path. A target that only its proxy can resolve has
    /// no address either.
    ///
    /// # Errors
    ///
    /// Returns the violated rule.
    pub fn allows_target(
        &self,
        name: &str,
        address: Option<IpAddr>,
    ) -> Result<(), PolicyViolation> {
        if self.load.refuse {
            return Err(no_load());
        }
        let allowed = &self.load.targets;
        let mut rules = allowed.iter().filter_map(|it| TargetRule::parse(it).ok());
        let is_allowed = if allowed.is_empty() {
            address.is_some_and(is_default_target)
        } else {
            rules.any(|rule| rule.holds(name, address))
        };
        if is_allowed {
            return Ok(());
        }
        let address = address.map(|it| it.to_string());
        let address = address.filter(|it| it != name);
        let address = address.map_or(String::new(), |it| format!(" ({it})"));
        let allowed = if allowed.is_empty() {
            "without load.targets, only private and loopback addresses are allowed (and no cloud metadata services)"
                    .to_owned()
        } else {
            format!("allowed: {}", allowed.join(", "))
        };
        Err(PolicyViolation {
            rule: "load.targets",
            text: format!("{name}{address} is not allowed; {allowed}"),
        })
    }

    /// Checks an environment variable that a plan sets for a service.
    ///
    /// # Errors
    ///
    /// Returns the violated rule.
    pub fn allows_variable(&self, name: &str) -> Result<(), PolicyViolation> {
        let is_any_program = self.services.commands.iter().any(|it| it == "*");
        let is_named = |allowed: &String| match allowed.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == allowed,
        };
        let text = match &self.services.env {
            None if is_any_program => return Ok(()),
            Some(allowed) if allowed.iter().any(is_named) => return Ok(()),
            None => format!("environment variable {name} can't be set: none is allowed"),
            Some(allowed) => {
                let allowed = if allowed.is_empty() {
                    "none is allowed".to_owned()
                } else {
                    format!("allowed: {}", allowed.join(", "))
                };
                format!("environment variable {name} can't be set: {allowed}")
            }
        };
        let rule = "services.env";
        Err(PolicyViolation { rule, text })
    }

    /// Returns a short summary of the policy.
    pub fn summary(&self) -> String {
        let rules = &self.load;
        let load = match (rules.refuse, rules.targets.is_empty()) {
            (true, _) => "no load".to_owned(),
            (false, true) => "private and loopback addresses".to_owned(),
            (false, false) => rules.targets.join(", "),
        };
        let limits = [
            rules.rate.map(|rate| format!("{rate} requests per second")),
            rules.connections.map(|n| format!("{n} connections")),
            rules.seconds.map(|seconds| format!("{seconds} s")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        let limits = if rules.refuse || limits.is_empty() {
            String::new()
        } else {
            format!(", up to {}", limits.join(", "))
        };
        let services = if self.services.commands.is_empty() {
            "no services".to_owned()
        } else {
            self.services.commands.join(", ")
        };
        format!("{load}{limits}; {services}")
    }

    /// Checks a program that a plan starts as a service.
    ///
    /// # Errors
    ///
    /// Returns the violated rule.
    pub fn allows_command(&self, program: &str) -> Result<(), PolicyViolation> {
        let commands = &self.services.commands;
        // Entries must match literally: a name means the program found in the agent's PATH, and an
        // absolute path means one file.
        if commands.iter().any(|it| it == "*" || it == program) {
            return Ok(());
        }
        let text = if commands.is_empty() {
            format!("{program:?} can't be started: no program is allowed")
        } else {
            format!(
                "{program:?} is not allowed (allowed: {})",
                commands.join(", ")
            )
        };
        Err(PolicyViolation {
            rule: "services.commands",
            text,
        })
    }
}

/// Checks the syntax of an entry in `services.env`.
fn check_variable(text: &str) -> Result<(), PolicyFault> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !text.is_empty() && name.chars().all(is_good) {
        Ok(())
    } else {
        Err(PolicyFault::Variable(text.to_owned()))
    }
}

fn no_load() -> PolicyViolation {
    PolicyViolation {
        rule: "load.refuse",
        text: "this agent does not generate load".to_owned(),
    }
}

/// Parsed entry of `load.targets`.
enum TargetRule {
    Net(IpNet),
    /// A UNIX socket, with its `unix:` prefix.
    Socket(String),
    Name(String),
    /// Names with this suffix, which starts with a dot.
    Suffix(String),
}

impl TargetRule {
    fn parse(text: &str) -> Result<TargetRule, PolicyFault> {
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(TargetRule::Net(net));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(TargetRule::Net(plain(address).into()));
        }
        if text.starts_with("unix:/") {
            return Ok(TargetRule::Socket(text.to_owned()));
        }
        let is_name = |name: &str| {
            let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            !name.is_empty() && name.chars().all(is_good)
        };
        let name = text.strip_suffix('.').unwrap_or(text);
        match name.strip_prefix("*.") {
            Some(rest) if is_name(rest) => {
                Ok(TargetRule::Suffix(format!(".{}", rest.to_lowercase())))
            }
            None if is_name(name) => Ok(TargetRule::Name(name.to_lowercase())),
            _ => Err(PolicyFault::Target(text.to_owned())),
        }
    }

    fn holds(&self, name: &str, address: Option<IpAddr>) -> bool {
        let text = name;
        let name = name.trim_end_matches('.').to_lowercase();
        match self {
            TargetRule::Socket(socket) => text == socket,
            TargetRule::Net(net) => address.is_some_and(|address| net.contains(&plain(address))),
            TargetRule::Name(allowed) => name == *allowed,
            TargetRule::Suffix(suffix) => name.ends_with(suffix.as_str()),
        }
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_canonical(),
        four => four,
    }
}

/// Returns true for an address that is allowed by default: private (RFC 1918, RFC 4193), loopback,
/// or IPv6 link-local. Addresses of cloud metadata services are excluded, because these services
/// hand out credentials.
fn is_default_target(address: IpAddr) -> bool {
    match plain(address) {
        // All of 169.254.0.0/16 is excluded: AWS, Azure, Google and others run metadata services
        // there.
        IpAddr::V4(four) => four.is_private() || four.is_loopback(),
        IpAddr::V6(six) => {
            let is_near = six.is_loopback() || six.is_unique_local() || six.is_unicast_link_local();
            is_near && !prony_load::is_metadata(IpAddr::V6(six))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: LoadDemand = LoadDemand {
        rate: Some(100.0),
        connections: 10,
        seconds: Some(10.0),
    };

    fn rule(policy: &str, asked: LoadDemand) -> Option<&'static str> {
        let policy = Policy::parse(policy).unwrap();
        policy.allows_load(asked).err().map(|refusal| refusal.rule)
    }

    fn allows(policy: &str, name: &str, address: &str) -> bool {
        let policy = Policy::parse(policy).unwrap();
        let allowed = policy.allows_target(name, address.parse().ok());
        if let Err(refusal) = &allowed {
            assert_eq!(refusal.rule, "load.targets");
        }
        allowed.is_ok()
    }

    #[test]
    fn without_a_policy_only_private_addresses_are_loaded_and_no_service_starts() {
        for near in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.9",
            "::1",
            "fd00::7",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(allows("", "x", near), "{near}");
        }
        for far in ["192.0.2.1", "8.8.8.8", "2001:db8::1", "::ffff:8.8.8.8", ""] {
            assert!(!allows("", "x", far), "{far}");
        }
        for metadata in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.0.1",
            "::ffff:169.254.169.254",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:c1::a9fe:a9fe",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
        ] {
            assert!(!allows("", "x", metadata), "{metadata}");
            let named = format!("[load]\ntargets = ['{metadata}']");
            assert!(allows(&named, "x", metadata), "{metadata}");
        }
        assert!(!allows("", "unix:/run/docker.sock", ""));
        let refusal = Policy::default().allows_command("nginx").unwrap_err();
        assert_eq!(refusal.rule, "services.commands");
        assert_eq!(rule("", ASKED), None);
    }

    #[test]
    fn only_named_targets_are_allowed() {
        let policy =
            "[load]\ntargets = ['10.1.0.0/16', 'shop.example.org.', '*.test', 'unix:/run/a']";
        let permits = |name: &str, address: &str| allows(policy, name, address);
        assert!(permits("10.1.9.9", "10.1.9.9"));
        assert!(permits("Shop.Example.org.", "192.0.2.1"));
        assert!(permits("a.b.test", "192.0.2.1") && permits("a.b.test", ""));
        assert!(permits("unix:/run/a", ""));
        assert!(!permits("unix:/run/b", "") && !permits("unix:/RUN/a", ""));
        assert!(!permits("10.2.0.1", "10.2.0.1"));
        assert!(!permits("evilshop.example.org", "192.0.2.1"));
        assert!(!permits("test", "127.0.0.1"));
    }

    #[test]
    fn limits_name_their_rule() {
        assert_eq!(rule("[load]\nrate = 99", ASKED), Some("load.rate"));
        assert_eq!(rule("[load]\nrate = 100", ASKED), None);
        let closed = LoadDemand {
            rate: None,
            seconds: None,
            ..ASKED
        };
        assert_eq!(rule("[load]\nrate = 100", closed), Some("load.rate"));
        assert_eq!(rule("[load]\nseconds = 5", closed), Some("load.seconds"));
        assert_eq!(rule("[load]\nseconds = 5", ASKED), Some("load.seconds"));
        assert_eq!(
            rule("[load]\nconnections = 9", ASKED),
            Some("load.connections")
        );
        assert_eq!(rule("[load]\nrefuse = true", ASKED), Some("load.refuse"));
    }

    #[test]
    fn a_policy_has_a_short_summary() {
        let summary_of = |text: &str| Policy::parse(text).unwrap().summary();
        assert_eq!(
            summary_of(""),
            "private and loopback addresses; no services"
        );
        let policy = "[load]\ntargets = ['10.0.0.0/8']\nrate = 5000\nconnections = 50\nseconds = 60\n\
                      [services]\ncommands = ['nginx']";
        let whole = "10.0.0.0/8, up to 5000 requests per second, 50 connections, 60 s; nginx";
        assert_eq!(summary_of(policy), whole);
        assert_eq!(summary_of("[load]\nrefuse = true"), "no load; no services");
    }

    #[test]
    fn programs_are_those_named_and_no_others() {
        let policy = Policy::parse("[services]\ncommands = ['nginx', '/opt/app/run']").unwrap();
        assert!(policy.allows_command("nginx").is_ok());
        assert!(policy.allows_command("/opt/app/run").is_ok());
        for other in ["/tmp/nginx", "run", "sh", "../nginx", ""] {
            assert!(policy.allows_command(other).is_err(), "{other}");
        }
        let any = Policy::parse("[services]\ncommands = ['*']").unwrap();
        assert!(any.allows_command("sh").is_ok());
    }

    #[test]
    fn variables_are_those_named_and_no_others() {
        let loaders = [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "PATH",
            "PYTHONPATH",
            "PERL5LIB",
            "PERL5OPT",
            "RUBYOPT",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "BASH_ENV",
            "GCONV_PATH",
            "HOME",
        ];
        let policy = |services: &str| {
            let text = format!("[services]\ncommands = ['gunicorn']\n{services}");
            Policy::parse(&text).unwrap()
        };
        for narrow in [
            policy(""),
            policy("env = []"),
            policy("env = ['APP_*', 'MODE']"),
        ] {
            for variable in loaders {
                let refusal = narrow.allows_variable(variable).unwrap_err();
                assert_eq!(refusal.rule, "services.env");
                assert!(refusal.text.contains(variable), "{refusal}");
            }
        }
        let some = policy("env = ['APP_*', 'MODE']");
        for (name, is_allowed) in [
            ("APP_KEY", true),
            ("APP_", true),
            ("MODE", true),
            ("MODES", false),
            ("app_key", false),
            ("XAPP_KEY", false),
        ] {
            assert_eq!(some.allows_variable(name).is_ok(), is_allowed, "{name}");
        }
        assert!(policy("env = ['*']").allows_variable("PATH").is_ok());
        let any = Policy::parse("[services]\ncommands = ['*']").unwrap();
        assert!(any.allows_variable("PATH").is_ok());
        let any = Policy::parse("[services]\ncommands = ['*']\nenv = []").unwrap();
        assert!(any.allows_variable("PATH").is_err());
    }

    #[test]
    fn an_invalid_policy_is_refused() {
        for bad in [
            "[services]\nenv = ['A B']",
            "[services]\nenv = ['*_KEY']",
            "[services]\nenv = ['']",
            "[load]\ntarget = ['x']",
            "[load]\ntargets = ['10.0.0.0/99']",
            "[load]\ntargets = ['a b']",
            "[load]\nrate = 'fast'",
            "[lod]",
        ] {
            assert!(Policy::parse(bad).is_err(), "{bad}");
        }
    }
}
