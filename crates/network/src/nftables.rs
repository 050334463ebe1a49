//! The messages of nf_tables: tables, chains, sets, rules and the expressions that rules are made of.
//!
//! Numbers are in network byte order throughout. A batch is carried out as a whole or not at all.

use std::net::Ipv4Addr;

use crate::netlink::{ACK, APPEND, CREATE, Message, NetlinkError, NetlinkSocket};
use crate::range::AddressRange;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const FAMILY_IPV4: u8 = 2;

const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const DELETE_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;
const DELETE_ELEMENTS: u16 = 14;

const REGISTER_1: u32 = 1;
const REGISTER_2: u32 = 2;

const VERDICT_DROP: i32 = 0;
const VERDICT_JUMP: i32 = -3;

/// Where in its way a packet meets a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hook {
    Prerouting = 0,
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

fn message(what: String, kind: u16, flags: u16) -> Message {
    Message::new(what, (SUBSYSTEM << 8) | kind, ACK | flags, &[FAMILY_IPV4, 0, 0, 0])
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
pub(crate) fn make_table(table: &str) -> Message {
    let mut message = message(format!("make the packet filter table {table}"), NEW_TABLE, CREATE);
    message.put_text(1, table).put_u32_be(2, 0);
    message
}

/// Removes a table with all that is in it.
pub(crate) fn remove_table(table: &str) -> Message {
    let mut message = message(format!("remove the packet filter table {table}"), DELETE_TABLE, 0);
    message.put_text(1, table);
    message
}

/// Makes a chain that packets enter by themselves.
pub(crate) fn make_base_chain(
    table: &str,
    chain: &str,
    kind: ChainType,
    hook: Hook,
    priority: i32,
) -> Message {
    let mut message = message(format!("make the packet filter chain {chain}"), NEW_CHAIN, CREATE);
    message.put_text(1, table).put_text(3, chain).nest(4, |message| {
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
pub(crate) fn make_chain(table: &str, chain: &str) -> Message {
    let mut message = message(format!("make the packet filter chain {chain}"), NEW_CHAIN, CREATE);
    message.put_text(1, table).put_text(3, chain);
    message
}

/// Removes the rules of a chain.
pub(crate) fn flush_chain(table: &str, chain: &str) -> Message {
    let mut message = message(format!("empty the packet filter chain {chain}"), DELETE_RULE, 0);
    message.put_text(1, table).put_text(2, chain);
    message
}

/// Makes a set of pairs of IPv4 addresses.
pub(crate) fn make_address_pair_set(table: &str, set: &str) -> Message {
    // Type 7 is an IPv4 address in the numbering of the nft program; a pair shifts the first by six bits.
    const PAIR: u32 = (7 << 6) | 7;
    let mut message = message(format!("make the packet filter set {set}"), NEW_SET, CREATE);
    message.put_text(1, table).put_text(2, set).put_u32_be(3, 0);
    message.put_u32_be(4, PAIR).put_u32_be(5, 8).put_u32_be(10, 1);
    message
}

/// Makes a set of IPv4 addresses that fills by itself, each with a counter of its own, and forgets them again.
pub(crate) fn make_counted_addresses(table: &str, set: &str, most: u32, forgotten_after_ms: u64) -> Message {
    // Type 7 is an IPv4 address in the numbering of the nft program.
    const ADDRESS: u32 = 7;
    const TIMEOUT: u32 = 0x10;
    const FILLED_BY_RULES: u32 = 0x20;
    let mut message = message(format!("make the packet filter set {set}"), NEW_SET, CREATE);
    message.put_text(1, table).put_text(2, set).put_u32_be(3, TIMEOUT | FILLED_BY_RULES);
    message.put_u32_be(4, ADDRESS).put_u32_be(5, 4);
    message.nest(9, |description| {
        description.put_u32_be(1, most);
    });
    message.put_u32_be(10, 2).put(11, &forgotten_after_ms.to_be_bytes());
    message
}

/// How many packets pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) packets_per_second: u64,
    /// As many at once, after a quiet time.
    pub(crate) burst: u32,
}

/// Puts pairs into a set.
pub(crate) fn add_address_pairs(table: &str, set: &str, pairs: &[(Ipv4Addr, Ipv4Addr)]) -> Message {
    elements(message(format!("add to the packet filter set {set}"), NEW_ELEMENTS, CREATE), table, set, pairs)
}

/// Takes pairs out of a set; all of them must be in it.
pub(crate) fn remove_address_pairs(table: &str, set: &str, pairs: &[(Ipv4Addr, Ipv4Addr)]) -> Message {
    elements(
        message(format!("remove from the packet filter set {set}"), DELETE_ELEMENTS, 0),
        table,
        set,
        pairs,
    )
}

fn elements(mut message: Message, table: &str, set: &str, pairs: &[(Ipv4Addr, Ipv4Addr)]) -> Message {
    message.put_text(1, table).put_text(2, set).nest(3, |message| {
        for (first, second) in pairs {
            let key = [first.octets(), second.octets()].concat();
            message.nest(1, |element| {
                element.nest(1, |data| {
                    data.put(1, &key);
                });
            });
        }
    });
    message
}

/// A rule under construction: conditions, then what is done.
pub(crate) struct Rule {
    message: Message,
    expressions: Vec<Expression>,
}

type Expression = (&'static str, Box<dyn FnOnce(&mut Message)>);

impl Rule {
    /// A rule at the end of a chain.
    pub(crate) fn new(table: &str, chain: &str) -> Self {
        let mut message =
            message(format!("add a rule to the packet filter chain {chain}"), NEW_RULE, CREATE | APPEND);
        message.put_text(1, table).put_text(2, chain);
        Self { message, expressions: Vec::new() }
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
        let mask = AddressRange::around(Ipv4Addr::BROADCAST, range.prefix_length()).network().octets();
        self.load_payload(1, offset, 4)
            .with("bitwise", move |message| {
                message.put_u32_be(1, REGISTER_1).put_u32_be(2, REGISTER_1).put_u32_be(3, 4);
                message.nest(4, |data| {
                    data.put(1, &mask);
                });
                message.nest(5, |data| {
                    data.put(1, &[0; 4]);
                });
            })
            .compare(inside, range.network().octets().to_vec())
    }

    /// The source address is in the range.
    pub(crate) fn source_in(self, range: AddressRange) -> Self {
        self.address_in(12, range, true)
    }

    /// The destination address is in the range.
    pub(crate) fn destination_in(self, range: AddressRange) -> Self {
        self.address_in(16, range, true)
    }

    /// The destination address is not in the range.
    pub(crate) fn destination_beyond(self, range: AddressRange) -> Self {
        self.address_in(16, range, false)
    }

    /// The destination address is exactly this.
    pub(crate) fn destination_is(self, address: Ipv4Addr) -> Self {
        self.load_payload(1, 16, 4).compare(true, address.octets().to_vec())
    }

    /// The pair of source and destination address is in the set (the two stand side by side in the header).
    pub(crate) fn addresses_in_set(self, set: &str) -> Self {
        let set = set.to_owned();
        self.load_payload(1, 12, 8).with("lookup", move |message| {
            message.put_text(1, &set).put_u32_be(2, REGISTER_1);
        })
    }

    /// The destination is an address of this machine.
    pub(crate) fn destination_is_local(self) -> Self {
        const RESULT_ADDRESS_TYPE: u32 = 3;
        const OF_DESTINATION: u32 = 2;
        const LOCAL: u32 = 2;
        self.with("fib", |message| {
            message
                .put_u32_be(1, REGISTER_1)
                .put_u32_be(2, RESULT_ADDRESS_TYPE)
                .put_u32_be(3, OF_DESTINATION);
        })
        // The kernel writes this one in its own byte order.
        .compare(true, LOCAL.to_ne_bytes().to_vec())
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
        self.load_payload(1, 12, 4).with("dynset", move |message| {
            message.put_text(1, &set).put_u32_be(3, UPDATE).put_u32_be(4, REGISTER_1);
            message.nest(7, |expression| {
                expression.put_text(1, "limit").nest(2, |limit| {
                    limit.put(1, &rate.packets_per_second.to_be_bytes()).put(2, &SECONDS.to_be_bytes());
                    limit.put_u32_be(3, rate.burst).put_u32_be(4, PACKETS).put_u32_be(5, OVER);
                });
            });
        })
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
    pub(crate) fn redirect_to(self, address: Ipv4Addr, port: u16) -> Message {
        const DESTINATION: u32 = 1;
        let value = |register: u32, bytes: Vec<u8>| {
            move |message: &mut Message| {
                message.put_u32_be(1, register).nest(2, |data| {
                    data.put(1, &bytes);
                });
            }
        };
        self.with("immediate", value(REGISTER_1, address.octets().to_vec()))
            .with("immediate", value(REGISTER_2, port.to_be_bytes().to_vec()))
            .with("nat", |message| {
                message.put_u32_be(1, DESTINATION).put_u32_be(2, u32::from(FAMILY_IPV4));
                message.put_u32_be(3, REGISTER_1).put_u32_be(5, REGISTER_2);
            })
            .finish()
    }

    fn finish(self) -> Message {
        let Self { mut message, expressions } = self;
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
