//! A remote FreeBSD machine: the parsing of what its commands print.
//!
//! **Experimental: this code was written for FreeBSD, but has never run there.** The parsers are
//! tested with sample output that was written from memory.

mod parse;

use super::shell::{Sections, section};
use crate::system::process::{Process, ProcessTable};
use crate::telemetry::{HostSample, ServiceSample};

/// Parses the data of the machine and its list of processes.
pub(super) fn machine(sections: &Sections) -> (HostSample, ProcessTable) {
    let mut host = parse::machine(section(sections, "sysctl"));
    host.interfaces = parse::interfaces(section(sections, "interfaces"));
    host.tcp = parse::tcp_counters(section(sections, "tcp"));
    let table = section(sections, "processes")
        .lines()
        .filter_map(parse::process)
        .collect();
    (host, table)
}

/// Returns the processes that listen on a port.
pub(super) fn holders(sections: &Sections, port: u16) -> Vec<i32> {
    let any = (std::net::Ipv4Addr::UNSPECIFIED, port).into();
    parse::port_holder(section(sections, "sockets"), any)
        .map(|holder| holder.pid)
        .into_iter()
        .collect()
}

/// Returns the processes of a service: the process in its pid file, or otherwise the processes that
/// listen on its port, with all descendants.
pub(super) fn members<'a>(
    name: &str,
    holders: &[i32],
    sections: &Sections,
    table: &'a ProcessTable,
) -> Vec<&'a Process> {
    let named = section(sections, &format!("pid:{name}")).lines().next();
    let named = named.and_then(|pid| pid.trim().parse::<i32>().ok());
    let mut members: Vec<&Process> = Vec::new();
    for holder in named.into_iter().chain(holders.iter().copied()) {
        let below = table.descendants(holder);
        for process in table.get(holder).into_iter().chain(below) {
            if !process.zombie && members.iter().all(|member| member.pid != process.pid) {
                members.push(process);
            }
        }
    }
    members
}

/// Returns a sample of the given processes.
pub(super) fn service(members: &[&Process], details: &Sections) -> ServiceSample {
    let mut sample = parse::service(members);
    sample.open_files = parse::open_files(section(details, "open"));
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_and_a_service() {
        let processes = "  812     1   812 Ss    1  9876   1:02.50   0:03.25   120  30 Sat Nov 21 21:21:55 2026 nginx\n\
            \x20 813   812   812 S     1  1000   0:10.00   0:01.00    10   5 Sat Nov 21 21:21:55 2026 nginx\n";
        let sections: Sections = [
            ("sysctl", "kern.cp_time: 127 0 254 127 1270\nkern.clockrate: { hz = 1000, stathz = 127 }\nhw.ncpu: 4\n"),
            ("sockets", "USER COMMAND PID FD PROTO LOCAL FOREIGN\nroot nginx 812 6 tcp4 *:80 *:*\n"),
            ("processes", processes),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
        let (host, table) = machine(&sections);
        assert_eq!(host.cores, 4);
        assert!((host.cpu_system_s - 2.0).abs() < 1e-9);
        let holders = holders(&sections, 80);
        assert_eq!(holders, [812]);
        let by_file = [("pid:web".to_owned(), "813\n".to_owned())].into();
        assert_eq!(members("web", &[], &by_file, &table).len(), 1);
        let members = members("web", &holders, &sections, &table);
        let sample = service(&members, &Sections::new());
        assert_eq!((sample.processes, sample.voluntary_switches), (2, 130));
        assert_eq!(sample.involuntary_switches, 35);
        assert!((sample.cpu_s - 76.75).abs() < 1e-9, "{}", sample.cpu_s);
    }
}
