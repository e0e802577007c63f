//! Whose commits a value includes: what tells a stored value that went on from one that was lost, or rolled back, since.
//!
//! A version cannot tell. After a store came back with an older value and another replica wrote over it, the version is higher
//! than the one a replica remembers, and what that replica wrote is gone all the same.

/// The most replicas that are remembered; the one that has been silent for longest makes room.
pub const MOST_WRITERS: usize = 16;

/// How many commits of each replica a value includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    writers: Vec<Writer>,
}

/// One replica's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The replica's number; a replica that starts again has another one.
    pub replica: u32,
    /// Its commits, counted from one.
    pub commits: u64,
}

impl Lineage {
    /// The next commit, by `replica`.
    pub fn wrote(&mut self, replica: u32) {
        let commits = match self.writers.iter().position(|writer| writer.replica == replica) {
            Some(index) => self.writers.remove(index).commits,
            None => 0,
        };
        self.writers.push(Writer { replica, commits: commits.saturating_add(1) });
        self.make_room();
    }

    /// Whether every commit that `other` includes is included here, as far as one can know: a replica that is not named may
    /// have made room for others.
    pub fn includes(&self, other: &Self) -> bool {
        other.writers.iter().all(|theirs| match self.commits_of(theirs.replica) {
            Some(commits) => commits >= theirs.commits,
            None => self.writers.len() >= MOST_WRITERS,
        })
    }

    /// What a value includes that was merged from two.
    pub fn joined(&self, other: &Self) -> Self {
        let mut writers: Vec<Writer> =
            other.writers.iter().copied().filter(|theirs| self.commits_of(theirs.replica).is_none()).collect();
        writers.extend(self.writers.iter().map(|ours| {
            let commits = other.commits_of(ours.replica).unwrap_or(0).max(ours.commits);
            Writer { commits, ..*ours }
        }));
        Self::from_writers(writers)
    }

    /// The replicas, the one silent for longest first.
    pub fn writers(&self) -> &[Writer] {
        &self.writers
    }

    /// From stored parts: of a replica that is there twice the higher count, of too many the last ones.
    pub fn from_writers(stored: Vec<Writer>) -> Self {
        let mut lineage = Self::default();
        for part in stored {
            match lineage.writers.iter_mut().find(|writer| writer.replica == part.replica) {
                Some(writer) => writer.commits = writer.commits.max(part.commits),
                None => lineage.writers.push(part),
            }
        }
        lineage.make_room();
        lineage
    }

    fn commits_of(&self, replica: u32) -> Option<u64> {
        self.writers.iter().find(|writer| writer.replica == replica).map(|writer| writer.commits)
    }

    fn make_room(&mut self) {
        let surplus = self.writers.len().saturating_sub(MOST_WRITERS);
        self.writers.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[(u32, u64)]) -> Lineage {
        Lineage::from_writers(parts.iter().map(|&(replica, commits)| Writer { replica, commits }).collect())
    }

    #[test]
    fn a_value_that_went_on_includes_what_it_came_from() {
        let mut lineage = Lineage::default();
        for replica in [1, 1, 2, 1, 3, 2] {
            let before = lineage.clone();
            lineage.wrote(replica);
            assert!(lineage.includes(&before) && !before.includes(&lineage));
        }
        assert_eq!(lineage, of(&[(1, 3), (3, 1), (2, 2)]), "the last writer is the last");
    }

    #[test]
    fn what_was_written_over_an_older_value_does_not_include_what_was_lost() {
        let (old, seen) = (of(&[(1, 3)]), of(&[(1, 4)]));
        let mut rolled_back = old.clone();
        (0..5).for_each(|_| rolled_back.wrote(2));
        assert!(!rolled_back.includes(&seen));
        assert!(rolled_back.joined(&seen).includes(&seen) && rolled_back.joined(&seen).includes(&rolled_back));
        assert!(!Lineage::default().includes(&seen), "everything was lost");
    }

    #[test]
    fn replicas_that_came_and_went_are_forgotten_without_an_alarm() {
        let mut lineage = Lineage::default();
        lineage.wrote(1);
        let mine = lineage.clone();
        (2..100).for_each(|replica| lineage.wrote(replica));
        assert_eq!(lineage.writers().len(), MOST_WRITERS);
        assert!(lineage.includes(&mine));
    }
}
