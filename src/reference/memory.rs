//! Buffers in ordinary memory, read and written through the bindings of a dispatch.

use crate::err;
use crate::error::Result;
use crate::kernels::{BufferId, BufferSpec, Dispatch};

/// The buffers of a plan, by [`BufferId`], as words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    buffers: Vec<Vec<u32>>,
}

impl Memory {
    /// Zeroed buffers.
    pub fn new(specs: &[BufferSpec]) -> Self {
        Self { buffers: specs.iter().map(|spec| vec![0; spec.bytes.div_ceil(4) as usize]).collect() }
    }

    /// Appends a buffer with these words and gives its number.
    pub fn push(&mut self, words: Vec<u32>) -> BufferId {
        self.buffers.push(words);
        BufferId(self.buffers.len() as u32 - 1)
    }

    /// Appends a buffer of floats.
    pub fn push_f32(&mut self, floats: &[f32]) -> BufferId {
        self.push(floats.iter().map(|f| f.to_bits()).collect())
    }

    /// Every buffer's words, in order.
    pub fn buffers(&self) -> &[Vec<u32>] {
        &self.buffers
    }

    /// All words of a buffer.
    pub fn words(&self, id: BufferId) -> &[u32] {
        self.buffers.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// All words of a buffer, to write.
    pub fn words_mut(&mut self, id: BufferId) -> &mut [u32] {
        self.buffers.get_mut(id.0 as usize).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The words of binding `i` (1-based, as in the shader).
    pub fn binding(&self, dispatch: &Dispatch, i: usize) -> Result<&[u32]> {
        let b = dispatch.bindings.get(i - 1).ok_or_else(|| err!(Internal, "no binding {i}"))?;
        let (start, end) = (b.offset as usize / 4, (b.offset + b.bytes) as usize / 4);
        self.words(b.buffer).get(start..end).ok_or_else(|| err!(Internal, "binding {i} reaches beyond its buffer"))
    }

    /// The words of binding `i`, to write.
    pub fn binding_mut(&mut self, dispatch: &Dispatch, i: usize) -> Result<&mut [u32]> {
        let b = *dispatch.bindings.get(i - 1).ok_or_else(|| err!(Internal, "no binding {i}"))?;
        let (start, end) = (b.offset as usize / 4, (b.offset + b.bytes) as usize / 4);
        self.words_mut(b.buffer).get_mut(start..end).ok_or_else(|| err!(Internal, "binding {i} reaches beyond its buffer"))
    }

    /// Binding `i` as floats.
    pub fn floats(&self, dispatch: &Dispatch, i: usize) -> Result<Vec<f32>> {
        Ok(self.binding(dispatch, i)?.iter().map(|w| f32::from_bits(*w)).collect())
    }
}
