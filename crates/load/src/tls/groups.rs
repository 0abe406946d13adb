//! Key exchange groups: names, order, and selection.

use rustls::SupportedProtocolVersion;
use rustls::crypto::{SupportedKxGroup, aws_lc_rs};

use crate::values::error::SettingsError;

type Group = &'static dyn SupportedKxGroup;

/// Groups that a load may offer, with their names. The record uses the library's names, which are
/// those of the RFCs.
const KNOWN: [(&[&str], Group); 7] = {
    use aws_lc_rs::kx_group::*;
    [
        (&["X25519MLKEM768"], X25519MLKEM768),
        (&["X25519"], X25519),
        (&["P-256", "secp256r1", "prime256v1"], SECP256R1),
        (&["P-384", "secp384r1"], SECP384R1),
        (&["SecP256r1MLKEM768"], SECP256R1MLKEM768),
        (&["MLKEM768"], MLKEM768),
        (&["MLKEM1024"], MLKEM1024),
    ]
};

/// Number of groups at the beginning of [`KNOWN`] that are offered by default.
const DEFAULTS: usize = 4;

/// Groups in the order of Chrome and Firefox. Like these, the library sends key shares for
/// X25519MLKEM768 and X25519, so a server that supports either needs no further round trip.
pub(super) fn browsers_order() -> Vec<Group> {
    KNOWN[..DEFAULTS].iter().map(|(_, group)| *group).collect()
}

/// Returns the groups with these names, in this order. At least one must fit one of the `versions`.
///
/// # Errors
///
/// Returns a sentence that names the unknown group and lists the known ones.
pub(super) fn chosen(
    names: &[String],
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Vec<Group>, SettingsError> {
    let find = |text: &String| {
        let is_meant = |name: &&str| name.eq_ignore_ascii_case(text);
        let mut known = KNOWN.iter();
        let found = known.find(|(names, _)| names.iter().any(is_meant));
        found.map(|(_, group)| *group).ok_or_else(|| {
            let names = KNOWN.map(|(names, _)| names[0]).join(", ");
            SettingsError::of("groups").text(format!(
                ": \"{text}\" is not supported by this TLS library; choose from {names}"
            ))
        })
    };
    let groups: Vec<Group> = names.iter().map(find).collect::<Result<_, _>>()?;
    let is_usable = |group: &Group| {
        let mut versions = versions.iter();
        versions.any(|version| group.usable_for_version(version.version))
    };
    if groups.iter().any(is_usable) {
        return Ok(groups);
    }
    let error = SettingsError::of("groups").text(": none of them can be used with ");
    Err(error.and_value("tls_max", "1.2"))
}

#[cfg(test)]
mod tests {
    use prony_record::TlsGroup;

    use super::*;

    const BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

    fn names(groups: &[Group]) -> Vec<String> {
        let names = groups.iter().map(|group| format!("{:?}", group.name()));
        names.collect()
    }

    #[test]
    fn the_default_is_the_order_of_browsers() {
        let order = ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];
        assert_eq!(names(&browsers_order()), order);
    }

    #[test]
    fn groups_are_known_by_each_of_their_names_and_counted_by_the_record() {
        for (known, group) in KNOWN {
            for name in known {
                let one = chosen(&[name.to_lowercase()], &BOTH).unwrap();
                assert_eq!(one[0].name(), group.name());
            }
            let counted = TlsGroup::of(&names(&[group])[0]);
            assert_ne!(counted.name(), "other", "{known:?}");
        }
        let error = chosen(&["X448".to_owned()], &BOTH).unwrap_err().to_string();
        assert!(error.contains("\"X448\"") && error.contains("X25519MLKEM768, X25519, P-256"));
    }
}
