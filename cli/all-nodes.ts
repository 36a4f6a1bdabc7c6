import {
  exchange,
  name,
  objectVersion,
  readJson,
  toKey,
  type ApiCall,
  type NamespacedName,
  type Resource,
} from '../lib/kubernetes/client.ts';
import { createLister } from '../lib/kubernetes/list-watch.ts';
import type { VipnatError } from '../lib/errors.ts';
import { clean, formatTable, joinLines, layOutText, type Part, type Screen } from './output.ts';
import { formatDocument } from '../lib/text.ts';
import { isNodeReady, nodes } from '../lib/api/node.ts';
import { parseEndpoint } from '../lib/net.ts';
import * as z from 'zod/mini';

type Route = Parameters<typeof createLister>[0];
type Clock = Parameters<typeof createLister>[1];

const virtualIp = z.object({
  vip: z.string().check(z.refine((text) => parseEndpoint(text) !== null)),
  held: z.boolean(),
  mode: z.string(),
  backends: z.array(z.object({ address: z.string(), state: z.string() })),
});

type VipOfNode = z.output<typeof virtualIp>;

/** What is read of the agent's page `/status`, version 1. */
const page = z.object({
  vips: z.array(virtualIp),
  inSync: z.boolean(),
  drainedSince: z.nullish(z.string()),
});

interface MasterView {
  readonly node: string;
  readonly pod: string | null;
  readonly report: z.output<typeof page> | null;
  readonly problem: string;
}

const text = z.nullish(z.string());

const container = z.object({
  args: z.nullish(z.array(z.string())),
  env: z.nullish(z.array(z.object({ name: z.string(), value: text }))),
});

const pod = z.object({
  metadata: z.object({ name, namespace: name, resourceVersion: objectVersion, deletionTimestamp: text }),
  spec: z.object({ nodeName: text, containers: z.array(container) }),
});

/** Source: kubeadm. */
const selector = 'labelSelector=node-role.kubernetes.io%2Fcontrol-plane';
const masters = { ...nodes, selector, remedy: 'allow it to list nodes' };

type Pod = z.output<typeof pod>;

const agentPods: Resource<Pod> = {
  ...{
    kind: 'Pod',
    path: '/api/v1/pods',
    schema: pod,
    limits: nodes.limits,
    remedy: 'allow it to list pods',
  },
  selector: 'labelSelector=app.kubernetes.io%2Fname%3Dvipnat&fieldSelector=status.phase%3DRunning',
};

/** The API server gives up a host without power after 30 s; a person does not wait so long. */
const limitMs = 4000;

type Ask = (call: Pick<ApiCall, 'title' | 'path'>) => Promise<string>;

/**
 * `vipnat status --all-nodes`. It asks the agent of each master for its `/status`, through the API server: by the proxy of its pod, or by that
 * of the Node where no pod runs it. `only`: of which virtual IPs; all where it is empty. Without a screen, it is JSON. Rejects where the API cannot be asked, and never because of an agent.
 */
export async function showAllMasters(
  route: Route,
  clock: Clock,
  only: readonly string[],
  screen: Screen | null,
): Promise<{ readonly text: string; readonly isTrouble: boolean }> {
  const views = await askAllMasters(route, clock);
  const vips = compareMasters(views, only);
  const isAgreed = vips.length > 0 && vips.every(({ problems }) => problems.length === 0);
  const named = vips.map(({ vip, problems }) => ({ vip, problems }));
  const text =
    screen === null
      ? formatDocument({ version: 1, vips: named, nodes: views })
      : format(views, vips, only, screen);
  return { text, isTrouble: !isAgreed || views.some(({ report }) => report === null) };
}

