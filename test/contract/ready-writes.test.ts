import type { WritePlace, Dialect, Transaction } from '../../lib/kernel/port.ts';
import { families, type Family } from '../../lib/net.ts';
import { whyNoNamespaces } from './real-subject.ts';
import { describe, test, expect } from '@jest/globals';
import { everything, useSubject } from './kinds.ts';
import { childCommand, createRealKernel, startChild } from './real-kernel.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { readdir, readFile } from 'node:fs/promises';

const places: readonly WritePlace[] = families.flatMap((family) =>
  (['nft', 'legacy', 'nftables'] as const).map((dialect) => ({ family, dialect })),
);

const isAble = process.env['CI'] === 'true' || (await whyNoNamespaces()) === null;

/** What the fake kernel has ready is nothing but a list: only the tools can be late. */
(isAble ? describe : describe.skip)('the real kernel', () => {
  const subject = useSubject();

  /** Who reads before each write, as the agent does. */
  async function read(family: Family, dialect: Dialect): Promise<string> {
    const { iptables, nftTables } = await subject().kernel.read({ ...everything, families: [family] });
    const seen = dialect === 'nftables' ? nftTables : iptables.filter((one) => one.dialect === dialect);
    return seen.map(({ text }) => text).join();
  }

  async function apply({ family, dialect }: WritePlace, address: string): Promise<void> {
    await read(family, dialect);
    await subject().kernel.apply(renderRule({ family, dialect }, address));
  }

  test.each(places)(
    'a ready write keeps what others wrote: $dialect $family',
    async ({ family, dialect }) => {
      const [first, second, foreign] =
        family === 'ipv6' ? ['fd00::1', 'fd00::2', 'fd00::3'] : ['10.9.9.1', '10.9.9.2', '10.9.9.3'];
      await apply({ family, dialect }, first);
      const children = await subject().countChildren();
      await subject().kernel.keepReady([{ family, dialect }]);
      expect(await subject().countChildren()).toBe(children + 1);
      for (const address of [foreign, second]) {
        // More than one commit, and to the very chain.
        const { input } = renderRule({ family, dialect }, address);
        if (dialect === 'nftables') await subject().runNft(input);
        else await subject().run(family, dialect, input);
      }
      await apply({ family, dialect }, first);
      expect(await subject().countChildren()).toBe(children);
      const text = await read(family, dialect);
      expect([first, second, foreign].map((address) => text.split(address).length - 1)).toEqual([2, 1, 1]);
    },
  );

  test.each(places)(
    'a refused ready write changes nothing: $dialect $family',
    async ({ family, dialect }) => {
      const address = family === 'ipv6' ? 'fd00::1' : '10.9.9.1';
      await subject().kernel.keepReady([{ family, dialect }]);
      await read(family, dialect);
      const { input } = renderRule({ family, dialect }, address);
      const refused = input.replace(/(COMMIT\n)?$/, (end) =>
        dialect === 'nftables' ? 'delete table ip absent\n' : `-D PREROUTING -j absent\n${end}`,
      );
      await expect(subject().kernel.apply({ family, dialect, input: refused })).rejects.toMatchObject({
        code: 'TOOL_FAILED',
      });
      expect(await read(family, dialect)).not.toContain(address);
    },
  );

  test('what is ready is gone once nothing is to be', async () => {
    const before = await subject().countChildren();
    await subject().kernel.keepReady(places);
    await subject().kernel.keepReady([]);
    expect(await subject().countChildren()).toBe(before);
  });
});

describe('when the agent is killed by SIGKILL', () => {
  test('what it had ready ends, and has written nothing', async () => {
    const agent = startChild(['unshare', '--net', '--', ...childCommand]);
    const namespace = String(agent.pid);
    await createRealKernel(agent).keepReady(places);
    const children = await listChildren(namespace);
    // One nft for both families.
    expect(children).toHaveLength(5);
    agent.kill('SIGKILL');
    for (const child of children) while (await isAlive(child)) await sleep(10);
  });

  test('its child on the xtables lock dies with it', async () => {
    const agent = startChild(childCommand);
    await createRealKernel(agent).watch(() => undefined).ready;
    const children = await listChildren(String(agent.pid));
    expect(children).toHaveLength(1);
    expect(await isAlive(children[0] ?? '')).toBe(true);
    agent.kill('SIGKILL');
    while (await isAlive(children[0] ?? '')) await sleep(10);
  });
});

/** One rule behind those that are there. */
function renderRule({ family, dialect }: WritePlace, address: string): Transaction {
  const nft = family === 'ipv6' ? 'ip6' : 'ip';
  const input =
    dialect === 'nftables'
      ? `add table ${nft} vipnat\nadd chain ${nft} vipnat mine\nadd rule ${nft} vipnat mine ${nft} daddr ${address} accept\n`
      : `*nat\n-A PREROUTING -d ${address} -j ACCEPT\nCOMMIT\n`;
  return { family, dialect, input };
}

/** `unshare` has become the program that it started. */
async function listChildren(pid: string): Promise<string[]> {
  const threads = await readdir(`/proc/${pid}/task`);
  const lists = await Promise.all(
    threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, 'utf8')),
  );
  return lists.flatMap((list) => list.split(' ').filter((child) => child !== ''));
}

/** A zombie is dead: who inherits it may be slow to bury it. */
async function isAlive(pid: string): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat !== '' && !/\) Z /.test(stat);
}
