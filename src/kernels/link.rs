//! The linker: WGSL does not care about the order of declarations, so a kernel variant is its parts, one after another.

use std::borrow::Cow;

/// One file of `shaders/`, embedded. Made by [`source!`](crate::source).
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The path below `shaders/`, without `.wgsl`.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Source {}
impl std::hash::Hash for Source {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// `source!("parts/weights")` embeds `shaders/parts/weights.wgsl`.
#[macro_export]
macro_rules! source {
    ($name:literal) => {
        $crate::kernels::Source {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/", $name, ".wgsl")),
        }
    };
}

/// A part of a variant: a source, and for the second format in one kernel the prefix that replaces `qa_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Part {
    /// The file.
    pub source: Source,
    /// `"qb_"` or `"qc_"` for a second or third weight format in one kernel; `None` leaves the text as it is.
    pub prefix: Option<&'static str>,
}

impl From<Source> for Part {
    fn from(source: Source) -> Self {
        Self { source, prefix: None }
    }
}

/// Who compiles the text. Browsers demand `enable subgroups;`, native naga rejects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// wgpu's own naga.
    Native,
    /// Tint (Chromium), naga in Firefox, WebKit's.
    Browser,
}

/// A kernel and its choices. Equal variants have equal text, so pipelines are cached by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The kernel's own file.
    pub kernel: Source,
    /// What it links.
    pub parts: Vec<Part>,
    /// `const NAME: u32 = N;` lines: array sizes and what else overrides cannot give.
    pub consts: Vec<(&'static str, u32)>,
    /// WGSL `override`s: workgroup sizes and the like.
    pub overrides: Vec<(&'static str, u32)>,
    /// Needs `shader-f16`.
    pub f16: bool,
    /// Needs subgroup operations.
    pub subgroups: bool,
}

impl Variant {
    /// A variant of `kernel` with these parts, no constants, for the base tier.
    pub fn new(kernel: Source, parts: &[Source]) -> Self {
        Self {
            kernel,
            parts: parts.iter().map(|&source| source.into()).collect(),
            consts: Vec::new(),
            overrides: Vec::new(),
            f16: false,
            subgroups: false,
        }
    }

    /// With a `const NAME: u32 = value;` line.
    pub fn constant(mut self, name: &'static str, value: u32) -> Self {
        self.consts.push((name, value));
        self
    }

    /// With an override.
    pub fn set(mut self, name: &'static str, value: u32) -> Self {
        self.overrides.push((name, value));
        self
    }

    /// With one more part.
    pub fn with(mut self, part: impl Into<Part>) -> Self {
        self.parts.push(part.into());
        self
    }

    /// A readable, unique name: the kernel, its parts and its numbers. Used as file name and as pipeline label.
    pub fn label(&self) -> String {
        let mut label = self.kernel.name.to_owned();
        for part in &self.parts {
            label.push('+');
            label.push_str(part.prefix.unwrap_or(""));
            label.push_str(part.source.name.rsplit('/').next().unwrap_or_default());
        }
        for (name, value) in self.consts.iter().chain(&self.overrides) {
            label.push_str(&format!(",{}={value}", name.to_lowercase()));
        }
        label
    }

    /// The whole WGSL text.
    pub fn link(&self, target: Target) -> String {
        let mut text = format!("// {}\n", self.label());
        if self.f16 {
            text.push_str("enable f16;\n");
        }
        if self.subgroups && target == Target::Browser {
            text.push_str("enable subgroups;\n");
        }
        for (name, value) in &self.consts {
            text.push_str(&format!("const {name}: u32 = {value}u;\n"));
        }
        for part in &self.parts {
            text.push_str(&match part.prefix {
                Some(prefix) => Cow::Owned(part.source.text.replace("qa_", prefix)),
                None => Cow::Borrowed(part.source.text),
            });
            text.push('\n');
        }
        text.push_str(self.kernel.text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Source = Source { name: "k", text: "fn k() { qb_f(); }" };
    const PART: Source = Source { name: "parts/p", text: "fn qa_f() {}" };

    #[test]
    fn a_variant_is_its_parts_in_order() {
        let mut variant = Variant::new(KERNEL, &[]).constant("N", 4).with(Part { source: PART, prefix: Some("qb_") });
        variant.subgroups = true;
        assert_eq!(variant.label(), "k+qb_p,n=4");
        assert_eq!(variant.link(Target::Native), "// k+qb_p,n=4\nconst N: u32 = 4u;\nfn qb_f() {}\nfn k() { qb_f(); }");
        assert!(variant.link(Target::Browser).contains("enable subgroups;"));
    }
}
