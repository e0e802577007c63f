//! Crowds of callers: each keeps so many calls in line at all times, or asks at random.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_core::plan::{Class, GroupPlan, Weight};
use paceline_core::queue::AskId;
use paceline_core::units::{FleetTime, Span};
use rand::RngExt;

use super::world::World;

/// Callers of one tenant and class.
pub struct Crowd {
    pub plan: Arc<GroupPlan>,
    pub class: Class,
    pub tenant: &'static str,
    pub weight: u32,
    /// What a call costs beside one request.
    pub tokens: u64,
    pub demand: Demand,
}

/// How much they ask for.
#[derive(Clone, Copy)]
pub enum Demand {
    /// So many calls wait at any time.
    Keeps(usize),
    /// Calls arrive at random, so many a second on average.
    PerSecond(f64),
}

impl Crowd {
    pub fn new(plan: &Arc<GroupPlan>, class: Class, tenant: &'static str, demand: Demand) -> Self {
        Self { plan: plan.clone(), class, tenant, weight: 1, tokens: 0, demand }
    }

    pub fn weighing(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    pub fn costing(self, tokens: u64) -> Self {
        Self { tokens, ..self }
    }
}

/// Crowds at one scope, and who of them got what.
pub struct Market {
    pub world: World,
    crowds: Vec<Crowd>,
    next: Vec<FleetTime>,
    of: BTreeMap<AskId, usize>,
    waiting: Vec<usize>,
    seen: usize,
    denied: usize,
}

/// A call that was let through.
#[derive(Clone, Copy)]
pub struct Served {
    pub crowd: usize,
    pub tokens: u64,
    pub wait: Span,
}

impl Market {
    pub fn new(seed: u64, crowds: Vec<Crowd>) -> Self {
        let world = World::new(seed);
        let count = crowds.len();
        let next = vec![world.now; count];
        Self { world, crowds, next, of: BTreeMap::new(), waiting: vec![0; count], seen: 0, denied: 0 }
    }

    /// Lets them ask for a length of time.
    pub fn run(&mut self, span: Span) {
        let end = self.world.now + span;
        while self.world.now < end {
            self.top_up();
            let arrival = self.next_arrival().unwrap_or(end);
            let look = self.world.look.unwrap_or(end);
            // Callers come back within a tenth of a second.
            let step = self.world.now + Span::from_millis(100);
            let to = [arrival, look, step, end].into_iter().min().unwrap();
            self.world.now = to.max(self.world.now + Span::from_micros(1));
            self.arrive();
            self.world.decide();
            self.count();
        }
    }

    /// Changes what a crowd asks for.
    pub fn demand(&mut self, crowd: usize, demand: Demand) {
        self.crowds[crowd].demand = demand;
        self.next[crowd] = self.world.now;
    }

    /// The state goes to another replica: callers ask there with their places, and nothing but the value is known.
    pub fn hand_over(&mut self) {
        let now = self.world.now;
        let ids: Vec<AskId> = self.of.keys().copied().filter(|id| self.world.queue.get(*id).is_some()).collect();
        let asks: Vec<_> = ids.iter().filter_map(|id| self.world.queue.remove(*id, now)).collect();
        self.world.queue = paceline_core::queue::Queue::default();
        for (waiting, prior) in asks {
            let mut ask = waiting.ask;
            (ask.prior, ask.entered_at) = (prior, now);
            self.world.push(ask);
        }
        self.world.decide();
        self.count();
    }

    /// Everything served since `from`.
    pub fn served(&self, from: FleetTime) -> impl Iterator<Item = Served> {
        self.world.granted.iter().filter(move |granted| granted.slot.send_at >= from).map(|granted| Served {
            crowd: self.of[&granted.ask.id],
            tokens: granted.ask.cost.of("tokens").unwrap_or(0),
            wait: granted.slot.send_at - granted.ask.asked_at,
        })
    }

    /// How many calls each crowd got since `from`.
    pub fn calls(&self, from: FleetTime) -> Vec<f64> {
        let mut out = vec![0.0; self.crowds.len()];
        self.served(from).for_each(|served| out[served.crowd] += 1.0);
        out
    }

    /// How many tokens each crowd got since `from`.
    pub fn tokens(&self, from: FleetTime) -> Vec<f64> {
        let mut out = vec![0.0; self.crowds.len()];
        self.served(from).for_each(|served| out[served.crowd] += served.tokens as f64);
        out
    }

    /// The waits of a crowd's calls since `from`, sorted.
    pub fn waits(&self, crowd: usize, from: FleetTime) -> Vec<Span> {
        let mut waits: Vec<Span> = self.served(from).filter(|served| served.crowd == crowd).map(|served| served.wait).collect();
        waits.sort_unstable();
        waits
    }

    fn push(&mut self, crowd: usize) {
        let Crowd { plan, class, tenant, weight, tokens, .. } = &self.crowds[crowd];
        let mut ask = self.world.ask(&plan.clone());
        (ask.class, ask.tenant, ask.weight) = (*class, Arc::from(*tenant), Weight::new(*weight));
        if *tokens > 0 {
            ask.cost.set("tokens", *tokens);
        }
        self.of.insert(ask.id, crowd);
        self.waiting[crowd] += 1;
        self.world.push(ask);
    }

    fn top_up(&mut self) {
        for crowd in 0..self.crowds.len() {
            if let Demand::Keeps(most) = self.crowds[crowd].demand {
                for _ in self.waiting[crowd]..most {
                    self.push(crowd);
                }
            }
        }
        self.world.decide();
        self.count();
    }

    fn next_arrival(&self) -> Option<FleetTime> {
        let random = |crowd: &Crowd| matches!(crowd.demand, Demand::PerSecond(_));
        self.crowds.iter().zip(&self.next).filter(|(crowd, _)| random(crowd)).map(|(_, next)| *next).min()
    }

    fn arrive(&mut self) {
        for crowd in 0..self.crowds.len() {
            let Demand::PerSecond(rate) = self.crowds[crowd].demand else { continue };
            while self.next[crowd] <= self.world.now {
                if self.next[crowd] > super::world::START {
                    self.push(crowd);
                }
                let uniform: f64 = self.world.rng.random_range(1e-9..1.0);
                self.next[crowd] = self.next[crowd] + Span::from_secs_f64(-uniform.ln() / rate).unwrap();
            }
        }
    }

    fn count(&mut self) {
        for granted in &self.world.granted[self.seen..] {
            self.waiting[self.of[&granted.ask.id]] -= 1;
        }
        for denied in &self.world.denied[self.denied..] {
            self.waiting[self.of[&denied.ask.id]] -= 1;
        }
        (self.seen, self.denied) = (self.world.granted.len(), self.world.denied.len());
    }
}

/// Jain's index: 1 when all got the same, 1 / n when one got everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// The value that this part of the sorted values does not exceed.
pub fn quantile(sorted: &[Span], part: f64) -> Span {
    let index = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len()) - 1;
    sorted[index]
}
