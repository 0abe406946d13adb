//! Memory, open files and local ports that all variants need at the same time in an interleaved
//! block.

use std::collections::BTreeMap;

use prony_machine::system;
use prony_plan::{Plan, PlanError, ResolvedService, ResolvedVariant};
use prony_record::{number, quantity};

/// Available resources of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineResources {
    /// Memory in bytes that new processes can use without swapping; `None` if unknown.
    pub memory_bytes: Option<u64>,
    /// Limit on open files of this process.
    pub open_files: u64,
    /// Number of local ports available for connections from one address to another; `None` if
    /// unknown.
    pub local_ports: Option<u64>,
}

impl MachineResources {
    /// Reads the resources that are currently available.
    pub fn available() -> Self {
        Self {
            memory_bytes: system::memory_available_bytes(),
            open_files: prony_load::open_files_limit(),
            local_ports: prony_load::local_port_count(),
        }
    }
}

/// Resources that a variant needs while its services and its load run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VariantDemand {
    /// Memory limits in bytes that the variant's services declare, added up; 0 if they declare
    /// none.
    pub memory_bytes: u64,
    /// Number of connections in the variant's load.
    pub connections: u64,
    /// Number of threads in the variant's load.
    pub threads: u64,
    /// TCP address that the load connects to from a single source address; `None` for UNIX sockets
    /// and for loads that set their source addresses.
    pub destination: Option<String>,
}

/// Returns the resources that each variant needs according to the plan.
///
/// # Errors
/// A variant can't be rendered.
pub fn demands(plan: &Plan) -> Result<Vec<VariantDemand>, PlanError> {
    let cores = plan.machine_cores().max(1) as u64;
    let variants = plan.with_placeholders()?;
    let demand = |(index, variant): (usize, &ResolvedVariant)| {
        let load = &variant.load;
        let connections = load.settings.connections();
        let listed = load.settings.cores.as_ref().map(|list| list.0.len() as u64);
        let threads = listed.unwrap_or(cores).min(connections);
        let services = variant.services.iter();
        let of_target = |service: &&ResolvedService| service.spec.name == load.service;
        let remote = services
            .clone()
            .find(of_target)
            .and_then(|it| it.remote.clone());
        // Services that prony starts have a different address in each variant.
        let destination = remote.unwrap_or_else(|| format!("variant {index}"));
        let is_tcp = load.settings.unix.is_none();
        let has_one_source = load.settings.source.is_empty();
        VariantDemand {
            memory_bytes: services.map(declared_memory).fold(0, u64::saturating_add),
            connections,
            threads: load.settings.threads.unwrap_or(threads),
            destination: (is_tcp && has_one_source).then_some(destination),
        }
    };
    Ok(variants.iter().enumerate().map(demand).collect())
}

/// Describes the first resource that does not suffice for all variants together; `None` if all
/// resources suffice.
pub fn shortage(demands: &[VariantDemand], available: &MachineResources) -> Option<String> {
    let sum =
        |part: fn(&VariantDemand) -> u64| demands.iter().map(part).fold(0, u64::saturating_add);
    let memory = sum(|demand| demand.memory_bytes);
    if let Some(most) = available.memory_bytes
        && memory > most
    {
        return Some(format!(
            "the services of all variants together may use {} of memory, but only {} is available",
            number::bytes(memory as f64),
            number::bytes(most as f64)
        ));
    }
    let files = prony_load::open_files_needed(sum(|it| it.connections), sum(|it| it.threads));
    if files > available.open_files {
        return Some(format!(
            "the loads of all variants together need {} open files, but the limit is {}",
            number::count(files),
            number::count(available.open_files)
        ));
    }
    let ports = available.local_ports?;
    let mut by_destination: BTreeMap<&str, u64> = BTreeMap::new();
    for demand in demands {
        if let Some(destination) = &demand.destination {
            let connections = by_destination.entry(destination).or_default();
            *connections = connections.saturating_add(demand.connections);
        }
    }
    let most = by_destination.into_values().max()?;
    (most > ports).then(|| {
        format!(
            "the loads of all variants together need {} local ports for one server, but there are \
             only {}",
            number::count(most),
            number::count(ports)
        )
    })
}

