//! JUnit XML for Jenkins, GitLab and others: a test case for each comparison and condition.

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::{Case, CaseStatus, RunVerdicts};
use crate::environment::flattened;
use crate::stored::StoredContent;
use crate::table::xml_plain as plain;

/// Returns the document. Undecided cases are skipped. The message of a failure is its sentence.
pub fn junit(judged: &RunVerdicts<'_>) -> String {
    let cases = judged.cases();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    // Writing to memory can't fail.
    let _ = write_document(&mut writer, judged, &cases);
    let mut xml = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    xml.push('\n');
    xml
}

type Xml = Writer<Vec<u8>>;

fn write_document(
    writer: &mut Xml,
    judged: &RunVerdicts<'_>,
    cases: &[Case],
) -> std::io::Result<()> {
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let name = format!("prony: {}", plain(&judged.name()));
    let mut counts = counts(&cases.iter().collect::<Vec<_>>());
    counts.insert(0, ("name", name));
    writer
        .create_element("testsuites")
        .with_attributes(borrowed(&counts))
        .write_inner_content(|writer| {
            // Suites without cases are omitted, because some readers reject them. The first suite
            // contains the properties of the run.
            let mut properties = Some(judged);
            for kind in ["comparison", "against", "condition"] {
                let own: Vec<&Case> = cases.iter().filter(|case| case.kind == kind).collect();
                if !own.is_empty() {
                    suite(writer, judged, kind, (&own, properties.take()))?;
                }
            }
            Ok(())
        })?;
    Ok(())
}

/// The attributes of one suite, or of all suites together.
fn counts(cases: &[&Case]) -> Vec<(&'static str, String)> {
    let with = |status: CaseStatus| cases.iter().filter(|case| case.status == status).count();
    let seconds = cases.iter().fold(0.0, |sum, case| sum + case.seconds);
    vec![
        ("tests", cases.len().to_string()),
        ("failures", with(CaseStatus::Failed).to_string()),
        ("errors", "0".to_owned()),
        ("skipped", with(CaseStatus::Skipped).to_string()),
        ("time", format!("{seconds:.3}")),
    ]
}

fn borrowed<'a>(
    attributes: &'a [(&'static str, String)],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    attributes
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
}

fn suite(
    writer: &mut Xml,
    judged: &RunVerdicts<'_>,
    kind: &str,
    (cases, described): (&[&Case], Option<&RunVerdicts<'_>>),
) -> std::io::Result<()> {
    let name = plain(&judged.name());
    let about = judged.new.about("");
    let mut attributes = counts(cases);
    attributes.insert(0, ("name", format!("{name}: {kind}")));
    // JUnit timestamps have no time zone, so the time is in UTC.
    let timestamp = about.started_at.trim_end_matches('Z').to_owned();
    if !timestamp.is_empty() {
        attributes.push(("timestamp", timestamp));
    }
    writer
        .create_element("testsuite")
        .with_attributes(borrowed(&attributes))
        .write_inner_content(|writer| {
            if let Some(judged) = described {
                properties(writer, judged)?;
            }
            for case in cases {
                testcase(writer, &format!("prony.{}.{kind}", class(&name)), case)?;
            }
            Ok(())
        })?;
    Ok(())
}

/// Replaces the dots in a name, because readers would split the name at them.
fn class(name: &str) -> String {
    let part = |c: char| if c.is_alphanumeric() { c } else { '_' };
    name.chars().map(part).collect()
}

fn properties(writer: &mut Xml, judged: &RunVerdicts<'_>) -> std::io::Result<()> {
    let mut all: Vec<(String, String)> = Vec::new();
    let about = judged.new.about("");
    all.push(("source".to_owned(), about.source));
    all.push((format!("{}s", about.unit), about.count.to_string()));
    if let Some((_, _, record)) = judged.new.records().first() {
        all.push(("prony".to_owned(), record.version.clone()));
    }
    if let StoredContent::Experiment(experiment) = &judged.new.content {
        let verdict = &experiment.verdict;
        all.push(("question".to_owned(), verdict.question.clone()));
        all.push(("margin".to_owned(), verdict.margin.to_string()));
        all.push(("seed".to_owned(), verdict.seed.to_string()));
        let machine = flattened(&experiment.environment["machine"]);
        let machine = machine.into_iter();
        all.extend(
            machine.map(|(name, text)| (format!("machine.{}", name.replace(" › ", ".")), text)),
        );
    }
    for finding in judged.runs.into_iter().flat_map(|runs| &runs.differences) {
        let side = |side: &Option<String>| side.clone().unwrap_or_default();
        all.push((
            format!("differs.{}.{}", finding.part.name(), finding.name),
            format!("{} → {}", side(&finding.old), side(&finding.new)),
        ));
    }
    writer
        .create_element("properties")
        .write_inner_content(|writer| {
            for (name, value) in &all {
                let (name, value) = (plain(name), plain(value));
                writer
                    .create_element("property")
                    .with_attribute(("name", name.as_str()))
                    .with_attribute(("value", value.as_str()))
                    .write_empty()?;
            }
            Ok(())
        })?;
    Ok(())
}

fn testcase(writer: &mut Xml, class: &str, case: &Case) -> std::io::Result<()> {
    let (name, text) = (plain(&case.name), plain(&case.text));
    let seconds = format!("{:.3}", case.seconds);
    writer
        .create_element("testcase")
        .with_attribute(("name", name.as_str()))
        .with_attribute(("classname", class))
        .with_attribute(("time", seconds.as_str()))
        .write_inner_content(|writer| {
            match case.status {
                CaseStatus::Passed => {}
                CaseStatus::Failed => {
                    writer
                        .create_element("failure")
                        .with_attribute(("message", text.as_str()))
                        .with_attribute(("type", case.word))
                        .write_text_content(BytesText::new(&text))?;
                }
                CaseStatus::Skipped => {
                    writer
                        .create_element("skipped")
                        .with_attribute(("message", text.as_str()))
                        .write_empty()?;
                }
            }
            writer
                .create_element("system-out")
                .write_text_content(BytesText::new(&format!("{}: {text}", case.word)))?;
            Ok(())
        })?;
    Ok(())
}
