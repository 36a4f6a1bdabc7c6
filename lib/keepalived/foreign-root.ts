import { readdir, readlink } from 'node:fs/promises';
import { readIfThere, type ReadLimits } from '../files/optional-file.ts';

/** As many as Linux itself follows. */
const maxLinks = 40;

/**
 * The files as a process sees them that may be in a container. A link of its files that leads to a whole path would lead
 * to this process's own: Linux goes by the root of who looks.
 */
export class ForeignRoot {
  readonly #root: string;

  private constructor(root: string) {
    this.#root = root;
  }

  /** Those of this process. */
  static readonly own = new ForeignRoot('');

  /** Those of another process; of one that may not be asked, this one's. */
  static async of(pid: number): Promise<ForeignRoot> {
    const [own, other] = await Promise.all(
      ['self', pid].map((one) => readlink(`/proc/${one}/ns/mnt`).catch(() => '')),
    );
    const root = await readlink(`/proc/${pid}/root`).catch(() => '/');
    const isOwn = other === '' || (own === other && root === '/');
    return isOwn ? ForeignRoot.own : new ForeignRoot(`/proc/${pid}/root`);
  }

  /** What is in a file; null where there is none. Rejects as readIfThere does. */
  async read(path: string, limits: ReadLimits = {}): Promise<string | null> {
    return await readIfThere(await this.locate(path), limits);
  }

  /** The names in a folder, sorted; none where it is no folder, or may not be read. */
  async list(path: string): Promise<string[]> {
    return (await readdir(await this.locate(path)).catch(() => [])).sort();
  }

  /** The path by which this process reaches what the other one has at a path, links followed. */
  async locate(path: string): Promise<string> {
    if (this.#root === '') return path;
    const waiting = path.split('/').reverse();
    const found: string[] = [];
    let links = 0;
    while (waiting.length > 0) {
      const part = waiting.pop() ?? '';
      if (part === '..') found.pop();
      if (['', '.', '..'].includes(part)) continue;
      const target = await readlink(`${this.#root}/${[...found, part].join('/')}`).catch(() => null);
      if (target === null || links === maxLinks) {
        found.push(part);
        continue;
      }
      links += 1;
      if (target.startsWith('/')) found.length = 0;
      waiting.push(...target.split('/').reverse());
    }
    return `${this.#root}/${found.join('/')}`;
  }
}
