import { FakeClock } from '../../support/fakes/clock.ts';
import { OwnAddresses } from '../../../balancer/decide.ts';
import { test, expect } from '@jest/globals';

function start() {
  const clock = new FakeClock();
  const host = {
    addresses: ['10.77.0.11', '10.0.9.10'],
    reads: 0,
    device: 'eth0',
    tunnels: [] as string[] | null,
  };
  const own = new OwnAddresses({
    clock,
    listStrictTunnels: () =>
      host.tunnels === null ? Promise.reject(new Error('no answer')) : Promise.resolve(host.tunnels),
    readAddresses: () => {
      host.reads += 1;
      return Promise.resolve(
        host.addresses.map(
          (address) =>
            ({
              family: address.includes(':') ? 'ipv6' : 'ipv4',
              ...{ address, device: host.device, prefixLength: 24 },
            }) as const,
        ),
      );
    },
  });
  return { clock, host, own };
}

test('a look says which have come or gone, and leaves those of Services and link-local ones out', async () => {
  const { clock, host, own } = start();
  const read = async (...vips: readonly string[]) => [...(await own.read(new Set(vips))).moved].toSorted();
  expect([await read('10.0.9.10'), [...own.known]]).toEqual([['10.77.0.11'], ['10.77.0.11']]);
  const { known } = own;
  expect(await read('10.0.9.10')).toEqual([]);
  expect(await read()).toEqual(['10.0.9.10']);
  await clock.advance(1000);
  host.addresses = ['10.77.0.12', '169.254.7.7'];
  expect([await read(), [...own.known]]).toEqual([['10.0.9.10', '10.77.0.11', '10.77.0.12'], ['10.77.0.12']]);
  expect([...known]).toEqual(['10.77.0.11']);
  const after = own.known;
  await clock.advance(1000);
  host.addresses.push('169.254.7.8', 'fe80::7');
  expect([await read(), own.known === after]).toEqual([[], true]);
});

test('what a look has found that failed is said by the next one', async () => {
  const { clock, host, own } = start();
  await own.read(new Set());
  await clock.advance(60_000);
  host.addresses = ['10.77.0.12'];
  host.device = 'kube-ipvs0';
  host.tunnels = null;
  await expect(own.read(new Set())).rejects.toThrow('no answer');
  host.tunnels = ['flannel.1'];
  const { moved, areLinksOther } = await own.read(new Set());
  expect([[...moved].sort(), areLinksOther]).toEqual([['10.0.9.10', '10.77.0.11', '10.77.0.12'], true]);
  expect(own.strictTunnels).toEqual(['flannel.1']);
});

test('however often it looks, the kernel is asked once a second at most', async () => {
  const { clock, host, own } = start();
  for (let read = 0; read < 100; read += 1) {
    await own.read(new Set());
    await clock.advance(20);
  }
  expect(host.reads).toBe(2);
});

test("interfaces by which clients come are known where kube-proxy has all Services' addresses, and a change is one", async () => {
  const { clock, host, own } = start();
  await own.read(new Set());
  expect(own.uplinks).toBeNull();
  await clock.advance(1000);
  host.device = 'kube-ipvs0';
  expect([(await own.read(new Set())).areLinksOther, own.uplinks]).toEqual([true, []]);
  expect((await own.read(new Set())).areLinksOther).toBe(false);
  await clock.advance(1000);
  host.addresses.push('fe80::7');
  expect((await own.read(new Set())).areLinksOther).toBe(false);
});

test('tunnels that drop what comes from other nodes are looked for once a minute, and a change is one', async () => {
  const { clock, host, own } = start();
  await own.read(new Set());
  host.tunnels = ['flannel.1'];
  await clock.advance(59_000);
  expect([(await own.read(new Set())).areLinksOther, own.strictTunnels]).toEqual([false, []]);
  await clock.advance(1000);
  expect([(await own.read(new Set())).areLinksOther, own.strictTunnels]).toEqual([true, ['flannel.1']]);
});
