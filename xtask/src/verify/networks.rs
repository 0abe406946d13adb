//! Check: a kernel with `sch_netem` emulates links as planned. The kernel is Debian's, which is
//! downloaded and unpacked, but not installed. An emulated machine boots it with prony and nginx.
//!
//! The other kernels of the project's tests may lack `sch_netem`, so only this check runs the code
//! that sets it up.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::figures::CheckFigure;
use super::program::Prony;
use crate::cargo::workspace_root;

/// Package that depends on the newest kernel of the distribution.
const KERNEL_PACKAGE: &str = "linux-image-amd64";

/// Kernel modules, in the order in which they depend on each other.
const MODULES: [&str; 3] = ["veth", "sch_tbf", "sch_netem"];

/// Programs for the virtual machine, with their packages.
const PROGRAMS: [(&str, &str); 3] = [("ip", "iproute2"), ("tc", "iproute2"), ("nginx", "nginx")];

/// Names that the programs of the init script have in busybox.
const BUSYBOX_NAMES: [&str; 6] = ["sh", "mount", "mkdir", "insmod", "cat", "poweroff"];

const INIT: &str = include_str!("networks/init.sh");
const PLAN: &str = include_str!("networks/plan.toml");

/// Time limit of the virtual machine, in seconds. An emulated processor is slow.
const TIME_LIMIT_S: &str = "900";

/// Tolerances of the differences from 100 ms, in milliseconds: of a round-trip time, of one with a
/// jitter of 2 ms, and of the time to connect.
const ROUND_TRIP_TOLERANCE_MS: f64 = 0.3;
const JITTER_TOLERANCE_MS: f64 = 4.3;
const CONNECT_TOLERANCE_MS: f64 = 2.0;

/// Boots the kernel, runs the plan there, and compares its results with the planned links.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let folder = workspace_root().join("target/verify-networks");
    fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    let kernel = KernelFiles::unpack(&folder)?;
    let image = build_image(&folder, &kernel, prony.path())?;
    let output = boot(&kernel.image, &image)?;
    figures(&Results::read(&output)?)
}

/// A kernel that was unpacked, and the shell for the virtual machine.
struct KernelFiles {
    image: PathBuf,
    modules: Vec<PathBuf>,
    busybox: PathBuf,
}

impl KernelFiles {
    /// Downloads and unpacks the packages, unless the folder already has them.
    fn unpack(folder: &Path) -> Result<Self, String> {
        let depends = text_of(Command::new("apt-cache").args(["depends", KERNEL_PACKAGE]))?;
        let package = kernel_package(&depends)
            .ok_or_else(|| format!("apt-cache: {KERNEL_PACKAGE} depends on no kernel"))?;
        let unpacked = folder.join(package);
        if !unpacked.join("complete").exists() {
            let _ = fs::remove_dir_all(&unpacked);
            fs::create_dir_all(&unpacked).map_err(|error| failed(&unpacked, &error))?;
            let mut download = Command::new("apt-get");
            download.args(["download", package, "busybox-static"]);
            text_of(download.current_dir(&unpacked))?;
            for archive in files_in(&unpacked, "deb")? {
                text_of(
                    Command::new("dpkg-deb")
                        .arg("-x")
                        .arg(archive)
                        .arg(&unpacked),
                )?;
            }
            let mark = unpacked.join("complete");
            fs::write(&mark, "").map_err(|error| failed(&mark, &error))?;
        }
        let release = package.strip_prefix("linux-image-").unwrap_or(package);
        let modules = MODULES.map(|module| {
            let file = format!("{module}.ko");
            find(&unpacked.join("lib/modules").join(release), &file)
                .ok_or_else(|| format!("{package} has no module {file}"))
        });
        Ok(Self {
            image: unpacked.join(format!("boot/vmlinuz-{release}")),
            modules: modules.into_iter().collect::<Result<_, _>>()?,
            busybox: unpacked.join("bin/busybox"),
        })
    }
}

/// Returns the kernel's package among the dependencies that `apt-cache depends` lists.
fn kernel_package(depends: &str) -> Option<&str> {
    let mut words = depends.lines().map(|line| line.trim());
    words.find_map(|line| {
        let package = line.strip_prefix("Depends: ")?;
        package.starts_with("linux-image-").then_some(package)
    })
}

