//! Every kernel against its CPU twin, on the adapter there is, in every tier it has.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // also outside of #[test]

use pollster::block_on;
use rivulet::engine::selftest::check;
use rivulet::error::Code;
use rivulet::gpu::{Gpu, GpuOptions};
use rivulet::reference;

const TIERS: [&str; 7] =
    ["cpu+base", "cpu+subgroup", "cpu+f16+subgroup", "gpu+base", "gpu+f16", "gpu+subgroup", "gpu+f16+subgroup"];

#[test]
fn every_kernel_equals_its_twin_in_every_tier() {
    let mut failures = Vec::new();
    let mut played = 0;
    for name in TIERS {
        let options = GpuOptions { tier: Some(name.into()), ..Default::default() };
        let gpu = match block_on(Gpu::request(options)) {
            Ok(gpu) => gpu,
            Err(e) if e.code == Code::BadOption => continue, // this adapter lacks the tier
            Err(e) => panic!("{e}"),
        };
        println!("{name} on {:?}", gpu.report());
        for case in reference::cases(gpu.tier()).unwrap() {
            played += 1;
            match block_on(check(&gpu, &case)) {
                Ok(outcome) if outcome.error <= 1.0 => println!("{:5.2} {}", outcome.error, outcome.name),
                Ok(outcome) => failures.push(format!("{name}: {}: {}", outcome.name, outcome.detail)),
                Err(e) => failures.push(format!("{name}: {}: {e}", case.name)),
            }
        }
    }
    assert!(failures.is_empty(), "{} of {played}:\n{}", failures.len(), failures.join("\n"));
    assert!(played > 50, "only {played} cases were played");
}
