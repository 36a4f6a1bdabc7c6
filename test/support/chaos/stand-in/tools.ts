import { families } from '../../../../lib/net.ts';
import { iptablesDialects, toolName } from '../../../../lib/kernel/port.ts';
import { Shims } from '../../host/shims.ts';

const tables = families.flatMap((family) => iptablesDialects.map((dialect) => [family, dialect] as const));

const readers = tables.map(([family, dialect]) => toolName(family, dialect, 'save'));

/** What writes them; nft reads, too. */
const writers = [...tables.map(([family, dialect]) => toolName(family, dialect, 'restore')), 'nft'];

export const tools: readonly string[] = [...readers, ...writers, 'inotifywait'];

/** Everything else that an agent starts. */
const helpers = ['setpriv', 'true', 'timeout'];

/** How a tool can be broken: it is no longer there, does not end, fails, prints what it never would, prints half, or is slow. */
export const breakages = ['missing', 'hanging', 'failing', 'garbage', 'half', 'slow', 'deaf'] as const;

export type Breakage = (typeof breakages)[number];

const breakageToScript: Readonly<Record<Exclude<Breakage, 'missing'>, string>> = {
  // Its pipes are closed when it is killed with all that it started, not before.
  hanging: 'exec /bin/sleep 1000',
  failing: 'echo "Fatal: kernel too old" >&2; exit 1',
  garbage: 'printf \'*nat\\n:PREROUTING ACCEPT [0:0]\\n-A \\377\\000{"nftables"\\n\'; exit 0',
  half: '"$TOOL" "$@" | /usr/bin/head -c 300; exit 0',
  slow: '/bin/sleep 0.4; exec "$TOOL" "$@"',
  // Says that it did what it was told, and does nothing.
  deaf: 'cat >/dev/null; exit 0',
};

/** When a tool kills the agent that started it. */
export const moments = ['before a write', 'during a write', 'after a write', 'during a read'] as const;

export type Moment = (typeof moments)[number];

/** Once only: the next agent, too, uses these tools. */
const momentToScript: Readonly<Record<Moment, (isArmed: string) => string>> = {
  'before a write': (isArmed) => `if ${isArmed}; then kill -9 $PPID; fi; exec "$TOOL" "$@"`,
  'during a write': (isArmed) =>
    `if ${isArmed}; then "$TOOL" "$@" <&0 & kill -9 $PPID; wait; else exec "$TOOL" "$@"; fi`,
  'after a write': (isArmed) =>
    `"$TOOL" "$@"; status=$?; if ${isArmed}; then kill -9 $PPID; fi; exit $status`,
  'during a read': (isArmed) => `if ${isArmed}; then kill -9 $PPID; fi; exec "$TOOL" "$@"`,
};

/** The tools that an agent has, and no others: each can be broken and repaired. */
export class Tools {
  readonly #shims = new Shims();

  constructor() {
    for (const tool of [...tools, ...helpers]) this.#shims.link(tool);
  }

  get path(): string {
    return this.#shims.onlyPath;
  }

  /** Breaks one until `repair()`. */
  break(tool: string, breakage: Breakage): void {
    if (breakage === 'missing') this.#shims.hide(tool);
    else this.#shims.wrap(tool, breakageToScript[breakage]);
  }

  /** The next tool of the kind kills the agent that starts it. */
  arm(moment: Moment): void {
    this.#shims.replace('armed', 'true');
    const isArmed = `/bin/rm '${this.path}/armed' 2>/dev/null`;
    for (const tool of moment === 'during a read' ? readers : writers)
      this.#shims.wrap(tool, momentToScript[moment](isArmed));
  }

  repair(): void {
    for (const tool of tools) this.#shims.link(tool);
    this.#shims.hide('armed');
  }

  remove(): void {
    this.#shims.remove();
  }
}
