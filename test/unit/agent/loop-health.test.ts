import { describe, test, expect } from '@jest/globals';
import { play, testAgent } from './timeline.ts';

describe('an apiserver that dies', () => {
  test('is out of the rules as soon as it is known to be dead, without a look first', async () => {
    const host = await play('targets proxy');
    const { kernel } = host;
    const { reads } = kernel;
    let readsAtWrite = -1;
    kernel.faults.beforeApply(() => (readsAtWrite = kernel.reads));
    host.set('10.77.0.13:6443', 'refusing');
    await host.clock.advance(15);
    expect([readsAtWrite, host.targets]).toEqual([reads, 'm1 m2']);
  });

  testAgent({
    'whose host still accepts connections is out as soon as its process closes those of the probes':
      'm3 ending; wait 0; targets m1 m2',
    'is forgotten when kube-proxy has dropped it too, after two equal looks':
      'm3 refusing; wait 10000; targets m1 m2; proxy m1 m2; wait 400; targets m1 m2; wait 1000; targets proxy',
    'is forgotten as soon where a look takes long':
      'delay iptables-nft-save 100; m3 refusing; wait 10000; targets m1 m2; proxy m1 m2; wait 3000; targets proxy',
    'while a look is under way is out all the same, and that look writes nothing that it read before':
      'delay next iptables-nft-save 400; look; wait 100; m3 refusing; wait 20; targets m1 m2; only m1 m2 for 5000',
    'together with another: both are out': 'm2 m3 refusing; wait 200; targets m1',
    'with a write that fails is out by the next try':
      'fail iptables-nft-restore; m3 refusing; wait 300; targets m1 m2',
  });

  test('is told in two lines: where connections go instead, and what died and why', async () => {
    const host = await play('wait 0');
    const { length } = host.lines('info');
    host.set('10.77.0.13:6443', 'refusing');
    await host.clock.advance(1000);
    expect(host.lines('info').slice(length)).toEqual([
      expect.stringMatching(
        /^10\.0\.0\.50:6443 changes mode, service-chain -> direct to 10\.77\.0\.11:6443, 10\.77\.0\.12:6443: kube-proxy's list is out of date: it names 3 apiservers \(.*\), and 2 apiservers are usable \(10\.77\.0\.13:6443 is draining\) \(took \d+ ms\)$/,
      ),
      expect.stringMatching(
        /^10\.77\.0\.13:6443 is dead: connection refused \d+ ms after the probe's connection closed$/,
      ),
    ]);
  });
});

testAgent({
  'when all are dead, all are kept and kube-proxy’s chain is released, so that it can go (I11)':
    'm1 m2 m3 refusing; wait 500; targets m1 m2 m3;' +
    "1 line of info no apiserver answers this node's probes, so all 3 stay in use",
  'decisions that change with every look are no sign of somebody who undoes our rules':
    'delay iptables-nft-save 400;' +
    'm2 refusing; m3 healthy; wait 450; m2 healthy; m3 refusing; wait 450;'.repeat(4) +
    '0 lines of error .',
});

testAgent(
  {
    'an agent that is cut off keeps its rules':
      'mark; m2 m3 silent; wait 60000; writes 0; 1 line of warn this node may be cut off',
  },
  {
    prepare: ({ kernel }) => {
      kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
    },
  },
);

describe('connections to an apiserver', () => {
  testAgent({
    'that is silent are reset: unanswered ones when it is dead, all after five seconds, each once':
      'm3 silent; wait 800; resets m3 half-open; wait 60000; resets m3 half-open, m3 all',
    'that refuses or drains are left to it': 'm2 failing; m3 refusing; wait 60000; targets m1; resets none',
    'that dies a second time are reset again': `${'m3 silent; wait 6000; m3 healthy; wait 5000;'.repeat(2)} resets m3 half-open, m3 all, m3 half-open, m3 all`,
    'that cannot be reset are a line, once, and everything else goes on':
      'fail connections 2 times; m3 silent; wait 5000; targets m1 m2; m3 healthy; wait 5000;'.repeat(2) +
      '1 line of warn Stale connections last',
  });
});

test('however an apiserver flaps, the rules are rewritten a bounded number of times (I9)', async () => {
  const { kernel } = await play(`mark; ${'m3 silent; wait 800; m3 healthy; wait 1200;'.repeat(300)}`);
  // Ten minutes of it: four falls and returns at first, then one in half a minute at most.
  expect(kernel.applied.length - 1).toBeLessThanOrEqual(2 * 4 + 2 * 20);
  expect(kernel.applied.length - 1).toBeGreaterThanOrEqual(2 * 4);
});

/** Each look takes 4 s, so the next one comes 8 s later. */
const slow = 'delay netlink 4000; look; wait 4500;';

describe('while looks cost much and have to rest', () => {
  testAgent({
    'a death is out at once': `${slow} m3 refusing; wait 15; targets m1 m2`,
    'a second one is looked for at once, while the first write is not yet checked': `${slow} delay next iptables-nft-restore 500; m3 refusing; wait 100; m2 refusing; wait 4500; targets m1`,
    'so is one whose write failed': `${slow} fail iptables-nft-restore; m3 refusing; wait 4100; targets m1 m2`,
  });
});
