//! The one error type. Each error has a stable [`Code`], which programs may match on, and a message for people that
//! says what was attempted, what was expected, what was found, and what to do.

use std::fmt;

/// The stable codes of errors, spelled as JavaScript sees them (`RivuletError.code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// There is no WebGPU here, or no adapter answered.
    WebgpuUnavailable,
    /// The device went away while it was in use.
    DeviceLost,
    /// A buffer could not be allocated, or the model cannot fit this device's limits.
    OutOfMemory,
    /// The model's architecture, or a feature of it, is not supported.
    UnsupportedArchitecture,
    /// A tensor's weight format is not supported.
    UnsupportedQuant,
    /// The file is not a valid GGUF file: truncated, inconsistent or hostile.
    BadFile,
    /// The source of bytes failed.
    Network,
    /// What was read is not what was promised (a hash or a size differs).
    Integrity,
    /// Storage is full.
    Quota,
    /// Prompt and answer do not fit the context.
    ContextOverflow,
    /// An option is unknown, of the wrong type or out of range.
    BadOption,
    /// The chat template is invalid, or it raised an exception.
    BadTemplate,
    /// The tokenizer's kind, or its pre-tokenizer, is not supported.
    UnsupportedTokenizer,
    /// The caller aborted.
    Aborted,
    /// The model was disposed of.
    Disposed,
    /// A kernel gave wrong results on this device.
    SelfTestFailed,
    /// A defect of Rivulet itself.
    Internal,
}

impl Code {
    /// The code as JavaScript sees it, such as `bad-file`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::WebgpuUnavailable => "webgpu-unavailable",
            Code::DeviceLost => "device-lost",
            Code::OutOfMemory => "out-of-memory",
            Code::UnsupportedArchitecture => "unsupported-architecture",
            Code::UnsupportedQuant => "unsupported-quant",
            Code::BadFile => "bad-file",
            Code::Network => "network",
            Code::Integrity => "integrity",
            Code::Quota => "quota",
            Code::ContextOverflow => "context-overflow",
            Code::BadOption => "bad-option",
            Code::BadTemplate => "bad-template",
            Code::UnsupportedTokenizer => "unsupported-tokenizer",
            Code::Aborted => "aborted",
            Code::Disposed => "disposed",
            Code::SelfTestFailed => "self-test-failed",
            Code::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure: a stable code for programs and a message for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Error {
    /// What kind of failure it is.
    pub code: Code,
    /// What was attempted, expected and found.
    pub message: String,
}

impl Error {
    /// An error with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `err!(BadFile, "tensor {name}: expected {a}, found {b}")` makes an [`Error`].
#[macro_export]
macro_rules! err {
    ($code:ident, $($message:tt)+) => {
        $crate::error::Error::new($crate::error::Code::$code, format!($($message)+))
    };
}
