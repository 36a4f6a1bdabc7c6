import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { apiserverPort, masters, vips } from '../../test/support/network/layout.ts';
import { Load, perSecond } from '../demo/control-plane/load.ts';
import { Product, program } from '../demo/control-plane/product.ts';
import { addUp, type Slice, sliceMs } from '../demo/control-plane/slice.ts';
import { StandInStage } from '../demo/control-plane/stand-in-stage.ts';
import { haproxyPort } from '../lab/components/haproxy.ts';
import { type Change, renderRecording } from './recording.ts';

const vip = vips.ipv4;

/** Rows of the upper part, which shows the beginning of what vipnat prints, and of the lower part. */
const [statusRow, statusRows, counterRow, columns] = [2, 10, 13, 100];

/** What is done when, and what the picture says of it. */
const story: readonly (readonly [
  atMs: number,
  words: string,
  act: (stage: StandInStage) => Promise<void>,
])[] = [
  [2000, 'SIGKILL ends the apiserver on m2', (stage) => stage.killApiserver('m2')],
  [5000, 'the apiserver on m2 starts again', (stage) => stage.startApiserver('m2')],
  [8000, 'm3 loses its network: packets to it are lost', (stage) => stage.cut('m3')],
  [12_000, 'm3 has its network again', (stage) => stage.join('m3')],
];

/** Long enough for what follows from the last of it. */
const endMs = 16_500;

/** Records what happens now in network namespaces: it needs root, dist/ and HAProxy. Answers an SVG. */
export async function recordFailover(): Promise<string> {
  const stage = await StandInStage.create();
  const product = new Product(stage);
  try {
    await stage.startHaproxy(stage.holder, product.logFolder);
    await Promise.all(masters.map(({ name }) => product.startAgent(name, ['--vip', vip])));
    await Promise.all(masters.map(({ name }) => product.waitForSync(name, vip, 'service-chain')));
    const changes = await play(stage);
    await product.stopAgents();
    return renderRecording({
      title: 'A recording: an apiserver is killed, and a master loses its network',
      description:
        'A terminal shows vipnat status while a client opens new connections through vipnat and through HAProxy, and counts those that fail. The killed apiserver is dead in the next screen of status, and few connections fail. When master m3 loses its network, connections through vipnat fail for a moment, and those through HAProxy until m3 is back.',
      windowTitle: 'three masters in network namespaces, recorded by scripts/pictures',
      rows: 20,
      ...{ endMs, posterMs: 11_500, changes },
    });
  } finally {
    await stage.close();
    product.removeLogs();
  }
}

async function play(stage: StandInStage): Promise<Change[]> {
  const load = await Load.start(stage, [apiserverPort, haproxyPort]);
  const screens = watchStatus(stage);
  await screens.shown;
  const first = await load.nextSlice();
  const started = performance.now();
  for (const [atMs, , act] of story) {
    await sleep(started + atMs - performance.now());
    await act(stage);
  }
  await sleep(started + endMs - performance.now());
  screens.stop();
  const slices: Slice[][] = [];
  for (let index = first; index < first + endMs / sliceMs; index += 1)
    slices.push(await load.readSlice(index));
  load.stop();
  const screenChanges = screens.changes.map((change) => ({ ...change, atMs: change.atMs - started }));
  return [...describeFrame(), ...screenChanges, ...countSlices(slices), ...describeStory()];
}

/** The rows that never change. */
function describeFrame(): Change[] {
  const command = `vipnat status --vip ${vip} --watch=0.5`;
  const titles = `${''.padEnd(34)}${'answered'.padStart(10)}${'failed'.padStart(10)}${'slowest'.padStart(12)}`;
  return [
    { atMs: 0, row: 0, text: `m1 # ${bold(command)}` },
    { atMs: 0, row: counterRow - 1, text: '─'.repeat(columns) },
    {
      atMs: 0,
      row: counterRow,
      text: `client: ${perSecond} new connections a second to each port; each counts when it began`,
    },
    { atMs: 0, row: counterRow + 1, text: titles },
  ];
}

interface Screens {
  /** By the clock of this process. */
  readonly changes: readonly Change[];
  /** Settles when the first one is there. */
  readonly shown: Promise<unknown>;
  readonly stop: () => void;
}

/** The first rows of each screen that vipnat prints, from when its first line was there. */
function watchStatus(stage: StandInStage): Screens {
  const changes: Change[] = [];
  const words = ['status', '--vip', vip, '--watch=0.5', '--color', 'always'];
  const command = ['env', `COLUMNS=${columns}`, process.execPath, program, ...words];
  const child = stage.spawn(stage.holder, command);
  if (child.stdout === null) throw new Error('vipnat status needs its standard output');
  let [row, atMs] = [statusRows, 0];
  const show = (text: string) => {
    if (row < statusRows) changes.push({ atMs, row: statusRow + row, text });
    row += 1;
  };
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (stripVTControlCharacters(line).startsWith(`${vip}:`)) {
      while (row < statusRows) show('');
      [row, atMs] = [0, performance.now()];
    }
    // What follows the table stays below the edge.
    if (/^keepalived/.test(line)) while (row < statusRows) show('');
    show(line);
  });
  return { changes, shown: once(child.stdout, 'data'), stop: () => child.kill('SIGTERM') };
}

/** What both clients have counted so far, whenever a slice of time has ended. */
function countSlices(slices: readonly Slice[][]): Change[] {
  const names = ['VIP:6443, by vipnat', "VIP:8443, by HAProxy (kubeadm's guide)"];
  return [[], ...slices].flatMap((_, count) =>
    names.map((name, client) => {
      const { sent, failed, slowestMs } = addUp(slices.slice(0, count).flatMap((row) => row[client] ?? []));
      const failures = String(failed).padStart(8);
      const figures = `${String(sent - failed).padStart(6)}  ${failed > 0 ? red(failures) : failures}${`${slowestMs} ms`.padStart(12)}`;
      return {
        atMs: count * sliceMs,
        row: counterRow + 2 + client,
        text: `${name.padEnd(38)}${figures}`,
      };
    }),
  );
}

function describeStory(): Change[] {
  const steps = [[0, 'three apiservers answer'] as const, ...story];
  return steps.map(([atMs, words]) => ({
    ...{ atMs, row: counterRow + 5 },
    text: yellow(`${(atMs / 1000).toFixed(0).padStart(2)} s: ${words}`),
  }));
}

function bold(text: string): string {
  return `\u001b[1m${text}\u001b[22m`;
}

function red(text: string): string {
  return `\u001b[31m${text}\u001b[39m`;
}

function yellow(text: string): string {
  return `\u001b[33m${text}\u001b[39m`;
}
