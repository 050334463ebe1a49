//! Tables of text, as kubectl prints them.

/// Rows below a heading, columns three blanks apart.
pub(super) fn render(heading: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.max().unwrap_or_default().max(heading[column].chars().count())
        })
        .collect();
    let mut text = String::new();
    let heading: Vec<String> = heading.iter().map(|&each| each.to_owned()).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}   "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A cell of one line: escaped, and not at any length.
pub(super) fn cell(text: &str) -> String {
    const LONGEST: usize = 80;
    let line = text.lines().next().unwrap_or_default();
    let shown: String =
        line.chars().take(LONGEST).map(|each| if each.is_control() { '\u{FFFD}' } else { each }).collect();
    if shown.len() < text.trim_end().len() { format!("{shown}...") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_have_no_blank_ends() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["longer".to_owned(), String::new()]];
        assert_eq!(render(&["NAME", "N"], &rows), "NAME     N\na        1\nlonger\n");
    }

    #[test]
    fn a_cell_is_one_line() {
        assert_eq!(cell("one\ntwo"), "one...");
        assert_eq!(cell("a\u{1b}[31m"), "a\u{FFFD}[31m");
    }
}
