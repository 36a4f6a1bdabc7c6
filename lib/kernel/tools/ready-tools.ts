/**
 * Tools that were started ahead, and wait for their input.
 *
 * Goal: a write is in the kernel a moment after it was decided.
 * Tension: the start of iptables or nft takes longer than its work. A process that waits has an old program, and may have an old view of
 * the kernel.
 * Compromise: only tools that read all their input before they ask the kernel anything (docs/adr/0031). A tool waits ten minutes at most, is
 * used once, and not at all after its file was replaced. What ends vipnat, even SIGKILL, ends its input: without any, a tool writes nothing.
 */
import { type Clock } from '../../control/clock.ts';
import { VipnatError } from '../../text/errors.ts';
import {
  execTool,
  type StartedTool,
  startTool,
  type ToolCall,
  type ToolCommand,
  type ToolResult,
} from './exec.ts';
import { identifyTool } from './toolbox.ts';

/** What a tool loads is replaced together with it, or not at all: iptables' extensions are loaded only when they are needed. */
const maxAgeMs = 600_000;

interface WaitingTool {
  readonly tool: StartedTool;
  readonly identity: string;
  readonly startedAt: number;
}

/** Runs tools, and has some of them wait. */
export class ReadyTools {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, WaitingTool>();
  /** The identities of those that did not wait: nft 0.9.8 cannot. */
  readonly #unable = new Set<string>();
  #work: Promise<void> = Promise.resolve();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Has exactly these wait: starts those that do not, replaces those that are outdated, ends all others. The last call counts. Resolves
   * when that is so, also where a tool cannot be found or started: whoever needs it is told. Null is left out.
   */
  keep(commands: Promise<readonly (ToolCommand | null)[]>): Promise<void> {
    const found = commands.catch(ignore);
    this.#work = this.#work.then(async () => {
      await this.#keep(((await found) ?? []).filter((command) => command !== null));
    });
    return this.#work;
  }

  /** Like execTool, by the tool that waits if there is one. */
  async run(call: ToolCall): Promise<ToolResult> {
    const key = describe(call);
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return await execTool(call);
    this.#waiting.delete(key);
    if (this.#isGood(waiting, call)) return await waiting.tool.finish(call);
    void waiting.tool.end();
    return await execTool(call);
  }

  async #keep(commands: readonly ToolCommand[]): Promise<void> {
    const wanted = new Map(commands.map((command) => [describe(command), command]));
    for (const [key, waiting] of this.#waiting) {
      const command = wanted.get(key);
      if (command !== undefined && this.#isGood(waiting, command)) continue;
      this.#waiting.delete(key);
      // A status of its own says that it did not want to wait.
      if (waiting.tool.exitCode !== null) this.#unable.add(waiting.identity);
      await waiting.tool.end();
    }
    for (const [key, command] of wanted) if (!this.#waiting.has(key)) await this.#start(key, command);
  }

  async #start(key: string, command: ToolCommand): Promise<void> {
    const identity = identifyTool(command.tool);
    if (identity === null || this.#unable.has(identity)) return;
    const tool = (await startTool(command).catch(ignore)) ?? null;
    if (tool !== null) this.#waiting.set(key, { tool, identity, startedAt: this.#clock.now() });
  }

  #isGood({ tool, identity, startedAt }: WaitingTool, command: ToolCommand): boolean {
    const isYoung = this.#clock.now() - startedAt < maxAgeMs;
    return isYoung && tool.isWaiting && identifyTool(command.tool) === identity;
  }
}

function describe({ tool, arguments: words }: ToolCommand): string {
  return [tool, ...words].join(' ');
}

/** Whoever needs the tool is told by its run. */
function ignore(error: unknown): undefined {
  if (error instanceof VipnatError) return undefined;
  throw error;
}
