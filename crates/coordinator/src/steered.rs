//! The configuration seen through the book of controls: what people on call have said lies over what is written.

use std::sync::Arc;

use paceline_core::controls::Book;
use paceline_core::in_force::Loaded;
use paceline_core::mode::Modes;
use paceline_core::plan::{GroupPlan, TenantPolicy};
use paceline_core::signal::Signal;

use crate::api::{CallError, Target};
use crate::settings::{AnswerParts, Settings};

/// Settings with a book over them. Each scope looks into the book by itself, at its own instants: controls end by time.
pub(crate) struct Steered {
    written: Arc<dyn Settings>,
    book: Arc<Book>,
}

impl Steered {
    pub(crate) fn new(written: Arc<dyn Settings>, book: Arc<Book>) -> Self {
        Self { written, book }
    }

    /// The same book over another configuration.
    pub(crate) fn over(&self, written: Arc<dyn Settings>) -> Self {
        Self { written, book: self.book.clone() }
    }

    /// Another book over the same configuration.
    pub(crate) fn with(&self, book: Arc<Book>) -> Self {
        Self { written: self.written.clone(), book }
    }
}

impl Settings for Steered {
    fn canonical(&self, target: &Target) -> Result<Target, CallError> {
        self.written.canonical(target)
    }

    fn plan(&self, target: &Target) -> Result<Arc<GroupPlan>, CallError> {
        self.written.plan(target)
    }

    fn modes(&self, target: &Target) -> Result<Modes, CallError> {
        self.written.modes(target)
    }

    fn tenant_modes(&self, tenant: &str) -> Modes {
        self.written.tenant_modes(tenant)
    }

    fn tenant(&self, tenant: &str) -> TenantPolicy {
        self.written.tenant(tenant)
    }

    fn controls(&self) -> Arc<Book> {
        self.book.clone()
    }

    fn expected_replicas(&self) -> u32 {
        self.written.expected_replicas()
    }

    fn loaded(&self) -> Option<Loaded> {
        self.written.loaded()
    }

    fn organisation(&self, provider: &str, answer: &AnswerParts<'_>) -> Option<String> {
        self.written.organisation(provider, answer)
    }

    fn read(&self, provider: &str, answer: &AnswerParts<'_>) -> Signal {
        self.written.read(provider, answer)
    }
}
