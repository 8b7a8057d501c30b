// SPDX-License-Identifier: Apache-2.0
// Cores in workers, by what they are for: no slow answer stands in the way of a fast one.
import { packOf, type Answer } from "./explorer_core";

declare const WORKER: string; // the source of explorer_worker.ts; put in by build.py

interface Asked {
  id: number;
  name: string;
  request: unknown;
  answer: (answer: Answer | undefined) => void;
  progress?: Progress;
}

/** How far a search is: "Bounding", 0.3. */
type Progress = (now: { what: string; share: number }) => void;

/** What every core begins with: the code, and files. */
interface Parts {
  module: WebAssembly.Module;
  packs: Uint8Array[];
}

/** One core. What is asked waits; `latest` drops what waits and is older. */
class Line {
  private worker: Worker;
  private waiting: Asked[] = [];
  private inFlight: Asked | undefined;
  private id = 0;

  /** The worker starts while the code is still compiled. */
  constructor(private readonly parts: Promise<Parts>) {
    this.worker = this.start();
  }

  private start(): Worker {
    const address = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
    const worker = new Worker(address);
    URL.revokeObjectURL(address);
    void this.parts.then((parts) => worker.postMessage(parts));
    worker.onmessage = ({ data }: MessageEvent<{ id: number; answer?: Answer; progress?: Parameters<Progress>[0] }>): void => {
      if (this.inFlight?.id !== data.id) return;
      if (data.progress !== undefined) return this.inFlight.progress?.(data.progress);
      const done = this.inFlight;
      this.inFlight = undefined;
      done.answer(data.answer);
      this.next();
    };
    return worker;
  }

  private next(): void {
    if (this.inFlight || this.waiting.length === 0) return;
    const { id, name, request } = (this.inFlight = this.waiting.shift()!);
    this.post({ id, name, request });
  }

  /** Behind the parts. */
  private post(message: object): void {
    const { worker } = this;
    void this.parts.then(() => worker.postMessage(message));
  }

  ask(name: string, request: unknown, progress?: Progress): Promise<Answer | undefined> {
    return new Promise((answer) => {
      this.waiting.push({ id: ++this.id, name, request, answer, ...(progress ? { progress } : {}) });
      this.next();
    });
  }

  /** Nothing, where something newer of this name was asked before this one began. */
  latest(name: string, request: unknown): Promise<Answer | undefined> {
    for (const old of this.waiting.filter((each) => each.name === name)) old.answer(undefined);
    this.waiting = this.waiting.filter((each) => each.name !== name);
    return this.ask(name, request);
  }

  mount(pack: Uint8Array): void {
    this.post({ packs: [pack] });
  }

  /** Ends what is asked; a new core takes its place. */
  stop(): void {
    this.worker.terminate();
    for (const each of [...(this.inFlight ? [this.inFlight] : []), ...this.waiting]) each.answer(undefined);
    this.inFlight = undefined;
    this.waiting = [];
    this.worker = this.start();
  }
}

/** The job in hand; step times of jobs that take long to draw; values that are legal, curves, files; plans. */
type Use = "runs" | "steps" | "side" | "plans";

export class Engine {
  private readonly lines = new Map<Use, Line>();

  constructor(private readonly parts: Promise<Parts>) {}

  /** A core begins when it is first asked for. */
  for(use: Use): Line {
    const line = this.lines.get(use) ?? new Line(this.parts);
    this.lines.set(use, line);
    return line;
  }

  addFile(name: string, content: Uint8Array): void {
    const pack = packOf(name, content);
    for (const line of this.lines.values()) line.mount(pack);
    void this.parts.then(({ packs }) => packs.push(pack)); // for cores that begin later
  }
}

/** The decoder of newer browsers, else the old one. */
function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const { fromBase64 } = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> };
  return fromBase64?.(base64) ?? Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** A file inside of the page (explore.html), or beside it. */
async function fileOf(id: string, file: string, type: string): Promise<Response> {
  const inside = document.getElementById(id)?.textContent;
  const body = inside ? new Blob([bytesOf(inside)]).stream().pipeThrough(new DecompressionStream("gzip")) : (await fetch(file)).body;
  return new Response(body, { headers: { "Content-Type": type } });
}

/** The files stand behind the script, which shows the page while they are still read. */
export async function loadParts(): Promise<Parts> {
  if (document.readyState === "loading") await new Promise((done) => document.addEventListener("DOMContentLoaded", done));
  const data = fileOf("pack", "data.pack", "application/octet-stream").then((file) => file.arrayBuffer());
  return { module: await WebAssembly.compileStreaming(fileOf("core", "core.wasm", "application/wasm")), packs: [new Uint8Array(await data)] };
}
