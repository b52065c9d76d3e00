//! Every kernel against its CPU twin, on the adapter there is, in every tier it has.

use rivulet::gpu::{Gpu, GpuOptions};
use rivulet::kernels::{BufferId, BufferSpec};
use rivulet::reference::{self, case::Case};

/// The tiers to play, and whether the adapter must have them (the base runs everywhere).
const TIERS: [&str; 6] = ["cpu+base", "gpu+base", "gpu+f16", "gpu+subgroup", "gpu+f16+subgroup", "cpu+f16+subgroup"];

async fn play(gpu: &Gpu, case: &Case) -> Vec<String> {
    let specs: Vec<BufferSpec> = case
        .memory
        .buffers()
        .iter()
        .enumerate()
        .map(|(i, words)| BufferSpec { label: format!("{} {i}", case.name), bytes: words.len() as u64 * 4 })
        .collect();
    let buffers = gpu.create_buffers(&specs).await.unwrap();
    for (i, words) in case.memory.buffers().iter().enumerate() {
        gpu.write(&buffers, BufferId(i as u32), 0, bytemuck::cast_slice(words)).unwrap();
    }
    let prepared = match gpu.prepare(&case.recording, &buffers).await {
        Ok(prepared) => prepared,
        Err(e) => return vec![format!("{}: {e}", case.name)],
    };
    gpu.submit(&[&prepared]);
    let mut expected = case.memory.clone();
    reference::play(&case.recording, &mut expected).unwrap();
    let mut failures = Vec::new();
    for (id, tolerance) in &case.outputs {
        let want = expected.words(*id);
        let got = gpu.read(&buffers, *id, 0, want.len() as u64 * 4).await.unwrap();
        let mut worst = (0.0f32, 0);
        for (i, (got, want)) in bytemuck::pod_collect_to_vec::<u8, u32>(&got).iter().zip(want).enumerate() {
            if got == want {
                continue; // also words that are not floats
            }
            let error = (f32::from_bits(*got) - f32::from_bits(*want)).abs();
            if error.is_nan() || error > worst.0 {
                worst = (if error.is_nan() { f32::INFINITY } else { error }, i);
            }
        }
        if std::env::var_os("RIVULET_ERRORS").is_some() {
            println!("{:10.2e} of {tolerance:.1e} {}", worst.0, case.name);
        }
        if worst.0 > *tolerance {
            failures.push(format!("{}: error {} at {} of buffer {}, tolerance {tolerance}", case.name, worst.0, worst.1, id.0));
        }
    }
    failures
}

#[test]
fn every_kernel_equals_its_twin_in_every_tier() {
    let mut failures = Vec::new();
    let mut played = 0;
    for name in TIERS {
        let options = GpuOptions { tier: Some(name.into()), ..Default::default() };
        let gpu = match pollster::block_on(Gpu::request(options)) {
            Ok(gpu) => gpu,
            Err(e) if e.code == rivulet::error::Code::BadOption => continue, // this adapter lacks the tier
            Err(e) => panic!("{e}"),
        };
        println!("{name} on {:?}", gpu.report());
        for case in reference::cases(gpu.tier()).unwrap() {
            played += 1;
            failures.extend(pollster::block_on(play(&gpu, &case)).into_iter().map(|f| format!("{name}: {f}")));
        }
    }
    assert!(failures.is_empty(), "{} of {played}:\n{}", failures.len(), failures.join("\n"));
    assert!(played > 50, "only {played} cases were played");
}
