//! What happens to a scope from outside: another configuration, a clock that jumps, a store that forgets.

use std::sync::Arc;

use paceline_core::merge::{begin_again, merge};
use paceline_core::plan::GroupPlan;
use paceline_core::queue::Ask;
use paceline_core::units::Span;
use paceline_core::value::ScopeValue;

use super::world::World;

impl World {
    /// A group's limits change, as when a configuration is loaded again: who waits keeps its place, levels stay.
    pub fn replan(&mut self, plan: &Arc<GroupPlan>) {
        self.value.bind(plan, self.now);
        for granted in self.granted.iter_mut().filter(|granted| granted.ask.plan.key == plan.key) {
            granted.ask.plan = plan.clone();
        }
        for id in self.queue.ids() {
            if self.queue.get(id).is_none_or(|waiting| waiting.ask.plan.key != plan.key) {
                continue;
            }
            if let Some((waiting, prior)) = self.queue.remove(id, self.now) {
                self.queue.push(Ask { plan: plan.clone(), prior, entered_at: self.now, ..waiting.ask }, self.now);
            }
        }
        self.recheck();
    }

    /// The clock jumps, and the value is read again as it comes from a store.
    pub fn clock_jumps(&mut self, by: Span) {
        self.now = self.now + by;
        self.value.repair(self.now);
        self.recheck();
    }

    /// The store has lost the value, and this replica goes on with what it remembers of it.
    pub fn lose(&mut self) {
        self.value = merge(&ScopeValue::default(), &self.value);
        begin_again(&mut self.value, self.now);
        self.recheck();
    }
}
