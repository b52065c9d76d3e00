//! Files, time and JSON.

use std::cell::RefCell;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pollster::block_on;
use rivulet::engine::{ByteSource, Files, Host, ModelSource, open_model};
use rivulet::err;
use rivulet::error::Result;
use rivulet::gguf::Header;
use rivulet::hf::Quantize;
use serde::de::DeserializeOwned;

/// A file, read at offsets.
pub struct FileSource {
    file: RefCell<File>,
    len: u64,
    path: String,
}

/// A folder of files.
struct Folder(PathBuf);

impl Files for Folder {
    type Source = FileSource;

    async fn open(&self, name: &str) -> Result<Option<FileSource>> {
        let path = self.0.join(name);
        let fail = |e: std::io::Error| err!(Network, "opening {}: {e}", path.display());
        let file = match File::open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(fail)?,
        };
        let len = file.metadata().map_err(fail)?.len();
        Ok(Some(FileSource { file: RefCell::new(file), len, path: path.display().to_string() }))
    }
}

/// Opens the model at a path: a GGUF file, any file of a split one, or a directory of safetensors. Errors as [`open_model`].
pub fn open(path: &Path, quantize: Option<Quantize>) -> Result<(Header, ModelSource<FileSource>)> {
    if path.is_dir() {
        if !path.join("config.json").exists() {
            return Err(err!(
                BadFile,
                "{} has no config.json: name the .gguf file in it, or a directory of safetensors",
                path.display()
            ));
        }
        return block_on(open_model(&Folder(path.to_path_buf()), "", quantize));
    }
    let name = path.file_name().and_then(|n| n.to_str());
    let name = name.ok_or_else(|| err!(Network, "opening {}: expected the name of a file", path.display()))?;
    if !path.exists() {
        return Err(err!(Network, "opening {}: there is no such file", path.display()));
    }
    let folder = Folder(path.parent().unwrap_or(Path::new("")).to_path_buf());
    block_on(open_model(&folder, name, quantize))
}

impl ByteSource for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    async fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut file = self.file.borrow_mut();
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(out));
        read.map_err(|e| err!(Network, "reading {} bytes at {offset} of {}: {e}", out.len(), self.path))
    }
}

/// The machine's clock and randomness.
pub struct System(Instant);

impl System {
    /// Starts the clock.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Host for System {
    fn now_ms(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1000.0
    }

    fn unix_seconds(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
    }

    fn entropy(&self) -> u64 {
        // The standard library seeds its hash maps from the system; that is as much as a sampler's seed needs.
        RandomState::new().hash_one(self.0.elapsed())
    }
}

/// A text file. Error: `bad-option` with the path and what is wrong.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| err!(BadOption, "reading {}: {e}", path.display()))
}

/// A JSON file. Error: `bad-option` with the path and what is wrong.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|e| err!(BadOption, "reading {}: {e}", path.display()))
}
