import { masters, addressOf, apiserverPort, listApiservers, vips } from '../../support/network/layout.ts';
import type { SeatName, Cluster } from '../../support/network/cluster.ts';
import type { HoldReport, RequestReport, Target } from '../../support/network/seat-tasks.ts';
import { expect } from '@jest/globals';
import {
  type WitnessedLoad,
  connectWitnessed,
  lostMs,
  type WitnessedReport,
} from '../../support/network/witness.ts';
import type { IptablesDialect } from '../../../lib/kernel/port.ts';
import { type Family, families, formatEndpoint } from '../../../lib/net.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { KubeProxyStandIn } from '../../support/kube-proxy/on-host.ts';
import { execa } from 'execa';
import type { Agent } from '../../support/host/vipnat.ts';
import { readFileSync } from 'node:fs';
import { heartbeatFile, heartbeatProbe } from '../../../lib/telemetry/log.ts';

/** Who asks for the VIP unless a test says otherwise. */
export const client = { seat: 'outside client', host: vips.ipv4 } as const;

/** Options of an agent that balances the IPv4 VIP. */
export const vipArguments = ['--vip', vips.ipv4];

/** Of one that balances the VIPs of both families. */
export const bothVips = families.flatMap((family) => ['--vip', vips[family]]);

const listEndpoints = (family: Family) => listApiservers(family).map(formatEndpoint);

/** The value of `--endpoints` with the IPv4 apiservers. */
export const endpoints = listEndpoints('ipv4').join(',');

/** The same with those of both families. */
export const allEndpoints = families.flatMap(listEndpoints).join(',');

const everyApiserver = masters.map(({ name }) => name);

interface Question {
  readonly seat: SeatName;
  readonly host: string;
  readonly port?: number;
}

/** With a fair choice of three, 60 requests miss one apiserver once in 10 billion times. */
const enoughRequests = 60;

/** Requests from one place succeed without exception and reach all three apiservers. */
export const expectBalanced = async (cluster: Cluster, question: Question): Promise<RequestReport> =>
  expectAnswers(cluster, question, everyApiserver, enoughRequests);

/** Requests from one place succeed without exception and reach exactly these apiservers. */
export async function expectAnswers(
  cluster: Cluster,
  { seat, host, port = 6443 }: Question,
  apiservers: readonly string[],
  count = 30,
): Promise<RequestReport> {
  const report = await cluster.seat(seat).request(host, port, count);
  const seen = { seat, host, errors: report.errors, apiservers: Object.keys(report.apiservers).sort() };
  expect(seen).toEqual({ seat, host, errors: {}, apiservers });
  return report;
}

export const heldConnections = 20;

/** What becomes of open connections that send while something is done, and once more after it. */
export async function holdDuring(
  cluster: Cluster,
  { seat, host, port = 6443 }: Question,
  act: () => Promise<unknown>,
): Promise<HoldReport> {
  const holder = cluster.seat(seat);
  const { report } = await holder.hold({ host, port }, heldConnections, longestMs);
  await act();
  holder.settle();
  return await report;
}

/** All of so many connections lived, and all that they sent came back. */
export function expectUnharmed({ opened, sent, echoes, errors }: HoldReport, count = heldConnections): void {
  expect({ opened, echoes, errors }).toEqual({ opened: count, echoes: sent, errors: {} });
}

/** At the longest: no test is so long. */
const longestMs = 60 * 60_000;

/** New connections from outside, so many a second until `expectNoneLost`, and straight ones to m2's apiserver beside them. */
export function startLoad(cluster: Cluster, target: Target, perSecond: number): WitnessedLoad {
  return connectWitnessed(
    (role) => cluster.seat('outside client', role),
    { ...target, perSecond, durationMs: longestMs, limitMs: lostMs, isNamed: true },
    [{ host: addressOf('m2'), port: apiserverPort }],
  );
}

/** Ends a load of more than so many connections, none of which failed or needed a second SYN. */
export async function expectNoneLost(load: WitnessedLoad, least: number): Promise<WitnessedReport> {
  const report = await load.end();
  const { sent, failures, lostSyns } = report;
  const seen = { failed: failures.length, first: failures.slice(0, 3), lostSyns, isLoad: sent > least };
  expect(seen).toEqual({ failed: 0, first: [], lostSyns: 0, isLoad: true });
  return report;
}

/** Stand-ins for kube-proxy on these machines, which have written nothing yet. */
export const createProxies = (
  cluster: Cluster,
  machines: readonly string[],
  dialect: IptablesDialect,
  families: readonly Family[],
): KubeProxyStandIn[] =>
  machines.flatMap((machine) =>
    families.map(
      (family) => new KubeProxyStandIn(cluster.namespaces, cluster.namespaceOf(machine), dialect, family),
    ),
  );

/** The same in iptables mode and synced. */
export async function startProxies(...which: Parameters<typeof createProxies>): Promise<KubeProxyStandIn[]> {
  const proxies = createProxies(...which);
  await Promise.all(proxies.map((proxy) => proxy.sync()));
  return proxies;
}

/** A cluster in which kube-proxy's stand-in has written its IPv4 rules on m1. */
export const useProxiedCluster = (life: Parameters<typeof useCluster>[0]): Cluster =>
  useCluster(life, (cluster) => startProxies(cluster, ['m1'], 'nft', ['ipv4']));

/** What the agent of m1 answers at a path of its port, with the status in front. */
export async function askPage(cluster: Cluster, path: string): Promise<string> {
  const url = `http://127.0.0.1:10268${path}`;
  const command = ['curl', '--silent', '--write-out', '%{http_code}', '--max-time', '5', url];
  const { stdout } = await cluster.run('m1', command);
  return `${stdout.slice(-3)} ${stdout.slice(0, -3).trim()}`;
}

/** How the kubelet's program ends in the pod of an agent or a balancer. */
export async function probeHeartbeat({ pid }: Agent): Promise<number | undefined> {
  const words = [`--mount=/proc/${pid}/ns/mnt`, ...heartbeatProbe];
  return (await execa('nsenter', words, { reject: false })).exitCode;
}

/** Clients outside: so many that a fair choice leaves out one of three apiservers once in a million times. */
const clients = Array.from({ length: 40 }, (_, at) => `10.77.0.${150 + at}`);

/** Gives the outside client the addresses that `askFromAll` asks from. */
export async function addClients(cluster: Cluster): Promise<void> {
  for (const address of clients) await cluster.shell('client', `ip addr add ${address}/24 dev eth0`);
}

/** Clients to the one apiserver that each gets to at the IPv4 VIP, however often it asks. */
export async function askFromAll(cluster: Cluster): Promise<Map<string, string>> {
  const places = new Map<string, string>();
  for (const address of clients) {
    const { seat, host } = client;
    const { apiservers, errors } = await cluster.seat(seat).requestFrom(address, host, apiserverPort, 4);
    expect([address, errors, Object.keys(apiservers).length]).toEqual([address, {}, 1]);
    places.set(address, Object.keys(apiservers)[0] ?? '');
  }
  return places;
}

/** Until when the program of a pod says that it is alive, in seconds since boot. */
export const readHeartbeat = ({ pid }: Agent): number =>
  Number(readFileSync(`/proc/${pid}/root${heartbeatFile}`, 'utf8'));
