//! Reading buffers back. In a page nothing may block: a mapping answers through its callback, as a future. Natively the
//! same future drives the device itself, so that any executor will do.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crate::err;
use crate::error::Result;

use super::Gpu;

#[derive(Default)]
struct Slot {
    answer: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

impl Gpu {
    /// Waits until `staging` (MAP_READ) can be read and hands its first `bytes` bytes to `read`, then unmaps it.
    pub(super) async fn map_and<T>(&self, staging: &wgpu::Buffer, bytes: u64, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let slot: Arc<Mutex<Slot>> = Arc::default();
        let theirs = slot.clone();
        staging.map_async(wgpu::MapMode::Read, 0..bytes, move |answer| {
            if let Ok(mut slot) = theirs.lock() {
                slot.answer = Some(answer);
                if let Some(waker) = slot.waker.take() {
                    waker.wake();
                }
            }
        });
        let answer = poll_fn(|context| {
            if cfg!(not(target_arch = "wasm32")) {
                // Blocks until the mapping is done and its callback has run. In wasm it would never return.
                if self.device.poll(wgpu::PollType::wait_indefinitely()).is_err() {
                    return Poll::Ready(Err(err!(DeviceLost, "waiting for the device failed")));
                }
            }
            let Ok(mut slot) = slot.lock() else {
                return Poll::Ready(Err(err!(Internal, "the readback's slot is poisoned")));
            };
            match slot.answer.take() {
                Some(answer) => Poll::Ready(Ok(answer)),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        self.check()?;
        answer.map_err(|e| err!(DeviceLost, "reading a buffer back failed: {e}"))?;
        let result = {
            let view = staging
                .get_mapped_range(0..bytes)
                .map_err(|e| err!(Internal, "reading a mapped buffer of {bytes} bytes failed: {e}"))?;
            read(&view)
        };
        staging.unmap();
        self.count(|c| c.readbacks += 1);
        Ok(result)
    }
}
