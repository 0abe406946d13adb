//! Containers by podman or docker: their images, command lines and removal.
//!
//! The runtime creates the container's control group and sets its limits. A container shares the
//! network of the process that starts it, and sees the service's files at the paths that they have
//! outside.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use prony_load::{GroupVersion, MountedGroup};
use prony_plan::machine::ImageRefused;
use prony_plan::service::{CPU_PERIOD_US, ContainerRuntime, ContainerSpec, ServiceSpec};
use rustix::process::{Resource, Rlimit, getrlimit};

use crate::environment::ImageFacts;
use crate::program_output::{ProgramOutput, run_program};
use crate::run_state::{CreatedResource, RemovedResource};
use crate::system::{HostError, program};

/// Time limit for fetching an image.
const FETCH_TIMEOUT: Duration = Duration::from_secs(600);

/// Time limit for other commands of the runtime.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// An image on this machine, and the program that runs it.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    runtime: ContainerRuntime,
    program: PathBuf,
    /// ID by which the image is run, so that a moved tag changes nothing.
    id: String,
    pub(crate) facts: ImageFacts,
}

impl Image {
    /// Finds an image, and fetches it if it is not on this machine: by its name, or from an archive.
    ///
    /// # Errors
    /// The cause, with a hint.
    pub(crate) fn fetch(container: &ContainerSpec) -> Result<Self, ImageRefused> {
        let (runtime, program) = find_runtime(container.runtime)?;
        let run = |args: &[&str], timeout| run(&program, args, timeout);
        let failed = |output: ProgramOutput, action: &str| {
            let message = error_line(&output.stderr).unwrap_or(&output.status);
            ImageRefused::Failed(format!(
                "{} could not {action}: {message}",
                runtime.program()
            ))
        };
        let name = if ContainerSpec::is_archive(&container.image) {
            let loaded = run(
                &["load", "--quiet", "--input", &container.image],
                FETCH_TIMEOUT,
            )?;
            if !loaded.success {
                return Err(failed(
                    loaded,
                    "load the archive (see `save` of podman and docker)",
                ));
            }
            loaded_name(&loaded.stdout).to_owned()
        } else {
            container.image.clone()
        };
        let inspect = [
            "image",
            "inspect",
            "--format",
            "{{.Id}} {{.RepoDigests}}",
            &name,
        ];
        let mut inspected = run(&inspect, COMMAND_TIMEOUT)?;
        if !inspected.success {
            let pulled = run(&["pull", "--quiet", &name], FETCH_TIMEOUT)?;
            if !pulled.success {
                return Err(failed(pulled, "pull it"));
            }
            inspected = run(&inspect, COMMAND_TIMEOUT)?;
        }
        if !inspected.success {
            return Err(failed(inspected, "find it after fetching it"));
        }
        let (id, digests) = inspected.stdout.trim().split_once(' ').unwrap_or_default();
        let version = run(&["--version"], COMMAND_TIMEOUT)?;
        Ok(Self {
            runtime,
            program: program.clone(),
            id: id.to_owned(),
            facts: ImageFacts {
                name,
                digest: digest(digests).unwrap_or(id).to_owned(),
                runtime: version.stdout.trim().to_owned(),
            },
        })
    }

    /// Returns true if a container can join the network of a named place. The containers of docker
    /// are started by its daemon, which is outside.
    pub(crate) fn can_join_places(&self) -> bool {
        self.runtime == ContainerRuntime::Podman
    }

