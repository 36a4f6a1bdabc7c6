import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder of programs that stand in for tools, to be the first in PATH. */
export class Shims {
  readonly #folder = mkdtempSync(join(tmpdir(), 'vipnat-shims-'));

  /** A PATH in which the shims come first. */
  get path(): string {
    return `${this.#folder}:${process.env['PATH'] ?? ''}`;
  }

  /** A PATH that has the shims and nothing else. */
  get onlyPath(): string {
    return this.#folder;
  }

  /** Puts a shell script in a tool's place. */
  replace(tool: string, script: string): void {
    const file = join(this.#folder, tool);
    // Not through a link to the tool itself.
    rmSync(file, { force: true });
    writeFileSync(file, `#!/bin/sh\n${script}\n`);
    chmodSync(file, 0o755);
  }

  /** Has the tool itself among the shims, by its own name or another. */
  link(tool: string, name = tool): void {
    symlinkSync(find(tool), join(this.#folder, name));
  }

  /** Puts a script in a tool's place that does what the tool does, until `breakNow()`; then `script`, with the tool as $TOOL. */
  replaceLater(tool: string, script: string): void {
    this.replace(
      tool,
      `TOOL=${find(tool)}\nif [ -e '${this.#switch}' ]; then ${script}; fi\nexec "$TOOL" "$@"`,
    );
  }

  breakNow(): void {
    writeFileSync(this.#switch, '');
  }

  repair(): void {
    rmSync(this.#switch, { force: true });
  }

  /** Takes all shims away; the folder stays. */
  clear(): void {
    for (const name of readdirSync(this.#folder)) rmSync(join(this.#folder, name));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #switch(): string {
    return join(this.#folder, 'broken');
  }
}

function find(tool: string): string {
  const original = (process.env['PATH'] ?? '')
    .split(':')
    .map((folder) => join(folder, tool))
    .find((file) => existsSync(file));
  if (original === undefined) throw new Error(`${tool} is not in PATH`);
  return original;
}
