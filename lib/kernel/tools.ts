import { VipnatError, orElse } from '../errors.ts';
import { openSync, closeSync, statSync, accessSync, existsSync, constants } from 'node:fs';
import type { Family } from '../net.ts';
import { type IptablesDialect, toolName } from './port.ts';
import { join } from 'node:path';
import type { Result } from 'execa';
import { scheduleLimit, systemClock, type Clock } from '../clock.ts';
import { getPriority, constants as osConstants, setPriority } from 'node:os';

/** Six hosts that advertise ten times a second for three seconds. */
const maxPackets = 200;

/** After its time timeout(1) ends with this status. */
const timedOutStatus = 124;

/** tcpdump 4.99.3, `Couldn't change to 'tcpdump' uid=102 gid=105: Operation not permitted`; -Z root changes nothing about it. */
const keepsRoot = /Couldn't change to '/;

/** Room for timeout and tcpdump to start and to end. */
const spareMs = 3000;

/**
 * Listens to VRRP on every interface for some milliseconds, and answers what `tcpdump -x` printed: for each packet a
 * line about it and then its bytes from the IP header on. Packets count before any firewall of this host has seen them.
 * Rejects with TOOL_MISSING, TOOL_NOT_PERMITTED or TOOL_FAILED.
 */
export async function captureVrrp(durationMs: number): Promise<string> {
  if (!isInPath('tcpdump')) throw toolMissing('tcpdump');
  const tcpdump = ['tcpdump', '-i', 'any', '-n', '-l', '-x', '--immediate-mode', '-c', String(maxPackets)];
  const { exitCode, stdout, stderr } = await execTool({
    tool: 'timeout',
    arguments: ['-s', 'INT', String(durationMs / 1000), ...tcpdump, 'ip proto 112 or ip6 proto 112'],
    limitMs: durationMs + spareMs,
    isLowPriority: true,
  });
  if (keepsRoot.test(stderr)) {
    const reason =
      "tcpdump may not give up root's rights here (CAP_SETUID, CAP_SETGID), so it does not listen";
    throw new VipnatError(
      'TOOL_NOT_PERMITTED',
      `${reason}: run this on the host, or in a privileged container`,
    );
  }
  if (exitCode !== 0 && exitCode !== timedOutStatus) {
    throw toolFailed({ tool: 'tcpdump', exitCode, stderr, input: '' });
  }
  return stdout;
}

/** It answers in milliseconds, and in 0.2 s for thousands of addresses; on a busy host everything takes longer. */
const limitMs = 10_000;

/**
 * What keepalived finds wrong with a configuration, in its own words: null when it takes it. Changes nothing. Rejects, as execTool does,
 * where it cannot be asked.
 */
export async function testConfiguration(path: string): Promise<string | null> {
  const { exitCode, stdout, stderr } = await execTool({
    tool: 'keepalived',
    arguments: ['--config-test', `--use-file=${path}`],
    limitMs,
  });
  return exitCode === 0 ? null : `${stdout}${stderr}`.trim() || `exit status ${exitCode}`;
}

/**
 * The lines of what iptables-save printed. A comment can hold line breaks, which are printed as they are: such a rule
 * is one line here, so that nothing in a comment passes for a rule or a COMMIT. Pure and total, and its time grows with
 * the length of the text.
 */
export function* splitLines(text: string): Generator<string> {
  let start = 0;
  let isQuoted = false;
  for (let from = 0; from <= text.length;) {
    const end = text.indexOf('\n', from);
    const line = text.slice(from, end === -1 ? text.length : end);
    from += line.length + 1;
    if (isQuoted || line.startsWith('-') || line.startsWith('[')) isQuoted = endsQuoted(line, isQuoted);
    if (isQuoted && from <= text.length) continue;
    yield text.slice(start, from - 1);
    start = from;
  }
}

/** Whether a line ends within double quotes. */
function endsQuoted(line: string, startsQuoted: boolean): boolean {
  let isQuoted = startsQuoted;
  for (let at = line.indexOf('"'); at !== -1; at = line.indexOf('"', at + 1)) {
    if (isQuoted ? !isEscaped(line, at) : isOpening(line, at)) isQuoted = !isQuoted;
  }
  return isQuoted;
}

/** Elsewhere a quote is part of a word: the name of an interface is printed as it is, and can even begin with one. */
function isOpening(line: string, at: number): boolean {
  return line[at - 1] === ' ' && !/^ ?-[io] $/.test(line.slice(Math.max(0, at - 4), at));
}

/** A backslash before it counts, unless that is escaped itself. */
function isEscaped(line: string, at: number): boolean {
  let first = at;
  while (line[first - 1] === '\\') first -= 1;
  return (at - first) % 2 === 1;
}