    /// Returns the command that runs a service in a new container, and its arguments.
    pub(crate) fn run_words(
        &self,
        name: &str,
        spec: &ServiceSpec,
        container: &ContainerSpec,
        folders: &[&Path],
    ) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        let mut add = |args: &[&str]| words.extend(args.iter().map(|arg| (*arg).to_owned()));
        add(&[
            "run",
            "--name",
            name,
            "--pull",
            "never",
            "--log-driver",
            "none",
        ]);
        add(&["--network", "host", "--security-opt", "label=disable"]);
        let files = getrlimit(Resource::Nofile);
        let files = spec.open_files.map_or(files, |files| Rlimit {
            current: Some(files),
            maximum: Some(files),
        });
        add(&["--ulimit", &ulimit("nofile", &files)]);
        if self.runtime == ContainerRuntime::Podman {
            // podman's default may exceed the limit of its own process, which is at most the
            // largest process ID.
            let processes = getrlimit(Resource::Nproc);
            let id_max = pid_max();
            let bounded = |limit: Option<u64>| Some(limit.map_or(id_max, |it| it.min(id_max)));
            let processes = Rlimit {
                current: bounded(processes.current),
                maximum: bounded(processes.maximum),
            };
            add(&["--ulimit", &ulimit("nproc", &processes)]);
        }
        for folder in folders {
            let folder = folder.display();
            add(&["--volume", &format!("{folder}:{folder}")]);
        }
        for volume in &container.volumes {
            add(&["--volume", volume]);
        }
        if let Some(folder) = &container.workdir {
            add(&["--workdir", folder]);
        }
        for (name, value) in &spec.env {
            add(&["--env", &format!("{name}={value}")]);
        }
        if !spec.cores.is_empty() {
            let cores: Vec<String> = spec.cores.iter().map(ToString::to_string).collect();
            add(&["--cpuset-cpus", &cores.join(",")]);
        }
        if let Some(quota_us) = spec.limits.cpu_quota_us {
            add(&["--cpu-period", &CPU_PERIOD_US.to_string()]);
            add(&["--cpu-quota", &quota_us.to_string()]);
        }
        if let Some(bytes) = spec.limits.memory_bytes.map(|bytes| bytes.to_string()) {
            add(&["--memory", &bytes, "--memory-swap", &bytes]);
        }
        if let Some(pids) = spec.limits.pids {
            add(&["--pids-limit", &pids.to_string()]);
        }
        add(&[&self.id]);
        words.extend(spec.command.iter().cloned());
        words
    }

    /// Returns the resource that the run state lists for a container.
    pub(crate) fn created(&self, name: &str) -> CreatedResource {
        CreatedResource::Container {
            program: self.program.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns the words of the command that removes a container.
    pub(crate) fn removal(&self, name: &str) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        words.extend(REMOVAL.map(str::to_owned));
        words.push(name.to_owned());
        words
    }

    /// Returns true if the kernel ended a container because it exceeded its memory limit.
    pub(crate) fn ran_out_of_memory(&self, name: &str) -> bool {
        let inspect = [
            "container",
            "inspect",
            "--format",
            "{{.State.OOMKilled}}",
            name,
        ];
        let inspected = run(&self.program, &inspect, COMMAND_TIMEOUT);
        inspected.is_ok_and(|it| it.stdout.trim() == "true")
    }

    /// Returns the folder of a running container's control group that counts CPU time; `None` if
    /// the container doesn't run yet, or has no group of its own.
    pub(crate) fn group(&self, name: &str) -> Option<PathBuf> {
        let inspect = ["container", "inspect", "--format", "{{.State.Pid}}", name];
        let inspected = run(&self.program, &inspect, COMMAND_TIMEOUT).ok()?;
        let pid: u32 = inspected
            .stdout
            .trim()
            .parse()
            .ok()
            .filter(|pid| *pid > 0)?;
        let folder = |process: &str| {
            let groups = MountedGroup::of_process(process, "cpuacct");
            let one = groups.iter().find(|it| it.version == GroupVersion::One);
            let group = one.or(groups.first())?;
            group.with_ancestors().next().map(|(_, folder)| folder)
        };
        let own = folder("self");
        folder(&pid.to_string()).filter(|group| Some(group) != own.as_ref())
    }
}

/// Arguments that remove a container with its anonymous volumes, whether it runs or not.
const REMOVAL: [&str; 3] = ["rm", "--force", "--volumes"];

/// Removes a container that a run created, if it still exists.
pub(super) fn remove(created: &CreatedResource) -> Result<Option<RemovedResource>, HostError> {
    let CreatedResource::Container { program, name } = created else {
        return Ok(None);
    };
    let failed = |message: String| HostError::Command {
        command: format!("{} {} {name}", program.display(), REMOVAL.join(" ")),
        message,
    };
    let refused = |refused: ImageRefused| match refused {
        ImageRefused::Failed(message) => failed(message),
        ImageRefused::NoRuntime(names) => failed(names.join(", ")),
    };
    let exists = ["container", "inspect", "--format", "{{.Id}}", name];
    let exists = run(program, &exists, COMMAND_TIMEOUT).map_err(refused)?;
    let removal = [&REMOVAL[..], &[name.as_str()]].concat();
    let removed = run(program, &removal, COMMAND_TIMEOUT).map_err(refused)?;
    let is_absent = || removed.stderr.to_lowercase().contains("no such container");
    match exists.success {
        true if removed.success => Ok(Some(RemovedResource::Container(name.clone()))),
        false if removed.success || is_absent() => Ok(None),
        _ => Err(failed(removed.stderr.trim().to_owned())),
    }
}

/// Finds the program that runs containers.
fn find_runtime(
    wanted: Option<ContainerRuntime>,
) -> Result<(ContainerRuntime, PathBuf), ImageRefused> {
    let wanted = wanted.map_or(ContainerRuntime::ALL.to_vec(), |one| vec![one]);
    let mut found = wanted.iter().filter_map(|runtime| {
        let program = program::find(runtime.program(), Path::new("/"), None).ok()?;
        Some((*runtime, program))
    });
    let names = || wanted.iter().map(|it| it.program()).collect();
    found.next().ok_or_else(|| ImageRefused::NoRuntime(names()))
}

