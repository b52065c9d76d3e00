//! Ending a call early. What only polls is asked between steps; what can also wake ends a wait at once.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crate::err;
use crate::error::Result;

/// What a call asks whether to go on. A closure that gives a bool is one: it is asked between steps.
pub trait Cancel {
    /// Whether the caller wants no more.
    fn cancelled(&self) -> bool;

    /// Wakes `waker` when [`Self::cancelled`] turns true, where that can be known.
    fn wake(&self, waker: &Waker);
}

impl<F: Fn() -> bool> Cancel for F {
    fn cancelled(&self) -> bool {
        self()
    }

    fn wake(&self, _: &Waker) {}
}

/// A flag that ends a call at once, even while it waits for the device. Clones are one flag; any thread may raise it.
#[derive(Clone, Default)]
pub struct AbortFlag(Arc<Flag>);

#[derive(Default)]
struct Flag {
    raised: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl AbortFlag {
    /// Raises it; there is no way back.
    pub fn abort(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        let waker = self.0.waker.lock().ok().and_then(|mut slot| slot.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Cancel for AbortFlag {
    fn cancelled(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    fn wake(&self, waker: &Waker) {
        if let Ok(mut slot) = self.0.waker.lock() {
            *slot = Some(waker.clone());
        }
    }
}

/// Error: `aborted`, where the caller wants no more.
pub(super) fn check_cancel(cancel: &dyn Cancel) -> Result<()> {
    if cancel.cancelled() { Err(err!(Aborted, "the caller aborted")) } else { Ok(()) }
}

/// Waits for `work`, or until the caller wants no more. Error: `aborted`, and those of `work`.
pub(super) async fn unless_cancelled<T>(cancel: &dyn Cancel, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        // First the waker, then the look: a flag raised in between is seen.
        cancel.wake(context.waker());
        match check_cancel(cancel) {
            Err(e) => Poll::Ready(Err(e)),
            Ok(()) => work.as_mut().poll(context),
        }
    })
    .await
}
