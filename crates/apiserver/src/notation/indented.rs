//! JSON for people: a line for each field, indented by two blanks, as upstream writes it for browsers and curl.

/// JSON with line breaks; nothing else of it changes, neither order nor numbers. What has line breaks already stays as it is.
pub(super) fn indented(json: &[u8]) -> Vec<u8> {
    if matches!(json, [b'{' | b'[', b'\n' | b'\r', ..]) {
        return json.to_vec();
    }
    let mut text = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut is_escaped) = (0usize, false, false);
    for (at, byte) in json.iter().enumerate() {
        if in_text {
            text.push(*byte);
            in_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                text.push(*byte);
                depth += 1;
                if !matches!(json.get(at + 1), Some(b'}' | b']')) {
                    break_line(&mut text, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(at.checked_sub(1).and_then(|before| json.get(before)), Some(b'{' | b'[')) {
                    break_line(&mut text, depth);
                }
                text.push(*byte);
            }
            b',' => {
                text.push(b',');
                break_line(&mut text, depth);
            }
            b':' => text.extend_from_slice(b": "),
            other => {
                in_text = *other == b'"';
                text.push(*other);
            }
        }
    }
    text
}

fn break_line(text: &mut Vec<u8>, depth: usize) {
    text.push(b'\n');
    text.resize(text.len() + depth * 2, b' ');
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn each_field_gets_a_line_and_texts_stay_as_they_are() {
        let json = r#"{"z":[1.50,{"a":"x\",:{[\\"},[]],"b":{},"c":null}"#;
        let want = "{\n  \"z\": [\n    1.50,\n    {\n      \"a\": \"x\\\",:{[\\\\\"\n    },\n    []\n  ],\n  \"b\": {},\n  \"c\": null\n}";
        let text = indented(json.as_bytes());
        assert_eq!(String::from_utf8(text.clone()).expect("text"), want);
        assert_eq!(indented(&text), text, "once is enough");
        for odd in ["", "]]]", "\"", "{", "1"] {
            indented(odd.as_bytes());
        }
    }
}
