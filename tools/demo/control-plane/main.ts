/**
 * vipnat's main job on one screen, see scripts/demo: a control plane in network namespaces, or the lab with `--lab`. Clients open new
 * connections through dist/vipnat.js and through HAProxy, while an apiserver is killed, a master is cut off, and rules are broken.
 * Exit status 1 when anything is not as it should be; figures of time decide nothing.
 */
import { vips, masters, worker, apiserverPort } from '../../../test/support/network/layout.ts';
import { Screen } from '../screen/screen.ts';
import type { Stage } from './stage.ts';
import { Product } from './product.ts';
import { readAllRules, findDifference } from './rules.ts';
import { LabStage } from './lab-stage.ts';
import { StandInStage } from './stand-in-stage.ts';
import { LabError } from '../../lab/settings/error.ts';
import { flushNat } from './flush.ts';
import { Load } from './load.ts';
import type { Sum } from './slice.ts';
import { showOutage, clientNames } from './outage.ts';
import { haproxyPort } from '../../lab/components/haproxy.ts';

const vip = vips.ipv4;
const masterNames = masters.map(({ name }) => name);
const nodeNames = [...masterNames, worker.name];
const conclusions: string[] = [];

const started = performance.now();
const screen = new Screen();
const isLab = process.argv.includes('--lab');
const stage: Stage = await createStage();
const { holder } = stage;
const others = masterNames.filter((name) => name !== holder);
const product = new Product(stage);
process.once('exit', (status) => {
  if (status !== 1) product.removeLogs();
});

try {
  const rulesBefore = await readAllRules(stage, nodeNames);
  showStage();
  await showPlan();
  await stage.startHaproxy(holder, product.logFolder);
  const load = await Load.start(stage, [apiserverPort, haproxyPort]);
  await startAgents();
  await showKill(load);
  await showCut(load);
  await showRepair(load);
  load.stop();
  await showCleanup(rulesBefore);
} catch (error) {
  screen.failures.push(error instanceof Error ? error.message : String(error));
} finally {
  await stage.close();
}
conclude();

/** A lab that cannot be is one line, with the way out. */
async function createStage(): Promise<Stage> {
  try {
    return isLab ? await LabStage.create() : await StandInStage.create();
  } catch (error) {
    if (!(error instanceof LabError)) throw error;
    process.stderr.write(`demo: ${error.message}\n`);
    process.exit(1);
  }
}

function showStage(): void {
  const kind = isLab ? 'of real components' : 'in network namespaces';
  screen.step(`A control plane ${kind}: three apiservers, one virtual IP`);
  for (const line of stage.description) screen.show(line);
}

async function showPlan(): Promise<void> {
  const words = ['plan', '--vip', vip, '--format', 'commands'];
  const { exitCode, stdout, stderr } = await product.run(holder, words);
  const comments = stdout.split('\n').filter((line) => line.startsWith('#'));
  screen.step(`What vipnat would write on ${holder}: vipnat ${words.join(' ')}`);
  screen.show([...comments.slice(0, 2), '…', ...comments.slice(-1)].join('\n') + stderr);
  screen.expect(exitCode === 0, `plan exits with 0, not ${exitCode}`);
}

async function startAgents(): Promise<void> {
  await Promise.all(masterNames.map((host) => product.startAgent(host, ['--vip', vip])));
  const results = await Promise.all(
    masterNames.map((host) => product.waitForSync(host, vip, 'service-chain')),
  );
  screen.step(
    `vipnat run --vip ${vip} on ${masterNames.join(', ')}: check exits with ${results[0]?.exitCode}`,
  );
  screen.show(results[0]?.stdout ?? '');
  screen.expect(
    results.every(({ exitCode }) => exitCode === 0),
    'check exits with 0 on every master while the agents run',
  );
}

