//! The prony binary.
use clap::Parser;
use prony_load::{Control, LoadOptions, LoadSpec};

#[derive(Parser)]
struct Typed {
    url: Option<String>,
    #[command(flatten)]
    load: LoadOptions,
}

fn main() {
    let typed = Typed::parse();
    let spec = LoadSpec::resolve(typed.url.as_deref(), &typed.load).unwrap_or_else(|e| {
        eprintln!("prony: {e}");
        std::process::exit(2)
    });
    let record = prony_load::run(&spec, &Control::new(8)).unwrap();
    println!("{}", record.to_json());
}
