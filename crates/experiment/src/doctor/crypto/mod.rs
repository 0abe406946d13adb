//! Which cryptography a server really runs, and how fast that is on this machine.
//!
//! Enters: a process, or a library's file. Leaves: the mapped library, what it says of its version
//! and its build, and its speed with the processor's instructions for AES and with those masked,
//! both measured on that very file in a child process. A library that is no faster with them does
//! not use them, whatever its version says; one that is faster may still run masked, which is seen
//! in the server's memory.

mod child;
mod lines;
mod mapped;
mod memory;
mod probe;
mod traces;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use procfs::process::{MemoryMap, Process};
use prony_record::{Finding, FindingId, Severity};
use serde::{Serialize, Serializer};

use super::ProcessError;
use super::line::Unknown;
use super::process::{Server, is_ours};
use probe::Answer;

pub use child::{MASK, run_if_asked};
pub(super) use lines::lines;
pub use mapped::{Mapped, Part};
pub use traces::Trace;

/// With the instructions for AES in use, AES-128-GCM runs at least so many times faster than
/// without. Real processors give 4 to 30; a library that doesn't know them gives 1.
const LEAST_RATIO: f64 = 2.0;
/// Rounds of children; the best of each state counts.
const ROUNDS: usize = 2;
/// Bits of the first word of OPENSSL_ia32cap(3).
const AES_NI: u64 = 1 << 57;
const PCLMULQDQ: u64 = 1 << 33;

/// What is known of a server's cryptography, or of a library's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crypto {
    /// The libcrypto that was measured; `None` where the process maps none, or it can't be told.
    pub library: Option<PathBuf>,
    /// Every mapped library that has to do with TLS.
    pub mapped: Vec<Mapped>,
    /// Signs of libraries within the executable, looked for where no libcrypto is mapped.
    pub traces: Vec<Trace>,
    /// What the libcrypto says of itself.
    pub version: Option<String>,
    /// How it was built.
    pub build: Build,
    /// What the process's environment says of the mask, if it may be read and still stands there.
    pub environment: Option<String>,
    /// The processor's abilities as this library sees them here, as words of OPENSSL_ia32cap(3);
    /// as texts in hexadecimal in JSON, whose numbers end at 2⁵³ for many readers.
    #[serde(serialize_with = "in_hexadecimal")]
    pub capabilities: Vec<u64>,
    /// The same in the server's own memory; `None` where that could not be read.
    #[serde(serialize_with = "in_hexadecimal_if_any")]
    pub capabilities_in_process: Option<Vec<u64>>,
    /// Speed by algorithm.
    pub speeds: Vec<Speed>,
    /// AES-128-GCM with the processor's instructions over the same with them masked.
    pub ratio: Option<f64>,
    /// Cycles of the processor for each byte of AES-128-GCM, at the frequency that it reports now:
    /// about 0.3 to 1.5 with its instructions, 8 and more without. It supports the ratio, and stands
    /// alone where a library reads no mask.
    pub cycles_per_byte: Option<f64>,
    /// What the ratio says.
    pub acceleration: Acceleration,
    /// What could not be found out.
    pub unknown: Vec<Unknown>,
}

/// How a libcrypto was built, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Build {
    /// The compiler's command line.
    pub compiler: Option<String>,
    /// When.
    pub built_on: Option<String>,
    /// For which platform.
    pub platform: Option<String>,
    /// What it says of the processor.
    pub cpu_info: Option<String>,
    /// Whether assembly was built in, as far as the above tells.
    pub assembly: Option<bool>,
}

/// The speed of one algorithm: bytes or operations a second, by state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speed {
    /// `aes-128-gcm`, `aes-256-gcm`, `aes-128-cbc`, `sha-256` (records of 16 KiB), `x25519-derive`,
    /// `p256-derive`, `p256-sign`.
    pub algorithm: String,
    /// `bytes/s` or `operations/s`.
    pub unit: &'static str,
    /// With all that the processor has.
    pub on: Option<f64>,
    /// With [`MASK`].
    pub masked: Option<f64>,
    /// With what the server's memory or environment says, where that differs from the processor's.
    pub as_server: Option<f64>,
}

/// Whether the processor's instructions for AES are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// They are.
    Used,
    /// The library could, and this process runs with them masked.
    Masked,
    /// The library doesn't use them.
    NotUsed,
    /// This processor has none, as far as it tells.
    NotOnThisProcessor,
    /// It could not be found out.
    Unknown,
}

