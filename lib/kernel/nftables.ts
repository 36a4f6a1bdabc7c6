import { type Family, familyToElsewhere } from '../net.ts';
import {
  type NftProxyOutput,
  familyToNft,
  type NftTableOutput,
  nameOwnTable,
  type ForwardChain,
  ownTable,
} from './port.ts';
import { withNetlinkClient, withRuleClients } from './netlink.ts';
import {
  type RulePlace,
  type NftLayer,
  type NftChain,
  hookNumbers,
  readRawRules,
  readOneMoment,
  listChains,
} from './nft-netlink.ts';
import {
  isInPath,
  settleAll,
  execTool,
  toolFailed,
  type ToolCommand,
  type RunTool,
  toolMissing,
  runTool,
} from './tools.ts';
import { VipnatError, orElse } from '../errors.ts';

/**
 * The objects of kube-proxy's nftables table that say how one service is balanced; null without that table or
 * without nft. Only what is asked for by name is read: listing tables loads every table of the host (nft 1.0.6).
 */
export async function readNftProxy(
  family: Family,
  serviceChain: string,
  limitMs: number,
): Promise<NftProxyOutput | null> {
  if (!isInPath('nft')) return null;
  const list = (kind: 'map' | 'chain' | 'set', name: string) =>
    listObjects([kind, familyToNft[family], 'kube-proxy', name], limitMs);

  // The map every kube-proxy has first: most hosts have no such table, and one nft tells that.
  const serviceIps = await list('map', 'service-ips');
  if (serviceIps === null) return null;
  const [withoutEndpoints, chain] = await settleAll([
    list('map', 'no-endpoint-services'),
    list('chain', serviceChain),
  ]);
  const { chains, sets } = listReferred(chain);
  const referred = await settleAll([
    ...chains.map((name) => list('chain', name)),
    ...sets.map((name) => list('set', name)),
  ]);
  const objects = [serviceIps, withoutEndpoints, chain, ...referred].flatMap((found) => found ?? []);
  return { family, objects };
}

/** Null when there is no such object. */
async function listObjects(object: readonly string[], limitMs: number): Promise<unknown[] | null> {
  // Sets of clients without the clients.
  const options = ['-j', ...(object[0] === 'set' ? ['-t'] : [])];
  const text = await runList(options, object, limitMs, 'nft -j');
  return text === null ? null : parseObjects(text);
}

/** What nft prints of an object; null where there is none. `title` names nft in a failure. */
async function runList(
  options: readonly string[],
  object: readonly string[],
  limitMs: number,
  title = 'nft',
) {
  const call = { tool: 'nft', arguments: [...options, 'list', ...object], limitMs, isLowPriority: true };
  const { exitCode, stdout, stderr } = await execTool(call);
  if (exitCode === 0) return stdout;
  // nft 1.0.6 exits with 1 and `Error: No such file or directory` for a missing table, map or chain alike.
  if (stderr.includes('No such file or directory')) return null;
  throw toolFailed({ tool: `${title} list ${object.join(' ')}`, exitCode, stderr, input: '' });
}

/**
 * What else has to be asked for by name, as the given rules refer to it: the endpoint chains that goto, jump and verdict maps
 * lead to, and one of the sets of clients, which are all declared alike. Pure and total.
 */
export function listReferred(rules: unknown): { chains: readonly string[]; sets: readonly string[] } {
  const text = JSON.stringify(rules);
  const listNames = (pattern: RegExp) =>
    [...text.matchAll(pattern)].map(([, name]) => name ?? '').filter(isNftName);
  return {
    chains: [...new Set(listNames(/"target": ?"(endpoint-[^"]+)"/g))],
    sets: listNames(/"@(affinity-[^"]+)"/g).slice(0, 1),
  };
}

/**
 * The elements of the `nftables` array that `nft -j list …` printed, without metainfo.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED
 */
