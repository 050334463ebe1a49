//! Tables: reading, canonical form, order, rounding, and the divisors of the downward API.

use super::*;

fn canonical(text: &str) -> String {
    match Quantity::parse(text) {
        Ok(quantity) => quantity.to_string(),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn the_canonical_form_has_no_fraction_and_the_largest_exact_suffix() {
    for (text, want) in [
        ("0", "0"),
        ("0.0", "0"),
        ("00Mi", "0"),
        ("-0", "0"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("1.5G", "1500M"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1234567", "1234567"),
        ("+3", "3"),
        ("-1500m", "-1500m"),
        ("1E", "1E"),
        ("1000E", "1000E"),
        ("12e6", "12e6"),
        ("12E6", "12e6"),
        ("1.5e3", "1500"),
        ("1e3", "1e3"),
        ("1e-3", "1e-3"),
        ("1e21", "1e21"),
        ("100Ki", "100Ki"),
        ("512Mi", "512Mi"),
        ("0.5Ki", "512"),
        ("1023Ki", "1023Ki"),
        ("1Ki", "1Ki"),
        ("-1Ki", "-1Ki"),
        ("0.0005Ki", "512m"),
        ("1.0005Ki", "1024512m"),
        ("5n", "5n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("1e-100", "1e-9"),
        ("8Ei", "9223372036854775807"),
        ("100000000000000000000Ei", "9223372036854775807"),
        ("0.3Mi", "314572800m"),
        ("Mi", "0"),
    ] {
        assert_eq!(canonical(text), want, "{text}");
    }
}

#[test]
fn what_is_no_quantity_is_refused_in_upstreams_words() {
    for (text, want) in [
        ("", "Format"),
        ("aoeu", "Format"),
        ("1.1.M", "Format"),
        ("1+1.0M", "Format"),
        ("0.1mi", "Suffix"),
        ("0.1am", "Format"),
        (".5i", "Suffix"),
        ("1i", "Suffix"),
        ("-3.01e-", "Suffix"),
        ("1 Gi", "Format"),
        (" 1", "Format"),
        ("1KiB", "Format"),
        ("1e", "Suffix"),
        ("1é", "Format"),
        ("1e30", "TooLarge"),
        ("1e9999999999", "TooLarge"),
    ] {
        assert_eq!(canonical(text), want, "{text}");
    }
    assert_eq!(
        Quantity::parse("1 Gi").unwrap_err().to_string(),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn amounts_compare_whatever_their_format() {
    let quantity = |text| Quantity::parse(text).unwrap();
    assert_eq!(quantity("1Gi"), quantity("1024Mi"));
    assert_eq!(quantity("0.5"), quantity("500m"));
    assert!(quantity("1G") < quantity("1Gi"));
    assert!(quantity("-1") < quantity("1n"));
    assert_eq!(quantity("1Ki").checked_add(&quantity("1Ki")).unwrap().to_string(), "2Ki");
}

#[test]
fn units_and_millis_round_away_from_zero() {
    let quantity = |text| Quantity::parse(text).unwrap();
    assert_eq!(quantity("1.1").units(), 2);
    assert_eq!(quantity("-1.1").units(), -2);
    assert_eq!(quantity("0.0001").millis(), 1);
    assert_eq!(quantity("250m").millis(), 250);
}

#[test]
fn rows_of_the_downward_api_divide_and_round_up() {
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../tests/vectors/resource_field_divisor.json")).unwrap();
    let mut divided = 0;
    for row in &rows {
        let field = row["resource"].as_str().unwrap();
        let (list, resource) = field.split_once('.').unwrap();
        // Where the amount comes from when it is not set is the environment's business.
        let Some(amount) = row["resources"][list][resource].as_str() else { continue };
        let divisor = row["divisor"].as_str().filter(|divisor| !divisor.is_empty()).unwrap_or("0");
        let quotient = Quantity::parse(amount)
            .unwrap()
            .ceil_divide(&Quantity::parse(divisor).unwrap(), ResourceUnit::of(resource));
        assert_eq!(quotient.to_string(), row["want"].as_str().unwrap(), "{row}");
        divided += 1;
    }
    assert!(divided >= 24, "only {divided} rows were divided");
}

proptest::proptest! {
    #[test]
    fn the_canonical_form_reads_back_as_the_same_amount(number in -1_000_000_000_i64..1_000_000_000, suffix in "(n|u|m||k|M|G|T|Ki|Mi|Gi|e3|e-3)") {
        let quantity = Quantity::parse(&format!("{number}{suffix}")).unwrap();
        let again = Quantity::parse(&quantity.to_string()).unwrap();
        proptest::prop_assert_eq!(quantity, again);
        proptest::prop_assert_eq!(quantity.to_string(), again.to_string());
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+0-9.eEinumkKMGTPé ]{0,24}") {
        let _ = Quantity::parse(&text);
    }
}
