//! Connects to the machines of a plan on which services run over ssh.

use std::thread;

use prony_machine::host::ssh::SshMachines;
use prony_machine::system;
use prony_plan::Plan;

use crate::ending::Failure;
use crate::experiment::plan_file::wrong_plan;

/// Connects to the plan's machines, and checks that they can run its services. The connections avoid
/// the cores of the loads.
pub(crate) fn connect(plan: &Plan) -> Result<SshMachines, Failure> {
    let hosts = plan.ssh_hosts();
    if hosts.is_empty() {
        return Ok(SshMachines::default());
    }
    let variants = plan.with_placeholders().map_err(Failure::wrong)?;
    let cores = variants
        .into_iter()
        .filter_map(|variant| variant.load.settings.cores);
    let load_cores: Vec<usize> = cores.flat_map(|cores| cores.0).collect();
    let connecting = || {
        // ssh and the threads that read from it inherit the cores of this thread.
        system::avoid_cores(&load_cores);
        let mut machines = SshMachines::default();
        for host in hosts {
            let connected = machines.connect(host);
            connected
                .map_err(|error| Failure::refused(plan.host_error(host, error.to_string())))?;
        }
        Ok::<SshMachines, Failure>(machines)
    };
    let connected = thread::scope(|scope| scope.spawn(connecting).join());
    let machines = connected.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    plan.check_ssh_hosts(&mut |host, spec| machines.objections(host, spec))
        .map_err(|errors| wrong_plan(&errors))?;
    Ok(machines)
}

/// Lists the machines with their addresses, one per line.
pub(crate) fn summary(plan: &Plan, machines: &SshMachines) -> String {
    let hosts = plan.ssh_hosts();
    let lines = hosts.iter().map(|host| {
        let address = machines.address_of(&host.name);
        let address = address.map_or_else(String::new, |address| format!(", {address}"));
        format!("  {}: ssh {}{address}\n", host.name, host.destination)
    });
    let lines: String = lines.collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\nmachines over ssh:\n{lines}")
}
