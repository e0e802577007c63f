//! The servers' protocol (RESP2) over a blocking socket: enough to set servers up and to look into them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A line.
    Line(String),
    /// An error.
    Error(String),
    /// A number.
    Number(i64),
    /// Bytes; `None`: nothing there.
    Bytes(Option<Vec<u8>>),
    /// Several.
    List(Vec<Answer>),
}

impl Answer {
    /// As text, whatever it is.
    pub fn text(&self) -> String {
        match self {
            Self::Line(text) | Self::Error(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned(),
            Self::List(parts) => parts.iter().map(Self::text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// As a number.
    pub fn number(&self) -> i64 {
        self.text().parse().unwrap_or_else(|_| panic!("{self:?} is no number"))
    }

    /// Its parts.
    pub fn list(self) -> Vec<Self> {
        match self {
            Self::List(parts) => parts,
            other => panic!("{other:?} is no list"),
        }
    }
}

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects; `None`: nobody listens there (yet).
    pub fn connect(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self { stream: BufReader::new(stream) })
    }

    /// Runs a command.
    ///
    /// # Panics
    /// The connection ends.
    pub fn run<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Answer {
        self.try_run(arguments).unwrap_or_else(|error| panic!("a server for tests does not answer: {error}"))
    }

    /// Runs a command, unless the connection ends.
    ///
    /// # Errors
    /// It ends.
    pub fn try_run<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> std::io::Result<Answer> {
        let mut out = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            let bytes = argument.as_ref();
            out.extend(format!("${}\r\n", bytes.len()).bytes());
            out.extend(bytes);
            out.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&out)?;
        self.read()
    }

    fn read(&mut self) -> std::io::Result<Answer> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().map_err(|_| std::io::Error::other(format!("no answer: {line:?}")));
        Ok(match kind {
            "+" => Answer::Line(rest.to_owned()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Number(number()?),
            "$" | "*" if number()? < 0 => Answer::Bytes(None),
            "$" => {
                let mut bytes = vec![0; usize::try_from(number()?).unwrap_or(0) + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Answer::Bytes(Some(bytes))
            }
            "*" => {
                let count = number()?;
                Answer::List((0..count).map(|_| self.read()).collect::<Result<_, _>>()?)
            }
            _ => return Err(std::io::Error::other(format!("no answer: {line:?}"))),
        })
    }
}
