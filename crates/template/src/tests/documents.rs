//! The documents name every code, and only tests that exist.

use std::collections::BTreeSet;

/// What stands between `before` and `after`, each time.
fn between<'t>(text: &'t str, before: &str, after: &str) -> BTreeSet<&'t str> {
    text.split(before).skip(1).filter_map(|rest| rest.split(after).next()).collect()
}

#[test]
fn every_code_is_explained_and_every_explained_code_exists() {
    let documents = include_str!("../../../../docs/findings.md");
    let sources = [include_str!("../problem.rs"), include_str!("../finding.rs")].concat();
    let written = between(&sources, "\"template-", "\"");
    let explained = between(documents, "| `template-", "`");
    assert!(written.len() > 30, "{written:?}");
    assert_eq!(written, explained);
}

#[test]
fn every_difference_names_a_test_that_exists() {
    let documents = include_str!("../../../../docs/differences.md");
    let (_, section) = documents.split_once("\n## Templates\n").expect("a section about templates");
    let tests = [
        include_str!("hostile.rs"),
        include_str!("labels.rs"),
        include_str!("references.rs"),
        include_str!("rules.rs"),
        include_str!("vectors.rs"),
    ]
    .concat();
    let rows =
        section.split("\n## ").next().expect("a section").lines().filter(|line| line.starts_with("| "));
    let named = rows.skip(1).flat_map(|row| between(row.rsplit(" | ").next().unwrap_or_default(), "`", "`"));
    let mut count = 0;
    for name in named.filter(|name| name.contains('_') && !name.contains(' ')) {
        assert!(tests.contains(&format!("fn {name}()")), "{name}");
        count += 1;
    }
    assert!(count >= 15, "{count} names");
}
