import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { apiserverPort, masters } from '../../../support/network/layout.ts';
import { expect } from '@jest/globals';

/** With shares of a third, all three are seen but once in 10^17 times, and none answers more than half but once in 10^6. */
const connections = 240;

/** Only a connection that nobody answers takes so long. */
const limitMs = 30_000;

/** Fails unless every apiserver answers its share of a place's connections to the VIP. */
export async function expectShares(lab: NodeLab, place: string): Promise<void> {
  const { apiservers, errors } = await lab.seat(place).request(lab.vip, apiserverPort, connections, limitMs);
  expect(errors).toEqual({});
  const shares = masters.map(({ name }) => apiservers[name] ?? 0);
  for (const share of shares) expect(share).toBeGreaterThan(connections / 6);
}
