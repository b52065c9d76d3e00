//! Questions for the attention kernels. Blocks are scattered over the pool, and every slot that a query must not see
//! (later positions, what fell out of the window, other blocks) holds a number large enough to spoil the answer.

use half::f16;

use super::Memory;
use super::case::{Case, Noise};
use crate::error::Result;
use crate::kernels::attention::{AttentionBuffers, AttentionShape, KV_BLOCK, KvType, Rope, Splits};
use crate::kernels::attention_decode::attention_decode;
use crate::kernels::attention_prefill::{FIRST, attention_prefill};
use crate::kernels::kv_append::kv_append;
use crate::kernels::{Binding, BufferId, Recording, cut};
use crate::tensor::Tier;

/// The largest absolute error of an output whose values lie in -1..1, given the pool; and where the kernel itself stores
/// keys as f16: some lie so near the middle between two f16 that f32 and f64 round them apart.
const TOLERANCE: f32 = 2e-5;
const TOLERANCE_F16: f32 = 5e-4;
/// Of what rotation and norm make (values up to about 4).
const TOLERANCE_QK: f32 = 1e-5;
/// What no query may see.
const POISON: f32 = 1e4;

const SMOLLM2: AttentionShape = AttentionShape {
    n_heads: 9,
    n_kv_heads: 3,
    head_dim: 64,
    scale: 0.5, // four times the usual, so that noise gives a softmax with a few large weights
    rope: Rope::Interleaved,
    rot_dim: 64,
    window: 0,
    softcap: 0.0,
    qk_norm_eps: None,
    sinks: false,
    causal: true,
    kv: KvType::F32,
};
const F16: AttentionShape = AttentionShape { kv: KvType::F16, ..SMOLLM2 };

/// Of the token in decode.
type Positions = &'static [u32];
/// (pos, tokens) in prefill.
type Chunks = &'static [(u32, u32)];

/// Shapes after models, so that every head size, group, rotation and option occurs.
fn shapes() -> Vec<(&'static str, AttentionShape, Positions, Chunks)> {
    let gemma = AttentionShape {
        n_heads: 4,
        n_kv_heads: 1,
        head_dim: 256,
        scale: 0.0625, // its normed q and k are large
        rope: Rope::Neox,
        rot_dim: 256,
        qk_norm_eps: Some(1e-6),
        ..SMOLLM2
    };
    let with =
        |n_heads, n_kv_heads, head_dim, rope, rot_dim| AttentionShape { n_heads, n_kv_heads, head_dim, rope, rot_dim, ..SMOLLM2 };
    vec![
        ("smollm2", SMOLLM2, &[0, 1, 30, 31, 32, 257, 1000], &[(0, 1), (0, 31), (0, 33), (31, 64), (257, 33), (1000, 2)]),
        ("smollm2-f16", F16, &[0, 31, 32, 257, 1000], &[(0, 64), (37, 33), (300, 70)]),
        ("gemma3", gemma, &[0, 33, 300], &[(0, 33), (65, 31)]),
        ("gemma3-window", AttentionShape { window: 20, ..gemma }, &[5, 19, 20, 21, 64, 300], &[(0, 33), (65, 31), (100, 64)]),
        ("gemma2-softcap", AttentionShape { softcap: 3.0, window: 100, ..gemma }, &[1, 101, 257], &[(90, 40)]),
        ("gemma3-f16", AttentionShape { kv: KvType::F16, window: 33, ..gemma }, &[0, 31, 90], &[(60, 33)]),
        ("mqa-sinks", AttentionShape { sinks: true, ..with(8, 1, 256, Rope::Neox, 256) }, &[40], &[(31, 33)]),
        ("qwen3", AttentionShape { qk_norm_eps: Some(1e-6), ..with(4, 2, 128, Rope::Neox, 128) }, &[0, 100], &[(3, 64)]),
        ("qwen2-sinks", AttentionShape { sinks: true, ..with(14, 2, 64, Rope::Neox, 64) }, &[70], &[(31, 33)]),
        ("group16", with(16, 1, 128, Rope::Interleaved, 128), &[70], &[(31, 33)]),
        ("phi2", with(4, 4, 80, Rope::Neox, 32), &[70], &[(31, 33)]),
        ("stablelm", with(2, 2, 80, Rope::Neox, 20), &[70], &[(31, 33)]),
        ("partial", with(6, 2, 96, Rope::Interleaved, 46), &[70], &[(31, 33)]),
        ("small-head", with(4, 2, 32, Rope::Interleaved, 32), &[0, 31, 130], &[]),
        ("not-causal", AttentionShape { causal: false, ..with(4, 2, 32, Rope::Interleaved, 32) }, &[], &[(0, 31), (31, 65)]),
        ("odd-head", AttentionShape { window: 7, ..with(3, 3, 40, Rope::None, 0) }, &[6, 7, 70], &[(0, 3), (31, 33)]),
    ]
}

