import { test, expect } from '@jest/globals';
import { readAdvertised } from '../../../../lib/kernel/forwarding.ts';

const zero = '0'.repeat(32);
const router = 'fe80000000000000b4d1c4fffe136b0a';

/** A line as Linux 6 prints it. */
const route = (target: string, length: string, flags: string, device: string) =>
  `${target} ${length} ${zero} 00 ${router} 00000400 00000001 00000000 ${flags} ${device.padStart(8)}`;

test('routes by router advertisements are told from those that somebody set', () => {
  const text = [
    route('20010db8000000000000000000000000', '40', '00440001', 'eth1'),
    route(zero, '00', '00450003', 'eth0'),
    route(zero, '00', '00450003', 'eth0'),
    // By hand, also with `proto ra` as network managers have it: the kernel leaves it.
    route(zero, '00', '00000003', 'eth2'),
    route(zero, '00', '00200200', 'lo'),
  ].join('\n');
  expect(readAdvertised(`${text}\n`)).toEqual(['eth1', 'eth0']);
});

test.each(['', 'what?', `${zero} 00`])('%j has none', (text) => {
  expect(readAdvertised(text)).toEqual([]);
});
