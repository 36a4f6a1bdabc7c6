import { listTexts, type Host, nft } from './host.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { testAgent, play } from './timeline.ts';
import { removeKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { VipnatError } from '../../../lib/errors.ts';
import { FakeStore } from '../../support/fakes/store.ts';
import { recallApiservers } from '../../../agent/state.ts';

const three = listTexts('m1 m2 m3').map(toEndpoint);
const two = three.slice(0, 2);
const savedAt = '2026-11-21T15:04:05.678Z';

/** What an earlier agent has saved. */
const saved = (endpoints: typeof three) => ({
  prepare: ({ store }: Host) => void store.save({ savedAt, endpoints }),
});

describe('the apiservers that were last known', () => {
  testAgent(
    {
      'are balanced over after a reboot, with neither API nor kube-proxy, and not saved again':
        'before; start; wait 2000; targets m1 m2 m3; saved m1 m2 m3',
    },
    saved(three),
  );

  testAgent(
    {
      // The third is warmed up first.
      'give way to what kube-proxy has, as soon as it has any':
        'before; start; wait 2000; targets m1 m2; proxy m1 m2 m3; wait 10000; targets proxy; saved m1 m2, m1 m2 m3',
    },
    saved(two),
  );

  testAgent(
    {
      'are saved as given by --endpoints where there is no kube-proxy':
        'before; start; wait 120000; saved m1 m2 m3; targets m1 m2 m3',
    },
    { config: { endpoints: three } },
  );

  testAgent(
    { 'are those of kube-proxy, not of --endpoints, where both name some': 'wait 120000; saved m1 m2 m3' },
    { config: { endpoints: two } },
  );

  testAgent(
    {
      'given by --endpoints are saved as far as they can be apiservers':
        'before; start; wait 2000; saved m1 m2',
    },
    { config: { endpoints: [...two, toEndpoint('127.0.0.1:6443')] } },
  );

  test('are saved once, again when kube-proxy has others, and not when it is gone', async () => {
    const { clock, kernel, ...host } = await play('wait 120000; saved m1 m2 m3; proxy m1 m2; wait 2000');
    // Its first try fails, as our jump pins its chain, and makes us let go.
    expect(() => {
      removeKubeProxy(kernel, nft);
    }).toThrow(VipnatError);
    await clock.advance(2000);
    removeKubeProxy(kernel, nft);
    await clock.advance(120_000);
    expect(host.store.saves.map(({ endpoints }) => endpoints)).toEqual([three, two]);
  });

  test('are saved anew within two minutes of their loss, and that is said', async () => {
    const host = await play('wait 120000');
    const { store, clock } = host;
    store.saves.splice(0);
    await clock.advance(130_000);
    expect(host.saves).toEqual(['m1 m2 m3']);
    expect(host.lines('warn')).toEqual([
      'another program removed or changed /var/lib/vipnat/endpoints.json. vipnat writes the file again',
    ]);
    store.saves.push({ savedAt, endpoints: two });
    await clock.advance(130_000);
    expect(host.saves.at(-1)).toBe('m1 m2 m3');
  });

  test('are named with the file and its age as the reason', async () => {
    const store = new FakeStore();
    const sixth = toEndpoint('[fd00::11]:6443');
    await store.save({ savedAt, endpoints: [...three, sixth] });
    const seenIn = '/var/lib/vipnat/endpoints.json of 2026-11-21 15:04';
    const { endpoints } = await recallApiservers(store, (problem) => {
      throw problem;
    });
    expect(endpoints).toEqual({ ipv4: { value: three, seenIn }, ipv6: { value: [sixth], seenIn } });
  });

  test('of a torn file count for nothing, and that is said', async () => {
    const store = new FakeStore();
    store.problem = new VipnatError('STATE_UNREADABLE', 'it is torn');
    const problems: VipnatError[] = [];
    const recalled = await recallApiservers(store, (problem) => problems.push(problem));
    expect(recalled).toEqual({ endpoints: {}, previousEndpoints: {} });
    expect(problems).toEqual([store.problem]);
  });

  test('that cannot be read any more in a folder that cannot be written are said to be lost once', async () => {
    const host = await play('wait 120000');
    host.store.problem = new VipnatError('STATE_NOT_WRITTEN', 'the disk is broken');
    await host.clock.advance(600_000);
    expect(host.lines('warn')).toHaveLength(2);
  });
});

describe('a folder that cannot be written', () => {
  test('is said once and tried once a minute; everything else works', async () => {
    const problem = new VipnatError('STATE_NOT_WRITTEN', 'the disk is full');
    const host = await play('wait 595000; hooked; 1 line of warn .; 1 line of warn ^the disk is full$', {
      prepare: ({ store }) => void (store.problem = problem),
    });
    expect(host.store.attempts).toBeGreaterThan(5);
    expect(host.store.attempts).toBeLessThanOrEqual(11);
    host.store.problem = null;
    await host.clock.advance(120_000);
    expect(host.saves).toEqual(['m1 m2 m3']);
    expect(host.lines('info').at(-1)).toBe('vipnat can write /var/lib/vipnat/endpoints.json again');
  });
});
