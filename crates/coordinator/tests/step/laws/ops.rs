//! What happens in a random history.

use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use proptest::prelude::*;

/// So many calls are about.
pub(crate) const CALLS: usize = 12;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Ask { call: usize, replica: usize, tokens: u64, hold_ms: i64, class: Class },
    Again { call: usize, replica: usize, hold_ms: i64 },
    Report { call: usize, replica: usize, what: What, retry: bool },
    Release { call: usize, replica: usize },
    Leave { call: usize },
    Pass { millis: i64 },
    Refuse { commits: u32 },
    Reload { replica: usize },
    Restart { replica: usize },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Running,
    Done { used_percent: u64 },
    RetryAfter { secs: u32 },
    Bare,
    Lost(Outcome),
    Repeated,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let class = prop_oneof![1 => Just(Class::Interactive), 3 => Just(Class::Normal), 1 => Just(Class::Batch)];
    let what = prop_oneof![
        2 => Just(What::Running),
        4 => (0_u64..=100).prop_map(|used_percent| What::Done { used_percent }),
        1 => (1_u32..20).prop_map(|secs| What::RetryAfter { secs }),
        1 => Just(What::Bare),
        1 => Just(What::Lost(Outcome::Timeout)),
        1 => Just(What::Lost(Outcome::ConnectionFailed)),
        1 => Just(What::Lost(Outcome::Abandoned)),
        1 => Just(What::Repeated),
    ];
    prop_oneof![
        8 => (0..CALLS, 0..2_usize, 1_u64..2_000, 0_i64..3_000, class)
            .prop_map(|(call, replica, tokens, hold_ms, class)| Op::Ask { call, replica, tokens, hold_ms, class }),
        6 => (0..CALLS, 0..2_usize, 0_i64..30_000).prop_map(|(call, replica, hold_ms)| Op::Again { call, replica, hold_ms }),
        6 => (0..CALLS, 0..2_usize, what, any::<bool>())
            .prop_map(|(call, replica, what, retry)| Op::Report { call, replica, what, retry }),
        2 => (0..CALLS, 0..2_usize).prop_map(|(call, replica)| Op::Release { call, replica }),
        1 => (0..CALLS).prop_map(|call| Op::Leave { call }),
        8 => prop_oneof![0_i64..50, 0_i64..3_000, 0_i64..30_000].prop_map(|millis| Op::Pass { millis }),
        2 => (1_u32..4).prop_map(|commits| Op::Refuse { commits }),
        1 => (0..2_usize).prop_map(|replica| Op::Reload { replica }),
        1 => (0..2_usize).prop_map(|replica| Op::Restart { replica }),
    ]
}
