//! A mock provider: meters like the real ones, answers in each dialect, over HTTP and in virtual time.
