//! A page as steps: files to write and commands to run, in their order.

use std::process::Command;

use paceline_tests::root;

/// What a page says.
pub(super) struct Page {
    pub(super) steps: Vec<Step>,
}

/// A step of a page.
#[derive(Debug)]
pub(super) enum Step {
    /// A block of YAML whose first line is a comment with its name.
    File { name: String, text: String },
    /// A line of a block of shell, and how it may end.
    Command { line: String, expected: Vec<i32> },
}

impl Page {
    /// Reads a section of a page of this repository.
    pub(super) fn read(path: &str, heading: &str) -> Self {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let section = text.split_once(heading).unwrap_or_else(|| panic!("{path} has no {heading}")).1;
        let section = section.split("\n## ").next().unwrap();
        let mut steps = Vec::new();
        // Text and blocks take turns.
        for block in section.split("\n```").skip(1).step_by(2) {
            let (language, body) = block.split_once('\n').unwrap();
            match language {
                "yaml" => {
                    let name =
                        body.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a file begins with its name");
                    steps.push(Step::File { name: name.to_owned(), text: format!("{body}\n") });
                }
                "sh" => steps.extend(body.lines().filter(|line| !line.trim().is_empty()).map(command)),
                other => panic!("a block of {other} in {heading}"),
            }
        }
        Self { steps }
    }
}

fn command(line: &str) -> Step {
    let (line, expected) = match line.split_once("  # exit status ") {
        Some((line, statuses)) => (line, statuses.split(" or ").map(|status| status.parse().unwrap()).collect()),
        None => (line, vec![0]),
    };
    Step::Command { line: line.to_owned(), expected }
}

/// Runs a line as a person does, with the binary under test in the path and a service at an address of its own.
pub(super) fn run(line: &str, folder: &str, addr: &str) -> (i32, String) {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_paceline"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", binary.parent().unwrap().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder).env_clear().env("PATH", path).env("PACELINE_ADDR", addr);
    let output = shell.output().expect("there is a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}
