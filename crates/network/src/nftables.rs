//! The messages of nf_tables: tables and chains here, sets and maps in `sets`, rules and their expressions in `rule`.
//!
//! Numbers are in network byte order throughout. A batch is carried out as a whole or not at all.

mod rule;
mod sets;

pub(crate) use rule::{Rate, Register, Rule};
pub(crate) use sets::{
    Element, Part, SetKind, Value, add_address_pairs, add_elements, make_address_pair_set,
    make_counted_addresses, make_set, remembered, remove_address_pairs, remove_elements,
};

use crate::netlink::{ACK, CREATE, DUMP, Message, NetlinkError, NetlinkSocket, attribute};
use crate::range::Family;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
const DELETE_CHAIN: u16 = 5;
const DELETE_RULE: u16 = 8;

/// Where in its way a packet meets a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hook {
    Prerouting = 0,
    Input = 1,
    Forward = 2,
    Output = 3,
    Postrouting = 4,
}

/// What a chain may do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChainType {
    Filter,
    Nat,
}

/// A transport protocol by its number in the IP header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransportNumber(pub(crate) u8);

/// A table. Each family has its own, and two of the same name have nothing in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) family: Family,
    pub(crate) name: String,
}

impl Table {
    pub(crate) fn new(family: Family, name: impl Into<String>) -> Self {
        Self { family, name: name.into() }
    }
}

/// The number of a family, of a message as of what is translated.
fn number_of(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// How many registers an address takes.
pub(crate) fn address_registers(family: Family) -> u8 {
    family.bits() / 32
}

fn message(family: Family, what: String, kind: u16, flags: u16) -> Message {
    Message::new(what, (SUBSYSTEM << 8) | kind, ACK | flags, &[number_of(family), 0, 0, 0])
}

fn batch_mark(kind: u16) -> Message {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    Message::new("open the batch of packet filter changes", kind, 0, &[0, 0, high, low])
}

/// Carries all changes out, or none.
pub(crate) fn commit(socket: &mut NetlinkSocket, changes: Vec<Message>) -> Result<(), NetlinkError> {
    let mut messages = Vec::with_capacity(changes.len() + 2);
    messages.push(batch_mark(BATCH_BEGIN));
    messages.extend(changes);
    messages.push(batch_mark(BATCH_END));
    socket.exchange(&messages)
}

/// Makes a table if it is not there.
pub(crate) fn make_table(table: &Table) -> Message {
    let Table { family, name } = table;
    let mut message = message(*family, format!("make the packet filter table {name}"), NEW_TABLE, CREATE);
    message.put_text(1, name).put_u32_be(2, 0);
    message
}

/// Removes a table with all that is in it.
pub(crate) fn remove_table(table: &Table) -> Message {
    let Table { family, name } = table;
    let mut message = message(*family, format!("remove the packet filter table {name}"), DELETE_TABLE, 0);
    message.put_text(1, name);
    message
}

/// Makes a chain that packets enter by themselves.
pub(crate) fn make_base_chain(
    table: &Table,
    chain: &str,
    kind: ChainType,
    hook: Hook,
    priority: i32,
) -> Message {
    let mut message =
        message(table.family, format!("make the packet filter chain {chain}"), NEW_CHAIN, CREATE);
    message.put_text(1, &table.name).put_text(3, chain).nest(4, |message| {
        message.put_u32_be(1, hook as u32).put(2, &priority.to_be_bytes());
    });
    message.put_text(
        7,
        match kind {
            ChainType::Filter => "filter",
            ChainType::Nat => "nat",
        },
    );
    message
}

/// Makes a chain that packets enter only from another.
pub(crate) fn make_chain(table: &Table, chain: &str) -> Message {
    let mut message =
        message(table.family, format!("make the packet filter chain {chain}"), NEW_CHAIN, CREATE);
    message.put_text(1, &table.name).put_text(3, chain);
    message
}

/// Removes a chain, which must be empty and led to from nowhere.
pub(crate) fn remove_chain(table: &Table, chain: &str) -> Message {
    let mut message =
        message(table.family, format!("remove the packet filter chain {chain}"), DELETE_CHAIN, 0);
    message.put_text(1, &table.name).put_text(3, chain);
    message
}

/// A chain of the machine that packets enter by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseChain {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) priority: i32,
}

/// All chains of IPv4 that packets enter by themselves.
pub(crate) fn base_chains(socket: &mut NetlinkSocket) -> Result<Vec<BaseChain>, NetlinkError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let mut message = message(Family::V4, "list the packet filter chains".to_owned(), GET_CHAIN, DUMP);
    message.without_acknowledgement();
    let mut chains = Vec::new();
    socket.dump_each(&message, |entry| {
        let Some(rest) = entry.get(4..) else { return };
        let priority = attribute(rest, 4)
            .and_then(|hook| attribute(hook, 2))
            .and_then(|bytes| Some(i32::from_be_bytes(bytes.try_into().ok()?)));
        if let (Some(table), Some(name), Some(priority)) = (attribute(rest, 1), attribute(rest, 3), priority)
        {
            chains.push(BaseChain { table: text(table), name: text(name), priority });
        }
    })?;
    Ok(chains)
}

/// Removes the rules of a chain.
pub(crate) fn flush_chain(table: &Table, chain: &str) -> Message {
    let mut message = message(table.family, format!("empty the packet filter chain {chain}"), DELETE_RULE, 0);
    message.put_text(1, &table.name).put_text(2, chain);
    message
}
