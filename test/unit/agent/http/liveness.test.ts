import { afterEach, describe, expect, test } from '@jest/globals';
import { createLivenessServer, locateLiveness } from '../../../../agent/http/liveness.ts';
import { type StatusServer } from '../../../../agent/http/server.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const listen = toEndpoint('127.0.0.1:10268');
let server: StatusServer | null = null;
afterEach(async () => {
  await server?.stop();
  server = null;
});

const create = (pod: string | null, address: typeof listen | null, behindMs = () => 0) =>
  createLivenessServer({
    listen: address,
    pod,
    behindMs,
    clock: new FakeClock(),
    onProblem: ({ message }) => {
      throw new Error(message);
    },
    onRecovered: () => undefined,
  });

describe('where a kubelet asks whether an agent is alive', () => {
  test.each([
    ['10.0.0.11:10268', 'daemonset', '127.0.0.1:10269'],
    ['0.0.0.0:10268', 'static-pod', '127.0.0.1:10270'],
    ['[fd00::11]:10268', 'static-pod', '[::1]:10270'],
    ['127.0.0.1:65535', 'daemonset', '127.0.0.1:65534'],
    ['127.0.0.1:65534', 'static-pod', '127.0.0.1:65532'],
  ] as const)('with --listen %s, of a %s: %s', (address, pod, at) => {
    expect(locateLiveness(toEndpoint(address), pod)).toEqual(toEndpoint(at));
  });

  test.each([
    ['outside any pod', null, listen],
    ['in a pod of another kind', 'toString', listen],
    ['with --listen off', 'daemonset', null],
  ])('is nowhere %s', (_, pod, address) => {
    expect(create(pod, address)).toBeNull();
  });

  test('it hears of a loop that hangs for minutes, and of nothing else', async () => {
    let behindMs = 119_999;
    server = create('daemonset', toEndpoint('127.0.0.1:40268'), () => behindMs);
    await server?.start();
    const ask = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${server?.endpoint?.port}${path}`);
      return `${response.status} ${(await response.text()).trim()}`;
    };
    expect(await ask('/healthz')).toBe('200 ok');
    behindMs = 120_000;
    expect(await ask('/healthz')).toBe('500 the agent hangs: its sync has been running or overdue for 120 s');
    expect(await ask('/metrics')).toMatch(/^404 /);
  });
});
