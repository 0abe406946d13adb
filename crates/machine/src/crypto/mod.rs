//! The cryptographic library that a server uses, and its speed on this machine.
//!
//! The input is a process. The result contains the mapped library, its version and build, and its
//! speed with and without the processor's AES instructions. A child process loads the library file
//! and measures both speeds. A library that is equally fast with and without the instructions
//! doesn't use them. A library that is faster with them may still run with the instructions masked
//! in the server; the server's memory shows this.

mod built_in;
mod child;
mod libraries;
mod memory;
mod probe;
mod process_files;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use procfs::process::{MemoryMap, Process};
use prony_record::finding::{CryptoUnaccelerated, LibrarySpeed, MaskEvidence, MaskedInstructions};
use prony_record::{Finding, Severity};
use serde::{Serialize, Serializer};

use crate::undetermined::Undetermined;
use probe::ProbeResult;

pub use built_in::BuiltInLibrary;
pub use child::{MASK, run_if_asked};
pub use libraries::{LibraryKind, MappedLibrary};
pub(crate) use process_files::{ProcessFiles, without_deleted_mark};

/// Minimum speedup of AES-128-GCM at which a library counts as using the AES instructions. The
/// speedup is 4 to 30 on real processors, and 1 for a library that doesn't use the instructions.
const ACCELERATION_RATIO_MIN: f64 = 2.0;
/// Number of child processes that measure a library with each mask. The fastest result counts.
const PROBE_ROUNDS: usize = 2;
/// Bit of AES-NI in the first word of OPENSSL_ia32cap(3).
pub(crate) const AES_NI: u64 = 1 << 57;
/// Bit of PCLMULQDQ in the first word of OPENSSL_ia32cap(3).
pub(crate) const PCLMULQDQ: u64 = 1 << 33;

/// Cryptography of a server or of a library file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CryptoReport {
    /// The libcrypto that was measured; `None` if the process maps none.
    pub library: Option<PathBuf>,
    /// Mapped libraries that are related to TLS.
    pub mapped: Vec<MappedLibrary>,
    /// Libraries that are built into the executable. The executable is searched only if the process
    /// maps no libcrypto.
    #[serde(rename = "traces")]
    pub built_in: Vec<BuiltInLibrary>,
    /// Version that the libcrypto reports.
    pub version: Option<String>,
    /// Properties of the library's build.
    pub build: CryptoBuild,
    /// Value of the mask variable (see [`MASK`]) in the process's environment, if the environment
    /// can be read.
    pub environment: Option<String>,
    /// Processor capabilities that the library detects, as words of OPENSSL_ia32cap(3). In JSON,
    /// they are hexadecimal strings, because many parsers can't represent integers above 2⁵³.
    #[serde(serialize_with = "in_hexadecimal")]
    pub capabilities: Vec<u64>,
    /// Processor capabilities in the server's memory, in the same form as `capabilities`; `None` if
    /// they can't be read.
    #[serde(serialize_with = "in_hexadecimal_if_any")]
    pub capabilities_in_process: Option<Vec<u64>>,
    /// Measured speeds, one per algorithm.
    pub speeds: Vec<AlgorithmSpeed>,
    /// Speed of AES-128-GCM with AES instructions, divided by its speed without them.
    pub ratio: Option<f64>,
    /// Processor cycles per byte of AES-128-GCM at the current frequency: about 0.3 to 1.5 with AES
    /// instructions, 8 or more without. If the library ignores the mask, this number is the only
    /// evidence of acceleration.
    pub cycles_per_byte: Option<f64>,
    /// Conclusion about the server's use of AES instructions.
    pub acceleration: Acceleration,
    /// Properties that could not be determined.
    #[serde(rename = "unknown")]
    pub undetermined: Vec<Undetermined>,
}

/// Properties of a libcrypto's build, as the library reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CryptoBuild {
    /// Command line of the compiler that built the library.
    pub compiler: Option<String>,
    /// Date of the build, as reported by the library.
    pub built_on: Option<String>,
    /// The platform that the library was configured for.
    pub platform: Option<String>,
    /// Processor information that the library prints, such as `CPUINFO: OPENSSL_ia32cap=…`.
    pub cpu_info: Option<String>,
    /// True if the library contains assembly code; `None` if unknown.
    pub assembly: Option<bool>,
}

