import type { SaveOutput, ForwardChain } from '../../../../lib/kernel/port.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { createRecordingLogger } from '../../../support/fakes/logger.ts';
import { type ForwardPorts, ForwardKeeper } from '../../../../balancer/table/forward.ts';
import { describe, test, expect } from '@jest/globals';

/** What iptables-save prints of a filter table with this policy and these rules of FORWARD. */
function save(policy: string, forward: readonly string[] = [], more: readonly string[] = []): SaveOutput {
  const rules = forward.map((rule) => `-A FORWARD ${rule}`);
  const chains = more.length === 0 ? [] : [':VIPLB-FORWARD - [0:0]'];
  const text = ['*filter', `:FORWARD ${policy} [0:0]`, ...chains, ...rules, ...more, 'COMMIT', ''].join('\n');
  return { family: 'ipv4', dialect: 'nft', text };
}

const readRules = (script = '') => script.split('\n').filter((line) => line.startsWith('-A VIPLB-FORWARD'));

/** A host whose iptables prints what it was last told. */
function start(first: SaveOutput, chains: readonly ForwardChain[] = []) {
  const clock = new FakeClock();
  const logger = createRecordingLogger();
  const lines = () => logger.lines.map(({ level, message }) => `${level} ${message}`);
  const host = {
    ...{ output: first, scripts: [] as string[], reads: 0, legacyReads: 0 },
    failure: null as Error | null,
  };
  const kernel: ForwardPorts['kernel'] = {
    readFilter: (family, dialect) => {
      if (family === 'ipv4' && dialect === 'legacy') host.legacyReads += 1;
      if (family !== 'ipv4' || dialect !== 'nft') return Promise.resolve(null);
      host.reads += 1;
      return host.failure === null ? Promise.resolve(host.output) : Promise.reject(host.failure);
    },
    restore: ({ input }) => {
      host.scripts.push(input);
      const rules = readRules(input);
      host.output = rules.length === 0 ? save('ACCEPT') : save('DROP', ['-j VIPLB-FORWARD'], rules);
      return Promise.resolve();
    },
    listForwardChains: () => Promise.resolve(chains),
  };
  const keeper = new ForwardKeeper({ kernel, clock, logger });
  const keep = async (addresses: readonly string[], isHinted = false) => {
    keeper.keep(new Set(addresses), isHinted);
    await clock.advance(0);
    await new Promise(setImmediate);
  };
  return { clock, host, keep, keeper, lines };
}

const vips = ['10.0.9.10', '10.0.9.11', 'fd00::9'];

