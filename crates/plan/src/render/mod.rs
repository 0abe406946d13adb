//! Rendering of one variant: first its layout, which depends only on factors, then its services and
//! its load.

mod build;
mod capacity_load;
mod command;
mod container;
pub(super) mod context;
pub(super) mod files;
mod host_name;
mod link_emulation;
pub(super) mod load;
mod load_settings;
pub(super) mod networks;
pub(super) mod ready;
mod request_values;
mod service_layout;
pub(super) mod services;
mod start_order;
pub(super) mod telemetry;
mod template;
mod template_values;
mod variant;
mod variant_layout;
mod watch;

pub use capacity_load::CapacityLoad;
pub use load::{LoadModel, ResolvedLoad, Scheme};
pub use ready::ReadySettings;
pub(super) use service_layout::{RemoteAddress, ServiceLayout};
pub use services::ResolvedService;
pub use telemetry::TelemetrySettings;
pub(super) use template_values::{machine_context, remote_allocated};
pub use variant::ResolvedVariant;
pub(super) use variant::{RenderedVariant, checked_layout, layout, render};
pub(super) use variant_layout::VariantLayout;
