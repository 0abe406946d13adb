//! Serde functions for values that might not have been measured. An unmeasured value is null in
//! JSON and the default value in memory. Earlier versions wrote zeros instead of null; these are
//! read as not measured.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + Default + PartialEq,
    S: Serializer,
{
    (*value != T::default()).then_some(value).serialize(to)
}

pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use crate::{HalfSecond, Record, Summary};

    #[test]
    fn unmeasured_figures_are_null_and_zeros_of_earlier_versions_are_accepted() {
        let mut record = Record {
            schema: crate::RECORD_SCHEMA.to_owned(),
            series: vec![HalfSecond::default()],
            ..Record::default()
        };
        record.response_time_us.p50 = 7.0;
        let json = record.to_json();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let null = |pointer: &str| value.pointer(pointer).unwrap().is_null();
        assert!(null("/tls_time_us") && null("/connect_time_us") && null("/generator/late_us"));
        assert!(null("/series/0/p50_us") && !null("/response_time_us"));
        assert_eq!(Record::from_json(&json).unwrap(), record);
        let zeros = serde_json::to_string(&Summary::default()).unwrap();
        let older = json.replace(
            "\"tls_time_us\": null",
            &format!("\"tls_time_us\": {zeros}"),
        );
        let older = older.replace("\"p50_us\": null", "\"p50_us\": 0.0");
        assert_eq!(Record::from_json(&older).unwrap(), record);
    }
}