async function showKill(load: Load): Promise<void> {
  const [master = '', rows] = [others[0], 6];
  screen.step(`SIGKILL ends the apiserver on ${master}, and after 1.5 s it starts again`);
  let status = '';
  const sums = await showOutage(screen, load, {
    act: async () => {
      await stage.killApiserver(master);
      await load.nextSlice();
      const isSeen = ({ stdout }: { stdout: string }) => stdout.includes(' dead ');
      status = (await product.runUntil(holder, ['status', '--vip', vip], isSeen)).stdout;
    },
    undo: () => stage.startApiserver(master),
    ...{ undoAfter: 3, rows },
  });
  const table = status.split('\n').filter((line) => line.startsWith(' ') || line.startsWith(vip));
  screen.show(`On ${holder}, while it is dead: vipnat status --vip ${vip}`);
  screen.show(table.join('\n'));
  screen.expect(status.includes(' dead '), `status says that the apiserver on ${master} is dead`);
  const { exitCode, stdout } = await product.waitForSync(holder, vip, '3 apiservers');
  screen.show(`check, when the apiserver is back: ${summarise(stdout)}`);
  screen.expect(exitCode === 0, 'the apiserver that came back is in use again');
  conclusions.push(`an apiserver killed: ${sums.map(nameSum).join(', ')}`);
}

async function showCut(load: Load): Promise<void> {
  const master = others.at(-1) ?? '';
  screen.step(`${master} loses its network for 3 s: its packets are lost`);
  const sums = await showOutage(screen, load, {
    act: () => stage.cut(master),
    undo: () => stage.join(master),
    ...{ undoAfter: 6, rows: 8 },
  });
  conclusions.push(`a master without network: ${sums.map(nameSum).join(', ')}`);
}

async function showRepair(load: Load): Promise<void> {
  const { repairedMs, sum } = await flushNat(stage, load, holder);
  const duration =
    repairedMs === null ? 'still not balanced after 5 s' : `balanced again after ${repairedMs} ms`;
  screen.step(`iptables-nft -t nat -F on ${holder}: ${duration}`);
  screen.show(
    `${sum.failed} of ${sum.sent} new connections at that time failed. kube-proxy's rules were gone, too.`,
  );
  screen.expect(repairedMs !== null, 'the agent repairs its rules within 5 s');
  await stage.syncKubeProxy(holder);
}

function nameSum({ failed, sent }: Sum, client: number): string {
  return `${failed} of ${sent} failed with ${(clientNames[client] ?? '').split(' ')[0]}`;
}

async function showCleanup(rulesBefore: ReadonlyMap<string, string>): Promise<void> {
  const hasEnded = await product.stopAgents();
  const results = await Promise.all(masterNames.map((host) => product.run(host, ['cleanup'])));
  const difference = findDifference(rulesBefore, await readAllRules(stage, nodeNames));
  const verdict = difference === null ? 'are byte for byte' : 'are NOT';
  screen.step(`vipnat cleanup: the rules of all hosts ${verdict} what they were before vipnat`);
  screen.show(results[0]?.stderr ?? '');
  screen.show('Compared without counters: every table of iptables-save and ip6tables-save,');
  screen.show(`nft and legacy, on ${nodeNames.join(', ')}.`);
  screen.expect(
    hasEnded.every((isOrderly) => isOrderly),
    'agents end as they should at SIGTERM',
  );
  screen.expect(
    results.every(({ exitCode }) => exitCode === 0),
    'cleanup exits with 0 on every master',
  );
  screen.expect(difference === null, `no rule of anybody else changes. Different on ${difference ?? ''}`);
}

/** The way and the number of apiservers of a check in sync; the whole of any other. */
function summarise(text: string): string {
  return /balanced, and its rules are in sync \((.*)\)/.exec(text)?.[1] ?? text;
}

function conclude(): void {
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  if (screen.failures.length === 0) {
    const lines = conclusions.map((line) => `  ${line}\n`).join('');
    process.stdout.write(`\nShown in ${seconds} s, and removed without a trace. New connections:\n${lines}`);
    return;
  }
  process.exitCode = 1;
  const list = screen.failures.map((failure) => `  ${failure}\n`).join('');
  process.stderr.write(`\ndemo: not as expected:\n${list}The agents' logs are in ${product.logFolder}\n`);
}
