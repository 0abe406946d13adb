//! Descriptors of gRPC methods and messages in JSON.
//!
//! This file isn't part of the fuzz library: the tests of `crates/protocol` include the library and
//! don't depend on `prony_load`.

use std::io::Write;

use prony_load::LoadSettings;

/// Uses the data up to the first zero byte of a pair as a message, and the rest as compiled
/// descriptors and as a .proto file. None of these may panic, and errors are explained. Returns
/// the number of valid loads.
pub fn run(data: &[u8]) -> u32 {
    let at = data.windows(2).position(|pair| pair == b"\0\0");
    let (json, rest) = data.split_at(at.unwrap_or(0));
    let descriptors = rest.strip_prefix(b"\0\0").unwrap_or(rest);
    let mut valid = 0;
    for suffix in [".binpb", ".proto"] {
        let mut file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
        file.write_all(descriptors).unwrap();
        let path = Some(file.path().to_owned());
        let is_proto = suffix == ".proto";
        for method in ["a.S/M", "shop.Cart/Add"] {
            let settings = LoadSettings {
                grpc: Some(method.parse().unwrap()),
                proto: path.clone().filter(|_| is_proto),
                protoset: path.clone().filter(|_| !is_proto),
                body: Some(String::from_utf8_lossy(json).into_owned()),
                ..LoadSettings::default()
            };
            // Nothing is sent, and the address needs no DNS lookup.
            match settings.resolve(Some("http://127.0.0.1:1/")) {
                Ok(_) => valid += 1,
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    valid
}
