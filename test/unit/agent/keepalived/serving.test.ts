import { describe, expect, test } from '@jest/globals';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { type ListeningAddress } from '../../../../lib/kernel/host/listeners.ts';
import { FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import {
  linesOf,
  ordinaryConfig,
  type RunningAgent,
  startAgent,
} from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const texts = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const [own, second, third] = texts;

/** What listens on a master whose apiserver has its usual port. */
const onUsualPort: readonly ListeningAddress[] = [{ address: '::', port: 6443 }];

interface Setting {
  readonly isForwarding?: boolean;
  readonly vip?: string;
  readonly readListening?: () => Promise<readonly ListeningAddress[] | null>;
}

/** An agent on the first of three masters; where the host may not forward, the VIP is its holder's alone. */
function startOnMaster(setting: Setting = {}): RunningAgent {
  const { isForwarding = true, vip = '10.0.0.50:6443' } = setting;
  const { readListening = () => Promise.resolve(onUsualPort) } = setting;
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  kernel.forwarding = { ipv4: isForwarding, ipv6: true };
  kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
  syncKubeProxy(
    kernel,
    nft,
    texts.map((text) => toEndpoint(text)),
  );
  return startAgent({
    clock,
    kernel,
    apiservers: new FakeApiservers(clock),
    config: { ...ordinaryConfig, vips: [toEndpoint(vip)], sysctls: 'check' },
    ports: { readListening },
  });
}

describe('keepalived is told', () => {
  test('once that this node can serve, and nothing more for ten minutes', async () => {
    const running = startOnMaster();
    await running.clock.advance(600_000);
    expect(running.trackFile.values).toEqual([0]);
    expect(linesOf(running, 'info').filter((line) => line.includes('can serve'))).toEqual([]);
  });

  test('nothing when an apiserver dies, be it this node’s own or all but one', async () => {
    const { clock, apiservers, trackFile } = startOnMaster();
    await clock.advance(2000);
    apiservers.set(own, 'refusing');
    await clock.advance(30_000);
    apiservers.set(second, 'silent');
    await clock.advance(30_000);
    expect(trackFile.values).toEqual([0]);
  });

  test('nothing when all apiservers are gone: no other node would do better', async () => {
    const { clock, apiservers, trackFile } = startOnMaster();
    await clock.advance(2000);
    for (const text of texts) apiservers.set(text, 'refusing');
    await clock.advance(60_000);
    expect(trackFile.values).toEqual([0]);
  });

  test('within 100 ms to leave a node that cannot balance and whose own apiserver dies, and when that is back', async () => {
    const running = startOnMaster({ isForwarding: false });
    const { clock, apiservers, trackFile } = running;
    await clock.advance(2000);
    expect(trackFile.values).toEqual([0]);
    apiservers.set(own, 'refusing');
    await clock.advance(100);
    expect(trackFile.values).toEqual([0, 1]);
    apiservers.set(own, 'healthy');
    await clock.advance(30_000);
    expect(trackFile.values).toEqual([0, 1, 0]);
    expect([...linesOf(running, 'warn'), ...linesOf(running, 'info')]).toEqual(
      expect.arrayContaining([
        'this node cannot serve the VIP: it cannot balance, and its own apiserver does not answer. The track file is 1, so keepalived keeps the VIP off this node',
        'this node can serve the VIP again. The track file is 0, so keepalived may take the VIP',
      ]),
    );
  });

  test.each([
    { dead: [own], last: [second, third] },
    { dead: [own, second], last: [third] },
  ])('to leave a node when $dead are dead and no answer comes from $last for five seconds', async (given) => {
    const { clock, apiservers, trackFile } = startOnMaster();
    const setLast = (behaviour: 'silent' | 'healthy') => {
      for (const text of given.last) apiservers.set(text, behaviour);
    };
    await clock.advance(2000);
    for (const text of given.dead) apiservers.set(text, 'refusing');
    await clock.advance(5000);
    setLast('silent');
    // A bond that fails over: keepalived's adverts are lost as well, and nobody does better.
    await clock.advance(3000);
    setLast('healthy');
    await clock.advance(60_000);
    setLast('silent');
    await clock.advance(4500);
    expect(trackFile.values).toEqual([0]);
    await clock.advance(1500);
    expect(trackFile.values).toEqual([0, 1]);
    setLast('healthy');
    await clock.advance(2000);
    expect(trackFile.values).toEqual([0, 1, 0]);
  });

  test('nothing when no other is heard, while its own apiserver lives', async () => {
    const { clock, apiservers, trackFile } = startOnMaster();
    await clock.advance(2000);
    for (const text of [second, third]) apiservers.set(text, 'silent');
    await clock.advance(60_000);
    expect(trackFile.values).toEqual([0]);
  });

  test('that it decides by itself again, when the agent ends', async () => {
    const { agent, clock, apiservers, trackFile } = startOnMaster({ isForwarding: false });
    await clock.advance(2000);
    apiservers.set(own, 'refusing');
    await clock.advance(2000);
    await agent.stop();
    expect(trackFile.values).toEqual([0, 1, 0]);
  });
});

test('an agent that ends before it has judged takes back what one that was killed may have said', async () => {
  const { agent, trackFile } = startOnMaster();
  await agent.stop();
  expect(trackFile.values).toEqual([0]);
});

test('a track file that cannot be written is said once and tried once a minute; everything else works', async () => {
  const running = startOnMaster();
  const { clock, kernel, trackFile, apiservers } = running;
  trackFile.problem = new VipnatError('TRACK_FILE_NOT_WRITTEN', 'the folder is read-only');
  await clock.advance(600_000);
  expect(linesOf(running, 'warn')).toEqual(['the folder is read-only']);
  expect(trackFile.attempts).toBeGreaterThan(5);
  expect(trackFile.attempts).toBeLessThanOrEqual(11);
  expect(kernel.show('ipv4', 'nft')).toMatch(/-A PREROUTING .*-j VIPNAT\n/);
  apiservers.set(third, 'refusing');
  await clock.advance(1000);
  expect(kernel.show('ipv4', 'nft')).not.toMatch(/-A VIPNAT-\w+ .*--to-destination 10.77.0.13/);
  trackFile.problem = null;
  await clock.advance(120_000);
  expect(trackFile.values).toEqual([0]);
});

describe('with a VIP at another port than the apiservers’', () => {
  const vip = '10.0.0.50:443';

  test('a node that cannot balance is to leave it, and may take it a look after somebody listens there', async () => {
    let listening = onUsualPort;
    const readListening = () => Promise.resolve(listening);
    const { clock, kernel, trackFile } = startOnMaster({ isForwarding: false, vip, readListening });
    await clock.advance(2000);
    expect(trackFile.values.at(-1)).toBe(1);
    listening = [...onUsualPort, { address: '0.0.0.0', port: 443 }];
    kernel.trigger('addresses');
    await clock.advance(2000);
    expect(trackFile.values.at(-1)).toBe(0);
    listening = onUsualPort;
    await clock.advance(61_000);
    expect(trackFile.values.at(-1)).toBe(1);
  });

  test('a node that balances may have it, and nothing is read', async () => {
    let reads = 0;
    const readListening = () => {
      reads += 1;
      return Promise.resolve(onUsualPort);
    };
    const { clock, trackFile } = startOnMaster({ vip, readListening });
    await clock.advance(600_000);
    expect(trackFile.values).toEqual([0]);
    expect(reads).toBe(0);
  });

  test('a node that cannot read what listens may have it, and says so once', async () => {
    const readListening = () => Promise.resolve(null);
    const running = startOnMaster({ isForwarding: false, vip, readListening });
    await running.clock.advance(600_000);
    expect(running.trackFile.values).toEqual([0]);
    expect(linesOf(running, 'warn').filter((line) => line.includes('listening ports'))).toEqual([
      "vipnat cannot read the listening ports (/proc/net/tcp). It assumes that a process listens on the VIP's port",
    ]);
  });
});
