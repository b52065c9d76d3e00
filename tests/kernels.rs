//! Every kernel against its CPU twin, on the adapter there is, in every tier it has: a test a tier, so that they share
//! the cores. `build.sh test` runs this on lavapipe (subgroups of 8, f16) and on native SwiftShader (subgroups of 4).
//! `RIVULET_CASES=PART` plays only the cases whose names contain PART.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

use pollster::block_on;
use rivulet::engine::selftest::check;
use rivulet::error::Code;
use rivulet::gpu::{Gpu, GpuOptions};
use rivulet::reference;

/// Plays every case of every kernel in one tier. A tier that the adapter lacks is no failure: the base is on every one. `+int8` is
/// no tier of a device but what `precision: "fast"` makes of it.
fn play(tier: &str) {
    let (device, fast) = tier.strip_suffix("+int8").map_or((tier, false), |device| (device, true));
    let gpu = match block_on(Gpu::request(GpuOptions { tier: Some(device.into()), ..Default::default() })) {
        Ok(gpu) => gpu,
        Err(e) if e.code == Code::BadOption && !device.ends_with("base") => return println!("{tier}: {e}"),
        Err(e) => panic!("{e}"),
    };
    println!("{tier} on {:?}", gpu.report());
    let mut cases = reference::cases(if fast { gpu.fast_tier().unwrap() } else { gpu.tier() }).unwrap();
    assert!(cases.len() > if fast { 5 } else { 50 }, "only {} cases", cases.len());
    if let Ok(part) = std::env::var("RIVULET_CASES") {
        cases.retain(|case| case.name.contains(&part));
    }
    let mut failures = Vec::new();
    for case in &cases {
        match block_on(check(&gpu, case)) {
            Ok(outcome) if outcome.error <= 1.0 => println!("{:5.2} {}", outcome.error, outcome.name),
            Ok(outcome) => failures.push(format!("{}: {}", outcome.name, outcome.detail)),
            Err(e) => failures.push(format!("{}: {e}", case.name)),
        }
    }
    assert!(failures.is_empty(), "{tier}: {} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

macro_rules! tiers {
    ($($name:ident: $tier:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                play($tier);
            }
        )*
    };
}

tiers! {
    cpu_base: "cpu+base",
    cpu_subgroup: "cpu+subgroup",
    cpu_f16_subgroup: "cpu+f16+subgroup",
    gpu_base: "gpu+base",
    gpu_f16: "gpu+f16",
    gpu_subgroup: "gpu+subgroup",
    gpu_f16_subgroup: "gpu+f16+subgroup",
    cpu_int8: "cpu+base+int8",
    cpu_subgroup_int8: "cpu+subgroup+int8",
    gpu_int8: "gpu+base+int8",
    gpu_subgroup_int8: "gpu+subgroup+int8",
}
