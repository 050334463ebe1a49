//! Tables: the three syntaxes, positions of errors, limits, remarks.

use names::EnvNameGrammar;
use serde_json::Value;

use super::*;

fn read(content: &str, syntax: Syntax) -> Result<EnvFile, EnvFileError> {
    parse(content.as_bytes(), syntax, EnvNameGrammar::Relaxed)
}

/// The value of a key in a syntax, `None` if it is absent, or the error's text.
fn value(content: &str, key: &str, syntax: Syntax) -> Result<Option<String>, String> {
    let file = read(content, syntax).map_err(|error| error.to_string())?;
    let assignment = file.lookup(key).map_err(|error| error.to_string())?;
    Ok(assignment.map(|assignment| assignment.value.to_owned()))
}

fn parts(parts: &Value) -> String {
    parts
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part[0].as_str().unwrap().repeat(part[1].as_u64().unwrap() as usize))
        .collect()
}

/// Content, key, and the syntax that a row's `mode` asks for.
fn row_input(row: &Value) -> Option<(String, String, Syntax)> {
    let content = match row.get("content") {
        Some(content) => content.as_str().unwrap().to_owned(),
        None => parts(row.get("contentParts")?),
    };
    let key = row.get("key").map_or_else(|| parts(&row["keyParts"]), |key| key.as_str().unwrap().to_owned());
    let syntax = match row.get("mode").and_then(Value::as_str) {
        None => Syntax::Default,
        Some("rfc2") => Syntax::Rfc2,
        Some("upstream") => Syntax::Kubernetes,
        Some(other) => panic!("unknown mode {other}"),
    };
    Some((content, key, syntax))
}

/// Rows in which our limits, which hold in every syntax, forbid what Kubernetes takes.
const BEYOND_OUR_LIMITS: [&str; 3] = [
    "line of exactly 65535 bytes is accepted",
    "line of 65536 bytes is refused",
    "NUL byte inside a value is kept by the parser",
];

#[test]
fn rows_of_todays_syntax_hold() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("../tests/vectors/envfile_posix.json")).unwrap();
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let (content, key, syntax) = row_input(row).unwrap();
        let got = value(&content, &key, syntax);
        if BEYOND_OUR_LIMITS.contains(&name) {
            assert!(got.is_err(), "{name}: {got:?}");
            continue;
        }
        match row.get("want").and_then(Value::as_str) {
            Some(want) => {
                let got = got.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(got.unwrap_or_default(), want, "{name}");
            }
            None => {
                let error = got.expect_err(name);
                if syntax == Syntax::Default {
                    // The other mode has to refuse it too, in its words.
                    assert!(value(&content, &key, Syntax::Kubernetes).is_err(), "{name}");
                }
                if let Some(part) = row.get("errorContains").and_then(Value::as_str) {
                    assert!(error.contains(part), "{name}: {error}");
                }
            }
        }
    }
}

/// Where both read a file, the default agrees with Kubernetes on every row that is not marked.
#[test]
fn unmarked_rows_of_todays_syntax_hold_in_it_too() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("../tests/vectors/envfile_posix.json")).unwrap();
    for row in rows.iter().filter(|row| row.get("mode").is_none()) {
        let (content, key, _) = row_input(row).unwrap();
        let got = value(&content, &key, Syntax::Kubernetes);
        match row.get("want").and_then(Value::as_str) {
            Some(want) => assert_eq!(got.unwrap().unwrap_or_default(), want, "{row}"),
            None => {
                let error = got.unwrap_err();
                if let Some(part) = row.get("errorContains").and_then(Value::as_str) {
                    assert!(error.contains(part), "{row}: {error}");
                }
            }
        }
    }
}

#[test]
fn rows_of_the_document_hold() {
    let vectors: Value =
        serde_json::from_str(include_str!("../tests/vectors/envfile_dotenv_seed.json")).unwrap();
    for row in vectors["cases"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        // A file that is not there is the reader's business, not the grammar's.
        let Some((content, key, syntax)) = row_input(row) else {
            assert_eq!(row["missingFile"], true, "{name}");
            continue;
        };
        let got = value(&content, &key, syntax);
        match (row.get("want").and_then(Value::as_str), row.get("error").and_then(Value::as_str)) {
            (Some("(same)"), None) => assert_eq!(got.unwrap().unwrap().len(), MAX_VALUE_BYTES, "{name}"),
            (Some(want), None) => assert_eq!(got, Ok(Some(want.to_owned())), "{name}"),
            (None, Some("key not found")) => assert_eq!(got, Ok(None), "{name}"),
            (None, Some(_)) => assert!(got.is_err(), "{name}: {got:?}"),
            _ => panic!("{name}: a row has a want or an error"),
        }
    }
}

