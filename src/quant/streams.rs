//! A layout on the GPU for blocks of 256 weights whose bytes stay as they are: a block as a whole is no multiple of 16
//! bytes, so each of its fields, or fields that are read together, becomes a stream of the row, padded to 16 bytes.

use super::GROUP;
use super::bits::pad16;

/// Weights in a block.
pub const BLOCK: usize = 256;
/// Groups in a block.
pub const GROUPS: usize = BLOCK / GROUP;

/// A field of a block, in equal shares for the units of its stream.
pub struct Field {
    /// Where it starts in a block, in bytes.
    pub at: usize,
    /// Bytes of a unit.
    pub bytes: usize,
}

/// The fields that lie together: those of the first unit, then those of the second.
pub struct Stream {
    /// Units in a block: 8 for what groups have each, 1 for what a block has.
    pub units: usize,
    /// What a unit has.
    pub fields: &'static [Field],
}

/// A format's blocks and streams. All bytes of a block are in one field.
pub struct Layout {
    /// Bytes of a block in the file.
    pub block: usize,
    /// The streams of a row.
    pub streams: &'static [Stream],
}

impl Stream {
    /// Of each piece of `blocks` blocks: where it is in the file's row, where in this stream, and how many bytes it has.
    fn pieces(&self, blocks: usize, block: usize) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let unit_bytes = self.unit_bytes();
        (0..blocks * self.units).flat_map(move |unit| {
            let (b, u) = (unit / self.units, unit % self.units);
            let mut to = unit * unit_bytes;
            self.fields.iter().map(move |f| {
                to += f.bytes;
                (b * block + f.at + u * f.bytes, to - f.bytes, f.bytes)
            })
        })
    }

    fn unit_bytes(&self) -> usize {
        self.fields.iter().map(|f| f.bytes).sum()
    }

    fn bytes(&self, blocks: usize) -> usize {
        pad16(blocks * self.units * self.unit_bytes())
    }
}

impl Layout {
    /// Bytes of a row on the GPU.
    pub fn gpu_bytes(&self, groups: usize) -> usize {
        self.streams.iter().map(|s| s.bytes(groups / GROUPS)).sum()
    }

    /// One row from the file's layout to the GPU's.
    pub fn repack(&self, groups: usize, src: &[u8], dst: &mut [u8]) {
        dst.fill(0); // the padding
        let mut start = 0;
        for stream in self.streams {
            for (from, to, bytes) in stream.pieces(groups / GROUPS, self.block) {
                dst[start + to..start + to + bytes].copy_from_slice(&src[from..from + bytes]);
            }
            start += stream.bytes(groups / GROUPS);
        }
    }

    /// One row from the GPU's layout to the file's.
    #[cfg(feature = "reference")]
    pub fn unpack(&self, groups: usize, src: &[u8]) -> Vec<u8> {
        let mut dst = vec![0; groups / GROUPS * self.block];
        let mut start = 0;
        for stream in self.streams {
            for (to, from, bytes) in stream.pieces(groups / GROUPS, self.block) {
                dst[to..to + bytes].copy_from_slice(&src[start + from..start + from + bytes]);
            }
            start += stream.bytes(groups / GROUPS);
        }
        dst
    }

    /// Decodes whole blocks: `scaled` gives a group of a block as signed bytes and what each sixteen of them are multiplied with.
    pub fn decode(&self, src: &[u8], out: &mut [f32], scaled: impl Fn(&[u8], usize) -> ([i8; GROUP], [f32; 2])) {
        for (block, out) in src.chunks_exact(self.block).zip(out.chunks_exact_mut(BLOCK)) {
            for (g, out) in out.chunks_exact_mut(GROUP).enumerate() {
                let (q, d) = scaled(block, g);
                for (i, (out, q)) in out.iter_mut().zip(q).enumerate() {
                    *out = d[i / 16] * f32::from(q);
                }
            }
        }
    }
}

/// The four functions of a format with a `LAYOUT` whose groups `scaled` gives, for [`Layout::decode`].
macro_rules! functions {
    ($layout:ident, $scaled:ident) => {
        pub fn gpu_bytes(groups: usize) -> usize {
            $layout.gpu_bytes(groups)
        }

        pub fn repack(groups: usize, src: &[u8], dst: &mut [u8]) {
            $layout.repack(groups, src, dst);
        }

        pub fn decode(src: &[u8], out: &mut [f32]) {
            $layout.decode(src, out, $scaled);
        }

        #[cfg(feature = "reference")]
        pub fn decode_gpu(groups: usize, src: &[u8], out: &mut [f32]) {
            decode(&$layout.unpack(groups, src), out);
        }
    };
}
pub(super) use functions;
