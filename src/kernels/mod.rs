//! Kernels: shapes in, [`Dispatch`] out. This floor knows shaders and shapes, never a device.
//!
//! A forward pass is a [`Recording`], a list of dispatches over numbered buffers. `gpu` plays it on a device, the CPU
//! twins of `reference` play it in tests, and nothing in it changes from token to token: what does change (position,
//! token, done) lies in the state buffer .

pub mod attention;
pub mod attention_decode;
pub mod attention_prefill;
pub mod attention_reduce;
pub mod delta_net;
pub mod embed;
pub mod expert_sum;
pub mod experts;
pub mod fill;
pub mod gate;
pub mod gathered;
pub mod kv_append;
mod link;
pub mod matmul;
pub mod matvec;
pub mod norm;
pub mod parts;
pub mod route;
pub mod sample;
pub mod sample_candidates;
pub mod sample_draw;
pub mod short_conv;
pub mod state;
pub mod stream;
pub mod tiles;
pub mod tuning;

pub use link::{Part, Source, Target, Variant};

use crate::err;
use crate::error::Result;
use crate::tensor::Tier;

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

    /// The range from the first of both to the end of the last, and where each starts in it, in floats: kernels that read norm
    /// weights and biases bind them as one, since bindings are few and these lie in one buffer. Error: `internal` where they do not.
    pub(crate) fn covering(self, other: Self) -> Result<(Self, [u32; 2])> {
        let offset = self.offset.min(other.offset);
        let bytes = (self.offset + self.bytes).max(other.offset + other.bytes) - offset;
        let starts = [self, other].map(|b| u32::try_from((b.offset - offset) / 4).ok());
        match (starts, self.buffer == other.buffer) {
            ([Some(first), Some(second)], true) => Ok((Self { offset, bytes, ..self }, [first, second])),
            _ => Err(err!(Internal, "{self:?} and {other:?} cannot be bound as one")),
        }
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
    /// Whether it goes on where the dispatch before it ends: see [`cut`].
    pub continues: bool,
}

/// The most work of one dispatch of a prefill, on a GPU: 20 ms at 200 GFLOP/s, which a phone's GPU does.
const SLICE_COST: u64 = 2 << 30;
/// On a CPU adapter: 26 ms on SwiftShader, where two cores do 5e9 multiply-adds a second in matmul_rows, and 7 on lavapipe.
const SLICE_COST_CPU: u64 = 128 << 20;

/// Cuts a dispatch along y into slices of at most the tier's [`SLICE_COST`] each, where the pass's last token sees `keys`
/// keys, so that neither a submit nor what the page draws beside it has to wait for the whole. See [`cut`].
pub(crate) fn sliced(tier: Tier, whole: Dispatch, first: usize, keys: u32) -> Vec<Dispatch> {
    let most = if tier.cpu { SLICE_COST_CPU } else { SLICE_COST };
    let slices = whole.cost.at(keys).div_ceil(most).min(whole.workgroups[1].into()) as u32;
    cut(&whole, first, slices)
}

/// Cuts a dispatch along y into about this many slices. Word `first` of the params tells the kernel the y of the slice's
/// first workgroup. Slices that follow one another in a submit are played as one dispatch: the first one's bindings with
/// the workgroups of all. So a fine cut costs bind groups when a model is loaded, and nothing when it runs.
pub fn cut(whole: &Dispatch, first: usize, slices: u32) -> Vec<Dispatch> {
    let [x, y, z] = whole.workgroups;
    let each = y.div_ceil(slices.max(1)).max(1);
    let slice = |start: u32| {
        let rows = each.min(y - start);
        let share = |n: u64| n * u64::from(rows) / u64::from(y);
        let mut params = whole.params.clone();
        if let Some(word) = params.get_mut(first) {
            *word = start;
        }
        Dispatch {
            params,
            workgroups: [x, rows, z],
            cost: Cost { fixed: share(whole.cost.fixed), per_key: share(whole.cost.per_key) },
            continues: start > 0,
            ..whole.clone()
        }
    };
    (0..y).step_by(each as usize).map(slice).collect()
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

    /// Appends the slices of a dispatch.
    pub fn extend(&mut self, slices: Vec<Dispatch>) {
        self.dispatches.extend(slices);
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
    /// The buffer of [`crate::quant::codebooks`], where the format needs it.
    pub codebooks: Option<Binding>,
}

impl Matrix {
    /// Bytes of all rows.
    pub fn bytes(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.row_vec4) * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(workgroups: u32, cost: Cost) -> Dispatch {
        let variant = Variant::new(parts::SEGMENTS, &[]);
        Dispatch { variant, params: vec![7, 0, 9], bindings: Vec::new(), workgroups: [3, workgroups, 1], cost, continues: false }
    }

    #[test]
    fn slices_together_are_the_whole() {
        let whole = whole(10, Cost { fixed: 1000, per_key: 20 });
        for (slices, rows) in [(0, vec![10]), (1, vec![10]), (3, vec![4, 4, 2]), (4, vec![3, 3, 3, 1]), (99, vec![1; 10])] {
            let slices = cut(&whole, 1, slices);
            assert_eq!(slices.iter().map(|s| s.workgroups[1]).collect::<Vec<_>>(), rows);
            let mut start = 0;
            for slice in &slices {
                assert_eq!((slice.params.as_slice(), slice.continues), ([7, start, 9].as_slice(), start > 0));
                assert_eq!((slice.workgroups[0], slice.workgroups[2]), (3, 1));
                start += slice.workgroups[1];
            }
            assert_eq!(slices.iter().map(|s| s.cost.at(5)).sum::<u64>(), 1100);
        }
    }

    #[test]
    fn no_slice_costs_more_than_its_tier_allows() {
        let cpu = Tier { cpu: true, ..Tier::BASE };
        let gate_up = Cost { fixed: 64 * 576 * 3072, per_key: 0 }; // SmolLM2, 64 tokens: not cut even on a CPU
        assert_eq!(sliced(cpu, whole(48, gate_up), 1, 0).len(), 1);
        let large = Cost { fixed: 256 * 4096 * 28_672, per_key: 0 }; // Llama 8B, 256 tokens
        assert_eq!(sliced(Tier::BASE, whole(448, large), 1, 0).len(), 14);
        let attention = Cost { fixed: 0, per_key: 2 * 32 * 128 * 256 };
        assert_eq!(sliced(Tier::BASE, whole(256, attention), 1, 0).len(), 1);
        assert_eq!(sliced(Tier::BASE, whole(256, attention), 1, 8192).len(), 8);
        assert!(sliced(cpu, whole(256, attention), 1, 8192).iter().all(|s| s.cost.at(8192) <= SLICE_COST_CPU));
        assert_eq!(sliced(cpu, whole(2, attention), 1, 8192).len(), 2, "no finer than workgroups");
    }
}
