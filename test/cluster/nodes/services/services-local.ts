import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { changeReadiness, listNamedPods, replacePods, namedPods, workers } from './named-pods.ts';
import { bootAgain } from './power-cycle.ts';
import { describe, beforeAll, afterAll, test, expect } from '@jest/globals';
import {
  createWeb,
  removeWeb,
  waitForAddress,
  findHolder,
  webPort,
  podPort,
} from '../../../../tools/lab/services/web.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { chooseRounds } from '../../../support/jest/extent.ts';
import { connectToEachWhile } from './services-load.ts';
import { labLimitMs as limitMs } from '../../../support/lab/limits.ts';
import { lostMs, connectWitnessed } from '../../../support/network/witness.ts';
import { listFinders } from '../../../support/lab/witnesses.ts';
import { tell } from '../../../support/lab/test-lab.ts';

const inDefault = ['--namespace', 'default'];

/** From when the API says that a node has no ready pod, or from its loss of power, until nothing may go there. */
const graceMs = 1000;

/** New connections, always from the same ports. */
const load = { perSecond: 500, durationMs: 4000, firstLocalPort: 20_000 };

/** So long after its SIGTERM a pod would still answer whoever is sent to it. */
const servesOnMs = 8000;

/** Addresses of the client outside, of which some belong to each node where clients keep their pod. */
const clients = Array.from({ length: 12 }, (_, at) => `10.77.0.${110 + at}`);

/** What becomes of a node's pods, and how that is undone. */
interface Loss {
  readonly what: string;
  readonly lose: (world: World) => Promise<void>;
  readonly restore: (world: World) => Promise<void>;
}

/** A Service, the worker that has its address, and the one that loses its pods. */
interface World {
  readonly lab: NodeLab;
  readonly name: string;
  readonly address: string;
  readonly victim: string;
}

const losses: readonly Loss[] = [
  { what: 'turn unready', lose: turn, restore: turn },
  {
    what: 'end',
    lose: async ({ lab, name, victim }) => {
      await lab.ask(['cordon', victim]);
      const pods = (await listNamedPods(lab, name)).filter(({ node }) => node === victim);
      await lab.ask(['delete', 'pods', ...pods.map((pod) => pod.name), ...inDefault, '--wait=false']);
    },
    restore: async ({ lab, name, victim }) => {
      await lab.ask(['uncordon', victim]);
      await replacePods(lab, name);
    },
  },
  {
    what: 'die with their node',
    lose: async ({ lab, victim }) => {
      await lab.powerOff(victim);
    },
    restore: async ({ lab, name, victim }) => {
      await bootAgain(lab, victim);
      await replacePods(lab, name);
    },
  },
];

function turn({ lab, name, victim }: World): Promise<void> {
  return changeReadiness(lab, name, victim);
}

const affinities = [
  { title: 'without affinity', spec: {} },
  { title: 'with affinity', spec: { sessionAffinity: 'ClientIP' } },
];

/** Tests that no new connection goes to a node without a ready pod, and that updates of Deployments lose none. */
export function testLocalPolicy(lab: () => NodeLab): void {
  describe.each(affinities)('policy Local, $title', ({ spec }) => {
    const name = 'local';
    beforeAll(async () => {
      const service = { externalTrafficPolicy: 'Local', ...spec };
      await createWeb(lab(), { name, service, ...namedPods(servesOnMs) });
      await replacePods(lab(), name);
      const add = clients.map((address) => `ip addr replace ${address}/32 dev eth0`).join('\n');
      await runShell(lab().machine('client'), add);
    });

    afterAll(async () => {
      await removeWeb(lab(), name);
    });

    test.each(losses)(
      'the pods of a node $what: after a second, not one new connection goes there, and none fails',
      async ({ what, lose, restore }) => {
        const address = await waitForAddress(lab(), name);
        const holder = await findHolder(lab(), address);
        const [victim = ''] = workers.filter((node) => node !== holder);
        const world = { lab: lab(), name, address, victim };
        // These ports, and this client, have led to the node just now.
        const from = await findClientOf(world);
        expect(await connect(world, from, what)).toMatchObject({ failed: [], isOnVictim: true });
        await lose(world);
        try {
          await sleep(graceMs);
          expect(await connect(world, from, what)).toEqual({ failed: [], isOnVictim: false, arrived: 0 });
        } finally {
          await restore(world);
        }
      },
    );
  });

  const rounds = chooseRounds(3, 20);
  test(
    `a Deployment is restarted ${rounds} times: no connection fails with policy Cluster, and none with Local`,
    async () => {
      await createRestarted(lab());
      const loads = await Promise.all(
        policies.map(async (policy) => ({
          address: await waitForAddress(lab(), nameOf(policy)),
          what: `${rounds} restarts of a Deployment, policy ${policy}`,
        })),
      );
      const reports = await connectToEachWhile(lab(), loads, async () => {
        for (let round = 0; round < rounds; round += 1) await replacePods(lab(), nameOf('Cluster'));
      });
      expect(reports.map(({ failed }) => failed)).toEqual([[], []]);
      await lab().ask(['delete', 'service', nameOf('Local'), ...inDefault]);
      await removeWeb(lab(), nameOf('Cluster'));
    },
    limitMs + rounds * 60_000,
  );
}

