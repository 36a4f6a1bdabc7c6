/**
 * vipnat's main job on one screen, see scripts/demo: a control plane in network namespaces, or the lab with `--lab`,
 * balanced, broken, repaired and cleaned up by dist/vipnat.js. Exit status 1 when anything is not as it should be.
 */
import { vips, masters, worker, apiserverPort } from '../../../test/support/network/layout.ts';
import { Screen } from '../screen/screen.ts';
import type { Stage } from './stage.ts';
import { Product } from './product.ts';
import { readAllRules, findDifference } from './rules.ts';
import { LabStage } from './lab-stage.ts';
import { StandInStage } from './stand-in-stage.ts';
import { LabError } from '../../lab/settings/error.ts';
import { showShares } from './shares.ts';
import { flushNat } from './flush.ts';

const vip = vips.ipv4;
const masterNames = masters.map(({ name }) => name);
const nodeNames = [...masterNames, worker.name];
const requestsPerSeat = 300;

const started = performance.now();
const screen = new Screen();
const isLab = process.argv.includes('--lab');
const stage: Stage = await createStage();
const { holder } = stage;
const product = new Product(stage);
process.once('exit', (status) => {
  if (status !== 1) product.removeLogs();
});

try {
  const rulesBefore = await readAllRules(stage, nodeNames);
  showStage();
  await showPlan();
  await showDrift();
  await startAgents();
  await showBalance();
  await showRepair();
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
  screen.step(`What vipnat would write on ${holder}: vipnat ${words.join(' ')}`);
  screen.show(stdout + stderr);
  screen.expect(exitCode === 0, `plan exits with 0, not ${exitCode}`);
}

async function showDrift(): Promise<void> {
  const { exitCode, stdout, stderr } = await product.run(holder, ['check', '--vip', vip]);
  screen.step(`Before: vipnat check --vip ${vip} exits with ${exitCode}, ${countDrift(stdout)} differences`);
  screen.show(stderr);
  screen.show(removeLabel(stdout));
  screen.expect(exitCode === 2, 'check exits with 2 before anything is written');
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

async function showBalance(): Promise<void> {
  screen.step(`${requestsPerSeat} new connections to ${vip}:${apiserverPort} from each place: who answered`);
  await showShares(stage, screen, { host: vip, port: apiserverPort, count: requestsPerSeat });
}

async function showRepair(): Promise<void> {
  const { repairedMs, sent, failed } = await flushNat(stage, holder);
  const duration =
    repairedMs === null ? 'still not balanced after 5 s' : `balanced again after ${repairedMs} ms`;
  screen.step(`iptables-nft -t nat -F on ${holder}: ${duration}`);
  screen.show(`${failed} of ${sent} new connections at that time failed.`);
  screen.expect(repairedMs !== null, 'the agent repairs its rules within 5 s');
  const direct = await product.waitForSync(holder, vip, 'direct');
  screen.show(`check, while kube-proxy's rules are gone too:  ${summarise(direct.stdout)}`);
  await stage.syncKubeProxy(holder);
  const { exitCode, stdout } = await product.waitForSync(holder, vip, 'service-chain');
  screen.show(`check, after kube-proxy wrote them again:      ${summarise(stdout)}`);
  screen.expect(direct.exitCode === 0 && exitCode === 0, 'check exits with 0 after the repair');
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

/** Without the VIP in front of the first line, and the room for it on the others. */
function removeLabel(text: string): string {
  const label = `${vip}:${apiserverPort}  `;
  return text.replace(label, '').replaceAll(new RegExp(`^ {${label.length}}`, 'gm'), '');
}

/** The way and the number of apiservers of a check in sync; the whole of any other. */
function summarise(text: string): string {
  return /balanced, and its rules are in sync \((.*)\)/.exec(text)?.[1] ?? text;
}

function countDrift(text: string): number {
  return text.split('drift: ').length - 1;
}

function conclude(): void {
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  if (screen.failures.length === 0) {
    process.stdout.write(
      `\nShown in ${seconds} s: planned, balanced from 5 places, repaired, removed without a trace.\n`,
    );
    return;
  }
  process.exitCode = 1;
  const list = screen.failures.map((failure) => `  ${failure}\n`).join('');
  process.stderr.write(`\ndemo: not as expected:\n${list}The agents' logs are in ${product.logFolder}\n`);
}
