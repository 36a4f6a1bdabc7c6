/** Has the balancer's tables changed with nft and without, and prints what came of it. For balancer-elements.test.ts. */
import { type Family, families } from '../../../lib/net.ts';
import { createBalancerKernel, type BalancerKernel } from '../../../lib/kernel/kernel.ts';
import type { PortBalance, Balances } from '../../../balancer/services/backends.ts';
import { Programmer, IsolatedWrites } from '../../../balancer/table/programmer.ts';
import { makePortBalance } from '../../support/fakes/port-balance.ts';
import { readTable } from '../../../balancer/table/table.ts';
import { execFileSync } from 'node:child_process';
import { createConnection, createServer } from 'node:net';
import { once } from 'node:events';
import type { ElementChange } from '../../../lib/kernel/nft-netlink.ts';
import { systemClock, sleep } from '../../../lib/clock.ts';

const port = 8080;
const service = 'default/web';
const vips: Record<Family, string> = { ipv4: '10.0.9.10', ipv6: 'fd00:9::a' };
const toPod = (family: Family, number: number) =>
  family === 'ipv4' ? `10.244.0.${number}` : `fd00:244::${number}`;

const real = createBalancerKernel();

/** How many scripts nft was given, and how many changes took none. */
const counts = { scripts: 0, changes: 0 };
const counting: BalancerKernel = {
  ...real,
  apply: async (script) => {
    counts.scripts += 1;
    await real.apply(script);
  },
  changeElements: async (changes) => {
    const isDone = await real.changeElements(changes);
    if (isDone) counts.changes += 1;
    return isDone;
  },
};
const withNft: BalancerKernel = { ...real, changeElements: () => Promise.resolve(false) };

interface Shape extends Partial<PortBalance> {
  readonly numbers: readonly number[];
}

/** A Service with pods of these numbers, in both families. */
const balance = ({ numbers, ...more }: Shape): Balances =>
  families.map((family) => {
    const backends = numbers.map((number) => ({ address: toPod(family, number), port }));
    return makePortBalance(backends, { family, service, addresses: [vips[family]], ...more });
  });

const write = (programmer: Programmer, balances: Balances) =>
  programmer.update(new Map([[service, balances]]));

async function list(family: Family): Promise<unknown> {
  const text = await real.listTable(`${family === 'ipv6' ? 'ip6' : 'ip'} vipnat-lb`);
  const table = readTable(text, family);
  if (table === null) throw new Error(`no table: ${text}`);
  const sets = [...table.sets].map(([name, { elements, ...set }]) => [name, set, [...elements].sort()]);
  return { sets, chains: [...table.chains] };
}

const listBoth = () => Promise.all(families.map(list));

/** Begins anew: the tables as they are with these pods. */
async function begin(kernel: BalancerKernel, balances: Balances): Promise<Programmer> {
  execFileSync('nft', ['flush', 'ruleset']);
  const programmer = new Programmer(kernel);
  await write(programmer, balances);
  Object.assign(counts, { scripts: 0, changes: 0 });
  return programmer;
}

async function compareWays(before: Shape, after: Shape) {
  await write(await begin(counting, balance(before)), balance(after));
  const [done, tables] = [{ ...counts }, await listBoth()];
  await write(await begin(withNft, balance(before)), balance(after));
  const expected = await listBoth();
  return { ...done, tables, expected };
}

/** Which pods answer at the Service's address. */
async function greet(family: Family): Promise<string[]> {
  const answers = new Set<string>();
  for (let at = 0; at < 40; at += 1) {
    const socket = createConnection({ host: vips[family], port: 80 });
    const [text] = (await once(socket, 'data')) as [Buffer];
    answers.add(text.toString());
    socket.destroy();
  }
  return [...answers].sort();
}

async function startPods(): Promise<void> {
  const run = (command: string) => execFileSync('sh', ['-ec', command]);
  run('ip link set lo up; ip route add 10.0.9.0/24 dev lo; ip route add fd00:9::/64 dev lo');
  for (const family of families) {
    for (const number of [1, 2, 3]) {
      const host = toPod(family, number);
      run(`ip addr add ${host}/${family === 'ipv6' ? '128 dev lo nodad' : '32 dev lo'}`);
      const server = createServer((socket) => socket.on('error', () => undefined).end(host));
      await once(server.listen(port, host), 'listening');
    }
  }
}

