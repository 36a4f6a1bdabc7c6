/**
 * What agents make of a network that loses packets, and what they cost meanwhile: every agent loses 1 % of what it
 * sends to apiservers on other masters and of what they answer, for minutes. Run by `scripts/bench loss [MINUTES]`,
 * 10 by default; docs/benchmarks.md gets the figures.
 */
import { defaultOptions } from '../../lab/settings/options.ts';
import { apiserverPort, masters } from '../../../test/support/network/layout.ts';
import { runBench, say } from '../shared/run.ts';
import { LabError } from '../../lab/settings/error.ts';
import { requireHost } from '../../lab/settings/requirements.ts';
import { removeLabOnSignal } from '../../lab/control-plane/interrupt.ts';
import { buildComponents } from '../../lab/build/build.ts';
import { raiseLab } from '../../lab/control-plane/raise.ts';
import { waitForBalance } from '../../lab/control-plane/ready.ts';
import { prepareClient, watched } from '../shared/client.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeSection } from '../shared/page.ts';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { readFalls, type AgentFigures, measureAgent } from './agents.ts';
import { describeMachine } from '../shared/machine.ts';

const options = { ...defaultOptions, name: `loss-${process.pid}` };
const load = { perSecond: 500, watches: 20, pingIntervalMs: 100 };
const warmUpMs = 15_000;

/** Only what is sent and received on this very host: what it forwards for clients is left alone. */
const losingRules = `table inet loss {
  chain received { type filter hook input priority -300; iif != "lo" tcp sport ${apiserverPort} numgen random mod 100 < 1 drop
  }
  chain sent { type filter hook output priority -300; oif != "lo" tcp dport ${apiserverPort} numgen random mod 100 < 1 drop
  }
}
`;

await runBench(() => run(readMinutes(process.argv[2] ?? '10')));

function readMinutes(text: string): number {
  const minutes = Number(text);
  if (minutes > 0) return minutes;
  throw new LabError(`${text} is no number of minutes. Example: scripts/bench loss 10`);
}

async function run(minutes: number): Promise<void> {
  requireHost(options);
  removeLabOnSignal(options.name);
  await buildComponents(options.kubernetes, say);
  const lab = await raiseLab(options);
  try {
    await waitForBalance(lab);
    await prepareClient(lab);
    await sleep(warmUpMs);
    say(`losing 1 % for ${minutes} minutes`);
    say(`wrote ${await writeSection('loss', await measure(lab, minutes))}`);
  } finally {
    await lab.down();
  }
}

async function measure(lab: Lab, minutes: number): Promise<string> {
  const durationMs = minutes * 60_000;
  const { authority, admin } = lab.certificates;
  const before = await measureAgents(lab);
  for (const { name } of masters) await lab.machine(name).run(['nft', '-f', '-'], { input: losingRules });
  const watching = await lab.seat('client', 'watches').watchTogether({
    ...{ host: lab.vip, port: apiserverPort, identity: { authority, ...admin }, object: watched },
    ...{
      count: load.watches,
      silentCount: 0,
      pingIntervalMs: load.pingIntervalMs,
      awaited: [],
      durationMs,
    },
  });
  const connecting = lab.seat('client', 'connects').connectAtRate({
    ...{ host: lab.vip, port: apiserverPort, perSecond: load.perSecond, durationMs },
  });
  const measuring = sleep(durationMs / 2).then(() => measureAgents(lab));
  const [{ watches }, { sent, failures }, halfway] = await Promise.all([
    watching.report,
    connecting,
    measuring,
  ]);
  const after = await measureAgents(lab);
  const ejections = masters.flatMap(({ name }) => readFalls(lab.service(name, 'vipnat').logFile));
  const ended = watches.filter(({ endedAtMs }) => endedAtMs !== null).length;
  const all = [...before, ...halfway, ...after];
  const shares = after.map(
    ({ processorMs }, index) => ((processorMs - (before[index]?.processorMs ?? NaN)) / durationMs) * 100,
  );
  return [
    `\`scripts/bench loss ${minutes}\`, ${new Date().toISOString().slice(0, 10)}. ${describeMachine()}.`,
    '',
    `- apiservers that an agent took out of use: ${ejections.length}, for at most ${Math.max(0, ...ejections)} ms`,
    `- new connections through the VIP: ${sent}, failed: ${failures.length}`,
    `- watches through the VIP: ${watches.length}, ended: ${ended}`,
    `- memory of an agent: ${spread(all.map(({ memory }) => memory / 1024 ** 2))} MiB`,
    `- file descriptors of an agent: ${spread(all.map(({ descriptors }) => descriptors))}`,
    `- processor of an agent: ${spread(shares)} %`,
  ].join('\n');
}

function measureAgents(lab: Lab): Promise<AgentFigures[]> {
  return Promise.all(masters.map(({ name }) => measureAgent(lab.machine(name), lab.service(name, 'vipnat'))));
}

function spread(figures: readonly number[]): string {
  return [Math.min(...figures), Math.max(...figures)].map((one) => one.toFixed(1)).join(' to ');
}
