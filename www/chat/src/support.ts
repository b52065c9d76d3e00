// What is missing, where this page cannot run a model: found by asking the browser, never by its name alone. The name
// only chooses which instructions come first.

export interface Missing {
  title: string;
  /** What was looked for and what was found. */
  reason: string;
  /** What the reader can do, most useful first. */
  steps: string[];
}

const BROWSERS =
  "Chrome and Edge from version 113 (on Android from 121), Safari from version 26, and Firefox from version 141 on Windows and 145 on Macs with Apple silicon.";

/** Null where a GPU answers; otherwise the reason in words. Asks for an adapter, which costs a few milliseconds. */
export async function whatIsMissing(): Promise<Missing | null> {
  if (!window.isSecureContext) {
    return {
      title: "This address is not secure",
      reason: "Browsers offer WebGPU only to pages that came over https, or from localhost.",
      steps: ["Open this page with https:// in front, or on the machine that serves it as http://localhost."],
    };
  }
  if (typeof WebAssembly !== "object") {
    return {
      title: "WebAssembly is switched off",
      reason: "The engine is a WebAssembly program. Some browsers switch it off in a lockdown or high security mode.",
      steps: ["Allow WebAssembly (or leave lockdown mode) for this site, then reload the page."],
    };
  }
  if (!("gpu" in navigator) || !navigator.gpu) {
    return { title: "This browser has no WebGPU", reason: "The page looked for navigator.gpu and did not find it.", steps: [...turnItOn(), `Browsers that have it: ${BROWSERS}`] };
  }
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  if (adapter) return null;
  return {
    title: "WebGPU is here, but no GPU answers",
    reason: "The browser knows WebGPU and found no graphics adapter that it lets pages use.",
    steps: [
      "Turn on graphics acceleration in the browser’s settings (System), then restart the browser.",
      "Update the graphics driver: browsers refuse drivers that are known to be faulty.",
      ...turnItOn(),
    ],
  };
}

/** How WebGPU is turned on in the browser at hand. */
function turnItOn(): string[] {
  const agent = navigator.userAgent;
  if (/Firefox\//.test(agent)) return ["In Firefox, open about:config, set dom.webgpu.enabled to true, and reload this page."];
  if (/Edg\//.test(agent)) return ["In Edge on Linux, open edge://flags, enable “Unsafe WebGPU Support”, and restart the browser."];
  if (/Chrome\/|Chromium\//.test(agent)) return ["In Chrome on Linux, open chrome://flags, enable “Unsafe WebGPU Support” and “Vulkan”, and restart the browser."];
  if (/Safari\//.test(agent)) return ["In Safari before version 26, open Settings, Advanced, Feature Flags, and enable WebGPU; newer versions have it on."];
  return [];
}
