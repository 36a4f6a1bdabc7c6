import { podPort, createWeb, waitForAddress, removeWeb } from '../../../../tools/lab/services/web.ts';
import { nodes } from '../../../../tools/lab/nodes/hosts.ts';
import { workers, replacePods } from './named-pods.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { describe, beforeAll, afterAll, test, expect } from '@jest/globals';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { outsider } from '../../../support/network/layout.ts';
import { tell } from '../../../support/lab/test-lab.ts';
import { labLimitMs as limitMs } from '../../../support/lab/limits.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

const name = 'ways';

/** What a client sends to a pod, and what it gets back: 30 kB each, of which the first word is the pod's name. */
const bytes = 30_000;
const program = `require('node:http').createServer((request, response) => {
  let got = 0;
  request.on('data', (data) => (got += data.length)).on('end', () => {
    response.end((process.env.HOSTNAME + ' ' + got + ' ').padEnd(${bytes}, '.'));
  });
}).listen(${podPort}, '::');`;

/** So many connections miss one of two equal nodes once in 2^39. */
const connections = 40;

/** The smallest link on the way, which neither end sees. */
const mtu = 1300;

/** Between the workers, a tunnel as a network plugin makes it. */
const tunnel = 'lab-vxlan';

/** A host behind the client outside. */
const far = { netns: 'far', address: '10.99.0.2', router: '10.99.0.1', network: '10.99.0.0/24' };

/** Of each worker: the address of its end, and what is behind it. */
const ends = nodes
  .filter((node) => workers.includes(node.name))
  .map((node, at) => ({
    ...{ node: node.name, outer: node.addresses.ipv4 },
    ...{ inner: `10.98.0.${at + 1}`, pods: `${node.pods.ipv4}.0/24` },
  }));

/** Tests policy Local over the networks that clusters have: bridges with routes, tunnels, small links, filters of the way back. */
export function testWays(lab: () => NodeLab): void {
  describe('policy Local, by other ways', () => {
    let address = '';

    beforeAll(async () => {
      await createWeb(lab(), { name, program, service: { externalTrafficPolicy: 'Local' } });
      await replacePods(lab(), name);
      address = await waitForAddress(lab(), name);
      await makeFar(lab());
    });

    afterAll(async () => {
      await runShell(lab().machine('client'), `ip netns delete ${far.netns} 2>/dev/null || true`);
      for (const { node } of ends)
        await runShell(lab().machine(node), `ip route delete ${far.network} 2>/dev/null || true`);
      await removeWeb(lab(), name);
    });

    test('a bridge and routes: 30 kB go both ways, also for a client behind a link of 1,300 bytes', async () => {
      for (const from of [outsider.name, far.netns])
        await expectAll(lab(), address, { from, what: 'routes' });
    });

    describe('a tunnel of 1,300 bytes', () => {
      beforeAll(async () => {
        for (const end of ends) await runShell(lab().machine(end.node), renderTunnel(end));
      });

      afterAll(async () => {
        for (const { node, outer } of ends) {
          const others = ends.filter((end) => end.outer !== outer);
          const back = others.map((end) => `ip route replace ${end.pods} via ${end.outer}`);
          await runShell(lab().machine(node), [...back, `ip link delete ${tunnel}`].join('\n'));
        }
      });

      test.each([0, 2])('rp_filter %i: 30 kB go both ways', async (filter) => {
        await setFilter(lab(), filter);
        for (const from of [outsider.name, far.netns])
          await expectAll(lab(), address, { from, what: `vxlan, rp_filter ${filter}` });
      });

      test('rp_filter 1: clients are lost, the Service names the tunnel, and what it has typed mends that', async () => {
        await setFilter(lab(), 1);
        const { lost } = await send(lab(), address, outsider.name);
        expect(lost).toBeGreaterThan(0);
        const remedy = await waitForRemedy(lab());
        expect(remedy).toBe(`sysctl -w net.ipv4.conf.${tunnel}.rp_filter=2`);
        for (const { node } of ends) await runShell(lab().machine(node), remedy);
        await expectAll(lab(), address, { from: outsider.name, what: 'vxlan, the remedy' });
      });
    });
  });
}

