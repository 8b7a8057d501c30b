// SPDX-License-Identifier: Apache-2.0
// What the explorer takes of Debian's node-yaml.
declare module "yaml" {
  interface Placed {
    range?: [number, number, number];
  }
  export interface YamlScalar extends Placed {
    value: unknown;
    type?: string;
  }
  export interface YamlList extends Placed {
    items: (Parsed | null)[];
  }
  export interface YamlMap extends Placed {
    items: { key: Parsed | null; value: Parsed | null }[];
  }
  export interface YamlAlias extends Placed {
    resolve(document: YamlDocument): Parsed | undefined;
  }
  export type Parsed = YamlScalar | YamlList | YamlMap | YamlAlias;
  export interface YamlDocument {
    contents: Parsed | null;
    errors: { message: string; pos: [number, number] }[];
  }
  export class LineCounter {
    linePos(offset: number): { line: number };
  }
  export function parseAllDocuments(text: string, options: { lineCounter: LineCounter; schema: string; prettyErrors: boolean }): YamlDocument[];
  export function isAlias(node: Parsed | null): node is YamlAlias;
  export function isMap(node: Parsed | null): node is YamlMap;
  export function isScalar(node: Parsed | null): node is YamlScalar;
  export function isSeq(node: Parsed | null): node is YamlList;
}