export function parseObjects(stdout: string): Record<string, unknown>[] {
  try {
    const { nftables } = JSON.parse(stdout) as { nftables: Record<string, unknown>[] };
    return nftables.filter((object) => !('metainfo' in object));
  } catch (error) {
    throw new VipnatError('TOOL_OUTPUT_UNEXPECTED', 'nft -j printed something other than its JSON', {
      cause: error,
      details: stdout.slice(0, 2000),
    });
  }
}

/**
 * Whether nft's own language can name an object so. Whoever speaks netlink can give it any other name too, and nft makes one
 * text of its arguments: such a name would be read as a command. Source: nftables 1.1, src/scanner.l, `string`.
 */
export function isNftName(name: string): boolean {
  return /^[A-Za-z_][\w/.-]{0,255}$/.test(name);
}

/**
 * What rules may need that not each kernel, and not each nft, has. `reject` is in chains of hook prerouting: Linux 5.9 and later. nft 1.0.2 writes a `verdict map` and cannot read it back: no
 * rule can refer to it again.
 */
const nftFeatures = ['fib', 'dup', 'hash', 'numgen', 'reject', 'verdict map'] as const;

/** One of them. */
export type NftFeature = (typeof nftFeatures)[number];

/** What is missing, by family. */
export type MissingFeatures = Readonly<Record<Family, readonly NftFeature[]>>;

/** A table that exists for the time of a question. It stays where the process is killed meanwhile, and is replaced by the next question. */
export const trialTable = 'vipnat-trial';

/** Each rule needs just this. */
const featureToRule: Readonly<Record<Exclude<NftFeature, 'verdict map'>, (family: Family) => string>> = {
  fib: () => 'fib daddr . iif type != 2 accept',
  dup: (family) => `dup to ${familyToElsewhere[family]}`,
  hash: (family) => `jhash ${familyToNft[family]} saddr mod 7 seed 0x1 vmap { 0 : accept }`,
  numgen: () => 'numgen random mod 2 vmap { 0 : accept }',
  reject: () => 'reject',
};

/** Has a script take effect. Rejects where it is refused. */
type Apply = (script: string) => Promise<void>;

/**
 * Asks nft and the kernel of this network namespace for each feature, in a table that is gone afterwards. Where they take no table at all, nothing
 * counts as missing: whoever writes one gets the reason. Rejects as nft does.
 */
export async function listMissingFeatures(apply: Apply, limitMs: number): Promise<MissingFeatures> {
  const canReadBack = await readsVerdictMaps(apply, limitMs);
  const list = async (family: Family): Promise<readonly NftFeature[]> => {
    const refused = await listRefused(family, limitMs);
    return canReadBack || refused === null ? (refused ?? []) : [...refused, 'verdict map'];
  };
  return { ipv4: await list('ipv4'), ipv6: await list('ipv6') };
}

/** Null where the table itself is refused. */
async function listRefused(family: Family, limitMs: number): Promise<NftFeature[] | null> {
  const rules = nftFeatures
    .filter((feature) => feature !== 'verdict map')
    .map((feature) => ({ feature, rule: featureToRule[feature](family) }));
  const ask = async (asked: readonly { readonly rule: string }[]) => {
    const texts = asked.map(({ rule }) => rule);
    return (await checkScript(printTrial(family, texts), limitMs)) === null;
  };
  if (await ask(rules)) return [];
  if (!(await ask([]))) return null;
  const features: NftFeature[] = [];
  for (const one of rules) if (!(await ask([one]))) features.push(one.feature);
  return features;
}

function printTrial(family: Family, rules: readonly string[]): string {
  const table = `${familyToNft[family]} ${trialTable}`;
  const lines = [
    `add table ${table}`,
    `add chain ${table} first { type filter hook prerouting priority -155; policy accept; }`,
    ...rules.map((rule) => `add rule ${table} first ${rule}`),
  ];
  return `${lines.join('\n')}\n`;
}

