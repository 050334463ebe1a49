//! Tables of names with the sentences that they get.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vectors {
    names: Vec<NameRow>,
    config_map_keys: Vec<KeyRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NameRow {
    name: String,
    strict: bool,
    strict_messages: Vec<String>,
    relaxed: bool,
    relaxed_messages: Vec<String>,
}

#[derive(Deserialize)]
struct KeyRow {
    key: String,
    valid: bool,
    messages: Vec<String>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../tests/vectors/envname.json")).expect("the vectors are JSON")
}

fn messages<T>(result: Result<T, NameError>) -> Vec<String> {
    result.err().map(|error| error.messages()).unwrap_or_default()
}

#[test]
fn environment_names_follow_both_grammars() {
    let rows = vectors().names;
    assert!(rows.len() > 40, "the table has {} rows", rows.len());
    for row in rows {
        let strict = EnvVarName::parse(&row.name, EnvNameGrammar::Strict);
        assert_eq!(strict.is_ok(), row.strict, "strict {:?}", row.name);
        assert_eq!(messages(strict), row.strict_messages, "strict {:?}", row.name);
        let relaxed = EnvVarName::parse(&row.name, EnvNameGrammar::Relaxed);
        assert_eq!(relaxed.is_ok(), row.relaxed, "relaxed {:?}", row.name);
        assert_eq!(messages(relaxed), row.relaxed_messages, "relaxed {:?}", row.name);
    }
}

#[test]
fn config_keys_follow_their_grammar() {
    let rows = vectors().config_map_keys;
    assert!(rows.len() > 15, "the table has {} rows", rows.len());
    for row in rows {
        let key = ConfigKey::parse(&row.key);
        assert_eq!(key.is_ok(), row.valid, "{:?}", row.key);
        assert_eq!(messages(key), row.messages, "{:?}", row.key);
    }
    assert_eq!(messages(ConfigKey::parse(&"k".repeat(254))), ["must be no more than 253 characters"]);
}

#[test]
fn every_printable_character_but_the_equals_sign_may_be_a_relaxed_name() {
    for code in 0u8..128 {
        let name = char::from(code).to_string();
        let accepted = EnvVarName::parse(&name, EnvNameGrammar::Relaxed).is_ok();
        assert_eq!(accepted, (0x20..=0x7e).contains(&code) && code != b'=', "{code:#x}");
    }
    assert!(EnvVarName::parse("é", EnvNameGrammar::Relaxed).is_err());
}

