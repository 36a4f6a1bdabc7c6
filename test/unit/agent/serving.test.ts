import type { ListeningAddress } from '../../../lib/kernel/host.ts';
import { type Beginning, testAgent, play } from './timeline.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { VipnatError } from '../../../lib/errors.ts';

/** What listens on a master whose apiserver has its usual port. */
const onUsualPort: readonly ListeningAddress[] = [{ address: '::', port: 6443 }];

interface Setting {
  readonly isForwarding?: boolean;
  readonly vip?: string;
  readonly readListening?: () => Promise<readonly ListeningAddress[] | null>;
}

/** The first of three masters; where the host may not forward, the VIP is its holder's alone. */
function onMaster({ isForwarding = true, vip, readListening }: Setting = {}): Beginning {
  return {
    config: { sysctls: 'check', ...(vip === undefined ? {} : { vips: [toEndpoint(vip)] }) },
    prepare: ({ kernel }) => {
      kernel.forwarding = { ipv4: isForwarding, ipv6: true };
      kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
    },
    world: { ports: { readListening: readListening ?? (() => Promise.resolve(onUsualPort)) } },
  };
}

/** No answer for five seconds. Before that it may be a bond that fails over: keepalived's adverts are lost as well. */
const leaves = (who: string) =>
  `wait 5000; ${who} silent; wait 3000; ${who} healthy; wait 60000; ${who} silent; wait 4500; told 0;` +
  `wait 1500; told 0 1; ${who} healthy; wait 2000; told 0 1 0`;

describe('keepalived is told', () => {
  testAgent(
    {
      'once that this node can serve, and nothing more for ten minutes':
        'wait 600000; told 0; 0 lines of info can serve',
      'nothing when an apiserver dies, be it this node’s own or all but one':
        'm1 refusing; wait 30000; m2 silent; wait 30000; told 0',
      'nothing when all apiservers are gone: no other node would do better':
        'm1 m2 m3 refusing; wait 60000; told 0',
      'nothing when no other is heard, while its own apiserver lives': 'm2 m3 silent; wait 60000; told 0',
      'to leave a node when its own is dead and no answer comes from the others for five seconds': `m1 refusing; ${leaves('m2 m3')}`,
      'to leave a node when two are dead and no answer comes from the last for five seconds': `m1 m2 refusing; ${leaves('m3')}`,
      'by an agent that ends before it has judged, to take back what one that was killed may have said':
        'stop; start; stop; told 0',
    },
    onMaster(),
  );

  testAgent(
    {
      'within 100 ms to leave a node that cannot balance and whose own apiserver dies, and when that is back':
        'told 0; m1 refusing; wait 100; told 0 1; m1 healthy; wait 30000; told 0 1 0;' +
        '1 line of warn ^this node cannot serve the VIP: it cannot balance, and its own apiserver does not answer. The track file is 1, so keepalived keeps the VIP off this node$;' +
        '1 line of info ^this node can serve the VIP again. The track file is 0, so keepalived may take the VIP$',
      'that it decides by itself again, when the agent ends':
        'm1 refusing; wait 2000; told 0 1; stop; told 0 1 0',
    },
    onMaster({ isForwarding: false }),
  );
});

test.each([
  ['0', 0],
  ['nothing', null],
])('where somebody else writes %s into the track file, the next sync writes it again', async (_, other) => {
  const start = 'before; proxy m1 m2 m3; start; m1 refusing; wait 2000; told 0 1';
  const host = await play(start, onMaster({ isForwarding: false }));
  const { trackFile, agent } = host.running;
  trackFile.content = other;
  await host.clock.advance(61_000);
  expect([trackFile.values, trackFile.content]).toEqual([[0, 1, 1], 1]);
  expect(agent.state.keepalived).toMatchObject({ isServing: false, isReported: true });
  await host.clock.advance(120_000);
  expect(trackFile.values).toEqual([0, 1, 1]);
});

test('a track file that cannot be written is said once and tried once a minute; everything else works', async () => {
  const host = await play('before; proxy m1 m2 m3; start', onMaster());
  const { trackFile } = host.running;
  trackFile.problem = new VipnatError('TRACK_FILE_NOT_WRITTEN', 'the folder is read-only');
  await host.clock.advance(600_000);
  expect(host.lines('warn')).toEqual(['the folder is read-only']);
  expect(trackFile.attempts).toBeGreaterThan(5);
  expect(trackFile.attempts).toBeLessThanOrEqual(11);
  host.set('10.77.0.13:6443', 'refusing');
  await host.clock.advance(1000);
  expect(host.targets).toBe('m1 m2');
  trackFile.problem = null;
  await host.clock.advance(120_000);
  expect(trackFile.values).toEqual([0]);
});

test('a keepalived that does not follow the track file is said once, by two looks, and what is not known is no fault', async () => {
  const host = await play('before; proxy m1 m2 m3; start', onMaster());
  const { trackFile, agent } = host.running;
  const go = async (guard: typeof trackFile.guard, ms: number) => {
    trackFile.guard = guard;
    await host.clock.advance(ms);
    return [
      agent.state.keepalived.isWatched,
      host.lines('warn').length,
      host.lines('info').filter((line) => line.includes('again')).length,
    ];
  };
  const lost = { isWatched: false, cause: 'it may not read it' };
  expect(await go({ isWatched: null }, 61_000)).toEqual([null, 0, 0]);
  expect(await go({ isWatched: true }, 61_000)).toEqual([true, 0, 0]);
  expect(await go(lost, 300_000)).toEqual([false, 1, 0]);
  expect(host.lines('warn')[0]).toContain('it may not read it');
  expect(await go({ isWatched: null }, 61_000)).toEqual([null, 1, 0]);
  expect(await go({ isWatched: true }, 61_000)).toEqual([true, 1, 1]);
});

describe('with a VIP at another port than the apiservers’', () => {
  const vip = '10.0.0.50:443';

  test('a node that cannot balance is to leave it, and may take it a look after somebody listens there', async () => {
    let listening = onUsualPort;
    const readListening = () => Promise.resolve(listening);
    const { clock, kernel, running } = await play(
      'told last 1',
      onMaster({ isForwarding: false, vip, readListening }),
    );
    listening = [...onUsualPort, { address: '0.0.0.0', port: 443 }];
    kernel.trigger('addresses');
    await clock.advance(2000);
    expect(running.trackFile.values.at(-1)).toBe(0);
    listening = onUsualPort;
    await clock.advance(61_000);
    expect(running.trackFile.values.at(-1)).toBe(1);
  });

  test('a node that balances may have it, and nothing is read; one that does not reads', async () => {
    for (const isForwarding of [true, false]) {
      let reads = 0;
      const readListening = () => {
        reads += 1;
        return Promise.resolve([...onUsualPort, { address: '0.0.0.0', port: 443 }]);
      };
      await play('wait 600000; told 0', onMaster({ isForwarding, vip, readListening }));
      expect(reads > 0).toBe(!isForwarding);
    }
  });

  test('a node that cannot read what listens may have it, and says so once', async () => {
    const readListening = () => Promise.resolve(null);
    const host = await play('wait 600000; told 0', onMaster({ isForwarding: false, vip, readListening }));
    expect(host.lines('warn').filter((line) => line.includes('listening ports'))).toEqual([
      "vipnat cannot read the listening ports (/proc/net/tcp). It assumes that a process listens on the VIP's port",
    ]);
  });
});
