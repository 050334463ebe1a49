//! Sets and maps of the packet filter, and what is put into them.
//!
//! A key of several parts is each part in order, filled up with zeros to four bytes.

use std::net::IpAddr;

use super::{Table, address_registers, message};
use crate::netlink::{CREATE, DUMP, Message, NetlinkError, NetlinkSocket, attribute, attributes};
use crate::range::{Family, octets};

const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;
const GET_ELEMENTS: u16 = 13;
const DELETE_ELEMENTS: u16 = 14;

const IS_MAP: u32 = 0x8;
const HAS_TIMEOUT: u32 = 0x10;
const FILLED_BY_RULES: u32 = 0x20;
const VERDICT: u32 = 0xffff_ff00;
const VERDICT_GOTO: i32 = -4;
const VERDICT_ACCEPT: i32 = 1;

/// As many elements go into one message: its list may not be longer than 64 KiB, and none takes more than 220 bytes.
const ELEMENTS_IN_A_MESSAGE: usize = 256;
/// The nft program shows no more of a comment.
const COMMENT_BYTES: usize = 120;

/// What the parts of a key or value are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// An address of the table's family.
    Address,
    Protocol,
    Port,
    Number,
}

impl Part {
    /// In the numbering of the nft program, so that it shows them well.
    fn number(self, family: Family) -> u32 {
        match (self, family) {
            (Self::Address, Family::V4) => 7,
            (Self::Address, Family::V6) => 8,
            (Self::Protocol, _) => 12,
            (Self::Port, _) => 13,
            (Self::Number, _) => 19,
        }
    }

    fn bytes(self, family: Family) -> u32 {
        match self {
            Self::Address => 4 * u32::from(address_registers(family)),
            Self::Protocol | Self::Port | Self::Number => 4,
        }
    }
}

/// What is in a set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SetKind {
    /// Keys alone.
    Set(&'static [Part]),
    /// To each key a value.
    Map(&'static [Part], &'static [Part]),
    /// To each key a value, which rules note and the kernel forgets after a while.
    Memory(&'static [Part], &'static [Part]),
    /// To each key what is done with the packet.
    Verdicts(&'static [Part]),
}

fn type_number(parts: &[Part], family: Family) -> u32 {
    parts.iter().fold(0, |number, part| (number << 6) | part.number(family))
}

fn length(parts: &[Part], family: Family) -> u32 {
    parts.iter().map(|part| part.bytes(family)).sum()
}

/// Makes a set.
pub(crate) fn make_set(table: &Table, set: &str, kind: SetKind) -> Message {
    let family = table.family;
    let mut message = message(family, format!("make the packet filter set {set}"), NEW_SET, CREATE);
    let (flags, key) = match kind {
        SetKind::Set(key) => (0, key),
        SetKind::Map(key, _) | SetKind::Verdicts(key) => (IS_MAP, key),
        SetKind::Memory(key, _) => (IS_MAP | HAS_TIMEOUT | FILLED_BY_RULES, key),
    };
    message.put_text(1, &table.name).put_text(2, set).put_u32_be(3, flags);
    message.put_u32_be(4, type_number(key, family)).put_u32_be(5, length(key, family));
    match kind {
        SetKind::Set(_) => {}
        SetKind::Map(_, value) | SetKind::Memory(_, value) => {
            message.put_u32_be(6, type_number(value, family)).put_u32_be(7, length(value, family));
        }
        SetKind::Verdicts(_) => {
            message.put_u32_be(6, VERDICT).put_u32_be(7, 0);
        }
    }
    // The number by which other messages of the batch could name it.
    message.put_u32_be(10, 1);
    message
}

/// One element: a key, and in a map what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Value,
    /// For people who look.
    pub(crate) comment: Option<String>,
    /// In a memory: how long it stays after it was used, and how long it stays now, in milliseconds.
    pub(crate) life: Option<(u64, u64)>,
}

/// What belongs to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    None,
    Data(Vec<u8>),
    Goto(String),
    Accept,
}

impl Element {
    /// An element of a set.
    pub(crate) fn key(key: Vec<u8>) -> Self {
        Self::new(key, Value::None)
    }

    /// An element of a map.
    pub(crate) fn new(key: Vec<u8>, value: Value) -> Self {
        Self { key, value, comment: None, life: None }
    }

    fn put(&self, message: &mut Message) {
        message.nest(1, |element| {
            element.nest(1, |data| {
                data.put(1, &self.key);
            });
            match &self.value {
                Value::None => {}
                Value::Data(bytes) => {
                    element.nest(2, |data| {
                        data.put(1, bytes);
                    });
                }
                Value::Goto(chain) => put_verdict(element, VERDICT_GOTO, Some(chain)),
                Value::Accept => put_verdict(element, VERDICT_ACCEPT, None),
            }
            if let Some((whole, left)) = self.life {
                element.put(4, &whole.to_be_bytes()).put(5, &left.to_be_bytes());
            }
            if let Some(comment) = &self.comment {
                let mut end = comment.len().min(COMMENT_BYTES);
                while !comment.is_char_boundary(end) {
                    end -= 1;
                }
                let mut bytes = vec![0, u8::try_from(end + 1).expect("shorter than 256")];
                bytes.extend_from_slice(&comment.as_bytes()[..end]);
                bytes.push(0);
                element.put(6, &bytes);
            }
        });
    }
}

