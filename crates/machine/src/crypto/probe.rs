//! Code of the child process, which loads a libcrypto, reads its version and measures its speed.
//!
//! A separate process is needed because a library reads the mask from the environment only when it
//! is loaded, and because the code of an untrusted library may do anything.
//!
//! The function signatures follow OpenSSL's manual pages (EVP_EncryptInit(3), EVP_DigestInit(3),
//! EVP_PKEY_derive(3), EVP_PKEY_sign(3), OpenSSL_version(3)), which are the same from 1.1.0 to 3.x.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::Duration;

use libloading::Library;
use serde::{Deserialize, Serialize};

/// Size of a full TLS record in bytes (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// Minimum CPU time of one measurement.
const SLICE_CPU_TIME: Duration = Duration::from_millis(3);
/// Number of measurements per algorithm. The fastest one is used, because disturbances can only
/// slow down a measurement.
const SLICE_COUNT: usize = 12;

/// Key types: EVP_PKEY_X25519 and EVP_PKEY_EC in OpenSSL's obj_mac.h.
const X25519: c_int = 1034;
const EC: c_int = 408;

/// Results of probing a libcrypto: its version, build and speeds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct ProbeResult {
    /// Version, such as `OpenSSL 3.0.17 1 Jul 2025`.
    pub(super) version: Option<String>,
    /// Command line of the compiler that built the library.
    pub(super) compiler: Option<String>,
    /// Date of the build, as reported by the library.
    pub(super) built_on: Option<String>,
    /// Platform that the library was configured for.
    pub(super) platform: Option<String>,
    /// Processor information that the library prints. Since OpenSSL 3.0, a build without assembly
    /// prints `CPUINFO: N/A`.
    pub(super) cpu_info: Option<String>,
    /// Offset of the capability words from the library's lowest address, in bytes.
    pub(super) words_offset: Option<u64>,
    /// Speed of each algorithm in bytes or operations per second. Algorithms that the library lacks
    /// are omitted.
    pub(super) speeds: Vec<(String, f64)>,
}

impl ProbeResult {
    /// Returns the processor capabilities as 64-bit words; empty if they are unknown.
    pub(super) fn words(&self) -> Vec<u64> {
        self.cpu_info.as_deref().map(words).unwrap_or_default()
    }
}

/// Parses the capability words of a line such as `CPUINFO: OPENSSL_ia32cap=0x1:0x2 env:~0x3`.
fn words(cpu_info: &str) -> Vec<u64> {
    let Some((_, rest)) = cpu_info.split_once("OPENSSL_ia32cap=") else {
        return Vec::new();
    };
    let list = rest.split_whitespace().next().unwrap_or_default();
    let words = list
        .split(':')
        .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    words.collect::<Result<_, _>>().unwrap_or_default()
}

/// Reason why a library can't be measured.
#[derive(Debug)]
pub(super) enum LibraryError {
    /// The library can't be loaded.
    NotLoaded(libloading::Error),
    /// The library is not compatible with OpenSSL's libcrypto.
    NotOpenSsl,
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibraryError::NotLoaded(error) => error.fmt(f),
            LibraryError::NotOpenSsl => f.write_str(
                "the library has no function OpenSSL_version, so it is not compatible with \
                 OpenSSL's libcrypto",
            ),
        }
    }
}

/// Loads the library, reads its properties and measures its speeds.
///
/// # Errors
/// The library can't be loaded, or is not a libcrypto.
pub(super) fn probe(file: &Path) -> Result<ProbeResult, LibraryError> {
    // SAFETY: loading runs the library's constructors; this process exists to run such code.
    let library = unsafe { Library::new(file) }.map_err(LibraryError::NotLoaded)?;
    let api = LibcryptoApi { library: &library };
    let mut result = ProbeResult {
        version: api.version_text(0),
        compiler: api.version_text(1),
        built_on: api.version_text(2),
        platform: api.version_text(3),
        cpu_info: api
            .version_text(9)
            .filter(|text| text.starts_with("CPUINFO")),
        ..ProbeResult::default()
    };
    if result.version.is_none() {
        return Err(LibraryError::NotOpenSsl);
    }
    result.words_offset = api.address("OpenSSL_version").and_then(|address| {
        let words = result.words();
        super::memory::find_own(address, &words)
    });
    for (name, cipher) in CIPHERS {
        let rate = api.cipher(cipher).map(|per_s| per_s * RECORD_BYTES as f64);
        result
            .speeds
            .extend(rate.map(|rate| ((*name).to_owned(), rate)));
    }
    let others: [(&str, Option<f64>); 4] = [
        (
            "sha-256",
            api.sha256().map(|per_s| per_s * RECORD_BYTES as f64),
        ),
        ("x25519-derive", api.derive(X25519)),
        ("p256-derive", api.derive(EC)),
        ("p256-sign", api.sign()),
    ];
    for (name, rate) in others {
        result
            .speeds
            .extend(rate.map(|rate| (name.to_owned(), rate)));
    }
    // Keep the library loaded, because its exit handlers run when the process ends.
    std::mem::forget(library);
    Ok(result)
}