const policies = ['Cluster', 'Local'] as const;

/** The Deployment's is the first one. */
const nameOf = (policy: (typeof policies)[number]) => `restarted-${policy.toLowerCase()}`;

/** A Deployment with gate and pause, whose pods end at once at SIGTERM, and a Service of each policy. */
async function createRestarted(lab: NodeLab): Promise<void> {
  const name = nameOf('Cluster');
  const { program, container } = namedPods(0);
  await createWeb(lab, {
    ...{ name, program },
    container: { ...container, lifecycle: { preStop: { sleep: { seconds: 2 } } } },
    pod: { readinessGates: [{ conditionType: 'vipnat.io/load-balancer-ready' }] },
  });
  await lab.apply({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: nameOf('Local'), namespace: 'default' },
    spec: {
      ...{ type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb', externalTrafficPolicy: 'Local' },
      ...{ selector: { app: name }, ports: [{ port: webPort, targetPort: podPort }] },
    },
  });
}

/** An address of the client whose connections go to the victim now, at least some of them. */
async function findClientOf({ lab, name, address, victim }: World): Promise<string> {
  const own = (await listNamedPods(lab, name)).filter(({ node }) => node === victim);
  for (const from of clients) {
    const few = { perSecond: 100, durationMs: 200, limitMs: lostMs, quietMs: 0 };
    const target = { host: address, port: webPort, isNamed: true, from };
    const { apiservers } = await lab.seat('client', 'finds').connectAtRate({ ...few, ...target });
    if (own.some((pod) => pod.name in apiservers)) return from;
  }
  throw new Error(`no client has a pod on ${victim}`);
}

interface Seen {
  readonly failed: readonly string[];
  /** Whether a pod of the victim answered one. */
  readonly isOnVictim: boolean;
  /** How many SYNs came to the victim, of which a dead one sees none. */
  readonly arrived: number;
}

async function connect({ lab, name, address, victim }: World, from: string, what: string): Promise<Seen> {
  const own = (await listNamedPods(lab, name)).filter(({ node }) => node === victim);
  const isOn = await lab.isOn(victim);
  if (isOn) await runShell(lab.machine(victim), renderCounter(address));
  const { failures, lostSyns, apiservers, sent } = await connectWitnessed(
    (role) => lab.seat('client', `local ${role}`),
    { host: address, port: webPort, ...load, limitMs: lostMs, isNamed: true, from },
    (await listFinders(lab)).slice(0, 1),
  ).report;
  const arrived = isOn ? await readCounter(lab, victim) : 0;
  tell(
    `Services, policy Local, pods ${what}: ${failures.length} of ${sent} failed, ${arrived} SYNs at ${victim}`,
  );
  const failed = failures.map(({ error, atMs }) => `${error} after ${atMs.toFixed(0)} ms`);
  return {
    failed: lostSyns === 0 ? failed : [...failed, `${lostSyns} by a second SYN`],
    isOnVictim: own.some((pod) => pod.name in apiservers),
    arrived,
  };
}

const table = 'ip lab-arrivals';

/** Before any rule of others. */
const renderCounter = (address: string) => `nft -f - <<'END'
table ${table}
delete table ${table}
table ${table} {
  chain seen {
    type filter hook prerouting priority -500;
    ip daddr ${address} tcp flags & (syn | ack) == syn counter
  }
}
END`;

async function readCounter(lab: NodeLab, node: string): Promise<number> {
  const text = await runShell(lab.machine(node), `nft list table ${table}\nnft delete table ${table}`);
  return Number(/counter packets (\d+)/.exec(text)?.[1]);
}
