//! The list holds together, and leaves out nothing that a worker may be told.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::v1::{AcquireRequest, ReportRequest, Target};
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

use super::super::event::Way;
use super::super::says;
use super::super::stage::Stage;
use super::*;

#[test]
fn names_are_unique_and_can_stand_in_a_lease() {
    let all = situations();
    let mut names: Vec<&str> = all.iter().map(|situation| situation.id).collect();
    assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    assert!(all.iter().all(|situation| !situation.asks.is_empty() && !situation.replies.is_empty()));
}

/// The messages and enumerations of the contract, by their full names.
#[derive(Default)]
struct Contract {
    messages: BTreeMap<String, DescriptorProto>,
    enumerations: BTreeMap<String, EnumDescriptorProto>,
}

/// Values of enumerations, by the enumeration's name and their own.
type Words = BTreeSet<(String, String)>;

impl Contract {
    fn new() -> Self {
        let mut contract = Self::default();
        for file in FileDescriptorSet::decode(paceline_proto::FILE_DESCRIPTOR_SET).unwrap().file {
            let package = format!(".{}", file.package());
            file.message_type.into_iter().for_each(|message| contract.take(&package, message));
            let named = file.enum_type.into_iter().map(|one| (format!("{package}.{}", one.name()), one));
            contract.enumerations.extend(named);
        }
        contract
    }

    fn take(&mut self, within: &str, message: DescriptorProto) {
        let name = format!("{within}.{}", message.name());
        message.nested_type.iter().for_each(|nested| self.take(&name, nested.clone()));
        let named = message.enum_type.iter().map(|one| (format!("{name}.{}", one.name()), one.clone()));
        self.enumerations.extend(named);
        self.messages.insert(name, message);
    }

    /// The enumerations that a message, or one within it, has a field of.
    fn within(&self, message: &str, seen: &mut BTreeSet<String>, found: &mut BTreeSet<String>) {
        if !seen.insert(message.to_owned()) {
            return;
        }
        for field in &self.messages[message].field {
            match field.r#type() {
                Type::Enum => drop(found.insert(field.type_name().to_owned())),
                Type::Message => self.within(field.type_name(), seen, found),
                _ => {}
            }
        }
    }

    /// The words that an encoded message says.
    fn said(&self, message: &str, mut bytes: &[u8], words: &mut Words) {
        while !bytes.is_empty() {
            let (tag, wire) = decode_key(&mut bytes).unwrap();
            let field =
                self.messages[message].field.iter().find(|field| field.number() == i32::try_from(tag).unwrap()).unwrap();
            match wire {
                WireType::Varint => {
                    let value = decode_varint(&mut bytes).unwrap();
                    self.say(field.type_name(), value, words);
                }
                WireType::LengthDelimited => {
                    let length = usize::try_from(decode_varint(&mut bytes).unwrap()).unwrap();
                    let (inner, rest) = bytes.split_at(length);
                    match field.r#type() {
                        Type::Message => self.said(field.type_name(), inner, words),
                        Type::Enum => panic!("packed: {}", field.name()),
                        _ => {}
                    }
                    bytes = rest;
                }
                WireType::SixtyFourBit => bytes = &bytes[8..],
                other => panic!("{other:?}"),
            }
        }
    }

    fn say(&self, enumeration: &str, value: u64, words: &mut Words) {
        let Some(one) = self.enumerations.get(enumeration) else { return };
        let known = one.value.iter().find(|known| u64::try_from(known.number()) == Ok(value));
        let name = known.map_or_else(|| format!("{value}"), |known| known.name().to_owned());
        words.insert((enumeration.to_owned(), name));
    }
}

/// All that a worker is told in a situation, by the words in it.
fn told(contract: &Contract, situation: Situation, words: &mut Words) {
    let (asks, reports, every_word) = (situation.asks.len(), situation.reports.len(), situation.has_every_word);
    let id = situation.id;
    let replies = situation.replies.clone();
    let (stage, _acts) = Stage::new(vec![situation]);
    let target = Target { model: id.to_owned(), ..Target::default() };
    let ask = AcquireRequest { target: Some(target), ..AcquireRequest::default() };
    for _ in 0..asks {
        let answering = stage.ask(Way::Unary, &ask).unwrap();
        if let Ok(answer) = says::to_ask(answering, &ask, every_word) {
            contract.said(".paceline.v1.AcquireResponse", &answer.encode_to_vec(), words);
        }
    }
    for seq in 0..=reports {
        let status = match replies.get(seq).or(replies.last()).unwrap() {
            Reply::Answer { status, .. } => u32::from(*status),
            Reply::Stream { .. } => 200,
        };
        let lease_id = format!("kit.{id}.1");
        let seq = u32::try_from(seq).unwrap() + 1;
        let report = ReportRequest { lease_id, seq, status, outcome: 1, r#final: true, ..ReportRequest::default() };
        let (_, _, said) = stage.report(Way::Unary, &report);
        if let Ok(answer) = says::to_report(said, &report, every_word) {
            contract.said(".paceline.v1.ReportResponse", &answer.encode_to_vec(), words);
        }
    }
}

/// A new value of the contract needs a situation in which a worker is told it.
#[test]
fn a_worker_is_told_every_word_that_it_may_be_told() {
    let contract = Contract::new();
    let (mut seen, mut enumerations) = (BTreeSet::new(), BTreeSet::new());
    for message in ["AcquireResponse", "ReportResponse", "ReleaseResponse", "SessionResponse"] {
        contract.within(&format!(".paceline.v1.{message}"), &mut seen, &mut enumerations);
    }
    let mut words = Words::new();
    for situation in situations() {
        told(&contract, situation, &mut words);
    }
    assert!(enumerations.len() >= 8, "{enumerations:?}");
    for name in &enumerations {
        // The first of each says that none applies, and is not written.
        for value in contract.enumerations[name].value.iter().filter(|value| value.number() != 0) {
            let word = (name.clone(), value.name().to_owned());
            assert!(words.contains(&word), "no situation says {}: add one in which a worker is told so", value.name());
        }
    }
    let newer = words.iter().filter(|(_, word)| *word == NEWER.to_string()).count();
    assert_eq!(newer, 5, "reasons, causes, kinds, resets and owners that only a newer service has: {words:?}");
}
