//! The document's structure for screen readers and programs. It assigns each marked part of a page
//! to its heading, paragraph, cell or figure.

use pdf_writer::types::{StructRole, TableHeaderScope};
use pdf_writer::writers::{Catalog, StructTreeRoot};
use pdf_writer::{Finish, Name, Pdf, Ref, TextStr};

use super::Numbers;
use super::content::PageContent;
use crate::pdf::block::{Role, StructureElement};

/// The structure elements, their references, and the marked parts that belong to them.
#[derive(Debug)]
pub(super) struct Structure {
    root: Ref,
    document: Ref,
    elements: Vec<Ref>,
    /// The page and number of each element's marked parts.
    drawn: Vec<Vec<(usize, i32)>>,
    /// The reference of each page's list of elements.
    lists: Vec<Ref>,
    /// The elements of each page's marked parts.
    marked: Vec<Vec<usize>>,
}

impl Structure {
    pub(super) fn new(
        elements: &[StructureElement],
        contents: &[PageContent],
        numbers: &mut Numbers,
    ) -> Structure {
        let mut drawn = vec![Vec::new(); elements.len()];
        for (page, content) in contents.iter().enumerate() {
            for (id, &element) in (0..).zip(&content.marked) {
                drawn[element].push((page, id));
            }
        }
        Structure {
            root: numbers.next(),
            document: numbers.next(),
            elements: elements.iter().map(|_| numbers.next()).collect(),
            drawn,
            lists: contents.iter().map(|_| numbers.next()).collect(),
            marked: contents.iter().map(|c| c.marked.clone()).collect(),
        }
    }

    pub(super) fn add_to(&self, catalog: &mut Catalog<'_>) {
        catalog.pair(Name(b"StructTreeRoot"), self.root);
    }

    /// Writes the root of the structure, with the map from marked parts to elements.
    fn write_root(&self, pdf: &mut Pdf) {
        let mut root = pdf.indirect(self.root).start::<StructTreeRoot<'_>>();
        root.child(self.document);
        let mut tree = root.parent_tree();
        let mut entries = tree.nums();
        for (key, &list) in (0..).zip(&self.lists) {
            entries.insert(key, list);
        }
        entries.finish();
        tree.finish();
        root.parent_tree_next_key(i32::try_from(self.lists.len()).unwrap_or(i32::MAX));
    }

    pub(super) fn write(&self, pdf: &mut Pdf, elements: &[StructureElement], pages: &[Ref]) {
        self.write_root(pdf);
        let mut children: Vec<Vec<Ref>> = vec![Vec::new(); elements.len()];
        let mut tops = Vec::new();
        for (element, &id) in elements.iter().zip(&self.elements) {
            match element.parent {
                Some(parent) => children[parent].push(id),
                None => tops.push(id),
            }
        }
        let mut document = pdf.struct_element(self.document);
        document.kind(StructRole::Document);
        document.parent(self.root);
        let mut list = document.children();
        for id in tops {
            list.struct_element(id);
        }
        list.finish();
        document.finish();
        for (place, element) in elements.iter().enumerate() {
            let mut written = pdf.struct_element(self.elements[place]);
            written.kind(kind(&element.role));
            let parent = element.parent.map(|parent| self.elements[parent]);
            written.parent(parent.unwrap_or(self.document));
            match &element.role {
                Role::Figure(label) => {
                    written.alt(TextStr(label));
                }
                Role::HeadCell => {
                    let mut attributes = written.attributes();
                    attributes.push().table().scope(TableHeaderScope::Column);
                }
                _ => {}
            }
            let mut list = written.children();
            for &id in &children[place] {
                list.struct_element(id);
            }
            for &(page, id) in &self.drawn[place] {
                let mut part = list.marked_content_ref();
                part.page(pages[page]);
                part.marked_content_id(id);
            }
            list.finish();
            written.finish();
        }
        for (&list, marked) in self.lists.iter().zip(&self.marked) {
            let elements = marked.iter().map(|&element| self.elements[element]);
            pdf.indirect(list).array().items(elements);
        }
    }
}

fn kind(role: &Role) -> StructRole {
    match role {
        Role::Title => StructRole::H1,
        Role::Section => StructRole::H2,
        Role::Subsection => StructRole::H3,
        Role::Paragraph => StructRole::P,
        Role::Code => StructRole::Code,
        Role::Table => StructRole::Table,
        Role::Row => StructRole::TR,
        Role::HeadCell => StructRole::TH,
        Role::Cell => StructRole::TD,
        Role::Figure(_) => StructRole::Figure,
    }
}
