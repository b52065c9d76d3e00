//! Files in memory by name, as a folder has them.

use std::collections::HashMap;
use std::path::Path;

use rivulet::engine::{ByteSource, Files};
use rivulet::error::Result;

/// A folder that a test may change.
#[derive(Clone, Default)]
pub struct Folder(pub HashMap<String, Vec<u8>>);

/// A file of it.
pub struct File(Vec<u8>);

impl Folder {
    /// The files of a folder on disk, whose own folders are left out.
    pub fn read(path: &Path) -> Self {
        let mut files = HashMap::new();
        for entry in std::fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).flatten() {
            if entry.path().is_file() {
                files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap());
            }
        }
        Self(files)
    }

    /// The same with one file changed.
    pub fn with(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut files = self.clone();
        change(files.0.entry(name.to_owned()).or_default());
        files
    }

    /// The same without one file.
    pub fn without(&self, name: &str) -> Self {
        let mut files = self.clone();
        files.0.remove(name).unwrap_or_else(|| panic!("no {name}"));
        files
    }
}

impl Files for Folder {
    type Source = File;

    async fn open(&self, name: &str) -> Result<Option<File>> {
        Ok(self.0.get(name).cloned().map(File))
    }
}

impl ByteSource for File {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    async fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&self.0[offset as usize..][..out.len()]);
        Ok(())
    }
}
