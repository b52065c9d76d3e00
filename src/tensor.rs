//! Plain data that every floor above shares: the weight formats that GGUF names, and the device [`Tier`].
//! It knows sizes and names; it never touches bytes or devices.

/// A tensor's element type, as GGUF numbers it (ggml's `ggml_type`). All formats in use are named, so that a file
/// can be measured and an error can name what it found; which of them can be computed is [`crate::quant`]'s to say.
#[allow(non_camel_case_types, missing_docs)] // the field's own names
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Format {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q8_1 = 9,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    Q8_K = 15,
    IQ2_XXS = 16,
    IQ2_XS = 17,
    IQ3_XXS = 18,
    IQ1_S = 19,
    IQ4_NL = 20,
    IQ3_S = 21,
    IQ2_S = 22,
    IQ4_XS = 23,
    I8 = 24,
    I16 = 25,
    I32 = 26,
    I64 = 27,
    F64 = 28,
    IQ1_M = 29,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
    NVFP4 = 40,
    Q1_0 = 41,
    Q2_0 = 42,
}

impl Format {
    /// Every format, its name, the weights in one block and the bytes of one block (ggml's `type_traits`).
    pub const TABLE: &'static [(Format, &'static str, u32, u32)] = &[
        (Format::F32, "F32", 1, 4),
        (Format::F16, "F16", 1, 2),
        (Format::Q4_0, "Q4_0", 32, 18),
        (Format::Q4_1, "Q4_1", 32, 20),
        (Format::Q5_0, "Q5_0", 32, 22),
        (Format::Q5_1, "Q5_1", 32, 24),
        (Format::Q8_0, "Q8_0", 32, 34),
        (Format::Q8_1, "Q8_1", 32, 36),
        (Format::Q2_K, "Q2_K", 256, 84),
        (Format::Q3_K, "Q3_K", 256, 110),
        (Format::Q4_K, "Q4_K", 256, 144),
        (Format::Q5_K, "Q5_K", 256, 176),
        (Format::Q6_K, "Q6_K", 256, 210),
        (Format::Q8_K, "Q8_K", 256, 292),
        (Format::IQ2_XXS, "IQ2_XXS", 256, 66),
        (Format::IQ2_XS, "IQ2_XS", 256, 74),
        (Format::IQ3_XXS, "IQ3_XXS", 256, 98),
        (Format::IQ1_S, "IQ1_S", 256, 50),
        (Format::IQ4_NL, "IQ4_NL", 32, 18),
        (Format::IQ3_S, "IQ3_S", 256, 110),
        (Format::IQ2_S, "IQ2_S", 256, 82),
        (Format::IQ4_XS, "IQ4_XS", 256, 136),
        (Format::I8, "I8", 1, 1),
        (Format::I16, "I16", 1, 2),
        (Format::I32, "I32", 1, 4),
        (Format::I64, "I64", 1, 8),
        (Format::F64, "F64", 1, 8),
        (Format::IQ1_M, "IQ1_M", 256, 56),
        (Format::BF16, "BF16", 1, 2),
        (Format::TQ1_0, "TQ1_0", 256, 54),
        (Format::TQ2_0, "TQ2_0", 256, 66),
        (Format::MXFP4, "MXFP4", 32, 17),
        (Format::NVFP4, "NVFP4", 64, 36),
        (Format::Q1_0, "Q1_0", 128, 18),
        (Format::Q2_0, "Q2_0", 64, 18),
    ];

    /// The format with this GGUF number, or `None` where the number is unknown.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::TABLE.iter().map(|row| row.0).find(|format| *format as u32 == id)
    }

    fn row(self) -> (Format, &'static str, u32, u32) {
        // Every variant has a row (tested), so the fallback is never taken.
        Self::TABLE.iter().copied().find(|row| row.0 == self).unwrap_or((self, "?", 1, 0))
    }

    /// The field's own name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Weights in one block; a row holds a whole number of blocks.
    pub fn block_len(self) -> u64 {
        u64::from(self.row().2)
    }

    /// Bytes of one block in the file.
    pub fn block_bytes(self) -> u64 {
        u64::from(self.row().3)
    }
}

/// What the device can do, decided once at start by `gpu` and handed down: kernels choose their variants by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tier {
    /// The adapter is a CPU (lavapipe, SwiftShader): kernels take variants without barriers, or with few of them, since
    /// a matvec with barriers costs such an adapter 6 to 22 times one without.
    pub cpu: bool,
    /// `shader-f16` may be used.
    pub f16: bool,
    /// Subgroup operations may be used; their size is known only at run time.
    pub subgroups: bool,
    /// Activations may be rounded to bytes, since the load asked for `precision: "fast"`, and the device multiplies packed bytes
    /// (`packed_4x8_integer_dot_product`). Answers change with it, so no device has it of its own accord.
    pub packed_dot: bool,
    /// The largest storage binding in bytes; bigger tensors are split by rows. At least 128 MiB.
    pub max_binding_bytes: u64,
}

impl Tier {
    /// The base that every kernel must run on: f32, no subgroups, 128 MiB bindings.
    pub const BASE: Tier = Tier { cpu: false, f16: false, subgroups: false, packed_dot: false, max_binding_bytes: 128 << 20 };

    /// For people and reports: `base`, or what is above it, such as `cpu+f16+subgroup+int8`.
    pub fn name(self) -> String {
        let above = [(self.f16, "f16"), (self.subgroups, "subgroup"), (self.packed_dot, "int8")];
        let base = !(self.f16 || self.subgroups);
        let words = [(self.cpu, "cpu"), (base, "base")].into_iter().chain(above);
        words.filter(|w| w.0).map(|w| w.1).collect::<Vec<_>>().join("+")
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, Tier};

    #[test]
    fn every_format_is_found_by_its_number() {
        for (format, name, block_len, block_bytes) in Format::TABLE {
            assert_eq!(Format::from_id(*format as u32), Some(*format));
            assert_eq!(
                (format.name(), format.block_len(), format.block_bytes()),
                (*name, u64::from(*block_len), u64::from(*block_bytes))
            );
        }
        assert_eq!(Format::from_id(4), None, "Q4_2 was removed from ggml");
        assert_eq!(Format::from_id(u32::MAX), None);
    }

    #[test]
    fn tiers_are_named_by_what_they_have() {
        let cpu = Tier { cpu: true, ..Tier::BASE };
        assert_eq!((Tier::BASE.name(), cpu.name()), ("base".into(), "cpu+base".into()));
        assert_eq!(Tier { f16: true, subgroups: true, ..cpu }.name(), "cpu+f16+subgroup");
        assert_eq!(Tier { packed_dot: true, ..Tier::BASE }.name(), "base+int8");
        assert_eq!(Tier { packed_dot: true, subgroups: true, ..cpu }.name(), "cpu+subgroup+int8");
    }
}
