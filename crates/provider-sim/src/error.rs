//! What can be wrong with what a person asks of the mock provider.

use paceline_core::units::Span;

/// Every error of this crate; each says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A limit that cannot be read.
    #[error("limit `{text}`: {problem}; write METER=UNITS/WINDOW, such as requests=1200/min or tokens=1.5M/min")]
    BadLimit {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A length of time that cannot be read.
    #[error(
        "`{text}` is not a length of time: {problem}; write a number and a unit (ms, s, min, h, day), such as 200ms or 1.5s"
    )]
    BadSpan {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An amount that cannot be read.
    #[error(
        "`{text}` is not an amount: {problem}; write a positive number, with k or M if you like, such as 1200, 50k or 1.5M"
    )]
    BadAmount {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A percentage that cannot be read.
    #[error("`{text}` is not a percentage: {problem}; write such as 30% or 12.5%")]
    BadPercent {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An outage that cannot be read, or is none.
    #[error(
        "outage `{text}`: {problem}; write FROM+LENGTH, counted from the start, with =STATUS or =reset behind it if you like, such as 30s+30s=529"
    )]
    BadOutage {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A change of limits that cannot be read.
    #[error(
        "`{text}` is no change of limits; write AT=LIMIT or AT=PERCENT, counted from the start, such as 60s=requests=600/min or 60s=50%"
    )]
    BadChange {
        /// What was written.
        text: String,
    },
    /// A change of a limit that is not there.
    #[error(
        "the limit {text} for models `{models}` replaces none: there is no such limit at the start (same models, meter and window); state one, or correct the change"
    )]
    ChangesNothing {
        /// The new limit.
        text: String,
        /// Whose it would be.
        models: String,
    },
    /// Another consumer that nobody could be.
    #[error(
        "another consumer `{text}`: {problem}; write its share of the limits, with /TIME behind it for one that comes in bursts, such as 30% or 30%/5s"
    )]
    BadConsumer {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A word that is not among the choices.
    #[error("`{text}` is not a {what}; choose one of {choices}{hint}")]
    UnknownWord {
        /// What was written.
        text: String,
        /// What was to be chosen.
        what: &'static str,
        /// All of them.
        choices: String,
        /// ` (did you mean ...?)` or nothing.
        hint: String,
    },
    /// A status with which no call can be answered.
    #[error("status {status} cannot answer a call; choose one from 200 to 599, such as 429 or 503")]
    BadStatus {
        /// What was asked for.
        status: u16,
    },
    /// A header that cannot be sent.
    #[error("header `{text}`: {problem}; write NAME: VALUE, such as 'retry-after: 2'")]
    BadHeader {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Jitter larger than the latency itself.
    #[error(
        "latency jitter {jitter} is larger than the latency {latency}: some answers would come before their calls; lower it"
    )]
    JitterTooLarge {
        /// The usual latency.
        latency: Span,
        /// The jitter asked for.
        jitter: Span,
    },
    /// A call that no wait makes possible.
    #[error("call {index} costs {cost} {meter}, but at most {most} ever fit at once; lower its cost or raise the limit")]
    NeverFits {
        /// The call's position in the list, from 0.
        index: usize,
        /// The meter it does not fit.
        meter: String,
        /// What it costs there, in units.
        cost: u64,
        /// What that meter can hold, in units.
        most: u64,
    },
    /// A fleet of nobody.
    #[error("a fleet needs at least one worker")]
    NoWorkers,
}
