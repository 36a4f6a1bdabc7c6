import { describe, expect, test } from '@jest/globals';
import { findPodSpec, print } from '../../../../support/manifest/printing.ts';

const vip = ['--vip', '10.0.0.50'];

describe('the probes of a pod', () => {
  const probesOf = async (words: readonly string[]) => {
    const [container] = findPodSpec(await print(['static-pod', ...vip, ...words])).containers;
    const { startupProbe, readinessProbe, livenessProbe } = container as unknown as Record<
      string,
      { httpGet: object; periodSeconds: number; failureThreshold: number } | undefined
    >;
    return { startupProbe, readinessProbe, livenessProbe };
  };

  test('ask the agent at this host, and restart it only after minutes without an answer', async () => {
    const { startupProbe, readinessProbe, livenessProbe } = await probesOf([]);
    const host = '127.0.0.1';
    expect(startupProbe?.httpGet).toEqual({ path: '/healthz', host, port: 10_270 });
    expect(readinessProbe?.httpGet).toEqual({ path: '/readyz?pod=static-pod', host, port: 10_268 });
    expect(livenessProbe?.httpGet).toEqual({ path: '/healthz', host, port: 10_270 });
    expect(
      (livenessProbe?.periodSeconds ?? 0) * (livenessProbe?.failureThreshold ?? 0),
    ).toBeGreaterThanOrEqual(120);
  });

  test.each([
    ['0.0.0.0:9000', { host: '127.0.0.1', port: 9000 }, { host: '127.0.0.1', port: 9002 }],
    ['[::]:9000', { host: '::1', port: 9000 }, { host: '::1', port: 9002 }],
    ['10.0.0.11:9000', { host: '10.0.0.11', port: 9000 }, { host: '127.0.0.1', port: 9002 }],
    ['[fd00::11]:65534', { host: 'fd00::11', port: 65_534 }, { host: '::1', port: 65_532 }],
  ])('ask where it listens, and at the loopback address beside it: %s', async (listen, ready, alive) => {
    expect(await probesOf(['--listen', listen])).toMatchObject({
      startupProbe: { httpGet: alive },
      readinessProbe: { httpGet: ready },
      livenessProbe: { httpGet: alive },
    });
  });

  test('ask agents of different pods whether they are alive at different ports', async () => {
    const ports = await Promise.all(
      ['daemonset', 'static-pod'].map(async (kind) => {
        const [container] = findPodSpec(await print([kind, ...vip])).containers;
        return (container as unknown as { livenessProbe: { httpGet: { port: number } } }).livenessProbe
          .httpGet.port;
      }),
    );
    expect(ports).toEqual([10_269, 10_270]);
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

  test('are left out where nothing is served', async () => {
    expect(await probesOf(['--listen', 'off'])).toEqual({});
  });
});
