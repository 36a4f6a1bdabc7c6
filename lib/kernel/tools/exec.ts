import { constants, getPriority, setPriority } from 'node:os';
import { scheduleLimit, systemClock } from '../../control/clock.ts';
import { checkDescriptors } from './descriptors.ts';
import { toolEnvironment } from './search-path.ts';
import {
  descriptorsExhausted,
  toolFailed,
  toolMissing,
  toolNotPermitted,
  toolTimedOut,
} from './tool-errors.ts';

/** A tool with its arguments. */
export interface ToolCommand {
  /** The tool's name, looked up as toSearchPath says. */
  readonly tool: string;
  readonly arguments: readonly string[];
}

/** One run of one tool. */
export interface ToolCall extends ToolCommand {
  /** Standard input; nothing when absent. */
  readonly input?: string;
  /** After this many milliseconds the tool and whatever it started are killed. */
  readonly limitMs: number;
  /** Runs at ordinary priority, also where this process has a higher one: it must not keep back a write. */
  readonly isPatient?: boolean;
}

/** How a tool ended by itself. */
export interface ToolResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs one tool to its end, without a shell and in the C locale. Rejects with TOOL_MISSING, TOOL_NOT_PERMITTED,
 * DESCRIPTORS_EXHAUSTED or TOOL_TIMED_OUT, and with TOOL_FAILED when a signal ended it or it printed more than the limit; an exit
 * status other than 0 is an answer here, not an error.
 */
export async function execTool(call: ToolCall): Promise<ToolResult> {
  const { tool, input = '', limitMs, isPatient = false } = call;
  // Imported late: execa costs 50 ms at start, and most commands never get here.
  const { execa } = await import('execa');
  ensureDescriptors(call);
  const child = execa(tool, call.arguments, { ...toOptions(), input, timeout: limitMs });
  if (isPatient) lowerPriority(child.pid);
  return toToolResult(call, await child);
}

/** A tool that runs and has not been given its input yet. */
export interface StartedTool {
  /** The exit status with which it ended without having been asked; null while it waits, or where a signal ended it. */
  readonly exitCode: number | null;
  /** Whether it still waits. */
  readonly isWaiting: boolean;
  /** Gives it the input of a call of the same command; from then on as execTool. */
  finish(call: ToolCall): Promise<ToolResult>;
  /** Ends it without input, and waits for that. */
  end(): Promise<void>;
}

/** Starts a tool that reads its standard input before it does anything. Its end is up to the caller. Rejects with DESCRIPTORS_EXHAUSTED. */
export async function startTool({ tool, arguments: words }: ToolCommand): Promise<StartedTool> {
  const { execa } = await import('execa');
  ensureDescriptors({ tool });
  const giveUp = new AbortController();
  const child = execa(tool, words, { ...toOptions(), stdin: 'pipe', cancelSignal: giveUp.signal });
  let end: Awaited<typeof child> | null = null;
  const ending = child.then((result) => (end = result));
  return {
    get exitCode() {
      return end?.exitCode ?? null;
    },
    get isWaiting() {
      return end === null;
    },
    async finish(call) {
      const cancel = scheduleLimit(systemClock, call.limitMs, () => {
        giveUp.abort();
      });
      child.stdin.end(call.input ?? '');
      const result = await ending;
      cancel();
      if (result.isCanceled) throw toolTimedOut(call.tool, call.limitMs);
      return toToolResult(call, result);
    },
    async end() {
      giveUp.abort();
      await ending;
    },
  };
}

/** How every tool is run. */
function toOptions() {
  return {
    killSignal: 'SIGKILL',
    // A tool may be a wrapper script: killed alone it would leave its child behind, holding our pipes.
    killDescendants: true,
    env: toolEnvironment(),
    maxBuffer: maxOutputCharacters,
    stripFinalNewline: false,
    reject: false,
  } as const;
}

function ensureDescriptors({ tool }: Pick<ToolCommand, 'tool'>): void {
  try {
    checkDescriptors();
  } catch (error) {
    throw descriptorsExhausted(`${tool} was not started: ${(error as Error).message}`);
  }
}

/** What execa says of an end. */
interface End {
  readonly code?: string | undefined;
  readonly timedOut: boolean;
  readonly exitCode?: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  readonly shortMessage?: string | undefined;
}

function toToolResult({ tool, input = '', limitMs }: ToolCall, end: End): ToolResult {
  const { code, timedOut, exitCode, stdout, stderr, shortMessage } = end;
  if (timedOut) throw toolTimedOut(tool, limitMs);
  if (code === 'ENOENT') throw toolMissing(tool);
  if (code === 'EACCES' || code === 'EPERM') throw toolNotPermitted(tool, code);
  if (exitCode === undefined || code !== undefined) {
    throw toolFailed({ tool, exitCode: exitCode ?? -1, stderr: shortMessage ?? '', input });
  }
  return { exitCode, stdout, stderr };
}

/** Without a number there is no process. */
function lowerPriority(pid: number | undefined): void {
  if (pid === undefined || getPriority() >= constants.priority.PRIORITY_NORMAL) return;
  try {
    setPriority(pid, constants.priority.PRIORITY_NORMAL);
  } catch {
    // It has ended already.
  }
}

/** What runs a tool as execTool does. */
export type RunTool = (call: ToolCall) => Promise<ToolResult>;

/** Like execTool, and answers standard output: an exit status other than 0 rejects with TOOL_FAILED or TOOL_NOT_PERMITTED. */
export async function runTool(call: ToolCall, run: RunTool = execTool): Promise<string> {
  const { exitCode, stdout, stderr } = await run(call);
  if (exitCode !== 0) throw toolFailed({ tool: call.tool, exitCode, stderr, input: call.input ?? '' });
  return stdout;
}

/** A host with 100,000 rules prints 10 MB by iptables-save and 39 MB by nft -j: ten times the former is a fault. */
const maxOutputCharacters = 100_000_000;
