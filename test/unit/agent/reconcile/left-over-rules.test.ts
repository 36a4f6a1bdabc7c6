import { expect, test } from '@jest/globals';
import { createProxyAbsence } from '../../../../agent/observe/proxy-absence.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { listTexts } from './host.ts';
import { testAgent } from './timeline.ts';

/** --endpoints names m4, and not m3, whom rules of kube-proxy name. */
const beside = (isAbsent: boolean) => ({
  config: { endpoints: listTexts('m1 m2 m4').map(toEndpoint) },
  world: { ports: { askProxyAbsence: () => Promise.resolve(isAbsent) } },
});

testAgent(
  {
    'rules of kube-proxy that nobody maintains do not outrank --endpoints, and are no fallback':
      'targets m1 m2 m4; m1 m2 m4 refusing; wait 5000; watched m1 m2 m4',
  },
  beside(true),
);

testAgent(
  {
    'rules that kube-proxy maintains do, and that is said once':
      'targets proxy; wait 120000; 1 line of warn .;' +
      '1 line of warn ^--endpoints names 10.77.0.14:6443, and nat KUBE-SVC-NPX46M4PTMTKRN6Y \\(iptables-nft\\) does not. vipnat uses the list of nat KUBE-SVC-NPX46M4PTMTKRN6Y \\(iptables-nft\\)$',
  },
  beside(false),
);

test('kube-proxy is absent at once for a process that never saw it, and else when it was missed for a minute', async () => {
  const clock = new FakeClock();
  let isSeen = false;
  const ask = createProxyAbsence(clock, () => Promise.resolve(isSeen));
  expect([await ask(null), await ask('iptables')]).toEqual([true, false]);
  // From one look to the next on a quiet host.
  await clock.advance(60_000);
  expect(await ask(null)).toBe(false);
  await clock.advance(60_000);
  expect(await ask(null)).toBe(true);
  isSeen = true;
  expect(await ask(null)).toBe(false);
  isSeen = false;
  expect(await ask(null)).toBe(false);
});
