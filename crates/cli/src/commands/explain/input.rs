//! What people paste: the output of `curl -si`, of `curl -sv`, or just the head of an answer.

/// A pasted answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pasted {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

impl Pasted {
    /// Takes the last head of the text: before it may be interim answers, a proxy's, or redirections that were followed.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let received;
        let mut rest: &[u8] = match trim_start(bytes) {
            verbose if verbose.starts_with(b"* ") || verbose.starts_with(b"< ") || verbose.starts_with(b"> ") => {
                received = from_verbose(verbose);
                &received
            }
            plain => plain,
        };
        let mut last = None;
        while rest.starts_with(b"HTTP/") {
            let (head, after) = one_head(rest)?;
            last = Some(head);
            rest = after;
        }
        match last {
            Some((status, headers)) => Ok(Self { status, headers, body: rest.to_vec() }),
            None if rest.is_empty() => Err("there is nothing to explain: the input is empty".to_owned()),
            None => Err("the input does not start with a status line".to_owned()),
        }
    }
}

type Head = (u16, Vec<(String, Vec<u8>)>);

/// A status line and headers up to the empty line or the end.
fn one_head(text: &[u8]) -> Result<(Head, &[u8]), String> {
    let (status_line, mut rest) = line(text);
    let status = String::from_utf8_lossy(status_line);
    let code = status.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok());
    let code = code.filter(|code| (100..1000).contains(code)).ok_or_else(|| {
        format!("`{}` is no status line", status.chars().take(60).filter(|c| !c.is_control()).collect::<String>())
    })?;
    let mut headers: Vec<(String, Vec<u8>)> = Vec::new();
    while !rest.is_empty() {
        let (header, after) = line(rest);
        rest = after;
        if header.is_empty() {
            break;
        }
        match (header.first(), headers.last_mut()) {
            // A folded line belongs to the one before (RFC 9112, section 5.2).
            (Some(b' ' | b'\t'), Some((_, value))) => value.extend_from_slice(header),
            _ => headers.extend(name_and_value(header)),
        }
    }
    Ok(((code, headers), rest))
}

/// A line without a colon is not a header and is left out.
fn name_and_value(header: &[u8]) -> Option<(String, Vec<u8>)> {
    // HTTP/2's pseudo-headers and event streams' names begin with a colon.
    let colon = header.iter().skip(1).position(|byte| *byte == b':')? + 1;
    let (name, value) = header.split_at_checked(colon)?;
    Some((String::from_utf8_lossy(name).trim().to_owned(), value.get(1..)?.trim_ascii().to_vec()))
}

/// The received lines of `curl -v`, without their mark; what it tells of itself and of the request is left out.
fn from_verbose(text: &[u8]) -> Vec<u8> {
    let mut received = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (one, after) = line(rest);
        rest = after;
        let content = match one {
            b"<" => Some(&b""[..]),
            _ if one.starts_with(b"* ") || one.starts_with(b"> ") || one.starts_with(b"{ ") || one.starts_with(b"} ") => None,
            b">" | b"*" => None,
            _ => Some(one.strip_prefix(b"< ").unwrap_or(one)),
        };
        if let Some(content) = content {
            received.extend_from_slice(content);
            received.push(b'\n');
        }
    }
    received
}

/// The first line without its end, and what follows.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let (line, rest) = text.split_at_checked(end).unwrap_or((text, b""));
    (line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..).unwrap_or(b""))
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start()
}
