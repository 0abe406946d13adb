//! Asks a server for the descriptors of a gRPC method, by its reflection service.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use prony_protocol::grpc::{MessageReader, PREFIX_BYTES, write_message};
use prony_record::CallFailure;
use prost::Message;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};

use super::{connect, exchange};
use crate::carrier::{Carrier, EventKind};
use crate::settings::{HttpVersion, LoadSettings};
use crate::spec::LoadSpec;
use crate::values::error::{SettingsError, SpecError};

/// Paths of the method that returns descriptors, newest first.
const PATHS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// Maximum number of files that describe a method.
const FILES_MAX: usize = 1_000;
/// Maximum length of a response in bytes.
const RESPONSE_BYTES_MAX: u32 = 16 << 20;

/// Time limit of an attempt to connect to a server that may not have started yet.
const RETRY_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two such attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A request for descriptors.
#[derive(Clone, PartialEq, Message)]
struct ReflectionRequest {
    #[prost(string, optional, tag = "3")]
    file_by_filename: Option<String>,
    #[prost(string, optional, tag = "4")]
    file_containing_symbol: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionResponse {
    #[prost(message, optional, tag = "4")]
    files: Option<FileList>,
    #[prost(message, optional, tag = "7")]
    error: Option<ReflectionError>,
}

#[derive(Clone, PartialEq, Message)]
struct FileList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    descriptors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionError {
    #[prost(string, tag = "2")]
    text: String,
}

/// Returns true if the settings name gRPC methods, and no file that describes them.
pub fn needs_reflection(settings: &LoadSettings) -> bool {
    settings.proto.is_none() && settings.protoset.is_none() && !settings.grpc_methods().is_empty()
}

/// Asks the load's server for the descriptors of the methods that the settings name: by version 1 of
/// the reflection service, or by its predecessor. Returns them as a protoset.
///
/// # Errors
///
/// The settings can't be used, or the server doesn't describe the methods within `timeout` per
/// request.
pub fn reflected_schema(
    settings: &LoadSettings,
    url: Option<&str>,
    timeout: Duration,
) -> Result<Vec<u8>, SpecError> {
    if settings.http == Some(HttpVersion::Http3) {
        let error = SettingsError::of("grpc")
            .text(" over HTTP/3 needs ")
            .name("proto");
        return Err(error.text(" or ").name("protoset").into());
    }
    let mut server = ReflectionServer::new(settings, url, timeout)?;
    let mut files = BTreeMap::new();
    let methods = settings.grpc_methods().into_iter();
    let services: BTreeSet<String> = methods.map(|method| method.service).collect();
    for service in services {
        let request = ReflectionRequest {
            file_containing_symbol: Some(service),
            ..ReflectionRequest::default()
        };
        server.ask(request, &mut files)?;
    }
    while let Some(missing) = missing_import(&files) {
        if files.len() > FILES_MAX {
            let error = format!("the server's descriptors have more than {FILES_MAX} files");
            return Err(refused(error));
        }
        let request = ReflectionRequest {
            file_by_filename: Some(missing.clone()),
            ..ReflectionRequest::default()
        };
        server.ask(request, &mut files)?;
        if !files.contains_key(&missing) {
            let error = format!("the server's reflection service has no file {missing}");
            return Err(refused(error));
        }
    }
    let file = files.into_values().collect();
    Ok(FileDescriptorSet { file }.encode_to_vec())
}

/// Returns a file that others import and that is missing.
fn missing_import(files: &BTreeMap<String, FileDescriptorProto>) -> Option<String> {
    let imports = files.values().flat_map(|file| &file.dependency);
    let imports: BTreeSet<&String> = imports.collect();
    let mut missing = imports
        .into_iter()
        .filter(|name| !files.contains_key(*name));
    missing.next().cloned()
}

/// Returns the error for a server that doesn't describe the method.
fn refused(cause: impl Into<String>) -> SpecError {
    let error = SettingsError::about("grpc").text(cause);
    let error = error.hint("describe the method with ").name("proto");
    SpecError::Environment(error.text(" or ").name("protoset"))
}

/// A server that is asked for descriptors.
struct ReflectionServer {
    spec: LoadSpec,
    headers: Vec<(String, String)>,
    /// The path that the server knows.
    path: Option<&'static str>,
    timeout: Duration,
}

impl ReflectionServer {
    fn new(
        settings: &LoadSettings,
        url: Option<&str>,
        timeout: Duration,
    ) -> Result<ReflectionServer, SpecError> {
        let given = settings
            .header
            .iter()
            .filter_map(|line| line.split_once(':'));
        let metadata = given.filter(|(_, value)| !value.contains("{{"));
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        let own = [("content-type", "application/grpc"), ("te", "trailers")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let plain = LoadSettings {
            grpc: None,
            grpc_gzip: false,
            grpc_message_max: None,
            gap_timeout: None,
            body: None,
            body_file: None,
            header: Vec::new(),
            data: None,
            data_order: None,
            urls: None,
            order: None,
            steps: None,
            step: Vec::new(),
            ramp_up: None,
            events: None,
            event_field: None,
            end_marker: None,
            http: Some(HttpVersion::Http2),
            ..settings.clone()
        };
        if url.is_none() {
            let error = "the server's URL is needed, to ask it for the methods of gRPC calls";
            let error = SettingsError::from(error).hint("describe them with ");
            return Err(error.name("proto").text(" or ").name("protoset").into());
        }
        // Only the URL of a call may have the scheme grpc or grpcs.
        let rest = url.and_then(|url| url.strip_prefix("grpc"));
        let rest = rest.filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
        let plain_url = rest.map(|rest| format!("http{rest}"));
        let spec = plain.resolve(plain_url.as_deref().or(url))?;
        let until = Instant::now() + settings.wait_for_server.unwrap_or_default();
        while Instant::now() < until && connect(&spec, 0, RETRY_TIMEOUT).is_err() {
            thread::sleep(RETRY_PAUSE);
        }
        Ok(ReflectionServer {
            spec,
            headers: own.into_iter().chain(metadata).collect(),
            path: None,
            timeout,
        })
    }

    /// Asks for files, and adds those that the server returns.
    fn ask(
        &mut self,
        request: ReflectionRequest,
        files: &mut BTreeMap<String, FileDescriptorProto>,
    ) -> Result<(), SpecError> {
        let mut body = Vec::new();
        write_message(&request.encode_to_vec(), false, &mut body);
        let known = self.path;
        let paths = PATHS
            .into_iter()
            .filter(|path| known.is_none_or(|it| it == *path));
        let mut failure = None;
        for path in paths {
            match self.call(path, &body)? {
                Ok(response) => {
                    self.path = Some(path);
                    return add_files(&response, files);
                }
                Err(CallFailure::Unimplemented) => failure = Some(CallFailure::Unimplemented),
                Err(other) => {
                    failure = Some(other);
                    break;
                }
            }
        }
        Err(refused(match failure {
            Some(CallFailure::Unimplemented) | None => {
                "the server has no reflection service".to_owned()
            }
            Some(failure) => format!(
                "the server's reflection service failed: {}",
                failure
                    .status_name()
                    .unwrap_or_else(|| failure.meaning().to_owned())
            ),
        }))
    }

    /// Calls a path, and returns the response's first message.
    fn call(&mut self, path: &str, body: &[u8]) -> Result<Result<Vec<u8>, CallFailure>, SpecError> {
        let request = self
            .spec
            .writer()
            .request("POST", path, &self.headers, body)?;
        let failed = |error: super::CheckError| {
            refused(format!("asking the server for the method failed: {error}"))
        };
        self.spec.send_only(&request);
        let (mut connection, kind) =
            exchange(&self.spec, &request, self.timeout, &|| false).map_err(failed)?;
        if let EventKind::CallFailed { failure, .. } = kind {
            return Ok(Err(failure));
        }
        let session = connection.session_mut();
        let captured = session.and_then(|session| session.carrier.captured(0));
        let body = captured.map_or(&[][..], |captured| captured.body());
        let mut reader = MessageReader::new(RESPONSE_BYTES_MAX, false);
        let is_valid = reader.read(body).is_ok_and(|messages| messages > 0);
        if !is_valid {
            return Ok(Err(CallFailure::ContentType));
        }
        let length = [body[1], body[2], body[3], body[4]];
        let end = PREFIX_BYTES + u32::from_be_bytes(length) as usize;
        Ok(Ok(body[PREFIX_BYTES..end].to_vec()))
    }
}

/// Adds the files of a response.
fn add_files(
    response: &[u8],
    files: &mut BTreeMap<String, FileDescriptorProto>,
) -> Result<(), SpecError> {
    let unreadable = |_| refused("the server's reflection service sent invalid descriptors");
    let response = ReflectionResponse::decode(response).map_err(unreadable)?;
    if let Some(error) = response.error {
        let error = format!("the server's reflection service reports: {}", error.text);
        return Err(refused(error));
    }
    for descriptor in response.files.unwrap_or_default().descriptors {
        let file = FileDescriptorProto::decode(&*descriptor).map_err(unreadable)?;
        files.insert(file.name().to_owned(), file);
    }
    Ok(())
}
