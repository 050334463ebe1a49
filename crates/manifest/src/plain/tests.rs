//! The plain reader beside the complete parser: the same trees, or nothing.

use super::*;

/// Small random numbers that are the same everywhere.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.roll(from.len())]
    }
}

const KEYS: &[&str] = &[
    "a",
    "name",
    "app.kubernetes.io/name",
    "KEY_1",
    "x-y",
    "0",
    "1.5",
    "yes",
    "null",
    "\"q\"",
    "'q'",
    "\"q r\"",
    "\"é\"",
    "_x",
    ".x",
    "/x",
    "a",
    "b",
    "c",
];

const ODD_KEYS: &[&str] = &[
    "<<", "a b", "? a", "\"a\\n\"", "\"a: b\"", "&x a", "*x", "[a]", "{a: b}", "-a", "a:b", "#a", "!!str a",
    "~", "'a''b'", "- a", "%a", "@a", "a,", "a]", "|", ".inf", "''",
];

const SCALARS: &[&str] = &[
    "größe",
    "über x",
    "—",
    "\"é\"",
    "['é', \"ü\"]",
    "日本 # c",
    "é: b",
    "\"é\\\"\"",
    "x",
    "1",
    "0644",
    "yes",
    "no",
    "1e3",
    ".5",
    "~",
    "null",
    "http://x:80/y",
    "a#b",
    "-1",
    "--flag=x",
    "-x",
    "a b  c",
    "\"x\"",
    "\"\"",
    "''",
    "'it''s'",
    "\"a\\\"b\"",
    "\"a\\\\b\\n\"",
    "\"a: b\"",
    "'a #b'",
    "{}",
    "[]",
    "[ ]",
    "[a, \"b\", 'c']",
    "[1, yes]",
    "$(A)",
    "(x)",
    "+1",
    "/bin/sh",
    "500m",
    "128Mi",
    "2001-01-01",
    "0x1F",
    "1_000",
    "\"$(A):b\"",
    "a{b}",
    "a,b",
    "a]b",
    "x  # c",
    "\"x\" # c",
    "[a] # c",
    "12:30:45",
    "a:b",
    "a\\b",
    "a\"b",
    "a'b",
    "a&b",
    "a*b",
    "a!b",
    "a|b",
    "a>b",
    "a%b",
    "a@b",
    "a?",
    "x-",
    "=",
];

const ODD_SCALARS: &[&str] = &[
    "a: b",
    "a:",
    "a #b",
    ">",
    ">-",
    "|2",
    "|x",
    "| # c",
    "&a x",
    "*a",
    "!!str x",
    "!x",
    "@x",
    "`x",
    "? x",
    ": x",
    ":x",
    "%x",
    "- x",
    "-",
    "[a",
    "[a,b]",
    "[a, ]",
    "[,]",
    "[a, [b]]",
    "[a: b]",
    "[a, b: c]",
    "[a #b]",
    "[- a]",
    "{a: b}",
    "{",
    "}",
    "]",
    ",",
    "\"x",
    "'x",
    "\"x\" y",
    "'x'y",
    "\"\\x41\"",
    "\"\\q\"",
    "\"a\\\"",
    "<<",
    ".inf",
    ".nan",
    "...",
    "---",
    "--- a",
    "x :",
    "x : y",
    "\"x\": y",
    "\"x\" : y",
    "'x':",
    "[a]:",
    "[a]: b",
    "{}: b",
    "\"x\":y",
    "\"x\"#c",
    "[a]#c",
    "#c",
    "x:",
    "x:  ",
    "= ",
    "\\",
    "\"a\\n: b\"",
    "\"a\\\": b\"",
    "[\"a\", \"b\" ]",
    "[a , b]",
    "[a,  b]",
    "[\"a\"b]",
    "[\"a\": b]",
    "[\"a\":b]",
    "[a:b]",
    "[a(b)]",
    "[a#b]",
];

/// Writes a block node whose entries stand in a column.
fn block(dice: &mut Dice, text: &mut String, column: usize, depth: usize, is_first_here: bool, odd: usize) {
    let is_list = dice.roll(3) == 0;
    for number in 0..1 + dice.roll(3) {
        if number > 0 || !is_first_here {
            filler(dice, text, column);
            text.push_str(&" ".repeat(column));
        }
        if is_list {
            text.push('-');
            match dice.roll(6) {
                0 => below(dice, text, column, column + 1, depth, odd),
                1 if depth < 6 => {
                    let blanks = 1 + dice.roll(3);
                    text.push_str(&" ".repeat(blanks));
                    block(dice, text, column + 1 + blanks, depth + 1, true, odd);
                }
                2 if depth < 6 => {
                    text.push(' ');
                    block(dice, text, column + 2, depth + 1, true, odd);
                }
                _ => value(dice, text, column, odd),
            }
        } else {
            let keys = if odd > 0 && dice.roll(odd) == 0 { ODD_KEYS } else { KEYS };
            text.push_str(dice.pick(keys));
            text.push(':');
            match dice.roll(3) {
                0 => below(dice, text, column, column, depth, odd),
                _ => value(dice, text, column, odd),
            }
        }
    }
}

fn filler(dice: &mut Dice, text: &mut String, column: usize) {
    match dice.roll(24) {
        0 => text.push('\n'),
        1 => text.push_str("   \n"),
        2 => text.push_str("# c é\n"),
        3 => text.push_str(&format!("{}# a: b\n", " ".repeat(dice.roll(column + 4)))),
        _ => {}
    }
}

