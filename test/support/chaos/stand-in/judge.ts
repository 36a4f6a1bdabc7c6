import { type Cluster, seatNames, type SeatName } from '../../network/cluster.ts';
import { type Truth, expectAnswers, findBalancer, type AgentHost, agentHosts } from './truth.ts';
import { families } from '../../../../lib/net.ts';
import { vips, apiserverPort } from '../../network/layout.ts';
import { judgeTraffic, judgeCheck } from '../world/judge.ts';
import type { Place } from './place.ts';

/** With a fair choice of three, so many connections miss one apiserver once in 5,000 times, and then it is looked again. */
const connections = 24;

/** So long it waits for one of them, and then it is looked again, too. */
const answerMs = 2000;

/** From every place and in every family, connections to the VIP go where the truth says. */
export async function judgeSeats(cluster: Cluster, truth: Truth): Promise<string[]> {
  return (await Promise.all(seatNames.map((seat) => judgeSeat(cluster, seat, truth)))).flat();
}

async function judgeSeat(cluster: Cluster, seat: SeatName, truth: Truth): Promise<string[]> {
  const complaints: string[] = [];
  // One after the other: a seat has one task at a time.
  for (const family of families) {
    const asker = {
      name: `${seat} to ${vips[family]}`,
      ask: (count: number) => cluster.seat(seat).greet(vips[family], apiserverPort, count, answerMs),
      expect: () => expectAnswers(findBalancer(seat, truth), family, truth),
    };
    complaints.push(...(await judgeTraffic(asker, { atOnce: connections, most: connections })));
  }
  return complaints;
}

/** kube-proxy is not held up: it can write what it could not write, and remove what it could not remove. */
export async function judgeProxy({ strangers }: Place, truth: Truth, name: AgentHost): Promise<string[]> {
  const proxy = truth.proxies[name];
  if (proxy.isBehind) await strangers.sync(proxy);
  if (proxy.isBehind) return [`${name}: kube-proxy cannot restore its rules`];
  const left = await strangers.removeLeft(proxy);
  return left.map((dialect) => `${name}: kube-proxy cannot remove its rules of iptables-${dialect}`);
}

/** On one host: foreign rules are the strangers' own, and a fresh check finds nothing. */
export async function judgeHost({ strangers, agent }: Place): Promise<string[]> {
  const { name } = agent.host;
  const [foreign, check] = await Promise.all([strangers.compare(), agent.command('check')]);
  const unsafe = agent.listUnsafeWrites().map((complaint) => `${name}: ${complaint}`);
  return [...foreign.complaints, ...judgeCheck(name, check), ...unsafe];
}

/** What an idle agent does not change: the rules with their handles, which are new with every write. */
export async function readIdle({ host }: Place): Promise<string> {
  return host.shell('nft --stateless --handle list ruleset');
}

/** The hosts whose rules were written between two readings with nothing done between them, a sentence each. */
export function compareIdle(
  before: ReadonlyMap<AgentHost, string>,
  after: ReadonlyMap<AgentHost, string>,
): string[] {
  return agentHosts
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => `${name}: rules are written although nothing happens`);
}
