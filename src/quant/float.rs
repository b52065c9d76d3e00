//! F32, F16, BF16: the row as it is, padded to 16 bytes. A group is 8 or 4 `vec4<u32>`.

use super::GROUP;

macro_rules! float {
    ($(#[$doc:meta])* $module:ident, $bytes:literal, $to_f32:expr) => {
        $(#[$doc])*
        pub mod $module {
            use super::GROUP;

            pub fn gpu_bytes(groups: usize) -> usize {
                groups * GROUP * $bytes // 128 or 64 bytes a group: no padding
            }

            pub fn repack(_groups: usize, src: &[u8], dst: &mut [u8]) {
                dst.copy_from_slice(src);
            }

            pub fn decode(src: &[u8], out: &mut [f32]) {
                for (raw, out) in src.chunks_exact($bytes).zip(out) {
                    let mut bytes = [0; $bytes];
                    bytes.copy_from_slice(raw);
                    *out = $to_f32(bytes);
                }
            }

            #[cfg(feature = "reference")]
            pub fn decode_gpu(_groups: usize, src: &[u8], out: &mut [f32]) {
                decode(src, out);
            }
        }
    };
}

float!(f32_, 4, f32::from_le_bytes);
float!(f16_, 2, |bytes| half::f16::from_le_bytes(bytes).to_f32());
float!(bf16_, 2, |bytes| half::bf16::from_le_bytes(bytes).to_f32());
