//! Finding an adapter and deciding the tier, once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::err;
use crate::error::{Error, Result};
use crate::kernels::{Target, Variant};
use crate::tensor::Tier;

use super::compile::{Compiler, Pipeline};
use super::player::Counters;

/// How to choose a device.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Takes the first adapter whose name contains this, whatever the case. Native only.
    pub adapter: Option<String>,
    /// Forces a tier: `base`, `f16`, `subgroup` or `f16+subgroup`, each also with `cpu+` or `gpu+` before it to force
    /// the barrier-free or the workgroup variants. A feature that the device lacks is an error.
    pub tier: Option<String>,
    /// Whether the browser's device has subgroups: wgpu does not say, so whoever wraps `requestDevice` does.
    pub browser_subgroups: bool,
    /// Asks for timestamps, which profiling needs. An adapter without them is an error.
    pub timestamps: bool,
}

/// What was found, for reports.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterReport {
    /// The adapter's own name; browsers may hide it.
    pub name: String,
    /// The back end: `Vulkan`, `Metal`, `Dx12`, `BrowserWebGpu`.
    pub backend: String,
    /// The tier's name, such as `cpu+f16+subgroup`.
    pub tier: String,
    /// Largest storage binding in bytes.
    pub max_binding_bytes: u64,
    /// Largest buffer in bytes.
    pub max_buffer_bytes: u64,
}

/// A device, its queue and its tier.
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) target: Target,
    pub(super) failure: Arc<Mutex<Option<Error>>>,
    pub(super) compiler: RefCell<Option<Box<dyn Compiler>>>,
    pub(super) pipelines: RefCell<HashMap<Variant, Pipeline>>,
    pub(super) layouts: RefCell<HashMap<Vec<crate::kernels::Access>, wgpu::BindGroupLayout>>,
    pub(super) counters: Cell<Counters>,
    tier: Tier,
    packed_dot: bool,
    report: AdapterReport,
}

impl Gpu {
    /// Asks for a device. Errors: `webgpu-unavailable` where there is none, `bad-option` for a tier it lacks.
    pub async fn request(options: GpuOptions) -> Result<Self> {
        let backends = if cfg!(target_arch = "wasm32") { wgpu::Backends::BROWSER_WEBGPU } else { wgpu::Backends::PRIMARY };
        let instance =
            wgpu::Instance::new(wgpu::InstanceDescriptor { backends, ..wgpu::InstanceDescriptor::new_without_display_handle() });
        let adapter = choose_adapter(&instance, options.adapter.as_deref()).await?;
        let info = adapter.get_info();
        let limits = adapter.limits();
        let browser = cfg!(target_arch = "wasm32");
        let has_subgroups =
            if browser { options.browser_subgroups } else { adapter.features().contains(wgpu::Features::SUBGROUP) };
        let available = Tier {
            // A browser does not tell the adapter's type, but SwiftShader and llvmpipe do not hide their names.
            cpu: info.device_type == wgpu::DeviceType::Cpu || is_cpu_name(&info),
            f16: adapter.features().contains(wgpu::Features::SHADER_F16),
            subgroups: has_subgroups,
            packed_dot: false,
            max_binding_bytes: limits.max_storage_buffer_binding_size,
        };
        let tier = match &options.tier {
            None => available,
            Some(name) => forced_tier(name, available)?,
        };
        let mut features = wgpu::Features::empty();
        if tier.f16 {
            features |= wgpu::Features::SHADER_F16;
        }
        if tier.subgroups && !browser {
            features |= wgpu::Features::SUBGROUP;
        }
        if options.timestamps {
            if !adapter.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
                return Err(err!(BadOption, "profiling: adapter {:?} has no timestamps", info.name));
            }
            features |= wgpu::Features::TIMESTAMP_QUERY;
        }
        let (device, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("rivulet"),
                required_features: features,
                required_limits: limits.clone(),
                ..Default::default()
            })
            .await
            .map_err(|e| err!(WebgpuUnavailable, "requesting a device from adapter {:?} failed: {e}", info.name))?;

        let failure: Arc<Mutex<Option<Error>>> = Arc::default();
        let sink = failure.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            let error = match &error {
                wgpu::Error::OutOfMemory { .. } => err!(OutOfMemory, "the device ran out of memory: {error}"),
                _ => err!(Internal, "the device reported an error: {error}"),
            };
            keep_first(&sink, error);
        }));
        let sink = failure.clone();
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                keep_first(&sink, err!(DeviceLost, "the GPU device was lost ({reason:?}): {message}. Load the model again"));
            }
        });
        let report = AdapterReport {
            name: if info.name.is_empty() { info.driver.clone() } else { info.name.clone() },
            backend: format!("{:?}", info.backend),
            tier: tier.name(),
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_buffer_bytes: limits.max_buffer_size,
        };
        Ok(Self {
            device,
            queue,
            target: if browser { Target::Browser } else { Target::Native },
            failure,
            compiler: RefCell::default(),
            pipelines: RefCell::default(),
            layouts: RefCell::default(),
            counters: Cell::default(),
            tier,
            packed_dot: instance.wgsl_language_features().contains(wgpu::WgslLanguageFeatures::Packed4x8IntegerDotProduct),
            report,
        })
    }

    /// The tier, decided once.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// The tier for a load that asks for rounded activations: what [`Tier::packed_dot`] stands for.
    ///
    /// # Errors
    /// `bad-option` where the device cannot multiply packed bytes.
    pub fn fast_tier(&self) -> Result<Tier> {
        if !self.packed_dot {
            return Err(err!(
                BadOption,
                "precision: \"fast\" needs WGSL's packed_4x8_integer_dot_product, which this browser or device lacks; take \"exact\""
            ));
        }
        Ok(Tier { packed_dot: true, ..self.tier })
    }

    /// What was found.
    pub fn report(&self) -> &AdapterReport {
        &self.report
    }

    /// The first failure that the device reported by itself, if any.
    pub fn check(&self) -> Result<()> {
        match self.failure.lock() {
            Ok(slot) => slot.clone().map_or(Ok(()), Err),
            Err(_) => Err(err!(Internal, "the device's failure slot is poisoned")),
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // A page's garbage collector would let the device and its memory live on for as long as it likes.
        self.device.destroy();
    }
}

