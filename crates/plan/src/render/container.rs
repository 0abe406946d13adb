//! The keys `image`, `runtime` and `volumes` of a service, which run it in a container.

use super::context::{MachineNeedKind, RenderContext};
use super::service_layout::ServiceLayout;
use crate::diagnostic::DiagnosticKind;
use crate::service::{ContainerRuntime, ContainerSpec, PlaceKind};
use crate::syntax::{PlanReader, TomlNode, TomlTable};

/// Keys that only services in containers have, in addition to `image`.
const OWN_KEYS: [&str; 2] = ["runtime", "volumes"];

/// Keys that a service in a container can't have: its program is in the image.
const OTHER_KEYS: [&str; 2] = ["wrapper", "library_path"];

/// Reads the container of a service. Returns `None` if the service has no image.
pub(super) fn read_container(
    table: &TomlTable,
    layout: &ServiceLayout,
    owner: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<ContainerSpec> {
    let node = table.get("image").filter(|_| layout.remote.is_none());
    let image = node.and_then(|node| reader.text(node, &format!("image of {owner}")));
    // A level of a factor may stand for no container.
    let Some((node, image)) = node.zip(image.filter(|image| !image.is_empty())) else {
        for key in OWN_KEYS.iter().filter(|key| table.get(key).is_some()) {
            // Volumes may stay where only some levels have an image.
            if node.is_none() && layout.remote.is_none() {
                let message = format!("{key} of {owner} has no effect without image");
                let hint = format!("add image, or remove {key}");
                let line = table.line_of(key);
                reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
            }
        }
        return None;
    };
    let is_valid = !image.starts_with('-') && !image.contains(char::is_whitespace);
    if !is_valid {
        let message = format!("image of {owner} is \"{image}\", not the name of an image");
        let hint = "write it like nginx:1.27, or the path of an archive like ./web.tar";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        return None;
    }
    for key in OTHER_KEYS.iter().filter(|key| table.get(key).is_some()) {
        let message = format!("{owner} has both image and {key}");
        let hint = format!("the program is in the image; remove {key}, or set it up in the image");
        let line = table.line_of(key);
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
    }
    check_place(layout, owner, node, reader);
    let container = ContainerSpec {
        image: if ContainerSpec::is_archive(&image) {
            around.folder.path(&image).display().to_string()
        } else {
            image
        },
        runtime: read_runtime(table.get("runtime"), owner, reader),
        volumes: read_volumes(table.get("volumes"), owner, around, reader),
        workdir: table
            .get("cwd")
            .and_then(|node| reader.text(node, &format!("cwd of {owner}"))),
    };
    if layout.host.is_none() {
        let (owner, container) = (owner.to_owned(), container.clone());
        around.add_need(node.line, MachineNeedKind::Image { owner, container });
    }
    Some(container)
}

/// Reports places and hosts where containers can't run.
fn check_place(layout: &ServiceLayout, owner: &str, node: &TomlNode, reader: &mut PlanReader<'_>) {
    if layout.place == PlaceKind::Namespace {
        let message = format!("{owner} has an image, but its place is \"namespace\"");
        let hint = "a container has namespaces of its own; use \"native\" or a [place.NAME]";
        reader.report_with_hint(DiagnosticKind::Structure, layout.place_line, message, hint);
    }
    if layout.host.is_some() {
        let message = format!("{owner} has an image, but runs on another machine");
        let hint = "containers run only on the machine that runs prony; remove image or host";
        reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
    }
}

fn read_runtime(
    node: Option<&TomlNode>,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<ContainerRuntime> {
    let names = ContainerRuntime::ALL.map(ContainerRuntime::program);
    let name = reader.choice(node?, &format!("runtime of {owner}"), &names)?;
    ContainerRuntime::ALL
        .into_iter()
        .find(|runtime| runtime.program() == name)
}

/// Reads volumes such as `site:/usr/share/nginx/html:ro`, whose first part is a path on this
/// machine.
fn read_volumes(
    node: Option<&TomlNode>,
    owner: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Vec<String> {
    let Some(node) = node else {
        return Vec::new();
    };
    let subject = format!("volumes of {owner}");
    let written = reader.texts(node, &subject).unwrap_or_default();
    let mut volumes = Vec::new();
    for volume in written {
        let Some((path, inside)) = volume
            .split_once(':')
            .filter(|(path, inside)| !path.is_empty() && inside.starts_with('/'))
        else {
            let message = format!("{subject}: \"{volume}\" is not a volume");
            let hint = "write it like site:/usr/share/nginx/html:ro";
            reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
            continue;
        };
        let path = around.folder.path(path);
        let subject = format!("a volume of {owner}");
        volumes.push(format!("{}:{inside}", path.display()));
        around.add_need(node.line, MachineNeedKind::Volume { subject, path });
    }
    volumes
}