/**
 * Like Promise.all, but answers only when all have settled: after a failure nothing continues in the
 * background. Rejects with the first failure in the given order.
 */
export async function settleAll<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

/** A process takes so many while it is started: three pairs for its pipes, and one by which libuv learns whether it began. */
const descriptorsToStart = 8;

/**
 * Throws EMFILE or ENFILE, as node:fs does, unless a process can be started now. With some descriptors, but fewer than that, Node 24.21.0 gives
 * up half-way and leaves three open for good: an agent that tries again and again would soon have none, also long after whatever
 * took the others has given them back.
 */
export function checkDescriptors(): void {
  const opened: number[] = [];
  try {
    while (opened.length < descriptorsToStart) opened.push(openSync('/dev/null', 'r'));
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
  }
}

/** How a tool ended that did not do what it was asked. */
type ToolFailure = Required<Pick<ToolCall, 'tool' | 'input'>> & Omit<ToolResult, 'stdout'>;

/** TOOL_MISSING, with the Debian package that has the tool. */
export function toolMissing(tool: string): VipnatError {
  const package_ = packageOf(tool);
  return new VipnatError(
    'TOOL_MISSING',
    `${tool} is not in PATH: install the package ${package_} (apt-get install ${package_})`,
  );
}

/** TOOL_TIMED_OUT. The tool has been killed. */
export function toolTimedOut(tool: string, limitMs: number): VipnatError {
  return new VipnatError('TOOL_TIMED_OUT', `${tool} had not ended after ${limitMs / 1000} s and was killed`);
}

/** DESCRIPTORS_EXHAUSTED, with the remedy. `reason` is a sentence without its full stop: what could not be done, and why. */
export function descriptorsExhausted(reason: string): VipnatError {
  return new VipnatError(
    'DESCRIPTORS_EXHAUSTED',
    `${reason}. Raise the limit of open files: this process's (ulimit -n, LimitNOFILE= of a unit) or the host's (sysctl fs.file-max)`,
  );
}

/** TOOL_NOT_PERMITTED, with the remedy. `reason` is one line of what refused. */
export function toolNotPermitted(attempt: string, reason: string): VipnatError {
  return new VipnatError(
    'TOOL_NOT_PERMITTED',
    `${attempt} is not permitted (${reason}): run as root or with CAP_NET_ADMIN and CAP_NET_RAW`,
  );
}

/** TOOL_NOT_PERMITTED or NF_TABLES_MISSING when that is what the tool says, else TOOL_FAILED with what it printed and was given in `details`. */
export function toolFailed({ tool, exitCode, stderr, input }: ToolFailure): VipnatError {
  const reason = firstMeaningfulLine(stderr);
  if (noPermission.test(stderr)) return toolNotPermitted(tool, reason);
  if (noNfTables.test(stderr)) {
    return new VipnatError('NF_TABLES_MISSING', `${tool} finds no nf_tables in this kernel: ${reason}`);
  }
  const message = `${tool} failed with exit status ${exitCode}: ${reason}${adviseTable(tool, stderr)}`;
  return new VipnatError('TOOL_FAILED', message, {
    details: [stderr.trim(), input.trim()].filter((part) => part !== '').join('\n\n'),
  });
}

/** iptables 1.8.9 (legacy) of a table that neither the kernel nor a module has: `unable to initialize table 'nat'`. */
const noTable = /unable to initialize table '(\w+)'/;

/** The remedy for a choice of iptables-legacy where the kernel lacks it; empty for every other failure. */
function adviseTable(tool: string, stderr: string): string {
  const table = noTable.exec(stderr)?.[1];
  if (table === undefined) return '';
  const module = `${tool.startsWith('ip6') ? 'ip6' : 'ip'}table_${table}`;
  return `: this kernel has no iptables-legacy, or its module is not loaded. Leave --iptables out, or load ${module} on the host`;
}

/**
 * iptables 1.8.9, both dialects: `Permission denied (you must be root)`, `can't open lock file …: Permission denied`.
 * nft 1.0.6: `Operation not permitted (you must be root)`. No exit status tells these from other failures.
 */
const noPermission = /Permission denied|Operation not permitted/;

/**
 * What tools print on a kernel without nfnetlink, or without nf_tables behind it. iptables 1.8.9: `Failed to initialize nft:
 * Protocol not supported`, `Could not fetch rule set generation id: Invalid argument`. nft 1.0.6: `Unable to initialize
 * Netlink socket: Protocol not supported`, `cache initialization failed: Invalid argument`.
 */
