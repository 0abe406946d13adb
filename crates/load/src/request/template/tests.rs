use crate::values::placeholder::skip_placeholder;
use std::path::Path;

use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::request::long_list::LineTexts;

fn table(text: &str) -> DataTable {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.csv");
    std::fs::write(&path, text).unwrap();
    DataTable::read(&path).unwrap()
}

/// Returns the error of a table, without the folder of its file.
fn table_error(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.csv");
    std::fs::write(&path, bytes).unwrap();
    let error = DataTable::read(&path).unwrap_err().to_string();
    let folder = format!("{}/", folder.path().display());
    error.replace(&folder, "")
}

/// Renders the text for one row.
fn rendered(text: &str, place: ValuePlace, data: Option<&DataTable>, row: usize) -> String {
    let mut marks = Marks::new([text.as_bytes()].into_iter());
    let marked = marks
        .mark(
            parse_pieces(text).unwrap(),
            place,
            &ValueNames {
                data,
                ..ValueNames::default()
            },
        )
        .unwrap();
    let mut source = ValueSource {
        row,
        number: row as u64,
        random: &mut ChaCha8Rng::seed_from_u64(1),
        line: LineTexts::default(),
        variables: VariableValues::default(),
    };
    let values: Vec<Vec<u8>> = marks
        .values()
        .iter()
        .map(|value| {
            let mut out = Vec::new();
            source.write(value, &mut out);
            out
        })
        .collect();
    let mut out = Vec::new();
    for piece in marks.split(marked.as_bytes()) {
        match piece {
            MarkedPiece::Bytes(bytes) => out.extend_from_slice(&bytes),
            MarkedPiece::Value(number) => out.extend_from_slice(&values[number]),
        }
    }
    String::from_utf8(out).unwrap()
}

fn mark_error(text: &str, place: ValuePlace, data: Option<&DataTable>) -> String {
    let mut marks = Marks::new([text.as_bytes()].into_iter());
    marks
        .mark(
            parse_pieces(text).unwrap(),
            place,
            &ValueNames {
                data,
                ..ValueNames::default()
            },
        )
        .unwrap_err()
        .to_string()
}

#[test]
fn columns_are_encoded_for_their_position() {
    let data = table("id,First Name\n7,\"a b/c, \"\"d\"\"\"\n8,é\n");
    let data = Some(&data);
    let text = "/u/{{ id }}?n={{First Name}}&r={{ id | raw }}";
    assert_eq!(
        rendered(text, ValuePlace::Url, data, 0),
        "/u/7?n=a%20b%2Fc%2C%20%22d%22&r=7"
    );
    assert_eq!(
        rendered(text, ValuePlace::Url, data, 1),
        "/u/8?n=%C3%A9&r=8"
    );
    let body = "{\"n\":\"{{ First Name | json }}\",\"r\":\"{{ First Name }}\"}";
    assert_eq!(
        rendered(body, ValuePlace::Body, data, 0),
        "{\"n\":\"a b/c, \\\"d\\\"\",\"r\":\"a b/c, \"d\"\"}"
    );
    assert_eq!(
        rendered("n={{ First Name | url }}", ValuePlace::Body, data, 1),
        "n=%C3%A9"
    );
    assert_eq!(
        rendered("{{ First Name }}", ValuePlace::Header, data, 1),
        "é"
    );
}

#[test]
fn functions_need_no_data() {
    assert_eq!(
        rendered("a{{ seq }}b{{seq}}", ValuePlace::Url, None, 41),
        "a42b42"
    );
    for _ in 0..20 {
        let number: i64 = rendered("{{ random(-3, 4) }}", ValuePlace::Body, None, 0)
            .parse()
            .unwrap();
        assert!((-3..=4).contains(&number));
    }
    assert_eq!(
        rendered("{{ random(5,5) }}", ValuePlace::Body, None, 0),
        "5"
    );
    let whole = format!("{{{{ random({}, {}) }}}}", i64::MIN, i64::MAX);
    assert!(
        rendered(&whole, ValuePlace::Body, None, 0)
            .parse::<i64>()
            .is_ok()
    );
    let uuid = rendered("{{ uuid }}", ValuePlace::Header, None, 0);
    let groups: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert_eq!(&uuid[14..15], "4");
    assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"));
}

#[test]
fn a_column_takes_precedence_over_a_function() {
    let data = table("uuid\nabc\n");
    assert_eq!(
        rendered("{{ uuid }}", ValuePlace::Body, Some(&data), 0),
        "abc"
    );
}

#[test]
fn quoted_text_is_literal() {
    for (text, expected) in [
        ("a{{ \"{{ x }}\" }}b", "a{{ x }}b"),
        ("{{ '{{' }}", "{{"),
        ("{{'}}'}}", "}}"),
        ("no braces", "no braces"),
        ("{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"),
        ("", ""),
    ] {
        assert_eq!(rendered(text, ValuePlace::Body, None, 0), expected);
    }
}

