// What the attention kernels share: their parameters, the places of heads in `qkv` and of rows in the KV pool,
// which keys a query sees, and the score.
// From the linker: N_HEADS, N_KV_HEADS, HEAD_DIM (a multiple of 8), CAUSAL (0: queries of a prefill pass see all its keys). A kernel declares `state` and `params: Params`.

struct Params {
    scale: f32,   // of q·k
    softcap: f32, // 0: none
    eps: f32,     // of the RMS norm of q and k
    window: u32,  // 0: none; else a query at p sees the keys at (p - window, p]
    d4: u32,      // D4 again, for loops that a driver must not unroll: lavapipe took minutes over them, for no speed
    span: u32,    // decode: keys of a split, a multiple of KV_BLOCK
    splits: u32,  // decode: splits of a head's keys, those beyond the position among them
    first: u32,   // attention_prefill: the first of the workgroups that this slice of the dispatch takes
}

const D4: u32 = HEAD_DIM / 4u;                         // a head, in vec4
const GROUP: u32 = N_HEADS / N_KV_HEADS;               // query heads that share a key/value head
const QKV4: u32 = (N_HEADS + 2u * N_KV_HEADS) * D4;    // a token's q | k | v, in vec4
const KV_BLOCK: u32 = 32u;                             // positions in a block of the pool
const V_OFFSET: u32 = N_KV_HEADS * KV_BLOCK * D4;      // from a key to its value, in vec4

// Where the key of (physical block, kv head, slot in the block) starts, in vec4.
fn key_row(block: u32, kv_head: u32, slot: u32) -> u32 {
    return ((block * 2u * N_KV_HEADS + kv_head) * KV_BLOCK + slot) * D4;
}

// The first position that a query at `pos` sees.
fn first_key(pos: u32) -> u32 {
    return select(0u, pos + 1u - params.window, params.window != 0u && pos >= params.window);
}

// The last positions that queries at `pos` see in a prefill pass that ends before `end`.
fn last_keys(pos: vec4<u32>, end: u32) -> vec4<u32> {
    return select(pos, vec4<u32>(end - 1u), CAUSAL == 0u);
}

// Decode's splits lie one after another from the first block in sight on. Those up to the new key's have one key at least
// to see; those behind it have none, and nothing to do.
fn first_block_key(pos: u32) -> u32 {
    return first_key(pos) & ~(KV_BLOCK - 1u);
}

fn last_split(pos: u32) -> u32 {
    return (pos - first_block_key(pos)) / params.span;
}

// tanh's argument is clamped: SwiftShader's tanh(90) is NaN.
fn capped4(s: vec4<f32>) -> vec4<f32> {
    if (params.softcap == 0.0) {
        return s;
    }
    return params.softcap * tanh(clamp(s / params.softcap, vec4<f32>(-15.0), vec4<f32>(15.0)));
}

// Stands for minus infinity: of two of them the difference is 0, not NaN.
const NEVER: f32 = -3.0e38;