describe('a host that drops forwarded packets', () => {
  test('lets connections to Services pass, by a chain that is written once', async () => {
    const { host, keep, clock, lines } = start(save('DROP'));
    await keep(vips);
    expect(host.scripts).toEqual([
      expect.stringMatching(
        /^\*filter\n:VIPLB-FORWARD - \[0:0\]\n-A VIPLB-FORWARD -m comment --comment "viplb:\S+" -m conntrack ! --ctstate DNAT -j RETURN\n-A VIPLB-FORWARD -m conntrack --ctstate DNAT --ctorigdst 10\.0\.9\.10\/31 -j ACCEPT\n-I FORWARD 1 -j VIPLB-FORWARD\nCOMMIT\n$/,
      ),
    ]);
    await clock.advance(60_000);
    await keep(vips);
    expect([host.reads, host.scripts.length]).toEqual([2, 1]);
    expect(lines()).toEqual([
      'info chain FORWARD of iptables-nft drops packets: chain VIPLB-FORWARD lets connections to Services pass',
    ]);
  });

  test('has the chain filled again where it is when its addresses change, and before a drop that somebody puts first', async () => {
    const { host, keep, clock } = start(save('DROP'));
    await keep(vips);
    await keep(['10.0.9.10']);
    expect(host.scripts[1]).not.toContain(' FORWARD ');
    expect(host.scripts[1]).toContain('--ctorigdst 10.0.9.10/32 -j ACCEPT');
    const text = host.output.text.replace('-A FORWARD', '-A FORWARD -i eth9 -j REJECT\n-A FORWARD');
    host.output = { ...host.output, text };
    await clock.advance(5000);
    await keep(['10.0.9.10'], true);
    expect(host.scripts).toHaveLength(3);
  });

  test.each([
    ['behind policies', ['-j cali-FORWARD', '-m comment --comment x -j KUBE-FORWARD', '-j DROP'], 2],
    ['behind all of them', ['-j KUBE-ROUTER-FORWARD', '-j DOCKER-USER', '-j CILIUM_FORWARD'], 4],
    ['before a drop', ['-i eth9 -j DROP', '-j cali-FORWARD'], 1],
  ])('has the hook %s, and leaves it there when addresses change', async (_, forward, place) => {
    const { host, keep } = start(save('DROP', forward));
    await keep(vips);
    expect(host.scripts[0]).toContain(`\n-I FORWARD ${place} -j VIPLB-FORWARD\n`);
    const rules = readRules(host.scripts[0]);
    const hooked = forward.toSpliced(place - 1, 0, '-j VIPLB-FORWARD');
    host.output = save('DROP', hooked, rules);
    await keep(['10.0.9.10']);
    expect(host.scripts[1]).not.toContain(' FORWARD ');
  });

  test('moves a hook behind a policy engine that came later', async () => {
    const { host, keep } = start(save('DROP'));
    await keep(vips);
    const rules = readRules(host.scripts[0]);
    host.output = save('DROP', ['-j VIPLB-FORWARD', '-j cali-FORWARD'], rules);
    await keep(['10.0.9.10']);
    expect(host.scripts[1]).toMatch(/-D FORWARD -j VIPLB-FORWARD\n[^]*-I FORWARD 2 -j VIPLB-FORWARD\n/);
  });

  test.each([
    ['drops no more', 'ACCEPT', vips],
    ['has no Service any more', 'DROP', []],
  ])('loses the chain when it %s', async (_, policy, addresses) => {
    const { host, keep, clock } = start(save('DROP'));
    await keep(vips);
    host.output = save(policy, ['-j VIPLB-FORWARD'], readRules(host.scripts[0]));
    await clock.advance(60_000);
    await keep(addresses);
    expect(host.scripts[1]).toBe(
      '*filter\n:VIPLB-FORWARD - [0:0]\n-D FORWARD -j VIPLB-FORWARD\n-X VIPLB-FORWARD\nCOMMIT\n',
    );
  });

  test('is looked at every minute, and every five seconds while tables change', async () => {
    const { host, keep, clock } = start(save('ACCEPT'));
    for (let second = 0; second < 60; second += 1) {
      await keep(vips, second < 30);
      await clock.advance(1000);
    }
    expect([host.reads, host.scripts]).toEqual([6, []]);
  });

  test('of iptables-legacy is looked at every minute, and when addresses change, however often tables of nftables do', async () => {
    const { host, keep, clock } = start(save('ACCEPT'));
    for (let second = 0; second <= 60; second += 1) {
      await keep(vips, true);
      await clock.advance(1000);
    }
    expect([host.reads, host.legacyReads]).toEqual([13, 2]);
    await keep([]);
    expect([host.reads, host.legacyReads]).toEqual([14, 3]);
  });
});

describe('what cannot be overruled', () => {
  test('is named once, with the rule that its owner needs', async () => {
    const { keep, clock, lines } = start(save('DROP'), [
      { table: 'inet firewall', name: 'forward', isDropping: true },
      { table: 'ip filter', name: 'FORWARD', isDropping: true },
      { table: 'inet other', name: 'forward', isDropping: false },
    ]);
    await keep(vips);
    await clock.advance(300_000);
    await keep(vips);
    expect(lines().filter((line) => line.startsWith('warn'))).toEqual([
      'warn chain forward of table inet firewall drops forwarded packets by its policy: connections to Services may hang. nft insert rule inet firewall forward ct status dnat accept lets them pass',
    ]);
  });

  test('is named in a table of iptables, too, that native rules of nft keep from being written to', async () => {
    const output = { ...save('DROP'), text: "# Table `filter' is incompatible, use 'nft' tool.\n" };
    const { host, keep, lines } = start(output, [{ table: 'ip filter', name: 'FORWARD', isDropping: true }]);
    await keep(vips);
    expect(host.scripts).toEqual([]);
    expect(lines()).toEqual([
      'warn chain FORWARD of table ip filter drops forwarded packets by its policy: connections to Services may hang. nft insert rule ip filter FORWARD ct status dnat accept lets them pass',
    ]);
  });

  test('a failure is told once, and tried again', async () => {
    const { host, keep, clock, lines } = start(save('DROP'));
    host.failure = new Error('the tool is busy');
    await keep(vips);
    await clock.advance(60_000);
    await keep(vips);
    expect(lines()).toEqual([
      'warn chain FORWARD of iptables-nft cannot be looked at: the tool is busy. If it drops forwarded packets, connections to Services may hang',
    ]);
    host.failure = null;
    await clock.advance(60_000);
    await keep(vips);
    expect(host.scripts).toHaveLength(1);
  });
});
