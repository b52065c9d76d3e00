//! Pipelines: compiled all at once and beside other work, or one by one when a recording is prepared that lacks one.
//!
//! Natively threads compile. In a page only the browser can, through `createComputePipelineAsync`, which wgpu does not know;
//! so a [`Compiler`] of the host's stands between wgpu and the device: asked for a pipeline the first time it starts the
//! compilation and gives a placeholder, asked again it gives what was compiled. wgpu describes the pipeline both times.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;

use crate::err;
use crate::error::Result;
use crate::kernels::{Access, Recording, Target, Variant};

use super::Gpu;

/// A compiled variant and how its bindings are accessed.
#[derive(Clone)]
pub(super) struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    access: Vec<Access>,
}

/// A host that has the device compile pipelines without waiting for them.
pub trait Compiler {
    /// From now on the device gives placeholders for pipelines and starts to compile them. False where that is impossible.
    fn begin(&self) -> bool;

    /// No more placeholders: a pipeline that is asked for by the label of one that was compiled is that one.
    fn end(&self);

    /// How many compilations have ended, well or not, as soon as there are more than `known`. A large number where the
    /// device is lost.
    fn ended(&self, known: u64) -> Pin<Box<dyn Future<Output = u64>>>;
}

/// A pipeline to be made.
struct Wanted {
    variant: Variant,
    access: Vec<Access>,
    layout: wgpu::PipelineLayout,
}

/// Pipelines that are being compiled.
pub struct Compilation(Work);

enum Work {
    /// All were there, or each is compiled when it is needed.
    Nothing,
    /// The host's compiler has them; with their modules, and what is wrong with those.
    Host(Vec<(Wanted, wgpu::ShaderModule)>, Pin<Box<dyn Future<Output = Option<wgpu::Error>>>>),
    #[cfg(not(target_arch = "wasm32"))]
    Threads { count: u64, results: std::sync::mpsc::Receiver<Result<(Variant, Pipeline)>> },
}