async function askAllMasters(route: Route, clock: Clock): Promise<MasterView[]> {
  const { signal } = new AbortController();
  const list = createLister(route, clock, signal);
  const [known, pods] = [await list(masters), selectAgents(await list(agentPods))];
  const names = [...known.map(({ metadata }) => metadata.name), ...pods.map(({ spec }) => spec.nodeName)];
  const ask: Ask = async (call) => {
    const options = { ...(await route.choose()), clock, signal, forbidden: route.forbidden, limitMs };
    return (await exchange({ ...options, ...call }, 4_000_000)).text;
  };
  const view = async (one: string): Promise<MasterView[]> => {
    const [first = null, ...others] = pods.filter(({ spec }) => spec.nodeName === one);
    const answers = await Promise.all(
      [first, ...others].map(async (own) => ({ own, ...(await askMaster(one, own, ask)) })),
    );
    const found = known.find(({ metadata }) => metadata.name === one);
    const best = answers
      .toSorted((a, b) => Number(a.report === null) - Number(b.report === null))
      .slice(0, 1);
    return best.map(({ own, report, problem }) => {
      const isDown = report === null && found !== undefined && !isNodeReady(found);
      return {
        ...{ node: one, pod: own && toKey(own), report },
        problem: isDown ? `the node is not ready. ${problem}` : problem,
      };
    });
  };
  const sorted = [...new Set(names)].flatMap((one) => one ?? []).sort();
  return (await Promise.all(sorted.map(view))).flat();
}

/** Those that run. Anybody may label a pod so: where kube-system has agents, no other namespace has any. */
function selectAgents(pods: readonly Pod[]): readonly Pod[] {
  const running = pods.filter(({ metadata }) => !metadata.deletionTimestamp);
  const own = running.filter(({ metadata }) => metadata.namespace === 'kube-system');
  return own.length > 0 ? own : running;
}

const advice = 'Give it --listen 0.0.0.0:10268';

async function askMaster(
  nodeName: string,
  own: Pod | null,
  ask: Ask,
): Promise<Pick<MasterView, 'report' | 'problem'>> {
  const refuse = (problem: string) => ({ report: null, problem });
  const listen = own === null ? '' : readListen(own.spec.containers);
  if (/^(?:off|127\.|\[::1\])/.test(listen)) return refuse(`its agent has --listen ${listen}. ${advice}`);
  const [place, right] = own === null ? [`nodes/${nodeName}`, 'nodes/proxy'] : locatePod(own.metadata);
  const path = `/api/v1/${place}:${/\d+$/.exec(listen)?.[0] ?? 10_268}/proxy/status`;
  try {
    const report = page.safeParse(readJson(await ask({ title: `asking ${nodeName}`, path }))).data;
    return report === undefined ? refuse('what answers there is no agent') : { report, problem: '' };
  } catch (error) {
    return refuse(describeFailure(error as VipnatError, right, listen !== ''));
  }
}

function locatePod({ namespace, name: own }: NamespacedName): [path: string, right: string] {
  return [`namespaces/${namespace}/pods/${own}`, `pods/proxy in the namespace ${namespace}`];
}

/** Of the sentence, what the row does not say. */
function describeFailure({ code, message }: VipnatError, right: string, isListenKnown: boolean): string {
  if (code === 'API_FORBIDDEN') return `a role has to allow get of ${right}`;
  const why = message.replace(/^.*?(?:failed: |is answered with (?:503: )?)/, '');
  if (isListenKnown || !why.includes('refused')) return why;
  return `${why}. Without this option, an agent listens on loopback only. ${advice}`;
}

/** `ADDR:PORT` or `off`, as the pod's own options say it; empty where they do not. */
function readListen(containers: readonly z.output<typeof container>[]): string {
  const options = containers.flatMap(({ args, env }) => [
    ...(args ?? []),
    ...(env ?? []).map(({ name: variable, value }) => `${variable}=${value}`),
  ]);
  return /(?:--listen[= ]|VIPNAT_LISTEN=)(\S+)/.exec(options.join(' '))?.[1] ?? '';
}

interface VipOfAll {
  readonly vip: string;
  readonly nodeToVip: ReadonlyMap<string, VipOfNode | undefined>;
  readonly problems: readonly string[];
}