/** Packets go where the elements say that were changed without a tool. */
async function sendPackets() {
  const programmer = await begin(counting, balance({ numbers: [1, 2] }));
  await programmer.renew();
  const before = await Promise.all(families.map(greet));
  await write(programmer, balance({ numbers: [3, 2] }));
  return { before, after: await Promise.all(families.map(greet)), changes: counts.changes };
}

/** Of two changes, one of each family, the second cannot be done. */
async function changeHalf() {
  await begin(counting, balance({ numbers: [1, 2] }));
  const before = await listBoth();
  const change = (family: Family, removed: string): ElementChange => ({
    ...{ family, table: 'vipnat-lb', set: `slots/${service}/tcp/80`, removed: [removed] },
    declaration: `typeof numgen inc mod 2 : ${family === 'ipv6' ? 'ip6' : 'ip'} daddr . tcp dport`,
    added: [[removed, `${toPod(family, 3)} . ${port}`]],
  });
  const isDone = await real.changeElements([change('ipv4', '0'), change('ipv6', '7')]);
  const middle = await listBoth();
  const isDoneLater = await real.changeElements([change('ipv4', '0'), change('ipv6', '1')]);
  return { isDone, before, middle, isDoneLater, after: await listBoth() };
}

/** Somebody else removes the element that is to be replaced. */
async function meddle() {
  const programmer = await begin(counting, balance({ numbers: [1, 2] }));
  execFileSync('nft', [`delete element ip vipnat-lb slots/${service}/tcp/80 { 0 }`]);
  const problem = await write(programmer, balance({ numbers: [3, 2] })).then(
    () => null,
    (error: unknown) => (error as { code?: string }).code,
  );
  const { isKnown } = programmer;
  await programmer.compare();
  return { problem, isKnown, isKnownLater: programmer.isKnown, tables: await listBoth(), ...counts };
}

/** How often the watch calls back for own changes of both kinds, and then for somebody else's. */
async function watch() {
  const programmer = await begin(counting, balance({ numbers: [1, 2] }));
  let calls = 0;
  const source = real.watchGeneration({
    clock: systemClock,
    onChange: () => (calls += 1),
    onProblem: ({ message }) => {
      throw new Error(message);
    },
  });
  await source.ready;
  for (let round = 0; round < 10; round += 1) {
    await write(programmer, balance({ numbers: [round + 3, 2] }));
    await programmer.renew();
    await sleep(systemClock, 100);
  }
  const own = calls;
  execFileSync('nft', ['add table ip other']);
  while (calls === own) await sleep(systemClock, 20);
  await source.stop();
  return { ...counts, own, foreign: calls - own };
}