/// Ends the line behind a key or dash and writes what stands below it.
fn below(dice: &mut Dice, text: &mut String, column: usize, list_column: usize, depth: usize, odd: usize) {
    text.push_str(dice.pick(&["", "", "", "  ", " # c"]));
    text.push('\n');
    filler(dice, text, column);
    if depth >= 6 || dice.roll(5) == 0 {
        return;
    }
    let deeper = list_column + dice.roll(2);
    let column = if dice.roll(2) == 0 { column + 2 } else { deeper.max(column + dice.roll(4)) };
    block(dice, text, column, depth + 1, false, odd);
}

/// A value on the line of its key or dash.
fn value(dice: &mut Dice, text: &mut String, column: usize, odd: usize) {
    text.push_str(dice.pick(&[" ", " ", " ", "  "]));
    if dice.roll(8) == 0 {
        text.push_str(dice.pick(&["|", "|-", "|+", "|"]));
        text.push('\n');
        let own = column + 1 + dice.roll(3);
        for _ in 0..1 + dice.roll(4) {
            match dice.roll(8) {
                0 => text.push('\n'),
                1 => text.push_str(&format!("{}\n", " ".repeat(dice.roll(own + 2)))),
                2 => text.push_str(&format!("{}# c\n", " ".repeat(own))),
                3 => text.push_str(&format!("{}  x: |\n", " ".repeat(own))),
                _ => text.push_str(&format!("{}text: - 'x  \n", " ".repeat(own))),
            }
        }
        return;
    }
    let scalars = if odd > 0 && dice.roll(odd) == 0 { ODD_SCALARS } else { SCALARS };
    text.push_str(dice.pick(scalars));
    text.push_str(dice.pick(&["", "", "", "", "", " "]));
    text.push('\n');
}

fn stream(dice: &mut Dice, odd: usize) -> String {
    let mut text = String::new();
    for number in 0..1 + dice.roll(3) {
        if number > 0 || dice.roll(2) == 0 {
            text.push_str("---\n");
        }
        filler(dice, &mut text, 0);
        if dice.roll(8) > 0 {
            block(dice, &mut text, 0, 0, false, odd);
        }
    }
    if dice.roll(8) == 0 {
        text.pop();
    }
    text
}

/// Damages a text in one place.
fn damage(dice: &mut Dice, text: &mut String) {
    if text.is_empty() {
        return;
    }
    let at = text.floor_char_boundary(dice.roll(text.len()));
    match dice.roll(6) {
        0 => {
            text.remove(at);
        }
        1 | 2 => {
            let inserted = dice.pick(&[
                " ", " ", "\n", ":", "-", "#", "'", "\"", "[", "]", "{", "}", ",", "&", "*", "!", "|", ">",
                "%", "@", "?", "\\", "a", ".", "---\n", "...\n", "- ", ": ", " #", "\t", "\r", "é",
            ]);
            text.insert_str(at, inserted);
        }
        3 => text.truncate(at),
        kind => {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            let line = dice.roll(lines.len());
            let moved;
            match kind {
                4 => {
                    moved = format!(" {}", lines[line]);
                    lines[line] = &moved;
                }
                _ => {
                    let copy = lines[dice.roll(lines.len())];
                    lines.insert(line, copy);
                }
            }
            *text = lines.concat();
        }
    }
}

/// Whether the plain reader takes the text; it must then say what the complete parser says.
fn is_taken(text: &str, limits: &Limits) -> bool {
    let Some(plain) = parse(text, limits) else { return false };
    let complete = yaml::parse(text, limits);
    assert_eq!(complete.as_ref().ok(), Some(&plain), "{text:?}\n{text}\n{complete:#?}\n{plain:#?}");
    true
}

fn compare(seeds: std::ops::Range<u64>) -> (u64, u64) {
    let (mut taken, mut taken_damaged) = (0, 0);
    let limits = Limits::default();
    for seed in seeds {
        let mut dice = Dice::new(seed);
        let odd = [0, 0, 12, 4][dice.roll(4)];
        let mut text = stream(&mut dice, odd);
        taken += u64::from(is_taken(&text, &limits));
        for _ in 0..3 {
            damage(&mut dice, &mut text);
            taken_damaged += u64::from(is_taken(&text, &limits));
        }
    }
    (taken, taken_damaged)
}

#[test]
fn both_readers_give_the_same_trees_for_generated_and_damaged_documents() {
    let seeds = std::env::var("PLAIN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6_000);
    let (taken, taken_damaged) = compare(0..seeds);
    assert!(taken > seeds / 5 && taken_damaged > seeds / 5, "{taken} and {taken_damaged} of {seeds}");
}

#[test]
fn what_generators_write_is_taken() {
    let text = "---\n# Source: chart/templates/web.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels:\n    \
                app.kubernetes.io/name: web\n    app.kubernetes.io/instance: \"web-1\"\n  annotations: {}\nspec:\n  replicas: 2\n  template:\n    \
                spec:\n      containers:\n      - name: web\n        image: \"registry.example/web:1\"\n        args: [\"--port=$(PORT)\", '--verbose']\n        \
                command:\n        - sh\n        - -c\n        - |\n          set -e\n          exec web --x \"$1\"\n        env:\n          - name: A\n            value: \"\"\n\
                ---\n---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  creationTimestamp: null\n  name: m\ndata:\n  app.conf: |-\n    a = 1\n\n    [b]\n  \
                empty:\n";
    assert!(is_taken(text, &Limits::default()));
}

#[test]
fn limits_are_left_to_the_complete_parser() {
    let limits = Limits { nodes: 4, ..Limits::default() };
    assert!(is_taken("a: 1\n", &limits));
    assert!(!is_taken("a: 1\nb: 2\n", &limits));
    let deep: String = (0..60).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    assert!(!is_taken(&deep, &Limits::default()));
    let nested = format!("{}a\n", "- ".repeat(100_000));
    assert!(parse(&nested, &Limits::default()).is_none(), "no recursion without end");
}
