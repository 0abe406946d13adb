//! Entry points that read a plan from a file or a string, and check it.

use std::path::Path;
use std::sync::Arc;

use super::{machine, variants};
use crate::diagnostic::{DiagnosticKind, Diagnostics, PlanError, PlanErrors};
use crate::freeze;
use crate::machine::PlanMachine;
use crate::model::{Plan, document, io_error_words};
use crate::syntax;

/// Maximum size of a plan in bytes.
const PLAN_BYTES_MAX: u64 = 1 << 20;

impl Plan {
    /// Reads a plan from a file and checks it completely, including the programs and cores that it
    /// needs on the machine.
    ///
    /// # Errors
    /// All problems, each with file and line.
    pub fn read(path: &Path, machine: impl PlanMachine + 'static) -> Result<Self, PlanErrors> {
        let text = freeze::with_secrets(read_text(path)?, path)?;
        let plan = Self::from_str(&text, path, machine)?;
        plan.check_machine()?;
        Ok(plan)
    }

    /// Reads a plan from text as if it were in the file `origin`. Relative paths are resolved
    /// against the folder of that file. The files that the plan names are read, but programs,
    /// folders and cores are not checked; [`Plan::check_machine`] does that.
    ///
    /// # Errors
    /// All problems, each with file and line.
    pub fn from_str(
        text: &str,
        origin: &Path,
        machine: impl PlanMachine + 'static,
    ) -> Result<Self, PlanErrors> {
        let machine: Arc<dyn PlanMachine> = Arc::new(machine);
        let mut diagnostics = Diagnostics::default();
        let plan = syntax::parse(text, origin, &mut diagnostics).map(|table| {
            let mut plan = document::read_plan(text, &table, origin, machine, &mut diagnostics);
            variants::check_variants(&mut plan, table.get("metrics"), &mut diagnostics);
            let own = variants::read_notes(&plan, table.get("notes"), &mut diagnostics);
            plan.notes.splice(0..0, own);
            plan
        });
        diagnostics.into_result()?;
        plan.ok_or_else(|| PlanError::unexplained(origin, "the plan can't be read").into())
    }

    /// Checks that the machine has what the plan needs: programs, folders, cores and places.
    ///
    /// # Errors
    /// Everything that is missing, with hints.
    pub fn check_machine(&self) -> Result<(), PlanErrors> {
        let mut diagnostics = Diagnostics::default();
        machine::check_machine(self, &mut diagnostics);
        diagnostics.into_result()
    }
}

fn read_text(path: &Path) -> Result<String, PlanErrors> {
    let file_error = |message: String| PlanError::new(DiagnosticKind::File, path, 0, message);
    let metadata = std::fs::metadata(path).map_err(|error| {
        let error = file_error(format!("the plan {}", io_error_words(&error)));
        error.with_hint("prony init writes a starter plan")
    })?;
    if !metadata.is_file() {
        let error = file_error("not a plan file".to_owned());
        let inside = path.join("plan.toml");
        return Err(if inside.is_file() {
            error.with_hint(format!("did you mean {}?", inside.display()))
        } else {
            error
        }
        .into());
    }
    if metadata.len() > PLAN_BYTES_MAX {
        let message = format!("the plan is larger than {} KiB", PLAN_BYTES_MAX >> 10);
        return Err(file_error(message).into());
    }
    let bytes = std::fs::read(path)
        .map_err(|error| file_error(format!("the plan {}", io_error_words(&error))))?;
    prony_load::input_file::decode(bytes)
        .map_err(|error| file_error(format!("the plan is {error}")).into())
}
