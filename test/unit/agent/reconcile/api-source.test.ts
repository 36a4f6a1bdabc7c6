import { describe, expect, test } from '@jest/globals';
import { type ApiView, type ClusterApi } from '../../../../agent/api/cluster-api.ts';
import { observeAndAssess } from '../../../../agent/reconcile/look.ts';
import { emptyState } from '../../../../agent/observe/reconcile-state.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { nobodyProbes } from '../../../support/fakes/health.ts';
import { restoreCaptures } from '../../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { listTexts, toText } from './host.ts';
import { play, testAgent } from './timeline.ts';

const three = listTexts('m1 m2 m3');
const source = "the API's EndpointSlice kubernetes";

testAgent({
  'an apiserver that the API lists and kube-proxy does not is balanced over as soon as it has proven itself, remembered, and by kube-proxy once that has it':
    'api m1 m2 m3; wait 2000; targets proxy; api m1 m2 m3 m4; wait 100; targets proxy; wait 4900; targets m1 m2 m3 m4;' +
    "1 line of info kube-proxy's list is out of date: it names 3 apiservers \\(.*\\), and 4 apiservers are usable \\(the API's EndpointSlice kubernetes\\);" +
    'saved m1 m2 m3, m1 m2 m3 m4; proxy m1 m2 m3 m4; wait 2000; targets proxy',
  'an apiserver that the API no longer lists gets no connection, though kube-proxy still has it':
    'api m1 m2 m3; wait 2000; api m1 m2; wait 100; targets m1 m2',
  'an API that lists none is none: the next source counts, and the set is never emptied':
    'api m1 m2 m3; wait 2000; api none; wait 120000; targets proxy',
  'losing the API changes nothing in the kernel, and neither does its return (I10)':
    'api m1 m2 m3; wait 2000; api m1 m2 m3 m4; wait 5000; mark; api lost; wait 600000; api regained; wait 60000;' +
    'writes 0; no line',
  'a lost API leaves its word until kube-proxy hears of something else: that is newer':
    'api m1 m2 m3 m4; wait 5000; api m1 m2 m3; wait 5000; targets proxy; api lost; wait 60000; proxy m2 m3 m4;' +
    'wait 10000; targets proxy; api regained; wait 100; targets m2 m3',
});

test('an apiserver that goes down is named to the API as one not to follow, until it is back', async () => {
  const down = await play('api m1 m2 m3; wait 2000; m1 refusing; wait 1000');
  expect([...down.running.api.unwell]).toEqual(three.slice(0, 1));
  down.set(toText('m1'), 'healthy');
  await down.clock.advance(10_000);
  expect([...down.running.api.unwell]).toEqual([]);
});

test('what the API lists and no apiserver can be at gets no connection, and is said once', async () => {
  const host = await play('api m1 m2 m3; wait 2000');
  const hostile = ['10.0.0.50:6443', '127.0.0.1:6443', '224.0.0.1:6443', '169.254.1.1:6443'];
  host.running.api.list('ipv4', [...hostile, ...three], { refused: ['"x" is no IPv4 address'] });
  await host.clock.advance(120_000);
  expect(host.targets).toBe('proxy');
  expect(host.lines('warn')).toEqual([
    `10.0.0.50:6443 is the address of a virtual IP, so vipnat does not use it as an apiserver (${source}). Set --advertise-address of each kube-apiserver to its own host's address`,
    `127.0.0.1:6443 is a loopback address, so vipnat does not use it as an apiserver (${source})`,
    `169.254.1.1:6443 is a link-local address, so vipnat does not use it as an apiserver (${source})`,
    `224.0.0.1:6443 is a multicast address, so vipnat does not use it as an apiserver (${source})`,
    '"x" is no IPv4 address',
  ]);
});

test('an API that lists more than any control plane has is not believed', async () => {
  const host = await play('api m1 m2 m3; wait 2000');
  host.running.api.list(
    'ipv4',
    Array.from({ length: 101 }, (_, index) => `10.78.0.${index + 1}:6443`),
  );
  await host.clock.advance(2000);
  expect(host.targets).toBe('proxy');
  expect(host.lines('warn')).toEqual([
    `the list names 101 apiservers, more than a control plane has. vipnat uses no apiserver of this list (${source})`,
  ]);
});

describe('the reason', () => {
  const said = (more: Partial<ApiView> = {}): ClusterApi => ({
    getView: () => ({
      endpoints: { ipv4: { value: three.map((text) => toEndpoint(text)), seenIn: source } },
      clusterIps: {},
      affinitySeconds: null,
      refused: [],
      isCurrent: true,
      ...more,
    }),
  });
  const lookAt = (captures: readonly string[], api: ClusterApi, answer: string | null = null) =>
    observeAndAssess(
      {
        kernel: restoreCaptures(captures),
        askProxyMode: () => Promise.resolve(answer),
        health: nobodyProbes,
        api,
      },
      ordinaryConfig,
      emptyState,
    );

  test.each<[string, string[], RegExp]>([
    [
      'service-chain',
      ['iptables-nft-save.three-endpoints.txt'],
      /^kube-proxy sends .* to the same 3 apiservers \(.*\); listed in the API's EndpointSlice kubernetes$/,
    ],
    [
      'direct',
      ['iptables-nft-save.two-endpoints.txt'],
      /^kube-proxy's list is out of date: it names 2 apiservers \(.*\), and 3 apiservers are usable \(the API's EndpointSlice kubernetes\)$/,
    ],
    ['direct', [], /^this host runs no kube-proxy \(.*\); listed in the API's EndpointSlice kubernetes$/],
  ])('names the API as the source: %s', async (way, captures, reason) => {
    const { decisions } = await lookAt(captures, said());
    expect(decisions).toMatchObject([{ way, reason: expect.stringMatching(reason) }]);
  });

  test("the Service's ClusterIP tells the virtual server from others, where none is configured", async () => {
    const captures = ['iptables-legacy-save.ipvs-three-endpoints.txt', 'proc-net-ip_vs.three-endpoints.txt'];
    const seen = (clusterIps: ApiView['clusterIps']) => lookAt(captures, said({ clusterIps }), 'ipvs');
    expect((await seen({ ipv4: '10.96.0.1' })).decisions[0]?.way).toBe('cluster-ip');
    expect((await seen({ ipv4: '10.96.0.99' })).decisions[0]?.reason).toContain(
      'no TCP virtual server 10.96.0.99:443',
    );
  });
});
