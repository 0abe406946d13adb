//! Context for rendering a service or a load.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::template::TemplateContext;
use super::variant_layout::VariantLayout;
use crate::machine::PlanMachine;
use crate::model::{CertificateCache, PlanFolder};
use crate::service::{ContainerSpec, LimitKey, PlaceKind, ResourceLimits};

/// Data needed to render a table, in addition to the table itself.
#[derive(Clone)]
pub(crate) struct RenderContext<'a> {
    pub(crate) folder: &'a PlanFolder,
    pub(crate) templates: &'a TemplateContext,
    pub(crate) layout: &'a VariantLayout,
    pub(crate) machine: &'a dyn PlanMachine,
    pub(crate) certificates: &'a CertificateCache,
    /// Service and listener that the load reaches over TLS; `None` if it doesn't use TLS.
    pub(crate) tls_target: Option<(String, String)>,
    /// Files that the variant uses, as written in the plan.
    pub(crate) references: &'a RefCell<BTreeSet<String>>,
    /// Requirements that rendering has found so far.
    pub(crate) needs: &'a RefCell<Vec<MachineNeed>>,
}

impl RenderContext<'_> {
    pub(crate) fn add_need(&self, line: usize, kind: MachineNeedKind) {
        self.needs.borrow_mut().push(MachineNeed { line, kind });
    }
}

/// Something that a variant requires of the machine that runs the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineNeed {
    /// Line of the plan that causes the requirement.
    pub(crate) line: usize,
    pub(crate) kind: MachineNeedKind,
}

/// Kind of requirement. `owner` names the service or load in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MachineNeedKind {
    /// A program that was not found.
    Program {
        owner: String,
        name: String,
        hint: String,
        package: Option<&'static str>,
    },
    /// Cores that a service or the load uses.
    Cores { owner: String, cores: Vec<usize> },
    /// A folder; `subject` is the key that names it.
    Folder { subject: String, path: PathBuf },
    /// Permission to create a namespace.
    Place { owner: String, place: PlaceKind },
    /// An image, and a program that runs it.
    Image {
        owner: String,
        container: ContainerSpec,
    },
    /// A file or folder that a container uses; `subject` names the volume.
    Volume { subject: String, path: PathBuf },
    /// A limit of a service's control group. `limits` are all limits of the service.
    Limit {
        owner: String,
        key: LimitKey,
        limits: ResourceLimits,
    },
}