const noNfTables =
  /(?:initialize nft|initialize Netlink socket|cache initialization failed|fetch rule set generation id): (?:Protocol not supported|Operation not supported|Invalid argument)/;

/** iptables 1.8.9 puts `iptables-nft-restore v1.8.9 (nf_tables): ` or `iptables-restore: ` before the reason, or alone on a line. */
const toolPrefix = /^ip6?tables\S*(?: v\S+ \(\w+\))?:\s*/;

function firstMeaningfulLine(stderr: string): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim().replace(toolPrefix, '').replace(toolPrefix, ''))
    // iptables-nft 1.8.9 warns `# Warning: iptables-legacy tables present, …` before anything else.
    .filter((line) => line !== '' && !line.startsWith('#'));
  return lines[0] ?? 'it gave no reason';
}

/** The Debian package that has a tool. */
export function packageOf(tool: string): string {
  if (tool === 'nft') return 'nftables';
  if (tool === 'inotifywait') return 'inotify-tools';
  if (['keepalived', 'tcpdump'].includes(tool)) return tool;
  return 'iptables';
}

/**
 * Finds the name of the tool that saves or restores one backend's rules: `iptables-nft-save`, or plain `iptables-save`
 * on a host that has only that and where it is of this backend. Without a suffix it is the one that lists chains. Null when the
 * host has none.
 */
export type FindTool = (
  ...backend: readonly [family: Family, dialect: IptablesDialect, suffix?: 'save' | 'restore']
) => Promise<string | null>;

/** Searches for tools at every call, so tools may come and go; a plain tool is asked once which dialect it writes. */
export function createToolFinder(limitMs: number): FindTool {
  const toolToBackend = new Map<string, IptablesDialect>();

  async function askBackend(tool: string): Promise<IptablesDialect> {
    const known = toolToBackend.get(tool);
    if (known !== undefined) return known;
    const version = await runTool({ tool, arguments: ['--version'], limitMs });
    // `iptables-save v1.8.9 (nf_tables)`; before 1.8.0 there was no other than legacy and no parenthesis.
    const dialect = version.includes('(nf_tables)') ? 'nft' : 'legacy';
    toolToBackend.set(tool, dialect);
    return dialect;
  }

  return async (family, dialect, suffix) => {
    const named = toolName(family, dialect, suffix);
    if (isInPath(named)) return named;
    const plain = named.replace(`-${dialect}`, '');
    return isInPath(plain) && (await askBackend(plain)) === dialect ? plain : null;
  };
}

/** Whether there is an executable file of this name where tools are looked for, see toSearchPath. A handful of microseconds: asking is cheaper than remembering. */
export function isInPath(tool: string): boolean {
  return findInPath(tool) !== null;
}

/** Which file a tool is, and which version of it: another text when it was replaced. Null where there is none. */
function identifyTool(tool: string): string | null {
  const path = findInPath(tool);
  const file = path === null ? undefined : statSync(path, { throwIfNoEntry: false });
  return path === null || file === undefined ? null : `${path} ${file.dev} ${file.ino} ${file.mtimeMs}`;
}