fn put_verdict(element: &mut Message, code: i32, chain: Option<&str>) {
    element.nest(2, |data| {
        data.nest(2, |verdict| {
            verdict.put(1, &code.to_be_bytes());
            if let Some(chain) = chain {
                verdict.put_text(2, chain);
            }
        });
    });
}

/// The elements of a memory.
pub(crate) fn remembered(
    socket: &mut NetlinkSocket,
    table: &Table,
    memory: &str,
) -> Result<Vec<Element>, NetlinkError> {
    let mut request =
        message(table.family, format!("list the packet filter set {memory}"), GET_ELEMENTS, DUMP);
    request.without_acknowledgement();
    request.put_text(1, &table.name).put_text(2, memory);
    let mut elements = Vec::new();
    socket.dump_each(&request, |entry| {
        let Some(list) = entry.get(4..).and_then(|rest| attribute(rest, 3)) else { return };
        for (_, element) in attributes(list) {
            let bytes = |kind| attribute(element, kind).and_then(|data| attribute(data, 1));
            let time = |kind| Some(u64::from_be_bytes(attribute(element, kind)?.try_into().ok()?));
            if let (Some(key), Some(value)) = (bytes(1), bytes(2)) {
                let value = Value::Data(value.to_vec());
                elements.push(Element { life: time(4).zip(time(5)), ..Element::new(key.to_vec(), value) });
            }
        }
    })?;
    Ok(elements)
}

/// Puts elements into a set.
pub(crate) fn add_elements(table: &Table, set: &str, elements: &[Element]) -> Vec<Message> {
    let one = |some: &[Element]| {
        let mut message =
            message(table.family, format!("add to the packet filter set {set}"), NEW_ELEMENTS, CREATE);
        message
            .put_text(1, &table.name)
            .put_text(2, set)
            .nest(3, |list| some.iter().for_each(|each| each.put(list)));
        message
    };
    elements.chunks(ELEMENTS_IN_A_MESSAGE).map(one).collect()
}

/// Takes elements out of a set; all of them must be in it.
pub(crate) fn remove_elements(table: &Table, set: &str, keys: &[Vec<u8>]) -> Vec<Message> {
    let one = |some: &[Vec<u8>]| {
        let mut message =
            message(table.family, format!("remove from the packet filter set {set}"), DELETE_ELEMENTS, 0);
        message.put_text(1, &table.name).put_text(2, set).nest(3, |list| {
            some.iter().for_each(|key| Element::key(key.clone()).put(list));
        });
        message
    };
    keys.chunks(ELEMENTS_IN_A_MESSAGE).map(one).collect()
}

/// Makes a set of pairs of addresses.
pub(crate) fn make_address_pair_set(table: &Table, set: &str) -> Message {
    make_set(table, set, SetKind::Set(&[Part::Address, Part::Address]))
}

/// Puts pairs into a set.
pub(crate) fn add_address_pairs(table: &Table, set: &str, pairs: &[(IpAddr, IpAddr)]) -> Vec<Message> {
    let elements: Vec<Element> = pairs.iter().map(|pair| Element::key(pair_key(pair))).collect();
    add_elements(table, set, &elements)
}

/// Takes pairs out of a set; all of them must be in it.
pub(crate) fn remove_address_pairs(table: &Table, set: &str, pairs: &[(IpAddr, IpAddr)]) -> Vec<Message> {
    let keys: Vec<Vec<u8>> = pairs.iter().map(pair_key).collect();
    remove_elements(table, set, &keys)
}

fn pair_key((first, second): &(IpAddr, IpAddr)) -> Vec<u8> {
    [octets(*first), octets(*second)].concat()
}

/// Makes a set of addresses that fills by itself, each with a counter of its own, and forgets them again.
pub(crate) fn make_counted_addresses(
    table: &Table,
    set: &str,
    most: u32,
    forgotten_after_ms: u64,
) -> Message {
    let mut message = message(table.family, format!("make the packet filter set {set}"), NEW_SET, CREATE);
    message.put_text(1, &table.name).put_text(2, set).put_u32_be(3, HAS_TIMEOUT | FILLED_BY_RULES);
    let key = &[Part::Address];
    message.put_u32_be(4, type_number(key, table.family)).put_u32_be(5, length(key, table.family));
    message.nest(9, |description| {
        description.put_u32_be(1, most);
    });
    message.put_u32_be(10, 2).put(11, &forgotten_after_ms.to_be_bytes());
    message
}
