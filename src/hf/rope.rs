//! What a configuration says of rotary embeddings. Two spellings are in use: `rope_theta` and `rope_scaling` side by side, and
//! both in `rope_parameters`, which newer versions write, one for each kind of layer where they differ.

use super::json::Json;
use crate::err;
use crate::error::Result;
use crate::gguf::Value;

/// The most factors: half the widest head in use, eight times over.
const MAX_FACTORS: usize = 1 << 12;

/// A rope as metadata, and tensors of factors that go with it.
#[derive(Default)]
pub(super) struct Rope {
    /// Keys without the architecture's name, and values.
    pub keys: Vec<(&'static str, Value)>,
    /// Names and values of tensors.
    pub tensors: Vec<(&'static str, Vec<f32>)>,
}

/// Reads the rope of all layers, or of those without a window; `rot_dim`: how many elements of a head are turned.
///
/// # Errors
/// `unsupported-architecture` for a kind of scaling that has no place in GGUF metadata, `bad-file` for numbers that make no sense.
pub(super) fn read(config: Json<'_>, rot_dim: u32, context: u32) -> Result<Rope> {
    let mut rope = Rope::default();
    let theta = config.f32(&["rope_parameters.full_attention.rope_theta", "rope_parameters.rope_theta", "rope_theta"])?;
    if let Some(theta) = theta {
        rope.keys.push(("rope.freq_base", Value::F32(theta)));
    }
    if let Some(theta) = config.f32(&["rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq"])? {
        rope.keys.push(("rope.freq_base_swa", Value::F32(theta)));
    }
    let places = ["rope_parameters.full_attention", "rope_parameters", "rope_scaling"];
    let scaling = config.first(&places).map(|(_, value)| Json { value, ..config });
    let Some(scaling) = scaling else { return Ok(rope) };
    let kind = match scaling.string("rope_type")? {
        Some(kind) => kind,
        None => scaling.string("type")?.unwrap_or("default"),
    };
    let need = |what: &str| -> Result<f32> {
        let found = scaling.f32(&[what])?.filter(|n| *n > 0.0);
        found.ok_or_else(|| err!(BadFile, "config.json: rope of type {kind:.20}: expected a positive {what}, found none"))
    };
    let original = || scaling.u32(&["original_max_position_embeddings"]);
    match kind {
        "default" => {}
        "linear" => {
            rope.keys.push(("rope.scaling.type", Value::String("linear".into())));
            rope.keys.push(("rope.scaling.factor", Value::F32(need("factor")?)));
        }
        "yarn" => {
            rope.keys.push(("rope.scaling.type", Value::String("yarn".into())));
            rope.keys.push(("rope.scaling.factor", Value::F32(need("factor")?)));
            rope.keys.push(("rope.scaling.original_context_length", Value::U32(original()?.unwrap_or(context))));
            for (key, name) in [("rope.scaling.yarn_beta_fast", "beta_fast"), ("rope.scaling.yarn_beta_slow", "beta_slow")] {
                if let Some(beta) = scaling.f32(&[name])? {
                    rope.keys.push((key, Value::F32(beta)));
                }
            }
            for unknown in ["mscale", "mscale_all_dim", "attention_factor"] {
                if scaling.get(unknown).is_some() {
                    return Err(err!(UnsupportedArchitecture, "config.json: yarn with {unknown} is not supported"));
                }
            }
        }
        "llama3" => {
            let factors = llama3(
                theta.unwrap_or(10_000.0),
                rot_dim,
                [need("factor")?, need("low_freq_factor")?, need("high_freq_factor")?, need("original_max_position_embeddings")?],
            )?;
            rope.tensors.push(("rope_freqs.weight", factors));
        }
        "longrope" | "su" => {
            let original = original()?.or(config.u32(&["original_max_position_embeddings"])?);
            let original = original.filter(|n| *n > 1).ok_or_else(|| {
                err!(BadFile, "config.json: rope of type longrope: expected original_max_position_embeddings, found none")
            })?;
            rope.keys.push(("rope.scaling.original_context_length", Value::U32(original)));
            let stretch = f64::from(context) / f64::from(original);
            let factor = if stretch > 1.0 { (1.0 + stretch.ln() / f64::from(original).ln()).sqrt() } else { 1.0 };
            rope.keys.push(("rope.scaling.attn_factor", Value::F32(factor as f32)));
            for (tensor, name) in [("rope_factors_long.weight", "long_factor"), ("rope_factors_short.weight", "short_factor")] {
                let factors = scaling.floats(name, MAX_FACTORS)?.filter(|f| f.len() == rot_dim as usize / 2);
                let wrong = || err!(BadFile, "config.json: rope of type longrope: expected {} numbers in {name}", rot_dim / 2);
                rope.tensors.push((tensor, factors.ok_or_else(wrong)?));
            }
        }
        other => return Err(err!(UnsupportedArchitecture, "config.json: rope of type {other:.50} is not supported")),
    }
    Ok(rope)
}

/// What divides each frequency by Llama 3's rule: nothing for short waves, the factor for long ones, between them a blend.
fn llama3(theta: f32, rot_dim: u32, [factor, low, high, original]: [f32; 4]) -> Result<Vec<f32>> {
    if rot_dim as usize / 2 > MAX_FACTORS || high <= low {
        return Err(err!(
            BadFile,
            "config.json: rope of type llama3: expected at most {MAX_FACTORS} factors and a high_freq_factor above the low one"
        ));
    }
    let frequency = |i: u32| f64::from(theta).powf(-2.0 * f64::from(i) / f64::from(rot_dim));
    let (factor, low, high, original) = (f64::from(factor), f64::from(low), f64::from(high), f64::from(original));
    let divisor = |i: u32| {
        let wave = std::f64::consts::TAU / frequency(i);
        if wave < original / high {
            return 1.0;
        }
        if wave > original / low {
            return factor;
        }
        let smooth = (original / wave - low) / (high - low);
        1.0 / ((1.0 - smooth) / factor + smooth)
    };
    Ok((0..rot_dim / 2).map(|i| divisor(i) as f32).collect())
}
