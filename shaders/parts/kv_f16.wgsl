// Keys and values kept as f16, two in a u32, so that every device can: `shader-f16` is not needed.
// Values beyond f16's range are clamped, since pack2x16float leaves them undefined.

alias Kv4 = vec2<u32>;

fn kv_pack(v: vec4<f32>) -> Kv4 {
    let c = clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0));
    return vec2<u32>(pack2x16float(c.xy), pack2x16float(c.zw));
}

fn kv_unpack(v: Kv4) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}