#[test]
fn errors_have_a_hint() {
    for (text, expected) in [
        ("/{{ id", "\"{{ id\" is not closed; end it with }}"),
        ("{{ 'a }}", "is not closed"),
        ("{{ }}", "name a value"),
        ("{{ | url }}", "name a value"),
        ("{{ a | upper }}", "valid filters are raw, url and json"),
        ("{{ a | }}", "valid filters"),
        ("{{ random(1) }}", "two integers"),
        ("{{ random(2, 1) }}", "the lower one first"),
        ("{{ random(1, 2 }}", "two integers"),
        ("{{ random(1.5, 2) }}", "two integers"),
        ("{{ random(1, 99999999999999999999) }}", "two integers"),
        ("{{ now() }}", "random(a, b)"),
        ("{{ 'a' | url }}", "can't have a filter"),
        ("{{{ a }}}", "write a column's name"),
    ] {
        let error = parse_pieces(text).unwrap_err().0;
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = mark_error("{{ nme }}", ValuePlace::Url, None);
    assert!(
        error.contains("seq, uuid or random(a, b)") && error.contains("--data"),
        "{error}"
    );
    let data = table("id,name\n1,2\n");
    let error = mark_error("{{ nme }}", ValuePlace::Url, Some(&data));
    assert!(
        error.contains("has no column \"nme\"; write one of id, name, seq"),
        "{error}"
    );
}

#[test]
fn values_that_would_break_a_request_are_reported_with_their_line() {
    let data = table("a,b\nx,y\n\"two\nlines\",z\n\"a b\",#\n");
    for (text, place, expected) in [
        (
            "{{ a }}",
            ValuePlace::Header,
            "users.csv:3: the value \"two\\nlines\" of column a",
        ),
        ("{{ a | raw }}", ValuePlace::Url, "users.csv:3: "),
        (
            "{{ b | raw }}",
            ValuePlace::Url,
            "users.csv:5: the value \"#\"",
        ),
        ("{{ b }}", ValuePlace::Host, "users.csv:5: "),
    ] {
        let error = mark_error(text, place, Some(&data));
        assert!(error.contains(expected), "{text}: {error}");
    }
    // Encoded values can be used anywhere.
    assert_eq!(
        rendered("{{ a | url }}", ValuePlace::Header, Some(&data), 1),
        "two%0Alines"
    );
    assert_eq!(
        rendered("{{ a | json }}", ValuePlace::Header, Some(&data), 1),
        "two\\nlines"
    );
}

#[test]
fn a_table_is_read_completely() {
    let data = table("a, b \r\n1,\r\n\r\n\"x,\ny\",\"\"\"q\"\"\"\r\n");
    assert_eq!(data.columns(), ["a", "b"]);
    assert_eq!(data.row_count(), 2);
    assert_eq!(
        rendered("{{ a }}|{{ b }}", ValuePlace::Body, Some(&data), 0),
        "1|"
    );
    assert_eq!(
        rendered("{{ a }}|{{ b }}", ValuePlace::Body, Some(&data), 1),
        "x,\ny|\"q\""
    );
    assert!(DataTable::read(Path::new("/nowhere/x.csv")).is_err());
}

#[test]
fn invalid_tables_are_refused() {
    for (text, expected) in [
        (
            &b"a,b\n1,2\n1,2,3\n"[..],
            "users.csv:3: 3 values in a table of 2 columns; put values",
        ),
        (
            b"a,b\n1\n",
            "users.csv:2: 1 value in a table of 2 columns; separate",
        ),
        (
            b"a,a\n1,2\n",
            "users.csv:1: two columns have the name \"a\"",
        ),
        (b"a,b\n", "--data users.csv: the file has no rows"),
        (b"", "the file has no rows"),
        (b"a\n\xff\n", "not UTF-8 text"),
    ] {
        let error = table_error(text);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn marks_differ_from_the_text_around_them() {
    let text = "pronyvalue0-pronyvaluex1-{{ seq }}0-pronyvalu{{ seq }}";
    assert_eq!(
        rendered(text, ValuePlace::Body, None, 6),
        "pronyvalue0-pronyvaluex1-70-pronyvalu7"
    );
    let mut marks = Marks::new([text.as_bytes()].into_iter());
    let marked = marks
        .mark(
            parse_pieces(text).unwrap(),
            ValuePlace::Body,
            &ValueNames::default(),
        )
        .unwrap();
    assert!(marks.is_in(&marked));
    assert_eq!(marks.unmark(&marked), text);
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "(\\{\\{|\\}\\}|[{}|()'\" a-zé,0-9-]|random|raw){0,30}") {
        if let Ok(pieces) = parse_pieces(&text) {
            let mut marks = Marks::new([text.as_bytes()].into_iter());
            if let Ok(marked) = marks.mark(pieces, ValuePlace::Body, &ValueNames::default()) {
                // The text that `unmark` returns is a template with the same values.
                let again = parse_pieces(&marks.unmark(&marked));
                prop_assert!(again.is_ok() || text.contains(['\'', '"']));
            }
        }
        if let Some(length) = skip_placeholder(&text) {
            prop_assert!(text[..length].ends_with("}}"));
        }
    }

    #[test]
    fn text_without_braces_is_unchanged(text in "[^{]{0,40}") {
        prop_assert_eq!(rendered(&text, ValuePlace::Body, None, 0), text);
    }

    #[test]
    fn values_of_a_url_decode_to_the_cells(cells in proptest::collection::vec("\\PC{1,12}", 1..5)) {
        let quoted = cells.iter().map(|cell| format!("\"{}\"\n", cell.replace('"', "\"\"")));
        let data = table(&format!("c\n{}", quoted.collect::<String>()));
        for (row, cell) in cells.iter().enumerate() {
            let url = rendered("{{ c }}", ValuePlace::Url, Some(&data), row);
            let decoded = percent_encoding::percent_decode_str(&url).decode_utf8().unwrap();
            prop_assert_eq!(&*decoded, cell.as_str());
            let json = rendered("\"{{ c | json }}\"", ValuePlace::Body, Some(&data), row);
            prop_assert_eq!(&serde_json::from_str::<String>(&json).unwrap(), cell);
        }
    }

    #[test]
    fn arbitrary_tables_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(data) = DataTable::read(&path) {
            prop_assert!(data.row_count() > 0);
        }
    }
}
