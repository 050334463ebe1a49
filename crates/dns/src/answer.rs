//! From the bytes of a question to those of its answer, or to whom it has to be passed on. Pure; every byte may be hostile.

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, Record, RecordType};
use hickory_proto::serialize::binary::{BinEncodable as _, BinEncoder};

use crate::wire::{self, HEADER, MAX_PAYLOAD, OPT, Question};
use crate::zone::{Found, Zone};

const MIN_PAYLOAD: u16 = 512;
/// The most names that lead to one another.
const MAX_ALIASES: usize = 8;

/// Over what a question came, and how long its answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// What somebody asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    id: u16,
    query: Query,
    /// Name, type and class, as they were written.
    raw: Box<[u8]>,
    recursion: bool,
    unchecked: bool,
    /// With EDNS, and whether signatures are wanted.
    edns: Option<bool>,
    limit: usize,
}

/// What is to be done with a message.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is none, or none that wants an answer.
    Ignore,
    /// This answers it.
    Reply(Vec<u8>),
    /// Another server knows.
    Forward(Box<Forward>),
}

/// A question for another server.
#[derive(Debug)]
pub(crate) struct Forward {
    asked: Asked,
    /// What leads to the name that is asked for, if it is another than the one that was.
    aliases: Vec<Record>,
    pub(crate) question: Question,
}

/// Decides what to do with a message. `turn` decides which of several addresses comes first.
pub(crate) fn decide(zone: &Zone, packet: &[u8], transport: Transport, turn: usize) -> Decision {
    let (Some(id), Some(operation)) = (wire::id(packet), wire::operation(packet)) else {
        return Decision::Ignore;
    };
    // Two servers that answer each other's answers would never end.
    if packet.len() < HEADER || wire::is_answer(packet) {
        return Decision::Ignore;
    }
    if operation != 0 {
        return Decision::Reply(refusal(id, operation, ResponseCode::NotImp));
    }
    let (Ok(message), Some(raw)) = (Message::from_vec(packet), wire::question(packet)) else {
        return Decision::Reply(refusal(id, operation, ResponseCode::FormErr));
    };
    let [query] = message.queries.as_slice() else {
        return Decision::Reply(refusal(id, operation, ResponseCode::FormErr));
    };
    let edns = message.edns.as_ref();
    let asked = Asked {
        id,
        query: query.clone(),
        raw: raw.into(),
        recursion: message.metadata.recursion_desired,
        unchecked: message.metadata.checking_disabled,
        edns: edns.map(|edns| edns.flags().dnssec_ok),
        limit: match transport {
            Transport::Tcp => usize::from(u16::MAX),
            Transport::Udp => {
                edns.map_or(MIN_PAYLOAD, |edns| edns.max_payload().clamp(MIN_PAYLOAD, MAX_PAYLOAD)).into()
            }
        },
    };
    if edns.is_some_and(|edns| edns.version() > 0) {
        return Decision::Reply(asked.reply(Reply::code(ResponseCode::BADVERS)));
    }
    let is_transfer = matches!(query.query_type(), RecordType::AXFR | RecordType::IXFR);
    if is_transfer || !matches!(query.query_class(), DNSClass::IN | DNSClass::ANY) {
        return Decision::Reply(asked.reply(Reply::code(ResponseCode::Refused)));
    }
    answer(zone, asked, turn)
}

fn answer(zone: &Zone, asked: Asked, turn: usize) -> Decision {
    let kind = asked.query.query_type();
    let mut name = asked.query.name().clone();
    let mut aliases: Vec<Record> = Vec::new();
    loop {
        let reply = match zone.look_up(&name, kind) {
            Found::Elsewhere => return pass_on(asked, aliases, &name),
            Found::NotYet => Reply::code(ResponseCode::ServFail),
            Found::NoName(authority) => {
                Reply { code: ResponseCode::NXDomain, authorities: vec![*authority], ..Reply::default() }
            }
            Found::NoData(authority) => Reply { authorities: vec![*authority], ..Reply::default() },
            Found::Records(mut answers, additionals) => {
                let count = answers.len();
                answers.rotate_left(turn % count.max(1));
                Reply { answers, additionals, ..Reply::default() }
            }
            Found::Alias(record, target) => {
                aliases.push(*record);
                if kind != RecordType::CNAME && aliases.len() <= MAX_ALIASES {
                    name = target;
                    continue;
                }
                Reply::default()
            }
        };
        let mut reply = Reply { is_own: true, ..reply };
        reply.answers.splice(0..0, aliases);
        return Decision::Reply(asked.reply(reply));
    }
}

