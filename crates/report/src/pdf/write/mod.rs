//! Writes pages to a PDF file.
//!
//! Object numbers are allocated in order, and pages are written in order, so the same pages give
//! the same bytes.

mod content;
mod fonts;
mod metadata;
mod outline;
mod structure;

use pdf_writer::types::TabOrder;
use pdf_writer::writers::Resources;
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref};

use super::PdfInfo;
use super::block::StructureElement;
use super::flow::{Bookmark, Page};
use super::style::{PAGE_HEIGHT, PAGE_WIDTH};
use content::PageContent;
use fonts::Fonts;

/// Allocates object numbers.
#[derive(Debug)]
struct Numbers(i32);

impl Numbers {
    fn next(&mut self) -> Ref {
        self.0 += 1;
        Ref::new(self.0)
    }
}

/// Compresses bytes for a stream.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    // Higher levels take longer but don't make the data smaller.
    miniz_oxide::deflate::compress_to_vec_zlib(bytes, 7)
}

/// Writes the given pages as a PDF.
pub(super) fn file(
    pages: &[Page],
    bookmarks: &[Bookmark],
    elements: &[StructureElement],
    info: &PdfInfo,
) -> Vec<u8> {
    let mut numbers = Numbers(0);
    let catalog = numbers.next();
    let tree = numbers.next();
    let info_ref = numbers.next();
    let xmp = numbers.next();
    let resources = numbers.next();
    let page_refs: Vec<Ref> = pages.iter().map(|_| numbers.next()).collect();
    let fonts = Fonts::used_by(pages);
    let contents: Vec<PageContent> = pages
        .iter()
        .map(|page| PageContent::of(page, &fonts))
        .collect();

    let mut pdf = Pdf::new();
    pdf.set_version(1, 7);
    let outline = outline::write(&mut pdf, &mut numbers, bookmarks, &page_refs);
    let structure = structure::Structure::new(elements, &contents, &mut numbers);
    write_catalog(&mut pdf, (catalog, tree, xmp), outline, &structure);
    metadata::write(&mut pdf, (info_ref, xmp), info);
    let font_refs = fonts.write(&mut pdf, &mut numbers);
    write_resources(&mut pdf, resources, &font_refs, &contents);
    let mut root = pdf.pages(tree);
    root.kids(page_refs.iter().copied());
    root.count(i32::try_from(page_refs.len()).unwrap_or(i32::MAX));
    root.media_box(Rect::new(0.0, 0.0, PAGE_WIDTH as f32, PAGE_HEIGHT as f32));
    root.pair(Name(b"Resources"), resources);
    root.finish();
    for (place, (&page, content)) in page_refs.iter().zip(&contents).enumerate() {
        let stream = numbers.next();
        let mut written = pdf.page(page);
        written.parent(tree);
        written.contents(stream);
        written.struct_parents(i32::try_from(place).unwrap_or(i32::MAX));
        written.tab_order(TabOrder::StructureOrder);
        written.finish();
        let bytes = compressed(&content.bytes);
        pdf.stream(stream, &bytes).filter(Filter::FlateDecode);
    }
    structure.write(&mut pdf, elements, &page_refs);
    pdf.finish()
}

fn write_catalog(
    pdf: &mut Pdf,
    (catalog, tree, xmp): (Ref, Ref, Ref),
    outline: Option<Ref>,
    structure: &structure::Structure,
) {
    let mut written = pdf.catalog(catalog);
    written.pages(tree);
    written.metadata(xmp);
    written.lang(pdf_writer::TextStr(metadata::LANGUAGE));
    written.viewer_preferences().display_doc_title(true);
    written.mark_info().marked(true);
    if let Some(outline) = outline {
        written.outlines(outline);
        written.page_mode(pdf_writer::types::PageMode::UseOutlines);
    }
    structure.add_to(&mut written);
}

/// Writes the resources that all pages share: fonts and opacities.
fn write_resources(pdf: &mut Pdf, id: Ref, fonts: &[(String, Ref)], contents: &[PageContent]) {
    let mut opacities: Vec<u8> = contents
        .iter()
        .flat_map(|content| content.opacities.iter().copied())
        .collect();
    opacities.sort_unstable();
    opacities.dedup();
    let mut resources = pdf.indirect(id).start::<Resources<'_>>();
    let mut dict = resources.fonts();
    for (name, font) in fonts {
        dict.pair(Name(name.as_bytes()), *font);
    }
    dict.finish();
    let mut states = resources.ext_g_states();
    for opacity in opacities {
        let share = f32::from(opacity) / 100.0;
        let name = content::state_name(opacity);
        let mut state = states.insert(Name(name.as_bytes())).dict();
        state.pair(Name(b"Type"), Name(b"ExtGState"));
        state.pair(Name(b"ca"), share);
        state.pair(Name(b"CA"), share);
    }
}
