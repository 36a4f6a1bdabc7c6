import { type Host, listTexts } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe } from '@jest/globals';
import { testAgent } from './timeline.ts';

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
    'a look that fails once tells keepalived nothing, and the rules from before it are trusted as ever':
      'm2 refusing; wait 3000; stop; m2 silent; fail netlink; start; only m1 m3 for 3000; told 0',
  },
  elsewhere,
);
