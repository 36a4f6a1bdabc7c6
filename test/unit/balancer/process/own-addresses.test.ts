import { expect, test } from '@jest/globals';
import { OwnAddresses } from '../../../../balancer/process/own-addresses.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

function start() {
  const clock = new FakeClock();
  const host = { addresses: ['10.77.0.11', '10.0.9.10'], reads: 0, device: 'eth0', tunnels: [] as string[] };
  const own = new OwnAddresses({
    clock,
    listStrictTunnels: () => Promise.resolve(host.tunnels),
    readAddresses: () => {
      host.reads += 1;
      return Promise.resolve(
        host.addresses.map(
          (address) => ({ family: 'ipv4', address, device: host.device, prefixLength: 24 }) as const,
        ),
      );
    },
  });
  return { clock, host, own };
}

test('a look says whether they have changed, and leaves those of Services out', async () => {
  const { clock, host, own } = start();
  expect([await own.look(new Set(['10.0.9.10'])), [...own.known]]).toEqual([true, ['10.77.0.11']]);
  expect(await own.look(new Set(['10.0.9.10']))).toBe(false);
  expect([await own.look(new Set()), [...own.known]]).toEqual([true, ['10.77.0.11', '10.0.9.10']]);
  await clock.advance(1000);
  host.addresses = ['10.77.0.12'];
  expect([await own.look(new Set()), [...own.known]]).toEqual([true, ['10.77.0.12']]);
});

test('however often it looks, the kernel is asked once a second at most', async () => {
  const { clock, host, own } = start();
  for (let look = 0; look < 100; look += 1) {
    await own.look(new Set());
    await clock.advance(20);
  }
  expect(host.reads).toBe(2);
});

test("interfaces by which clients come are known where kube-proxy has all Services' addresses, and a change is one", async () => {
  const { clock, host, own } = start();
  await own.look(new Set());
  expect(own.uplinks).toBeNull();
  await clock.advance(1000);
  host.device = 'kube-ipvs0';
  expect([await own.look(new Set()), own.uplinks]).toEqual([true, []]);
  expect(await own.look(new Set())).toBe(false);
});

test('tunnels that drop what comes from other nodes are looked for once a minute, and a change is one', async () => {
  const { clock, host, own } = start();
  await own.look(new Set());
  host.tunnels = ['flannel.1'];
  await clock.advance(59_000);
  expect([await own.look(new Set()), own.strictTunnels]).toEqual([false, []]);
  await clock.advance(1000);
  expect([await own.look(new Set()), own.strictTunnels]).toEqual([true, ['flannel.1']]);
});