impl Gpu {
    /// Starts compiling what recordings need and the device does not have yet, where that can go on beside other work.
    /// Errors: `internal` where a kernel is bound in two ways.
    pub fn start_compiling<'a>(&self, recordings: impl IntoIterator<Item = &'a Recording>) -> Result<Compilation> {
        let mut wanted = Vec::new();
        let mut seen = HashSet::new();
        for dispatch in recordings.into_iter().flat_map(|r| &r.dispatches) {
            let known = self.pipelines.borrow().contains_key(&dispatch.variant);
            if !known && seen.insert(&dispatch.variant) {
                let access: Vec<Access> = dispatch.bindings.iter().map(|b| b.access).collect();
                wanted.push(self.wanted(&dispatch.variant, &access));
            }
        }
        if wanted.is_empty() {
            return Ok(Compilation(Work::Nothing));
        }
        #[cfg(not(target_arch = "wasm32"))]
        if self.compiler.borrow().is_none() {
            return Ok(Compilation(self.start_threads(wanted)));
        }
        let compiler = self.compiler.borrow();
        let Some(compiler) = compiler.as_ref().filter(|compiler| compiler.begin()) else {
            return Ok(Compilation(Work::Nothing));
        };
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let make = |wanted: Wanted| {
            let module = module(&self.device, &wanted.variant, self.target);
            drop(assemble(&self.device, &wanted, &module));
            (wanted, module)
        };
        let started = wanted.into_iter().map(make).collect();
        let errors = Box::pin(scope.pop());
        compiler.end();
        Ok(Compilation(Work::Host(started, errors)))
    }

    /// Waits for what [`Self::start_compiling`] started. `progress` hears how many of how many pipelines are compiled.
    /// Errors: `internal` with the compiler's message, `device-lost`.
    pub async fn finish_compiling(&self, compilation: Compilation, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        match compilation.0 {
            Work::Nothing => {}
            Work::Host(started, errors) => {
                let failed = |e: wgpu::Error| err!(Internal, "compiling kernels failed: {e}");
                if let Some(e) = errors.await {
                    return Err(failed(e));
                }
                let total = started.len() as u64;
                let mut ended = 0;
                while ended < total {
                    progress(ended, total);
                    let more = self.compiler.borrow().as_ref().map(|compiler| compiler.ended(ended));
                    ended = match more {
                        Some(more) => more.await,
                        None => total,
                    };
                    self.check()?;
                }
                progress(total, total);
                let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
                for (wanted, module) in started {
                    let pipeline = assemble(&self.device, &wanted, &module);
                    self.keep(wanted.variant, Pipeline { pipeline, access: wanted.access });
                }
                if let Some(e) = scope.pop().await {
                    self.pipelines.borrow_mut().clear();
                    return Err(failed(e));
                }
            }
            #[cfg(not(target_arch = "wasm32"))]
            Work::Threads { count, results } => {
                for ended in 0..count {
                    progress(ended, count);
                    let result = results.recv().map_err(|_| err!(Internal, "a thread that compiled kernels broke"))?;
                    let (variant, pipeline) = result?;
                    self.keep(variant, pipeline);
                }
                progress(count, count);
            }
        }
        self.check()
    }

    /// Has the host compile pipelines from now on.
    pub fn compile_with(&self, compiler: Box<dyn Compiler>) {
        *self.compiler.borrow_mut() = Some(compiler);
    }

    /// The pipeline of a variant, compiled now where it is not there.
    pub(super) fn pipeline(&self, variant: &Variant, access: &[Access]) -> Result<wgpu::ComputePipeline> {
        if let Some(known) = self.pipelines.borrow().get(variant) {
            if known.access != access {
                return Err(err!(Internal, "kernel {} is bound in two ways", variant.label()));
            }
            return Ok(known.pipeline.clone());
        }
        let wanted = self.wanted(variant, access);
        let pipeline = assemble(&self.device, &wanted, &module(&self.device, variant, self.target));
        self.keep(wanted.variant, Pipeline { pipeline: pipeline.clone(), access: wanted.access });
        Ok(pipeline)
    }

    fn wanted(&self, variant: &Variant, access: &[Access]) -> Wanted {
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&self.layout(access))],
            immediate_size: 0,
        });
        Wanted { variant: variant.clone(), access: access.to_vec(), layout }
    }

    fn keep(&self, variant: Variant, pipeline: Pipeline) {
        // With its module and its layout.
        self.count(|c| {
            c.objects += 3;
            c.pipelines += 1;
        });
        self.pipelines.borrow_mut().insert(variant, pipeline);
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn start_threads(&self, wanted: Vec<Wanted>) -> Work {
        use std::sync::{Arc, Mutex, mpsc};
        let (sender, results) = mpsc::channel();
        let count = wanted.len();
        let queue = Arc::new(Mutex::new(wanted));
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(count);
        for _ in 0..threads {
            let (queue, sender, device, target) = (queue.clone(), sender.clone(), self.device.clone(), self.target);
            std::thread::spawn(move || {
                while let Some(wanted) = queue.lock().ok().and_then(|mut queue| queue.pop()) {
                    // Nobody listens any more where a load was given up.
                    if sender.send(compile(&device, wanted, target)).is_err() {
                        break;
                    }
                }
            });
        }
        Work::Threads { count: count as u64, results }
    }
}

/// Compiles one pipeline on this thread, which has error scopes of its own.
#[cfg(not(target_arch = "wasm32"))]
fn compile(device: &wgpu::Device, wanted: Wanted, target: Target) -> Result<(Variant, Pipeline)> {
    use std::task::{Context, Poll, Waker};
    let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let pipeline = assemble(device, &wanted, &module(device, &wanted.variant, target));
    // Natively the answer is there at once.
    match std::pin::pin!(scope.pop()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(e)) => Err(err!(Internal, "compiling kernel {} failed: {e}", wanted.variant.label())),
        _ => Ok((wanted.variant, Pipeline { pipeline, access: wanted.access })),
    }
}

fn module(device: &wgpu::Device, variant: &Variant, target: Target) -> wgpu::ShaderModule {
    device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(&variant.label()),
        source: wgpu::ShaderSource::Wgsl(variant.link(target).into()),
    })
}

fn assemble(device: &wgpu::Device, wanted: &Wanted, module: &wgpu::ShaderModule) -> wgpu::ComputePipeline {
    let Wanted { variant, layout, .. } = wanted;
    let constants: Vec<(&str, f64)> = variant.overrides.iter().map(|(name, value)| (*name, f64::from(*value))).collect();
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(&variant.label()),
        layout: Some(layout),
        module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions { constants: &constants, ..Default::default() },
        cache: None,
    })
}
