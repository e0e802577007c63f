//! Which scopes a selector touches.

/// Whether a glob (`*` any characters, `?` one) matches a whole name; an empty one matches everything.
pub(super) fn selects(glob: &str, name: &str) -> bool {
    if glob.is_empty() {
        return true;
    }
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at_glob, mut at_name) = (0, 0);
    // Where the last star stands, and up to where it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = name.get(at_name) {
        match glob.get(at_glob) {
            Some('*') => {
                star = Some((at_glob, at_name));
                at_glob += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => {
                at_glob += 1;
                at_name += 1;
            }
            _ => {
                let Some((star_at, eaten)) = star else { return false };
                star = Some((star_at, eaten + 1));
                at_glob = star_at + 1;
                at_name = eaten + 1;
            }
        }
    }
    glob.iter().skip(at_glob).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::selects;

    #[test]
    fn globs_select_whole_names() {
        for (glob, name, expected) in [
            ("", "openai", true),
            ("*", "", true),
            ("openai", "openai", true),
            ("open", "openai", false),
            ("*ai", "openai", true),
            ("o*n*i", "openai", true),
            ("o?enai", "openai", true),
            ("?", "", false),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("team-*", "team-ä", true),
        ] {
            assert_eq!(selects(glob, name), expected, "{glob} {name}");
        }
    }
}