/// Returns the memory limit in bytes that the plan sets for a service, or that its command declares:
/// the heap of Java or Node, the cache of memcached or Redis, or the limit of a systemd scope; 0 if
/// there is none.
fn declared_memory(service: &ResolvedService) -> u64 {
    let words = &service.spec.command;
    let declared = words.iter().enumerate().filter_map(|(index, word)| {
        if let Some(size) = word.strip_prefix("-Xmx") {
            return memory_size(size);
        }
        let (name, value) = match word.rsplit_once('=') {
            Some(parts) => parts,
            None => (word.as_str(), words.get(index + 1)?.as_str()),
        };
        match name {
            "--maxmemory" | "MemoryMax" | "-pMemoryMax" | "--property=MemoryMax" => {
                memory_size(value)
            }
            "--max-old-space-size" | "--memory-limit" => {
                value.parse::<u64>().ok()?.checked_mul(1 << 20)
            }
            _ => None,
        }
    });
    let declared = declared.fold(0, u64::saturating_add);
    declared.max(service.spec.limits.memory_bytes.unwrap_or(0))
}

/// Parses a memory size such as `512m`, `2g`, `2gb` or `4G`, or a number of bytes.
fn memory_size(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let text = text.strip_suffix('B').unwrap_or(&text);
    quantity::size(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: MachineResources = MachineResources {
        memory_bytes: Some(8 << 30),
        open_files: 1_024,
        local_ports: Some(28_232),
    };

    fn demand(memory_bytes: u64, connections: u64, destination: &str) -> VariantDemand {
        VariantDemand {
            memory_bytes,
            connections,
            threads: 1,
            destination: Some(destination.to_owned()),
        }
    }

    #[test]
    fn variants_that_fit_have_no_shortage() {
        let small = [demand(4 << 30, 100, "a:80"), demand(4 << 30, 100, "b:80")];
        assert_eq!(shortage(&small, &PLENTY), None);
        assert_eq!(shortage(&[], &PLENTY), None);
    }

    #[test]
    fn a_shortage_of_memory_is_described_with_both_amounts() {
        let large = [demand(5 << 30, 1, "a:80"), demand(4 << 30, 1, "b:80")];
        let reason = shortage(&large, &PLENTY).unwrap();
        assert_eq!(
            reason,
            format!(
                "the services of all variants together may use {} of memory, but only {} is \
                 available",
                number::bytes((9u64 << 30) as f64),
                number::bytes((8u64 << 30) as f64)
            )
        );
        let unknown = MachineResources {
            memory_bytes: None,
            ..PLENTY
        };
        assert_eq!(shortage(&large, &unknown), None);
    }

    #[test]
    fn connections_of_all_variants_need_open_files_together() {
        let many = [demand(0, 500, "a:80"), demand(0, 500, "b:80")];
        let reason = shortage(&many, &PLENTY).unwrap();
        assert!(
            reason.starts_with("the loads of all variants together need 1,0")
                && reason.ends_with(" open files, but the limit is 1,024"),
            "{reason}"
        );
        assert_eq!(shortage(&many[..1], &PLENTY), None);
    }

    #[test]
    fn only_connections_to_the_same_server_share_its_ports() {
        let roomy = MachineResources {
            open_files: 1 << 20,
            ..PLENTY
        };
        let same = [demand(0, 20_000, "a:80"), demand(0, 20_000, "a:80")];
        assert_eq!(
            shortage(&same, &roomy).unwrap(),
            "the loads of all variants together need 40,000 local ports for one server, but there \
             are only 28,232"
        );
        let different = [demand(0, 20_000, "a:80"), demand(0, 20_000, "b:80")];
        assert_eq!(shortage(&different, &roomy), None);
        let sockets = same.map(|demand| VariantDemand {
            destination: None,
            ..demand
        });
        assert_eq!(shortage(&sockets, &roomy), None);
    }

    #[test]
    fn memory_limits_are_read_as_the_usual_programs_write_them() {
        for (text, bytes) in [
            ("512m", Some(512 << 20)),
            ("2g", Some(2 << 30)),
            ("2gb", Some(2 << 30)),
            ("4G", Some(4 << 30)),
            ("1000", Some(1_000)),
            ("50%", None),
            ("infinity", None),
        ] {
            assert_eq!(memory_size(text), bytes, "{text}");
        }
    }
}
