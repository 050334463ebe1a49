//! Messages of other servers, as bytes: they are passed on as they are, so only what has to be known or changed is looked at.
//! Pure; every byte may be hostile.
//!
//! Source of the format: RFC 1035, section 4; RFC 6891 for EDNS.

use std::time::Duration;

/// The longest message over UDP to somebody who can take more than 512 bytes: larger ones are lost too often
/// (<https://www.dnsflagday.net/2020/>).
pub(crate) const MAX_PAYLOAD: u16 = 1232;
/// Length of the header.
pub(crate) const HEADER: usize = 12;
/// Length of an OPT record without options.
pub(crate) const OPT: usize = 11;

const TYPE_SOA: u16 = 6;
const TYPE_OPT: u16 = 41;

/// An answer is not kept longer, in seconds.
const MAX_KEPT: u32 = 30;

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long_number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The number of the message.
pub(crate) fn id(message: &[u8]) -> Option<u16> {
    number(message, 0)
}

/// Whether it is an answer and not a question.
pub(crate) fn is_answer(message: &[u8]) -> bool {
    message.get(2).is_some_and(|flags| flags & 0x80 != 0)
}

/// What kind of request it is; 0 is a question.
pub(crate) fn operation(message: &[u8]) -> Option<u8> {
    message.get(2).map(|flags| (flags >> 3) & 0xf)
}

/// Whether something was left out because it did not fit.
pub(crate) fn is_truncated(message: &[u8]) -> bool {
    message.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

/// How it went; 0 is well, 3 is that there is no such name.
pub(crate) fn code(message: &[u8]) -> u8 {
    message.get(3).map_or(0, |flags| flags & 0xf)
}

/// The end of a name that begins at `at`; a pointer ends it.
fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some(at + 1),
            1..=63 => at += 1 + length,
            192.. => return (at + 2 <= bytes.len()).then_some(at + 2),
            _ => return None,
        }
    }
}

/// The one question of a message: name, type and class as they stand in it. None if there is not exactly one, or if its name
/// leads elsewhere.
pub(crate) fn question(message: &[u8]) -> Option<&[u8]> {
    if number(message, 4)? != 1 {
        return None;
    }
    let mut at = HEADER;
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => break,
            1..=63 => at += 1 + length,
            _ => return None,
        }
    }
    // 255 bytes are the longest name.
    let name = at + 1 - HEADER;
    (name <= 255).then(|| message.get(HEADER..at + 5)).flatten()
}

/// What a record of a message is, by places in it.
struct Record {
    kind: u16,
    /// Where its time to live stands.
    ttl: usize,
    /// Where its data begin.
    data: usize,
    end: usize,
}

fn record(message: &[u8], at: usize) -> Option<Record> {
    let fixed = skip_name(message, at)?;
    let length = usize::from(number(message, fixed + 8)?);
    let data = fixed + 10;
    let end = data + length;
    (end <= message.len()).then_some(Record { kind: number(message, fixed)?, ttl: fixed + 4, data, end })
}

/// The records of a message with one question, with the section (0 answers, 1 authorities, 2 further ones); ends at the first
/// that is not whole.
fn records(message: &[u8]) -> impl Iterator<Item = Option<(usize, Record)>> + '_ {
    let counts = [6, 8, 10].map(|at| number(message, at).unwrap_or(0));
    let mut at = question(message).map(|question| HEADER + question.len());
    let sections = (0..3).flat_map(move |section| (0..counts[section]).map(move |_| section));
    sections.map_while(move |section| {
        let begin = at?;
        let found = record(message, begin);
        at = found.as_ref().map(|record| record.end);
        Some(found.map(|record| (section, record)))
    })
}

