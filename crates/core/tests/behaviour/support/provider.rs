//! A reference provider in exact integers, written without the core's arithmetic: what it does not admit was over-granted.

use paceline_core::signal::{AnswerKind, ObservedBucket, ResetMeans, Signal, Source};
use paceline_core::units::{FleetTime, Span};

/// One meter. Amounts are scaled by the window's microseconds, so that a microsecond brings back `limit` of them: exact.
#[derive(Clone, Debug)]
pub struct Meter {
    pub name: &'static str,
    pub limit: u64,
    pub per: Span,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Bucket { capacity: i128, level: i128, at: FleetTime },
    Window { start: FleetTime, used: i128 },
}

impl Meter {
    /// A token bucket that holds `capacity` and starts with `level`.
    pub fn bucket(name: &'static str, limit: u64, per: Span, capacity: u64, level: i128, at: FleetTime) -> Self {
        let scale = i128::from(per.as_micros());
        Self { name, limit, per, kind: Kind::Bucket { capacity: i128::from(capacity) * scale, level: level * scale, at } }
    }

    /// A token bucket that holds its limit and is full.
    pub fn full(name: &'static str, limit: u64, per: Span, at: FleetTime) -> Self {
        Self::bucket(name, limit, per, limit, i128::from(limit), at)
    }

    /// A fixed window; one of them starts at `start`.
    pub fn window(name: &'static str, limit: u64, per: Span, start: FleetTime) -> Self {
        Self { name, limit, per, kind: Kind::Window { start, used: 0 } }
    }

    fn scale(&self) -> i128 {
        i128::from(self.per.as_micros())
    }

    /// Lets time pass.
    pub fn advance(&mut self, now: FleetTime) {
        let (limit, per) = (i128::from(self.limit), self.per);
        match &mut self.kind {
            Kind::Bucket { capacity, level, at } => {
                *level = (*level + i128::from(now.since(*at).as_micros()) * limit).min(*capacity);
                *at = (*at).max(now);
            }
            Kind::Window { start, used } => {
                let windows = now.since(*start).as_micros() / per.as_micros();
                if windows > 0 {
                    *start = *start + Span::from_micros(windows * per.as_micros());
                    *used = 0;
                }
            }
        }
    }

    /// What is left, scaled; call [`Meter::advance`] first. Negative after [`Meter::take`] took too much.
    fn left(&self) -> i128 {
        match &self.kind {
            Kind::Bucket { level, .. } => *level,
            Kind::Window { used, .. } => i128::from(self.limit) * self.scale() - used,
        }
    }

    /// Takes `cost`, there or not; below zero it shows.
    pub fn take(&mut self, now: FleetTime, cost: u64) {
        self.advance(now);
        let scaled = i128::from(cost) * self.scale();
        match &mut self.kind {
            Kind::Bucket { level, .. } => *level -= scaled,
            Kind::Window { used, .. } => *used += scaled,
        }
    }

    /// Gives `amount` back, up to the capacity.
    pub fn give(&mut self, now: FleetTime, amount: u64) {
        self.advance(now);
        let scaled = i128::from(amount) * self.scale();
        match &mut self.kind {
            Kind::Bucket { level, capacity, .. } => *level = (*level + scaled).min(*capacity),
            Kind::Window { used, .. } => *used = (*used - scaled).max(0),
        }
    }

    /// Units left at `now`; negative when more was taken than there was.
    pub fn units_left(&mut self, now: FleetTime) -> f64 {
        self.advance(now);
        self.left() as f64 / self.scale() as f64
    }

    /// When `cost` is there, if nobody else takes any.
    pub fn fits_at(&mut self, now: FleetTime, cost: u64) -> FleetTime {
        self.advance(now);
        let missing = i128::from(cost) * self.scale() - self.left();
        if missing <= 0 {
            return now;
        }
        match &self.kind {
            Kind::Bucket { .. } => {
                let limit = i128::from(self.limit);
                now + Span::from_micros(i64::try_from((missing + limit - 1) / limit).expect("a sane wait"))
            }
            Kind::Window { start, .. } => *start + self.per,
        }
    }

    /// The meter's name without the window in it: `requests_day` counts requests.
    pub fn counts(&self) -> &'static str {
        self.name.split_once('_').map_or(self.name, |(meter, _)| meter)
    }

    fn reading(&self, now: FleetTime) -> ObservedBucket {
        let remaining = (self.left().max(0) / self.scale()) as u64;
        let (reset, means) = match &self.kind {
            // Milliseconds, rounded up, as most providers that tell the time until full.
            Kind::Bucket { capacity, level, .. } => {
                let micros = (capacity - level + i128::from(self.limit) - 1) / i128::from(self.limit);
                (Span::from_millis(Span::from_micros(micros as i64).as_millis_ceil()), ResetMeans::Full)
            }
            // Whole seconds, rounded up, as most providers with windows.
            Kind::Window { start, .. } => (ceil_secs(*start + self.per - now), ResetMeans::Window),
        };
        ObservedBucket {
            name: self.name.to_string(),
            meter: self.counts().to_string(),
            window: self.name.contains('_').then_some(self.per),
            limit: Some(self.limit),
            remaining: Some(remaining),
            reset_in: Some(reset),
            reset_means: means,
            ..ObservedBucket::default()
        }
    }
}

/// What a provider tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Limit, remaining and reset on each answer, Retry-After on refusals.
    All,
    /// The same, with whole seconds in resets, and nobody says what they mean.
    Vague,
    /// Only Retry-After on refusals.
    RetryAfter,
    /// Nothing at all.
    Bare,
}

/// All meters of one provider.
#[derive(Clone, Debug)]
pub struct Provider {
    pub meters: Vec<Meter>,
    pub headers: Headers,
}

impl Provider {
    /// A call arrives: admitted and charged everywhere, or refused and charged nowhere.
    pub fn arrive(&mut self, now: FleetTime, cost: &dyn Fn(&str) -> u64) -> Signal {
        let fits = self.fits_at(now, cost);
        if fits <= now {
            for meter in &mut self.meters {
                meter.take(now, cost(meter.counts()));
            }
        }
        let mut signal = Signal { retryable: fits > now, ..Signal::default() };
        if fits > now {
            signal.kind = AnswerKind::Throttled;
            if self.headers != Headers::Bare {
                signal.retry_after = Some(ceil_secs(fits - now));
                signal.source = Source::RetryAfterSeconds;
                signal.field = "retry-after".to_string();
            }
        }
        match self.headers {
            Headers::All => signal.buckets = self.readings(now),
            Headers::Vague => signal.buckets = self.readings(now).into_iter().map(vague).collect(),
            Headers::RetryAfter | Headers::Bare => {}
        }
        signal
    }

    /// What its headers say now.
    pub fn readings(&mut self, now: FleetTime) -> Vec<ObservedBucket> {
        self.meters.iter_mut().for_each(|meter| meter.advance(now));
        self.meters.iter().map(|meter| meter.reading(now)).collect()
    }

    /// When a call fits everywhere.
    pub fn fits_at(&mut self, now: FleetTime, cost: &dyn Fn(&str) -> u64) -> FleetTime {
        self.meters.iter_mut().map(|meter| meter.fits_at(now, cost(meter.counts()))).max().unwrap_or(now)
    }
}

fn vague(told: ObservedBucket) -> ObservedBucket {
    ObservedBucket { reset_in: told.reset_in.map(ceil_secs), reset_means: ResetMeans::Unspecified, ..told }
}

fn ceil_secs(span: Span) -> Span {
    Span::from_secs((span.as_micros() + 999_999).div_euclid(1_000_000))
}
