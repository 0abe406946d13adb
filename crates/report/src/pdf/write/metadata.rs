//! The file's metadata.

use pdf_writer::{Pdf, Ref, TextStr};

use crate::pdf::PdfInfo;
use crate::table::{plain, xml};

/// The language of all reports.
pub(super) const LANGUAGE: &str = "en";

/// Writes title, author and language as document information and as XMP. There is no date, because
/// the same folder must always give the same bytes.
pub(super) fn write(pdf: &mut Pdf, (reference, xmp): (Ref, Ref), info: &PdfInfo) {
    let title = plain(&info.title);
    let tool = format!("prony {}", plain(&info.version));
    let mut written = pdf.document_info(reference);
    written.title(TextStr(&title));
    written.author(TextStr(&tool));
    written.creator(TextStr(&tool));
    written.producer(TextStr("prony"));
    drop(written);
    let (title, tool) = (xml(&title), xml(&tool));
    let packet = format!(
        "<?xpacket begin=\"\u{feff}\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n\
         <x:xmpmeta xmlns:x=\"adobe:ns:meta/\">\n\
         <rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\n\
         <rdf:Description rdf:about=\"\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" \
         xmlns:xmp=\"http://ns.adobe.com/xap/1.0/\" xmlns:pdf=\"http://ns.adobe.com/pdf/1.3/\">\n\
         <dc:title><rdf:Alt><rdf:li xml:lang=\"x-default\">{title}</rdf:li></rdf:Alt></dc:title>\n\
         <dc:creator><rdf:Seq><rdf:li>{tool}</rdf:li></rdf:Seq></dc:creator>\n\
         <dc:language><rdf:Bag><rdf:li>{LANGUAGE}</rdf:li></rdf:Bag></dc:language>\n\
         <xmp:CreatorTool>{tool}</xmp:CreatorTool>\n\
         <pdf:Producer>prony</pdf:Producer>\n\
         </rdf:Description>\n</rdf:RDF>\n</x:xmpmeta>\n<?xpacket end=\"r\"?>"
    );
    pdf.metadata(xmp, packet.as_bytes());
}
