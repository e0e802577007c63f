//! Every history, breadth first, and the law in each of its windows.

use std::collections::HashSet;

use crate::machine::{CAPACITY, Machine, State};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// How many different states.
    pub(crate) states: usize,
    /// The first one in which more was granted than the law and its slack allow.
    pub(crate) broken: Option<State>,
    /// The most that was granted beyond the law without slack.
    pub(crate) most: Most,
}

/// Units beyond capacity + refill x window.
#[derive(Debug, Default)]
pub(crate) struct Most {
    /// After one loss and nothing else.
    pub(crate) after_one_loss: u32,
    /// After one return of an older value and nothing else.
    pub(crate) after_one_return: u32,
    /// After anything.
    pub(crate) after_anything: u32,
    /// The same, beyond the slack.
    pub(crate) beyond_slack: u32,
}

/// Looks at every state that is at most so many steps from a beginning, up to the first that breaks the law.
pub(crate) fn explore(machine: &mut Machine, steps: u32) -> Found {
    let mut found = Found::default();
    let mut frontier: HashSet<State> = machine.beginnings().into_iter().collect();
    for step in 0..=steps {
        found.states += frontier.len();
        for state in &frontier {
            if !found.look_at(state) {
                return found;
            }
        }
        if step < steps {
            frontier = frontier.iter().flat_map(|state| machine.next(state, step)).collect();
        }
    }
    found
}

impl Found {
    /// Whether the law holds in every window of the state's history.
    fn look_at(&mut self, state: &State) -> bool {
        let seconds = state.granted.len();
        for from in 0..seconds {
            let (mut granted, mut slack) = (0, 0);
            for to in from..seconds {
                granted += state.granted[to];
                slack += state.slack[to];
                // A unit comes back every second.
                let window = u32::try_from(to - from).unwrap();
                let beyond = granted.saturating_sub(CAPACITY + window);
                self.note(state.losses, beyond, beyond.saturating_sub(slack));
                if beyond > slack {
                    self.broken = Some(state.clone());
                    return false;
                }
            }
        }
        true
    }

    fn note(&mut self, losses: [u32; 2], beyond: u32, beyond_slack: u32) {
        let raise = |most: &mut u32, found: u32| *most = (*most).max(found);
        match losses {
            [1, 0] => raise(&mut self.most.after_one_loss, beyond),
            [0, 1] => raise(&mut self.most.after_one_return, beyond),
            _ => {}
        }
        raise(&mut self.most.after_anything, beyond);
        raise(&mut self.most.beyond_slack, beyond_slack);
    }
}
