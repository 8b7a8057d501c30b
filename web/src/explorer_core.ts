// SPDX-License-Identifier: Apache-2.0
// The program's core as WebAssembly: JSON in, JSON out. The same in a worker of the page and in node.
import { parseYaml } from "./explorer_yaml";

/** What a call gives: the answer of wasm/calls.h, or a sentence. */
export type Answer = Record<string, unknown> & { error?: string };

export interface Core {
  /** Adds the files of a pack, in the format of wasm/pack.py. */
  mount(pack: Uint8Array): void;
  call(name: string, request: unknown): Answer;
}

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  tpt_alloc(bytes: number): number;
  tpt_free(memory: number): void;
  tpt_mount(pack: number, bytes: number): number;
  tpt_call(name: number, nameBytes: number, request: number, bytes: number): number;
  tpt_length(): number;
}

/** Of a search: what it does, and how many of all pieces are done. */
type Progress = (what: string, done: number, total: number) => void;

const notThere = 8; // WASI's badf: the core has no open files
const text = new TextEncoder();
const reader = new TextDecoder();

/** One instance; what it prints before it ends by a broken assumption is in `said`. */
function instantiate(module: WebAssembly.Module, progress: Progress): { exports: Exports; said: string[] } {
  const said: string[] = [];
  let exports: Exports;
  const view = (): DataView => new DataView(exports.memory.buffer);
  const textAt = (at: number, length: number): string => reader.decode(new Uint8Array(exports.memory.buffer, at, length));
  const own: Record<string, (...args: number[]) => number> = {
    progress: (what, length, done, total) => (progress(textAt(what!, length!), done!, total!), 0),
    parse_yaml: (at, length) => {
      const tree = text.encode(JSON.stringify(parseYaml(textAt(at!, length!))) + "\0");
      const memory = exports.tpt_alloc(tree.length);
      new Uint8Array(exports.memory.buffer, memory, tree.length).set(tree);
      return memory;
    },
    environ_sizes_get: (count, bytes) => {
      view().setUint32(count!, 0, true);
      view().setUint32(bytes!, 0, true);
      return 0;
    },
    environ_get: () => 0,
    fd_write: (_, pieces, count, written) => {
      let bytes = 0;
      for (let i = 0; i < count!; ++i) {
        const length = view().getUint32(pieces! + 8 * i + 4, true);
        said.push(textAt(view().getUint32(pieces! + 8 * i, true), length));
        bytes += length;
      }
      view().setUint32(written!, bytes, true);
      return 0;
    },
    proc_exit: () => {
      throw new Error("the core has ended");
    },
  };
  const imports: WebAssembly.Imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = own[name] ?? ((): number => notThere);
  exports = new WebAssembly.Instance(module, imports).exports as unknown as Exports;
  exports._initialize();
  return { exports, said };
}

export function startCore(module: WebAssembly.Module, progress: Progress = () => {}): Core {
  const packs: Uint8Array[] = [];
  let { exports, said } = instantiate(module, progress);
  const place = (bytes: Uint8Array): number => {
    const memory = exports.tpt_alloc(bytes.length);
    new Uint8Array(exports.memory.buffer, memory, bytes.length).set(bytes);
    return memory;
  };
  const put = (pack: Uint8Array): void => {
    const memory = place(pack);
    exports.tpt_mount(memory, pack.length);
    exports.tpt_free(memory);
  };
  const ask = (name: Uint8Array, request: Uint8Array): Answer => {
    const [a, b] = [place(name), place(request)];
    const answer = exports.tpt_call(a, name.length, b, request.length);
    exports.tpt_free(a);
    exports.tpt_free(b);
    return JSON.parse(reader.decode(new Uint8Array(exports.memory.buffer, answer, exports.tpt_length()))) as Answer;
  };
  return {
    mount(pack) {
      packs.push(pack);
      put(pack);
    },
    call(name, request) {
      try {
        return ask(text.encode(name), text.encode(JSON.stringify(request)));
      } catch (problem) {
        // A broken assumption, or no memory: this instance is done for, the next one knows the same files.
        const error = `the core stopped at this job (${said.join("").trim() || String(problem)}); change it, or report it`;
        ({ exports, said } = instantiate(module, progress));
        packs.forEach(put);
        return { error };
      }
    },
  };
}

/** A file for mount(). */
export function packOf(name: string, content: Uint8Array): Uint8Array {
  const title = text.encode(name);
  const pack = new Uint8Array(8 + title.length + content.length);
  const view = new DataView(pack.buffer);
  view.setUint32(0, title.length, true);
  view.setUint32(4, content.length, true);
  pack.set(title, 8);
  pack.set(content, 8 + title.length);
  return pack;
}
