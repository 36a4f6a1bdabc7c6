/** What the fake does not know of connections: their clients, and that these open them again. */
import { execFileSync } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { toEndpoint } from '../support/fakes/endpoints.ts';
import { useSubject } from './kinds.ts';

const subject = useSubject();

test.each([
  ['10.0.0.50:6443', '10.0.0.12:6443', '10.0.0.99'],
  ['[fd00::50]:6443', '[fd00::12]:6443', 'fd00::99'],
])('of %s, only those of this host itself: others end without a word to it', async (...texts) => {
  const [vip, backend, client] = [toEndpoint(texts[0]), toEndpoint(texts[1]), texts[2]];
  await subject().trackFlow({ vip, backend, isHalfOpen: false }, 1);
  expect(await subject().kernel.countFlows(vip)).toEqual(new Map());
  // The VIP comes back.
  await setTimeout(2500);
  await subject().addAddress(vip.address);
  expect(await subject().kernel.countFlows(vip)).toEqual(new Map());
  await subject().trackFlow({ vip, backend, isHalfOpen: false }, 2);
  expect(await subject().kernel.countFlows(vip)).toEqual(new Map([[texts[1], 1]]));
  await subject().addAddress(client);
  expect(await subject().kernel.countFlows(vip)).toEqual(new Map([[texts[1], 2]]));
});

test('connections that their clients opened again after they were listed stay', () => {
  const script = fileURLToPath(new URL('reopened-child.ts', import.meta.url));
  const env = { ...process.env, NODE_OPTIONS: '' };
  expect(String(execFileSync('unshare', ['--net', '--', process.execPath, script], { env }))).toBe(
    '20 of 20',
  );
});
