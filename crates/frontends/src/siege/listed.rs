//! Parses requests from the lines of a URL file, or from the URL on the command line.

use std::path::Path;
use std::sync::Arc;

use super::url::SiegeUrl;
use super::variables::{Variables, is_name};
use prony_load::SettingsError;
use prony_load::input_file::{self, DATA_BYTES_MAX};

/// HTTP method of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl Method {
    const ALL: [Method; 7] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Patch,
        Method::Delete,
        Method::Options,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }

    /// Returns true if siege sends a body with this method, even an empty one.
    pub(super) fn has_body(self) -> bool {
        !matches!(self, Method::Get | Method::Head)
    }
}

/// One request of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedRequest {
    pub(super) url: SiegeUrl,
    pub(super) method: Method,
    pub(super) body: Arc<[u8]>,
}

impl ListedRequest {
    /// Creates a GET request for a page or for part of a page.
    pub(super) fn get(url: SiegeUrl) -> ListedRequest {
        ListedRequest {
            url,
            method: Method::Get,
            body: Arc::from([]),
        }
    }

    /// Parses a line: `URL`, `URL METHOD body` or `URL METHOD <file`.
    ///
    /// # Errors
    ///
    /// The line is invalid.
    pub(super) fn parse(line: &str, escape: bool) -> Result<ListedRequest, SettingsError> {
        let line = unquoted(line.trim());
        let Some((url, method, body)) = split_method(line) else {
            return Ok(ListedRequest::get(SiegeUrl::parse(line, escape)?));
        };
        let url = SiegeUrl::parse(url.trim_end(), escape)?;
        let body = match body.strip_prefix('<') {
            Some(file) => read_body(Path::new(file.trim()))?,
            None => body.as_bytes().to_vec(),
        };
        if !method.has_body() && !body.is_empty() {
            return Err(format!("{} takes no body", method.name()).into());
        }
        Ok(ListedRequest {
            url,
            method,
            body: body.into(),
        })
    }
}

/// Removes quotes around the whole line.
fn unquoted(line: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = line
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
        {
            return inner.trim();
        }
    }
    line
}

/// Splits a line into the URL, the first method name that follows a blank, and the rest.
fn split_method(line: &str) -> Option<(&str, Method, &str)> {
    let found = Method::ALL.iter().filter_map(|&method| {
        line.match_indices(method.name())
            .find(|&(at, name)| {
                let before = line[..at].ends_with(char::is_whitespace);
                let after = line[at + name.len()..].chars().next();
                before && after.is_none_or(|c| c.is_whitespace() || c == '<')
            })
            .map(|(at, name)| (at, method, at + name.len()))
    });
    let (at, method, end) = found.min_by_key(|&(at, ..)| at)?;
    Some((&line[..at], method, line[end..].trim_start()))
}

/// Extensions of files that are sent unchanged. Leading and trailing white space is removed from
/// other text files.
const UNCHANGED_EXTENSIONS: &str = "ai aif aifc aiff au avi bcpio bin ccad cdf class cpio cpt csh dcr dir dms doc \
    drw dvi dwg dxf dxr eps exe ez fli gif gtar gz hdf hqx ice ico ief iges igs ips ipx jpe jpeg jpg js \
    json kar latex lha lsp lzh man me mesh mid midi mif mime mov movie mp2 mp3 mpe mpeg mpg mpga ms msh \
    nc oda pbm pdb pdf pgm pgn png pnm pot ppm pps ppt ppz pre prt ps qt ra ram ras rgb rm roff rpm rtf \
    rtx scm set sh shar silo sit skd skm skp skt smi smil snd sol spl src step stl stp sv4cpio sv4crc \
    swf t tar tcl tex texi texinfo tif tiff tr tsi tsp unv ustar vcd vda viv vivo vrml wav wrl xbm xlc \
    xll xlm xls xlw xpm xwd xyz zip";

/// Reads a file.
///
/// # Errors
///
/// The file can't be read.
fn read_file(file: &Path) -> Result<Vec<u8>, SettingsError> {
    input_file::read_file(file, DATA_BYTES_MAX).map_err(|error| {
        let place = format!("unable to open file: {}", file.display());
        SettingsError::from(error.to_string()).at(place)
    })
}

fn read_body(file: &Path) -> Result<Vec<u8>, SettingsError> {
    let bytes = read_file(file)?;
    let kind = file.extension().unwrap_or_default().to_ascii_lowercase();
    let is_binary = std::str::from_utf8(&bytes).is_err() || bytes.contains(&0);
    if is_binary
        || UNCHANGED_EXTENSIONS
            .split_whitespace()
            .any(|other| kind == other)
    {
        Ok(bytes)
    } else {
        Ok(bytes.trim_ascii().to_vec())
    }
}

/// Content of a URL file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UrlFile {
    /// Requests in the order of the file.
    pub(super) wanted: Vec<ListedRequest>,
    /// Warnings about the file, each with a line number.
    pub(super) remarks: Vec<String>,
}

