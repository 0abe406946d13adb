//! What runs in the child: loads one libcrypto, asks it who it is, and lets it work.
//!
//! A process of its own, since the library reads its mask from the environment once, when it is
//! loaded; and since a stranger's library may do anything.
//!
//! The signatures are those of OpenSSL's manual pages (EVP_EncryptInit(3), EVP_DigestInit(3),
//! EVP_PKEY_derive(3), EVP_PKEY_sign(3), OpenSSL_version(3)), the same from 1.1.0 to 3.x.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::Duration;

use libloading::Library;
use serde::{Deserialize, Serialize};

/// What TLS encrypts at once: a full record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// How long one slice of work takes at least, in CPU time.
const SLICE: Duration = Duration::from_millis(3);
/// Slices for each algorithm; the best one counts, because nothing makes a slice faster than it is.
const SLICES: usize = 12;

/// EVP_PKEY_X25519 and EVP_PKEY_EC of obj_mac.h.
const X25519: c_int = 1034;
const EC: c_int = 408;

/// What a libcrypto answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// What it says of itself, such as `OpenSSL 3.0.17 1 Jul 2025`.
    pub(super) version: Option<String>,
    /// The compiler's command line.
    pub(super) compiler: Option<String>,
    /// When it was built.
    pub(super) built_on: Option<String>,
    /// The platform that it was configured for.
    pub(super) platform: Option<String>,
    /// What it says of the processor; `CPUINFO: N/A` without assembly (3.0 and later).
    pub(super) cpu_info: Option<String>,
    /// Where its words about the processor's abilities lie, in bytes from its lowest address.
    pub(super) words_at: Option<u64>,
    /// Work done in a second, by algorithm: bytes, or operations. What it lacks is left out.
    pub(super) speeds: Vec<(String, f64)>,
}

impl Answer {
    /// What it says of the processor, as words of 64 bits; empty where it says nothing.
    pub(super) fn words(&self) -> Vec<u64> {
        self.cpu_info.as_deref().map(words).unwrap_or_default()
    }
}

/// The words of `CPUINFO: OPENSSL_ia32cap=0x1:0x2 env:~0x3`.
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

/// Loads the library and asks it everything.
///
/// # Errors
/// The dynamic linker's words, where it can't be loaded.
pub(super) fn probe(file: &Path) -> Result<Answer, String> {
    // SAFETY: its constructors run; this process exists to run them, and nothing else is in it.
    let library = unsafe { Library::new(file) }.map_err(|error| error.to_string())?;
    let api = Api { library: &library };
    let mut answer = Answer {
        version: api.says(0),
        compiler: api.says(1),
        built_on: api.says(2),
        platform: api.says(3),
        cpu_info: api.says(9).filter(|text| text.starts_with("CPUINFO")),
        ..Answer::default()
    };
    if answer.version.is_none() {
        return Err("it has no OpenSSL_version: not a libcrypto of OpenSSL's kind".to_owned());
    }
    answer.words_at = api.address("OpenSSL_version").and_then(|address| {
        let words = answer.words();
        super::memory::find_own(address, &words)
    });
    for (name, cipher) in CIPHERS {
        let rate = api.cipher(cipher).map(|per_s| per_s * RECORD_BYTES as f64);
        answer
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
        answer
            .speeds
            .extend(rate.map(|rate| (name.to_owned(), rate)));
    }
    // What it registered to run at exit may need it.
    std::mem::forget(library);
    Ok(answer)
}

/// Ciphers by prony's name for them, and the function that gives each.
const CIPHERS: &[(&str, &str)] = &[
    ("aes-128-gcm", "EVP_aes_128_gcm"),
    ("aes-256-gcm", "EVP_aes_256_gcm"),
    ("aes-128-cbc", "EVP_aes_128_cbc"),
];

type Give = unsafe extern "C" fn() -> *const c_void;
type Make = unsafe extern "C" fn() -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Step = unsafe extern "C" fn(*mut c_void) -> c_int;
type MakeById = unsafe extern "C" fn(c_int, *mut c_void) -> *mut c_void;
type MakeByKey = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void;
type Control = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int;
type Keygen = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int;
type SetPeer = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Derive = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut usize) -> c_int;
type Sign =
    unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
type Init = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *mut c_void,
    *const c_uchar,
    *const c_uchar,
) -> c_int;
type Update =
    unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
type Digest = unsafe extern "C" fn(
    *const c_void,
    usize,
    *mut c_uchar,
    *mut c_uint,
    *const c_void,
    *mut c_void,
) -> c_int;

/// The functions of the loaded library; each is looked up when it is needed.
struct Api<'l> {
    library: &'l Library,
}