fn pass_on(asked: Asked, aliases: Vec<Record>, name: &Name) -> Decision {
    let question = if aliases.is_empty() {
        Question::new(&asked.raw, asked.recursion, asked.unchecked, asked.edns)
    } else {
        let query = Query::query(name.clone(), asked.query.query_type());
        let Ok(raw) = query.to_bytes() else {
            return Decision::Reply(asked.reply(Reply::code(ResponseCode::ServFail)));
        };
        Question::new(&raw, asked.recursion, asked.unchecked, asked.edns)
    };
    Decision::Forward(Box::new(Forward { asked, aliases, question }))
}

impl Forward {
    /// The answer, from that of the other server.
    pub(crate) fn answered(&self, answer: &[u8]) -> Vec<u8> {
        let asked = &self.asked;
        if self.aliases.is_empty() {
            return wire::pass_on(answer, asked.id, &asked.raw, asked.limit, asked.edns);
        }
        let Ok(answer) = Message::from_vec(answer) else { return self.failed() };
        asked.reply(Reply {
            code: answer.metadata.response_code,
            answers: self.aliases.iter().cloned().chain(answer.answers).collect(),
            authorities: answer.authorities,
            is_cut: answer.metadata.truncation,
            ..Reply::default()
        })
    }

    /// The answer when no other server gave one.
    pub(crate) fn failed(&self) -> Vec<u8> {
        self.asked.reply(Reply::code(ResponseCode::ServFail))
    }
}

#[derive(Default)]
struct Reply {
    code: ResponseCode,
    answers: Vec<Record>,
    authorities: Vec<Record>,
    additionals: Vec<Record>,
    /// Nobody knows better.
    is_own: bool,
    /// Something is missing.
    is_cut: bool,
}

impl Reply {
    fn code(code: ResponseCode) -> Reply {
        Reply { code, ..Reply::default() }
    }
}

impl Asked {
    fn reply(&self, reply: Reply) -> Vec<u8> {
        let mut message = Message::new(self.id, MessageType::Response, OpCode::Query);
        message.metadata.response_code = reply.code;
        message.metadata.authoritative = reply.is_own;
        message.metadata.recursion_desired = self.recursion;
        message.metadata.recursion_available = true;
        message.metadata.checking_disabled = self.unchecked;
        message.metadata.truncation = reply.is_cut;
        message.queries.push(self.query.clone());
        message.answers = reply.answers;
        message.authorities = reply.authorities;
        message.additionals = reply.additionals;
        let room = self.limit - if self.edns.is_some() { OPT } else { 0 };
        let mut bytes = encode(&message, room);
        if wire::is_truncated(&bytes) && !message.additionals.is_empty() {
            // Nobody has asked for these: that they are missing is no reason to ask again.
            message.additionals.clear();
            bytes = encode(&message, room);
        }
        if let Some(signatures) = self.edns
            && bytes.len() >= HEADER
        {
            let further = u16::from_be_bytes([bytes[10], bytes[11]]).saturating_add(1);
            bytes[10..HEADER].copy_from_slice(&further.to_be_bytes());
            bytes.extend(wire::opt(MAX_PAYLOAD, reply.code.high(), signatures));
        }
        bytes
    }
}

/// The message in at most that many bytes: records that do not fit are left out, and that is said in it.
fn encode(message: &Message, room: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_max_size(u16::try_from(room).unwrap_or(u16::MAX));
    let emitted = message.emit(&mut encoder);
    // What was begun of a record that did not fit is still there.
    encoder.trim();
    match emitted {
        Ok(()) => bytes,
        Err(error) => {
            tracing::debug!(%error, "an answer cannot be written");
            refusal(message.metadata.id, 0, ResponseCode::ServFail)
        }
    }
}

/// An answer that is only a code: what was asked could not be read.
fn refusal(id: u16, operation: u8, code: ResponseCode) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut message = vec![high, low, 0x80 | (operation << 3), code.low()];
    message.extend([0; 8]);
    message
}

#[cfg(test)]
mod tests;
