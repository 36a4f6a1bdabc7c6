import { test, expect } from '@jest/globals';
import { KnownForwarding, readAdvertised } from '../../../../lib/kernel/forwarding.ts';

const on = { ipv4: true, ipv6: true };
const off = { ipv4: false, ipv6: true };

test('the first look is no change, nor is one that sees the same', () => {
  const known = new KnownForwarding();
  known.noteOn('ipv4');
  expect([off, off].map((now) => known.see(now))).toEqual([0, 0]);
});

test('a change of either family counts', () => {
  const known = new KnownForwarding();
  expect([on, off, on, { ipv4: true, ipv6: null }].map((now) => known.see(now))).toEqual([0, 1, 2, 3]);
});

test('an own write is no change, and what takes it back is one', () => {
  const known = new KnownForwarding();
  known.see(off);
  known.noteOn('ipv4');
  expect(known.see(on)).toBe(0);
  known.see(off);
  known.noteOn('ipv4');
  expect(known.see(off)).toBe(2);
});

const zero = '0'.repeat(32);
const router = 'fe80000000000000b4d1c4fffe136b0a';

/** A line as Linux 6 prints it. */
const renderRoute = (target: string, length: string, flags: string, device: string) =>
  `${target} ${length} ${zero} 00 ${router} 00000400 00000001 00000000 ${flags} ${device.padStart(8)}`;

test('routes by router advertisements are told from those that somebody set', () => {
  const text = [
    renderRoute('20010db8000000000000000000000000', '40', '00440001', 'eth1'),
    renderRoute(zero, '00', '00450003', 'eth0'),
    renderRoute(zero, '00', '00450003', 'eth0'),
    // By hand, also with `proto ra` as network managers have it: the kernel leaves it.
    renderRoute(zero, '00', '00000003', 'eth2'),
    renderRoute(zero, '00', '00200200', 'lo'),
  ].join('\n');
  expect(readAdvertised(`${text}\n`)).toEqual(['eth1', 'eth0']);
});

test.each(['', 'what?', `${zero} 00`])('%j has none', (text) => {
  expect(readAdvertised(text)).toEqual([]);
});
