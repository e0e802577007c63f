//! A CSV file cut into fields (RFC 4180), by comma, semicolon or tab, whichever its first line has most of.

use super::CallsError;

/// One field with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The line it begins in, from 1.
    pub(super) line: usize,
    /// From 1.
    pub(super) column: usize,
    pub(super) text: String,
}

/// A file in fields: every row has as many as the header.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    file: &'a str,
    pub(super) header: Vec<Field>,
    pub(super) rows: Vec<Vec<Field>>,
}

impl<'a> Table<'a> {
    pub(super) fn cut(file: &'a str, text: &str) -> Result<Self, CallsError> {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let mut cutter = Cutter::new(file, separator(text));
        for c in text.chars() {
            cutter.take(c)?;
        }
        let mut rows = cutter.finish()?.into_iter();
        let Some(header) = rows.next() else {
            return Err(CallsError::File {
                file: file.to_owned(),
                problem: "it is empty; its first line should name the columns, such as time,model,tokens".to_owned(),
            });
        };
        let rows: Vec<Vec<Field>> = rows.collect();
        if let Some(odd) = rows.iter().find(|row| row.len() != header.len()) {
            let line = odd.first().map_or(0, |field| field.line);
            let problem = format!("it has {} fields and the header has {}", odd.len(), header.len());
            return Err(CallsError::Line { file: file.to_owned(), line, problem });
        }
        Ok(Self { file, header, rows })
    }

    pub(super) fn bad(&self, name: &str, field: &Field, problem: &str) -> CallsError {
        CallsError::Field {
            file: self.file.to_owned(),
            line: field.line,
            column: field.column,
            name: name.to_owned(),
            text: field.text.trim().chars().take(60).collect(),
            problem: problem.to_owned(),
        }
    }
}

fn separator(text: &str) -> char {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let count = |c: &char| first.matches(*c).count();
    // The comma where none is there: a file of one column.
    [';', '\t', ','].into_iter().max_by_key(count).unwrap_or(',')
}

struct Cutter<'a> {
    file: &'a str,
    separator: char,
    line: usize,
    rows: Vec<Vec<Field>>,
    row: Vec<Field>,
    field: String,
    /// Where the field began.
    began: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing of the field was seen.
    Start,
    Plain,
    Quoted,
    /// A quote within quotes: its end, or one half of a doubled one.
    Quote,
}

impl<'a> Cutter<'a> {
    fn new(file: &'a str, separator: char) -> Self {
        let (rows, row, field) = (Vec::new(), Vec::new(), String::new());
        Self { file, separator, line: 1, rows, row, field, began: 1, state: State::Start }
    }

    fn take(&mut self, c: char) -> Result<(), CallsError> {
        match (self.state, c) {
            (State::Quoted, '"') => self.state = State::Quote,
            (State::Quoted, _) => self.field.push(c),
            (State::Quote, '"') => {
                self.field.push('"');
                self.state = State::Quoted;
            }
            (_, '\n') => self.end_row(),
            (_, '\r') => {}
            (_, c) if c == self.separator => self.end_field(),
            (State::Start, '"') => (self.state, self.began) = (State::Quoted, self.line),
            (State::Start, c) => {
                (self.state, self.began) = (State::Plain, self.line);
                self.field.push(c);
            }
            (State::Plain, c) => self.field.push(c),
            (State::Quote, c) if c.is_whitespace() => {}
            (State::Quote, _) => return Err(self.bad("a quote ends and text follows; double quotes within quotes")),
        }
        if c == '\n' {
            self.line += 1;
        }
        Ok(())
    }

    fn end_field(&mut self) {
        let line = if self.state == State::Start { self.line } else { self.began };
        let text = std::mem::take(&mut self.field);
        self.row.push(Field { line, column: self.row.len() + 1, text });
        self.state = State::Start;
    }

    /// Lines with nothing in them are no rows.
    fn end_row(&mut self) {
        self.end_field();
        let row = std::mem::take(&mut self.row);
        let is_blank = row.len() == 1 && row.iter().all(|field| field.text.trim().is_empty());
        if !is_blank {
            self.rows.push(row);
        }
    }

    fn finish(mut self) -> Result<Vec<Vec<Field>>, CallsError> {
        if self.state == State::Quoted {
            self.line = self.began;
            return Err(self.bad("a quote begins here and never ends"));
        }
        self.end_row();
        Ok(self.rows)
    }

    fn bad(&self, problem: &str) -> CallsError {
        CallsError::Line { file: self.file.to_owned(), line: self.line, problem: problem.to_owned() }
    }
}
