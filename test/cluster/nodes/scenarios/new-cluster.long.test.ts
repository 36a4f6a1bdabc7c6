/** The quickstart for a new cluster, word by word, on nodes that have none: with the real package, systemd, keepalived and kubeadm. */
import { jest, beforeAll, test, expect } from '@jest/globals';
import { labLimitMs as limitMs } from '../../../support/lab/limits.ts';
import { useBareNodes } from './use-nodes.ts';
import { Administrator } from '../install/administrator.ts';
import { readCommand, listSteps, follow } from '../../../support/documents/typing.ts';
import { findArtifact, makeArtifacts } from '../../../support/release/artifacts.ts';
import { masters } from '../../../support/network/layout.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { listReadyNodes, installPodNetwork, spareConnectionTable, fillJoin } from '../install/kubeadm.ts';
import { expectShares } from '../measure/expect-shares.ts';
import { parseDocument } from '../../../support/documents/document.ts';
import { readFileSync } from 'node:fs';
import type { Step } from '../../../support/documents/walkthrough.ts';

jest.setTimeout(limitMs);

const page = 'docs/quickstart.md';
const lab = useBareNodes();

/** On each master: the one that begins, and the others. */
let first: Administrator;
let others: readonly Administrator[];
/** What `kubeadm init` printed. */
let printed = '';

beforeAll(async () => {
  const install = readCommand(page, 'apt-get install ./');
  const files = { [install.replace(/.*\.\//, '')]: findArtifact(await makeArtifacts(), /_amd64\.deb$/) };
  const made = await Promise.all(masters.map(({ name }) => Administrator.create(lab(), name, files)));
  if (made[0] === undefined) throw new Error('there is no master');
  [first, others] = [made[0], made.slice(1)];
  await Promise.all(made.map(({ shell }) => shell(install)));
  await first.shell(`cat >cluster.yaml <<'END'\n${readConfiguration()}\nEND`);
});

const steps = listSteps(page, 'A new cluster');

test.each(steps)('$name', (step) => takeStep(step));

test('leads to three nodes that are ready, each by its own address and none by the VIP', async () => {
  const own = Object.fromEntries(masters.map(({ name, addresses }) => [name, addresses.ipv4]));
  await waitUntil('the nodes are ready', async () => {
    const ready = await listReadyNodes(first);
    return Object.keys(ready).length === masters.length ? null : JSON.stringify(ready);
  });
  expect(await listReadyNodes(first)).toEqual(own);
});

test('leads to a VIP that is balanced over all apiservers, which stayed on the first node', async () => {
  expect(await lab().listHolders()).toEqual([first.master]);
  for (const place of ['client', ...masters.map(({ name }) => name)]) await expectShares(lab(), place);
});

/** The file that the page has somebody write. */
function readConfiguration(): string {
  const { code } = parseDocument(page, readFileSync(page, 'utf8'));
  const file = code.find(({ text }) => text.includes('\nkind: ClusterConfiguration\n'));
  if (file === undefined) throw new Error(`${page} has no file for kubeadm`);
  return file.text;
}

/** Takes a step where its words say. */
async function takeStep(step: Step): Promise<void> {
  const { lead, commands } = step;
  if (/^\*\*Join\b/.test(lead)) {
    for (const other of others) await joinCluster(other);
  } else if (/\bwith the VIP last\b/.test(lead)) {
    for (const each of [...others, first]) await typeAll(step, each);
  } else {
    const places = /\beach node\b/.test(lead) ? [first, ...others] : [first];
    await Promise.all(places.map((each) => typeAll(step, each)));
  }
  if (commands.some(({ command }) => command.startsWith('kubeadm init '))) {
    await installPodNetwork([first, ...others]);
    await spareConnectionTable(first);
  }
}

async function typeAll({ commands }: Step, { type }: Administrator): Promise<void> {
  for (const command of commands) {
    await follow(page, command, async (line) => {
      const result = await type(line);
      if (line.startsWith('kubeadm init ')) printed = result.stdout;
      return result;
    });
  }
}

/** Joins as the first node said, and has keepalived there too, which does not take the VIP. */
async function joinCluster({ shell }: Administrator): Promise<void> {
  await shell(fillJoin(readCommand(page, 'kubeadm join '), printed));
  const [write, start] = steps[1]?.commands ?? [];
  await shell(`${write?.command ?? ''}\n${start?.command ?? ''}`);
  expect(await lab().listHolders()).toEqual([first.master]);
}