impl Api<'_> {
    /// A function; `None` where the library lacks it.
    fn get<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: every caller gives the type that the manual page of this name states.
        unsafe { self.library.get::<F>(name) }
            .ok()
            .map(|found| *found)
    }

    fn address(&self, name: &str) -> Option<u64> {
        let function: Give = self.get(name)?;
        Some(function as usize as u64)
    }

    /// OpenSSL_version(3), or its name before 1.1.0.
    fn says(&self, what: c_int) -> Option<String> {
        type Says = unsafe extern "C" fn(c_int) -> *const c_char;
        let says: Says = self
            .get("OpenSSL_version")
            .or_else(|| self.get("SSLeay_version"))?;
        // SAFETY: takes a number; gives a text that lives as long as the library, or null.
        let text = unsafe {
            let text = says(what);
            (!text.is_null()).then(|| CStr::from_ptr(text))?
        };
        let text = text.to_string_lossy().trim().to_owned();
        (!text.is_empty() && text != "not available").then_some(text)
    }

    /// Records encrypted in a second.
    fn cipher(&self, name: &str) -> Option<f64> {
        let cipher: Give = self.get(name)?;
        let make: Make = self.get("EVP_CIPHER_CTX_new")?;
        let init: Init = self.get("EVP_EncryptInit_ex")?;
        let update: Update = self.get("EVP_EncryptUpdate")?;
        let free: Free = self.get("EVP_CIPHER_CTX_free")?;
        let (key, iv) = ([7u8; 32], [9u8; 16]);
        let input = vec![1u8; RECORD_BYTES];
        let mut output = vec![0u8; RECORD_BYTES + 64];
        // SAFETY: key and iv are as long as the longest that these ciphers take; the output has room
        // for the input and a block; the context is freed once, at the end.
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

    /// Records hashed in a second.
    fn sha256(&self) -> Option<f64> {
        let digest: Digest = self.get("EVP_Digest")?;
        let sha256: Give = self.get("EVP_sha256")?;
        let input = vec![1u8; RECORD_BYTES];
        let mut output = [0u8; 64];
        best_rate(|| {
            let mut length = 0;
            // SAFETY: the output has room for the longest digest there is (EVP_MAX_MD_SIZE, 64).
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

    /// A new key of this kind; on P-256 where it is of a curve that must be named. It is never
    /// freed: the process ends soon.
    fn key(&self, kind: c_int) -> Option<*mut c_void> {
        let by_id: MakeById = self.get("EVP_PKEY_CTX_new_id")?;
        let start: Step = self.get("EVP_PKEY_keygen_init")?;
        let generate: Keygen = self.get("EVP_PKEY_keygen")?;
        let control: Option<Control> = self.get("EVP_PKEY_CTX_ctrl_str");
        let mut key = null_mut();
        // SAFETY: the context is checked before it is used; the texts end with a NUL.
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

    /// A context over a key, made ready by the function of this name.
    fn context(&self, key: *mut c_void, start: &str) -> Option<*mut c_void> {
        let by_key: MakeByKey = self.get("EVP_PKEY_CTX_new")?;
        let start: Step = self.get(start)?;
        // SAFETY: the key lives; the context is checked before it is used.
        unsafe {
            let context = by_key(key, null_mut());
            (!context.is_null() && start(context) == 1).then_some(context)
        }
    }

    /// Shared secrets in a second.
    fn derive(&self, kind: c_int) -> Option<f64> {
        let set_peer: SetPeer = self.get("EVP_PKEY_derive_set_peer")?;
        let derive: Derive = self.get("EVP_PKEY_derive")?;
        let (own, peer) = (self.key(kind)?, self.key(kind)?);
        let context = self.context(own, "EVP_PKEY_derive_init")?;
        // SAFETY: both keys live.
        if unsafe { set_peer(context, peer) } != 1 {
            return None;
        }
        let mut secret = [0u8; 128];
        best_rate(|| {
            let mut length = secret.len();
            // SAFETY: `length` is the room that there is.
            unsafe { derive(context, secret.as_mut_ptr(), &raw mut length) == 1 }
        })
    }

    /// P-256 signatures in a second.
    fn sign(&self) -> Option<f64> {
        let sign: Sign = self.get("EVP_PKEY_sign")?;
        let context = self.context(self.key(EC)?, "EVP_PKEY_sign_init")?;
        let hash = [3u8; 32];
        let mut signature = [0u8; 256];
        best_rate(|| {
            let mut length = signature.len();
            // SAFETY: `length` is the room that there is; the hash is as long as said.
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

/// How often in a second something can be done, over the best slice; `None` once it fails.
fn best_rate(mut once: impl FnMut() -> bool) -> Option<f64> {
    let mut slice = |times: u64| {
        let began = cpu_time();
        let done = (0..times).all(|_| once());
        done.then(|| cpu_time().saturating_sub(began))
    };
    let mut times = 1;
    while slice(times)? < SLICE {
        times *= 2;
    }
    let mut best = 0.0f64;
    for _ in 0..SLICES {
        let took = slice(times)?.max(Duration::from_nanos(1));
        best = best.max(times as f64 / took.as_secs_f64());
    }
    Some(best)
}

/// The CPU time of this thread: others on the machine take none of it.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_the_processor_are_read() {
        let text = "CPUINFO: OPENSSL_ia32cap=0xfffa3203078bffff:0x18 env:~0x200000200000000";
        assert_eq!(words(text), [0xfffa_3203_078b_ffff, 0x18]);
        assert_eq!(words("CPUINFO: N/A"), [0u64; 0]);
        assert_eq!(words("CPUINFO: OPENSSL_ia32cap=0xzz"), [0u64; 0]);
    }

    #[test]
    fn what_is_no_library_is_refused_by_the_linker() {
        assert!(probe(Path::new("/etc/passwd")).is_err());
    }

    #[test]
    fn what_fails_has_no_rate() {
        assert_eq!(best_rate(|| false), None);
        assert!(best_rate(|| true).is_some_and(|rate| rate > 1.0));
    }
}
