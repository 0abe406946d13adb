//! Stand-in until the record has it.
#[derive(Debug)]
pub(crate) struct Condition;
impl std::str::FromStr for Condition {
    type Err = String;
    fn from_str(_: &str) -> Result<Self, String> {
        Err("not yet".into())
    }
}
impl std::fmt::Display for Condition {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
impl Condition {
    pub(crate) fn holds(&self, _: &prony_record::Record) -> Option<String> {
        None
    }
}