#[test]
fn a_shell_reads_only_its_own_names() {
    for name in ["A", "_", "_a1", "PATH"] {
        assert!(is_posix_shell_name(name), "{name}");
    }
    for name in ["", "1A", "a-b", "a.b", "Logging:LogLevel:Default", "a b", "é"] {
        assert!(!is_posix_shell_name(name), "{name}");
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn labels_and_subdomains() {
    for good in ["a", "0", "a-b", "1-2", &"a".repeat(63)] {
        assert_eq!(messages(DnsLabel::parse(good)), [""; 0], "{good}");
        assert_eq!(messages(DnsSubdomain::parse(good)), [""; 0], "{good}");
    }
    for bad in ["", "-", "-a", "a-", "A", "a_b", "é"] {
        assert_eq!(messages(DnsLabel::parse(bad)), [LABEL], "{bad}");
        assert_eq!(messages(DnsSubdomain::parse(bad)), [SUBDOMAIN], "{bad}");
    }
    for bad in [".", "a.", ".a", "a..b", "a.-b"] {
        assert_eq!(messages(DnsLabel::parse(bad)), [LABEL], "{bad}");
        assert_eq!(messages(DnsSubdomain::parse(bad)), [SUBDOMAIN], "{bad}");
    }
    assert!(DnsSubdomain::parse("a.b-c.0").is_ok());
    assert_eq!(messages(DnsLabel::parse("a.b")), ["must not contain dots"]);
    assert_eq!(messages(DnsLabel::parse(&"a".repeat(64))), ["must be no more than 63 characters"]);
    let long = format!("{}-", "a".repeat(253));
    assert_eq!(messages(DnsSubdomain::parse(&long)), ["must be no more than 253 characters", SUBDOMAIN]);
}

#[test]
fn service_names_begin_with_a_letter() {
    assert!(ServiceName::parse("a-1").is_ok());
    for bad in ["", "1a", "a-", "a.b", "A"] {
        let found = messages(ServiceName::parse(bad));
        assert_eq!(found.len(), 1, "{bad}");
        assert!(found[0].starts_with("a DNS-1035 label must consist of lower case"), "{bad}: {found:?}");
    }
    assert_eq!(messages(ServiceName::parse(&"a".repeat(64))), ["must be no more than 63 characters"]);
}

#[test]
fn qualified_names_have_an_optional_prefix() {
    for good in ["a", "A.b_c-1", "example.com/A", &format!("a/{}", "b".repeat(63))] {
        assert_eq!(messages(QualifiedName::parse(good)), [""; 0], "{good}");
    }
    let name_part = format!("name part {QUALIFIED}");
    let rows: &[(&str, &[&str])] = &[
        ("", &["name part must be non-empty", &name_part]),
        ("-a", &[&name_part]),
        ("/a", &["prefix part must be non-empty"]),
        ("a/", &["name part must be non-empty", &name_part]),
        ("A/b", &[&format!("prefix part {SUBDOMAIN}")]),
        (&"b".repeat(64), &["name part must be no more than 63 characters"]),
        (
            "a/b/c",
            &[&format!(
                "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )],
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(messages(QualifiedName::parse(text)), *expected, "{text}");
    }
}

#[test]
fn label_values_may_be_empty() {
    for good in ["", "a", "A_b.c-1"] {
        assert_eq!(messages(LabelValue::parse(good)), [""; 0], "{good}");
    }
    for bad in ["-", "a b", "a/b", ".a"] {
        let found = messages(LabelValue::parse(bad));
        assert!(
            found.len() == 1 && found[0].starts_with("a valid label must be an empty string or"),
            "{bad}"
        );
    }
    assert_eq!(messages(LabelValue::parse(&"a".repeat(64))), ["must be no more than 63 characters"]);
}

#[test]
fn port_names_report_every_broken_rule() {
    let characters = "must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)";
    let letter = "must contain at least one letter (a-z)";
    let rows: &[(&str, &[&str])] = &[
        ("http", &[]),
        ("p2p-80", &[]),
        ("", &[characters, letter]),
        ("80", &[letter]),
        ("HTTP", &[characters, letter]),
        ("a--b", &["must not contain consecutive hyphens"]),
        ("-a", &["must not begin or end with a hyphen"]),
        ("sixteencharacter", &["must be no more than 15 characters"]),
    ];
    for (text, expected) in rows {
        assert_eq!(messages(PortName::parse(text)), *expected, "{text}");
    }
}

#[test]
fn a_generated_name_is_checked_as_if_it_had_its_suffix() {
    for (prefix, masked) in [("web-", "wea"), ("-", "-"), ("web", "web"), ("", ""), ("é-", "a")] {
        assert_eq!(mask_trailing_dash(prefix), masked, "{prefix}");
    }
}

#[test]
fn an_error_prints_all_its_sentences() {
    let error = EnvVarName::parse("..", EnvNameGrammar::Strict).expect_err("two dots");
    assert_eq!(error.to_string(), "must not be '..'");
}

proptest::proptest! {
    #[test]
    fn any_text_is_judged_and_an_error_is_never_empty(text in proptest::prelude::any::<String>()) {
        let answers = [
            EnvVarName::parse(&text, EnvNameGrammar::Strict).map(EnvVarName::into_string),
            EnvVarName::parse(&text, EnvNameGrammar::Relaxed).map(EnvVarName::into_string),
            ConfigKey::parse(&text).map(ConfigKey::into_string),
            DnsLabel::parse(&text).map(DnsLabel::into_string),
            DnsSubdomain::parse(&text).map(DnsSubdomain::into_string),
            ServiceName::parse(&text).map(ServiceName::into_string),
            QualifiedName::parse(&text).map(QualifiedName::into_string),
            LabelValue::parse(&text).map(LabelValue::into_string),
            PortName::parse(&text).map(PortName::into_string),
        ];
        for answer in answers {
            match answer {
                Ok(kept) => proptest::prop_assert_eq!(&kept, &text),
                Err(error) => proptest::prop_assert!(!error.messages().is_empty()),
            }
        }
    }

    #[test]
    fn narrower_grammars_accept_less(text in "[-._a-zA-Z0-9 :/]{0,6}") {
        let accepted = [
            (EnvVarName::parse(&text, EnvNameGrammar::Strict).is_ok(), EnvVarName::parse(&text, EnvNameGrammar::Relaxed).is_ok()),
            (ServiceName::parse(&text).is_ok(), DnsLabel::parse(&text).is_ok()),
            (DnsLabel::parse(&text).is_ok(), DnsSubdomain::parse(&text).is_ok()),
            (DnsLabel::parse(&text).is_ok(), LabelValue::parse(&text).is_ok()),
            (is_posix_shell_name(&text), EnvVarName::parse(&text, EnvNameGrammar::Strict).is_ok()),
        ];
        for (narrow, wide) in accepted {
            proptest::prop_assert!(wide || !narrow, "{}", text);
        }
    }
}
