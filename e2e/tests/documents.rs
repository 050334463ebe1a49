//! What the documents name is there: each row of `docs/differences.md` has a test, and the test exists where the row says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every test below a directory, by the file that holds it: functions behind a test attribute, and the cases of crates that run their
/// tests themselves, which are sentences in a list.
fn tests_below(directory: PathBuf) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut pending = vec![directory];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).expect("readable").map(|entry| entry.expect("readable")) {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("text");
                let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
                found.entry(stem).or_default().extend(tests_in(&text));
            }
        }
    }
    found
}

fn tests_in(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_attribute = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    let name = |line: &str| {
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        rest.split_once('(').map(|(name, _)| name.to_owned())
    };
    let mut found = Vec::new();
    let mut is_test = false;
    for line in lines {
        if is_attribute(line) {
            is_test = true;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            found.extend(name(line).filter(|_| is_test));
            is_test = false;
        }
        // `("what it shows", || Box::pin(case())),`
        let case = line.strip_prefix("(\"").and_then(|rest| rest.split_once("\", ||"));
        found.extend(case.map(|(sentence, _)| sentence.to_owned()));
    }
    found
}

/// The cells of a row; `None` for what is no row, or only begins a table.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?.replace("\\|", "\u{0}");
    let cells: Vec<String> = inner.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
    let is_head = cells[0] == "topic" || cells[0].starts_with("---");
    (!is_head).then_some(cells)
}

/// The words in backticks, and whether each is followed by a colon.
fn names(cell: &str) -> Vec<(String, bool)> {
    let parts: Vec<&str> = cell.split('`').collect();
    let quoted = (1..parts.len()).step_by(2);
    quoted
        .map(|at| (parts[at].to_owned(), parts.get(at + 1).is_some_and(|rest| rest.starts_with(':'))))
        .collect()
}

/// Which tests of a row are not where it says.
fn missing(
    cell: &str,
    usual_crate: &str,
    tests: &BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
) -> Vec<String> {
    let mut holder = usual_crate.to_owned();
    let mut missing = Vec::new();
    let mut named = 0;
    for (name, is_crate) in names(cell) {
        if is_crate {
            holder = name;
            continue;
        }
        named += 1;
        let is_there = match name.split_once("::") {
            Some((file, test)) => tests["e2e"].get(file).is_some_and(|tests| tests.contains(test)),
            None => tests.get(&holder).is_some_and(|files| files.values().any(|tests| tests.contains(&name))),
        };
        if !is_there {
            missing.push(format!("{holder}: {name}"));
        }
    }
    if named == 0 {
        missing.push("no test is named".to_owned());
    }
    missing
}

#[test]
fn each_difference_from_kubernetes_names_tests_that_exist() {
    let crates = std::fs::read_dir(project().join("crates")).expect("readable");
    let mut tests: BTreeMap<_, _> = crates
        .map(|entry| entry.expect("readable"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), tests_below(entry.path())))
        .collect();
    tests.insert("e2e".to_owned(), tests_below(project().join("e2e/tests")));
    let text = std::fs::read_to_string(project().join("docs/differences.md")).expect("the document is there");
    let mut usual_crate = "";
    let (mut rows, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        match line {
            "## Templates" => usual_crate = "template",
            _ if line.starts_with("## ") => usual_crate = "",
            _ => {}
        }
        let Some(cells) = cells(line) else { continue };
        rows += 1;
        assert_eq!(cells.len(), 4, "{line}");
        let missing = missing(&cells[3], usual_crate, &tests);
        if !missing.is_empty() {
            wrong.push(format!("{}: {}", cells[0], missing.join(", ")));
        }
    }
    assert!(rows > 100, "{rows} rows were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_row_without_a_test_or_with_one_that_is_not_there_is_found() {
    let of = |file: &str, test: &str| BTreeMap::from([(file.to_owned(), BTreeSet::from([test.to_owned()]))]);
    let tests = BTreeMap::from([
        ("e2e".to_owned(), of("hooks", "a_hook_runs")),
        ("runtime".to_owned(), of("life", "a pod ends")),
        ("template".to_owned(), of("values", "a_value_stays")),
    ]);
    for (cell, usual, count) in [
        ("e2e `hooks::a_hook_runs`, `runtime`: `a pod ends`", "", 0),
        ("`a_value_stays`", "template", 0),
        ("`a_value_stays`", "", 1),
        ("e2e `pods::a_hook_runs`", "", 1),
        ("`runtime`: `a_hook_runs`, `a pod ends`", "", 1),
        ("`runtime`", "", 1),
        ("-", "", 1),
    ] {
        assert_eq!(missing(cell, usual, &tests).len(), count, "{cell}");
    }
    let source = "#[test]\nfn one() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore]\nasync fn two() {}\nfn three() {}\n(\"a case\", || Box::pin(case())),";
    assert_eq!(tests_in(source), ["one", "two", "a case"]);
}
