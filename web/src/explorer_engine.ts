// SPDX-License-Identifier: Apache-2.0
// Cores in workers, by what they are for: no slow answer stands in the way of a fast one.
import { packOf, type Answer } from "./explorer_core";

declare const WORKER: string; // the source of explorer_worker.ts; put in by build.py

interface Asked {
  id: number;
  name: string;
  request: unknown;
  answer: (answer: Answer | undefined) => void;
  progress?: (share: number) => void;
}

/** One core. What is asked waits; `latest` drops what waits and is older. */
class Line {
  private worker: Worker;
  private waiting: Asked[] = [];
  private inFlight: Asked | undefined;
  private id = 0;

  constructor(private readonly module: WebAssembly.Module, private readonly packs: Uint8Array[]) {
    this.worker = this.start();
  }

  private start(): Worker {
    const address = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
    const worker = new Worker(address);
    URL.revokeObjectURL(address);
    worker.postMessage({ module: this.module });
    for (const pack of this.packs) worker.postMessage({ mount: pack });
    worker.onmessage = ({ data }: MessageEvent<{ id: number; answer?: Answer; progress?: number }>): void => {
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
    this.inFlight = this.waiting.shift()!;
    this.worker.postMessage({ id: this.inFlight.id, name: this.inFlight.name, request: this.inFlight.request });
  }

  ask(name: string, request: unknown, progress?: (share: number) => void): Promise<Answer | undefined> {
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
    this.worker.postMessage({ mount: pack });
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

export class Engine {
  readonly steps: Line; // step times, while one drags
  readonly runs: Line; // everything else of the job in hand
  readonly side: Line; // which values are legal, curves, files
  private plans_: Line | undefined;
  private readonly packs: Uint8Array[];

  constructor(private readonly module: WebAssembly.Module, data: Uint8Array) {
    this.packs = [data];
    this.steps = new Line(module, this.packs);
    this.runs = new Line(module, this.packs);
    this.side = new Line(module, this.packs);
  }

  get plans(): Line {
    return (this.plans_ ??= new Line(this.module, this.packs));
  }

  addFile(name: string, content: Uint8Array): void {
    const pack = packOf(name, content);
    this.packs.push(pack);
    for (const line of [this.steps, this.runs, this.side, this.plans_]) line?.mount(pack);
  }
}

async function bytesOf(id: string, file: string): Promise<Uint8Array<ArrayBuffer>> {
  const inside = document.getElementById(id)?.textContent?.trim();
  if (!inside) return new Uint8Array(await (await fetch(file)).arrayBuffer());
  const packed = Uint8Array.from(atob(inside), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** From the page itself, if it holds core and data (explore.html); else from the files beside it. */
export async function startEngine(): Promise<Engine> {
  const [core, data] = await Promise.all([bytesOf("core", "core.wasm"), bytesOf("pack", "data.pack")]);
  return new Engine(await WebAssembly.compile(core), data);
}