#[test]
fn lines_join_at_a_backslash() {
    for (content, want) in [
        ("A=a\\\nb\n", "a b"),
        ("A=a \\\n   b  \n", "a  b"),
        ("A=a\\\r\nb\r\n", "a b"),
        ("A=a\\\nb\\\nc", "a b c"),
        ("A=a\\\n\nB=2", "a"),
        ("A=a\\", "a"),
        ("A=\\\nb", "b"),
        ("A=\\\n", ""),
        ("A=a\\\n# b", "a # b"),
        ("A=a\\b", "a\\b"),
        ("A=a\\ \nb", "a b"),
    ] {
        assert_eq!(value(content, "A", Syntax::Default), Ok(Some(want.to_owned())), "{content:?}");
        assert_eq!(value(content, "A", Syntax::Rfc2), Ok(Some(want.to_owned())), "{content:?}");
    }
    assert_eq!(value("A=\\\n 'x\ny' # c\nB=2", "A", Syntax::Default), Ok(Some("x\ny".to_owned())));
    assert_eq!(value("A=\\\n 'x\ny' # c\nB=2", "B", Syntax::Default), Ok(Some("2".to_owned())));
    assert_eq!(value("A=a\\\nB=1\nC=2", "B", Syntax::Default), Ok(None));
}

#[test]
fn the_default_reads_a_value_in_single_quotes_as_kubernetes_does() {
    for (content, want) in [
        ("A='x'\n", "x"),
        ("A = 'x' # c\n", "x"),
        ("A=''\n", ""),
        ("A=\"x\"\n", "\"x\""),
        ("A=x'y'\n", "x'y'"),
        ("A='x\\'\n", "x\\"),
        ("A='1'\nA=2\n", "2"),
        ("A=1\nA=\n", ""),
    ] {
        assert_eq!(value(content, "A", Syntax::Default), Ok(Some(want.to_owned())), "{content:?}");
    }
    assert_eq!(value("A='x'\n", "A", Syntax::Rfc2), Ok(Some("'x'".to_owned())));
}

#[test]
fn errors_name_line_and_column_and_never_content() {
    for (content, syntax, want) in [
        (
            "A=1\n  junk",
            Syntax::Default,
            "invalid environment variable format at line 2, column 3: missing '='",
        ),
        (
            " =1",
            Syntax::Default,
            "invalid environment variable format at line 1, column 2: empty variable name",
        ),
        (
            "A='1' x",
            Syntax::Default,
            "invalid environment variable format at line 1, column 7: unexpected content after closing quote",
        ),
        (
            "#\nA = '1",
            Syntax::Default,
            "invalid environment variable format starting at line 2, column 5: unclosed single quote",
        ),
        (
            "A =1",
            Syntax::Kubernetes,
            "invalid environment variable format at line 1, column 2: whitespace before '=' is not allowed",
        ),
        (
            "A=1",
            Syntax::Kubernetes,
            "invalid environment variable format at line 1, column 3: value must be enclosed in single quotes",
        ),
        (
            "É=1",
            Syntax::Default,
            "invalid environment variable name at line 1, column 1: a valid environment variable name must \
             consist only of printable ASCII characters other than '='",
        ),
        (
            "\u{feff}A=1",
            Syntax::Default,
            "env file begins with a byte-order mark at line 1; save it as UTF-8 without one",
        ),
        ("A=é\nB=x\0y", Syntax::Kubernetes, "env file contains a NUL byte at line 2, column 4"),
    ] {
        assert_eq!(value(content, "Z", syntax).unwrap_err(), want, "{content:?}");
    }
    assert_eq!(
        parse(b"A=1\nB=\xc3\xa9\xff", Syntax::Default, EnvNameGrammar::Relaxed).unwrap_err().to_string(),
        "env file is not valid UTF-8 at line 2, column 4"
    );
}

#[test]
fn the_grammar_of_names_is_the_callers() {
    let strict = parse(b"a:b=1", Syntax::Default, EnvNameGrammar::Strict);
    assert!(matches!(strict, Err(EnvFileError::InvalidName { .. })));
    assert!(parse(b"a:b=1", Syntax::Default, EnvNameGrammar::Relaxed).is_ok());
    assert!(parse(b"a:b='1'", Syntax::Kubernetes, EnvNameGrammar::Strict).is_ok());
}

