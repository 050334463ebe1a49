//! From bytes to bytes: codes, flags, sizes, and that no bytes do harm.

use hickory_proto::op::Edns;
use hickory_proto::rr::RData;
use hickory_proto::rr::rdata::A;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::zone::tests::{cluster, empty, service, slice};

fn ask(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.queries.push(Query::query(Name::from_ascii(name).expect("a name"), kind));
    message
}

fn with_edns(mut message: Message, payload: u16) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(payload);
    message.set_edns(edns);
    message
}

fn bytes(message: &Message) -> Vec<u8> {
    message.to_vec().expect("bytes")
}

fn reply_to(zone: &Zone, packet: &[u8], transport: Transport) -> (usize, Message) {
    match decide(zone, packet, transport, 0) {
        Decision::Reply(reply) => (reply.len(), Message::from_vec(&reply).expect("a message")),
        other => panic!("no reply: {other:?}"),
    }
}

fn reply(zone: &Zone, message: &Message) -> Message {
    reply_to(zone, &bytes(message), Transport::Udp).1
}

#[test]
fn an_answer_says_whose_it_is_and_what_was_asked() {
    let asked = ask("Web.shop.svc.cluster.local.", RecordType::A);
    let answer = reply(&cluster(), &asked);
    assert_eq!(answer.metadata.id, 4711);
    assert_eq!(answer.metadata.message_type, MessageType::Response);
    assert!(answer.metadata.authoritative && answer.metadata.recursion_desired);
    assert!(answer.metadata.recursion_available && !answer.metadata.truncation);
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    assert_eq!(answer.queries, asked.queries);
    assert!(answer.queries[0].name().eq_case(asked.queries[0].name()), "as it was spelt");
    assert_eq!(answer.answers.len(), 1);
    assert!(answer.edns.is_none());
    let with = reply(&cluster(), &with_edns(asked, 4096));
    assert_eq!(with.edns.map(|edns| edns.max_payload()), Some(1232));
}

#[test]
fn what_is_not_there_is_said_with_its_start_of_authority() {
    let rows = [
        ("nothing.shop.svc.cluster.local.", RecordType::A, ResponseCode::NXDomain),
        ("web.shop.svc.cluster.local.", RecordType::AAAA, ResponseCode::NoError),
    ];
    for (name, kind, code) in rows {
        let answer = reply(&cluster(), &ask(name, kind));
        assert_eq!(answer.metadata.response_code, code, "{name}");
        assert_eq!(answer.authorities.len(), 1, "{name}");
        assert_eq!(answer.authorities[0].record_type(), RecordType::SOA);
        assert!(answer.answers.is_empty());
    }
}

