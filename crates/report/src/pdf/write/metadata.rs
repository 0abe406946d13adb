//! What the file says of itself.

use pdf_writer::{Pdf, Ref, TextStr};

use crate::pdf::About;
use crate::table::plain;

/// Of all sentences that prony makes.
pub(super) const LANGUAGE: &str = "en";

/// Writes title, author and language, in the old form and in the new one. No date: when a report
/// was rendered says nothing of what was measured, and the same folder has to give the same bytes.
pub(super) fn write(pdf: &mut Pdf, info: Ref, xmp: Ref, about: &About) {
    let title = plain(&about.title);
    let tool = format!("prony {}", plain(&about.version));
    let mut written = pdf.document_info(info);
    written.title(TextStr(&title));
    written.author(TextStr(&tool));
    written.creator(TextStr(&tool));
    written.producer(TextStr("prony"));
    drop(written);
    let (title, tool) = (escaped(&title), escaped(&tool));
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

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