/** It has to be there to be read. nft 1.0.2 does not know what values its elements have, and nft 1.1.7 has written another key. */
async function readsVerdictMaps(apply: Apply, limitMs: number): Promise<boolean> {
  const table = `ip ${trialTable}`;
  const map = 'verdicts { typeof numgen inc mod 2 : verdict; elements = { 1 : accept }; }';
  try {
    await apply(`add table ${table}\ndelete table ${table}\nadd table ${table}\nadd map ${table} ${map}\n`);
  } catch (error) {
    if (isNftRefusal(error)) return true;
    throw error;
  }
  try {
    return /\{ 1 : accept \}/.test(await listNftTable(table, [], limitMs));
  } finally {
    await apply(`delete table ${table}\n`);
  }
}

/** Why nft or the kernel would refuse a script, a sentence; null where they would take it. Nothing takes effect. Rejects where nft cannot be asked. */
export async function checkScript(input: string, limitMs: number): Promise<string | null> {
  try {
    await runNft(input, limitMs, { options: ['-c'] });
    return null;
  } catch (error) {
    if (!isNftRefusal(error)) throw error;
    return (error as Error).message;
  }
}

/** What nft prints of vipnat's table, by name: no foreign rule is loaded for that. Null where nft is missing; nft is not asked for a table that is known not to exist. */
export async function readNftTable(
  family: Family,
  limitMs: number,
  mayExist = true,
): Promise<NftTableOutput | null> {
  if (!isInPath('nft')) return null;
  if (!mayExist) return { family, text: '' };
  // Sets without their elements.
  return { family, text: await listNftTable(nameOwnTable(family), ['-t'], limitMs) };
}

/** What nft prints of a table (`ip vipnat`); empty where there is none. */
export async function listNftTable(
  table: string,
  options: readonly string[],
  limitMs: number,
): Promise<string> {
  return await listNftObject(['table', ...table.split(' ')], options, limitMs);
}

/** What nft prints of an object, by its words (`set ip vipnat alive`); empty where there is none. */
export async function listNftObject(
  words: readonly string[],
  options: readonly string[],
  limitMs: number,
): Promise<string> {
  // Numbers for names, so that what is printed depends on no file of this host.
  return (await runList(['-n', ...options], words, limitMs)) ?? '';
}

/** What runs a script for nftables. */
export const nftScript: ToolCommand = { tool: 'nft', arguments: ['-f', '-'] };

/** Whether nft, or the kernel behind it, has refused what it was asked: it works, and would refuse that again. */
function isNftRefusal(error: unknown): boolean {
  return error instanceof VipnatError && error.code === 'TOOL_FAILED';
}

/**
 * Runs one script: all of it takes effect, or nothing. The option `-c` has nothing take effect: nft and the kernel say only whether they
 * would take it.
 */
export async function runNft(
  input: string,
  limitMs: number,
  { run = execTool, options = [] }: { readonly run?: RunTool; readonly options?: readonly string[] } = {},
): Promise<void> {
  if (!isInPath('nft')) throw toolMissing('nft');
  const readable = await toReadable(input, limitMs);
  const script = [...options, ...nftScript.arguments];
  const { exitCode, stderr } = await run({ ...nftScript, arguments: script, input: readable, limitMs });
  if (exitCode === 0) return;
  // nft 0.9.8 opens /dev/stdin again, and nft 1.1.7 wants a file or a pipe there. Node gives a socket.
  if (!/(?:Could not open file|Not a regular file:) "\/dev\/stdin"/.test(stderr)) {
    throw toolFailed({ tool: 'nft', exitCode, stderr, input: readable });
  }
  const pipe = ['-c', 'cat | exec "$@"', 'sh', 'nft', ...script];
  await runTool({ tool: 'sh', arguments: pipe, input: readable, limitMs });
}

/** Types of nft to an expression that has it. */
const typeToExpression: ReadonlyMap<string, string> = new Map([
  ['ipv4_addr', 'ip daddr'],
  ['ipv6_addr', 'ip6 daddr'],
  ['inet_proto', 'meta l4proto'],
  ['inet_service', 'th dport'],
]);

/** How a set or a map is declared by such types. */
const typed = /\btype ((?:ipv[46]_addr|inet_proto|inet_service)\b(?: \. \w+)*)/g;

