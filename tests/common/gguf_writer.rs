//! Writes small GGUF files, good ones and, since nothing is checked, bad ones.

use rivulet::tensor::Format;

/// GGUF's value types.
pub mod types {
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// A length as u64 and that many bytes.
pub fn string(s: impl AsRef<[u8]>) -> Vec<u8> {
    let s = s.as_ref();
    [&(s.len() as u64).to_le_bytes()[..], s].concat()
}

/// The value of an array: element type, length, elements.
pub fn array(element: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [element.to_le_bytes().to_vec(), (elements.len() as u64).to_le_bytes().to_vec(), elements.concat()].concat()
}

/// A tensor to write.
#[derive(Clone)]
pub struct Tensor {
    pub name: Vec<u8>,
    pub shape: Vec<u64>,
    pub number: u32,
    pub offset: u64,
}

/// A file in the making. Fields may be changed freely before [`Gguf::bytes`].
#[derive(Clone)]
pub struct Gguf {
    pub magic: [u8; 4],
    pub version: u32,
    pub tensor_count: Option<u64>,
    pub metadata_count: Option<u64>,
    /// Key, type, value as bytes.
    pub metadata: Vec<(Vec<u8>, u32, Vec<u8>)>,
    pub tensors: Vec<Tensor>,
    pub data: Vec<u8>,
    pub alignment: usize,
}

impl Default for Gguf {
    fn default() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            metadata_count: None,
            metadata: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
            alignment: 32,
        }
    }
}

impl Gguf {
    /// Adds a key with a value of a type in [`types`].
    pub fn pair(mut self, key: impl AsRef<[u8]>, kind: u32, value: impl AsRef<[u8]>) -> Self {
        self.metadata.push((key.as_ref().to_vec(), kind, value.as_ref().to_vec()));
        self
    }

    /// Adds a string.
    pub fn text(self, key: &str, value: &str) -> Self {
        self.pair(key, types::STRING, string(value))
    }

    /// Adds a u32.
    pub fn number(self, key: &str, value: u32) -> Self {
        self.pair(key, types::U32, value.to_le_bytes())
    }

    /// Adds a tensor with its bytes, at the next aligned offset.
    pub fn tensor(mut self, name: &str, format: Format, shape: &[u64], bytes: &[u8]) -> Self {
        let offset = self.data.len().next_multiple_of(self.alignment);
        self.data.resize(offset, 0);
        self.data.extend_from_slice(bytes);
        self.tensors.push(Tensor { name: name.into(), shape: shape.to_vec(), number: format as u32, offset: offset as u64 });
        self
    }

    /// Adds a tensor of zeros.
    pub fn zeros(self, name: &str, format: Format, shape: &[u64]) -> Self {
        let bytes = shape.iter().product::<u64>() / format.block_len() * format.block_bytes();
        self.tensor(name, format, shape, &vec![0; bytes as usize])
    }

    /// The header's bytes, without the padding after it.
    pub fn header(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.metadata_count.unwrap_or(self.metadata.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.metadata {
            out.extend(string(key));
            out.extend(kind.to_le_bytes());
            out.extend(value);
        }
        for tensor in &self.tensors {
            out.extend(string(&tensor.name));
            out.extend((tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(tensor.number.to_le_bytes());
            out.extend(tensor.offset.to_le_bytes());
        }
        out
    }

    /// The whole file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.header();
        out.resize(out.len().next_multiple_of(self.alignment.max(1)), 0);
        out.extend(&self.data);
        out
    }
}
