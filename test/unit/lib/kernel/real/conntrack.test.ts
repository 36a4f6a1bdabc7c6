import { expect, test } from '@jest/globals';
import { countByBackend } from '../../../../../lib/kernel/real/conntrack.ts';

/** As conntrack 1.4.7 prints it. */
const line = (client: string, backend: string) =>
  `tcp      6 431997 ESTABLISHED src=${client} dst=10.0.0.50 sport=40000 dport=6443 src=${backend} dst=10.0.0.11 sport=6443 dport=40000 [ASSURED] mark=0 use=1`;

test('connections are counted by the apiserver that answers, of all clients or of some', () => {
  const listing = [
    line('10.0.0.99', '10.0.0.13'),
    line('10.0.0.11', '10.0.0.12'),
    line('10.0.0.98', '10.0.0.12'),
  ];
  expect(countByBackend(listing.join('\n'))).toEqual(
    new Map([
      ['10.0.0.13:6443', 1],
      ['10.0.0.12:6443', 2],
    ]),
  );
  expect(countByBackend(listing.join('\n'), new Set(['10.0.0.11']))).toEqual(
    new Map([['10.0.0.12:6443', 1]]),
  );
});
