//! `generate: expression`: random text after a pattern such as `db-[a-z0-9]{8}`.
//!
//! OpenShift's patterns, with its flaws mended (`docs/differences.md`): every character of a range can come, both ends
//! included; every character of a class comes equally often; what was generated is not read again as a pattern.

use crate::limits::MAX_GENERATED_BYTES;

/// The characters of `\A`.
const SYMBOLS: &str = "~!@#$%^&*()-_+={}[]\\|<,>.?/\"';:`";

/// After so many bytes without a usable one, a source of randomness is broken.
const MOST_REJECTED: usize = 1_000;

/// Where random bytes come from. Must be one that nobody can guess, such as the system's.
pub trait Randomness {
    /// Fills `bytes`.
    ///
    /// # Errors
    ///
    /// The source failed.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomnessFailed>;
}

/// A source of randomness failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the source of randomness failed")]
pub struct RandomnessFailed;

impl<F: FnMut(&mut [u8]) -> Result<(), RandomnessFailed>> Randomness for F {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomnessFailed> {
        self(bytes)
    }
}

/// Why a pattern cannot be used. The sentences are OpenShift's, where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// A class that has neither a range nor one of the named classes.
    #[error("malformed expresion syntax: {class}")]
    Malformed {
        /// The class, brackets and all.
        class: String,
    },
    /// A range from a later character to an earlier one.
    #[error("invalid range specified: {range}")]
    Range {
        /// The range.
        range: String,
    },
    /// More or fewer characters than a part may have.
    #[error("range must be within [1-255] characters ({length})")]
    Length {
        /// What the pattern asks for.
        length: String,
    },
    /// The whole text would be too large.
    #[error("the generated text would be larger than {MAX_GENERATED_BYTES} bytes")]
    TooLarge,
}

impl ExpressionError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => {
                "a class is a list of ranges such as [a-zA-Z0-9], or one of [\\w], [\\d], [\\a] and [\\A]"
            }
            Self::Range { .. } => "the order is a-z, A-Z, 0-9",
            Self::Length { .. } | Self::TooLarge => "ask for fewer characters",
        }
    }
}

/// A pattern, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Random { alphabet: Vec<u8>, length: usize },
}

impl Expression {
    /// Reads a pattern: each `[CLASS]{N}` stands for N random characters, everything else for itself.
    ///
    /// # Errors
    ///
    /// The first part that cannot be used.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parts = Vec::new();
        let mut literal = 0;
        let mut at = 0;
        let mut size = 0_usize;
        while let Some(offset) = memchr::memchr(b'[', &text.as_bytes()[at..]) {
            let open = at + offset;
            let Some((class, digits, end)) = part_at(text, open) else {
                at = open + 1;
                continue;
            };
            if literal < open {
                parts.push(Part::Literal(text[literal..open].to_owned()));
            }
            let alphabet = alphabet(class)?;
            let length = digits.parse::<usize>().ok().filter(|length| (1..=255).contains(length));
            let Some(length) = length else {
                return Err(ExpressionError::Length { length: digits.chars().take(20).collect() });
            };
            size += length;
            if size > MAX_GENERATED_BYTES {
                return Err(ExpressionError::TooLarge);
            }
            parts.push(Part::Random { alphabet, length });
            at = end;
            literal = end;
        }
        if literal < text.len() {
            parts.push(Part::Literal(text[literal..].to_owned()));
        }
        if size + text.len() > MAX_GENERATED_BYTES {
            Err(ExpressionError::TooLarge)
        } else {
            Ok(Self { parts })
        }
    }

    /// How much chance the text holds: the logarithm, base two, of how many texts can come, all equally often.
    pub fn bits(&self) -> u32 {
        let bits: f64 = self.parts.iter().map(Part::bits).sum();
        bits.min(f64::from(u32::MAX)) as u32
    }

    /// A new text.
    ///
    /// # Errors
    ///
    /// The source of randomness failed, or gives nothing usable.
    pub fn generate(&self, random: &mut dyn Randomness) -> Result<String, RandomnessFailed> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Random { alphabet, length } => pick(alphabet, *length, random, &mut text)?,
            }
        }
        Ok(text)
    }
}

