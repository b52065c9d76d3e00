//! How matvec shares its work out: numbers that change how long it takes and nothing that is computed. There is a default
//! for every device; `engine` may measure better ones on the visitor's own.

use serde::{Deserialize, Serialize};

use crate::tensor::Tier;

/// How one matvec shares its rows out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatvecChoice {
    /// Rows that a workgroup (on a CPU adapter: an invocation) works on at once: 1, 2 or 4, and at least 2 where gate and
    /// up are worked on together.
    pub rows: u32,
    /// Invocations of a workgroup, a power of two. On a GPU they share a row's columns.
    pub invocations: u32,
}

/// The choices for the matvecs of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the block's own names
pub struct Tuning {
    pub qkv: MatvecChoice,
    pub out: MatvecChoice,
    pub gate_up: MatvecChoice,
    pub down: MatvecChoice,
    pub head: MatvecChoice,
}

/// Which matvec of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Role {
    Qkv,
    Out,
    GateUp,
    Down,
    Head,
}

impl Role {
    /// All of them, as a token meets them.
    pub const ALL: [Role; 5] = [Role::Qkv, Role::Out, Role::GateUp, Role::Down, Role::Head];
}

impl MatvecChoice {
    /// What does well anywhere, for rows of `cols` weights. CPU adapters: measured on lavapipe and SwiftShader. GPUs: no
    /// more invocations than a row has groups of 32 columns, up to 128.
    pub fn of(tier: Tier, cols: u32) -> Self {
        let invocations = if tier.cpu { 16 } else { (cols / 32).next_power_of_two().clamp(32, 128) };
        Self { rows: 4, invocations }
    }

    /// The choices worth measuring on this device for rows of `cols` weights, the default among them: on a GPU none with more
    /// invocations than a row has groups of 32 columns.
    pub fn candidates(tier: Tier, cols: u32, gated: bool) -> Vec<Self> {
        let invocations: &[u32] = match ((cols / 32).next_power_of_two(), tier.cpu) {
            (_, true) => &[8, 16, 32],
            (..=32, _) => &[32],
            (64, _) => &[32, 64],
            (128, _) => &[32, 64, 128],
            _ => &[32, 64, 128, 256],
        };
        let rows: &[u32] = if gated { &[2, 4] } else { &[1, 2, 4] };
        rows.iter().flat_map(|&rows| invocations.iter().map(move |&invocations| Self { rows, invocations })).collect()
    }

    /// Whether a kernel can be made of it: a stored choice may be anything.
    fn is_valid(self, gated: bool) -> bool {
        [1, 2, 4].contains(&self.rows)
            && self.rows > u32::from(gated)
            && self.invocations.is_power_of_two()
            && (4..=256).contains(&self.invocations)
    }
}

impl Tuning {
    /// The defaults of a model whose rows have these many weights (of the residual stream, attention's output and the
    /// feed-forward).
    pub fn of(tier: Tier, n_embd: u32, attention: u32, n_ff: u32) -> Self {
        let of = |cols| MatvecChoice::of(tier, cols);
        Self { qkv: of(n_embd), out: of(attention), gate_up: of(n_embd), down: of(n_ff), head: of(n_embd) }
    }

    /// The choice for a role.
    pub fn get(&self, role: Role) -> MatvecChoice {
        match role {
            Role::Qkv => self.qkv,
            Role::Out => self.out,
            Role::GateUp => self.gate_up,
            Role::Down => self.down,
            Role::Head => self.head,
        }
    }

    /// With another choice for a role.
    pub fn with(mut self, role: Role, choice: MatvecChoice) -> Self {
        *match role {
            Role::Qkv => &mut self.qkv,
            Role::Out => &mut self.out,
            Role::GateUp => &mut self.gate_up,
            Role::Down => &mut self.down,
            Role::Head => &mut self.head,
        } = choice;
        self
    }

    /// Whether kernels can be made of all of it.
    pub fn is_valid(&self) -> bool {
        Role::ALL.iter().all(|role| self.get(*role).is_valid(*role == Role::GateUp))
    }
}
