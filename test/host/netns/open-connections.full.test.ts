import { vips } from '../../support/network/layout.ts';
import type { SeatName } from '../../support/network/cluster.ts';
import type { Dialect } from '../../../lib/kernel/port.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { describe, afterAll, expect, test } from '@jest/globals';
import type { HoldReport } from '../../support/network/seat-tasks.ts';
import { limitMs, vipnat } from '../../support/host/vipnat.ts';
import { expectBalanced, bothVips, allEndpoints, expectUnharmed, heldConnections } from './traffic.ts';

/** Of connections that each got a reset. */
const allReset = { opened: heldConnections, errors: { ECONNRESET: heldConnections } };

const args = [...bothVips, '--endpoints', allEndpoints];

/** Through PREROUTING, through OUTPUT, and through the holder as a router. */
const holders: readonly { readonly seat: SeatName; readonly host: string }[] = [
  { seat: 'outside client', host: vips.ipv4 },
  { seat: "VIP holder's host", host: vips.ipv6 },
  { seat: 'pod on a worker', host: vips.ipv6 },
];

/** The legacy one is the last: its tables stay, and with them the tracking. */
const dialects: readonly [Dialect, string][] = [
  ['nftables', 'none'],
  ['nft', 'nft'],
  ['legacy', 'legacy'],
];

const cluster = useCluster('all tests');

/** What cleanup says where it ends connections. */
const warns = /^warning: the kernel (?:would reset|resets) \d+ open connections to /m;

const shell = (script: string) => cluster.shell('m1', script);

describe.each(dialects)('open connections to a VIP whose holder tracked none, in %s', (_, iptables) => {
  afterAll(() => shell('nft flush ruleset; conntrack -F'));

  /** What becomes of open connections that send while something is done and once more after it. */
  async function holdDuring(act: () => Promise<void>): Promise<HoldReport[]> {
    const held = await Promise.all(
      holders.map(({ seat, host }) =>
        cluster.seat(seat).hold({ host, port: 6443 }, heldConnections, limitMs),
      ),
    );
    await act();
    for (const { seat } of holders) cluster.seat(seat).settle();
    return Promise.all(held.map(({ report }) => report));
  }

  /** Also that cleanup warns of a reset where it resets, and only there. */
  async function cleanUp(isWarning: boolean): Promise<void> {
    expect(warns.test((await vipnat(cluster, 'm1', ['cleanup', '--dry-run'])).stderr)).toBe(isWarning);
    const { exitCode, stderr } = await vipnat(cluster, 'm1', ['cleanup']);
    expect({ exitCode, isWarning: warns.test(stderr) }).toEqual({ exitCode: 0, isWarning });
  }

  test('stay with whom they are when the first rules are written, and new ones are balanced (I12)', async () => {
    const reports = await holdDuring(async () => {
      expect(await shell('conntrack -L 2>/dev/null')).toBe('');
      const { exitCode } = await vipnat(cluster, 'm1', ['run', '--once', '--iptables', iptables, ...args]);
      expect(exitCode).toBe(0);
    });
    for (const report of reports) {
      expectUnharmed(report);
      expect(report.sent).toBeGreaterThanOrEqual(2 * heldConnections);
    }
    await Promise.all(holders.map((question) => expectBalanced(cluster, question)));
  });

  test('and balanced ones are reset when the kernel forgets them, instead of hanging', async () => {
    const reports = await holdDuring(() => shell('conntrack -F').then(() => undefined));
    for (const report of reports) expect(report).toMatchObject(allReset);
  });

  // kube-proxy's rules are such software on most hosts.
  test('stay with their apiserver after cleanup, if other software tracks and translates connections', async () => {
    await shell(`nft 'add table inet tracker; add chain inet tracker input { type filter hook input priority 0; }'
        nft 'add chain inet tracker translate { type nat hook prerouting priority dstnat; }'
        nft add rule inet tracker input ct state established accept`);
    for (const report of await holdDuring(() => cleanUp(false))) expectUnharmed(report);
  });

  test('and are reset by cleanup otherwise, as the kernel then forgets them', async () => {
    await shell('nft delete table inet tracker');
    const { exitCode } = await vipnat(cluster, 'm1', ['run', '--once', '--iptables', iptables, ...args]);
    expect(exitCode).toBe(0);
    for (const report of await holdDuring(() => cleanUp(true))) expect(report).toMatchObject(allReset);
  });
});
