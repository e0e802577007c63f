//! What was released stays: everything in `released/v1.txt` is in the contract, unchanged. New things may come.
//!
//! Each line of that file is one thing that programs out there rely on: a field with its number, type, label and oneof, a value
//! of an enum, an RPC. At a release the file is renewed: `RELEASE=1 cargo test -p paceline-proto --test released`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

const FILE: &str = "tests/released/v1.txt";

#[test]
fn what_was_released_is_unchanged() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let now = lines(&contract());
    let released = std::fs::read_to_string(&path).unwrap_or_default();
    let broken = missing(&released, &now);
    assert!(
        broken.is_empty(),
        "released programs rely on what is no more there; leave it, and add something new beside it:\n{}\n",
        broken.join("\n")
    );
    if std::env::var_os("RELEASE").is_some() {
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text).expect("the file can be written");
    }
    assert!(released.lines().count() > 200, "{FILE} is missing: RELEASE=1 cargo test -p paceline-proto --test released");
}

#[test]
fn every_breaking_change_is_noticed_and_no_other() {
    let released: String = lines(&contract()).iter().map(|line| format!("{line}\n")).collect();
    let breaks = |change: &dyn Fn(&mut FileDescriptorProto)| {
        let mut changed = contract();
        let file = changed.iter_mut().find(|file| file.name().ends_with("rate_limiter.proto")).expect("it is there");
        change(file);
        missing(&released, &lines(&changed))
    };
    let field = |file: &mut FileDescriptorProto, change: &dyn Fn(&mut FieldDescriptorProto)| {
        let message = file.message_type.iter_mut().find(|message| message.name() == "Grant").expect("it is there");
        change(message.field.iter_mut().find(|field| field.name() == "lease_id").expect("it is there"));
    };
    let expected = ["Grant.lease_id = 1: string"];
    assert_eq!(breaks(&|file| field(file, &|field| field.number = Some(77))), expected, "renumbered");
    assert_eq!(breaks(&|file| field(file, &|field| field.name = Some("lease".into()))), expected, "renamed");
    assert_eq!(breaks(&|file| field(file, &|field| field.set_type(Type::Bytes))), expected, "another type");
    assert_eq!(breaks(&|file| field(file, &|field| field.set_label(Label::Repeated))), expected, "another label");
    assert_eq!(breaks(&|file| field(file, &|field| field.proto3_optional = Some(true))), expected, "another presence");
    let gone = breaks(&|file| file.message_type.retain(|message| message.name() != "Cancel"));
    assert_eq!(gone, ["message Cancel"]);
    let methods = |file: &mut FileDescriptorProto, name: &str| {
        let method = file.service.iter_mut().flat_map(|service| service.method.iter_mut()).find(|method| method.name() == name);
        method.expect("it is there").server_streaming = Some(name != "Session");
    };
    let expected = ["rpc RateLimiter.Acquire(.paceline.v1.AcquireRequest) -> .paceline.v1.AcquireResponse"];
    assert_eq!(breaks(&|file| methods(file, "Acquire")), expected, "a stream");
    assert_eq!(breaks(&|file| methods(file, "Session")).len(), 1, "no stream any more");
    assert_eq!(breaks(&|file| file.service.clear()).len(), 6, "all calls are gone");
    assert_eq!(breaks(&|file| file.package = Some("paceline.v2".into())).len(), 0, "names are compared, not files");
    let value = |file: &mut FileDescriptorProto| {
        let value =
            file.enum_type.iter_mut().flat_map(|one| one.value.iter_mut()).find(|value| value.name() == "REASON_PAUSED");
        value.expect("it is there").number = Some(70);
    };
    assert_eq!(breaks(&value), ["Reason.REASON_PAUSED = 10"]);
    // Something new breaks nothing.
    let new = |file: &mut FileDescriptorProto| {
        let message = file.message_type.iter_mut().find(|message| message.name() == "Grant").expect("it is there");
        let mut field = message.field.first().cloned().expect("it has fields");
        (field.name, field.number) = (Some("hint".into()), Some(99));
        message.field.push(field);
        let more = DescriptorProto { name: Some("Hint".into()), ..DescriptorProto::default() };
        file.message_type.push(more);
    };
    assert!(breaks(&new).is_empty());
}

/// The files of the contract.
fn contract() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(paceline_proto::FILE_DESCRIPTOR_SET).expect("the build wrote a descriptor set");
    set.file.into_iter().filter(|file| file.package() == "paceline.v1").collect()
}

/// Released lines that the contract does not have any more.
fn missing<'a>(released: &'a str, now: &BTreeSet<String>) -> Vec<&'a str> {
    released.lines().filter(|line| !now.contains(*line)).collect()
}

/// One line for each thing that programs rely on.
fn lines(files: &[FileDescriptorProto]) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for file in files {
        for message in &file.message_type {
            add_message(&mut lines, "", message);
        }
        for one in &file.enum_type {
            let values = one.value.iter().map(|value| format!("{}.{} = {}", one.name(), value.name(), value.number()));
            lines.extend(values);
        }
        for service in &file.service {
            lines.extend(service.method.iter().map(|method| {
                let side = |is_stream: bool, name: &str| format!("{}{name}", if is_stream { "stream " } else { "" });
                let (input, output) = (
                    side(method.client_streaming(), method.input_type()),
                    side(method.server_streaming(), method.output_type()),
                );
                format!("rpc {}.{}({input}) -> {output}", service.name(), method.name())
            }));
        }
    }
    lines
}

/// A message, and the entries of its maps.
fn add_message(lines: &mut BTreeSet<String>, within: &str, message: &DescriptorProto) {
    let name = format!("{within}{}", message.name());
    lines.insert(format!("message {name}"));
    for field in &message.field {
        let oneof = field.oneof_index.filter(|_| !field.proto3_optional()).and_then(|index| {
            let oneof = message.oneof_decl.get(usize::try_from(index).ok()?)?;
            Some(format!(", in {}", oneof.name()))
        });
        let kind = match field.r#type() {
            Type::Message | Type::Enum => field.type_name().to_owned(),
            scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
        };
        let label = match field.label() {
            Label::Repeated => "repeated ",
            _ if field.proto3_optional() => "optional ",
            _ => "",
        };
        lines.insert(format!("{name}.{} = {}: {label}{kind}{}", field.name(), field.number(), oneof.unwrap_or_default()));
    }
    for nested in &message.nested_type {
        add_message(lines, &format!("{name}."), nested);
    }
}
