//! Whether a run met what its scenario expects.

use crate::run::Outcome;
use crate::scenario::Expect;

impl Expect {
    /// What was missed, in words; nothing: it passed.
    pub(crate) fn missed_by(&self, run: &Outcome) -> Vec<String> {
        let mut missed = Vec::new();
        let mut at_most = |what: &str, bound: Option<f64>, is: f64, digits: usize, scale: f64, unit: &str| {
            if let Some(bound) = bound.filter(|bound| is > *bound + TINY) {
                missed.push(format!("{what} {:.digits$}{unit} > {:.digits$}{unit}", is * scale, bound * scale));
            }
        };
        at_most("makespan ratio", self.makespan_ratio, run.makespan_ratio(), 3, 1.0, "");
        at_most("rejected", self.rejected_share, run.rejected_share(), 2, 100.0, " %");
        at_most("calls per job", self.calls_per_job, run.calls_per_job(), 2, 1.0, "");
        at_most("p99 wait", self.wait_p99.map(|span| span.as_secs_f64()), run.wait_p99.as_secs_f64(), 2, 1.0, " s");
        let interactive = self.interactive_wait_p99.map(|span| span.as_secs_f64());
        at_most("interactive p99 wait", interactive, run.interactive_wait_p99.as_secs_f64(), 3, 1.0, " s");
        at_most("given up", Some(self.given_up_share), run.given_up_share(), 2, 100.0, " %");
        let mut at_least = |what: &str, bound: Option<f64>, is: f64, scale: f64, unit: &str| {
            if let Some(bound) = bound.filter(|bound| is < *bound - TINY) {
                missed.push(format!("{what} {:.3}{unit} < {:.3}{unit}", is * scale, bound * scale));
            }
        };
        at_least("Jain", self.jain, run.jain, 1.0, "");
        at_least("batch share", self.batch_share, run.batch_share, 100.0, " %");
        missed
    }
}

/// What rounding may add.
const TINY: f64 = 1e-9;
