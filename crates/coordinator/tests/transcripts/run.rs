//! Plays the workers of a conversation and notes what they are answered.

use std::collections::BTreeMap;

use paceline_coordinator::api::{AcquireRequest, Answer, CallError, DEFAULT_HOLD, ReportRequest, RetryAsk, Target};
use paceline_coordinator::scope::{Reply, ReplyId};
use paceline_core::amounts::Amounts;
use paceline_core::plan::Class;
use paceline_core::report::Outcome;
use paceline_core::units::{FleetTime, Span};
use paceline_tests::transcript::{Between, Step, Transcript, Words};

use crate::check;
use crate::support::{World, report, settings};

/// Where a conversation went otherwise than written.
pub(crate) struct Mismatch {
    /// The line in the file.
    pub(crate) line: usize,
    /// Expected and got, in words.
    pub(crate) what: String,
}

/// An answer as it came.
pub(crate) struct Got {
    /// When, from the beginning.
    pub(crate) at: Span,
    /// The line of what was asked.
    pub(crate) asked_in: usize,
    /// What.
    pub(crate) reply: Reply,
    /// The lease the call had before.
    pub(crate) lease_before: Option<String>,
    /// From when on the delays of a grant count, from the beginning.
    pub(crate) counts_from: Span,
}

/// One call of one worker: what it carries from line to line.
#[derive(Default)]
struct Call {
    request: AcquireRequest,
    ticket: Option<Vec<u8>>,
    lease: Option<String>,
    /// Until when the slot can be used.
    use_by: FleetTime,
    seq: u32,
    /// When this attempt was first asked for.
    counts_from: FleetTime,
    /// What it waits for an answer to: the reply and the line.
    open: Vec<(ReplyId, usize)>,
    target: Target,
}

struct Player {
    world: World,
    start: FleetTime,
    calls: BTreeMap<String, Call>,
    got: BTreeMap<String, Vec<Got>>,
}

/// Runs a conversation; returns what differs.
pub(crate) fn run(transcript: &Transcript, seed: u64) -> Vec<Mismatch> {
    let world = World::new(settings(&transcript.config), seed);
    let start = world.now;
    let mut player = Player { world, start, calls: BTreeMap::new(), got: BTreeMap::new() };
    for step in transcript.steps.iter().filter(|step| !step.is_answer) {
        player.go_to(step.at.from_us);
        if let Err(error) = player.act(step) {
            let call = player.calls.entry(step.who.clone()).or_default();
            let got = Got {
                at: player.world.now - start,
                asked_in: step.line,
                reply: Reply::Answer(Err(error)),
                lease_before: call.lease.clone(),
                counts_from: Span::ZERO,
            };
            player.got.entry(step.who.clone()).or_default().push(got);
        }
        player.listen();
    }
    player.go_to(transcript.steps.iter().map(|step| step.at.to_us).max().unwrap_or(0) + check::SLACK_US);
    check::compare(&transcript.steps, player.got)
}

impl Player {
    /// Lets time pass, one wake-up after the other, listening at each.
    fn go_to(&mut self, at_us: u64) {
        self.world.run_until(self.start + Span::from_micros(i64::try_from(at_us).unwrap()));
        self.listen();
    }

    /// Gives the calls their answers.
    fn listen(&mut self) {
        for answered in std::mem::take(&mut self.world.answers) {
            let Some((who, call)) = self.calls.iter_mut().find(|(_, call)| call.open.iter().any(|(id, _)| *id == answered.id))
            else {
                panic!("an answer to nobody: {answered:?}");
            };
            let index = call.open.iter().position(|(id, _)| *id == answered.id).expect("just found");
            let (_, asked_in) = call.open.remove(index);
            let got = Got {
                at: answered.at - self.start,
                asked_in,
                lease_before: call.lease.clone(),
                counts_from: call.hear(&answered.reply, answered.at) - self.start,
                reply: answered.reply,
            };
            self.got.entry(who.clone()).or_default().push(got);
        }
    }

    /// What a worker does in one line.
    fn act(&mut self, step: &Step) -> Result<(), CallError> {
        let now = self.world.now;
        let call = self.calls.entry(step.who.clone()).or_default();
        let words = &step.words;
        let id = match words.verb.as_str() {
            "acquire" => {
                call.request = AcquireRequest { request_id: step.who.clone(), ..acquire(words) };
                call.target = call.request.target.clone();
                call.counts_from = now;
                call.ticket = None;
                self.world.ask_at(0, call.request.clone())?
            }
            "again" => {
                if now > call.use_by && call.lease.is_some() && call.ticket.is_none() {
                    call.counts_from = now; // the slot was missed: it is asked for anew
                }
                let hold = words.span("hold").unwrap_or(call.request.hold);
                self.world.ask_at(0, AcquireRequest { hold, ticket: call.ticket.clone(), ..call.request.clone() })?
            }
            "retry" => {
                call.next_attempt(now);
                let hold = words.span("hold").unwrap_or(call.request.hold);
                self.world.ask_at(0, AcquireRequest { hold, ..call.request.clone() })?
            }
            "renewed" => {
                let lease = call.lease.clone().unwrap_or_else(|| panic!("line {}: there is no lease", step.line));
                self.world.report_at(0, report(&lease, 0, Outcome::Running))?
            }
            "report" | "running" | "abandoned" => {
                let report = call.report(step);
                if report.retry.is_some() {
                    call.counts_from = now;
                }
                self.world.report_at(0, report)?
            }
            "release" => match (&call.ticket, &call.lease) {
                (Some(ticket), _) => self.world.release_ticket(0, ticket)?,
                (None, Some(lease)) => self.world.release_lease(0, lease)?,
                (None, None) => panic!("line {}: there is nothing to release", step.line),
            },
            "hangs-up" => {
                let (id, _) = call.open.pop().unwrap_or_else(|| panic!("line {}: nothing is held", step.line));
                let target = call.target.clone();
                self.world.leave(0, &target, id);
                return Ok(());
            }
            other => panic!("line {}: nobody can {other:?}", step.line),
        };
        call.open.push((id, step.line));
        Ok(())
    }
}