/// How long an answer may be kept: as long as all of its records, or, where there is nothing, as its start of authority says
/// (RFC 2308). None if it may not be kept.
pub(crate) fn kept_for(message: &[u8]) -> Option<Duration> {
    if is_truncated(message) || !matches!(code(message), 0 | 3) {
        return None;
    }
    let mut least: Option<u32> = None;
    let mut authority: Option<u32> = None;
    let mut answers = 0;
    for each in records(message) {
        let (section, record) = each?;
        if record.kind == TYPE_OPT {
            continue;
        }
        let ttl = long_number(message, record.ttl)?;
        least = Some(least.unwrap_or(ttl).min(ttl));
        if section == 0 {
            answers += 1;
        }
        if section == 1 && record.kind == TYPE_SOA && record.end - record.data >= 20 {
            authority = Some(ttl.min(long_number(message, record.end - 4)?));
        }
    }
    let nothing = code(message) == 3 || answers == 0;
    let seconds = if nothing { authority? } else { least? }.min(MAX_KEPT);
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Takes the seconds that an answer was kept off what is left of it.
pub(crate) fn age(message: &mut [u8], seconds: u32) {
    let places: Vec<usize> = records(message)
        .map_while(|each| each)
        .filter(|(_, record)| record.kind != TYPE_OPT)
        .map(|(_, record)| record.ttl)
        .collect();
    for place in places {
        let left = long_number(message, place).unwrap_or(0).saturating_sub(seconds);
        message[place..place + 4].copy_from_slice(&left.to_be_bytes());
    }
}

/// What is asked of another server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// Name in small letters, type, class.
    wire: Box<[u8]>,
    recursion: bool,
    unchecked: bool,
    /// With EDNS, and whether signatures are wanted.
    edns: Option<bool>,
}

impl Question {
    /// The question of a message (as [`question`] answers it).
    pub(crate) fn new(question: &[u8], recursion: bool, unchecked: bool, edns: Option<bool>) -> Question {
        let mut wire: Box<[u8]> = question.into();
        let name = wire.len().saturating_sub(4);
        // Lengths of labels are below all letters.
        wire[..name].make_ascii_lowercase();
        Question { wire, recursion, unchecked, edns }
    }

    /// The message that asks it.
    pub(crate) fn message(&self, id: u16, max_payload: u16) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER + self.wire.len() + OPT);
        message.extend(id.to_be_bytes());
        message.push(u8::from(self.recursion));
        message.push(if self.unchecked { 0x10 } else { 0 });
        message.extend([0, 1, 0, 0, 0, 0, 0, u8::from(self.edns.is_some())]);
        message.extend(&self.wire);
        if let Some(signatures) = self.edns {
            message.extend(opt(max_payload, 0, signatures));
        }
        message
    }

    /// Whether a message is the answer to it, and to the message with that number.
    pub(crate) fn is_answered_by(&self, message: &[u8], number: u16) -> bool {
        id(message) == Some(number)
            && is_answer(message)
            && question(message).is_some_and(|question| question.eq_ignore_ascii_case(&self.wire))
    }

    /// Bytes that it takes in memory, about.
    pub(crate) fn weight(&self) -> usize {
        self.wire.len() + 64
    }
}

/// An OPT record without options. `extended` are the upper bits of the code.
pub(crate) fn opt(max_payload: u16, extended: u8, signatures: bool) -> [u8; OPT] {
    let [high, low] = max_payload.to_be_bytes();
    [0, 0, 41, high, low, extended, 0, if signatures { 0x80 } else { 0 }, 0, 0, 0]
}

/// An answer for whoever asked with that number and question, in a message of at most `limit` bytes: what does not fit is left
/// out as a whole, and that is said. `answer` is one to the same question, whatever its number and spelling.
pub(crate) fn pass_on(answer: &[u8], id: u16, asked: &[u8], limit: usize, edns: Option<bool>) -> Vec<u8> {
    let question_end = HEADER + asked.len();
    let mut message = answer.to_vec();
    if message.len() > limit {
        message.truncate(question_end);
        message[2] |= 0x02;
        message[6..HEADER].fill(0);
        if let Some(signatures) = edns {
            message[HEADER - 1] = 1;
            message.extend(opt(MAX_PAYLOAD, 0, signatures));
        }
    }
    message[..2].copy_from_slice(&id.to_be_bytes());
    // The same letters, but perhaps of another size; whoever asked may compare them.
    message[HEADER..question_end].copy_from_slice(asked);
    message
}

#[cfg(test)]
pub(crate) mod tests;
