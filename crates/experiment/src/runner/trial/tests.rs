//! Texts of trials that could not be made.

use super::TrialError;

fn target_error(log: Option<&str>) -> String {
    let error = TrialError::Target {
        service: "web".to_owned(),
        why: "nothing listens".to_owned(),
        log: log.map(str::to_owned),
    };
    error.to_string()
}

#[test]
fn only_a_server_that_prony_started_has_a_log() {
    let failure = "service \"web\" does not respond: nothing listens";
    let without = target_error(None);
    assert_eq!(
        without,
        format!("{failure} (prony did not start this server)")
    );
    let empty = target_error(Some("\n"));
    assert_eq!(empty, format!("{failure}; its log is empty"));
    let logged = target_error(Some("a\nb"));
    let lines = "\n  web | a\n  web | b";
    assert_eq!(logged, format!("{failure}; the end of its log:{lines}"));
}