/**
 * A script as this nft has to be given it. nft 1.1.2 and later describe a set of a `type` to the kernel so that earlier ones, such as
 * kube-proxy's, crash when they list it. Those can list one of a `typeof`. nft 1.0.2 and earlier can list no map to verdicts of a `typeof`.
 */
async function toReadable(script: string, limitMs: number): Promise<string> {
  if (script.search(typed) < 0) return script;
  const version = await runTool({ tool: 'nft', arguments: ['--version'], limitMs });
  const [, major = 0, minor = 0, patch = 0] = /v(\d+)\.(\d+)\.(\d+)/.exec(version)?.map(Number) ?? [];
  if (major * 1e6 + minor * 1e3 + patch < 1_001_002) return script;
  const toExpressions = (types: string) =>
    types.split(' . ').map((type) => typeToExpression.get(type) ?? type);
  return script.replaceAll(typed, (_, types: string) => `typeof ${toExpressions(types).join(' . ')}`);
}

/** The declaration of a set as vipnat renders it, of one that nft has printed: by types where they say the same. */
export function toTyped(declaration: string): string {
  return declaration.replace(/^typeof ([^;:]+?)(?= :|;|$)/, (whole, expressions: string) => {
    const types = expressions.split(' . ').map((expression) => expressionToType.get(expression));
    return types.includes(undefined) ? whole : `type ${types.join(' . ')}`;
  });
}

const expressionToType = new Map([...typeToExpression].map(([type, expression]) => [expression, type]));

/** Distinguishes the nftables transactions of this process from foreign ones: each moves the generation by one. */
export class OwnTransactions {
  readonly #pending = new Set<Promise<boolean>>();
  #count = 0;

  /** Runs work that has made exactly one transaction if it answers true; none, or nobody knows, if it answers false or rejects. */
  async run(work: () => Promise<boolean>): Promise<boolean> {
    const running = work().then((isDone) => {
      if (isDone) this.#count += 1;
      return isDone;
    });
    this.#pending.add(running);
    try {
      return await running;
    } finally {
      this.#pending.delete(running);
    }
  }

  /**
   * A number that changes with foreign transactions. Waits for pending own work, as its transaction may count already. One
   * that failed halfway counts as foreign.
   */
  async countForeign(readGeneration: () => Promise<number>): Promise<number> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    const own = this.#count;
    return (await readGeneration()) - own;
  }
}

/** vipnat asks for a handful of places. */
const maxPlaces = 64;

/**
 * Makes a memory of what a tool said of the rules of a place. It answers what `ask` does, without a call of it while these rules are the same.
 * Rejects as `ask` does.
 */
export function createRuleMemory<T>(): (place: RulePlace, ask: () => Promise<T>) => Promise<T> {
  const placeToAnswer = new Map<string, { readonly rules: string; readonly answer: T }>();
  return async (place, ask) => {
    const name = JSON.stringify(place);
    const rules = await describeRules(place);
    const known = placeToAnswer.get(name);
    if (known !== undefined && known.rules === rules) return known.answer;
    placeToAnswer.delete(name);
    const answer = await ask();
    // An answer can be of another moment: it counts for later if the rules are still the same.
    const isSettled = rules !== null && rules === (await describeRules(place));
    if (placeToAnswer.size >= maxPlaces) placeToAnswer.clear();
    if (isSettled) placeToAnswer.set(name, { rules, answer });
    return answer;
  };
}

/** The same for the same rules; null where the kernel does not answer. */
async function describeRules(place: RulePlace): Promise<string | null> {
  const asking = withNetlinkClient('netfilter', (client) => readRawRules(client, place));
  const rules = await orElse(asking, null);
  return rules === null ? null : `${rules.digest} ${rules.handles.join()}`;
}

/**
 * Chains of nftables that are hooked into the path of packets, whoever they belong to.
 *
 * Goal: a read takes milliseconds and starts no tool while nothing of interest has changed.
 * Tension: nft reads all chains of the host first, and begins again at each commit of anybody (1.0.6). Only nft knows what a rule means.
 * Compromise: netlink tells the chains. What nft has printed of a chain is remembered by the bytes of its rules.
 */