function compareMasters(views: readonly MasterView[], only: readonly string[]): VipOfAll[] {
  const asked = views.flatMap(({ node: of, report }) => (report === null ? [] : [{ of, report }]));
  const names = new Set(asked.flatMap(({ report }) => report.vips.map(({ vip }) => vip)));
  const wanted = [...names].filter((vip) => only.length === 0 || only.includes(vip));
  return wanted.sort().map((vip) => {
    const find = ({ vips }: (typeof asked)[number]['report']) => vips.find((one) => one.vip === vip);
    const nodeToVip = new Map(asked.map(({ of, report }) => [of, find(report)]));
    const behind = asked.filter(({ report }) => !report.inSync).map(({ of }) => `${of} is not in sync`);
    return {
      vip,
      nodeToVip,
      problems: [...findProblems(nodeToVip, asked.length === views.length), ...behind],
    };
  });
}

function findProblems(nodeToVip: VipOfAll['nodeToVip'], isWhole: boolean): string[] {
  const all = [...nodeToVip].flatMap(([of, own]) => (own === undefined ? [] : [{ of, ...own }]));
  const vipHolders = all.filter(({ held }) => held).map(({ of }) => of);
  const addresses = new Set(all.flatMap(({ backends }) => backends.map(({ address }) => address)));
  const compare = (what: string, read: (own: VipOfNode) => string) => {
    const groups = [...Map.groupBy(all, read)];
    const parts = groups.map(([state, same]) => `${state} for ${same.map(({ of }) => of).join(', ')}`);
    const isWell = groups.length === 1 && !['dead', 'passthrough'].includes(groups[0]?.[0] ?? '');
    return isWell ? [] : [`${what} ${parts.join(', and ')}`];
  };
  const findState = (address: string) => (own: VipOfNode) =>
    own.backends.find((one) => one.address === address)?.state ?? 'unknown';
  return [
    ...(vipHolders.length > 1 ? [`${vipHolders.join(' and ')} hold it at the same time`] : []),
    ...(vipHolders.length === 0 ? [`no master${isWhole ? '' : ' that answers'} holds it`] : []),
    ...[...nodeToVip].flatMap(([of, own]) => (own === undefined ? [`${of} does not balance it`] : [])),
    ...[...addresses].sort().flatMap((address) => compare(`${address} is`, findState(address))),
    ...compare('the mode is', ({ mode }) => mode),
  ];
}

const columns = ['NODE', 'HOLDS IT', 'MODE', 'IN SYNC', '>READY', 'NOTES'];

/** For each virtual IP, what is wrong, then a row for each master. */
function format(
  views: readonly MasterView[],
  vips: readonly VipOfAll[],
  only: readonly string[],
  screen: Screen,
): string {
  const blocks = vips.map(({ vip, nodeToVip, problems }) => {
    const rows = views.map((view) => toRow(view, nodeToVip.get(view.node)));
    const notes = problems.flatMap((line) => layOutText('  PROBLEM: ', line, screen));
    return joinLines([clean(vip, screen), ...notes, '', ...formatTable(columns, rows, screen, '  ')]);
  });
  if (blocks.length > 0) return blocks.join('\n');
  if (views.length === 0) return 'no master: no Node has the label of a control plane\n';
  const rows = views.map(({ node: of, report, problem }) => {
    const known = report?.vips.map(({ vip }) => vip).join(', ') ?? '';
    const others = `does not balance ${only.join(', ')}; it balances ${known}`;
    return [of, problem || (known === '' ? 'balances no virtual IP' : others)];
  });
  return joinLines(formatTable(['NODE', 'NOTES'], rows, screen));
}

function toRow({ node: of, report, problem }: MasterView, own: VipOfNode | undefined): Part[] {
  const nothing: Part[] = [of, '?', '?', '?', '?'];
  if (report === null) return [...nothing, { text: `not known: ${problem}`, tone: 'bad' }];
  if (own === undefined) return [...nothing, { text: 'does not balance it', tone: 'bad' }];
  const others = own.backends.filter(({ state }) => state !== 'ready');
  const drained = report.drainedSince ? [`drained since ${report.drainedSince}`] : [];
  return [
    of,
    own.held ? { text: 'yes', tone: 'good' } : 'no',
    { text: own.mode, tone: own.mode === 'passthrough' ? 'bad' : undefined },
    report.inSync ? { text: 'yes', tone: 'good' } : { text: 'NO', tone: 'bad' },
    `${own.backends.length - others.length}/${own.backends.length}`,
    [...others.map(({ address, state }) => `${address} ${state}`), ...drained].join(', '),
  ];
}
