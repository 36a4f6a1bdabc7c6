import { createServer, type Server } from 'node:https';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { formatStatusJson, toHostStatus } from '../../../agent/report/status.ts';
import { showAllMasters } from '../../../cli/all-nodes.ts';
import { plainScreen, type Screen } from '../../../cli/output.ts';
import type { HealthState } from '../../../agent/health/judge.ts';
import { routeTo, useCertificates } from '../../support/api/api-world.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { lookOnce, restoreCaptures } from '../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';

const certificates = useCertificates();
let server: Server | null = null;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** What an agent serves at `/status`. */
async function printPage(held: boolean, third: HealthState = 'ready'): Promise<[number, string]> {
  const assessment = await lookOnce(
    restoreCaptures(['iptables-nft-save.three-endpoints.txt']),
    ordinaryConfig,
  );
  const health = new Map([['10.77.0.13:6443', { ...well, state: third }]]);
  const found = { agent: null, activity: null, flows: new Map(), keepalived: new Map() };
  const status = toHostStatus({ ...assessment, health }, found);
  const page = JSON.parse(formatStatusJson(status, 'x', new Date(0))) as { vips: object[] };
  return [200, JSON.stringify({ ...page, inSync: true, vips: page.vips.map((vip) => ({ ...vip, held })) })];
}

const well = { reason: '', staleConnections: 'none' } as const;
const metadata = (name: string, namespace?: string) => ({ name, namespace, uid: name, resourceVersion: '1' });
const makeNode = (name: string, status = 'True') => ({
  metadata: metadata(name),
  status: { conditions: [{ type: 'Ready', status }] },
});
const makePod = (nodeName: string, args: readonly string[] = ['--listen=0.0.0.0:10268'], more = {}) => ({
  metadata: { ...metadata(`vipnat-${nodeName}`, 'kube-system'), ...more },
  spec: { nodeName, containers: [{ args: ['run', ...args] }] },
});

/** Starts an API with these objects, which answers so at the paths of its proxies, and asks it for all masters. */
async function ask(
  nodes: readonly object[],
  pods: readonly object[],
  pathToAnswer: Readonly<Record<string, [number, string]>>,
) {
  const { certificate, key } = certificates().serving('m1');
  const lists = new Map([
    ['/api/v1/nodes', { kind: 'NodeList', items: nodes }],
    ['/api/v1/pods', { kind: 'PodList', items: pods }],
  ]);
  server = createServer(
    { cert: readFileSync(certificate), key: readFileSync(key) },
    ({ url = '' }, response) => {
      const list = lists.get(url.replace(/\?.*/, ''));
      const objects = { apiVersion: 'v1', metadata: { resourceVersion: '1' }, ...list };
      const [status, text] =
        list === undefined ? (pathToAnswer[url] ?? [404, '']) : [200, JSON.stringify(objects)];
      response.writeHead(status).end(status === 200 ? text : JSON.stringify({ message: text }));
    },
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const route = routeTo(certificates().authority, [`127.0.0.1:${port}`]);
  const show = (screen: Screen | null, ...only: string[]) =>
    showAllMasters(route, new FakeClock(), only, screen);
  const other = (await show(plainScreen, '10.0.0.99:6443')).text;
  return { ...(await show(plainScreen)), other, json: (await show(null)).text };
}

const toPodPath = (node: string) => `/api/v1/namespaces/kube-system/pods/vipnat-${node}:10268/proxy/status`;
const toNodePath = (node: string) => `/api/v1/nodes/${node}:10268/proxy/status`;

type Answers = Parameters<typeof ask>[2];

test('all masters are on one screen, asked by their pods, or by their Nodes where none runs the agent', async () => {
  const other = await printPage(false);
  const paths: Answers = {
    [toPodPath('m1')]: await printPage(true),
    ...{ [toPodPath('old')]: other, [toNodePath('m2')]: other },
  };
  const others = [{ name: 'vipnat-old', deletionTimestamp: '2026-01-01T00:00:00Z' }, { namespace: 'shop' }];
  const pods = [...others, { name: 'vipnat-stuck' }].map((more) => makePod('m1', undefined, more));
  pods.push(makePod('m2', undefined, { namespace: 'shop' }), makePod('m1'));
  const asked = await ask([makeNode('m1'), makeNode('m2')], pods, paths);
  const { isTrouble, text } = asked;
  expect(text).toBe(`10.0.0.50:6443

  NODE  HOLDS IT  MODE           IN SYNC  READY  NOTES
  m1    yes       service-chain  yes        3/3
  m2    no        service-chain  yes        3/3
`);
  expect(isTrouble).toBe(false);
  expect(asked.other).toContain('m1    does not balance 10.0.0.99:6443; it balances 10.0.0.50:6443');
});

test('what masters disagree about comes first; one that is off, or cannot be asked, is a row that says why', async () => {
  const nodes = [
    makeNode('m1'),
    makeNode('m2'),
    makeNode('m3', 'Unknown'),
    makeNode('m4'),
    makeNode('m5'),
    makeNode('m7'),
  ];
  const [, other] = await printPage(false);
  const dial = 'error trying to reach service: dial tcp 10.77.0.13:10268: connect: ';
  const paths: Answers = {
    [toPodPath('m1')]: await printPage(true),
    [toPodPath('m2')]: await printPage(true, 'dead'),
    [toPodPath('m3')]: [503, `${dial}no route to host`],
    [toPodPath('m4')]: [403, 'pods "vipnat-m4:10268" is forbidden'],
    [toNodePath('m5')]: [503, `${dial}connection refused`],
    [toNodePath('m7')]: [200, other.replaceAll('10.0.0.50:6443', '\\u001b]52;c;AAAA\\u0007')],
  };
  const pods = [
    ...['m1', 'm2', 'm3', 'm4'].map((one) => makePod(one)),
    makePod('m6', ['--listen', '127.0.0.1:1']),
  ];
  const { isTrouble, text, json } = await ask(nodes, pods, paths);
  expect(text).toBe(`10.0.0.50:6443
  PROBLEM: m1 and m2 hold it at the same time
  PROBLEM: 10.77.0.13:6443 is ready for m1, and dead for m2

  NODE  HOLDS IT  MODE           IN SYNC  READY  NOTES
  m1    yes       service-chain  yes        3/3
  m2    yes       service-chain  yes        2/3  10.77.0.13:6443 dead
  m3    ?         ?              ?            ?  not known: the node is not ready. ${dial}no route to host
  m4    ?         ?              ?            ?  not known: a role has to allow get of pods/proxy in the namespace kube-system
  m5    ?         ?              ?            ?  not known: ${dial}connection refused. Without this option, an agent listens on loopback only. Give it --listen 0.0.0.0:10268
  m6    ?         ?              ?            ?  not known: its agent has --listen 127.0.0.1:1. Give it --listen 0.0.0.0:10268
  m7    ?         ?              ?            ?  not known: what answers there is no agent
`);
  expect(isTrouble).toBe(true);
  expect(JSON.parse(json)).toMatchObject({
    vips: [{ vip: '10.0.0.50:6443', problems: { length: 2 } }],
    nodes: [
      { report: { inSync: true } },
      {},
      { node: 'm3', pod: 'kube-system/vipnat-m3', report: null },
      {},
      {},
      {},
      {},
    ],
  });
});