/**
 * Makes what lists chains for packets that this host forwards, iptables-nft's included, and remembers what their rules let pass. None where
 * nft is missing. Each tool may take `limitMs`. Rejects with NETLINK_FAILED or TOOL_NOT_PERMITTED.
 */
export function createForwardLister(limitMs: number): () => Promise<readonly ForwardChain[]> {
  const recall = createRuleMemory<ReturnType<typeof judgeRules>>();
  /** A chain that goes meanwhile, or cannot be asked for, leaves it to its policy. */
  const judge = async ({ layer, table, name }: HookedChain) => {
    if (![table, name].every(isNftName)) return 'policy';
    const words = ['list', 'chain', layer, table, name];
    const call = { tool: 'nft', arguments: words, limitMs, isLowPriority: true } as const;
    const place = { family: layer, table, chain: name };
    return await recall(place, async () => judgeRules(await runTool(call))).catch(() => 'policy');
  };
  return async () => {
    const hooked = await listHookedChains();
    return await settleAll(
      hooked
        .filter(({ hook, type }) => hook === hookNumbers.forward && type === 'filter')
        .map(async (chain) => {
          const what = await judge(chain);
          const isDropping = what === 'drop' || (what === 'policy' && chain.policy === 'DROP');
          return { table: `${chain.layer} ${chain.table}`, name: chain.name, isDropping };
        }),
    );
  };
}

/** The rule of a chain that `check` and `doctor` ask its owner for, with or without a counter and a comment. */
const passage = /^\s+ct status dnat (?:counter packets \d+ bytes \d+ )?accept(?: comment ".*")?$/m;

/**
 * What the rules of a chain do to a new connection that was translated, as nft prints them. A rule that may accept some, or leads elsewhere,
 * leaves it to the policy, as one that only some packets meet.
 */
function judgeRules(text: string): 'pass' | 'drop' | 'policy' {
  if (passage.test(text)) return 'pass';
  const rules = text.split('\n').filter((line) => line.startsWith('\t\t') && !line.startsWith('\t\ttype '));
  const last = rules.pop() ?? '';
  const mayDecide = (rule: string) =>
    /\b(?:accept|return|jump|goto|vmap|queue)\b/.test(rule) && !harmless.test(rule);
  return refusal.test(last) && !rules.some(mayDecide) ? 'drop' : 'policy';
}

/** A rule that meets every packet. */
const refusal =
  /^\s+(?:counter packets \d+ bytes \d+ )?(?:log (?:[a-z]+ (?:"[^"]*"|\w+) )*)?(?:drop|reject)\b/;

/** A rule that meets no new connection from outside. */
const harmless = /^\s+(?:ct state (?!.*(?:new|untracked))|iif(?:name)? "lo" )/;

/** The families whose connections a table of nftables other than vipnat's and iptables-nft's translates. None where nft is missing. */
export async function listTranslatedFamilies(): Promise<ReadonlySet<Family>> {
  const others = (await listHookedChains()).filter(
    ({ type, layer, table }) => type === 'nat' && table !== ownTable && (table !== 'nat' || layer === 'inet'),
  );
  return new Set(others.flatMap(({ layer }) => layerToFamilies[layer] ?? []));
}

/** nftables' families to those of addresses. */
const layerToFamilies: Readonly<Partial<Record<NftLayer, readonly Family[]>>> = {
  ip: ['ipv4'],
  ip6: ['ipv6'],
  inet: ['ipv4', 'ipv6'],
};

type HookedChain = NftChain & { readonly layer: NftLayer };

/** Where chains change all the time, the last reading is as good as any. Rejects with NETLINK_FAILED or TOOL_NOT_PERMITTED. */
async function listHookedChains(): Promise<readonly HookedChain[]> {
  if (!isInPath('nft')) return [];
  return await withRuleClients(async ({ short, long }) => {
    const isHooked = (chain: NftChain): chain is HookedChain => chain.layer !== null && chain.type !== null;
    const list = async () => (await listChains(long)).filter(isHooked);
    return (await readOneMoment(short, list, JSON.stringify)) ?? (await list());
  });
}
