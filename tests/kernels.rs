//! Every kernel against its CPU twin, on the adapter there is, in every tier it has: a test a tier, so that they share
//! the cores. `build.sh test` runs this on lavapipe (subgroups of 8, f16) and on native SwiftShader (subgroups of 4).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

use pollster::block_on;
use rivulet::engine::selftest::check;
use rivulet::error::Code;
use rivulet::gpu::{Gpu, GpuOptions};
use rivulet::reference;

/// Plays every case of every kernel in one tier. A tier that the adapter lacks is no failure: the base is on every one.
fn play(tier: &str) {
    let gpu = match block_on(Gpu::request(GpuOptions { tier: Some(tier.into()), ..Default::default() })) {
        Ok(gpu) => gpu,
        Err(e) if e.code == Code::BadOption && !tier.ends_with("base") => return println!("{tier}: {e}"),
        Err(e) => panic!("{e}"),
    };
    println!("{tier} on {:?}", gpu.report());
    let cases = reference::cases(gpu.tier()).unwrap();
    assert!(cases.len() > 50, "only {} cases", cases.len());
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
}
