import { describe, expect, test } from '@jest/globals';
import { Hearing, type OwnSeats } from '../../../../balancer/hearing/hearing.ts';
import { type HeardVrid } from '../../../../lib/services/node-report.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { FakeBalancerKernel } from '../../../support/fakes/balancer-kernel.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

const anchor = { family: 'ipv4', text: '169.254.0.7' } as const;
const own: OwnSeats = {
  all: [
    { anchor: anchor.text, vrid: 51 },
    { anchor: 'fe80::9', vrid: 52 },
  ],
  planned: [{ name: 'pool/0', anchor, device: 'eth0', vrid: 51 }],
};

function begin() {
  const [clock, kernel] = [new FakeClock(), new FakeBalancerKernel()];
  const world: { own: OwnSeats | null } = { own };
  const told: string[] = [];
  const clashes: HeardVrid[] = [];
  const hearing = new Hearing({
    ...{ clock, kernel },
    listOwn: () => world.own,
    onChange: () => told.push('changed'),
    report: {
      impossible: (family, words) => told.push(`${family}: ${words}`),
      failed: (error) => told.push((error as Error).message),
      clashes: (one) => clashes.push(one),
    },
  });
  hearing.start();
  /** Senders as the kernel notes them: `"eth0" . 10.77.0.9 . 0x33 . 0xa4d0032`. */
  const send = (family: 'ip' | 'ip6', ...elements: readonly string[]) =>
    kernel.meddle(
      elements.map((one) => `add element ${family} vipnat-vrrp senders { ${one} expires 19s }\n`).join(''),
    );
  return { clock, kernel, world, told, clashes, hearing, send };
}

describe('VRIDs of others', () => {
  test('are those of senders that are heard in two rounds, whose first address is the anchor of no seat with this VRID', async () => {
    const { clock, told, clashes, hearing, send } = begin();
    await clock.advance(10);
    await send(
      'ip',
      // A seat of ours; another cluster's seat with our VRID; CARP, with a number that changes; a VRID by another interface.
      '"eth0" . 10.77.0.11 . 0x33 . 0xa9fe0007',
      '"eth0" . 10.77.0.21 . 0x33 . 0xa9fe0008',
      '"eth0" . 10.77.0.5 . 0x9 . 0x1234567',
      '"eth1.7" . 10.88.0.9 . 0x33 . 0xa580032',
      '"eth0" . 10.77.0.6 . 0x0 . 0xa580032',
    );
    await send(
      'ip6',
      '"eth0" . fe80::11 . 0x34 . 0xfe800000000000000000000000000009',
      '"eth0" . fe80::12 . 0x33 . 0xfd000000000000000000000000000050',
    );
    await clock.advance(30_000);
    expect(hearing.heard).toEqual([]);
    await send('ip', '"eth0" . 10.77.0.5 . 0x9 . 0x7654321', '"eth0" . 10.77.0.7 . 0xa . 0xa4d0032');
    await clock.advance(30_000);
    const others = [
      { vrid: 51, from: '10.77.0.21', device: 'eth0', seat: 'pool/0' },
      { vrid: 9, from: '10.77.0.5', device: 'eth0', seat: null },
      { vrid: 51, from: 'fe80::12', device: 'eth0', seat: null },
    ];
    expect([hearing.heard, clashes, told]).toEqual([others, others.slice(0, 1), ['changed']]);
  });

  test('are not told before seats are known; a list that stays is told once; they go with their senders', async () => {
    const { clock, kernel, world, told, hearing, send } = begin();
    world.own = null;
    await clock.advance(10);
    await send('ip', '"eth0" . 10.77.0.21 . 0x33 . 0xa9fe0008');
    await clock.advance(120_000);
    expect(hearing.heard).toEqual([]);
    world.own = own;
    await clock.advance(120_000);
    expect([hearing.heard.length, told]).toEqual([1, ['changed']]);
    // What the kernel does by itself after 20 s.
    await kernel.meddle('flush set ip vipnat-vrrp senders\n');
    await clock.advance(30_000);
    expect([hearing.heard, told]).toEqual([[], ['changed', 'changed']]);
  });

  test('are 32 at most, those of seats first', async () => {
    const { clock, hearing, send } = begin();
    await clock.advance(10);
    const flood = Array.from(
      { length: 60 },
      (_, at) => `"eth0" . 10.77.0.${at} . 0x${(at + 1).toString(16)} . 0x1`,
    );
    await send('ip', ...flood);
    await clock.advance(60_000);
    expect([hearing.heard.length, hearing.heard[0]?.seat]).toEqual([32, 'pool/0']);
  });
});

describe('its tables', () => {
  test('are written at the start, and again where another program has changed them', async () => {
    const { clock, kernel } = begin();
    await clock.advance(120_000);
    expect(kernel.scripts).toHaveLength(2);
    await kernel.meddle('delete table ip vipnat-vrrp\nflush chain ip6 vipnat-vrrp note\n');
    await clock.advance(30_000);
    expect(kernel.scripts.slice(2)).toEqual(kernel.scripts.slice(0, 2));
  });

  test('that are refused are tried again every ten minutes, told of once, and the other family is heard', async () => {
    const { clock, kernel, told, hearing, send } = begin();
    kernel.refuses = /ip6 saddr/;
    await clock.advance(10);
    await send('ip', '"eth0" . 10.77.0.21 . 0x33 . 0xa9fe0008');
    await clock.advance(590_000);
    expect([hearing.heard.length, kernel.scripts.length]).toEqual([1, 1]);
    await clock.advance(20_000);
    kernel.refuses = null;
    await clock.advance(580_000);
    expect(kernel.scripts.length).toBe(1);
    await clock.advance(20_000);
    expect([told, kernel.scripts.length]).toEqual([['ipv6: nft does not take ip6 saddr', 'changed'], 2]);
  });

  test('of which one cannot be read: it tells nothing any more after a minute, and the other is heard', async () => {
    const { clock, kernel, told, hearing, send } = begin();
    await clock.advance(10);
    await send('ip', '"eth0" . 10.77.0.21 . 0x33 . 0xa9fe0008');
    await send('ip6', '"eth0" . fe80::12 . 0x33 . 0xfd000000000000000000000000000050');
    await clock.advance(60_000);
    expect(hearing.heard.length).toBe(2);
    kernel.unlistable = 'ip vipnat-vrrp';
    await clock.advance(30_000);
    expect(hearing.heard.length).toBe(2);
    await clock.advance(60_000);
    expect([told, hearing.heard.map(({ from }) => from)]).toEqual([
      ['changed', 'nft cannot list ip vipnat-vrrp', 'changed'],
      ['fe80::12'],
    ]);
  });

  test('that cannot be written for a moment are written later, and that is told once', async () => {
    const { clock, kernel, told, hearing } = begin();
    kernel.failure = new VipnatError('TOOL_TIMED_OUT', 'no answer');
    await clock.advance(120_000);
    expect([told, kernel.scripts.length]).toEqual([['no answer'], 2]);
    await hearing.stop();
    const { lists } = kernel;
    await clock.advance(120_000);
    expect(kernel.lists).toBe(lists);
  });
});
