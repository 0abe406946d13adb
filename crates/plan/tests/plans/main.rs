//! Tests with valid plans, invalid plans, and random mutations of valid plans.

mod capacity;
mod errors;
mod hosts;
mod mutation;
mod places;
mod resolve;
mod ssh_hosts;
mod study_machine;
mod telemetry;
mod tls;
mod udp;
mod variants;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use prony_plan::{Plan, PlanErrors};
use study_machine::StudyMachine;

use prony_plan::service::{AllocatedService, Allocation, PortProtocol, pick_endpoints};

/// A valid plan that the tests modify.
const GOOD: &str = r#"
name     = "sockets"
question = "What does a socket cost?"
baseline = { place = "native", socket = "unix" }
margin   = "2%"

[trials]
blocks   = { min = 5, max = 15 }
warmup   = "3s"
duration = "30s"

[factors]
place  = ["native", "namespace"]
socket = ["tcp", "unix"]

[service.app]
command = ["app-server", "--workers", 2, "--bind", "{{ app.address }}"]
listen  = "{{ socket }}"
place   = "{{ place }}"
cores   = "0"

[service.web]
needs   = ["app"]
listen  = "tcp"
command = ["web-server", "-c", "{{ web.files['web.conf'] }}"]
cores   = "0"
ready   = { get = "/", status = 200, within = "10s" }
[service.web.files]
"web.conf" = { template = "web.conf" }

[load]
target      = "web"
model       = "closed"
connections = 10
urls        = "urls.txt"
cores       = "1"
"#;

/// A folder with the files that [`GOOD`] names. Its programs are in `bin`.
struct Study {
    folder: tempfile::TempDir,
}

impl Study {
    fn new() -> Self {
        let study = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        study.write("web.conf", "upstream {\n    server {{ app.address }};\n}\n");
        study.write("urls.txt", "/\n/page\n");
        std::fs::create_dir(study.path("bin")).unwrap();
        for program in ["app-server", "web-server"] {
            study.write(&format!("bin/{program}"), "#!/bin/sh\n");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(study.path(&format!("bin/{program}")), mode).unwrap();
        }
        study
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Returns a machine with two cores and only the programs in this study's `bin` folder.
    fn machine(&self) -> StudyMachine {
        StudyMachine {
            cores: vec![0, 1],
            programs: self.path("bin"),
        }
    }

    fn read(&self, text: &str) -> Result<Plan, PlanErrors> {
        let plan = Plan::from_str(text, &self.path("plan.toml"), self.machine())?;
        plan.check_machine()?;
        Ok(plan)
    }

    /// Returns the messages about a plan, one per line, without the folder.
    fn diagnostics(&self, text: &str) -> Vec<String> {
        let Err(errors) = self.read(text) else {
            return Vec::new();
        };
        let folder = format!("{}/", self.folder.path().display());
        errors
            .to_string()
            .lines()
            .map(|line| line.replace(&folder, ""))
            .collect()
    }
}

/// Allocates endpoints as a host would.
fn allocate(wanted: &[Allocation]) -> BTreeMap<String, AllocatedService> {
    let mut port = 8_000;
    wanted
        .iter()
        .map(|allocation| {
            let files_dir = Path::new("/run").join(&allocation.service);
            let address = |_: &[PortProtocol]| {
                port += 1;
                Ok::<_, Infallible>(SocketAddr::from(([10, 0, 0, 1], port)))
            };
            let path = |name: &str| Ok(files_dir.join(format!("{name}.sock")));
            let Ok(endpoints) = pick_endpoints(&allocation.listen, address, path);
            let given = AllocatedService {
                endpoints,
                files_dir: files_dir.clone(),
            };
            (allocation.service.clone(), given)
        })
        .collect()
}
