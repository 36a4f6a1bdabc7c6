/** The folder that a balancer shares with its keepalived, on a disk that takes nothing. */
import { beforeEach, expect, jest, test } from '@jest/globals';
import { limitMs, sleep, waitUntil } from '../../support/host/vipnat.ts';
import { give, pool, useSeatNetwork } from './seat-network.ts';
import { type SeatNode } from './seat-node.ts';

jest.setTimeout(2 * limitMs);

let node: SeatNode;
const network = useSeatNetwork();
beforeEach(() => {
  const [first] = network.nodes;
  if (first === undefined) throw new Error('no node');
  node = first;
});

/** A small disk in place of the folder, seen by this program alone. */
const onSmallDisk = (folder: string) => [
  ...['unshare', '--mount', 'sh', '-ec'],
  `mkdir -p ${folder}; mount -t tmpfs -o size=256k tmpfs ${folder}; exec "$@"`,
  'sh',
];

const manyAddresses = Array.from({ length: 200 }, (_, at) => `fd77::1:${(at + 1).toString(16)}`);

test.each([
  ['full', 'head -c 1M /dev/zero >FOLDER/filler || true', 'rm FOLDER/filler'],
  ['read-only', 'mount -o remount,ro FOLDER', 'mount -o remount,rw FOLDER'],
])('is %s: keepalived.conf stays whole, a line says why, and then it is written', async (_, spoil, mend) => {
  const folder = node.locate('').replace(/\/$/, '');
  const read = () => node.shellAsSeats(`cat ${folder}/keepalived.conf`);
  const has = async (text: string) => (await read().catch(() => '')).includes(text);
  const problems = () => node.told.filter(({ level }) => level === 'error').map(({ message }) => message);
  node.startSeats(onSmallDisk(folder));
  node.order({ input: { pools: [pool], virtualIps: give('10.77.0.60') } });
  await waitUntil(() => has('10.77.0.60'), 'nothing is written');
  const before = await read();

  await node.shellAsSeats(spoil.replace('FOLDER', folder));
  node.order({ input: { pools: [pool], virtualIps: give('10.77.0.60', ...manyAddresses) } });
  await waitUntil(() => problems().length > 0, 'nothing is said');
  await sleep(3000);
  expect(problems()).toEqual([
    expect.stringMatching(
      /^the seats of this node cannot be kept: .*keepalived\.conf.*(?:ENOSPC|EROFS|no space|read-only).*They stay as they are$/,
    ),
  ]);
  expect(await read()).toBe(before);

  await node.shellAsSeats(mend.replace('FOLDER', folder));
  await waitUntil(() => has(manyAddresses.at(-1) ?? ''), 'it is not written');
  expect(await node.shellAsSeats(`ls -A ${folder}`)).not.toMatch(/\.new|\.keepalived\.conf\./);
});
