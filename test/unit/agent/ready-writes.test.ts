import { test, expect, describe } from '@jest/globals';
import { play, testAgent } from './timeline.ts';
import { nft, type Host, listTexts } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { planAccept } from '../../../balancer/table/forward.ts';
import { parseAddress } from '../../../lib/net.ts';
import { startAgent, linesOf } from '../../support/agent/running-agent.ts';

test('the write that answers a death was made ready, so was the next one, and nothing is ready after the end', async () => {
  const { kernel, running } = await play('m3 refusing; wait 1000; m2 refusing; wait 1000');
  // The first is the one at the start: a write by a process that has not looked yet is never ready.
  expect(kernel.wasReady).toEqual([false, true, true]);
  expect(kernel.ready).toEqual([nft]);
  await running.agent.stop();
  expect(kernel.ready).toEqual([]);
});

const savedAt = '2026-11-21T15:04:05.678Z';

/** A host that holds the VIP and has these addresses of its own; its state file has all three apiservers. */
const withAddresses = (...addresses: string[]) => ({
  prepare: ({ kernel, store }: Host) => {
    for (const address of ['10.0.0.50', ...addresses])
      kernel.addAddress({ family: 'ipv4', address, device: 'eth0' });
    void store.save({ savedAt, endpoints: listTexts('m1 m2 m3').map(toEndpoint) });
  },
});
const onMaster = withAddresses('10.77.0.11');
const elsewhere = withAddresses();

describe.each(['fail', 'hang'])('while reads of the kernel %s', (how) => {
  const blind = `reads ${how}; look; wait 20000;`;
  const startBlind = `before; proxy m1 m2 m3; reads ${how};`;

  testAgent(
    {
      'a dead apiserver is taken out, by what was read last': `${blind} m2 refusing; wait 200; targets m1 m3`,
      'an apiserver that leaves the list of the API gets no new connections': `api m1 m2 m3; wait 3000; ${blind} api m1 m3; wait 3000; targets m1 m3`,
      'a process that starts probes whom the state file names, and writes nothing (I1)': `${startBlind} m2 refusing; start; wait 10000; health m1 ready, m2 dead, m3 ready; writes 0`,
      'a process that starts follows the list of the API': `${startBlind} start; wait 5000; api m1 m4; wait 10000; watched m1 m4`,
      'a process that starts on a host without an apiserver tells keepalived 1': `${startBlind} start; wait 30000; told 1`,
    },
    elsewhere,
  );

  testAgent(
    {
      'keepalived is told what the health of now says': `m1 refusing; wait 5000; ${blind} m2 m3 silent; wait 5600; told 0 1; m2 m3 healthy; wait 600; told 0 1 0`,
      'a process that starts on a host with an apiserver that takes connections tells keepalived 0': `${startBlind} start; wait 30000; told 0`,
    },
    onMaster,
  );
});

testAgent(
  {
    'once a look has failed, the list of the API is followed at once':
      'api m1 m2 m3; wait 3000; reads fail; look; wait 100; api m1 m3; wait 100; targets m1 m3',
    'a look that fails once tells keepalived nothing, and the rules from before it are trusted as ever':
      'm2 refusing; wait 3000; stop; m2 silent; fail netlink; start; only m1 m3 for 3000; told 0',
  },
  elsewhere,
);

const apiservers = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);

test.each(['agent', 'balancer'] as const)(
  'on a host that drops what it forwards, with the %s first, a balancer whose addresses change each second undoes nothing of an agent (I7)',
  async (first) => {
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    syncKubeProxy(kernel, nft, apiservers);
    kernel.run('ipv4', 'nft', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n');
    const balance = (addresses: readonly string[]) => {
      const seen = parseSave({ ...nft, text: kernel.show('ipv4', 'nft') });
      const script = planAccept(
        seen,
        addresses.map(parseAddress).filter((address) => address !== null),
      );
      if (script !== '') kernel.run('ipv4', 'nft', script);
      return script;
    };
    if (first === 'balancer') balance(['10.77.0.60']);
    const agent = startAgent({ clock, kernel });
    await clock.advance(2000);
    balance(['10.77.0.60']);
    await clock.advance(2000);
    const writes = kernel.applied.length;

    for (let second = 1; second <= 30; second += 1) {
      expect(balance(['10.77.0.60', `10.77.1.${second}`])).not.toBe('');
      await clock.advance(1000);
      expect(balance(['10.77.0.60', `10.77.1.${second}`])).toBe('');
    }

    expect(kernel.applied.length).toBe(writes);
    expect(linesOf(agent, 'warn')).toEqual([]);
    // A repair that is really needed is made at once.
    kernel.run('ipv4', 'nft', '*nat\n-F PREROUTING\nCOMMIT\n');
    await clock.advance(1000);
    expect(kernel.show('ipv4', 'nft')).toMatch(/-A PREROUTING .* -j VIPNAT\n/);
  },
);
