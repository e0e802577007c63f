//! Generated paceline.v1 messages and services, and their conversions to core types.
