//! The contract: generated `paceline.v1` messages and services ([`v1`]), and what turns them into core types ([`convert`]).
//!
//! The source is `proto/paceline/v1`; its comments are the documentation here, in reflection and in `docs/reference/grpc.md`.

pub mod convert;
pub mod history;

/// Package `paceline.v1`: messages, enums, clients (`rate_limiter_client`, `admin_client`) and server traits
/// (`rate_limiter_server`, `admin_server`).
#[allow(missing_docs, unreachable_pub, clippy::all)] // generated; the comments come from the proto files
pub mod v1 {
    tonic::include_proto!("paceline.v1");
}

/// All files of the contract and what they import, with their comments: for the reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/paceline.bin"));
