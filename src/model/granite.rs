//! Granite 3 and later, dense or with experts: a llama whose embedding, attention, residuals and logits are scaled.

use super::{Architecture, Facts};
use crate::error::Result;

pub(super) fn granite(facts: &Facts<'_>) -> Result<Architecture> {
    let mut a = facts.common()?;
    // 0 says that there is none.
    let scale = |key: &str| Ok::<_, crate::error::Error>(facts.f32(key)?.filter(|scale| *scale != 0.0));
    a.embedding_scale = scale("embedding_scale")?.unwrap_or(a.embedding_scale);
    a.attention_scale = scale("attention.scale")?.unwrap_or(a.attention_scale);
    a.residual_scale = scale("residual_scale")?.unwrap_or(a.residual_scale);
    a.logit_scale = scale("logit_scale")?.map_or(a.logit_scale, |divisor| 1.0 / divisor);
    Ok(a)
}

pub(super) fn granitemoe(facts: &Facts<'_>) -> Result<Architecture> {
    let a = granite(facts)?;
    Ok(Architecture { experts: facts.experts(a.n_ff, true)?, ..a })
}
