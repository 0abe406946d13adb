//! The data that rendering a service or a load uses besides the table itself.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::template::TemplateContext;
use super::variant_layout::VariantLayout;
use crate::plan::model::{CertificateCache, MachineProfile, PlanFolder};
use crate::service::PlaceKind;

/// The context in which a table is rendered.
#[derive(Clone)]
pub(crate) struct RenderContext<'a> {
    pub(crate) folder: &'a PlanFolder,
    pub(crate) templates: &'a TemplateContext,
    pub(crate) layout: &'a VariantLayout,
    pub(crate) machine: &'a MachineProfile,
    pub(crate) certificates: &'a CertificateCache,
    /// The service and listener that the load reaches over TLS.
    pub(crate) tls_target: Option<(String, String)>,
    /// The files that the variant uses, as the plan writes them.
    pub(crate) references: &'a RefCell<BTreeSet<String>>,
    /// The needs that rendering has found so far.
    pub(crate) needs: &'a RefCell<Vec<MachineNeed>>,
}

impl RenderContext<'_> {
    pub(crate) fn add_need(&self, line: usize, kind: MachineNeedKind) {
        self.needs.borrow_mut().push(MachineNeed { line, kind });
    }
}

/// Something that a variant needs of the machine that runs the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineNeed {
    /// The line of the plan that requires it.
    pub(crate) line: usize,
    pub(crate) kind: MachineNeedKind,
}

/// The kinds of needs. `owner` names the service or load in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MachineNeedKind {
    /// A program, which was not found.
    Program {
        owner: String,
        name: String,
        hint: String,
    },
    /// Cores.
    Cores { owner: String, cores: Vec<usize> },
    /// A folder; `subject` is the key that names it.
    Folder { subject: String, path: PathBuf },
    /// A namespace or jail.
    Place { owner: String, place: PlaceKind },
}