fn keep_first(slot: &Mutex<Option<Error>>, error: Error) {
    if let Ok(mut slot) = slot.lock() {
        slot.get_or_insert(error);
    }
}

fn is_cpu_name(info: &wgpu::AdapterInfo) -> bool {
    let text = format!("{} {} {}", info.name, info.driver, info.driver_info).to_lowercase();
    ["swiftshader", "llvmpipe", "lavapipe"].iter().any(|name| text.contains(name))
}

async fn choose_adapter(instance: &wgpu::Instance, name: Option<&str>) -> Result<wgpu::Adapter> {
    if let (Some(name), false) = (name, cfg!(target_arch = "wasm32")) {
        let adapters = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
        let names: Vec<String> = adapters.iter().map(|a| a.get_info().name).collect();
        return adapters
            .into_iter()
            .find(|a| a.get_info().name.to_lowercase().contains(&name.to_lowercase()))
            .ok_or_else(|| err!(WebgpuUnavailable, "no adapter's name contains {name:?}; found {names:?}"));
    }
    let options = wgpu::RequestAdapterOptions { power_preference: wgpu::PowerPreference::HighPerformance, ..Default::default() };
    let first = instance.request_adapter(&options).await;
    first.map_err(|e| err!(WebgpuUnavailable, "no WebGPU adapter answered: {e}"))
}

fn forced_tier(name: &str, available: Tier) -> Result<Tier> {
    let mut tier = Tier { f16: false, subgroups: false, ..available };
    let kinds = name.split('+').filter(|word| ["cpu", "gpu"].contains(word)).count();
    for word in name.split('+') {
        match word {
            "base" => {}
            "cpu" if kinds == 1 => tier.cpu = true,
            "gpu" if kinds == 1 => tier.cpu = false,
            "f16" if available.f16 => tier.f16 = true,
            "subgroup" if available.subgroups => tier.subgroups = true,
            "f16" | "subgroup" => {
                return Err(err!(BadOption, "tier: the device offers {}, not {word}", available.name()));
            }
            _ => {
                return Err(err!(
                    BadOption,
                    "tier: expected base, f16, subgroup or f16+subgroup, with cpu+ or gpu+ before it where wanted; found {name:?}"
                ));
            }
        }
    }
    Ok(tier)
}
