//! `--record`: what became of each call, one JSON object a line, for `paceline simulate --trace`.
//!
//! A thread of its own writes, so that no caller ever waits for a disk: what it cannot keep up with is left out and counted in the
//! log. The file ends at a limit; the service goes on without it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use paceline_coordinator::trace::{Heading, Line, Trace, Traced};

use crate::error::ServeError;

/// How much is kept unless told otherwise, in bytes: about three million calls.
pub const DEFAULT_LIMIT: u64 = 1 << 30;
/// How many attempts may wait for the disk.
const AHEAD: usize = 65_536;
/// What is written reaches the file after this long at the latest.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// Where to record, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The file; what it holds already is kept.
    pub file: PathBuf,
    /// It is never longer than this, in bytes.
    pub limit: u64,
}

/// A recording that goes on.
pub(crate) struct Recording {
    sender: SyncSender<Told>,
    lost: Arc<AtomicU64>,
}

/// Ends a recording.
pub(crate) struct Finish {
    sender: SyncSender<Told>,
    thread: JoinHandle<()>,
}

enum Told {
    Ended(Box<Traced>),
    Finish,
}

impl Recording {
    /// Opens the file and starts to write.
    ///
    /// # Errors
    /// It cannot be written, or holds something else.
    pub(crate) fn start(record: &Record) -> Result<(Self, Finish), ServeError> {
        let failed = |problem: String| ServeError::Record { file: record.file.display().to_string(), problem };
        let (file, length) = open(&record.file).map_err(|error| failed(error.to_string()))?;
        let (sender, receiver) = sync_channel(AHEAD);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer { file: BufWriter::new(file), length, record: record.clone(), lost: lost.clone(), is_full: false };
        let named = std::thread::Builder::new().name("paceline-record".to_owned());
        let thread = named.spawn(move || writer.run(&receiver)).map_err(|error| failed(error.to_string()))?;
        tracing::info!(
            file = %record.file.display(),
            "recording what becomes of each call: names of models, accounts and tenants, costs, times; no content"
        );
        Ok((Self { sender: sender.clone(), lost }, Finish { sender, thread }))
    }
}

impl Trace for Recording {
    fn ended(&self, traced: Traced) {
        // Full or gone: the call must not wait for that.
        if self.sender.try_send(Told::Ended(Box::new(traced))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Finish {
    /// Writes what is still to be written. Blocks until it is.
    pub(crate) fn finish(self) {
        // A thread that is gone has nothing left to write.
        let _ = self.sender.send(Told::Finish);
        let _ = self.thread.join();
    }
}

/// Opens a recording to go on with, behind a heading of its own; returns its length too. A line that was cut off by a crash is
/// ended first.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    // Names of tenants and accounts are nobody else's business.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let is_empty = file.metadata()?.len() == 0;
    if !is_empty {
        let mut begin = [0; 18];
        let read = file.read(&mut begin)?;
        if !begin.get(..read).is_some_and(|begin| begin.starts_with(br#"{"paceline_trace":"#)) {
            let problem = "it exists and is no recording; name another file, or move that one away";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    writeln!(file, "{}", serde_json::to_string(&Heading::OWN)?)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

struct Writer {
    file: BufWriter<File>,
    length: u64,
    record: Record,
    lost: Arc<AtomicU64>,
    is_full: bool,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Told>) {
        let ended = self.write_all(receiver).and_then(|()| self.file.flush());
        if let Err(error) = ended {
            tracing::error!(file = %self.record.file.display(), %error, "recording stopped; the service goes on without it");
        }
    }

    fn write_all(&mut self, receiver: &Receiver<Told>) -> io::Result<()> {
        loop {
            match receiver.recv_timeout(FLUSH_AFTER) {
                Ok(Told::Ended(traced)) => self.write(*traced)?,
                Ok(Told::Finish) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.file.flush()?,
            }
            self.tell_of_lost();
            if self.is_full {
                return Ok(());
            }
        }
    }

    fn write(&mut self, traced: Traced) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line::from(traced))?;
        line.push(b'\n');
        let length = self.length.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        if length > self.record.limit {
            self.is_full = true;
            tracing::warn!(
                file = %self.record.file.display(),
                limit_mib = self.record.limit >> 20,
                "recording stopped: the file is as long as it may get (--record-limit); restart with another file to go on"
            );
            return Ok(());
        }
        self.length = length;
        self.file.write_all(&line)
    }

    fn tell_of_lost(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(calls = lost, "the disk is too slow for the recording: these calls are missing in it");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::collections::BTreeMap;

    use paceline_coordinator::api::Target;
    use paceline_coordinator::trace::Ended;
    use paceline_core::denial::Reason;
    use paceline_core::plan::Class;
    use paceline_core::units::{FleetTime, Span};

    use super::*;

    fn denied(nth: u32) -> Traced {
        Traced {
            call: u64::from(nth),
            attempt: 1,
            asked_at: FleetTime::from_secs(i64::from(nth)),
            target: Target::default(),
            class: Class::Normal,
            tenant: "default".to_owned(),
            stated: BTreeMap::new(),
            used: BTreeMap::new(),
            waited: Span::ZERO,
            took: None,
            ended: Ended::Denied(Reason::Deadline),
        }
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("paceline-record-{}-{name}.jsonl", std::process::id()))
    }

    fn record(file: &Path, limit: u64, calls: u32) {
        let (recording, finish) = Recording::start(&Record { file: file.to_owned(), limit }).unwrap();
        (0..calls).for_each(|nth| recording.ended(denied(nth)));
        finish.finish();
    }

    #[test]
    fn a_recording_goes_on_where_a_crash_cut_it_off() {
        let file = path("goes-on");
        record(&file, DEFAULT_LIMIT, 3);
        let whole = std::fs::read_to_string(&file).unwrap();
        assert_eq!(whole.lines().count(), 4, "{whole}");
        std::fs::write(&file, &whole[..whole.len() - 20]).unwrap();
        record(&file, DEFAULT_LIMIT, 1);
        let whole = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let headings = whole.lines().filter(|line| *line == r#"{"paceline_trace":1}"#).count();
        assert!(headings == 2 && whole.lines().count() == 6 && whole.ends_with('\n'), "{whole}");
    }

    #[test]
    fn it_stops_at_its_limit() {
        let file = path("limit");
        record(&file, 1_000, 50);
        let length = std::fs::metadata(&file).unwrap().len();
        let lines = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(length <= 1_000 && length > 500, "{length}");
        assert!(lines.lines().all(|line| line.ends_with('}')), "{lines}");
    }

    #[test]
    fn another_file_is_not_overwritten() {
        let file = path("other");
        std::fs::write(&file, "precious\n").unwrap();
        let Err(error) = Recording::start(&Record { file: file.clone(), limit: DEFAULT_LIMIT }) else {
            panic!("it is no recording")
        };
        assert!(error.to_string().contains("is no recording; name another file"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious\n");
        std::fs::remove_file(&file).unwrap();
    }
}