#[test]
fn what_cannot_be_answered_is_refused_by_code() {
    let zone = cluster();
    let mut chaos = ask("version.bind.", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(reply(&zone, &chaos).metadata.response_code, ResponseCode::Refused);
    let transfer = ask("cluster.local.", RecordType::AXFR);
    assert_eq!(reply(&zone, &transfer).metadata.response_code, ResponseCode::Refused);
    let mut newer = with_edns(ask("web.shop.svc.cluster.local.", RecordType::A), 512);
    newer.edns.as_mut().expect("EDNS").set_version(1);
    // 16 has two names.
    assert_eq!(u16::from(reply(&zone, &newer).metadata.response_code), 16);
    let mut two = ask("web.shop.svc.cluster.local.", RecordType::A);
    two.queries.push(two.queries[0].clone());
    assert_eq!(reply(&zone, &two).metadata.response_code, ResponseCode::FormErr);
    let mut update = bytes(&ask("web.shop.svc.cluster.local.", RecordType::A));
    update[2] |= 5 << 3;
    let (_, refused) = reply_to(&zone, &update, Transport::Udp);
    assert_eq!(refused.metadata.response_code, ResponseCode::NotImp);
    let cut = &bytes(&ask("web.shop.svc.cluster.local.", RecordType::A))[..20];
    assert_eq!(reply_to(&zone, cut, Transport::Udp).1.metadata.response_code, ResponseCode::FormErr);
}

#[test]
fn answers_and_scraps_are_not_answered() {
    let zone = cluster();
    let mut answer = bytes(&ask("web.shop.svc.cluster.local.", RecordType::A));
    answer[2] |= 0x80;
    for packet in [&answer[..], &[], &[1, 2, 3], &[0; 11]] {
        assert!(matches!(decide(&zone, packet, Transport::Udp, 0), Decision::Ignore), "{packet:?}");
    }
}

fn large() -> Zone {
    let mut zone = empty();
    zone.set_service(&service("shop", "db", json!({"clusterIP": "None"})));
    for part in 0..5 {
        let endpoints: Vec<String> =
            (1..=50).map(|last| format!("10.131.{part}.{last}=h{part}-{last}")).collect();
        let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
        zone.set_slice(&slice("shop", "db", &format!("db-{part}"), &endpoints), None);
    }
    zone
}

#[test]
fn what_does_not_fit_is_left_out_and_that_is_said() {
    let zone = large();
    let asked = ask("db.shop.svc.cluster.local.", RecordType::A);
    let rows = [
        (asked.clone(), Transport::Udp, 512, true),
        (with_edns(asked.clone(), 100), Transport::Udp, 512, true),
        (with_edns(asked.clone(), 4096), Transport::Udp, 1232, true),
        (asked.clone(), Transport::Tcp, 65535, false),
    ];
    for (message, transport, most, is_cut) in rows {
        let (length, answer) = reply_to(&zone, &bytes(&message), transport);
        assert!(length <= most, "{length} of {most}");
        assert_eq!(answer.metadata.truncation, is_cut, "{most}");
        assert_eq!(answer.edns.is_some(), message.edns.is_some(), "what was said of sizes is never left out");
        assert_eq!(answer.answers.len() == 250, !is_cut, "{most}");
        assert!(answer.answers.len() >= 20, "as many as fit");
    }
    // Addresses that nobody asked for are no reason to ask again.
    let one = ask("_db._tcp.db.shop.svc.cluster.local.", RecordType::SRV);
    let mut few = empty();
    few.set_service(&service("shop", "db", json!({"clusterIP": "None"})));
    let endpoints: Vec<String> = (1..=7).map(|last| format!("10.131.0.{last}=h{last}")).collect();
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    few.set_slice(&slice("shop", "db", "db", &endpoints), None);
    let (length, answer) = reply_to(&few, &bytes(&one), Transport::Udp);
    assert!(length <= 512 && !answer.metadata.truncation, "{length}");
    assert_eq!((answer.answers.len(), answer.additionals.len()), (7, 0));
}

#[test]
fn each_answer_begins_with_another_address() {
    let zone = large();
    let packet = bytes(&ask("db.shop.svc.cluster.local.", RecordType::A));
    let first = |turn| match decide(&zone, &packet, Transport::Tcp, turn) {
        Decision::Reply(reply) => Message::from_vec(&reply).expect("a message").answers[0].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(first(0), first(250));
    let several: std::collections::HashSet<String> = (0..250).map(|turn| first(turn).to_string()).collect();
    assert_eq!(several.len(), 250);
}

#[test]
fn names_of_others_are_passed_on_and_so_are_aliases_with_what_leads_there() {
    let zone = cluster();
    let forward = |name: &str| match decide(&zone, &bytes(&ask(name, RecordType::A)), Transport::Udp, 0) {
        Decision::Forward(forward) => forward,
        other => panic!("{other:?}"),
    };
    let outside = |name: &str| {
        let mut message = Message::new(1, MessageType::Response, OpCode::Query);
        let owner = Name::from_ascii(name).expect("a name");
        message.queries.push(Query::query(owner.clone(), RecordType::A));
        message.answers.push(Record::from_rdata(owner, 60, RData::A(A([192, 0, 2, 9].into()))));
        bytes(&message)
    };
    let plain = forward("WWW.example.com.");
    let answer = Message::from_vec(&plain.answered(&outside("www.example.com."))).expect("a message");
    assert_eq!((answer.metadata.id, answer.answers.len()), (4711, 1));
    assert!(!answer.metadata.authoritative);

    let alias = forward("out.shop.svc.cluster.local.");
    assert_eq!(alias.question, plain.question, "so that one answer does for both");
    let answer = Message::from_vec(&alias.answered(&outside("www.example.com."))).expect("a message");
    let kinds: Vec<RecordType> = answer.answers.iter().map(Record::record_type).collect();
    assert_eq!(kinds, [RecordType::CNAME, RecordType::A]);
    assert_eq!(answer.queries[0].name().to_string(), "out.shop.svc.cluster.local.");
    let failed = Message::from_vec(&alias.failed()).expect("a message");
    assert_eq!(failed.metadata.response_code, ResponseCode::ServFail);
    let wrong = Message::from_vec(&alias.answered(&[1, 2, 3])).expect("a message");
    assert_eq!(wrong.metadata.response_code, ResponseCode::ServFail);
}

#[test]
fn aliases_inside_the_cluster_are_followed_and_those_that_run_in_a_circle_end() {
    let mut zone = cluster();
    let external = |name: &str| json!({"type": "ExternalName", "externalName": name});
    zone.set_service(&service("shop", "same", external("web.shop.svc.cluster.local")));
    zone.set_service(&service("shop", "ping", external("pong.shop.svc.cluster.local")));
    zone.set_service(&service("shop", "pong", external("ping.shop.svc.cluster.local.")));
    let answer = reply(&zone, &ask("same.shop.svc.cluster.local.", RecordType::A));
    let kinds: Vec<RecordType> = answer.answers.iter().map(Record::record_type).collect();
    assert_eq!(kinds, [RecordType::CNAME, RecordType::A]);
    let circle = reply(&zone, &ask("ping.shop.svc.cluster.local.", RecordType::A));
    assert!((1..=MAX_ALIASES + 1).contains(&circle.answers.len()), "{circle}");
    let only = reply(&zone, &ask("same.shop.svc.cluster.local.", RecordType::CNAME));
    assert_eq!(only.answers.len(), 1);
}

fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        Just("db.shop.svc.cluster.local."),
        Just("_db._tcp.db.shop.svc.cluster.local."),
        Just("out.shop.svc.cluster.local."),
        Just("4.32.131.10.in-addr.arpa."),
        Just("example.com."),
    ];
    let changed = (
        name,
        any::<u16>(),
        any::<u16>(),
        proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        any::<usize>(),
    )
        .prop_map(|(name, kind, payload, changes, end)| {
            let mut packet = bytes(&with_edns(ask(name, kind.into()), payload));
            for (at, byte) in changes {
                let length = packet.len();
                packet[at % length] = byte;
            }
            let length = packet.len();
            packet.truncate(if end % 3 == 0 { end % length } else { length });
            packet
        });
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..600), changed]
}

proptest! {
    #[test]
    fn no_packet_does_harm_and_no_answer_is_longer_than_it_may_be(packet in any_packet(), turn in any::<usize>()) {
        let zone = cluster();
        for transport in [Transport::Udp, Transport::Tcp] {
            match decide(&zone, &packet, transport, turn) {
                Decision::Ignore => {}
                Decision::Reply(reply) => {
                    prop_assert!(reply.len() >= HEADER);
                    prop_assert!(reply.len() <= usize::from(MAX_PAYLOAD) || transport == Transport::Tcp);
                    prop_assert_eq!(&reply[..2], &packet[..2]);
                    prop_assert!(reply[2] & 0x80 != 0);
                    prop_assert!(Message::from_vec(&reply).is_ok());
                }
                Decision::Forward(forward) => {
                    prop_assert!(Message::from_vec(&forward.failed()).is_ok());
                    let _ = forward.answered(&packet);
                }
            }
        }
    }
}