impl UrlFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// The file can't be read, or has an invalid line.
    pub(super) fn read(path: &Path, escape: bool) -> Result<UrlFile, SettingsError> {
        let bytes = read_file(path)
            .map_err(|error| error.hint("name a URL or a file of URLs (siege --help shows how)"))?;
        UrlFile::parse(
            &String::from_utf8_lossy(input_file::without_byte_order_mark(&bytes)),
            &path.display().to_string(),
            escape,
        )
    }

    fn parse(text: &str, shown: &str, escape: bool) -> Result<UrlFile, SettingsError> {
        let mut variables = Variables::default();
        let mut file = UrlFile::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line);
            if line.is_empty() {
                continue;
            }
            let expanded = variables.expand(line);
            for name in &expanded.undefined {
                file.remarks.push(format!(
                    "{shown}:{number}: ${name} is not defined; using an empty value"
                ));
            }
            if let Some((name, value)) = definition(&expanded.text) {
                variables.define(name, value);
                continue;
            }
            let wanted = ListedRequest::parse(&expanded.text, escape)
                .map_err(|error| error.at(format!("{shown}:{number}")))?;
            file.wanted.push(wanted);
        }
        Ok(file)
    }
}

/// Removes a comment. A `#` starts a comment only at the beginning of a line or after a blank;
/// elsewhere, it may belong to a URL.
fn without_comment(line: &str) -> &str {
    let begins = |&(at, _): &(usize, &str)| at == 0 || line[..at].ends_with(char::is_whitespace);
    let end = line.match_indices('#').find(begins).map(|(at, _)| at);
    line[..end.unwrap_or(line.len())].trim()
}

/// Parses `NAME = value`.
fn definition(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    is_name(name.trim()).then(|| (name.trim(), unquoted(value.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> UrlFile {
        UrlFile::parse(text, "urls.txt", true).unwrap()
    }

    fn error(text: &str) -> String {
        UrlFile::parse(text, "u", true).unwrap_err().to_string()
    }

    fn shown(file: &UrlFile) -> Vec<String> {
        let show = |wanted: &ListedRequest| {
            let body = String::from_utf8_lossy(&wanted.body).into_owned();
            format!("{} {} {body}", wanted.method.name(), wanted.url.text())
        };
        file.wanted
            .iter()
            .map(|wanted| show(wanted).trim().to_owned())
            .collect()
    }

    #[test]
    fn lines_comments_and_variables() {
        let file = parsed(
            "# a comment\n  # another\n\nHOST=a.test:81\nROOT = http://$(HOST)\n\
             $(ROOT)/one\n${ROOT}/two # behind\nb.test/three#part\r\n\"http://b.test/four\"\n\
             http://$HOST/sp ace\n",
        );
        assert_eq!(
            shown(&file),
            [
                "GET http://a.test:81/one",
                "GET http://a.test:81/two",
                "GET http://b.test/three",
                "GET http://b.test/four",
                "GET http://a.test:81/sp%20ace",
            ]
        );
        assert_eq!(file.remarks, Vec::<String>::new());
    }

    #[test]
    fn methods_and_bodies() {
        let file = parsed(
            "a.test/p POST a=b&c=d e\na.test/u PUT x=1\na.test/c PATCH y\na.test/d DELETE\n\
             a.test/o OPTIONS\na.test/h HEAD\na.test/POST/GET?x=POST\na.test/q?a=b=c;d\n",
        );
        assert_eq!(
            shown(&file),
            [
                "POST http://a.test/p a=b&c=d e",
                "PUT http://a.test/u x=1",
                "PATCH http://a.test/c y",
                "DELETE http://a.test/d",
                "OPTIONS http://a.test/o",
                "HEAD http://a.test/h",
                "GET http://a.test/POST/GET?x=POST",
                "GET http://a.test/q?a=b=c;d",
            ]
        );
    }

    #[test]
    fn bodies_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("body.txt");
        std::fs::write(&text, "k=v\n").unwrap();
        let json = folder.path().join("body.json");
        std::fs::write(&json, "{}\n").unwrap();
        let binary = folder.path().join("body");
        std::fs::write(&binary, "\n\0\n").unwrap();
        for (line, body) in [
            (format!("a.test POST <{}", text.display()), &b"k=v"[..]),
            (
                format!("a.test POST < {}", binary.display()),
                &b"\n\0\n"[..],
            ),
            (format!("a.test POST <{}", json.display()), &b"{}\n"[..]),
            (format!("a.test PUT<{}", text.display()), &b"k=v"[..]),
        ] {
            assert_eq!(
                &*ListedRequest::parse(&line, true).unwrap().body,
                body,
                "{line}"
            );
        }
        let error = error("\na.test POST </no/such");
        let begins = "u:2: unable to open file: /no/such: ";
        assert!(error.starts_with(begins), "{error}");
    }

    #[test]
    fn errors_name_their_line() {
        assert_eq!(
            error("a.test\nftp://b/"),
            "u:2: ftp://b/: FTP is not supported, only HTTP"
        );
        assert_eq!(error("a.test GET x"), "u:1: GET takes no body");
        let remarks = parsed("a.test/x?$(PRONY_NO_SUCH_NAME)").remarks;
        assert!(
            remarks[0].starts_with("urls.txt:1: $PRONY_NO_SUCH_NAME"),
            "{remarks:?}"
        );
        assert!(UrlFile::read(Path::new("/no/such"), true).is_err());
    }
}
