//! `docs/reference/grpc.md` is made from the comments of the proto files: this compares it, and writes it with `UPDATE=1`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::Path;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, ServiceDescriptorProto,
};

const HEAD: &str = "# The gRPC contract

Package `paceline.v1`, generated from the comments of `proto/paceline/v1`; do not edit this page
(`UPDATE=1 cargo test -p paceline-proto --test reference` writes it). How to use it is told in [workers](../workers.md).

Lengths of time are `google.protobuf.Duration`, from the moment the message is received unless the field says otherwise: 0 to
31 days, else INVALID_ARGUMENT. A field marked *optional* tells absent from zero.
";

// The numbers of a path into a file, as in google/protobuf/descriptor.proto.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
/// Fields of a message, methods of a service, values of an enum: all are field 2 of their parent.
const MEMBERS: i32 = 2;

#[test]
fn the_reference_page_is_up_to_date() {
    let page = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/grpc.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page).expect("the page can be written");
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let first = written.lines().zip(page.lines()).position(|(is, should)| is != should);
    assert!(
        written == page,
        "docs/reference/grpc.md differs from the proto files (line {}): UPDATE=1 cargo test -p paceline-proto --test reference",
        first.unwrap_or_else(|| written.lines().count().min(page.lines().count())) + 1
    );
}

#[test]
fn everything_has_a_comment_and_nothing_else_is_imported() {
    for file in ours() {
        for import in &file.dependency {
            let is_allowed =
                ["google/protobuf/", "google/rpc/status.proto", "paceline/v1/"].iter().any(|ours| import.starts_with(ours));
            assert!(is_allowed, "{} imports {import}", file.name());
        }
        let missing = paths(&file).into_iter().filter(|(_, path)| comment(&file, path).is_empty());
        let missing: Vec<String> = missing.map(|(name, _)| name).collect();
        assert!(missing.is_empty(), "no comment in {}: {missing:?}", file.name());
        for message in &file.message_type {
            let nested = message.nested_type.iter().filter(|nested| !is_map_entry(nested)).count() + message.enum_type.len();
            assert_eq!(nested, 0, "{}: messages and enums are top level", message.name());
        }
    }
}

/// The files of the contract, in the order a reader wants them.
fn ours() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(paceline_proto::FILE_DESCRIPTOR_SET).expect("the build wrote a descriptor set");
    let mut files: Vec<_> = set.file.into_iter().filter(|file| file.package() == "paceline.v1").collect();
    files.sort_by_key(|file| (file.service.is_empty(), std::cmp::Reverse(file.name().to_owned())));
    assert_eq!(files.len(), 3, "common, rate_limiter, admin");
    files
}

/// Name and path of everything in a file that a reader may look up.
fn paths(file: &FileDescriptorProto) -> Vec<(String, Vec<i32>)> {
    let mut found = Vec::new();
    let mut add = |kind: i32, at: usize, name: &str, members: Vec<&str>| {
        found.push((name.to_owned(), vec![kind, index(at)]));
        let members = members.into_iter().enumerate();
        found.extend(members.map(|(i, member)| (format!("{name}.{member}"), vec![kind, index(at), MEMBERS, index(i)])));
    };
    for (at, message) in file.message_type.iter().enumerate() {
        add(MESSAGES, at, message.name(), message.field.iter().map(|field| field.name()).collect());
    }
    for (at, one) in file.enum_type.iter().enumerate() {
        add(ENUMS, at, one.name(), one.value.iter().map(|value| value.name()).collect());
    }
    for (at, service) in file.service.iter().enumerate() {
        add(SERVICES, at, service.name(), service.method.iter().map(|method| method.name()).collect());
    }
    found
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for file in ours() {
        for (at, service) in file.service.iter().enumerate() {
            write_service(&mut page, &file, at, service);
        }
        if file.service.is_empty() {
            page.push_str("\n## Shared by both\n");
        }
        for (at, message) in file.message_type.iter().enumerate() {
            write_message(&mut page, &file, at, message);
        }
        for (at, one) in file.enum_type.iter().enumerate() {
            write_enum(&mut page, &file, at, one);
        }
    }
    page
}

