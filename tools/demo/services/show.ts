import { type NodeLab, adminKubeconfig } from '../../lab/nodes/node-lab.ts';
import type { Screen } from '../screen/screen.ts';
import { nodes, isMaster } from '../../lab/nodes/hosts.ts';
import { installServices, servicesPool, uninstallServices } from '../../lab/services/install.ts';
import { createPods, findHolder, removeWeb } from '../../lab/services/web.ts';
import { outsider } from '../../../test/support/network/layout.ts';
import { createService } from './service.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { vipnatCommand } from '../../lab/components/agent.ts';
import { requestsPerPlace, showShares } from './shares.ts';
import { underLoad } from './load.ts';
import { waitUntil } from '../../lab/nodes/ready.ts';
import { watchAnswers, findSilence } from './silence.ts';
import { bootAndWait } from './boot.ts';
import { findTraces } from './traces.ts';
import type { Outage } from './outage.ts';

/** Where it is shown. */
interface Stage {
  readonly lab: NodeLab;
  readonly screen: Screen;
  /** Says what takes long, while it does. */
  readonly say: (line: string) => void;
}

const service = 'shop';
const nodeNames = nodes.map(({ name }) => name);

/**
 * Shows on real nodes what `vipnat manifest services` prints: a Service gets an address, a pod and a node are lost, everything is
 * removed. What is not as expected is in the screen's failures; rejects where it cannot go on.
 */
export async function showServices(lab: NodeLab, screen: Screen, say: Stage['say']): Promise<void> {
  const stage = { lab, screen, say };
  await install(stage);
  const address = await showAddress(stage);
  await showBalance(stage, address);
  await showKilledPod(stage, address);
  const holder = await showLostNode(stage, address);
  await showReturn(stage, address, holder);
  await showCleanup(stage);
}

async function install({ lab, screen, say }: Stage): Promise<void> {
  say('installing what vipnat manifest services prints, and four web servers');
  await installServices(lab);
  await createPods(lab, { name: 'web' });
  screen.step('Five real nodes, and on them: vipnat manifest services | kubectl apply -f -');
  screen.show(`masters  ${nameHosts(true)}: the control plane`);
  screen.show(`workers  ${nameHosts(false)}: these hold addresses of Services`);
  screen.show('vipnat   a controller twice, and on each node a balancer with its keepalived');
  screen.show(`pool     ${servicesPool.ipv4}`);
  screen.show(`client   ${outsider.addresses.ipv4}, outside the cluster`);
  screen.show('pods     of the Deployment web:');
  const columns = 'custom-columns=POD:.metadata.name,NODE:.spec.nodeName,ADDRESS:.status.podIP';
  screen.show(await lab.ask(['get', 'pods', '--selector', 'app=web', '--output', columns]));
}

function nameHosts(areMasters: boolean): string {
  const hosts = nodes.filter((node) => isMaster(node) === areMasters);
  return hosts.map(({ name, addresses }) => `${name} ${addresses.ipv4}`).join(', ');
}

async function showAddress({ lab, screen }: Stage): Promise<string> {
  const { address, addressMs, answerMs } = await createService(lab, service);
  screen.step(
    `A Service is created: it has ${address} after ${format(addressMs)}, and a pod answers there after ${format(answerMs)}`,
  );
  screen.show(await lab.ask(['get', 'service', service]));
  screen.show(await printEvents(lab));
  screen.show(await printSeats(lab));
  screen.expect((await findHolder(lab, address)) !== null, `one node has ${address} on an interface`);
  return address;
}

/** Events come a moment after what they are about. */
const eventsMs = 1000;

async function printEvents(lab: NodeLab): Promise<string> {
  await sleep(eventsMs);
  const about = `involvedObject.kind=Service,involvedObject.name=${service}`;
  const columns = 'custom-columns=EVENT:.reason,MESSAGE:.message';
  return await lab.ask(['get', 'events', '--field-selector', about, '--output', columns]);
}

/** As a person asks at the client. */
async function printSeats(lab: NodeLab): Promise<string> {
  const words = ['seats', '--kubeconfig', join(lab.folder, adminKubeconfig)];
  const { stdout, stderr } = await lab.machine(outsider.name).run(vipnatCommand(...words));
  return stdout + stderr;
}

async function showBalance({ lab, screen }: Stage, address: string): Promise<void> {
  const holder = await requireHolder(lab, address);
  const other = nodeNames.find((name) => name !== holder) ?? '';
  screen.step(`${requestsPerPlace} new connections to ${address} from each place: which pod answered`);
  await showShares({ lab, screen }, address, {
    'the outside client': outsider.name,
    [`${holder}, which has ${address}`]: holder,
    [`${other}, another node`]: other,
  });
}