/// Ciphers to measure: the name in the report, and the libcrypto function that returns the cipher.
const CIPHERS: &[(&str, &str)] = &[
    ("aes-128-gcm", "EVP_aes_128_gcm"),
    ("aes-256-gcm", "EVP_aes_256_gcm"),
    ("aes-128-cbc", "EVP_aes_128_cbc"),
];

type GetterFn = unsafe extern "C" fn() -> *const c_void;
type NewFn = unsafe extern "C" fn() -> *mut c_void;
type FreeFn = unsafe extern "C" fn(*mut c_void);
type InitFn = unsafe extern "C" fn(*mut c_void) -> c_int;
type NewByIdFn = unsafe extern "C" fn(c_int, *mut c_void) -> *mut c_void;
type NewByKeyFn = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void;
type ControlFn = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int;
type KeygenFn = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int;
type SetPeerFn = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type DeriveFn = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut usize) -> c_int;
type SignFn =
    unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
type EncryptInitFn = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *mut c_void,
    *const c_uchar,
    *const c_uchar,
) -> c_int;
type UpdateFn =
    unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
type DigestFn = unsafe extern "C" fn(
    *const c_void,
    usize,
    *mut c_uchar,
    *mut c_uint,
    *const c_void,
    *mut c_void,
) -> c_int;

/// Functions of the loaded library. Each is looked up when it is used.
struct LibcryptoApi<'l> {
    library: &'l Library,
}

