import { test, expect } from '@jest/globals';
import { KnownForwarding } from '../../../../lib/kernel/forwarding.ts';

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
