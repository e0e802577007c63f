//! A provider's answer in, a Signal out: header dialects as data, formats as code.
