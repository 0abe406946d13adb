//! Finds the parts of an HTML page (style sheets, scripts, images) and its refresh target.

use std::borrow::Cow;
use std::collections::HashSet;

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use prony_load::decode_beginning;

use super::url::SiegeUrl;

/// Maximum number of body bytes that are captured from a page.
pub(super) const PAGE_BYTES_MAX: usize = 2 << 20;

/// Maximum number of decoded bytes of a page that are parsed.
const DECODED_BYTES_MAX: usize = 16 << 20;

/// URLs to which a page refers. Each URL is listed once, in the order of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PageReferences {
    /// URLs to fetch as parts of the page.
    pub(super) parts: Vec<SiegeUrl>,
    /// Target of `<meta http-equiv="refresh">`.
    pub(super) refresh: Option<SiegeUrl>,
}

impl PageReferences {
    /// Parses a page that was loaded from `url`. Skips references that can't be requested.
    pub(super) fn read(
        body: &[u8],
        coding: Option<&str>,
        url: &SiegeUrl,
        escape: bool,
    ) -> PageReferences {
        let html = unpacked(body, coding, DECODED_BYTES_MAX);
        let mut emitter = DefaultEmitter::default();
        // With this setting, text in scripts and style sheets that looks like a tag is not treated
        // as one.
        emitter.naively_switch_states(true);
        let mut page = PageReferences::default();
        let mut seen = HashSet::new();
        let mut base = url.clone();
        for token in Tokenizer::new_with_emitter(&*html, emitter) {
            let Ok(Token::StartTag(tag)) = token else {
                continue;
            };
            let join = |reference: String| base.join(&reference, escape).ok();
            let found = match &tag.name[..] {
                b"link" => style_sheet(&tag).and_then(join),
                b"script" | b"img" => attribute(&tag, b"src").and_then(join),
                b"body" => attribute(&tag, b"background").and_then(join),
                b"meta" => {
                    let target = refresh(&tag).and_then(join);
                    page.refresh = page.refresh.or(target);
                    None
                }
                b"base" => {
                    base = attribute(&tag, b"href").and_then(join).unwrap_or(base);
                    None
                }
                _ => None,
            };
            if let Some(part) = found
                && seen.insert(part.clone())
            {
                page.parts.push(part);
            }
        }
        page
    }
}

/// Returns an attribute, unless it is empty.
fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value = tag.attributes.get(name)?;
    let value = String::from_utf8_lossy(value).trim().to_owned();
    (!value.is_empty()).then_some(value)
}

fn style_sheet(tag: &StartTag<()>) -> Option<String> {
    let relations = attribute(tag, b"rel")?.to_ascii_lowercase();
    let is = |name| relations.split_ascii_whitespace().any(|word| word == name);
    let href = attribute(tag, b"href")?;
    (is("stylesheet") && !is("alternate")).then_some(href)
}

/// Returns the URL in `content="0; url=…"`.
fn refresh(tag: &StartTag<()>) -> Option<String> {
    let kind = attribute(tag, b"http-equiv")?;
    let content = attribute(tag, b"content")?;
    let (_, target) = content.split_once([';', ','])?;
    let target = target.trim_start();
    let (key, url) = target.split_once('=')?;
    let is_url = kind.eq_ignore_ascii_case("refresh") && key.trim().eq_ignore_ascii_case("url");
    let url = url.trim().trim_matches(['"', '\'']);
    (is_url && !url.is_empty()).then(|| url.to_owned())
}

/// Decodes a body up to the first error, but no more than `most` bytes. A body without a coding, or
/// with an unknown one, is returned unchanged.
pub(super) fn unpacked<'a>(body: &'a [u8], coding: Option<&str>, most: usize) -> Cow<'a, [u8]> {
    let decoded = coding.and_then(|coding| decode_beginning(coding, body, most));
    decoded.map_or(Cow::Borrowed(body), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn read(html: &str) -> PageReferences {
        let url = SiegeUrl::parse("http://a.test/dir/page", true).unwrap();
        PageReferences::read(html.as_bytes(), None, &url, true)
    }

    fn parts(html: &str) -> Vec<String> {
        read(html).parts.iter().map(SiegeUrl::text).collect()
    }

    #[test]
    fn style_sheets_scripts_images_and_backgrounds() {
        assert_eq!(
            parts(
                "<link rel='StyleSheet' href=a.css><link rel=next href=n><link rel='alternate \
                 stylesheet' href=alt.css><SCRIPT SRC=\"/b.js\"></SCRIPT><body background=bg.png>\
                 <img alt='<img src=no.png>' src=//b.test/c.png><img src=''><a href=/z>z</a>\
                 <img src=data:image/gif;base64,AA><img src='x.png?a=1&amp;b=2'><iframe src=f></iframe>"
            ),
            [
                "http://a.test/dir/a.css",
                "http://a.test/b.js",
                "http://a.test/dir/bg.png",
                "http://b.test/c.png",
                "http://a.test/dir/x.png?a=1&b=2",
            ]
        );
    }

    #[test]
    fn each_part_is_found_once_and_none_in_comments_or_scripts() {
        assert_eq!(
            parts(
                "<img src=a.png><img src=./a.png><!-- <img src=b.png> -->\
                 <script>x = '<img src=c.png>';</script><img src=mailto:d><img src=javascript:x>"
            ),
            ["http://a.test/dir/a.png"]
        );
    }

    #[test]
    fn a_base_changes_the_urls_after_it() {
        assert_eq!(
            parts("<base href='/other/'><img src=a.png>"),
            ["http://a.test/other/a.png"]
        );
    }

    #[test]
    fn refreshes() {
        for (html, leads) in [
            (
                "<meta http-equiv=refresh content='0; url=/x'>",
                Some("http://a.test/x"),
            ),
            (
                "<meta http-equiv=Refresh content='5;URL=\"y\"'>",
                Some("http://a.test/dir/y"),
            ),
            ("<meta http-equiv=refresh content=5>", None),
            ("<meta name=refresh content='0; url=/x'>", None),
            ("<meta http-equiv=refresh content='0; url='>", None),
        ] {
            let refresh = read(html).refresh.map(|url| url.text());
            assert_eq!(refresh.as_deref(), leads, "{html}");
        }
    }

    #[test]
    fn compressed_pages_are_decoded() {
        let html = b"<img src=/a.png>";
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(html).unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(html).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
        bare.write_all(html).unwrap();
        let (gzip, zlib) = (gzip.finish().unwrap(), zlib.finish().unwrap());
        let bare = bare.finish().unwrap();
        assert_eq!(&*unpacked(&gzip, Some("GZIP"), 1000), html);
        assert_eq!(&*unpacked(&zlib, Some("deflate"), 1000), html);
        assert_eq!(&*unpacked(&bare, Some("deflate"), 1000), html);
        assert_eq!(&*unpacked(&gzip, Some("gzip"), 4), b"<img");
        assert_eq!(&*unpacked(html, Some("unknown"), 1000), html);
        assert!(html.starts_with(&unpacked(&gzip[..gzip.len() - 9], Some("gzip"), 1000)));
        assert_eq!(&*unpacked(b"no gzip", Some("gzip"), 1000), b"");
    }
}
