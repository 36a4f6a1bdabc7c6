import { VipnatError } from '../../text/errors.ts';

/** How a tool ended that did not do what it was asked. */
export interface ToolFailure {
  readonly tool: string;
  readonly exitCode: number;
  readonly stderr: string;
  /** What it was given on standard input; empty when nothing was. */
  readonly input: string;
}

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

/** DESCRIPTORS_EXHAUSTED, with the way out. `reason` is a sentence without its full stop: what could not be done, and why. */
export function descriptorsExhausted(reason: string): VipnatError {
  return new VipnatError(
    'DESCRIPTORS_EXHAUSTED',
    `${reason}. Raise the limit of open files: this process's (ulimit -n, LimitNOFILE= of a unit) or the host's (sysctl fs.file-max)`,
  );
}

/** TOOL_NOT_PERMITTED, with the way out. `reason` is one line of what refused. */
export function toolNotPermitted(attempt: string, reason: string): VipnatError {
  return new VipnatError(
    'TOOL_NOT_PERMITTED',
    `${attempt} is not permitted (${reason}): run as root or with CAP_NET_ADMIN and CAP_NET_RAW`,
  );
}

/** TOOL_NOT_PERMITTED or NF_TABLES_MISSING when that is what the tool says, else TOOL_FAILED with what it printed and was given in `details`. */
export function toolFailed({ tool, exitCode, stderr, input }: ToolFailure): VipnatError {
  const reason = firstMeaningfulLine(stderr);
  if (permissionWords.test(stderr)) return toolNotPermitted(tool, reason);
  if (noNfTablesWords.test(stderr)) {
    return new VipnatError('NF_TABLES_MISSING', `${tool} finds no nf_tables in this kernel: ${reason}`);
  }
  const message = `${tool} failed with exit status ${exitCode}: ${reason}${adviseTable(tool, stderr)}`;
  return new VipnatError('TOOL_FAILED', message, {
    details: [stderr.trim(), input.trim()].filter((part) => part !== '').join('\n\n'),
  });
}

/** iptables 1.8.9 (legacy) of a table that neither the kernel nor a module has: `unable to initialize table 'nat'`. */
const noTableWords = /unable to initialize table '(\w+)'/;

/** The way out for who has chosen iptables-legacy where the kernel lacks it; empty for every other failure. */
function adviseTable(tool: string, stderr: string): string {
  const table = noTableWords.exec(stderr)?.[1];
  if (table === undefined) return '';
  const module = `${tool.startsWith('ip6') ? 'ip6' : 'ip'}table_${table}`;
  return `: this kernel has no iptables-legacy, or its module is not loaded. Leave --iptables out, or load ${module} on the host`;
}

/**
 * iptables 1.8.9, both dialects: `Permission denied (you must be root)`, `can't open lock file …: Permission denied`.
 * nft 1.0.6: `Operation not permitted (you must be root)`. No exit status tells these from other failures.
 */
const permissionWords = /Permission denied|Operation not permitted/;

/**
 * What is told of a kernel without nfnetlink, or without nf_tables behind it. iptables 1.8.9: `Failed to initialize nft:
 * Protocol not supported`, `Could not fetch rule set generation id: Invalid argument`. nft 1.0.6: `Unable to initialize
 * Netlink socket: Protocol not supported`, `cache initialization failed: Invalid argument`.
 */
const noNfTablesWords =
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
