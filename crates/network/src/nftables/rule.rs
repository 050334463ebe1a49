//! Rules and the expressions that they are made of.
//!
//! What an expression loads into a register is there for the later expressions of the same rule only: the kernel refuses a
//! rule that reads what it has not written itself.

use std::net::IpAddr;

use super::{Table, TransportNumber, address_registers, message, number_of};
use crate::netlink::{APPEND, CREATE, Message};
use crate::range::{AddressRange, Family, octets};

const NEW_RULE: u16 = 6;

const REGISTER_1: u32 = 1;
const REGISTER_2: u32 = 2;

const VERDICT_DROP: i32 = 0;
const VERDICT_ACCEPT: i32 = 1;
const VERDICT_JUMP: i32 = -3;
const VERDICT_GOTO: i32 = -4;

const META_IN_GROUP: u32 = 21;
const META_OUT_NAME: u32 = 7;
const META_PROTOCOL: u32 = 16;
const CT_STATE: u32 = 0;
const CT_STATUS: u32 = 2;
const CT_PORT: u32 = 12;
const CT_ADDRESS: u32 = 20;
const CT_ADDRESS_V6: u32 = 22;
const FIB_DESTINATION: u32 = 2;
const FIB_SOURCE: u32 = 1;
const FIB_SAME_LINK: u32 = 8;
const NAT_SOURCE: u32 = 0;
const NAT_DESTINATION: u32 = 1;
/// The connection is not known yet: bits of the state.
const STATE_NEW: u32 = 8;
/// The destination was translated: a bit of the status.
const STATUS_TRANSLATED: u32 = 32;

/// One of the sixteen places of four bytes in which a rule keeps what it has loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register(pub(crate) u8);

impl Register {
    fn number(self) -> u32 {
        debug_assert!(self.0 < 16, "there are sixteen");
        8 + u32::from(self.0)
    }

    /// The place `step` places further on.
    pub(crate) fn plus(self, step: u8) -> Self {
        Self(self.0 + step)
    }
}

/// How many packets pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) packets_per_second: u64,
    /// As many at once, after a quiet time.
    pub(crate) burst: u32,
}

/// A rule under construction: conditions, then what is done.
pub(crate) struct Rule {
    family: Family,
    message: Message,
    expressions: Vec<Expression>,
}