/// The buffers of one question.
struct Scene {
    shape: AttentionShape,
    memory: Memory,
    buffers: AttentionBuffers,
}

fn whole(memory: &Memory, id: BufferId) -> Binding {
    Binding::read(id, 0, memory.words(id).len() as u64 * 4)
}

impl Scene {
    /// A pass of `tokens` tokens at `pos`; positions up to `filled` are in the pool.
    fn new(shape: AttentionShape, pos: u32, tokens: u32, filled: u32) -> Self {
        let mut noise = Noise(u64::from(pos) << 32 | u64::from(tokens) << 16 | u64::from(shape.head_dim));
        let mut memory = Memory::default();
        let context = pos + tokens + 8;
        let n_blocks = context.div_ceil(KV_BLOCK);
        let state = push(&mut memory, state(pos, tokens));
        let qkv = noise.floats((u64::from(tokens) * shape.qkv_len()) as usize);
        let qkv = push_f32(&mut memory, &qkv);
        let weights: Vec<f32> = noise.floats(2 * shape.head_dim as usize).iter().map(|w| 1.0 + 0.5 * w).collect();
        let qk_norm = shape.qk_norm_eps.map(|_| push_f32(&mut memory, &weights));
        let rope = (shape.rope != Rope::None).then(|| push_f32(&mut memory, &rope_table(context, shape.rot_dim)));
        // Block b lies at the physical block that a fixed permutation of a pool with three more gives it.
        let physical = n_blocks + 3;
        let table: Vec<u32> = (0..n_blocks).map(|b| (b * 5 + 2) % physical).collect();
        let table = if physical.is_multiple_of(5) { (0..n_blocks).rev().collect() } else { table };
        let row = (shape.n_kv_heads * shape.head_dim) as usize;
        let mut pool = vec![POISON; physical as usize * 2 * KV_BLOCK as usize * row];
        let first = if shape.window == 0 { 0 } else { (pos + 1).saturating_sub(shape.window) };
        for at in first..filled {
            for kv_head in 0..shape.n_kv_heads {
                for value in 0..2 {
                    let plane = (2 * table[(at / KV_BLOCK) as usize] + value) * shape.n_kv_heads + kv_head;
                    let start = ((plane * KV_BLOCK + at % KV_BLOCK) * shape.head_dim) as usize;
                    pool[start..start + shape.head_dim as usize].copy_from_slice(&noise.floats(shape.head_dim as usize));
                }
            }
        }
        let kv = match shape.kv {
            KvType::F32 => push_f32(&mut memory, &pool),
            KvType::F16 => {
                let half = |x: f32| u32::from(f16::from_f32(x).to_bits());
                push(&mut memory, pool.chunks_exact(2).map(|pair| half(pair[0]) | half(pair[1]) << 16).collect())
            }
        };
        let blocks = push(&mut memory, table);
        // As high as the scores are.
        let sinks = noise.floats(shape.n_heads as usize).iter().map(|s| 8.0 * s).collect::<Vec<_>>();
        let sinks = shape.sinks.then(|| push_f32(&mut memory, &sinks));
        let att = push_f32(&mut memory, &vec![POISON; (tokens * shape.n_heads * shape.head_dim) as usize]);
        let buffers = AttentionBuffers { state, qkv, qk_norm, rope, kv, blocks, sinks, att, parts: att };
        Self { shape, memory, buffers }
    }

    fn case(self, name: String, recording: Recording, outputs: Vec<(Binding, f32)>) -> Case {
        let outputs = outputs.into_iter().map(|(binding, tolerance)| (binding.buffer, tolerance)).collect();
        Case { name, recording, memory: self.memory, outputs }
    }

    fn tolerance(&self) -> f32 {
        if self.shape.kv == KvType::F16 { TOLERANCE_F16 } else { TOLERANCE }
    }
}

fn state(pos: u32, tokens: u32) -> Vec<u32> {
    let mut words = vec![0; 64];
    (words[1], words[2]) = (pos, tokens);
    words
}

fn push(memory: &mut Memory, words: Vec<u32>) -> Binding {
    let id = memory.push(words);
    whole(memory, id)
}

fn push_f32(memory: &mut Memory, floats: &[f32]) -> Binding {
    let id = memory.push_f32(floats);
    whole(memory, id)
}

fn rope_table(context: u32, rot_dim: u32) -> Vec<f32> {
    let turn = |pos: u32, pair: u32| f64::from(pos) * 10_000f64.powf(-2.0 * f64::from(pair) / f64::from(rot_dim));
    let pairs = (0..context).flat_map(|pos| (0..rot_dim / 2).map(move |pair| turn(pos, pair)));
    pairs.flat_map(|angle| [angle.cos() as f32, angle.sin() as f32]).collect()
}