impl Part {
    fn bits(&self) -> f64 {
        match self {
            Self::Literal(_) => 0.0,
            Self::Random { alphabet, length } => (alphabet.len() as f64).log2() * *length as f64,
        }
    }
}

/// Takes each character with the same chance: a byte that would favour the first ones is thrown away.
fn pick(
    alphabet: &[u8],
    length: usize,
    random: &mut dyn Randomness,
    text: &mut String,
) -> Result<(), RandomnessFailed> {
    let usable = 256 - 256 % alphabet.len();
    let mut bytes = [0; 64];
    let (mut left, mut rejected) = (length, 0);
    while left > 0 {
        random.fill(&mut bytes)?;
        for byte in bytes {
            if usize::from(byte) >= usable {
                rejected += 1;
                continue;
            }
            text.push(char::from(alphabet[usize::from(byte) % alphabet.len()]));
            rejected = 0;
            left -= 1;
            if left == 0 {
                break;
            }
        }
        if rejected > MOST_REJECTED {
            return Err(RandomnessFailed);
        }
    }
    Ok(())
}

/// The part `[CLASS]{N}` that begins at `open`: class, digits, and where it ends.
fn part_at(text: &str, open: usize) -> Option<(&str, &str, usize)> {
    let inside = &text[open + 1..];
    let class = run(inside, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'\\'));
    let behind = inside[class..].strip_prefix("]{").filter(|_| class > 0)?;
    let digits = run(behind, |byte| byte.is_ascii_digit());
    behind[digits..].strip_prefix('}').filter(|_| digits > 0)?;
    Some((&inside[..class], &behind[..digits], open + 1 + class + 2 + digits + 1))
}

fn run(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

/// The characters of a class, each once.
fn alphabet(class: &str) -> Result<Vec<u8>, ExpressionError> {
    let malformed =
        || ExpressionError::Malformed { class: format!("[{}]", class.chars().take(64).collect::<String>()) };
    let base: Vec<u8> = (b'a'..=b'z').chain(b'A'..=b'Z').chain(b'0'..=b'9').collect();
    let bytes = class.as_bytes();
    let mut is_in = [false; 128];
    let mut has_range = false;
    let mut at = 0;
    while at < bytes.len() {
        let (members, width): (Vec<u8>, usize) = match (bytes[at], bytes.get(at + 1), bytes.get(at + 2)) {
            (b'\\', Some(b'w'), _) => (base.iter().copied().chain(*b"_").collect(), 2),
            (b'\\', Some(b'd'), _) => ((b'0'..=b'9').collect(), 2),
            (b'\\', Some(b'a'), _) => (base.clone(), 2),
            (b'\\', Some(b'A'), _) => (SYMBOLS.bytes().collect(), 2),
            (first, Some(b'-'), Some(last))
                if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() =>
            {
                let place = |wanted: u8| base.iter().position(|each| *each == wanted).unwrap_or_default();
                let (from, to) = (place(first), place(*last));
                if from > to {
                    return Err(ExpressionError::Range { range: class[at..at + 3].to_owned() });
                }
                (base[from..=to].to_vec(), 3)
            }
            (single, _, _) if single.is_ascii_alphanumeric() => {
                is_in[usize::from(single)] = true;
                at += 1;
                continue;
            }
            _ => return Err(malformed()),
        };
        has_range = true;
        members.into_iter().for_each(|member| is_in[usize::from(member)] = true);
        at += width;
    }
    if !has_range {
        return Err(malformed());
    }
    let order = base.iter().copied().chain(SYMBOLS.bytes());
    Ok(order.filter(|member| std::mem::take(&mut is_in[usize::from(*member)])).collect())
}