type Expression = (&'static str, Box<dyn FnOnce(&mut Message)>);

impl Rule {
    /// A rule at the end of a chain.
    pub(crate) fn new(table: &Table, chain: &str) -> Self {
        let what = format!("add a rule to the packet filter chain {chain}");
        let mut message = message(table.family, what, NEW_RULE, CREATE | APPEND);
        message.put_text(1, &table.name).put_text(2, chain);
        Self { family: table.family, message, expressions: Vec::new() }
    }

    /// The family of the packets that it looks at.
    pub(crate) fn family(&self) -> Family {
        self.family
    }

    /// Where the source address stands in the header; the destination follows it.
    fn source_offset(&self) -> u32 {
        match self.family {
            Family::V4 => 12,
            Family::V6 => 8,
        }
    }

    fn address_bytes(&self) -> u32 {
        4 * u32::from(address_registers(self.family))
    }

    fn destination_offset(&self) -> u32 {
        self.source_offset() + self.address_bytes()
    }

    fn with(mut self, name: &'static str, fill: impl FnOnce(&mut Message) + 'static) -> Self {
        self.expressions.push((name, Box::new(fill)));
        self
    }

    fn compare(self, equal: bool, value: Vec<u8>) -> Self {
        self.with("cmp", move |message| {
            message.put_u32_be(1, REGISTER_1).put_u32_be(2, u32::from(!equal)).nest(3, |data| {
                data.put(1, &value);
            });
        })
    }

    fn load_meta(self, key: u32) -> Self {
        self.with("meta", move |message| {
            message.put_u32_be(1, REGISTER_1).put_u32_be(2, key);
        })
    }

    fn load_payload(self, base: u32, offset: u32, length: u32) -> Self {
        self.with("payload", move |message| {
            message.put_u32_be(1, REGISTER_1).put_u32_be(2, base).put_u32_be(3, offset).put_u32_be(4, length);
        })
    }

    /// The packet came in over a link whose name begins so.
    pub(crate) fn in_from_links(self, prefix: &str) -> Self {
        self.load_meta(6).compare(true, prefix.as_bytes().to_vec())
    }

    /// The packet goes out over a link whose name begins so.
    pub(crate) fn out_to_links(self, prefix: &str) -> Self {
        self.load_meta(7).compare(true, prefix.as_bytes().to_vec())
    }

    fn address_in(self, offset: u32, range: AddressRange, inside: bool) -> Self {
        debug_assert_eq!(range.family(), self.family, "a table knows addresses of its family");
        let (mask, length) = (range.mask_octets(), self.address_bytes());
        self.load_payload(1, offset, length)
            .with("bitwise", move |message| {
                message.put_u32_be(1, REGISTER_1).put_u32_be(2, REGISTER_1).put_u32_be(3, length);
                message.nest(4, |data| {
                    data.put(1, &mask);
                });
                message.nest(5, |data| {
                    data.put(1, &vec![0; mask.len()]);
                });
            })
            .compare(inside, octets(range.network()))
    }

    /// The source address is in the range.
    pub(crate) fn source_in(self, range: AddressRange) -> Self {
        let offset = self.source_offset();
        self.address_in(offset, range, true)
    }

    /// The destination address is in the range.
    pub(crate) fn destination_in(self, range: AddressRange) -> Self {
        let offset = self.destination_offset();
        self.address_in(offset, range, true)
    }

    /// The destination address is not in the range.
    pub(crate) fn destination_beyond(self, range: AddressRange) -> Self {
        let offset = self.destination_offset();
        self.address_in(offset, range, false)
    }

    /// The destination address is exactly this.
    pub(crate) fn destination_is(self, address: impl Into<IpAddr>) -> Self {
        let (offset, length) = (self.destination_offset(), self.address_bytes());
        self.load_payload(1, offset, length).compare(true, octets(address.into()))
    }

    /// The pair of source and destination address is in the set (the two stand side by side in the header).
    pub(crate) fn addresses_in_set(self, set: &str) -> Self {
        let set = set.to_owned();
        let (offset, length) = (self.source_offset(), 2 * self.address_bytes());
        self.load_payload(1, offset, length).with("lookup", move |message| {
            message.put_text(1, &set).put_u32_be(2, REGISTER_1);
        })
    }

    /// The destination is an address of this machine.
    pub(crate) fn destination_is_local(self) -> Self {
        const RESULT_ADDRESS_TYPE: u32 = 3;
        const LOCAL: u32 = 2;
        self.with("fib", |message| {
            message
                .put_u32_be(1, REGISTER_1)
                .put_u32_be(2, RESULT_ADDRESS_TYPE)
                .put_u32_be(3, FIB_DESTINATION);
        })
        // The kernel writes this one in its own byte order.
        .compare(true, LOCAL.to_ne_bytes().to_vec())
    }

    /// An answer to the packet would not go back over the link from which it came: its source is somebody else's.
    pub(crate) fn source_is_elsewhere(self) -> Self {
        const RESULT_LINK: u32 = 1;
        const NONE: u32 = 0;
        self.with("fib", |message| {
            message.put_u32_be(1, REGISTER_1).put_u32_be(2, RESULT_LINK);
            message.put_u32_be(3, FIB_SOURCE | FIB_SAME_LINK);
        })
        .compare(true, NONE.to_ne_bytes().to_vec())
    }

    /// The packet is for that port of that protocol.
    pub(crate) fn destination_port(self, protocol: TransportNumber, port: u16) -> Self {
        self.load_meta(16)
            .compare(true, vec![protocol.0])
            .load_payload(2, 2, 2)
            .compare(true, port.to_be_bytes().to_vec())
    }

    /// Its source address sends more than that; each address is counted by itself in a set of [`make_counted_addresses`].
    pub(crate) fn source_is_over(self, set: &str, rate: Rate) -> Self {
        const UPDATE: u32 = 1;
        const PACKETS: u32 = 0;
        const OVER: u32 = 1;
        const SECONDS: u64 = 1;
        let set = set.to_owned();
        let (offset, length) = (self.source_offset(), self.address_bytes());
        self.load_payload(1, offset, length).with("dynset", move |message| {
            message.put_text(1, &set).put_u32_be(3, UPDATE).put_u32_be(4, REGISTER_1);
            message.nest(7, |expression| {
                expression.put_text(1, "limit").nest(2, |limit| {
                    limit.put(1, &rate.packets_per_second.to_be_bytes()).put(2, &SECONDS.to_be_bytes());
                    limit.put_u32_be(3, rate.burst).put_u32_be(4, PACKETS).put_u32_be(5, OVER);
                });
            });
        })
    }

    fn load_from_header(self, to: Register, base: u32, offset: u32, length: u32) -> Self {
        self.with("payload", move |message| {
            message
                .put_u32_be(1, to.number())
                .put_u32_be(2, base)
                .put_u32_be(3, offset)
                .put_u32_be(4, length);
        })
    }

    /// Loads the source address.
    pub(crate) fn load_source(self, to: Register) -> Self {
        let (offset, length) = (self.source_offset(), self.address_bytes());
        self.load_from_header(to, 1, offset, length)
    }

    /// Loads the destination address.
    pub(crate) fn load_destination(self, to: Register) -> Self {
        let (offset, length) = (self.destination_offset(), self.address_bytes());
        self.load_from_header(to, 1, offset, length)
    }

    /// Loads the destination port of TCP, UDP or SCTP.
    pub(crate) fn load_port(self, to: Register) -> Self {
        self.load_from_header(to, 2, 2, 2)
    }

    /// Loads the number of the transport protocol.
    pub(crate) fn load_protocol(self, to: Register) -> Self {
        self.with("meta", move |message| {
            message.put_u32_be(1, to.number()).put_u32_be(2, META_PROTOCOL);
        })
    }

    fn load_of_connection(self, to: Register, key: u32, direction: Option<u8>) -> Self {
        self.with("ct", move |message| {
            message.put_u32_be(1, to.number()).put_u32_be(2, key);
            if let Some(direction) = direction {
                message.put(3, &[direction]);
            }
        })
    }

    /// Loads the address to which the first packet of the connection was sent.
    pub(crate) fn load_first_destination(self, to: Register) -> Self {
        let key = match self.family {
            Family::V4 => CT_ADDRESS,
            Family::V6 => CT_ADDRESS_V6,
        };
        self.load_of_connection(to, key, Some(0))
    }

    /// Loads the port to which the first packet of the connection was sent.
    pub(crate) fn load_first_port(self, to: Register) -> Self {
        self.load_of_connection(to, CT_PORT, Some(0))
    }

    /// Loads a random number below `count`, which is not 0.
    pub(crate) fn load_random_below(self, to: Register, count: u32) -> Self {
        const RANDOM: u32 = 1;
        self.with("numgen", move |message| {
            message.put_u32_be(1, to.number()).put_u32_be(2, count).put_u32_be(3, RANDOM);
        })
    }

    fn connection_has(self, key: u32, bits: u32, has: bool) -> Self {
        let register = Register(0);
        self.load_of_connection(register, key, None)
            .with("bitwise", move |message| {
                let register = register.number();
                message.put_u32_be(1, register).put_u32_be(2, register).put_u32_be(3, 4);
                message.nest(4, |data| {
                    // The kernel keeps these in its own byte order.
                    data.put(1, &bits.to_ne_bytes());
                });
                message.nest(5, |data| {
                    data.put(1, &[0; 4]);
                });
            })
            .compare_register(register, !has, vec![0; 4])
    }

    /// The packet begins no connection.
    pub(crate) fn not_new(self) -> Self {
        self.connection_has(CT_STATE, STATE_NEW, false)
    }

    /// The connection was led to another destination than its first packet had.
    pub(crate) fn translated(self) -> Self {
        self.connection_has(CT_STATUS, STATUS_TRANSLATED, true)
    }

    /// The packet did not come in over a link whose name begins so.
    pub(crate) fn not_in_from_links(self, prefix: &str) -> Self {
        self.load_meta(6).compare(false, prefix.as_bytes().to_vec())
    }

    /// The packet came in over a link of that group.
    pub(crate) fn in_from_group(self, group: u32) -> Self {
        self.load_meta(META_IN_GROUP).compare(true, group.to_ne_bytes().to_vec())
    }

    /// The packet goes out over another link than the one of exactly that name.
    pub(crate) fn not_out_to(self, link: &str) -> Self {
        const NAME_BYTES: usize = 16;
        let mut name = link.as_bytes().to_vec();
        name.resize(NAME_BYTES, 0);
        self.load_meta(META_OUT_NAME).compare(false, name)
    }

    /// The packet is of that protocol.
    pub(crate) fn protocol_is(self, protocol: TransportNumber) -> Self {
        self.load_meta(META_PROTOCOL).compare(true, vec![protocol.0])
    }

    fn compare_register(self, register: Register, equal: bool, value: Vec<u8>) -> Self {
        self.with("cmp", move |message| {
            message.put_u32_be(1, register.number()).put_u32_be(2, u32::from(!equal)).nest(3, |data| {
                data.put(1, &value);
            });
        })
    }

    /// What the registers from `key` on hold is in the set.
    pub(crate) fn in_set(self, set: &str, key: Register) -> Self {
        let set = set.to_owned();
        self.with("lookup", move |message| {
            message.put_text(1, &set).put_u32_be(2, key.number());
        })
    }

    /// What the registers from `key` on hold is in the map, and what belongs to it is loaded.
    pub(crate) fn load_from_map(self, map: &str, key: Register, to: Register) -> Self {
        let map = map.to_owned();
        self.with("lookup", move |message| {
            message.put_text(1, &map).put_u32_be(2, key.number()).put_u32_be(3, to.number());
        })
    }

    /// The memory notes (again) what the registers hold, for so many seconds.
    pub(crate) fn remember(self, memory: &str, key: Register, value: Register, seconds: u32) -> Self {
        const UPDATE: u32 = 1;
        let memory = memory.to_owned();
        self.with("dynset", move |message| {
            message.put_text(1, &memory).put_u32_be(3, UPDATE).put_u32_be(4, key.number());
            message.put_u32_be(5, value.number());
            message.put(6, &(u64::from(seconds) * 1000).to_be_bytes());
        })
    }

    /// Then: what the map of verdicts says.
    pub(crate) fn decide_by(self, map: &str, key: Register) -> Message {
        const VERDICT: u32 = 0;
        let map = map.to_owned();
        self.with("lookup", move |message| {
            message.put_text(1, &map).put_u32_be(2, key.number()).put_u32_be(3, VERDICT);
        })
        .finish()
    }

    /// Then: it goes to the address in the register and the port in the one behind it.
    pub(crate) fn redirect_to_register(self, address: Register) -> Message {
        let family = self.family;
        let port = address.plus(address_registers(family));
        self.with("nat", move |message| {
            message.put_u32_be(1, NAT_DESTINATION).put_u32_be(2, u32::from(number_of(family)));
            message.put_u32_be(3, address.number()).put_u32_be(5, port.number());
        })
        .finish()
    }

    fn reject(self, kind: u32, code: u8) -> Message {
        self.with("reject", move |message| {
            message.put_u32_be(1, kind).put(2, &[code]);
        })
        .finish()
    }

    /// Then: the next rule looks at it.
    pub(crate) fn go_on(self) -> Message {
        self.finish()
    }

    /// Then: whoever sent it is told that nobody listens there.
    pub(crate) fn refuse(self) -> Message {
        let no_such_port = match self.family {
            Family::V4 => 3,
            Family::V6 => 4,
        };
        self.reject(0, no_such_port)
    }

    /// Then: whoever sent it is told that the host cannot be reached.
    pub(crate) fn no_such_host(self) -> Message {
        let no_such_host = match self.family {
            Family::V4 => 1,
            Family::V6 => 3,
        };
        self.reject(0, no_such_host)
    }

    /// Then: whoever sent it (over TCP) is told that the connection is reset.
    pub(crate) fn reset(self) -> Message {
        self.reject(1, 0)
    }

    /// Then: no further rule of this chain, or of the one it was entered from, looks at it.
    pub(crate) fn accept(self) -> Message {
        self.verdict(VERDICT_ACCEPT, None).finish()
    }

    /// Then: only the other chain looks at it.
    pub(crate) fn goto(self, chain: &str) -> Message {
        self.verdict(VERDICT_GOTO, Some(chain)).finish()
    }

    fn verdict(self, code: i32, chain: Option<&str>) -> Self {
        let chain = chain.map(str::to_owned);
        self.with("immediate", move |message| {
            message.put_u32_be(1, 0).nest(2, |data| {
                data.nest(2, |verdict| {
                    verdict.put(1, &code.to_be_bytes());
                    if let Some(chain) = &chain {
                        verdict.put_text(2, chain);
                    }
                });
            });
        })
    }

    /// Then: the packet is gone.
    pub(crate) fn drop_it(self) -> Message {
        self.verdict(VERDICT_DROP, None).finish()
    }

    /// Then: the other chain looks at it.
    pub(crate) fn jump(self, chain: &str) -> Message {
        self.verdict(VERDICT_JUMP, Some(chain)).finish()
    }

    /// Then: the source becomes the address of the link over which it leaves.
    pub(crate) fn masquerade(self) -> Message {
        self.with("masq", |_| {}).finish()
    }

    /// Then: it goes to that address and port instead.
    pub(crate) fn redirect_to(self, address: impl Into<IpAddr>, port: u16) -> Message {
        let family = self.family;
        self.load_value(REGISTER_1, octets(address.into()))
            .load_value(REGISTER_2, port.to_be_bytes().to_vec())
            .with("nat", move |message| {
                message.put_u32_be(1, NAT_DESTINATION).put_u32_be(2, u32::from(number_of(family)));
                message.put_u32_be(3, REGISTER_1).put_u32_be(5, REGISTER_2);
            })
            .finish()
    }

    /// Then: it comes from that address instead.
    pub(crate) fn come_from(self, address: IpAddr) -> Message {
        let family = self.family;
        self.load_value(REGISTER_1, octets(address))
            .with("nat", move |message| {
                message.put_u32_be(1, NAT_SOURCE).put_u32_be(2, u32::from(number_of(family)));
                message.put_u32_be(3, REGISTER_1);
            })
            .finish()
    }

    fn load_value(self, register: u32, bytes: Vec<u8>) -> Self {
        self.with("immediate", move |message| {
            message.put_u32_be(1, register).nest(2, |data| {
                data.put(1, &bytes);
            });
        })
    }

    fn finish(self) -> Message {
        let Self { mut message, expressions, .. } = self;
        message.nest(4, |list| {
            for (name, fill) in expressions {
                list.nest(1, |expression| {
                    expression.put_text(1, name).nest(2, fill);
                });
            }
        });
        message
    }
}
