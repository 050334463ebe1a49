//! Messages of other servers: what is read of them and changed in them, and that no bytes do harm.

use std::net::Ipv4Addr;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

/// An answer to the question for the address of a name.
pub(crate) fn answer_with(text: &str, ttl: u32) -> Vec<u8> {
    let mut message = answer(text);
    message.answers.push(Record::from_rdata(name(text), ttl, RData::A(A(Ipv4Addr::new(192, 0, 2, 7)))));
    message.to_vec().expect("bytes")
}

fn answer(text: &str) -> Message {
    let mut message = Message::new(7, MessageType::Response, OpCode::Query);
    message.queries.push(Query::query(name(text), RecordType::A));
    message
}

/// The question for the address of a name.
pub(crate) fn question_for(text: &str) -> Question {
    let message = answer(text).to_vec().expect("bytes");
    Question::new(question(&message).expect("a question"), true, false, None)
}

#[test]
fn a_question_for_another_server_is_one_that_everybody_understands() {
    let question = Question { edns: Some(true), unchecked: true, ..question_for("WWW.Example.com.") };
    let message = Message::from_vec(&question.message(513, 1232)).expect("a message");
    assert_eq!(message.metadata.id, 513);
    assert!(message.metadata.recursion_desired && message.metadata.checking_disabled);
    assert_eq!(message.queries, [Query::query(name("www.example.com."), RecordType::A)]);
    let edns = message.edns.expect("EDNS");
    assert_eq!((edns.max_payload(), edns.flags().dnssec_ok), (1232, true));
    let plain = Message::from_vec(&question_for("a.").message(1, 1232)).expect("a message");
    assert_eq!(plain.edns, None);
    assert!(!plain.metadata.checking_disabled);
}

#[test]
fn only_the_answer_to_the_question_is_taken() {
    let question = question_for("www.example.com.");
    let right = answer_with("WWW.example.com.", 60);
    assert!(question.is_answered_by(&right, 7));
    assert!(!question.is_answered_by(&right, 8), "another number");
    assert!(!question.is_answered_by(&answer_with("www.example.org.", 60), 7), "another name");
    let mut other = answer("www.example.com.");
    other.queries[0].set_query_type(RecordType::AAAA);
    assert!(!question.is_answered_by(&other.to_vec().expect("bytes"), 7), "another type");
    assert!(!question.is_answered_by(&question.message(7, 512), 7), "a question");
    assert!(!question.is_answered_by(&right[..20], 7), "half of it");
}

#[test]
fn an_answer_is_kept_as_long_as_its_shortest_record() {
    let seconds = |message: &Message| kept_for(&message.to_vec().expect("bytes")).map(|time| time.as_secs());
    let record = |ttl| Record::from_rdata(name("www.example.com."), ttl, RData::A(A(Ipv4Addr::LOCALHOST)));
    let alias = |ttl| Record::from_rdata(name("www.example.com."), ttl, RData::CNAME(CNAME(name("b."))));
    let soa = |ttl, minimum| {
        let soa = SOA::new(name("ns."), name("root."), 1, 2, 3, 4, minimum);
        Record::from_rdata(name("example.com."), ttl, RData::SOA(soa))
    };
    let mut message = answer("www.example.com.");
    assert_eq!(seconds(&message), None, "nothing, and nobody says for how long");
    message.authorities = vec![soa(20, 10)];
    assert_eq!(seconds(&message), Some(10));
    message.authorities = vec![soa(5, 10)];
    assert_eq!(seconds(&message), Some(5));
    message.metadata.response_code = ResponseCode::NXDomain;
    assert_eq!(seconds(&message), Some(5));
    message.metadata.response_code = ResponseCode::ServFail;
    assert_eq!(seconds(&message), None);
    let mut message = answer("www.example.com.");
    message.answers = vec![alias(12), record(3600)];
    assert_eq!(seconds(&message), Some(12));
    message.answers = vec![record(3600)];
    assert_eq!(seconds(&message), Some(30), "no longer than that");
    message.answers = vec![record(0)];
    assert_eq!(seconds(&message), None);
    message.answers = vec![record(20)];
    message.metadata.truncation = true;
    assert_eq!(seconds(&message), None);
}

#[test]
fn an_answer_goes_to_whoever_asked_with_his_number_and_his_spelling() {
    let kept = answer_with("www.example.com.", 20);
    let asked = answer("wWw.eXample.com.").to_vec().expect("bytes");
    let asked = question(&asked).expect("a question");
    let passed = Message::from_vec(&pass_on(&kept, 99, asked, 512, None)).expect("a message");
    assert_eq!(passed.metadata.id, 99);
    assert!(passed.queries[0].name().eq_case(&name("wWw.eXample.com.")));
    assert_eq!(passed.answers.len(), 1);
    let cut = Message::from_vec(&pass_on(&kept, 99, asked, 40, Some(false))).expect("a message");
    assert!(cut.metadata.truncation && cut.answers.is_empty() && cut.edns.is_some());
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let changed = (proptest::collection::vec((0..80_usize, any::<u8>()), 0..8), 0..90_usize).prop_map(
        |(changes, end)| {
            let mut message = answer_with("www.example.com.", 60);
            for (at, byte) in changes {
                let length = message.len();
                message[at % length] = byte;
            }
            message.truncate(end);
            message
        },
    );
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..600), changed]
}

proptest! {
    #[test]
    fn no_message_of_another_server_does_harm(mut bytes in any_bytes(), seconds in any::<u32>(), limit in 12..600_usize) {
        let _ = kept_for(&bytes);
        let asked = question(&bytes).map(<[u8]>::to_vec);
        if let Some(asked) = asked {
            let limit = limit.max(HEADER + asked.len() + OPT);
            let passed = pass_on(&bytes, 1, &asked, limit, Some(true));
            prop_assert!(passed.len() <= limit);
            let _ = Question::new(&asked, true, true, None).is_answered_by(&bytes, 7);
        }
        let length = bytes.len();
        age(&mut bytes, seconds);
        prop_assert_eq!(bytes.len(), length);
    }
}
