import { FakeClock } from '../../support/fakes/clock.ts';
import { OwnAddresses, RelayPaths } from '../../../balancer/decide.ts';
import { test, expect, describe } from '@jest/globals';

/** A host that is looked at: `look` leaves out the addresses of Services that it is given. */
function startHost() {
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
      const toPlaced = (address: string) => {
        const family = address.includes(':') ? ('ipv6' as const) : ('ipv4' as const);
        return { family, address, device: host.device, prefixLength: 24 };
      };
      return Promise.resolve(host.addresses.map(toPlaced));
    },
  });
  const look = async (...vips: readonly string[]) => {
    const found = await own.read(new Set(vips));
    return { ...found, moved: [...found.moved].toSorted() };
  };
  return { clock, host, look, turnedAt: (vip: string) => own.turnedAt(vip) };
}

describe('a look at the host', () => {
  test('says which addresses have come or gone, and leaves those of Services and link-local ones out', async () => {
    const { clock, host, look } = startHost();
    const { moved, local: known } = await look('10.0.9.10');
    expect([moved, [...known]]).toEqual([['10.77.0.11'], ['10.77.0.11']]);
    expect((await look('10.0.9.10')).moved).toEqual([]);
    expect((await look()).moved).toEqual(['10.0.9.10']);
    await clock.advance(1000);
    host.addresses = ['10.77.0.12', '169.254.7.7'];
    const after = await look();
    expect([after.moved, [...after.local]]).toEqual([
      ['10.0.9.10', '10.77.0.11', '10.77.0.12'],
      ['10.77.0.12'],
    ]);
    expect([...known]).toEqual(['10.77.0.11']);
    await clock.advance(1000);
    host.addresses.push('169.254.7.8', 'fe80::7');
    const last = await look();
    expect([last.moved, last.local === after.local]).toEqual([[], true]);
  });

  test('says when the host came to hold an address of a Service, and lost it: never, where it held it at the start', async () => {
    const { clock, host, look, turnedAt } = startHost();
    const startedAt = clock.now();
    const turns: number[] = [];
    for (const addresses of [['10.0.9.10'], ['10.0.9.10'], [], [], ['10.0.9.10']]) {
      host.addresses = addresses;
      await look('10.0.9.10', '10.0.9.11');
      turns.push(turnedAt('10.0.9.10') - startedAt);
      await clock.advance(1000);
    }
    expect(turns).toEqual([-Infinity, -Infinity, 7000, 7000, 4000]);
    expect(turnedAt('10.0.9.11')).toBe(startedAt + 5000);
    host.device = 'kube-ipvs0';
    await look('10.0.9.10', '10.0.9.11');
    expect(turnedAt('10.0.9.10') - startedAt).toBe(10_000);
  });

  test('that failed has found what the next one says', async () => {
    const { clock, host, look } = startHost();
    await look();
    await clock.advance(60_000);
    [host.addresses, host.device, host.tunnels] = [['10.77.0.12'], 'kube-ipvs0', null];
    await expect(look()).rejects.toThrow('no answer');
    host.tunnels = ['flannel.1'];
    const moved = ['10.0.9.10', '10.77.0.11', '10.77.0.12'];
    expect(await look()).toMatchObject({ moved, areLinksOther: true, strictTunnels: ['flannel.1'] });
  });

  test('asks the kernel once a second at most, however often it comes', async () => {
    const { clock, host, look } = startHost();
    for (let read = 0; read < 100; read += 1) {
      await look();
      await clock.advance(20);
    }
    expect(host.reads).toBe(2);
  });

  test("knows by which interfaces clients come where kube-proxy has all Services' addresses, and a change is one", async () => {
    const { clock, host, look } = startHost();
    expect((await look()).uplinks).toBeNull();
    await clock.advance(1000);
    host.device = 'kube-ipvs0';
    expect(await look()).toMatchObject({ areLinksOther: true, uplinks: [] });
    expect((await look()).areLinksOther).toBe(false);
    await clock.advance(1000);
    host.addresses.push('fe80::7');
    expect((await look()).areLinksOther).toBe(false);
  });

  test('finds tunnels that drop what comes from other nodes once a minute, and a change is one', async () => {
    const { clock, host, look } = startHost();
    await look();
    host.tunnels = ['flannel.1'];
    await clock.advance(59_000);
    expect(await look()).toMatchObject({ areLinksOther: false, strictTunnels: [] });
    await clock.advance(1000);
    expect(await look()).toMatchObject({ areLinksOther: true, strictTunnels: ['flannel.1'] });
  });
});

describe('the paths to other nodes', () => {
  function startPaths() {
    const clock = new FakeClock();
    const host = {
      routed: [] as string[],
      asked: [] as (readonly string[])[],
      changes: [] as (readonly string[])[],
    };
    const findRouted = (addresses: readonly string[]) => {
      host.asked.push(addresses);
      return Promise.resolve(addresses.filter((address) => host.routed.includes(address)));
    };
    const paths = new RelayPaths({ clock, findRouted }, (services) => host.changes.push(services));
    return { clock, host, paths };
  }

  test('are asked for at once, and again each minute; only Services with another one are told', async () => {
    const { clock, host, paths } = startPaths();
    host.routed = ['203.0.113.9'];
    paths.watch('default/web', ['10.244.2.2']);
    paths.watch('default/far', ['203.0.113.9', '10.244.2.2']);
    await clock.advance(10);
    expect([[...paths.routed], host.changes]).toEqual([['203.0.113.9'], [['default/far']]]);
    await clock.advance(59_000);
    expect(host.asked).toHaveLength(1);
    host.routed = [];
    await clock.advance(2000);
    expect([[...paths.routed], host.changes.slice(1)]).toEqual([[], [['default/far']]]);
  });

  test('are not asked for where nobody wants to know, nor after the end', async () => {
    const { clock, host, paths } = startPaths();
    paths.watch('default/web', ['10.244.2.2']);
    await clock.advance(10);
    paths.watch('default/web', []);
    await clock.advance(200_000);
    expect(host.asked).toEqual([['10.244.2.2'], []]);
    paths.watch('default/web', ['10.244.2.3']);
    paths.stop();
    await clock.advance(200_000);
    expect([host.asked.length, clock.pending]).toEqual([2, 0]);
  });
});
