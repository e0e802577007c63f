//! Whom a control touches.

use std::fmt;
use std::sync::Arc;

use crate::plan::Class;

/// Selects calls: each field a glob (`*` any characters, `?` one) over a whole name; an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whom {
    /// Over providers, in lower case.
    pub provider: Arc<str>,
    /// Over accounts.
    pub account: Arc<str>,
    /// Over models.
    pub model: Arc<str>,
    /// Over tenants.
    pub tenant: Arc<str>,
    /// Calls of this class only.
    pub class: Option<Class>,
}

/// A call, as far as controls ask.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// Its model.
    pub model: &'a str,
    /// Its tenant; who names none is `default`.
    pub tenant: &'a str,
    /// The class it is treated as.
    pub class: Class,
}

impl Whom {
    /// Whether it touches anything of this provider and account.
    pub fn touches_scope(&self, provider: &str, account: &str) -> bool {
        selects(&self.provider, provider) && selects(&self.account, account)
    }

    /// Whether it touches a call of a scope that it touches.
    pub fn touches_call(&self, call: &Called<'_>) -> bool {
        let is_of_class = self.class.is_none_or(|class| class == call.class);
        is_of_class && selects(&self.model, call.model) && selects(&self.tenant, call.tenant)
    }

    /// Whether a call of this group may be among those it touches; a group's key is a model, or a pattern over models.
    pub fn touches_group(&self, key: &str) -> bool {
        selects(&self.model, key) || selects(key, &self.model)
    }

    /// Whether it touches the calls of all models.
    pub fn is_of_all_models(&self) -> bool {
        is_any(&self.model)
    }

    /// Whether it touches calls of all tenants and classes.
    pub fn is_of_all_callers(&self) -> bool {
        self.class.is_none() && is_any(&self.tenant)
    }

    /// Whether it touches every call there is.
    pub fn is_everybody(&self) -> bool {
        self.is_of_all_callers() && self.is_of_all_models() && is_any(&self.provider) && is_any(&self.account)
    }

    /// Whether it selects by tenant.
    pub fn names_a_tenant(&self) -> bool {
        !is_any(&self.tenant)
    }

    /// Whether every call that `other` touches is touched by this, as far as patterns tell.
    pub fn covers(&self, other: &Self) -> bool {
        let pairs = [
            (&self.provider, &other.provider),
            (&self.account, &other.account),
            (&self.model, &other.model),
            (&self.tenant, &other.tenant),
        ];
        pairs.into_iter().all(|(wide, narrow)| covers(wide, narrow)) && (self.class.is_none() || self.class == other.class)
    }

    /// The larger, the more it says about which calls.
    pub(super) fn precision(&self) -> impl Ord + use<> {
        let exactness = |glob: &str| match () {
            () if is_any(glob) => 0,
            () if glob.contains(['*', '?']) => 1,
            () => 2,
        };
        [exactness(&self.model), exactness(&self.account), exactness(&self.provider)]
    }
}

impl fmt::Display for Whom {
    /// `openai/prod, tenant ads, batch`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_everybody() {
            return f.write_str("everything");
        }
        let any = |glob: &Arc<str>| if glob.is_empty() { "*".to_owned() } else { glob.to_string() };
        write!(f, "{}/{}", any(&self.provider), any(&self.account))?;
        if !self.is_of_all_models() {
            write!(f, "/{}", self.model)?;
        }
        if self.names_a_tenant() {
            write!(f, ", tenant {}", self.tenant)?;
        }
        match self.class {
            Some(class) => write!(f, ", {}", class.name()),
            None => Ok(()),
        }
    }
}

fn is_any(glob: &str) -> bool {
    glob.is_empty() || glob.chars().all(|letter| letter == '*')
}

/// A star of the narrower one is any text: only a star of the wider one takes it.
fn covers(wide: &str, narrow: &str) -> bool {
    is_any(wide)
        || (!is_any(narrow) && matches(wide, narrow, |wanted, letter| wanted == letter || (wanted == '?' && letter != '*')))
}

/// Whether a glob (`*` any characters, `?` one) matches a whole name; an empty one matches everything.
pub fn selects(glob: &str, name: &str) -> bool {
    glob.is_empty() || matches(glob, name, |wanted, letter| wanted == '?' || wanted == letter)
}

fn matches(glob: &str, name: &str, takes: impl Fn(char, char) -> bool) -> bool {
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
            Some(wanted) if takes(*wanted, *letter) => {
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
    use proptest::prelude::*;

    use super::*;

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

    fn provider(glob: &str) -> Whom {
        Whom { provider: Arc::from(glob), ..Whom::default() }
    }

    #[test]
    fn the_wider_covers_the_narrower() {
        for (wide, narrow, expected) in [
            ("", "", true),
            ("", "openai", true),
            ("*", "", true),
            ("openai", "", false),
            ("open*", "openai", true),
            ("open*", "open*", true),
            ("open*", "op*", false),
            ("open?i", "open*", false),
            ("o*", "open?i", true),
        ] {
            assert_eq!(provider(wide).covers(&provider(narrow)), expected, "{wide:?} {narrow:?}");
        }
        let batch = Whom { class: Some(Class::Batch), ..provider("openai") };
        assert!(provider("openai").covers(&batch) && !batch.covers(&provider("openai")));
    }

    #[test]
    fn it_reads_as_people_say_it() {
        let whom = Whom {
            provider: Arc::from("openai"),
            account: Arc::from("prod"),
            model: Arc::from("gpt-4o"),
            tenant: Arc::from("ads"),
            class: Some(Class::Batch),
        };
        assert_eq!(whom.to_string(), "openai/prod/gpt-4o, tenant ads, batch");
        assert_eq!(provider("openai").to_string(), "openai/*");
        assert_eq!(Whom::default().to_string(), "everything");
    }

    proptest! {
        /// What is covered is selected, whoever is named.
        #[test]
        fn who_covers_selects_as_much(wide in "[ab*?]{0,4}", narrow in "[ab*?]{0,4}", name in "[ab]{0,4}") {
            if covers(&wide, &narrow) && selects(&narrow, &name) {
                prop_assert!(selects(&wide, &name));
            }
        }
    }
}
