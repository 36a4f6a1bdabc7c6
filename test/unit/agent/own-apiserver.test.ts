import { listTexts, toText } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import type { Config } from '../../../config/options.ts';
import type { Behaviour } from '../../support/fakes/apiserver.ts';
import { type Beginning, testAgent, forEach, play } from './timeline.ts';
import { test, expect, describe } from '@jest/globals';
import { formatEndpoint } from '../../../lib/net.ts';

/** The old apiservers are m1, m2 and m3; m9 is at this host's own address, and nobody lists it. */
const old = listTexts('m1 m2 m3');
const own = toText('m9');
const addresses = [
  ['docker0', '172.17.0.1'],
  ['cni0', '10.244.1.1'],
  ['kube-ipvs0', '10.77.0.51'],
  ['eth0', '10.77.0.19'],
  ['eth0', '10.77.0.50'],
  ['eth0', 'fd77::99'],
  ['cni0', 'fd00:244:1::1'],
  ['eth0', 'fe80::1'],
] as const;
const vips = [toEndpoint('10.77.0.50:6443')];

interface Setting {
  readonly config?: Partial<Config>;
  readonly saved?: readonly string[];
  /** How the old addresses are, and whoever listens at this host's own. */
  readonly lost?: Behaviour;
  readonly local?: Behaviour;
}

/** A master whose address is a new one, with the VIP, a pod bridge and a runtime's bridge. */
function onMaster({ config, saved = old, lost = 'silent', local = 'healthy' }: Setting = {}): Beginning {
  return {
    config: { vips, ...config },
    prepare: (host) => {
      for (const [device, address] of addresses)
        host.kernel.addAddress({ family: address.includes(':') ? 'ipv6' : 'ipv4', address, device });
      const endpoints = saved.map((text) => toEndpoint(text));
      if (saved.length > 0) void host.store.save({ savedAt: '2026-11-21T15:04:05.678Z', endpoints });
      for (const text of [...old, ...saved]) host.set(text, lost);
      for (const text of [own, '[fd77::99]:6443']) host.set(text, local);
    },
  };
}

const start = 'before; start; wait 5000;';

testAgent(
  {
    ...forEach(['silent', 'refusing', 'unreachable'], (lost) => [
      `while the old addresses are ${lost}, the VIP goes to the local apiserver, and keepalived keeps it`,
      `before; m1 m2 m3 ${lost}; start; wait 3000; targets m9; wait 60000; targets m9; told 0`,
    ]),
    'an agent that starts again writes nothing': `${start} targets m9; mark; stop; start; wait 30000; writes 0; targets m9; told 0`,
    'as soon as somebody lists apiservers that live, all is as ever, and the local address is asked no more': `${start} proxy m9 m8; wait 20000; targets proxy; proxy m8; wait 90000; watched m8`,
    'it gets nothing while one that is listed lives':
      'before; m2 healthy; start; wait 60000; targets m2; watched m1 m2 m3',
    'it gives way to one that was named before and lives': `${start} targets m9; m2 healthy; wait 10000; targets m2`,
    'one that comes up later than the agent serves within a second':
      'before; m9 refusing; start; wait 45000; m9 healthy; wait 1000; targets m9',
    'when the local one dies as well, all that are listed are kept': `${start} targets m9; m1 m2 m3 m9 refusing; wait 5000; targets m1 m2 m3`,
  },
  onMaster(),
);

testAgent(
  forEach(['silent', 'refusing', 'unreachable'], (lost) => [
    `--endpoints with old addresses alone, which are ${lost}, does no harm either`,
    `before; m1 m2 m3 ${lost}; start; wait 5000; targets m9; told 0`,
  ]),
  onMaster({ saved: [], config: { endpoints: old.map((text) => toEndpoint(text)) } }),
);

test('the Kubernetes API is asked there too, so that the new list is learnt', async () => {
  const { running } = await play(start, onMaster());
  expect(running.api.known?.own?.map(formatEndpoint)).toContain(own);
});

test.each([
  ['refusing', ' is dead, 10.77.0.12:6443 is dead, 10.77.0.13:6443 is dead)'],
  ['silent', ' does not answer'],
] as const)('the log says that it is this node’s own apiserver, and why: %s', async (lost, why) => {
  const host = await play(start, onMaster({ lost }));
  expect(host.lines('info').join()).toContain(
    `1 apiserver is usable (this node's own, which no source lists, because 10.77.0.11:6443${why}`,
  );
});

test('two VIPs, one of each family, go to the local apiserver at the address of theirs', async () => {
  const saved = [...old, '[fd77::11]:6443', '[fd77::12]:6443'];
  const config = { vips: [...vips, toEndpoint('[fd77::50]:6443')] };
  const { kernel } = await play(`${start} targets m9; told 0`, onMaster({ saved, config }));
  const targets = [...kernel.show('ipv6', 'nft').matchAll(/--to-destination (\S+)/g)];
  expect(targets.map(([, target]) => target)).toEqual(['[fd77::99]:6443']);
});

testAgent(
  { 'two VIPs of one family both go there': `${start} targets m9 m9` },
  onMaster({ config: { vips: [...vips, toEndpoint('10.77.0.52:8443')] } }),
);

describe('on a host without an apiserver of its own', () => {
  test('all that are listed are kept, and none is mentioned beside them', async () => {
    const host = await play(
      'before; start; wait 120000; targets m1 m2 m3; watched m1 m2 m3',
      onMaster({ local: 'refusing', lost: 'refusing' }),
    );
    const said = host.running.logger.lines.map(({ message }) => message);
    // Its own connections come from there: that says nothing of an apiserver.
    const ofApiservers = said.filter((line) => !line.startsWith('local clients now connect to '));
    expect(ofApiservers.join('\n')).not.toContain('10.77.0.19');
  });
});

describe.each(['hanging up', 'frozen', 'failing', 'ailing'] as const)(
  'on a host where something that is %s listens at the port of apiservers',
  (local) => {
    testAgent(
      {
        'it is nobody: all that are listed are kept, and none is mentioned beside them':
          'before; m1 m2 m3 refusing; start; wait 60000; targets m1 m2 m3; watched m1 m2 m3',
        'and nobody else is heard, keepalived gives the VIP away':
          'before; start; wait 60000; targets m1 m2 m3; told last 1',
      },
      onMaster({ local }),
    );
  },
);

testAgent(
  {
    'where no apiserver is known the VIP is its holder’s, as ever':
      'before; start; wait 10000; targets none; watched nobody',
  },
  onMaster({ saved: [] }),
);
