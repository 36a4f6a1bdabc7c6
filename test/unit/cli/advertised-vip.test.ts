import { test, expect } from '@jest/globals';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { tell } from '../../support/doctor/well-host.ts';
import { lookOnce } from '../../support/agent/captured-host.ts';

test.each([
  ['ipv4', '10.77.0.50:6443'],
  ['ipv6', '[fd77::50]:6443'],
] as const)(
  'apiservers that advertise the VIP: doctor says so, and how they stop, %s',
  async (family, vip) => {
    const kernel = new FakeKernel(new FakeClock());
    syncKubeProxy(kernel, { family, dialect: 'nft' }, [toEndpoint(vip)]);
    const config = { ...ordinaryConfig, vips: [toEndpoint(vip)] };
    const told = await tell({ config, assessment: { value: await lookOnce(kernel, config) } });
    expect(told.find(({ code }) => code === 'no-apiserver-known')).toMatchObject({
      level: 'fail',
      why: `The reason: no apiserver is known (no source lists a usable one: ${vip} is the address of a virtual IP).`,
      remedy: [
        '# on each master in turn: give kube-apiserver the own address of its host by',
        '# --advertise-address in /etc/kubernetes/manifests/kube-apiserver.yaml; until then',
        '# name the apiservers, here and in the options of the agent',
        expect.stringContaining('--endpoints'),
      ],
    });
  },
);