fn run(program: &Path, args: &[&str], timeout: Duration) -> Result<ProgramOutput, ImageRefused> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).env("LC_ALL", "C");
    // SAFETY: the call takes no pointers and changes only the forked process.
    unsafe {
        command.pre_exec(|| {
            // End together with the thread that waits, so that a killed prony leaves no download.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    run_program(command, timeout)
        .map_err(|error| ImageRefused::Failed(format!("{}: {error}", program.display())))
}

/// Returns the last line that begins with `Error`, or the last line. The lines before report retries.
fn error_line(stderr: &str) -> Option<&str> {
    let mut lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let last = lines.clone().next_back();
    lines.rfind(|line| line.starts_with("Error")).or(last)
}

/// Returns the name or ID that `load` prints for the last image of an archive.
fn loaded_name(printed: &str) -> &str {
    let line = printed.lines().rfind(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default();
    line.split_once(": ").map_or(line, |(_, name)| name).trim()
}

/// Returns the first digest in a list such as `[nginx@sha256:12 …]`.
fn digest(digests: &str) -> Option<&str> {
    let (_, digest) = digests.split_once('@')?;
    digest.split([' ', ']']).next()
}

/// Returns the kernel's largest process ID.
fn pid_max() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(32_768)
}

/// Formats a limit as `name=SOFT:HARD`, with -1 for no limit.
fn ulimit(name: &str, limit: &Rlimit) -> String {
    let text = |limit: Option<u64>| limit.map_or("-1".to_owned(), |limit| limit.to_string());
    format!("{name}={}:{}", text(limit.current), text(limit.maximum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_plan::service::{PlaceKind, ResourceLimits};

    fn image(runtime: ContainerRuntime) -> Image {
        Image {
            runtime,
            program: PathBuf::from("/usr/bin").join(runtime.program()),
            id: "4f1".to_owned(),
            facts: ImageFacts::default(),
        }
    }

    #[test]
    fn keys_of_the_plan_become_arguments_of_both_runtimes() {
        let spec = ServiceSpec {
            jail: None,
            name: "web".to_owned(),
            command: vec![
                "nginx".to_owned(),
                "-g".to_owned(),
                "daemon off;".to_owned(),
            ],
            wrapper_words: 0,
            env: [("LANG".to_owned(), "C".to_owned())].into(),
            cwd: PathBuf::new(),
            files: Default::default(),
            secrets: Default::default(),
            cores: vec![0, 2],
            place: PlaceKind::Native,
            stop_signal: 15,
            library_path: None,
            open_files: Some(4096),
            limits: ResourceLimits {
                cpu_quota_us: Some(50_000),
                memory_bytes: Some(64 << 20),
                pids: Some(100),
            },
            container: None,
            follow: Default::default(),
        };
        let container = ContainerSpec {
            image: "nginx:1.27".to_owned(),
            runtime: None,
            volumes: vec!["/srv/site:/site:ro".to_owned()],
            workdir: Some("/site".to_owned()),
        };
        for runtime in ContainerRuntime::ALL {
            let folders = [Path::new("/run/x/files/web")];
            let words = image(runtime).run_words("prony-1-0-web", &spec, &container, &folders);
            let line = words.join(" ");
            let program = runtime.program();
            let start = format!(
                "/usr/bin/{program} run --name prony-1-0-web --pull never --log-driver none \
                 --network host --security-opt label=disable --ulimit nofile=4096:4096"
            );
            assert!(line.starts_with(&start), "{line}");
            let end = "--volume /run/x/files/web:/run/x/files/web --volume /srv/site:/site:ro \
                       --workdir /site --env LANG=C --cpuset-cpus 0,2 --cpu-period 100000 \
                       --cpu-quota 50000 --memory 67108864 --memory-swap 67108864 --pids-limit 100 \
                       4f1 nginx -g daemon off;";
            assert!(line.ends_with(end), "{line}");
        }
    }

    #[test]
    fn output_of_both_runtimes_is_read() {
        assert_eq!(
            loaded_name("Loaded image: localhost/web:1\n"),
            "localhost/web:1"
        );
        assert_eq!(loaded_name("Loaded image ID: sha256:12\n"), "sha256:12");
        assert_eq!(digest("[a/web@sha256:12 b@sha256:34]"), Some("sha256:12"));
        assert_eq!(digest("[]"), None);
        let retried = "time=1 level=warning msg=\"Failed, retrying\"\nError: no host\n * detail\n";
        assert_eq!(error_line(retried), Some("Error: no host"));
        assert_eq!(error_line("Cannot connect\n"), Some("Cannot connect"));
        assert_eq!(error_line(""), None);
    }
}