/** One of 20 Services has a port that nft refuses. */
async function isolate() {
  execFileSync('nft', ['flush', 'ruleset']);
  const programmer = new Programmer(real);
  const ports = { clock: systemClock, kernel: real, keepAlive: () => programmer.renew() };
  const writes = new IsolatedWrites(ports, programmer);
  const wanted = Array.from({ length: 20 }, (_, at): [string, Balances] => {
    const name = `default/s${at}`;
    const backends = [{ address: toPod('ipv4', 1), port }];
    return [name, [makePortBalance(backends, { service: name, port: at === 13 ? 70_000 : at + 1 })]];
  });
  await writes.update(new Map(wanted));
  const text = await real.listTable('ip vipnat-lb');
  const programmed = [...text.matchAll(/goto lb\/(default\/s\d+)\//g)].map(([, name]) => name);
  const missing = await real.listMissingFeatures();
  const tables = execFileSync('nft', ['list', 'tables']).toString();
  return { programmed: programmed.length, refused: [...writes.refused], missing, tables };
}

/** Which families differ from what was written a moment ago. */
async function readBack() {
  const sources = { ipv4: ['0.0.0.0/0'], ipv6: ['::102:304', '::ffff:a00:0/104', 'fd00::/64'] };
  const wanted = balance({ numbers: [1, 2], affinitySeconds: 600 });
  const programmer = await begin(
    real,
    wanted.map((one) => ({ ...one, sources: sources[one.family] })),
  );
  return await programmer.compare();
}

/** A port with policy Local whose pods are on so many other nodes. */
function relayTo(nodes: number, more: Partial<PortBalance> = {}): PortBalance {
  const pods = Array.from({ length: nodes }, (_, at): [string, string] => [`w${at}`, toPod('ipv4', at + 1)]);
  const ends = pods.map(([node, pod]): [string, string] => [`${pod} . ${port}`, node]);
  const weights = new Map(ends.map(([end]) => [end, 100]));
  const relay = { ends: new Map(ends), weights, nodes: new Map(pods) };
  return makePortBalance([], { isHere: false, keepsClient: true, relay, ...more });
}

/** The sets that packets fill, as nft declares them: name to whether it is a map. */
function listMemories(): [string, boolean][] {
  const text = execFileSync('nft', ['-n', '-t', 'list', 'ruleset'], { maxBuffer: 1e8 }).toString();
  const sets = [...text.matchAll(/\t(set|map) (\S+) \{([^}]*)\}/g)];
  return sets.flatMap(([, kind, name = '', declaration]) =>
    declaration?.includes('dynamic') === true ? [[name, kind === 'map'] as [string, boolean]] : [],
  );
}

/** How much a comparison reads while memories are full. */
async function compareFull() {
  execFileSync('nft', ['flush', 'ruleset']);
  const read = { bytes: 0 };
  const measuring: BalancerKernel = {
    ...real,
    listTable: async (table) => {
      const text = await real.listTable(table);
      read.bytes += text.length;
      return text;
    },
  };
  const programmer = new Programmer(measuring);
  await programmer.update(new Map([[service, [1, 2, 3].map((at) => relayTo(1, { port: at }))]]));
  const keys = Array.from({ length: 65_535 }, (_, at) => `10.9.${at >> 8}.${at & 255}`);
  const memories = listMemories();
  for (const [name, isMap] of memories) {
    const elements = keys.map((key) => (isMap ? `1024 . ${key} : 1:1` : `${key} . 1024`)).join(', ');
    execFileSync('nft', ['-f', '-'], { input: `add element ip vipnat-lb ${name} { ${elements} }` });
  }
  read.bytes = 0;
  const counts = [...(await real.listMemories('vipnat-lb')).values()];
  return { full: memories.length, counts, drifted: await programmer.compare(), bytes: read.bytes };
}

/** 300 Services with policy Local on ten nodes. */
async function writeLarge() {
  execFileSync('nft', ['flush', 'ruleset']);
  const programmer = new Programmer(real);
  const wanted = Array.from({ length: 300 }, (_, at): [string, Balances] => {
    const name = `default/local-${at}`;
    return [name, [relayTo(9, { service: name, port: at + 1 })]];
  });
  await programmer.update(new Map(wanted));
  return { written: programmer.balances.size, memories: listMemories().length };
}

const hundred = Array.from({ length: 100 }, (_, at) => at + 1);
await startPods();
const outcome = {
  ways: {
    random: await compareWays({ numbers: hundred }, { numbers: [...hundred.slice(0, 99), 200] }),
    udp: await compareWays({ numbers: [1, 2], protocol: 'UDP' }, { numbers: [1, 3], protocol: 'UDP' }),
    sctp: await compareWays({ numbers: [1, 2], protocol: 'SCTP' }, { numbers: [4, 3], protocol: 'SCTP' }),
    hash: await compareWays({ numbers: [1, 2], method: 'hash' }, { numbers: [1, 3], method: 'hash' }),
    local: await compareWays({ numbers: [1, 2], keepsClient: true }, { numbers: [3, 2], keepsClient: true }),
    affinity: await compareWays(
      { numbers: [1, 2], affinitySeconds: 600 },
      { numbers: [1, 2], affinitySeconds: 900 },
    ),
    more: await compareWays({ numbers: [1, 2] }, { numbers: [1, 2, 3] }),
    many: await compareWays(
      { numbers: hundred.slice(0, 20), method: 'hash' },
      { numbers: hundred.slice(20, 40), method: 'hash' },
    ),
  },
  half: await changeHalf(),
  meddled: await meddle(),
  expected: await begin(withNft, balance({ numbers: [3, 2] })).then(listBoth),
  watched: await watch(),
  isolated: await isolate(),
  drifted: await readBack(),
  full: await compareFull(),
  large: await writeLarge().catch((error: unknown) => String(error)),
  packets: await sendPackets(),
};

export type Outcome = typeof outcome;

process.stdout.write(JSON.stringify(outcome), () => {
  process.exit();
});