interface Sent {
  readonly lost: number;
  /** The pods that got all 30 kB, and whose 30 kB came. */
  readonly pods: ReadonlySet<string>;
}

/** Fails unless each connection brings 30 kB there and back, and pods of both workers have some. */
async function expectAll(
  lab: NodeLab,
  address: string,
  { from, what }: Readonly<Record<'from' | 'what', string>>,
): Promise<void> {
  const { lost, pods } = await send(lab, address, from);
  tell(`Services, policy Local, ${what}: ${lost} of ${connections} from ${from} are lost`);
  expect({ what, from, lost }).toEqual({ what, from, lost: 0 });
  const words = ['--namespace', 'default', '--selector', `app=${name}`, '--output'];
  const path = 'jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{"\\n"}{end}';
  const lines = (await lab.ask(['get', 'pods', ...words, path])).split('\n');
  const reached = lines.map((line) => line.split(' ')).filter(([pod = '']) => pods.has(pod));
  expect(new Set(reached.map(([, node]) => node))).toEqual(new Set(workers));
}

/** One connection after another. */
async function send(lab: NodeLab, address: string, from: string): Promise<Sent> {
  const script = `for each in $(seq ${connections}); do
    head -c ${bytes} /dev/zero | curl --silent --max-time 5 --header Expect: --data-binary @- http://${address}/ || true
    echo
  done`;
  const inside = from === far.netns ? ['ip', 'netns', 'exec', far.netns] : [];
  const command = [...inside, 'sh', '-c', script];
  const { stdout } = await lab.machine(outsider.name).run(command, { limitMs });
  const whole = stdout.split('\n').filter((line) => line.length === bytes && line.includes(` ${bytes} `));
  return { lost: connections - whole.length, pods: new Set(whole.map((line) => line.split(' ')[0] ?? '')) };
}

async function makeFar(lab: NodeLab): Promise<void> {
  await runShell(
    lab.machine(outsider.name),
    `ip netns add ${far.netns}
     ip link add ${far.netns} type veth peer name eth0 netns ${far.netns}
     ip addr add ${far.router}/24 dev ${far.netns}
     ip link set ${far.netns} mtu ${mtu} up
     echo 1 >/proc/sys/net/ipv4/ip_forward
     ip netns exec ${far.netns} ip link set lo up
     ip netns exec ${far.netns} ip link set eth0 up
     ip netns exec ${far.netns} ip addr add ${far.address}/24 dev eth0
     ip netns exec ${far.netns} ip route add default via ${far.router}`,
  );
  for (const { node } of ends)
    await runShell(lab.machine(node), `ip route replace ${far.network} via ${outsider.addresses.ipv4}`);
}

function renderTunnel({ node, inner, outer }: (typeof ends)[number]): string {
  const others = ends.filter((end) => end.node !== node);
  return `ip link add ${tunnel} type vxlan id 77 dstport 4790 local ${outer} nolearning dev eth0
    ip link set ${tunnel} mtu ${mtu} up
    ip addr add ${inner}/24 dev ${tunnel}
    ${others
      .map(
        (end) => `bridge fdb append 00:00:00:00:00:00 dev ${tunnel} dst ${end.outer}
          ip route replace ${end.pods} via ${end.inner} dev ${tunnel} onlink`,
      )
      .join('\n')}`;
}

/** The greater of this and the value for all counts. */
async function setFilter(lab: NodeLab, filter: number): Promise<void> {
  for (const { node } of ends)
    await runShell(
      lab.machine(node),
      `echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter; echo ${filter} >/proc/sys/net/ipv4/conf/${tunnel}/rp_filter`,
    );
}

/** The command in the Service's condition. */
async function waitForRemedy(lab: NodeLab): Promise<string> {
  let remedy = '';
  await waitUntil(
    'the Service says which clients are dropped',
    async () => {
      const words = ['get', 'service', name, '--namespace', 'default', '--output'];
      const text = await lab.ask([...words, 'jsonpath={.status.conditions}']);
      remedy = /Nodes drop clients.*?Run: (sysctl -w [^\s"]*rp_filter=2)/.exec(text)?.[1] ?? '';
      return remedy === '' ? text : null;
    },
    150_000,
  );
  return remedy;
}
