//! One HTML file that needs no network and no script, in light and dark, on a desk, a phone and
//! paper.
//!
//! All text passes through the template engine's escaping, or that of the charts; a policy in the
//! page forbids it to load or run anything.

mod experiment;
mod load;
mod runs;
mod scaling;
mod why;

pub use experiment::report;
pub use load::load;
pub use runs::runs;

use minijinja::Environment;
use prony_record::FindingId;

use crate::chart::palette;

/// A page from one of the templates.
fn render(template: &str, context: minijinja::Value) -> String {
    let mut environment = Environment::new();
    environment.add_filter("finding_reference", finding_reference);
    let templates = [
        ("page.html", include_str!("page.html")),
        ("parts.html", include_str!("parts.html")),
        ("experiment.html", include_str!("experiment.html")),
        ("load.html", include_str!("load.html")),
        ("runs.html", include_str!("runs.html")),
    ];
    for (name, source) in templates {
        environment
            .add_template(name, source)
            .expect("the templates are constants that every test parses");
    }
    environment
        .get_template(template)
        .and_then(|template| template.render(context))
        .expect("the templates use only what their contexts hold, which every test renders")
}

/// The documentation of the finding with this id; none for a finding of another version.
fn finding_reference(id: &str) -> Option<String> {
    FindingId::parse(id).map(FindingId::reference)
}

/// The style sheet with the palette's colours in it.
fn style() -> String {
    include_str!("style.css")
        .replace("/*light*/", &palette::properties(|color| color.light))
        .replace("/*dark*/", &palette::properties(|color| color.dark))
        .replace("/*charts*/", &palette::dark_rules())
}
