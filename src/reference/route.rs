//! The twin of `route` and `route_single`.

use super::Memory;
use super::case::{Case, Noise};
use crate::err;
use crate::error::Result;
use crate::kernels::route::{Gating, Io, Router, Shared, route as build};
use crate::kernels::state::{DONE, N_TOKENS, STATE_BYTES, STATE_WORDS};
use crate::kernels::{Binding, Dispatch, Recording};
use crate::tensor::Tier;

/// Each token's picks, sorted by score and then by index, weights in f64.
pub fn route(d: &Dispatch, m: &mut Memory) -> Result<()> {
    let state = m.binding(d, 1)?;
    let &[experts, used, tokens, scale] = d.params.as_slice() else {
        return Err(err!(Internal, "route: {} params", d.params.len()));
    };
    if state[DONE] != 0 {
        return Ok(());
    }
    let constant = |name| d.variant.consts.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let (shared, sigmoids) = (constant("SHARED"), constant("GATING") == 1);
    let tokens = state[N_TOKENS].min(tokens) as usize;
    let (experts, used) = (experts as usize, used as usize);
    let scale = f64::from(f32::from_bits(scale));
    let row = experts + usize::from(shared == 2);
    let selection = if constant("SELECTION") == 1 { m.floats(d, 3)? } else { vec![0.0; experts] };
    let logits = m.floats(d, 2)?;
    let picks = m.binding_mut(d, 4)?;
    let sigmoid = |l: f64| 1.0 / (1.0 + (-l).exp());
    for (logits, picks) in logits.chunks(row).zip(picks.chunks_mut(2 * (used + usize::from(shared > 0)))).take(tokens) {
        let logits: Vec<f64> = logits.iter().map(|l| f64::from(*l)).collect();
        let score = |e: usize| if constant("SELECTION") == 1 { sigmoid(logits[e]) + f64::from(selection[e]) } else { logits[e] };
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
        let share = |e: usize| if sigmoids { sigmoid(logits[e]) } else { (logits[e] - logits[order[0]]).exp() };
        let total = match (constant("NORMED") == 1, sigmoids) {
            (true, _) => order[..used].iter().map(|e| share(*e)).sum(),
            (false, false) => (0..experts).map(share).sum(),
            (false, true) => 1.0,
        };
        let mut row: Vec<(usize, f64)> = order[..used].iter().map(|e| (*e, scale * share(*e) / total)).collect();
        match shared {
            1 => row.push((0, 1.0)),
            2 => row.push((0, sigmoid(logits[experts]))),
            _ => {}
        }
        for (pick, (e, weight)) in picks.chunks_mut(2).zip(row) {
            pick.copy_from_slice(&[(e as f32).to_bits(), (weight as f32).to_bits()]);
        }
    }
    Ok(())
}

/// Every way of gating, few and many experts, ties. Weights are at most 2.5, so two units in the last place; a wrong expert is off
/// by 1 at least.
pub fn cases(tier: Tier) -> Result<Vec<Case>> {
    let soft = Router { experts: 8, used: 2, gating: Gating::Softmax, normed: false, scale: 1.0, shared: Shared::None };
    let sigmoid = Router { experts: 40, used: 6, gating: Gating::Sigmoid, normed: true, scale: 2.5, shared: Shared::Always };
    Ok(vec![
        case(tier, soft, false, (1, 1), 0)?,
        case(tier, Router { normed: true, shared: Shared::Gated, experts: 60, used: 4, ..soft }, false, (17, 20), 0)?,
        case(tier, Router { experts: 512, used: 32, normed: true, ..soft }, false, (3, 3), 0)?,
        case(tier, Router { used: 8, ..soft }, false, (2, 2), 0)?,
        case(tier, sigmoid, true, (9, 9), 0)?,
        case(tier, Router { normed: false, ..sigmoid }, false, (2, 2), 0)?,
        case(tier, soft, false, (1, 1), 1)?,
    ])
}

fn case(tier: Tier, router: Router, selects: bool, tokens: (u32, u32), done: u32) -> Result<Case> {
    let mut noise = Noise(router.experts.into());
    let mut memory = Memory::default();
    let mut words = vec![0; STATE_WORDS];
    (words[DONE], words[N_TOKENS]) = (done, tokens.0);
    let state = memory.push(words);
    let row = router.logits() as usize;
    let mut floats: Vec<f32> = noise.floats(row * tokens.1 as usize).iter().map(|v| v * 6.0).collect();
    // The same largest logit twice or more, and in the last row everywhere.
    floats.chunks_mut(row).for_each(|row| row[5] = row[2]);
    if let Some(last) = floats.chunks_mut(row).last() {
        last.fill(0.25);
    }
    let logits = memory.push_f32(&floats);
    let selection = memory.push_f32(&noise.floats(router.experts as usize));
    let picks = memory.push_f32(&noise.floats((2 * router.picks() * tokens.1) as usize));
    let io = Io {
        state: Binding::read(state, 0, STATE_BYTES),
        logits: Binding::read(logits, 0, floats.len() as u64 * 4),
        selection: selects.then_some(Binding::read(selection, 0, u64::from(router.experts) * 4)),
        picks: Binding::read_write(picks, 0, u64::from(router.picks() * tokens.1) * 8),
        tokens: tokens.1,
    };
    Ok(Case {
        name: format!("route {router:?} selection={selects} T={}/{} done={done}", tokens.0, tokens.1),
        recording: Recording { dispatches: vec![build(tier, &router, io)?] },
        memory,
        outputs: vec![(picks, 1e-6)],
    })
}
