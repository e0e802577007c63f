//! `--providers`: files about providers of one's own, in the form of the catalogue's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use paceline_signals::{CatalogueError, Mistake, use_files};

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
    /// The folder cannot be read.
    #[error("--providers {}: {}", path.display(), folder_problem(error))]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file in it cannot be read.
    #[error("--providers: cannot read {}: {error}; files about providers are UTF-8 text", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file in it has a mistake.
    #[error("{}", mistake.in_file(&path.display().to_string()))]
    Mistake {
        /// Which.
        path: PathBuf,
        /// What, where, and what to write instead.
        mistake: Box<Mistake>,
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
        let Some(folder) = &self.providers else { return Ok(()) };
        let files = read(folder)?;
        let texts: Vec<(String, String)> = files.iter().map(|file| (file.name.clone(), file.text.clone())).collect();
        use_files(&texts).map_err(|error| match error {
            CatalogueError::Unreadable { name, mistake } => {
                let path = files.into_iter().find(|file| file.name == name).map(|file| file.path);
                ProviderFilesError::Mistake { path: path.unwrap_or_else(|| folder.join(name)), mistake }
            }
            other => other.into(),
        })
    }
}

/// What to do about a folder that cannot be read.
fn folder_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such folder; name one that holds files about providers (NAME.yaml), or leave \
                                    the flag out: the built-in catalogue needs none"
            .to_owned(),
        io::ErrorKind::NotADirectory => "this is a file; name the folder that it is in".to_owned(),
        _ => format!("cannot read this folder: {error}"),
    }
}

/// One file about a provider.
struct File {
    name: String,
    path: PathBuf,
    text: String,
}

/// The YAML files, by name.
fn read(folder: &Path) -> Result<Vec<File>, ProviderFilesError> {
    let failed = |error| ProviderFilesError::Folder { path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_yaml) else { continue };
        if files.len() >= MOST_FILES {
            return Err(ProviderFilesError::TooMany(folder.to_owned()));
        }
        let text = fs::read_to_string(&path).map_err(|error| ProviderFilesError::Read { path: path.clone(), error })?;
        files.push(File { name: name.to_owned(), text, path });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