function findInPath(tool: string): string | null {
  const folders = toSearchPath(process.env['PATH']).split(':');
  return folders.map((folder) => join(folder, tool)).find(isExecutable) ?? null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A tool with its arguments. */
export interface ToolCommand {
  /** The tool's name, looked up as toSearchPath says. */
  readonly tool: string;
  readonly arguments: readonly string[];
}

/** One run of one tool. */
interface ToolCall extends ToolCommand {
  /** Standard input; nothing when absent. */
  readonly input?: string;
  /** After this many milliseconds the tool and whatever it started are killed. */
  readonly limitMs: number;
  /** Runs at ordinary priority, also where this process has a higher one: it must not keep back a write. */
  readonly isLowPriority?: boolean;
}

/** How a tool ended by itself. */
interface ToolResult {
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
  const { tool, input = '', limitMs, isLowPriority = false } = call;
  // Imported late: execa costs 50 ms at start, and most commands never get here.
  const { execa } = await import('execa');
  ensureDescriptors(call);
  const child = execa(tool, call.arguments, { ...toOptions(), input, timeout: limitMs });
  if (isLowPriority) lowerPriority(child.pid);
  const end = await child;
  return isCrash(call, end) && chooseNewerNft() ? await execTool(call) : toToolResult(call, end);
}

/** Where an image has an nft that reads what each other one writes. What the usual one writes, older ones can read. */
const newerNftFolder = '/opt/vipnat/nft';

/** Whether nft ended by what another program's nft has written: nft 1.1.2 and later describe sets so that earlier ones crash. */
function isCrash({ tool }: ToolCommand, { signal }: End): boolean {
  return tool === 'nft' && signal === 'SIGSEGV';
}

/** From now on this process starts the newer nft, if the image has one. Answers whether that is news. */
function chooseNewerNft(): boolean {
  const path = toSearchPath(process.env['PATH']);
  if (path.startsWith(newerNftFolder) || !existsSync(join(newerNftFolder, 'nft'))) return false;
  process.env['PATH'] = `${newerNftFolder}:${path}`;
  return true;
}

/** Starts a tool that reads its standard input before it does anything. Its end is up to the caller. Rejects with DESCRIPTORS_EXHAUSTED. */
async function startTool({ tool, arguments: words }: ToolCommand) {
  const { execa } = await import('execa');
  ensureDescriptors({ tool });
  const giveUp = new AbortController();
  const child = execa(tool, words, { ...toOptions(), stdin: 'pipe', cancelSignal: giveUp.signal });
  let end: Awaited<typeof child> | null = null;
  const ending = child.then((result) => (end = result));
  return {
    /** The exit status with which it ended without having been asked; null while it waits, or where a signal ended it. */
    get exitCode() {
      return end?.exitCode ?? null;
    },
    /** Whether it still waits. */
    get isWaiting() {
      return end === null;
    },
    /** Gives it the input of a call of the same command; from then on as execTool. */
    async finish(call: ToolCall): Promise<ToolResult> {
      const cancel = scheduleLimit(systemClock, call.limitMs, () => {
        giveUp.abort();
      });
      child.stdin.end(call.input ?? '');
      const result = await ending;
      cancel();
      if (result.isCanceled) throw toolTimedOut(call.tool, call.limitMs);
      return isCrash(call, result) ? await execTool(call) : toToolResult(call, result);
    },
    /** Ends it without input, and waits for that. */
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
    // A tool may be a wrapper script: killed alone it would leave its child behind, holding this process's pipes.
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
type End = Omit<ToolResult, 'exitCode'> &
  Pick<Result, 'exitCode' | 'code' | 'timedOut' | 'signal' | 'shortMessage'>;

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
  if (pid === undefined || getPriority() >= osConstants.priority.PRIORITY_NORMAL) return;
  try {
    setPriority(pid, osConstants.priority.PRIORITY_NORMAL);
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

/** Where distributions keep what an administrator runs: users' own PATH, cron's and su's often lack these. */
const administratorFolders = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** Where they keep everything else. */
const ordinaryFolders = ['/usr/local/bin', '/usr/bin', '/bin'];

/**
 * Where tools are looked for, and what they are given as their own PATH: the folders of PATH, then those for
 * administrators that it lacks. A PATH without any of the system's ordinary folders was chosen by hand, and is taken
 * as it is; without any PATH, those are searched.
 */
export function toSearchPath(path = ''): string {
  const given = path.split(':').filter((folder) => folder !== '');
  const folders = given.length === 0 ? ordinaryFolders : given;
  const isChosen = !folders.some((folder) => ordinaryFolders.includes(folder));
  const lacking = isChosen ? [] : administratorFolders.filter((folder) => !folders.includes(folder));
  return [...folders, ...lacking].join(':');
}

/** What every tool is started with, in addition to this process's own environment. */
export function toolEnvironment(): Readonly<Record<string, string>> {
  return { LC_ALL: 'C', PATH: toSearchPath(process.env['PATH']) };
}

/**
 * Tools that were started ahead, and wait for their input.
 *
 * Goal: a write is in the kernel a moment after it was decided.
 * Tension: the start of iptables or nft takes longer than its work. A process that waits has an old program, and may have an old view of
 * the kernel.
 * Compromise: only tools that read all their input before they ask the kernel anything (docs/design.md). A tool waits ten minutes at most, is
 * used once, and not at all after its file was replaced. What ends vipnat, even SIGKILL, ends its input: without any, a tool writes nothing.
 */

/** What a tool loads is replaced together with it, or not at all: iptables' extensions are loaded only when they are needed. */
const maxAgeMs = 600_000;

interface WaitingTool {
  readonly tool: Awaited<ReturnType<typeof startTool>>;
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
   * when that is so, also where a tool cannot be found or started: the tool's run then reports that. Null is left out.
   */
  keep(commands: Promise<readonly (ToolCommand | null)[]>): Promise<void> {
    const found = orElse(commands, []);
    this.#work = this.#work.then(async () => {
      await this.#keep((await found).flatMap((command) => command ?? []));
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
    // The tool's run reports it.
    const tool = await orElse(startTool(command), null);
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
