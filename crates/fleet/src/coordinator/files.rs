//! Reads the files that a load's options name, to send them to the agents.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use prony_load::{
    LoadSettings, SettingsError, compiled_schema, flag_of, read_text, split_body_file,
};

/// Files to send to the agents: for each file, its name on the agents and its content.
pub(super) type Files = Vec<(String, Vec<u8>)>;

/// Error of a file that the settings name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedFileError {
    /// The file can't be read.
    Unreadable {
        /// Place of the file's name.
        place: FilePlace,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: String,
    },
    /// The list of URLs, the steps or the description of a gRPC method can't be read.
    Settings(SettingsError),
}

/// Place of a file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePlace {
    /// A setting with this key.
    Setting(&'static str),
    /// A line of a list of URLs.
    Line(PathBuf, usize),
}

impl fmt::Display for NamedFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamedFileError::Unreadable { place, path, error } => {
                match place {
                    FilePlace::Setting(key) => f.write_str(&flag_of(key))?,
                    FilePlace::Line(list, line) => write!(f, "--urls {}:{line}", list.display())?,
                }
                write!(f, ": {}: {error}", path.display())
            }
            NamedFileError::Settings(error) => error.fmt(f),
        }
    }
}

/// Reads the files that the settings name, and replaces each path with the file's name on the
/// agents. A .proto file is sent compiled, because it may import others.
///
/// # Errors
///
/// A file can't be read.
pub(super) fn gather(settings: &mut LoadSettings) -> Result<Files, NamedFileError> {
    let mut files = Files::new();
    for (key, path) in [
        ("body_file", &mut settings.body_file),
        ("data", &mut settings.data),
        ("protoset", &mut settings.protoset),
        ("ca", &mut settings.ca),
        ("cert", &mut settings.cert),
        ("key", &mut settings.key),
    ] {
        if let Some(path) = path {
            files.push((
                key.to_owned(),
                read_named_file(FilePlace::Setting(key), path)?,
            ));
            *path = key.into();
        }
    }
    if settings.proto.is_some() {
        let compiled = compiled_schema(settings).map_err(NamedFileError::Settings)?;
        files.push(("protoset".to_owned(), compiled));
        settings.protoset = Some("protoset".into());
        (settings.proto, settings.proto_path) = (None, None);
    }
    for (index, field) in settings.form.iter_mut().enumerate() {
        if let Some(path) = field.file() {
            let name = format!("form-{index}");
            files.push((
                name.clone(),
                read_named_file(FilePlace::Setting("form"), path)?,
            ));
            field.set_file(name.into());
        }
    }
    if let Some(path) = &mut settings.urls {
        let list = read_text(path).map_err(NamedFileError::Settings)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let list = with_bodies(&list, path, folder, &mut files)?;
        files.push(("urls".to_owned(), list.into_bytes()));
        *path = "urls".into();
    }
    if settings.has_steps() {
        settings.step = settings.journey_steps().map_err(NamedFileError::Settings)?;
        settings.steps = None;
        let mut count = 0;
        for step in &mut settings.step {
            step.replace_files(|path| {
                let name = format!("step-file-{count}");
                count += 1;
                let bytes = read_named_file(FilePlace::Setting("steps"), path)?;
                files.push((name.clone(), bytes));
                Ok(name.into())
            })?;
        }
    }
    Ok(files)
}

fn read_named_file(place: FilePlace, path: &Path) -> Result<Vec<u8>, NamedFileError> {
    fs::read(path).map_err(|error| NamedFileError::Unreadable {
        place,
        path: path.to_owned(),
        error: error.to_string(),
    })
}

/// In a list of URLs, replaces the paths of body files with the names under which the files are
/// sent.
fn with_bodies(
    list: &str,
    path: &Path,
    folder: &Path,
    files: &mut Files,
) -> Result<String, NamedFileError> {
    let mut known: Vec<(&str, String)> = Vec::new();
    let mut lines = String::with_capacity(list.len());
    for (line, number) in list.lines().zip(1..) {
        if number > 1 {
            lines.push('\n');
        }
        let Some((before, named)) = split_body_file(line) else {
            lines.push_str(line);
            continue;
        };
        let name = match known.iter().find(|(path, _)| *path == named) {
            Some((_, name)) => name.clone(),
            None => {
                let name = format!("urls-body-{}", known.len());
                let place = FilePlace::Line(path.to_owned(), number);
                let bytes = read_named_file(place, &folder.join(named))?;
                files.push((name.clone(), bytes));
                known.push((named, name.clone()));
                name
            }
        };
        lines.extend([before, "<", &name]);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_file_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("a"), b"\0\xff").unwrap();
        fs::write(path("sub/b"), "bee").unwrap();
        fs::write(path("ca.pem"), "certificate").unwrap();
        fs::write(path("users.csv"), "id\n1\n").unwrap();
        let list = format!(
            "# /x POST <none\n/p\n /q POST  <../a \n/r PUT <b\n/s POST <../a\n/t POST x<y\n\
             /{{{{ id }}}} POST <{}\n{{\"url\": \"/\", \"body\": \"<x\"}}",
            path("a")
        );
        fs::write(path("sub/list"), list).unwrap();
        let mut settings = LoadSettings {
            connections: Some(3),
            urls: Some(path("sub/list").into()),
            ca: Some(path("ca.pem").into()),
            data: Some(path("users.csv").into()),
            form: vec![
                "n=1".parse().unwrap(),
                format!("f=@{}", path("ca.pem")).parse().unwrap(),
            ],
            ..LoadSettings::default()
        };
        let files = gather(&mut settings).unwrap();
        let renamed = LoadSettings {
            connections: Some(3),
            urls: Some("urls".into()),
            ca: Some("ca".into()),
            data: Some("data".into()),
            form: vec![
                "n=1".parse().unwrap(),
                "f=@form-1;type=application/octet-stream;filename=ca.pem"
                    .parse()
                    .unwrap(),
            ],
            ..LoadSettings::default()
        };
        assert_eq!(settings, renamed);
        let bytes = |name: &str| {
            let found = files.iter().find(|(it, _)| it == name);
            found.unwrap_or_else(|| panic!("{name}")).1.as_slice()
        };
        assert_eq!(bytes("ca"), b"certificate");
        assert_eq!(bytes("data"), b"id\n1\n");
        assert_eq!(bytes("form-1"), b"certificate");
        assert_eq!(bytes("urls-body-0"), b"\0\xff");
        assert_eq!(bytes("urls-body-1"), b"bee");
        assert_eq!(
            std::str::from_utf8(bytes("urls")).unwrap(),
            "# /x POST <none\n/p\n/q POST  <urls-body-0\n/r PUT <urls-body-1\n/s POST <urls-body-0\n\
             /t POST x<y\n/{{ id }} POST <urls-body-2\n{\"url\": \"/\", \"body\": \"<x\"}"
        );
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        fs::write(&list, "/a\n/b POST <none\n").unwrap();
        let mut settings = LoadSettings {
            urls: Some(list.clone()),
            ..LoadSettings::default()
        };
        let error = gather(&mut settings).unwrap_err().to_string();
        let place = format!("--urls {}:2: ", list.display());
        assert!(
            error.starts_with(&place) && error.contains("none"),
            "{error}"
        );
    }
}
