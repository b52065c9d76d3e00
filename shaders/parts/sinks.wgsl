// Sinks (gpt-oss): each head has a learned logit that takes part in its softmax and has no value. So it makes the total larger, once,
// where a head's result is divided by it. SINKS, from the linker: the number of the binding. Same signature as sinks_none.

@group(0) @binding(SINKS) var<storage, read> sinks: array<f32>; // (n_heads)

// The totals, relative to the highest scores, of four softmaxes of these heads.
fn with_sinks(total: vec4<f32>, top: vec4<f32>, heads: vec4<u32>) -> vec4<f32> {
    let logits = vec4<f32>(sinks[heads.x], sinks[heads.y], sinks[heads.z], sinks[heads.w]);
    // A sink that lies so far above every score leaves nothing of the values, however far.
    return total + exp(min(logits - top, vec4<f32>(80.0)));
}