async function showKilledPod({ lab, screen }: Stage, address: string): Promise<void> {
  const words = ['get', 'pods', '--selector', 'app=web', '--output', 'jsonpath={.items[0].metadata.name}'];
  const command = ['delete', 'pod', await lab.ask(words), '--grace-period=0', '--force'];
  const outage = await underLoad(lab, address, async () => {
    await lab.ask(command);
  });
  screen.step(`A pod is killed: ${count(outage)} failed${describeEnd(outage)}`);
  screen.show(`kubectl ${command.join(' ')}`);
  screen.expect(outage.isOver, 'after that no connection fails');
  await waitUntil('the Deployment has another pod', async () => {
    const { exitCode, stdout } = await lab.kubectl(['rollout', 'status', 'deployment/web', '--timeout=30s']);
    return exitCode === 0 ? null : stdout;
  });
}

/** How long answers are watched, and how long before the power goes. */
const [watchSeconds, leadMs] = [15, 2000];

/** Answers the node that was lost. */
async function showLostNode({ lab, screen, say }: Stage, address: string): Promise<string> {
  const holder = await requireHolder(lab, address);
  say(`taking the power from ${holder}: Kubernetes needs most of a minute to see that`);
  let answers: readonly number[] = [];
  const outage = await underLoad(lab, address, async (mark) => {
    const watching = watchAnswers(lab, address, watchSeconds);
    await sleep(leadMs);
    mark();
    await lab.powerOff(holder);
    answers = await watching;
  });
  const next = await findHolder(lab, address);
  const silentMs = findSilence(answers);
  const again = silentMs === null ? 'less than half a second' : format(silentMs);
  screen.step(`${holder}, which has ${address}, loses power: ${address} answers again after ${again}`);
  screen.show(`${next ?? 'No node'} has ${address} now.`);
  screen.show(
    `${count(outage)} failed, the last one began after ${format(outage.lastFailedMs)}. Since then, the pods`,
  );
  screen.show(`of ${holder} get no connection: nodes ask each other whether they live.`);
  screen.expect(next !== null && next !== holder, `another node has ${address}`);
  screen.expect(answers.length > 0, `${address} is asked all the time`);
  screen.expect(outage.isOver, 'after that no connection fails');
  return holder;
}

async function showReturn({ lab, screen, say }: Stage, address: string, node: string): Promise<void> {
  const before = await findHolder(lab, address);
  say(`booting ${node}: its pods get connections when they run again`);
  const outage = await underLoad(lab, address, () => bootAndWait(lab, { node, address }));
  screen.step(`${node} has power again: ${count(outage)} failed, and ${address} stays on ${before ?? ''}`);
  screen.show(await printSeats(lab));
  screen.expect(outage.failed === 0, 'the return of a node fails no connection');
  screen.expect((await findHolder(lab, address)) === before, `${address} does not move`);
}

async function showCleanup({ lab, screen, say }: Stage): Promise<void> {
  say('removing all of it. A returned address waits for a minute before it may be given again');
  const began = performance.now();
  await lab.ask(['delete', 'service', service, '--timeout=60s'], { limitMs: 90_000 });
  const deletedMs = performance.now() - began;
  await removeWeb(lab, 'web');
  await uninstallServices(lab);
  // Where the agent of the API's virtual IP runs, it leaves that one's rules, and exits with 1.
  await Promise.all(nodeNames.map((name) => lab.machine(name).run(vipnatCommand('cleanup'))));
  const traces = await findTraces(lab, nodeNames, servicesPool.ipv4);
  const verdict = traces.length === 0 ? 'no node has a trace' : 'TRACES ARE LEFT';
  screen.step(`The Service is deleted in ${format(deletedMs)}, and then vipnat: ${verdict}`);
  screen.show(traces.join('\n'));
  screen.show('Looked for: tables vipnat-lb, addresses of the pool, balancers, their keepalived.');
  screen.expect(traces.length === 0, 'no node has a trace');
}

async function requireHolder(lab: NodeLab, address: string): Promise<string> {
  const holder = await findHolder(lab, address);
  if (holder === null) throw new Error(`no node has ${address}, or several have it`);
  return holder;
}

function count({ failed, sent }: Outage): string {
  return `${failed} of ${sent} new connections`;
}

function describeEnd({ failed, lastFailedMs }: Outage): string {
  return failed === 0 ? '' : `, the last one after ${format(lastFailedMs)}`;
}

/** A figure with one unit: `850 ms`, `12 s`. */
function format(ms: number): string {
  return ms < 10_000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(0)} s`;
}
