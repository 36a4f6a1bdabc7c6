/**
 * Writes Services of every shape with the tools of one folder, and reads them with those of others, in the network namespace that it runs in.
 * For suites.test.ts: `node suites-services.ts WRITER READER…`. Prints an `Outcome`.
 */
import { execFileSync } from 'node:child_process';
import { IsolatedWrites, Programmer } from '../../balancer/table/programmer.ts';
import type { PortBalance } from '../../balancer/services/backends.ts';
import { makePortBalance } from '../support/fakes/port-balance.ts';
import { createBalancerKernel } from '../../lib/kernel/kernel.ts';
import { families, type Family } from '../../lib/net.ts';
import { systemClock } from '../../lib/clock.ts';

/** What came of it. */
export interface Outcome {
  /** Services that the writer does not take, and why. */
  readonly refused: readonly (readonly [string, string])[];
  /** By reader: what it found otherwise than it was written, and the end of `nft list ruleset`. */
  readonly readers: Readonly<
    Record<string, { readonly drifted: readonly string[]; readonly listing: string }>
  >;
}

const [writer = '', ...readers] = process.argv.slice(2);
const commonPath = process.env['PATH'] ?? '';

/** Tools are looked up anew for each call. */
function use(folder: string): void {
  process.env['PATH'] = `${folder}:${commonPath}`;
}

const toPod = (family: Family, number: number) =>
  family === 'ipv4' ? `10.244.0.${number}` : `fd00:244::${number}`;

/** What is special about each Service; all of them stand in one table, as on a node. */
const shapes = (family: Family): Readonly<Record<string, Partial<PortBalance>>> => {
  const [near, far] = [1, 2].map((number) => ({ address: toPod(family, number), port: 8080 }));
  const nodes = new Map([['w2', toPod(family, 9)]]);
  const ends = new Map(
    [near, far].map((end, at) => [`${end?.address} ${end?.port}`, at === 0 ? null : 'w2']),
  );
  const relay = { ends, nodes, weights: new Map([...ends.keys()].map((end) => [end, 100])) };
  return {
    random: {},
    rr: { method: 'rr' },
    hash: { method: 'hash' },
    lc: { method: 'lc' },
    udp: { protocol: 'UDP' },
    sctp: { protocol: 'SCTP' },
    sticky: { affinitySeconds: 10_800 },
    stickyForLess: { affinitySeconds: 60 },
    sources: { sources: family === 'ipv4' ? ['10.0.0.0/8', '192.0.2.7'] : ['fd00::/8', '2001:db8::7'] },
    none: { backends: [], present: [] },
    local: { keepsClient: true },
    relayed: { keepsClient: true, relay },
    relayedByUplink: { keepsClient: true, relay: { ...relay, uplinks: ['eth0'] } },
    relayedSticky: { keepsClient: true, affinitySeconds: 60, relay },
    relayedSctp: { keepsClient: true, protocol: 'SCTP', relay },
    relayedUdp: { keepsClient: true, protocol: 'UDP', relay },
    relayedOnly: { keepsClient: true, isHere: false, relay },
    guarded: {
      guard: {
        addresses: new Map([[family === 'ipv4' ? '10.0.9.200' : 'fd00:9::200', ['6 . 80']]]),
        uplinks: null,
      },
    },
  };
};

function render(): Map<string, PortBalance[]> {
  const services = new Map<string, PortBalance[]>();
  for (const family of families) {
    const backends = [1, 2, 3].map((number) => ({ address: toPod(family, number), port: 8080 }));
    for (const [at, [name, more]] of Object.entries(shapes(family)).entries()) {
      const service = `default/${name}`;
      const addresses = [family === 'ipv4' ? `10.0.9.${at + 1}` : `fd00:9::${at + 1}`];
      const balance = makePortBalance(backends, { family, service, addresses, ...more });
      services.set(service, [...(services.get(service) ?? []), balance]);
    }
  }
  return services;
}

/** Without what the balancer leaves to kube-proxy beside a tool that lacks it. */
async function renderFor(folder: string): Promise<Map<string, PortBalance[]>> {
  use(folder);
  const missing = (await createBalancerKernel().listMissingFeatures()).ipv4;
  if (!missing.includes('verdict map')) return render();
  return new Map([...render()].filter(([, [one]]) => one?.relay === null && one.affinitySeconds === null));
}

/** As the balancer does after a start: it lists, and repairs what it finds otherwise. */
async function compare(services: Map<string, PortBalance[]>): Promise<readonly string[]> {
  const isolated = isolate(new Programmer(createBalancerKernel()));
  await isolated.update(services);
  const { drifted } = await isolated.compare();
  return drifted.map(String);
}

function isolate(programmer: Programmer): IsolatedWrites {
  const kernel = createBalancerKernel();
  return new IsolatedWrites({ clock: systemClock, kernel, keepAlive: () => Promise.resolve() }, programmer);
}

function list(): string {
  try {
    execFileSync('nft', ['list', 'ruleset'], { stdio: ['ignore', 'ignore', 'pipe'] });
    return 'listed';
  } catch (error) {
    const { signal, status, stderr } = error as { signal: string | null; status: number; stderr: Buffer };
    return signal ?? `exit status ${status}: ${stderr.toString()}`;
  }
}

const services = await renderFor(writer);
const refused = new Map<string, string>();
const outcome: Record<string, { drifted: readonly string[]; listing: string }> = {};
for (const reader of readers) {
  // Whoever compares repairs: the next one has to find what the writer wrote.
  use(writer);
  execFileSync('nft', ['flush', 'ruleset']);
  const writes = isolate(new Programmer(createBalancerKernel()));
  await writes.update(services);
  for (const [service, reason] of writes.refused) refused.set(service, reason);
  use(reader);
  const listing = list();
  const drifted =
    listing === 'listed'
      ? await compare(services).catch((error: unknown) => [String(error).slice(0, 200)])
      : [];
  outcome[reader] = { listing, drifted };
}
process.stdout.write(JSON.stringify({ refused: [...refused], readers: outcome } satisfies Outcome));