/// Speed of one algorithm in bytes or operations per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AlgorithmSpeed {
    /// Name of the algorithm: `aes-128-gcm`, `aes-256-gcm`, `aes-128-cbc` and `sha-256` (all with
    /// records of 16 KiB), `x25519-derive`, `p256-derive` or `p256-sign`.
    pub algorithm: String,
    /// Unit of the speeds: `bytes/s` or `operations/s`.
    pub unit: &'static str,
    /// Speed with all processor instructions.
    pub on: Option<f64>,
    /// Speed with the AES instructions masked by [`MASK`].
    pub masked: Option<f64>,
    /// Speed with the mask of the server; `None` if the server masks nothing.
    pub as_server: Option<f64>,
}

/// Use of the processor's AES instructions by a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// The server uses the AES instructions.
    Used,
    /// The library supports the AES instructions, but they are masked in the process.
    Masked,
    /// The library doesn't use the AES instructions.
    NotUsed,
    /// The processor has no AES instructions.
    NotOnThisProcessor,
    /// It could not be determined if the server uses the AES instructions.
    #[default]
    Unknown,
}

/// Reason why the cryptography of a process can't be examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CryptoError {
    /// No process has this ID.
    Missing(i32),
    /// The process's memory map can't be read.
    Hidden {
        /// Process ID.
        pid: i32,
        /// Error message from the operating system.
        why: String,
    },
}

impl fmt::Display for CryptoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CryptoError::Missing(pid) => write!(f, "there is no process {pid}"),
            CryptoError::Hidden { pid, why } => write!(
                f,
                "the libraries of process {pid} can't be read ({why}); run prony as root or as \
                 the process's user"
            ),
        }
    }
}

impl std::error::Error for CryptoError {}

