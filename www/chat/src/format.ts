// Numbers as people read them. Sizes are decimal (1 MB = 1,000,000 bytes), as download pages and phones give them.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** 98_234_112 → "98.2 MB". */
export function bytes(count: number): string {
  let value = Math.max(0, count);
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** Seconds as a rough waiting time: "8 s", "2 min", "1 h 5 min". */
export function wait(seconds: number): string {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Milliseconds as a measurement: "240 ms", "3.1 s". */
export function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Tokens per second with as many digits as can be trusted. */
export function rate(perSecond: number): string {
  if (!Number.isFinite(perSecond)) return "–";
  return perSecond >= 100 ? perSecond.toFixed(0) : perSecond.toFixed(1);
}

/** The adapter as far as the browser names it; Firefox names none, and says at most that it is software. */
export function adapterName(adapter: string): string {
  const name = adapter.trim();
  return name === "" || name.startsWith("(") ? `GPU ${name}`.trim() : name;
}

/** Whether the CPU plays the GPU: right, and slow. The engine marks such an adapter in its name. */
export function isSoftware(adapter: string): boolean {
  return /software|swiftshader|llvmpipe|basic render/i.test(adapter);
}

/** 134_515_008 → "135 M", 1_235_814_432 → "1.2 B". */
export function parameters(count: number): string {
  return count >= 999.5e6 ? `${(count / 1e9).toFixed(1)} B` : `${Math.round(count / 1e6)} M`;
}