/// Builds the archive with the files of the virtual machine.
fn build_image(folder: &Path, kernel: &KernelFiles, prony: &Path) -> Result<PathBuf, String> {
    let root = folder.join("root");
    let _ = fs::remove_dir_all(&root);
    for name in [
        "bin",
        "dev",
        "etc",
        "lib/modules",
        "proc",
        "run",
        "sys",
        "tmp",
        "usr/bin",
    ] {
        let path = root.join(name);
        fs::create_dir_all(&path).map_err(|error| failed(&path, &error))?;
    }
    copy(&kernel.busybox, &root.join("bin/busybox"))?;
    for name in BUSYBOX_NAMES {
        let link = root.join("bin").join(name);
        symlink("busybox", &link).map_err(|error| failed(&link, &error))?;
    }
    for (number, module) in kernel.modules.iter().enumerate() {
        // The init script loads modules in the order of their names.
        let name = format!("lib/modules/{number}-{}", file_name(module));
        copy(module, &root.join(name))?;
    }
    copy(prony, &root.join("usr/bin/prony"))?;
    copy_libraries(prony, &root)?;
    for (program, package) in PROGRAMS {
        let path = find_program(program)
            .ok_or_else(|| format!("{program} is missing (apt-get install {package})"))?;
        copy(&path, &root.join("usr/bin").join(program))?;
        copy_libraries(&path, &root)?;
    }
    // nginx changes its user.
    let users =
        "root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n";
    let groups = "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n";
    for (name, text) in [
        ("etc/passwd", users),
        ("etc/group", groups),
        ("plan.toml", PLAN),
    ] {
        let path = root.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    let init = root.join("init");
    fs::write(&init, INIT).map_err(|error| failed(&init, &error))?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&init, executable).map_err(|error| failed(&init, &error))?;
    archive(folder, &root, &kernel.busybox)
}

/// Archives the files in the format that the kernel unpacks at its start.
fn archive(folder: &Path, root: &Path, busybox: &Path) -> Result<PathBuf, String> {
    let image = folder.join("initrd.cpio");
    let list = text_of(Command::new("find").arg(".").current_dir(root))?;
    let target = fs::File::create(&image).map_err(|error| failed(&image, &error))?;
    let mut cpio = Command::new(busybox)
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(target)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(busybox, &error))?;
    if let Some(mut input) = cpio.stdin.take() {
        let written = input.write_all(list.as_bytes());
        written.map_err(|error| failed(busybox, &error))?;
    }
    let status = cpio.wait().map_err(|error| failed(busybox, &error))?;
    if status.success() {
        Ok(image)
    } else {
        Err(format!("busybox cpio: {status}"))
    }
}

/// Boots the virtual machine, and returns what it printed when it has ended.
fn boot(kernel: &Path, image: &Path) -> Result<String, String> {
    const MACHINE: &str = "qemu-system-x86_64";
    if find_program(MACHINE).is_none() {
        return Err(format!(
            "{MACHINE} is missing (apt-get install qemu-system-x86)"
        ));
    }
    let mut machine = Command::new("timeout");
    machine
        .args([TIME_LIMIT_S, MACHINE, "-nographic", "-no-reboot"])
        .args(["-accel", "tcg", "-smp", "1", "-m", "2048", "-nic", "none"])
        // The machine's clock counts its instructions, 2 ns each, and jumps over idle time. The
        // times that are measured in it don't depend on what else this machine does.
        .args(["-icount", "shift=1,sleep=off", "-rtc", "clock=vm"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args(["-append", "console=ttyS0 quiet panic=-1"]);
    text_of(machine.stdin(Stdio::null()))
}

/// Output of the virtual machine.
#[derive(Debug, Default)]
struct Results {
    kernel: String,
    status: String,
    /// Contents of JSON files, by path.
    files: Vec<(String, Value)>,
}

impl Results {
    fn read(output: &str) -> Result<Self, String> {
        let mut results = Results::default();
        let mut lines = output.lines();
        while let Some(line) = lines.next() {
            let line = line.trim_end();
            // The firmware clears the screen without ending a line.
            let marker = line.split_once("== ").map_or("", |(_, marker)| marker);
            if let Some(kernel) = marker.strip_prefix("kernel ") {
                kernel.clone_into(&mut results.kernel);
            } else if let Some(status) = marker.strip_prefix("status ") {
                status.clone_into(&mut results.status);
            } else if let Some(path) = marker.strip_prefix("file ") {
                let content = lines.by_ref().map(str::trim_end);
                let content: Vec<&str> = content
                    .take_while(|line| *line != "== end of file")
                    .collect();
                let value = serde_json::from_str(&content.join("\n"))
                    .map_err(|error| format!("{path}: {error}"))?;
                results.files.push((path.to_owned(), value));
            }
        }
        // Exit status 1: a verdict is withheld, such as after one block.
        if matches!(results.status.as_str(), "0" | "1") {
            return Ok(results);
        }
        let last: Vec<&str> = output.lines().rev().take(40).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Err(format!("the virtual machine failed:\n{}", last.join("\n")))
    }

    fn number(&self, file: &str, pointer: &str) -> Result<f64, String> {
        let mut files = self.files.iter();
        let found = files.find(|(path, _)| path == file);
        let number = found.and_then(|(_, value)| value.pointer(pointer)?.as_f64());
        number.ok_or_else(|| format!("{file}: {pointer} is missing"))
    }

    fn round_trip_ms(&self, variant: &str) -> Result<f64, String> {
        let file = format!("trials/1-{variant}/trial.json");
        Ok(self.number(&file, "/values/link_round_trip_us")? / 1e3)
    }

    fn record(&self, variant: &str, pointer: &str) -> Result<f64, String> {
        self.number(&format!("trials/1-{variant}/record.json"), pointer)
    }
}

fn figures(results: &Results) -> Result<Vec<CheckFigure>, String> {
    let mut figures = vec![CheckFigure::shown(
        "kernel".to_owned(),
        results.kernel.clone(),
    )];
    let near = results.round_trip_ms("near")?;
    let connect = |variant| {
        let time_us = results.record(variant, "/connect_time_us/p50")?;
        Ok::<f64, String>(time_us / 1e3)
    };
    let round_trip = |variant| Ok::<f64, String>(results.round_trip_ms(variant)? - near);
    let differences = [
        (
            "round trip of far",
            round_trip("far")?,
            ROUND_TRIP_TOLERANCE_MS,
        ),
        (
            "round trip of even",
            round_trip("even")?,
            JITTER_TOLERANCE_MS,
        ),
        (
            "round trip of rough",
            round_trip("rough")?,
            JITTER_TOLERANCE_MS,
        ),
        (
            "TCP connect of far",
            connect("far")? - connect("near")?,
            CONNECT_TOLERANCE_MS,
        ),
    ];
    for (name, found, tolerance) in differences {
        figures.push(CheckFigure::judged(
            name,
            format!("100.0 ms ± {tolerance:.1}"),
            format!("{found:.2} ms"),
            (found - 100.0).abs() <= tolerance,
        ));
    }
    for variant in ["near", "far", "even", "rough"] {
        let ok = results.record(variant, "/totals/ok")?;
        figures.push(CheckFigure::judged(
            &format!("responses over {variant}"),
            "some".to_owned(),
            format!("{ok}"),
            ok > 0.0,
        ));
    }
    Ok(figures)
}

/// Copies the libraries that a program loads at its start.
fn copy_libraries(program: &Path, root: &Path) -> Result<(), String> {
    let Ok(listed) = text_of(Command::new("ldd").arg(program)) else {
        return Ok(()); // the program is static
    };
    let paths = listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for library in paths.map(Path::new) {
        let target = root.join(library.strip_prefix("/").unwrap_or(library));
        copy(library, &target)?;
    }
    Ok(())
}

/// Copies a file, and creates the folders above it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    }
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| failed(from, &error))
}