impl CryptoReport {
    /// Returns a finding for an experiment; `None` unless the service is known to run without
    /// acceleration.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        Some(Finding::of(Severity::Warning, &self.unaccelerated()?))
    }

    /// Returns the figures of a server or library that encrypts without the AES instructions;
    /// `None` if it uses them or if their use is unknown.
    pub(crate) fn unaccelerated(&self) -> Option<CryptoUnaccelerated> {
        let mask = match self.acceleration {
            Acceleration::NotUsed => None,
            Acceleration::Masked => Some(MaskedInstructions {
                evidence: self.mask_evidence(),
                bytes_per_s: self.speed("aes-128-gcm")?.as_server?,
            }),
            _ => return None,
        };
        Some(CryptoUnaccelerated {
            library: self.library_speed(),
            assembly: self.build.assembly,
            mask,
        })
    }

    /// Returns the library with its speeds.
    pub(crate) fn library_speed(&self) -> LibrarySpeed {
        let path = self.library.as_deref();
        let speed = self.speed("aes-128-gcm");
        LibrarySpeed {
            path: path.map(|path| path.display().to_string()),
            version: self.version.clone(),
            on: speed.and_then(|speed| speed.on),
            masked: speed.and_then(|speed| speed.masked),
            ratio: self.ratio,
            cycles_per_byte: self.cycles_per_byte,
        }
    }

    /// Returns the evidence that AES instructions are masked.
    pub(crate) fn mask_evidence(&self) -> MaskEvidence {
        let Some(words) = &self.capabilities_in_process else {
            let value = self.environment.as_deref().unwrap_or("?");
            return MaskEvidence::Environment(format!("{}={value}", MASK.0));
        };
        let lost = self.capabilities.first().unwrap_or(&0) & !words.first().unwrap_or(&0);
        let groups = [(AES_NI, "AES-NI"), (PCLMULQDQ, "PCLMULQDQ")];
        let missing = groups.into_iter().filter(|(bit, _)| lost & bit != 0);
        MaskEvidence::Memory(missing.map(|(_, name)| name.to_owned()).collect())
    }

    /// Returns the speed of one algorithm.
    #[must_use]
    pub fn speed(&self, algorithm: &str) -> Option<&AlgorithmSpeed> {
        self.speeds
            .iter()
            .find(|speed| speed.algorithm == algorithm)
    }

    fn add_undetermined(&mut self, subject: &str, reason: impl ToString) {
        let reason = reason.to_string();
        self.undetermined.push(Undetermined::new(subject, reason));
    }

    /// Measures the library with each mask, and concludes from the speeds if the server uses AES
    /// instructions. `in_process` receives a probe result, which contains the offset of the
    /// capability words, and reads these words from the server's memory.
    fn measure(
        &mut self,
        library: &File,
        trusted: bool,
        in_process: impl FnOnce(&ProbeResult) -> Option<Vec<u64>>,
    ) {
        let on = match child::probe_in_child(library, trusted, None) {
            Ok(result) => result,
            Err(why) => {
                return self.add_undetermined("version, build and speed of libcrypto", why);
            }
        };
        self.describe(&on);
        // A loaded library always sets at least one capability bit, so words that are all zero are
        // not valid.
        let words = in_process(&on);
        self.capabilities_in_process = words.filter(|words| words.iter().any(|word| *word != 0));
        let as_server = self.server_mask();
        let mut states = vec![(None, vec![on]), (Some(MASK.1.to_owned()), Vec::new())];
        states.extend(as_server.map(|mask| (Some(mask), Vec::new())));
        for round in 0..PROBE_ROUNDS {
            for (mask, results) in &mut states {
                if results.len() > round {
                    continue;
                }
                match child::probe_in_child(library, trusted, mask.as_deref()) {
                    Ok(result) => results.push(result),
                    Err(why) => return self.add_undetermined("speed of libcrypto", why),
                }
            }
        }
        let best = |state: usize, algorithm: &str| {
            let results = states.get(state)?.1.iter();
            let rates = results.filter_map(|result| rate(result, algorithm));
            rates.reduce(f64::max)
        };
        let names = states[0].1[0].speeds.iter().map(|(name, _)| name.clone());
        self.speeds = names
            .map(|algorithm| AlgorithmSpeed {
                unit: if algorithm.starts_with("aes") || algorithm.starts_with("sha") {
                    "bytes/s"
                } else {
                    "operations/s"
                },
                on: best(0, &algorithm),
                masked: best(1, &algorithm),
                as_server: best(2, &algorithm),
                algorithm,
            })
            .collect();
        self.judge();
    }

    fn describe(&mut self, result: &ProbeResult) {
        self.version.clone_from(&result.version);
        self.capabilities = result.words();
        self.build = CryptoBuild {
            compiler: result.compiler.clone(),
            built_on: result.built_on.clone(),
            platform: result.platform.clone(),
            cpu_info: result.cpu_info.clone(),
            assembly: assembly(result),
        };
    }

    /// Returns the value of the mask variable that gives a child process the same capabilities as
    /// the server; `None` if the server has all capabilities of the processor.
    fn server_mask(&self) -> Option<String> {
        match &self.capabilities_in_process {
            Some(words) if *words == self.capabilities => None,
            Some(words) => {
                // Mask only the capabilities that the server lacks. The library ignores mask bits
                // for capabilities that the processor lacks.
                let pairs = self.capabilities.iter().zip(words);
                let masks: Vec<String> = pairs
                    .map(|(all, left)| format!("~{:#x}", all & !left))
                    .collect();
                Some(masks.join(":"))
            }
            None => self.environment.clone(),
        }
    }

    fn judge(&mut self) {
        let Some(aes) = self.speed("aes-128-gcm") else {
            return;
        };
        let (on, masked, as_server) = (aes.on, aes.masked, aes.as_server);
        let over_masked = |rate: Option<f64>| Some(rate? / masked?);
        self.ratio = over_masked(on);
        self.cycles_per_byte = on.zip(hertz()).map(|(rate, hertz)| hertz / rate);
        let Some(ratio) = self.ratio else { return };
        let version = self.version.clone().unwrap_or_default();
        self.acceleration = if ratio >= ACCELERATION_RATIO_MIN {
            match over_masked(as_server) {
                Some(server) if server < ACCELERATION_RATIO_MIN => Acceleration::Masked,
                _ => Acceleration::Used,
            }
        } else if !processor_has_aes() {
            Acceleration::NotOnThisProcessor
        } else if version.starts_with("LibreSSL") {
            // LibreSSL ignores the mask variable, so both measurements were unmasked.
            self.ratio = None;
            self.add_undetermined(
                "use of the processor's AES instructions",
                "LibreSSL can't disable them for a comparison; compare its speed with other \
                    libraries'",
            );
            Acceleration::Unknown
        } else {
            Acceleration::NotUsed
        };
    }
}

fn in_hexadecimal<S: Serializer>(words: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| format!("{word:#x}")))
}

fn in_hexadecimal_if_any<S: Serializer>(
    words: &Option<Vec<u64>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match words {
        Some(words) => in_hexadecimal(words, serializer),
        None => serializer.serialize_none(),
    }
}

fn rate(result: &ProbeResult, algorithm: &str) -> Option<f64> {
    let speed = result.speeds.iter().find(|(name, _)| name == algorithm);
    speed.map(|(_, rate)| *rate)
}

