//! The twin of `delta_net` and `delta_net_cpu`.

use super::Memory;
use super::case::{Case, Noise};
use super::short_conv::silu;
use crate::err;
use crate::error::Result;
use crate::kernels::delta_net::{DeltaNet, Io, delta_net as build};
use crate::kernels::state::{DONE, N_TOKENS, POS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, Dispatch, Recording};
use crate::tensor::Tier;

/// The delta rule as it is written down, token after token, in f64.
pub fn delta_net(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[tokens, stride, eps, first, _, _] = d.params.as_slice() else {
        return Err(err!(Internal, "delta_net: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let (tokens, fresh) = (state[N_TOKENS].min(tokens) as usize, state[POS] == 0);
    let (stride, eps) = (stride as usize, f64::from(f32::from_bits(eps)));
    let constant = |name: &str| d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1) as usize;
    let (key_heads, value_heads) = (constant("KEY_HEADS"), constant("VALUE_HEADS"));
    let (key_width, value_width) = (constant("KEY_WIDTH"), constant("VALUE_WIDTH"));
    let (keys, values) = (key_heads * key_width, value_heads * value_width);
    let channels = 2 * keys + values;
    let (qkv, rows, of_heads, before) = (m.floats(d, 2)?, m.floats(d, 3)?, m.floats(d, 4)?, m.floats(d, 5)?);
    let (qkv, rows, of_heads) = (wide(&qkv), wide(&rows), wide(&of_heads));
    for head in (first as usize..value_heads).take(d.workgroups[1] as usize) {
        let key_head = match constant("GROUPED") {
            1 => head / (value_heads / key_heads),
            _ => head % key_heads,
        };
        let size = key_width * value_width;
        let mut s = if fresh { vec![0.0; size] } else { wide(&before[head * size..(head + 1) * size]) };
        for t in 0..tokens {
            let at = t * channels;
            let unit = |x: &[f64]| -> Vec<f64> {
                let length = (x.iter().map(|v| v * v).sum::<f64>() + 1e-6).sqrt();
                x.iter().map(|v| v / length).collect()
            };
            let q = unit(&qkv[at + key_head * key_width..][..key_width]);
            let k = unit(&qkv[at + keys + key_head * key_width..][..key_width]);
            let v = &qkv[at + 2 * keys + head * value_width..][..value_width];
            let z = &rows[t * stride + channels + head * value_width..][..value_width];
            let scalars = &rows[t * stride + channels + values..];
            let beta = 1.0 / (1.0 + (-scalars[head]).exp());
            let decay = (of_heads[head] * (scalars[value_heads + head] + of_heads[value_heads + head]).exp().ln_1p()).exp();
            let mut o = vec![0.0; value_width];
            for (j, o) in o.iter_mut().enumerate() {
                let column = |i: usize| i * value_width + j;
                let known: f64 = (0..key_width).map(|i| decay * s[column(i)] * k[i]).sum();
                for i in 0..key_width {
                    s[column(i)] = decay * s[column(i)] + k[i] * beta * (v[j] - known);
                }
                *o = (0..key_width).map(|i| s[column(i)] * q[i]).sum::<f64>() / (key_width as f64).sqrt();
            }
            let mean = o.iter().map(|v| v * v).sum::<f64>() / value_width as f64;
            for (j, o) in o.iter().enumerate() {
                let y = o / (mean + eps).sqrt() * of_heads[2 * value_heads + j] * silu(z[j]);
                m.binding_mut(d, 6)?[t * values + head * value_width + j] = (y as f32).to_bits();
            }
        }
        for (slot, s) in m.binding_mut(d, 5)?[head * size..].iter_mut().zip(&s) {
            *slot = (*s as f32).to_bits();
        }
    }
    Ok(())
}

fn wide(floats: &[f32]) -> Vec<f64> {
    floats.iter().map(|v| f64::from(*v)).collect()
}

/// Heads in both orders, at the start of a sequence (with NaN in what must not be read) and later, widths that share no
/// factor with the workgroup, the widest, and Qwen 3.5's.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let small = DeltaNet { key_heads: 2, value_heads: 4, key_width: 32, value_width: 32, grouped: false, eps: 1e-6 };
    Ok(vec![
        case(tier, small, (0, 5), 6, 0)?,
        case(tier, DeltaNet { grouped: true, ..small }, (9, 1), 1, 0)?,
        case(tier, DeltaNet { value_heads: 2, key_width: 20, value_width: 44, ..small }, (3, 34), 64, 0)?,
        case(tier, DeltaNet { key_heads: 1, value_heads: 2, key_width: 128, value_width: 128, ..small }, (1, 3), 3, 0)?,
        case(tier, DeltaNet { key_heads: 1, value_heads: 1, key_width: 256, value_width: 256, ..small }, (0, 2), 2, 0)?,
        case(tier, small, (1, 2), 2, 1)?,
    ])
}

fn case(tier: Tier, shape: DeltaNet, (pos, n): (u32, u32), tokens: u32, done: u32) -> Result<Case> {
    let mut noise = Noise(u64::from(shape.key_width + 3 * shape.value_heads));
    let mut memory = Memory::default();
    let mut words = vec![0; STATE_WORDS];
    (words[DONE], words[POS], words[N_TOKENS]) = (done, pos, n);
    let state = memory.push(words);
    let qkv = memory.push_f32(&noise.floats((tokens * shape.channels()) as usize));
    let rows = memory.push_f32(&noise.floats((tokens * shape.projected()) as usize));
    // a is negative: a memory fades.
    let of_heads = noise.floats(shape.of_heads_len() as usize).into_iter().enumerate();
    let heads = shape.value_heads as usize;
    let of_heads: Vec<f32> = of_heads.map(|(i, v)| if i < heads { -v.abs() } else { v }).collect();
    let of_heads = memory.push_f32(&of_heads);
    let kept = shape.memory_len() as usize;
    let kept = if pos == 0 { vec![f32::NAN; kept] } else { noise.floats(kept) };
    let kept = memory.push_f32(&kept);
    let out = memory.push_f32(&noise.floats((tokens * shape.values()) as usize));
    let io = Io {
        state: Binding::read(state, 0, STATE_BYTES),
        qkv: Binding::read(qkv, 0, u64::from(tokens * shape.channels()) * 4),
        rows: Binding::read(rows, 0, u64::from(tokens * shape.projected()) * 4),
        of_heads: Binding::read(of_heads, 0, shape.of_heads_len() * 4),
        memory: Binding::read_write(kept, 0, shape.memory_len() * 4),
        out: Binding::read_write(out, 0, u64::from(tokens * shape.values()) * 4),
        tokens,
    };
    let DeltaNet { key_heads, value_heads, key_width, value_width, grouped, .. } = shape;
    Ok(Case {
        name: format!(
            "delta_net {key_heads}/{value_heads}x{key_width}/{value_width} grouped={grouped} pos={pos} T={n}/{tokens} done={done}"
        ),
        recording: Recording { dispatches: build(tier, &shape, io)? },
        memory,
        outputs: vec![(out, 1e-5), (kept, 2e-6)],
    })
}
