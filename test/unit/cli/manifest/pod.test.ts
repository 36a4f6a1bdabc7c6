import { findPodSpec, print } from '../../../support/manifest/printing.ts';
import { test, expect, describe } from '@jest/globals';
import { heartbeatProbe } from '../../../../lib/telemetry/log.ts';

const envOf = async (...words: string[]) =>
  findPodSpec(await print([...words, '--vip', '10.0.0.50'])).containers[0]['env'];

const pod = (value: string) => ({ name: 'VIPNAT_POD', value });
const nodeName = { name: 'VIPNAT_NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

test("an agent with credentials is told its node's name, which its events are about", async () => {
  expect(await envOf('daemonset')).toEqual([pod('daemonset'), nodeName]);
  const kubeconfig = ['--kubeconfig', '/etc/kubernetes/vipnat.conf'];
  expect(await envOf('static-pod', ...kubeconfig)).toEqual([pod('static-pod'), nodeName]);
  expect(await envOf('static-pod', ...kubeconfig, '--node-name', 'm1')).toEqual([pod('static-pod')]);
});

test('an agent without them writes no events, and is not told', async () => {
  expect(await envOf('static-pod')).toEqual([pod('static-pod')]);
});

const vip = ['--vip', '10.0.0.50'];

/** A pod's three probes. */
interface Probes {
  readonly startupProbe?: Probe;
  readonly readinessProbe?: { readonly httpGet: object };
  readonly livenessProbe?: Probe;
}

interface Probe {
  readonly exec: { readonly command: readonly string[] };
  readonly periodSeconds: number;
  readonly failureThreshold: number;
}

describe('the probes of a pod', () => {
  const probesOf = async (words: readonly string[], kind = 'static-pod') => {
    const [container] = findPodSpec(await print([kind, ...vip, ...words])).containers;
    const { startupProbe, readinessProbe, livenessProbe } = container as unknown as Probes;
    return { startupProbe, readinessProbe, livenessProbe };
  };

  test.each(['daemonset', 'static-pod'])(
    'ask the agent in its own container whether it is alive, and restart it only after minutes: %s',
    async (kind) => {
      const { startupProbe, livenessProbe } = await probesOf([], kind);
      for (const probe of [startupProbe, livenessProbe]) {
        expect(probe).toMatchObject({ exec: { command: heartbeatProbe } });
        expect(probe).not.toHaveProperty('httpGet');
      }
      expect(
        (livenessProbe?.periodSeconds ?? 0) * (livenessProbe?.failureThreshold ?? 0),
      ).toBeGreaterThanOrEqual(120);
    },
  );

  test.each([
    ['127.0.0.1:10268', { host: '127.0.0.1', port: 10_268 }],
    ['0.0.0.0:9000', { host: '127.0.0.1', port: 9000 }],
    ['[::]:9000', { host: '::1', port: 9000 }],
    ['10.0.0.11:9000', { host: '10.0.0.11', port: 9000 }],
    ['[fd00::11]:65535', { host: 'fd00::11', port: 65_535 }],
  ])('ask whether it is ready where it listens: %s', async (listen, place) => {
    expect(await probesOf(['--listen', listen])).toMatchObject({
      readinessProbe: { httpGet: { ...place, path: '/readyz?pod=static-pod' } },
    });
  });

  test.each([['daemonset'], ['static-pod']])(
    'name the kind of pod that its agent is told: %s',
    async (kind) => {
      const [container] = findPodSpec(await print([kind, ...vip])).containers;
      expect(container).toMatchObject({
        env: expect.arrayContaining([{ name: 'VIPNAT_POD', value: kind }]),
        readinessProbe: { httpGet: { path: `/readyz?pod=${kind}` } },
      });
    },
  );

  test('do not ask whether it is ready where nothing is served', async () => {
    const { startupProbe, readinessProbe, livenessProbe } = await probesOf(['--listen', 'off']);
    expect(readinessProbe).toBeUndefined();
    expect([startupProbe, livenessProbe]).toEqual([expect.anything(), expect.anything()]);
  });
});
