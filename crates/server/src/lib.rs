//! The gRPC and HTTP listeners over the coordinator: adapters, health, shutdown.
