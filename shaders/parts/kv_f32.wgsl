// Keys and values kept as f32. `Kv4` is four neighbours of one head, as the pool stores them.

alias Kv4 = vec4<f32>;

fn kv_pack(v: vec4<f32>) -> Kv4 {
    return v;
}

fn kv_unpack(v: Kv4) -> vec4<f32> {
    return v;
}