/// Returns true if a libcrypto has assembly code. Since OpenSSL 3.0, only builds with assembly
/// report processor capabilities. In earlier versions, the compiler's command line lists each part
/// that is written in assembly (`-DAESNI_ASM`).
fn assembly(result: &ProbeResult) -> Option<bool> {
    if !result.version.as_deref()?.starts_with("OpenSSL ") {
        return None;
    }
    match (&result.cpu_info, &result.compiler) {
        (Some(info), _) => Some(!info.ends_with("N/A")),
        (None, Some(compiler)) => {
            Some(compiler.contains("AES_ASM") || compiler.contains("AESNI_ASM"))
        }
        (None, None) => None,
    }
}

/// Returns the current frequency of the processor in hertz, if the system reports it.
fn hertz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, mhz) = pairs.find(|(key, _)| key.trim() == "cpu MHz")?;
    Some(mhz.trim().parse::<f64>().ok()? * 1e6)
}

/// Returns true if the processor has AES instructions.
fn processor_has_aes() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| matches!(key.trim(), "flags" | "Features"))
        .map(|(_, flags)| flags.split_whitespace());
    flags
        .next()
        .is_some_and(|mut flags| flags.any(|flag| flag == "aes"))
}

/// Examines the cryptography of a running process. This takes a few seconds of CPU time.
///
/// # Errors
/// The process does not exist, or its memory map can't be read. Everything else that can't be
/// determined is in [`CryptoReport::undetermined`].
pub fn of_pid(pid: i32) -> Result<CryptoReport, CryptoError> {
    of_process(&ProcessFiles::of(pid))
}

/// Examines the cryptography of a process, given access to its files.
pub(crate) fn of_process(files: &ProcessFiles) -> Result<CryptoReport, CryptoError> {
    let hidden = |error: procfs::ProcError| CryptoError::Hidden {
        pid: files.pid,
        why: match error {
            procfs::ProcError::PermissionDenied(_) => "permission denied".to_owned(),
            other => other.to_string(),
        },
    };
    let process = Process::new(files.pid).map_err(|_| CryptoError::Missing(files.pid))?;
    let maps: Vec<MemoryMap> = process.maps().map_err(hidden)?.into_iter().collect();
    let mut variables = process.environ().unwrap_or_default();
    // nginx overwrites its environment with a process title, after which the environment contains
    // only empty names.
    let environment_is_intact = variables.keys().any(|name| !name.is_empty());
    let value = variables.remove(OsStr::new(MASK.0));
    let mut crypto = CryptoReport {
        mapped: libraries::libraries(&maps),
        environment: value.map(|value| value.to_string_lossy().into_owned()),
        ..CryptoReport::default()
    };
    let library = crypto
        .mapped
        .iter()
        .find(|library| library.kind == LibraryKind::Crypto);
    let Some(library) = library.cloned() else {
        without_library(&mut crypto, files);
        return Ok(crypto);
    };
    crypto.library = Some(library.path.clone());
    let file = match library.open(files) {
        Ok(file) => file,
        Err(error) => {
            let why = format!("{} can't be opened: {error}", library.path.display());
            crypto.add_undetermined("version, build and speed of libcrypto", why);
            return Ok(crypto);
        }
    };
    let trusted = files.is_trusted(&file);
    crypto.measure(&file, trusted, |result| {
        let layout = memory::layout(&maps, library.file)?;
        memory::read_words(
            files.pid,
            &layout,
            result.words_offset?,
            result.words().len(),
        )
    });
    if crypto.capabilities_in_process.is_none()
        && !environment_is_intact
        && crypto.build.assembly != Some(false)
        && crypto.version.is_some()
    {
        let why = "neither the process's memory nor its environment shows the mask";
        crypto.add_undetermined(&format!("the value of {} for this process", MASK.0), why);
        if crypto.acceleration == Acceleration::Used {
            crypto.acceleration = Acceleration::Unknown;
        }
    }
    Ok(crypto)
}

