import { afterAll, afterEach } from '@jest/globals';
import { existsSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TemporaryFolder } from '../network/at-end.ts';
import { makeExtensionsWithout } from '../network/iptables-extensions.ts';

/** A folder of programs that stand in for tools, to be the first in PATH. */
export class Shims {
  readonly #folder = new TemporaryFolder('shims');

  /** A PATH in which the shims come first. */
  get path(): string {
    return `${this.#folder.path}:${process.env['PATH'] ?? ''}`;
  }

  /** A PATH that has the shims and nothing else. */
  get onlyPath(): string {
    return this.#folder.path;
  }

  replace(tool: string, script: string): void {
    const file = join(this.#folder.path, tool);
    // Whole or not at all, as somebody may be starting it; and not through a link to the tool itself.
    writeFileSync(`${file}.new`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    renameSync(`${file}.new`, file);
  }

  /** Puts a file among the shims, for what they are to note. */
  write(name: string, text: string): void {
    writeFileSync(join(this.#folder.path, name), text);
  }

  /** Has the tool itself among the shims, by its own name or another. */
  link(tool: string, name = tool): void {
    this.hide(name);
    symlinkSync(find(tool), join(this.#folder.path, name));
  }

  /** Puts a shell script in a tool's place that knows the tool as $TOOL. */
  wrap(tool: string, script: string): void {
    this.replace(tool, `TOOL=${find(tool)}\n${script}`);
  }

  /** Puts the tool itself in its place, without the extension for one match: it cannot show rules that have it. */
  loseMatch(tool: string, match: string): void {
    this.wrap(tool, `XTABLES_LIBDIR=${makeExtensionsWithout(match, this.#folder.path)} exec "$TOOL" "$@"`);
  }

  /** Takes a tool away, where only shims are in PATH. */
  hide(tool: string): void {
    rmSync(join(this.#folder.path, tool), { force: true });
  }

  /** Puts a script in a tool's place that does what the tool does, until `breakNow()`; then `script`, with the tool as $TOOL. */
  replaceLater(tool: string, script: string): void {
    this.wrap(tool, `if [ -e '${this.#switch}' ]; then ${script}; fi\nexec "$TOOL" "$@"`);
  }

  breakNow(): void {
    writeFileSync(this.#switch, '');
  }

  repair(): void {
    rmSync(this.#switch, { force: true });
  }

  clear(): void {
    for (const name of readdirSync(this.#folder.path))
      rmSync(join(this.#folder.path, name), { recursive: true });
  }

  remove(): void {
    this.#folder.remove();
  }

  get #switch(): string {
    return join(this.#folder.path, 'broken');
  }
}

/** Shims of a block of tests: none is left after each of them, and no folder after all. */
export function useShims(): Shims {
  const shims = new Shims();
  afterEach(() => {
    shims.clear();
  });
  afterAll(() => {
    shims.remove();
  });
  return shims;
}

function find(tool: string): string {
  const original = (process.env['PATH'] ?? '')
    .split(':')
    .map((folder) => join(folder, tool))
    .find((file) => existsSync(file));
  if (original === undefined) throw new Error(`${tool} is not in PATH`);
  return original;
}
