//! Failures of wrk's front end.

use prony_load::SpecError;
use prony_lua::ScriptFault;

/// Reason why a load can't run or has failed.
pub(super) enum WrkFailure {
    Load(SpecError),
    Script(ScriptFault),
}

impl From<SpecError> for WrkFailure {
    fn from(error: SpecError) -> WrkFailure {
        WrkFailure::Load(error)
    }
}

impl From<ScriptFault> for WrkFailure {
    fn from(fault: ScriptFault) -> WrkFailure {
        WrkFailure::Script(fault)
    }
}
