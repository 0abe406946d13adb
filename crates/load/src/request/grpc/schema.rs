//! Descriptors of methods: from a .proto file, which is compiled, or from compiled descriptors.

use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, MethodDescriptor};
use protox::Compiler;

use crate::settings::{GrpcMethod, LoadSettings};
use crate::values::error::SettingsError;
use crate::values::input_file::{self, TEXT_BYTES_MAX};

/// The descriptors that the settings name.
pub(super) struct CallSchema {
    pool: DescriptorPool,
    /// The file, as shown in messages.
    shown: String,
}

impl CallSchema {
    pub(super) fn of(settings: &LoadSettings) -> Result<CallSchema, SettingsError> {
        let (pool, shown) = match (&settings.proto, &settings.protoset) {
            (Some(file), _) => {
                let compiler = compiled(file, settings.proto_path.as_deref())?;
                (compiler.descriptor_pool(), file.display())
            }
            (None, Some(file)) => (protoset(file)?, file.display()),
            (None, None) => return Err(undescribed()),
        };
        Ok(CallSchema {
            pool,
            shown: shown.to_string(),
        })
    }

    /// Finds a method.
    pub(super) fn method(&self, name: &GrpcMethod) -> Result<MethodDescriptor, SettingsError> {
        find(name, &self.pool, &self.shown)
    }
}

/// Returns the error for a method without a description.
pub(crate) fn undescribed() -> SettingsError {
    let error = SettingsError::of("grpc").text(" needs ").name("proto");
    let error = error.text(" or ").name("protoset").text(" as well");
    error.text(", because there is no server to ask for the method")
}

/// Compiles the .proto file in the settings. Returns the descriptors of the file and of its
/// imports, as a protoset.
///
/// # Errors
///
/// The settings name no such file, or it isn't valid.
pub fn compiled_schema(settings: &LoadSettings) -> Result<Vec<u8>, SettingsError> {
    let file = settings.proto.as_deref().unwrap_or(Path::new(""));
    let compiler = compiled(file, settings.proto_path.as_deref())?;
    Ok(compiler.encode_file_descriptor_set())
}

/// Lists the files that a .proto file imports, from `folder` or from its own folder, as paths to
/// open. Empty if the file isn't valid.
pub fn proto_imports(file: &Path, folder: Option<&Path>) -> Vec<PathBuf> {
    let Ok(compiler) = compiled(file, folder) else {
        return Vec::new();
    };
    let imports = compiler.files().filter(|file| file.is_import());
    imports
        .filter_map(|file| Some(file.path()?.to_owned()))
        .collect()
}

/// Compiles a file. Imports are found in `folder`, if it is given, and in the file's own folder.
fn compiled(file: &Path, folder: Option<&Path>) -> Result<Compiler, SettingsError> {
    // The compiler's own error about a missing file is about its folder.
    input_file::read_file(file, TEXT_BYTES_MAX).map_err(|error| {
        SettingsError::value("proto", file.display()).text(format!(": {error}"))
    })?;
    let own = file.parent().filter(|parent| *parent != Path::new(""));
    let own = own.unwrap_or(Path::new("."));
    let wrong = |error: protox::Error| in_proto(file, &error);
    let mut compiler = Compiler::new(folder.into_iter().chain([own])).map_err(wrong)?;
    compiler.include_imports(true);
    compiler.open_file(file).map_err(wrong)?;
    Ok(compiler)
}

/// Returns the error in a .proto file, with its place.
fn in_proto(file: &Path, error: &protox::Error) -> SettingsError {
    // The `Debug` text begins with the file, line and column.
    let text = format!("{error:?}");
    let line = text.lines().next().unwrap_or_default().to_owned();
    SettingsError::value("proto", file.display()).text(format!(": {line}"))
}

fn protoset(file: &Path) -> Result<DescriptorPool, SettingsError> {
    let wrong = |error: String| SettingsError::value("protoset", file.display()).text(error);
    let bytes =
        input_file::read_file(file, TEXT_BYTES_MAX).map_err(|error| wrong(format!(": {error}")))?;
    DescriptorPool::decode(&*bytes).map_err(|error| {
        wrong(format!(": {error}"))
            .hint("create it with protoc --include_imports --descriptor_set_out")
    })
}

fn find(
    name: &GrpcMethod,
    pool: &DescriptorPool,
    shown: &str,
) -> Result<MethodDescriptor, SettingsError> {
    let unknown = |text: String, known: Vec<String>| {
        let error = SettingsError::value("grpc", name).text(format!(": {shown} {text}"));
        match known.as_slice() {
            [] => error,
            known => error.hint(format!("it has {}", known.join(", "))),
        }
    };
    let Some(service) = pool.get_service_by_name(&name.service) else {
        let known = pool
            .services()
            .map(|service| service.full_name().to_owned());
        return Err(unknown(
            format!("has no service {}", name.service),
            known.collect(),
        ));
    };
    let mut methods = service.methods();
    methods
        .find(|method| method.name() == name.method)
        .ok_or_else(|| {
            let known = service.methods().map(|method| method.name().to_owned());
            let text = format!("has no method {} in {}", name.method, name.service);
            unknown(text, known.collect())
        })
}