/// Decode over more than one split, the first of a shape in `shapes`: positions at the ends of spans, windows across
/// splits, splits that are not reached, groups of more than one workgroup.
const SPLITS: [(&str, Splits, Positions); 6] = [
    ("smollm2", Splits { count: 17, span: 64 }, &[0, 31, 62, 63, 128, 1000]),
    ("smollm2-f16", Splits { count: 8, span: 256 }, &[254, 256, 1000]),
    ("gemma3-window", Splits { count: 2, span: 32 }, &[5, 30, 31, 50, 51, 300]),
    ("gemma2-softcap", Splits { count: 3, span: 64 }, &[62, 130, 257]),
    ("mqa-sinks", Splits { count: 3, span: 32 }, &[31, 64]),
    ("odd-head", Splits { count: 2, span: 32 }, &[6, 31, 33, 70]),
];

/// Decode over all shapes in one split, and over some in more.
pub(super) fn decode(tier: Tier) -> Result<Vec<Case>> {
    let shapes = shapes();
    let mut cases = Vec::new();
    for (name, shape, positions, _) in &shapes {
        for pos in *positions {
            cases.push(decode_case(tier, name, *shape, *pos, Splits::ONE)?);
        }
    }
    for (name, splits, positions) in SPLITS {
        let shape = shapes.iter().find(|s| s.0 == name).map_or(SMOLLM2, |s| s.1);
        for pos in positions {
            cases.push(decode_case(tier, name, shape, *pos, splits)?);
        }
    }
    Ok(cases)
}

/// Two decode steps, one after another: the second reads from the pool what the first appended.
fn decode_case(tier: Tier, name: &str, shape: AttentionShape, pos: u32, splits: Splits) -> Result<Case> {
    let mut scene = Scene::new(shape, pos, 1, pos);
    if splits.count > 1 {
        let floats = shape.parts_bytes(splits) as usize / 4;
        scene.buffers.parts = push_f32(&mut scene.memory, &vec![POISON; floats]);
    }
    let next = Scene::new(shape, pos + 1, 1, pos + 1);
    let mut second = scene.buffers;
    second.state = push(&mut scene.memory, state(pos + 1, 1));
    second.qkv = push(&mut scene.memory, next.memory.words(next.buffers.qkv.buffer).to_vec());
    second.att = push(&mut scene.memory, next.memory.words(next.buffers.att.buffer).to_vec());
    let mut dispatches = attention_decode(tier, &shape, &scene.buffers, splits)?;
    dispatches.extend(attention_decode(tier, &shape, &second, splits)?);
    let tolerance = scene.tolerance();
    let mut outputs = vec![(scene.buffers.att, tolerance), (second.att, tolerance)];
    if shape.kv == KvType::F32 {
        outputs.push((scene.buffers.kv, TOLERANCE_QK));
    }
    let name = format!("attention_decode {name} pos {pos} splits {}", splits.count);
    Ok(scene.case(name, Recording { dispatches }, outputs))
}

/// Appends a chunk. An f16 pool cannot be compared as floats, so that there the chunk's attention is compared.
pub(super) fn append(tier: Tier) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, shape, _, chunks) in shapes() {
        for &(pos, tokens) in chunks {
            let scene = Scene::new(shape, pos, tokens, pos);
            let b = scene.buffers;
            let bucket = tokens.next_multiple_of(64);
            let mut dispatches = vec![kv_append(tier, &shape, &b, bucket)];
            let mut outputs = vec![(b.qkv, TOLERANCE_QK)];
            match shape.kv {
                KvType::F32 => outputs.push((b.kv, TOLERANCE_QK)),
                KvType::F16 => {
                    dispatches.extend(attention_prefill(tier, &shape, &b, bucket)?);
                    outputs.push((b.att, TOLERANCE_F16));
                }
            }
            cases.push(scene.case(format!("kv_append {name} pos {pos} tokens {tokens}"), Recording { dispatches }, outputs));
        }
    }
    Ok(cases)
}

/// Attends over a pool that is there.
pub(super) fn prefill(tier: Tier) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, shape, _, chunks) in shapes() {
        for &(pos, tokens) in chunks {
            let scene = Scene::new(shape, pos, tokens, pos + tokens);
            let mut dispatches = attention_prefill(tier, &shape, &scene.buffers, tokens.next_multiple_of(64))?;
            if tokens > 60 {
                // In slices, each on its own.
                dispatches = cut(&dispatches[0], FIRST, 3);
                dispatches.iter_mut().for_each(|slice| slice.continues = false);
            }
            let outputs = vec![(scene.buffers.att, TOLERANCE)];
            let name = format!("attention_prefill {name} pos {pos} tokens {tokens}");
            cases.push(scene.case(name, Recording { dispatches }, outputs));
        }
    }
    Ok(cases)
}
