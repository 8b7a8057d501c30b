// SPDX-License-Identifier: Apache-2.0
// One core in a worker. Messages: {module, packs} first; then {packs} or {id, name, request}, answered by {id, answer}.
import { startCore, type Core } from "./explorer_core";

interface Told {
  module?: WebAssembly.Module;
  packs?: Uint8Array[];
  id?: number;
  name?: string;
  request?: unknown;
}

let core: Core | undefined;
let current = 0;
let told = 0; // when, ms

/** Ten times a second. */
function tell(what: string, done: number, total: number): void {
  if (performance.now() - told < 100) return;
  told = performance.now();
  self.postMessage({ id: current, progress: { what, share: total > 0 ? done / total : 0 } });
}

self.onmessage = (event: MessageEvent<Told>): void => {
  const { module, packs, id, name, request } = event.data;
  if (module) core = startCore(module, tell);
  for (const pack of packs ?? []) core?.mount(pack);
  if (id === undefined || name === undefined || !core) return;
  current = id;
  self.postMessage({ id, answer: core.call(name, request) });
};
