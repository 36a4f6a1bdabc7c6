import { createMetrics, readProcess } from '../../lib/telemetry/metrics.ts';
import { listSamples, LoopMetrics } from '../../agent/report/metrics.ts';
import { createControllerMeter } from '../../controller/report/metrics.ts';
import { createBalancerPages } from '../../balancer/samples.ts';
import type { BalancerState } from '../../balancer/report.ts';
import { startAgent } from '../support/agent/running-agent.ts';
import { balancerState, controllerState } from '../support/fakes/metric-states.ts';
import { FakeClock } from '../support/fakes/clock.ts';
import { FakeKernel } from '../support/fakes/kernel.ts';
import { toEndpoint } from '../support/fakes/endpoints.ts';
import { syncKubeProxy } from '../support/kube-proxy/in-memory.ts';
import { version } from '../../lib/text.ts';
import { VipnatError } from '../../lib/errors.ts';

/** Series by their names, as promtool reads values a minute apart. */
export type Series = Readonly<Record<string, string>>;

/** What an agent, a balancer and a controller print for five minutes while all is well, and then with faults. */
export async function recordPages(labels: string): Promise<Series> {
  const toLabels = (job: string, instance: string) => `${labels},job="${job}",instance="${instance}"`;
  return {
    ...toSeries(await printAgent(), toLabels('vipnat', 'm1')),
    ...toSeries(await printBalancer(), toLabels('vipnat-services', 'w1')),
    ...toSeries(await printController(), toLabels('vipnat-services', 'controller-1')),
  };
}

type Pages = readonly [well: string, faulty: string];

function toSeries(pages: Pages, labels: string): Series {
  const [before = new Map<string, string>(), after = before] = pages.map((page) => {
    const lines = page.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm);
    return new Map(
      [...lines].map(([, name = '', own = '', value = '']) => [
        `${name}{${own}${own && ','}${labels}}`,
        value,
      ]),
    );
  });
  const join = (values: ReadonlyMap<string, string>, name: string, steps: number) =>
    values.has(name) ? `${values.get(name)}x${steps}` : `_x${steps + 1}`;
  const names = [...before.keys(), ...after.keys()];
  return Object.fromEntries(names.map((name) => [name, `${join(before, name, 4)} ${join(after, name, 5)}`]));
}

async function printAgent(): Promise<Pages> {
  const [clock, { meter, print }] = [new FakeClock(), await createMetrics()];
  const kernel = new FakeKernel(clock);
  const texts = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'];
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, texts.map(toEndpoint));
  const world = startAgent({ clock, kernel, ports: { meter } });
  world.trackFile.guard = { isWatched: true };
  const connections = new Map([['10.0.0.50:6443', new Map([['10.0.0.11:6443', 3]])]]);
  const page = (parts: object) =>
    print(listSamples({ ...world.agent.state, ...parts }, readProcess(version, clock.date()), connections));
  await clock.advance(5000);
  world.api.list('ipv4', texts);
  const well = await page({});
  kernel.addAddress({ family: 'ipv4', address: '10.0.0.11', device: 'eth0', prefixLength: 24 });
  kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
  world.link.others.set('10.0.0.50', '02:00:00:00:00:99');
  world.apiservers.set('10.0.0.13:6443', 'refusing');
  new LoopMetrics(meter, []).failure(new VipnatError('TOOL_FAILED', ''));
  await clock.advance(60_000);
  const since = clock.date();
  return [well, await page({ drain: { since, vipStaysSince: since } })];
}

async function printBalancer(): Promise<Pages> {
  const count = (all: number) =>
    ({ changes: all, repairs: all, failures: new Map([['TOOL_FAILED' as const, all]]) }) as const;
  let state: BalancerState = { ...balancerState, held: ['pool/0', 'pool/1'], left: [], counts: count(1) };
  const { pages, time } = await createBalancerPages(() => state);
  const print = async () => (await pages.get('/metrics')?.(new URLSearchParams()))?.text ?? '';
  const well = await print();
  time(0.1);
  state = { ...balancerState, mode: 'kube-proxy', counts: count(2), unreadable };
  return [well, await print()];
}

const unreadable = [{ kind: 'Service', object: 'a/b' }];

/** First it waits, then it leads. */
async function printController(): Promise<Pages> {
  const { print, time } = await createControllerMeter();
  const answers = new Map([['patched' as const, 1]]);
  const webhook = { isServing: true, untilMs: 90_000, isTrusted: true, answers };
  const { view } = controllerState;
  const edge = view?.deviceReports.get('edge');
  if (view === null || edge === undefined) throw new Error('no device was read');
  const parts = { webhook, kinds: new Map([['Pod', true]]), writes: new Map([['done' as const, 1]]) };
  const ready = { ...view, deviceReports: new Map([['edge', { ...edge, isReady: true }]]) };
  const well = await print({ ...controllerState, ...parts, isLeading: false, view: ready });
  time(0.1);
  return [well, await print({ ...controllerState, ...parts, unreadable })];
}