impl LibcryptoApi<'_> {
    /// Looks up a function; `None` if the library lacks it.
    fn get<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: each caller passes the function type from the function's manual page.
        unsafe { self.library.get::<F>(name) }
            .ok()
            .map(|found| *found)
    }

    fn address(&self, name: &str) -> Option<u64> {
        let function: GetterFn = self.get(name)?;
        Some(function as usize as u64)
    }

    /// Calls OpenSSL_version(3), which was named SSLeay_version before OpenSSL 1.1.0.
    fn version_text(&self, number: c_int) -> Option<String> {
        type VersionFn = unsafe extern "C" fn(c_int) -> *const c_char;
        let version: VersionFn = self
            .get("OpenSSL_version")
            .or_else(|| self.get("SSLeay_version"))?;
        // SAFETY: the function takes a number. It returns null, or a string that lives as long as
        // the library.
        let text = unsafe {
            let text = version(number);
            (!text.is_null()).then(|| CStr::from_ptr(text))?
        };
        let text = text.to_string_lossy().trim().to_owned();
        (!text.is_empty() && text != "not available").then_some(text)
    }

    /// Measures the number of records that a cipher encrypts per second.
    fn cipher(&self, name: &str) -> Option<f64> {
        let cipher: GetterFn = self.get(name)?;
        let make: NewFn = self.get("EVP_CIPHER_CTX_new")?;
        let init: EncryptInitFn = self.get("EVP_EncryptInit_ex")?;
        let update: UpdateFn = self.get("EVP_EncryptUpdate")?;
        let free: FreeFn = self.get("EVP_CIPHER_CTX_free")?;
        let (key, iv) = ([7u8; 32], [9u8; 16]);
        let input = vec![1u8; RECORD_BYTES];
        let mut output = vec![0u8; RECORD_BYTES + 64];
        // SAFETY: key and IV have the maximum length for these ciphers. The output has space for
        // the input and one block. The context is freed once, at the end.
        unsafe {
            let context = make();
            if context.is_null() {
                return None;
            }
            let ready = init(context, cipher(), null_mut(), key.as_ptr(), iv.as_ptr()) == 1;
            let rate = ready.then(|| {
                best_rate(|| {
                    let mut written = 0;
                    init(context, null(), null_mut(), null(), iv.as_ptr()) == 1
                        && update(
                            context,
                            output.as_mut_ptr(),
                            &raw mut written,
                            input.as_ptr(),
                            RECORD_BYTES as c_int,
                        ) == 1
                })
            });
            free(context);
            rate.flatten()
        }
    }

    /// Measures the number of records that SHA-256 hashes per second.
    fn sha256(&self) -> Option<f64> {
        let digest: DigestFn = self.get("EVP_Digest")?;
        let sha256: GetterFn = self.get("EVP_sha256")?;
        let input = vec![1u8; RECORD_BYTES];
        let mut output = [0u8; 64];
        best_rate(|| {
            let mut length = 0;
            // SAFETY: the output has space for the longest digest (EVP_MAX_MD_SIZE, 64).
            unsafe {
                digest(
                    input.as_ptr().cast(),
                    input.len(),
                    output.as_mut_ptr(),
                    &raw mut length,
                    sha256(),
                    null_mut(),
                ) == 1
            }
        })
    }

    /// Generates a key of the given type; elliptic curve keys use the curve P-256. The key is not
    /// freed, because the process exits soon.
    fn key(&self, kind: c_int) -> Option<*mut c_void> {
        let by_id: NewByIdFn = self.get("EVP_PKEY_CTX_new_id")?;
        let start: InitFn = self.get("EVP_PKEY_keygen_init")?;
        let generate: KeygenFn = self.get("EVP_PKEY_keygen")?;
        let control: Option<ControlFn> = self.get("EVP_PKEY_CTX_ctrl_str");
        let mut key = null_mut();
        // SAFETY: the context is checked before use, and the strings end with NUL.
        unsafe {
            let context = by_id(kind, null_mut());
            if context.is_null() || start(context) != 1 {
                return None;
            }
            let named = kind != EC
                || control?(context, c"ec_paramgen_curve".as_ptr(), c"P-256".as_ptr()) > 0;
            (named && generate(context, &raw mut key) == 1 && !key.is_null()).then_some(key)
        }
    }

    /// Creates a context for a key and initializes it with the function named `start`.
    fn context(&self, key: *mut c_void, start: &str) -> Option<*mut c_void> {
        let by_key: NewByKeyFn = self.get("EVP_PKEY_CTX_new")?;
        let start: InitFn = self.get(start)?;
        // SAFETY: the key is valid, and the context is checked before use.
        unsafe {
            let context = by_key(key, null_mut());
            (!context.is_null() && start(context) == 1).then_some(context)
        }
    }

    /// Measures the number of key agreements per second.
    fn derive(&self, kind: c_int) -> Option<f64> {
        let set_peer: SetPeerFn = self.get("EVP_PKEY_derive_set_peer")?;
        let derive: DeriveFn = self.get("EVP_PKEY_derive")?;
        let (own, peer) = (self.key(kind)?, self.key(kind)?);
        let context = self.context(own, "EVP_PKEY_derive_init")?;
        // SAFETY: both keys are valid.
        if unsafe { set_peer(context, peer) } != 1 {
            return None;
        }
        let mut secret = [0u8; 128];
        best_rate(|| {
            let mut length = secret.len();
            // SAFETY: `length` is the size of the buffer.
            unsafe { derive(context, secret.as_mut_ptr(), &raw mut length) == 1 }
        })
    }

    /// Measures the number of P-256 signatures per second.
    fn sign(&self) -> Option<f64> {
        let sign: SignFn = self.get("EVP_PKEY_sign")?;
        let context = self.context(self.key(EC)?, "EVP_PKEY_sign_init")?;
        let hash = [3u8; 32];
        let mut signature = [0u8; 256];
        best_rate(|| {
            let mut length = signature.len();
            // SAFETY: `length` is the size of the buffer, and the hash has the given length.
            unsafe {
                sign(
                    context,
                    signature.as_mut_ptr(),
                    &raw mut length,
                    hash.as_ptr(),
                    hash.len(),
                ) == 1
            }
        })
    }
}

/// Measures the rate of an operation several times, and returns the highest rate per second.
/// Returns `None` if the operation fails.
fn best_rate(mut once: impl FnMut() -> bool) -> Option<f64> {
    let mut slice = |times: u64| {
        let began = cpu_time();
        let done = (0..times).all(|_| once());
        done.then(|| cpu_time().saturating_sub(began))
    };
    let mut times = 1;
    while slice(times)? < SLICE_CPU_TIME {
        times *= 2;
    }
    let mut best = 0.0f64;
    for _ in 0..SLICE_COUNT {
        let took = slice(times)?.max(Duration::from_nanos(1));
        best = best.max(times as f64 / took.as_secs_f64());
    }
    Some(best)
}

/// Returns the CPU time of this thread. Unlike elapsed time, it isn't affected by other processes.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_words_are_parsed() {
        let text = "CPUINFO: OPENSSL_ia32cap=0xfffa3203078bffff:0x18 env:~0x200000200000000";
        assert_eq!(words(text), [0xfffa_3203_078b_ffff, 0x18]);
        assert_eq!(words("CPUINFO: N/A"), [0u64; 0]);
        assert_eq!(words("CPUINFO: OPENSSL_ia32cap=0xzz"), [0u64; 0]);
    }

    #[test]
    fn a_file_that_is_not_a_library_is_an_error() {
        assert!(probe(Path::new("/etc/passwd")).is_err());
    }

    #[test]
    fn a_failing_operation_has_no_rate() {
        assert_eq!(best_rate(|| false), None);
        assert!(best_rate(|| true).is_some_and(|rate| rate > 1.0));
    }
}