impl Call {
    /// Remembers what an answer tells; returns from when on the delays count.
    fn hear(&mut self, reply: &Reply, now: FleetTime) -> FleetTime {
        let answer = match reply {
            Reply::Answer(Ok(answer)) => answer,
            Reply::Report(Ok(report)) => match &report.next {
                Some(answer) => {
                    self.next_attempt(self.counts_from);
                    answer
                }
                None => return self.counts_from,
            },
            Reply::Released(true) => {
                self.ticket = None;
                return self.counts_from;
            }
            _ => return self.counts_from,
        };
        match answer {
            Answer::Granted(grant) => {
                self.lease = Some(grant.lease_id.clone());
                self.use_by = now + grant.wait + grant.use_within;
                self.ticket = None;
                self.seq = 0;
            }
            Answer::Queued(queued) => self.ticket = Some(queued.ticket.clone()),
            Answer::Denied(_) => self.ticket = None,
        }
        self.counts_from
    }

    /// From here on it is about the next attempt.
    fn next_attempt(&mut self, now: FleetTime) {
        self.request.attempt += 1;
        self.request.previous_lease_id = self.lease.clone();
        self.ticket = None;
        self.counts_from = now;
    }

    fn report(&mut self, step: &Step) -> ReportRequest {
        self.seq += 1;
        let words = &step.words;
        let lease = self.lease.clone().unwrap_or_else(|| panic!("line {}: there is no lease", step.line));
        if words.verb == "running" {
            return report(&lease, self.seq, Outcome::Running);
        }
        if words.verb == "abandoned" {
            return ReportRequest { usage: costs(words), ..report(&lease, self.seq, Outcome::Abandoned) };
        }
        let status = words.operands.first().and_then(|status| status.parse().ok());
        let status: u32 = status.unwrap_or_else(|| panic!("line {}: a status comes first", step.line));
        let header = |line: &String| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("line {}: not a header: {line}", step.line));
            (name.trim().to_owned(), value.trim().to_owned())
        };
        ReportRequest {
            status,
            headers: step.more.iter().map(header).collect(),
            usage: costs(words),
            is_final: words.has("final"),
            retry: words.has("retry").then(RetryAsk::default),
            ..report(&lease, self.seq, Outcome::Response)
        }
    }
}

fn acquire(words: &Words) -> AcquireRequest {
    let target: Vec<&str> = words.operands.first().map(String::as_str).unwrap_or_default().split('/').collect();
    let [provider, account, model] = target.as_slice() else { panic!("not PROVIDER/ACCOUNT/MODEL: {words:?}") };
    AcquireRequest {
        attempt: 1,
        target: Target { provider: (*provider).into(), account: (*account).into(), model: (*model).into() },
        cost: costs(words),
        cost_estimated: words.has("estimated"),
        max_wait: words.span("max_wait"),
        deadline: words.span("deadline"),
        hold: words.span("hold").unwrap_or(DEFAULT_HOLD),
        run_time: words.span("run_time"),
        class: match words.field("priority") {
            None | Some("normal") => Class::Normal,
            Some("interactive") => Class::Interactive,
            Some("batch") => Class::Batch,
            Some(other) => panic!("no priority: {other}"),
        },
        tenant: words.field("tenant").unwrap_or_default().to_owned(),
        ..AcquireRequest::default()
    }
}

/// The fields that are meters.
fn costs(words: &Words) -> Amounts {
    let mut costs = Amounts::default();
    for (name, value) in &words.fields {
        match name.as_str() {
            "priority" | "tenant" | "deadline" | "max_wait" | "hold" | "run_time" => {}
            meter => costs.set(meter, value.parse().unwrap_or_else(|_| panic!("not a number of {meter}: {value}"))),
        }
    }
    costs
}

/// Short ways to read a line's words.
pub(crate) trait Read {
    /// A field's text.
    fn field(&self, name: &str) -> Option<&str>;
    /// Whether a word without value is there.
    fn has(&self, operand: &str) -> bool;
    /// A field that is one length of time.
    fn span(&self, name: &str) -> Option<Span>;
}

impl Read for Words {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, operand: &str) -> bool {
        self.operands.iter().any(|word| word == operand)
    }

    fn span(&self, name: &str) -> Option<Span> {
        let text = self.field(name)?;
        let read = Between::parse(text).unwrap_or_else(|| panic!("not a time: {text}"));
        Some(Span::from_micros(i64::try_from(read.from_us).unwrap()))
    }
}
