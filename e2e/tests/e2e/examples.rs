//! Every example runs and prints what its comment says.

use std::collections::BTreeSet;

use e2e::{Place, finish, privileged, project};

/// The lines that an example's opening comment promises: those indented below it.
fn promised(text: &str) -> Vec<&str> {
    let comment = text.lines().take_while(|line| line.starts_with('#'));
    comment.filter_map(|line| line.strip_prefix("#     ")).filter(|line| *line != "...").collect()
}

/// What the comments behind the rows of the expansion table promise, as `NAME=VALUE`.
fn promised_rows(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let (entry, value) = line.split_once("}  # ")?;
            let name = entry.trim().strip_prefix("- {name: ")?.split(',').next()?;
            Some(format!("{name}={value}"))
        })
        .collect()
}

/// Addresses of services differ from run to run; the examples write 10.43.0.7.
fn with_the_documented_address(line: &str) -> String {
    let Some((before, rest)) = line.split_once("10.43.") else { return line.to_owned() };
    let after = rest.trim_start_matches(|each: char| each.is_ascii_digit() || each == '.');
    format!("{before}10.43.0.7{after}")
}

#[test]
fn every_example_prints_what_its_comment_says() {
    if !privileged("every_example_prints_what_its_comment_says") {
        return;
    }
    let place = Place::new();
    let data = place.data();
    let mut names =
        std::fs::read_dir(project().join("examples")).expect("examples").flatten().collect::<Vec<_>>();
    // Templates have directories and tests of their own.
    names.retain(|name| name.path().is_file());
    names.sort_by_key(std::fs::DirEntry::file_name);
    assert!(names.len() >= 7, "the examples are there");
    for name in names {
        let path = name.path();
        let text = std::fs::read_to_string(&path).expect("text");
        let arguments =
            ["run", "--quiet", "--data-dir", data.to_str().expect("text"), path.to_str().expect("text")];
        let said = finish(&mut place.coracle(&arguments), "");
        assert_eq!(said.status, 0, "{}: {}", path.display(), said.all());
        let printed: BTreeSet<String> = said.lines().into_iter().map(with_the_documented_address).collect();
        let rows = promised_rows(&text);
        let lines = promised(&text);
        assert!(!lines.is_empty(), "{}: the comment says what is printed", path.display());
        for line in lines.into_iter().map(str::to_owned).chain(rows) {
            assert!(printed.contains(&line), "{}: no line {line:?} in {}", path.display(), said.all());
        }
    }
}
