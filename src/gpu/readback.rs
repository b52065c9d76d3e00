//! Reading buffers back. In a page nothing may block: a mapping answers through its callback, as a future. Natively the
//! same future drives the device itself, so that any executor will do.
//!
//! Small answers (the state after a group of steps) go through a ring of staging buffers that is made with the plan's
//! buffers, so that several submits can be under way and nothing is made for any of them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::err;
use crate::error::Result;

use super::Gpu;

/// Submits whose answers can be under way at once.
pub const RING_SLOTS: usize = 3;

/// The most bytes of an answer that goes through the ring.
pub const RING_BYTES: u64 = 64 << 10;

/// How long a native wait keeps its thread before whoever races with it is asked again.
const SLICE: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Landing {
    answer: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

/// A mapping under way, or done.
struct Flight {
    landing: Arc<Mutex<Landing>>,
    /// The submit that it waits for.
    submission: wgpu::SubmissionIndex,
}

/// Staging buffers that take turns.
pub(super) struct Ring {
    slots: Vec<Slot>,
}

struct Slot {
    staging: wgpu::Buffer,
    /// Whoever awaits it holds it as well; where nobody does any more, its answer is not wanted.
    flight: RefCell<Option<Rc<Flight>>>,
}

/// A submit's answer that is still to come. Dropping it leaves the submit alone and makes its place in the ring free for
/// another, once it is done.
pub struct Readback {
    slot: usize,
    flight: Rc<Flight>,
    bytes: u64,
}

impl Ring {
    /// A ring of buffers that `make` makes, given their size and usage.
    pub(super) fn new(mut make: impl FnMut(u64, wgpu::BufferUsages) -> wgpu::Buffer) -> Self {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let slots = (0..RING_SLOTS).map(|_| Slot { staging: make(RING_BYTES, usage), flight: RefCell::default() });
        Self { slots: slots.collect() }
    }

    pub(super) fn destroy(&self) {
        self.slots.iter().for_each(|slot| slot.staging.destroy());
    }

    pub(super) fn staging(&self, slot: usize) -> Result<&wgpu::Buffer> {
        self.slot(slot).map(|slot| &slot.staging)
    }

    fn slot(&self, slot: usize) -> Result<&Slot> {
        self.slots.get(slot).ok_or_else(|| err!(Internal, "the ring has no slot {slot}"))
    }
}

impl Gpu {
    /// A slot that nothing is under way in. Waits for one whose answer is not wanted any more, where all are taken.
    /// Error: `internal` where every answer is still wanted.
    pub(super) async fn free_slot(&self, ring: &Ring) -> Result<usize> {
        if let Some(free) = ring.slots.iter().position(|slot| slot.flight.borrow().is_none()) {
            return Ok(free);
        }
        let unwanted = |slot: &Slot| slot.flight.borrow().as_ref().is_some_and(|flight| Rc::strong_count(flight) == 1);
        let Some(slot) = ring.slots.iter().position(unwanted) else {
            return Err(err!(Internal, "more than {RING_SLOTS} answers are awaited at once"));
        };
        let flight = ring.slot(slot)?.flight.borrow().clone();
        let slot_at = ring.slot(slot)?;
        if let Some(flight) = flight {
            let landed = self.landed(&flight).await;
            slot_at.flight.take();
            landed?;
        }
        slot_at.staging.unmap();
        Ok(slot)
    }

    /// Starts mapping what `submission` copied into a slot.
    pub(super) fn take_off(&self, ring: &Ring, slot: usize, bytes: u64, submission: wgpu::SubmissionIndex) -> Result<Readback> {
        let at = ring.slot(slot)?;
        let flight = Rc::new(map(&at.staging, bytes, submission));
        *at.flight.borrow_mut() = Some(flight.clone());
        self.count(|c| c.readbacks += 1);
        Ok(Readback { slot, flight, bytes })
    }

    /// Waits for an answer of this ring. Errors: `device-lost`, and what the device has reported meanwhile.
    pub(super) async fn landing(&self, ring: &Ring, readback: Readback) -> Result<Vec<u8>> {
        let slot = ring.slot(readback.slot)?;
        let landed = self.landed(&readback.flight).await;
        slot.flight.take();
        landed?;
        self.mapped(&slot.staging, readback.bytes)
    }

    /// Waits until `staging` (MAP_READ) holds what `submission` copied into it, and gives its first `bytes` bytes.
    pub(super) async fn map_once(
        &self,
        staging: &wgpu::Buffer,
        bytes: u64,
        submission: wgpu::SubmissionIndex,
    ) -> Result<Vec<u8>> {
        self.count(|c| c.readbacks += 1);
        self.landed(&map(staging, bytes, submission)).await?;
        self.mapped(staging, bytes)
    }

    async fn landed(&self, flight: &Flight) -> Result<()> {
        let answer = poll_fn(|context| {
            let native = cfg!(not(target_arch = "wasm32"));
            if native {
                // Blocks until the submit is done and its callbacks have run, or for a slice. In wasm it would do nothing.
                let wait = wgpu::PollType::Wait { submission_index: Some(flight.submission.clone()), timeout: Some(SLICE) };
                match self.device.poll(wait) {
                    Ok(_) | Err(wgpu::PollError::Timeout) => {}
                    Err(e) => return Poll::Ready(Err(err!(DeviceLost, "waiting for the device failed: {e}"))),
                }
            }
            let Ok(mut landing) = flight.landing.lock() else {
                return Poll::Ready(Err(err!(Internal, "the readback's slot is poisoned")));
            };
            match landing.answer.take() {
                Some(answer) => Poll::Ready(Ok(answer)),
                None => {
                    landing.waker = Some(context.waker().clone());
                    if native {
                        context.waker().wake_by_ref();
                    }
                    Poll::Pending
                }
            }
        })
        .await?;
        self.check()?;
        answer.map_err(|e| err!(DeviceLost, "reading a buffer back failed: {e}"))
    }

    fn mapped(&self, staging: &wgpu::Buffer, bytes: u64) -> Result<Vec<u8>> {
        let result = {
            let view = staging
                .get_mapped_range(0..bytes)
                .map_err(|e| err!(Internal, "reading a mapped buffer of {bytes} bytes failed: {e}"))?;
            view.to_vec()
        };
        staging.unmap();
        Ok(result)
    }
}

fn map(staging: &wgpu::Buffer, bytes: u64, submission: wgpu::SubmissionIndex) -> Flight {
    let landing: Arc<Mutex<Landing>> = Arc::default();
    let theirs = landing.clone();
    staging.map_async(wgpu::MapMode::Read, 0..bytes, move |answer| {
        if let Ok(mut landing) = theirs.lock() {
            landing.answer = Some(answer);
            if let Some(waker) = landing.waker.take() {
                waker.wake();
            }
        }
    });
    Flight { landing, submission }
}
