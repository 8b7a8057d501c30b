// SPDX-License-Identifier: Apache-2.0
// One core in a worker. Messages: {module, packs} first; then {mount} or {id, name, request}, answered by {id, answer}.
import { startCore, type Core } from "./explorer_core";

interface Told {
  module?: WebAssembly.Module;
  mount?: Uint8Array;
  id?: number;
  name?: string;
  request?: unknown;
}

let core: Core | undefined;
let current = 0;

self.onmessage = (event: MessageEvent<Told>): void => {
  const { module, mount, id, name, request } = event.data;
  if (module) core = startCore(module, (done, total) => self.postMessage({ id: current, progress: total > 0 ? done / total : 0 }));
  if (mount) core?.mount(mount);
  if (id === undefined || name === undefined || !core) return;
  current = id;
  self.postMessage({ id, answer: core.call(name, request) });
};