#[test]
fn limits_hold_to_the_byte_in_every_syntax() {
    let long_value = "v".repeat(MAX_VALUE_BYTES);
    let long_name = "N".repeat(MAX_NAME_CHARACTERS);
    for syntax in [Syntax::Default, Syntax::Rfc2, Syntax::Kubernetes] {
        let largest = format!("A='{}'", "v".repeat(MAX_VALUE_BYTES - 2));
        assert!(value(&largest, "A", syntax).is_ok());
        assert!(value(&format!("A='{long_value}v'"), "A", syntax).is_err(), "{syntax:?}");
        assert!(value(&format!("{long_name}='v'"), &long_name, syntax).is_ok());
        assert!(value(&format!("{long_name}N='v'"), &long_name, syntax).is_err(), "{syntax:?}");
        let full = format!("A='1'\n{}", "#".repeat(MAX_FILE_BYTES - 6));
        assert_eq!(
            value(&full, "A", syntax).unwrap().as_deref().map(|value| value.trim_matches('\'')),
            Some("1")
        );
        assert_eq!(value(&format!("{full}#"), "A", syntax), Err(EnvFileError::FileTooLarge.to_string()));
    }
}

#[test]
fn kubernetes_ends_its_search_at_the_key() {
    let file = read("A='1'\nbroken\nB='2'\n", Syntax::Kubernetes).unwrap();
    assert_eq!(file.lookup("A").unwrap().unwrap().value, "1");
    assert!(file.lookup("B").is_err());
    assert!(file.ended_by().is_some());
    let empty = read("A=''\nA='1'\n", Syntax::Kubernetes).unwrap();
    assert_eq!(empty.lookup("A"), Ok(None));
}

#[test]
fn what_kubernetes_would_read_differently_is_noted() {
    use Difference::*;
    for (content, syntax, want) in [
        ("A='1'\n", Syntax::Default, vec![]),
        ("A=1\n", Syntax::Default, vec![NoteKind::KubernetesDiffers(RefusesUnquoted)]),
        ("A='1'\n", Syntax::Rfc2, vec![NoteKind::KubernetesDiffers(RemovesQuotes)]),
        ("A ='1'\n", Syntax::Default, vec![NoteKind::KubernetesDiffers(RefusesSpaceBeforeEquals)]),
        ("A= '1'\n", Syntax::Default, vec![NoteKind::KubernetesDiffers(ReadsEmpty)]),
        ("A=''\n", Syntax::Default, vec![NoteKind::KubernetesDiffers(TreatsEmptyAsMissing)]),
        ("A=\\\n'1'\n", Syntax::Default, vec![NoteKind::KubernetesDiffers(RefusesUnquoted)]),
        ("A='1'\nA='2'\n", Syntax::Default, vec![NoteKind::KubernetesDiffers(TakesFirstDuplicate)]),
        ("export A='1'\n", Syntax::Default, vec![NoteKind::ExportPrefix]),
        ("export A='1'\n", Syntax::Kubernetes, vec![NoteKind::ExportPrefix]),
        ("exported='1'\n", Syntax::Default, vec![]),
    ] {
        let file = read(content, syntax).unwrap();
        assert_eq!(file.notes().map(|note| note.kind).collect::<Vec<_>>(), want, "{content:?}");
    }
    let file = read("#\n  B=1\n", Syntax::Default).unwrap();
    let note = file.notes().next().unwrap();
    assert_eq!((note.assignment.name, note.assignment.position), ("B", Position { line: 2, column: 3 }));
}

#[test]
fn debug_shows_no_value() {
    let file = read("TOKEN=hunter2\n", Syntax::Default).unwrap();
    let shown = format!("{file:?} {:?} {:?}", file.lookup("TOKEN"), file.notes().next());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn many_names_are_all_found() {
    let content: String = (0..3000).map(|number| format!("VARIABLE_{number}={number}\n")).collect();
    let file = read(&content, Syntax::Default).unwrap();
    assert_eq!(file.assignments().len(), 3000);
    for number in 0..3000 {
        assert_eq!(file.lookup(&format!("VARIABLE_{number}")).unwrap().unwrap().value, number.to_string());
    }
}

proptest::proptest! {
    #[test]
    fn no_file_makes_it_panic(content in "[AB='\\\\# \t\r\n\u{c}é]{0,40}") {
        for syntax in [Syntax::Default, Syntax::Rfc2, Syntax::Kubernetes] {
            if let Ok(file) = read(&content, syntax) {
                let _ = (file.lookup("A"), file.assignments().count(), file.notes().count());
            }
        }
    }

    #[test]
    fn a_quoted_value_is_the_same_in_the_default_and_in_kubernetes(value in "[^'\0]{1,30}") {
        // One CR before a line feed is not content to either.
        let want = value.replace("\r\n", "\n");
        let content = format!("A='{value}'\n");
        for syntax in [Syntax::Default, Syntax::Kubernetes] {
            let file = read(&content, syntax).unwrap();
            proptest::prop_assert_eq!(file.lookup("A").unwrap().unwrap().value, want.as_str());
        }
    }
}