/// Completes the report on a process that maps no libcrypto.
fn without_library(crypto: &mut CryptoReport, files: &ProcessFiles) {
    let others = crypto
        .mapped
        .iter()
        .filter(|library| library.kind == LibraryKind::Other);
    let names: Vec<String> = others
        .map(|library| library.path.display().to_string())
        .collect();
    if !names.is_empty() {
        let why = format!(
            "only libcrypto can be measured, but the process maps {}",
            names.join(", ")
        );
        crypto.add_undetermined("cryptography speed", why);
        return;
    }
    let executable = File::open(format!("/proc/{}/exe", files.pid));
    match executable.and_then(|file| built_in::built_in_libraries(&file)) {
        Err(why) => crypto.add_undetermined("cryptography that is built into the program", why),
        Ok(found) if found.is_empty() => {}
        Ok(found) => {
            let names: Vec<String> = found.iter().map(|library| library.text.clone()).collect();
            let why = format!(
                "the library is built into the program ({}) and can't be called from outside",
                names.join("; ")
            );
            crypto.built_in = found;
            crypto.add_undetermined("cryptography speed", why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(version: &str, compiler: &str, cpu_info: Option<&str>) -> ProbeResult {
        ProbeResult {
            version: Some(version.to_owned()),
            compiler: Some(compiler.to_owned()),
            cpu_info: cpu_info.map(str::to_owned),
            ..ProbeResult::default()
        }
    }

    #[test]
    fn a_build_without_assembly_is_recognized() {
        let of = |version, compiler, info| assembly(&result(version, compiler, info));
        assert_eq!(
            of("OpenSSL 3.0.17", "gcc", Some("CPUINFO: N/A")),
            Some(false)
        );
        let with = Some("CPUINFO: OPENSSL_ia32cap=0x1:0x2");
        assert_eq!(of("OpenSSL 3.0.17", "gcc", with), Some(true));
        assert_eq!(of("OpenSSL 1.1.1n", "gcc -DAESNI_ASM", None), Some(true));
        assert_eq!(of("OpenSSL 1.1.1n", "gcc -O3", None), Some(false));
        assert_eq!(of("LibreSSL 3.8.2", "clang", None), None);
    }

    fn measured(on: f64, masked: f64, as_server: Option<f64>) -> CryptoReport {
        let mut crypto = CryptoReport {
            version: Some("OpenSSL 3.0.17".to_owned()),
            library: Some("/lib/libcrypto.so.3".into()),
            ..CryptoReport::default()
        };
        crypto.speeds.push(AlgorithmSpeed {
            algorithm: "aes-128-gcm".to_owned(),
            unit: "bytes/s",
            on: Some(on),
            masked: Some(masked),
            as_server,
        });
        crypto.judge();
        crypto
    }

    #[test]
    fn the_conclusion_follows_from_the_ratio_and_the_servers_mask() {
        let of = |on, masked, server| measured(on, masked, server).acceleration;
        assert_eq!(of(8e9, 5e8, None), Acceleration::Used);
        assert_eq!(of(8e9, 5e8, Some(5.1e8)), Acceleration::Masked);
        assert_eq!(of(8e9, 5e8, Some(7e9)), Acceleration::Used);
        let without = if processor_has_aes() {
            Acceleration::NotUsed
        } else {
            Acceleration::NotOnThisProcessor
        };
        assert_eq!(of(1.1e8, 1e8, None), without);
    }

    #[test]
    fn only_missing_acceleration_is_a_finding() {
        let finding = measured(8e9, 5e8, Some(5e8)).finding().unwrap();
        let figures: CryptoUnaccelerated = finding.figures().unwrap();
        assert_eq!(figures.library.path.as_deref(), Some("/lib/libcrypto.so.3"));
        assert_eq!(figures.mask.unwrap().bytes_per_s, 5e8);
        assert_eq!(measured(8e9, 5e8, None).finding(), None);
    }

    #[test]
    fn the_evidence_names_the_missing_instructions() {
        let mut crypto = CryptoReport {
            environment: Some("~0x1".to_owned()),
            ..CryptoReport::default()
        };
        let variable = format!("{}=~0x1", MASK.0);
        assert_eq!(crypto.mask_evidence(), MaskEvidence::Environment(variable));
        crypto.capabilities = vec![u64::MAX, 3];
        crypto.capabilities_in_process = Some(vec![!(AES_NI | PCLMULQDQ), 3]);
        let missing = ["AES-NI", "PCLMULQDQ"].map(str::to_owned).to_vec();
        assert_eq!(crypto.mask_evidence(), MaskEvidence::Memory(missing));
    }

    #[test]
    fn the_servers_capabilities_become_the_mask_of_a_child() {
        let mut crypto = CryptoReport {
            capabilities: vec![0xff, 0xf],
            environment: Some("~0x1".to_owned()),
            ..CryptoReport::default()
        };
        assert_eq!(crypto.server_mask().as_deref(), Some("~0x1"));
        crypto.capabilities_in_process = Some(vec![0xf1, 0x0]);
        assert_eq!(crypto.server_mask().as_deref(), Some("~0xe:~0xf"));
        crypto.capabilities_in_process = Some(vec![0xff, 0xf]);
        assert_eq!(crypto.server_mask(), None);
    }

    #[test]
    fn a_missing_process_is_an_error() {
        assert!(matches!(of_pid(1 << 30), Err(CryptoError::Missing(_))));
    }
}