/// Finds a file by its name in a folder or below.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut folders = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.file_name() == Some(OsStr::new(name)) {
            return Some(path);
        }
        if path.is_dir() && !path.is_symlink() {
            folders.push(path);
        }
    }
    folders.iter().find_map(|folder| find(folder, name))
}

fn files_in(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths
        .filter(|path| path.extension() == Some(OsStr::new(extension)))
        .collect())
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|it| it.is_file())
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Runs a command, and returns its standard output.
fn text_of(command: &mut Command) -> Result<String, String> {
    let words = format!("{command:?}");
    let output = command
        .output()
        .map_err(|error| format!("{words}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{words}: {}\n{}", output.status, errors.trim_end()))
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_the_one_that_the_package_depends_on() {
        let depends =
            "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Suggests: other\n";
        assert_eq!(kernel_package(depends), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(kernel_package("linux-image-amd64\n  Depends: <x>\n"), None);
    }

    /// Output of a virtual machine in which the link `far` has this round-trip time.
    fn output(far_us: f64) -> String {
        let mut text = "\u{1b}c== kernel 6.1.0\r\nbooting\r\n== status 1\r\n".to_owned();
        for variant in ["near", "far", "even", "rough"] {
            let round_trip = match variant {
                "near" => 150.0,
                "far" => far_us,
                _ => 101_000.0,
            };
            let files = [
                (
                    "trial",
                    serde_json::json!({"values": {"link_round_trip_us": round_trip}}),
                ),
                (
                    "record",
                    serde_json::json!({"connect_time_us": {"p50": round_trip}, "totals": {"ok": 9}}),
                ),
            ];
            for (name, value) in files {
                let content = format!("{value:#}").replace('\n', "\r\n");
                text.push_str(&format!(
                    "== file trials/1-{variant}/{name}.json\r\n{content}\r\n== end of file\r\n"
                ));
            }
        }
        text
    }

    #[test]
    fn a_link_without_its_delay_fails() {
        let judged = |far_us| {
            let figures = figures(&Results::read(&output(far_us)).unwrap()).unwrap();
            let failed = figures.iter().filter(|it| it.holds == Some(false));
            failed.map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(judged(100_300.0), Vec::<String>::new());
        assert_eq!(
            judged(50_300.0),
            ["round trip of far", "TCP connect of far"]
        );
    }

    #[test]
    fn a_machine_that_does_not_finish_is_an_error() {
        let error = Results::read("booting\nKernel panic\n").unwrap_err();
        assert!(error.contains("Kernel panic"), "{error}");
        let refused = output(1.0).replace("== status 1", "== status 2");
        assert!(Results::read(&refused).is_err());
    }
}
