//! Kernels: shapes in, [`Dispatch`] out. This floor knows shaders and shapes, never a device.
//!
//! A forward pass is a [`Recording`], a list of dispatches over numbered buffers. `gpu` plays it on a device, the CPU
//! twins of `reference` play it in tests, and nothing in it changes from token to token: what does change (position,
//! token, done) lies in the state buffer .

pub mod attention;
pub mod attention_decode;
pub mod attention_prefill;
pub mod attention_reduce;
pub mod embed;
pub mod fill;
pub mod kv_append;
mod link;
pub mod matmul;
pub mod matvec;
pub mod norm;
pub mod parts;
pub mod sample;
pub mod sample_candidates;
pub mod sample_draw;
pub mod state;
pub mod stream;

pub use link::{Part, Source, Target, Variant};

/// A buffer of a plan, by its place in the plan's list of [`BufferSpec`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A buffer that a plan needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferSpec {
    /// For debuggers and error messages.
    pub label: String,
    /// Size in bytes, a multiple of 4.
    pub bytes: u64,
}

/// Whether a kernel only reads a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`
    Read,
    /// `var<storage, read_write>`
    ReadWrite,
}

/// A range of a buffer, bound to a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The buffer.
    pub buffer: BufferId,
    /// In bytes, a multiple of [`BINDING_ALIGNMENT`].
    pub offset: u64,
    /// In bytes, a multiple of 4.
    pub bytes: u64,
    /// Read, or read and write. One buffer must not be bound both ways in one dispatch.
    pub access: Access,
}

impl Binding {
    /// A range that the kernel reads.
    pub fn read(buffer: BufferId, offset: u64, bytes: u64) -> Self {
        Self { buffer, offset, bytes, access: Access::Read }
    }

    /// A range that the kernel reads and writes.
    pub fn read_write(buffer: BufferId, offset: u64, bytes: u64) -> Self {
        Self { buffer, offset, bytes, access: Access::ReadWrite }
    }
}

/// WebGPU's default `minStorageBufferOffsetAlignment` and `minUniformBufferOffsetAlignment`, in bytes.
pub const BINDING_ALIGNMENT: u64 = 256;

/// WebGPU's limit of workgroups in one dimension of a dispatch.
pub const MAX_WORKGROUPS: u32 = 65_535;

/// One kernel run.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// The shader.
    pub variant: Variant,
    /// The words of the uniform `params` (binding 0); floats as bits. Padded to 16 bytes by the player.
    pub params: Vec<u32>,
    /// The storage bindings, from binding 1 on. At most 8.
    pub bindings: Vec<Binding>,
    /// Workgroups in x, y, z; each at most [`MAX_WORKGROUPS`].
    pub workgroups: [u32; 3],
    /// How much work it is, by which submits are cut.
    pub cost: Cost,
}

/// The work of a dispatch whose tokens are all there, in multiply-adds, roughly: enough to share out time by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Whatever the position.
    pub fixed: u64,
    /// For each key that the pass's last token sees: position of the first token + tokens of the pass.
    pub per_key: u64,
}

impl Cost {
    /// The multiply-adds where the last token sees `keys` keys.
    pub fn at(self, keys: u32) -> u64 {
        self.fixed + self.per_key * u64::from(keys)
    }
}

/// A list of dispatches, run in order; each sees what those before it wrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// In order.
    pub dispatches: Vec<Dispatch>,
}

impl Recording {
    /// Appends a dispatch.
    pub fn push(&mut self, dispatch: Dispatch) {
        self.dispatches.push(dispatch);
    }
}

/// A weight matrix on the device: `rows` rows of `cols` weights, in its quantised form (see `shaders/parts/weights.wgsl`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The weight format.
    pub format: crate::tensor::Format,
    /// The buffer that holds it.
    pub buffer: BufferId,
    /// Where row 0 starts, in `vec4<u32>` (16 bytes) from the buffer's start.
    pub base: u32,
    /// Rows: the length of the output.
    pub rows: u32,
    /// Weights in a row: the length of the input. A multiple of 32.
    pub cols: u32,
    /// A row's length on the device, in `vec4<u32>`.
    pub row_vec4: u32,
}
