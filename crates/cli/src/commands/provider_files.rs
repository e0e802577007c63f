//! `--providers`: files about providers of one's own, in the form of the catalogue's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use paceline_signals::{CatalogueError, use_files};

/// More files than this are not a folder of providers.
const MOST_FILES: usize = 1_000;

/// Where files of one's own are.
#[derive(Debug, Default, Args)]
pub(crate) struct ProviderFiles {
    /// Folder with files about providers (NAME.yaml): each adds a provider, or takes the place of the built-in one.
    #[arg(long, value_name = "DIR", env = "PACELINE_PROVIDERS", hide_env_values = true)]
    providers: Option<PathBuf>,
}

/// Why they cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderFilesError {
    /// The folder or a file in it cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Hardly the folder that was meant.
    #[error("{} holds more than {MOST_FILES} YAML files; name a folder that holds files about providers only", .0.display())]
    TooMany(PathBuf),
    /// A file is wrong.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

impl ProviderFiles {
    /// Adds the files to the catalogue of this process; before anything asks for it.
    ///
    /// # Errors
    /// The folder cannot be read, or a file in it cannot be used.
    pub(crate) fn install(&self) -> Result<(), ProviderFilesError> {
        match &self.providers {
            Some(folder) => Ok(use_files(&read(folder)?)?),
            None => Ok(()),
        }
    }
}

/// Name and text of each YAML file, by name.
fn read(folder: &Path) -> Result<Vec<(String, String)>, ProviderFilesError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| ProviderFilesError::Read { path, error }
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_yaml) else { continue };
        if files.len() >= MOST_FILES {
            return Err(ProviderFilesError::TooMany(folder.to_owned()));
        }
        files.push((name.to_owned(), fs::read_to_string(&path).map_err(failed(&path))?));
    }
    files.sort();
    Ok(files)
}