/// Why nothing at all can be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CryptoError {
    /// There is no such process, or none that could be a server.
    Process(ProcessError),
    /// Its memory map may not be read.
    Hidden {
        /// The process.
        pid: i32,
        /// The system's words.
        why: String,
    },
    /// The file can't be opened.
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
}

impl fmt::Display for CryptoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CryptoError::Process(error) => error.fmt(f),
            CryptoError::Hidden { pid, why } => write!(
                f,
                "the libraries of process {pid} can't be read ({why}); run it as root or as the \
                 process's user"
            ),
            CryptoError::File { path, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for CryptoError {}

impl Crypto {
    fn new() -> Crypto {
        Crypto {
            library: None,
            mapped: Vec::new(),
            traces: Vec::new(),
            version: None,
            build: Build::default(),
            environment: None,
            capabilities: Vec::new(),
            capabilities_in_process: None,
            speeds: Vec::new(),
            ratio: None,
            cycles_per_byte: None,
            acceleration: Acceleration::Unknown,
            unknown: Vec::new(),
        }
    }

    /// The finding of an experiment whose service runs like this; `None` unless it is unaccelerated.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let text = lines::unaccelerated(self)?;
        Some(Finding::new(
            FindingId::CryptoUnaccelerated,
            Severity::Warning,
            text,
        ))
    }

    /// The speed of one algorithm.
    #[must_use]
    pub fn speed(&self, algorithm: &str) -> Option<&Speed> {
        self.speeds
            .iter()
            .find(|speed| speed.algorithm == algorithm)
    }

    fn unknown(&mut self, what: &str, why: impl Into<String>) {
        self.unknown.push(Unknown::new(what, why));
    }

    /// Measures the library in each state, and says what comes out. `in_process` reads the words
    /// about the processor where the answer says they lie.
    fn measure(
        &mut self,
        library: &File,
        ours: bool,
        in_process: impl FnOnce(&Answer) -> Option<Vec<u64>>,
    ) {
        let on = match child::try_library(library, ours, None) {
            Ok(answer) => answer,
            Err(why) => return self.unknown("version, build and speed of its libcrypto", why),
        };
        self.describe(&on);
        // The library sets a bit of them when it is loaded, whatever the processor.
        let words = in_process(&on);
        self.capabilities_in_process = words.filter(|words| words.iter().any(|word| *word != 0));
        let as_server = self.server_mask();
        let mut states = vec![(None, vec![on]), (Some(MASK.1.to_owned()), Vec::new())];
        states.extend(as_server.map(|mask| (Some(mask), Vec::new())));
        for round in 0..ROUNDS {
            for (mask, answers) in &mut states {
                if answers.len() > round {
                    continue;
                }
                match child::try_library(library, ours, mask.as_deref()) {
                    Ok(answer) => answers.push(answer),
                    Err(why) => return self.unknown("speed of its libcrypto", why),
                }
            }
        }
        let best = |state: usize, algorithm: &str| {
            let answers = states.get(state)?.1.iter();
            let rates = answers.filter_map(|answer| rate(answer, algorithm));
            rates.reduce(f64::max)
        };
        let names = states[0].1[0].speeds.iter().map(|(name, _)| name.clone());
        self.speeds = names
            .map(|algorithm| Speed {
                unit: match algorithm.starts_with("aes") || algorithm.starts_with("sha") {
                    true => "bytes/s",
                    false => "operations/s",
                },
                on: best(0, &algorithm),
                masked: best(1, &algorithm),
                as_server: best(2, &algorithm),
                algorithm,
            })
            .collect();
        self.judge();
    }

    fn describe(&mut self, answer: &Answer) {
        self.version.clone_from(&answer.version);
        self.capabilities = answer.words();
        self.build = Build {
            compiler: answer.compiler.clone(),
            built_on: answer.built_on.clone(),
            platform: answer.platform.clone(),
            cpu_info: answer.cpu_info.clone(),
            assembly: assembly(answer),
        };
    }

    /// The value of the mask's variable that makes a child see what the server sees, where that is
    /// not the processor as it is.
    fn server_mask(&self) -> Option<String> {
        match &self.capabilities_in_process {
            Some(words) if *words == self.capabilities => None,
            Some(words) => {
                // What is missing is masked: a library refuses words that claim more than there is.
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
        self.acceleration = if ratio >= LEAST_RATIO {
            match over_masked(as_server) {
                Some(server) if server < LEAST_RATIO => Acceleration::Masked,
                _ => Acceleration::Used,
            }
        } else if !processor_has_aes() {
            Acceleration::NotOnThisProcessor
        } else if version.starts_with("LibreSSL") {
            // It doesn't read the variable: both states are the same one.
            self.ratio = None;
            self.unknown(
                "whether it uses the processor's instructions for AES",
                "LibreSSL can't be told to leave them out; see the speed itself",
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

fn rate(answer: &Answer, algorithm: &str) -> Option<f64> {
    let speed = answer.speeds.iter().find(|(name, _)| name == algorithm);
    speed.map(|(_, rate)| *rate)
}

/// Whether a libcrypto has assembly, by what it says: from 3.0 on the processor's abilities are
/// there only with it; before, the compiler's command line named each part (`-DAESNI_ASM`).
fn assembly(answer: &Answer) -> Option<bool> {
    if !answer.version.as_deref()?.starts_with("OpenSSL ") {
        return None;
    }
    match (&answer.cpu_info, &answer.compiler) {
        (Some(info), _) => Some(!info.ends_with("N/A")),
        (None, Some(compiler)) => {
            Some(compiler.contains("AES_ASM") || compiler.contains("AESNI_ASM"))
        }
        (None, None) => None,
    }
}

/// The processor's frequency now, where it tells.
fn hertz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, mhz) = pairs.find(|(key, _)| key.trim() == "cpu MHz")?;
    Some(mhz.trim().parse::<f64>().ok()? * 1e6)
}

/// Whether the processor has instructions for AES and for GCM's multiplication.
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

/// The cryptography of a running process. It takes a few seconds of one core.
///
/// # Errors
/// No such process, or its map may not be read. Whatever else can't be found out is in
/// [`Crypto::unknown`].
pub fn of_pid(pid: i32) -> Result<Crypto, CryptoError> {
    let server = Server::of(pid).map_err(CryptoError::Process)?;
    of_server(&server)
}

pub(super) fn of_server(server: &Server) -> Result<Crypto, CryptoError> {
    let hidden = |error: procfs::ProcError| CryptoError::Hidden {
        pid: server.pid,
        why: match error {
            procfs::ProcError::PermissionDenied(_) => "permission denied".to_owned(),
            other => other.to_string(),
        },
    };
    let process = Process::new(server.pid).map_err(hidden)?;
    let maps: Vec<MemoryMap> = process.maps().map_err(hidden)?.into_iter().collect();
    let mut crypto = Crypto::new();
    crypto.mapped = mapped::libraries(&maps);
    let mut variables = process.environ().unwrap_or_default();
    // nginx writes over its environment: nothing but zeroes is left there.
    let environment_tells = variables.keys().any(|name| !name.is_empty());
    let value = variables.remove(OsStr::new(MASK.0));
    crypto.environment = value.map(|value| value.to_string_lossy().into_owned());
    let library = crypto
        .mapped
        .iter()
        .find(|library| library.part == Part::Crypto);
    let Some(library) = library.cloned() else {
        without_library(&mut crypto, server);
        return Ok(crypto);
    };
    crypto.library = Some(library.path.clone());
    let file = match library.open(server) {
        Ok(file) => file,
        Err(error) => {
            let why = format!("{} can't be opened: {error}", library.path.display());
            crypto.unknown("version, build and speed of its libcrypto", why);
            return Ok(crypto);
        }
    };
    let ours = is_ours(&file, server.same_files);
    crypto.measure(&file, ours, |answer| {
        let layout = memory::layout(&maps, library.file)?;
        memory::read_words(server.pid, &layout, answer.words_at?, answer.words().len())
    });
    if crypto.capabilities_in_process.is_none()
        && !environment_tells
        && crypto.build.assembly != Some(false)
        && crypto.version.is_some()
    {
        let why = "neither its memory nor its environment tells";
        crypto.unknown(&format!("whether this process runs with {}", MASK.0), why);
        if crypto.acceleration == Acceleration::Used {
            crypto.acceleration = Acceleration::Unknown;
        }
    }
    Ok(crypto)
}

/// The cryptography of a libcrypto's file. It runs as the user that prony is: name files that you
/// trust.
///
/// # Errors
/// The file can't be opened.
pub fn of_file(path: &Path) -> Result<Crypto, CryptoError> {
    let file = File::open(path).map_err(|error| CryptoError::File {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    let mut crypto = Crypto::new();
    crypto.library = Some(path.to_owned());
    crypto.measure(&file, true, |_| None);
    Ok(crypto)
}

/// What can be said of a process that maps no libcrypto.
fn without_library(crypto: &mut Crypto, server: &Server) {
    let others = crypto
        .mapped
        .iter()
        .filter(|library| library.part == Part::Other);
    let names: Vec<String> = others
        .map(|library| library.path.display().to_string())
        .collect();
    if !names.is_empty() {
        let why = format!(
            "only libcrypto is measured, and it has mapped {}",
            names.join(", ")
        );
        crypto.unknown("speed of its cryptography", why);
        return;
    }
    let executable = File::open(format!("/proc/{}/exe", server.pid)).map_err(|e| e.to_string());
    match executable.and_then(|file| traces::traces(&file)) {
        Err(why) => crypto.unknown("whether cryptography is built into the program", why),
        Ok(found) if found.is_empty() => {}
        Ok(found) => {
            let names: Vec<String> = found.iter().map(|trace| trace.text.clone()).collect();
            let why = format!(
                "it is built into the program ({}), where it can't be called from outside",
                names.join("; ")
            );
            crypto.traces = found;
            crypto.unknown("speed of its cryptography", why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(version: &str, compiler: &str, cpu_info: Option<&str>) -> Answer {
        Answer {
            version: Some(version.to_owned()),
            compiler: Some(compiler.to_owned()),
            cpu_info: cpu_info.map(str::to_owned),
            ..Answer::default()
        }
    }

    #[test]
    fn a_build_without_assembly_is_known_by_its_words() {
        let of = |version, compiler, info| assembly(&answer(version, compiler, info));
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

    fn measured(on: f64, masked: f64, as_server: Option<f64>) -> Crypto {
        let mut crypto = Crypto::new();
        crypto.version = Some("OpenSSL 3.0.17".to_owned());
        crypto.library = Some("/lib/libcrypto.so.3".into());
        crypto.speeds.push(Speed {
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
    fn the_ratio_and_the_server_s_own_state_decide() {
        let of = |on, masked, server| measured(on, masked, server).acceleration;
        assert_eq!(of(8e9, 5e8, None), Acceleration::Used);
        assert_eq!(of(8e9, 5e8, Some(5.1e8)), Acceleration::Masked);
        assert_eq!(of(8e9, 5e8, Some(7e9)), Acceleration::Used);
        let without = match processor_has_aes() {
            true => Acceleration::NotUsed,
            false => Acceleration::NotOnThisProcessor,
        };
        assert_eq!(of(1.1e8, 1e8, None), without);
    }

    #[test]
    fn only_what_is_unaccelerated_is_a_finding() {
        let finding = measured(8e9, 5e8, Some(5e8)).finding().unwrap();
        assert_eq!(finding.id, FindingId::CryptoUnaccelerated);
        assert!(
            finding.text.contains("/lib/libcrypto.so.3"),
            "{}",
            finding.text
        );
        assert_eq!(measured(8e9, 5e8, None).finding(), None);
    }

    #[test]
    fn a_server_s_words_become_the_mask_of_a_child() {
        let mut crypto = Crypto::new();
        crypto.capabilities = vec![0xff, 0xf];
        crypto.environment = Some("~0x1".to_owned());
        assert_eq!(crypto.server_mask().as_deref(), Some("~0x1"));
        crypto.capabilities_in_process = Some(vec![0xf1, 0x0]);
        assert_eq!(crypto.server_mask().as_deref(), Some("~0xe:~0xf"));
        crypto.capabilities_in_process = Some(vec![0xff, 0xf]);
        assert_eq!(crypto.server_mask(), None);
    }

    #[test]
    fn what_can_not_be_opened_or_is_no_library_is_said() {
        let error = of_file(Path::new("/no/such")).unwrap_err();
        assert!(error.to_string().starts_with("/no/such: "), "{error}");
        assert!(matches!(of_pid(1 << 30), Err(CryptoError::Process(_))));
    }
}