fn write_service(page: &mut String, file: &FileDescriptorProto, at: usize, service: &ServiceDescriptorProto) {
    let path = [SERVICES, index(at)];
    write!(page, "\n## {}\n\n{}\n", service.name(), comment(file, &path)).unwrap();
    for (i, method) in service.method.iter().enumerate() {
        let stream = |is_stream: bool| if is_stream { "stream of " } else { "" };
        let request = format!("{}{}", stream(method.client_streaming()), link(method.input_type()));
        let response = format!("{}{}", stream(method.server_streaming()), link(method.output_type()));
        let says = comment(file, &[path[0], path[1], MEMBERS, index(i)]);
        write!(page, "\n### rpc {}\n\n{request} -> {response}\n\n{says}\n", method.name()).unwrap();
    }
}

fn write_message(page: &mut String, file: &FileDescriptorProto, at: usize, message: &DescriptorProto) {
    let path = [MESSAGES, index(at)];
    write!(page, "\n### {}\n\n{}\n", message.name(), comment(file, &path)).unwrap();
    if message.field.is_empty() {
        return;
    }
    page.push_str("\n| field | no. | type | meaning |\n| --- | --- | --- | --- |\n");
    for (i, field) in message.field.iter().enumerate() {
        let says = cell(&comment(file, &[path[0], path[1], MEMBERS, index(i)]));
        writeln!(page, "| {} | {} | {} | {says} |", field.name(), field.number(), type_of(message, field)).unwrap();
    }
}

fn write_enum(page: &mut String, file: &FileDescriptorProto, at: usize, one: &EnumDescriptorProto) {
    let path = [ENUMS, index(at)];
    write!(page, "\n### {}\n\n{}\n\n| value | no. | meaning |\n| --- | --- | --- |\n", one.name(), comment(file, &path))
        .unwrap();
    for (i, value) in one.value.iter().enumerate() {
        let says = cell(&comment(file, &[path[0], path[1], MEMBERS, index(i)]));
        writeln!(page, "| {} | {} | {says} |", value.name(), value.number()).unwrap();
    }
}

/// A field's type as a reader says it, linked when it is on this page.
fn type_of(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let entry = message.nested_type.iter().find(|nested| is_map_entry(nested) && field.type_name().ends_with(nested.name()));
    if let Some([key, value]) = entry.map(|entry| entry.field.as_slice()) {
        return format!("`map<{}, {}>`", type_of(message, key), type_of(message, value));
    }
    let name = match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name()),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    let oneof = field.oneof_index.filter(|_| !field.proto3_optional()).and_then(|i| message.oneof_decl.get(i as usize));
    match (field.label(), oneof) {
        (Label::Repeated, _) => format!("repeated {name}"),
        (_, Some(oneof)) => format!("{name}, one of `{}`", oneof.name()),
        _ if field.proto3_optional() => format!("optional {name}"),
        _ => name,
    }
}

fn link(type_name: &str) -> String {
    match type_name.strip_prefix(".paceline.v1.") {
        Some(name) => format!("[{name}](#{})", name.to_lowercase()),
        None if type_name.starts_with(".google.rpc.") => type_name.trim_start_matches('.').to_owned(),
        None => type_name.rsplit('.').next().unwrap_or_default().to_owned(),
    }
}

/// The comment before a declaration, without the marks; a blank line parts paragraphs.
fn comment(file: &FileDescriptorProto, path: &[i32]) -> String {
    let locations = file.source_code_info.as_ref().map_or(&[][..], |info| &info.location);
    let found = locations.iter().find(|location| location.path == path);
    let text = found.map_or("", |location| location.leading_comments());
    text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// As one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

fn index(at: usize) -> i32 {
    i32::try_from(at).expect("a file has few declarations")
}
