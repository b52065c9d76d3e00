//! A kernel case on the device against its CPU twin.

use crate::error::Result;
use crate::gpu::Gpu;
use crate::kernels::{BufferId, BufferSpec};
use crate::reference::{self, case::Case};

/// How one case went.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The case's name.
    pub name: String,
    /// The largest absolute error over all outputs, as a share of what passes; above 1 fails. Infinite for NaN.
    pub error: f32,
    /// Where, for people.
    pub detail: String,
}

/// Plays a case both ways and compares. Errors: what the device or the twin fails with.
pub async fn check(gpu: &Gpu, case: &Case) -> Result<Outcome> {
    let spec = |words: &Vec<u32>| BufferSpec { label: case.name.clone(), bytes: words.len() as u64 * 4 };
    let specs: Vec<BufferSpec> = case.memory.buffers().iter().map(spec).collect();
    let buffers = gpu.create_buffers(&specs).await?;
    for (i, words) in case.memory.buffers().iter().enumerate() {
        gpu.write(&buffers, BufferId(i as u32), 0, bytemuck::cast_slice(words))?;
    }
    gpu.submit(&[&gpu.prepare(&case.recording, &buffers).await?]);
    let mut expected = case.memory.clone();
    reference::play(&case.recording, &mut expected)?;
    let mut outcome = Outcome { name: case.name.clone(), error: 0.0, detail: "equal".into() };
    for (id, tolerance) in &case.outputs {
        let want = expected.words(*id);
        let got = gpu.read(&buffers, *id, 0, want.len() as u64 * 4).await?;
        for (i, (got, want)) in bytemuck::pod_collect_to_vec::<u8, u32>(&got).iter().zip(want).enumerate() {
            if got == want {
                continue; // also words that are no floats
            }
            let (got, want) = (f32::from_bits(*got), f32::from_bits(*want));
            let error = (got - want).abs();
            let share = if error.is_nan() { f32::INFINITY } else { error / tolerance };
            if share > outcome.error {
                outcome.error = share;
                outcome.detail = format!("buffer {}[{i}]: expected {want}, found {got}, tolerance {tolerance}", id.0);
            }
        }
    }
    Ok(outcome)
}
