import { FakeClock } from '../../support/fakes/clock.ts';
import { OwnAddresses, RelayPaths } from '../../../balancer/decide.ts';
import { describe, expect } from '@jest/globals';
import { type Steps, testSteps, toChecks } from '../steps.ts';

const split = (text: string) => text.split(' ').filter(Boolean);

/** A host that is looked at: `look` leaves out the addresses of Services that it is given. */
function createHost(): Steps {
  const clock = new FakeClock();
  const startedAt = clock.now();
  let [addresses, device, reads] = [['10.77.0.11', '10.0.9.10'], 'eth0', 0];
  let tunnels: string[] | null = [];
  let found: Awaited<ReturnType<OwnAddresses['read']>> | null = null;
  let before: unknown = null;
  const own = new OwnAddresses({
    clock,
    listStrictTunnels: () =>
      tunnels === null ? Promise.reject(new Error('no answer')) : Promise.resolve(tunnels),
    readAddresses: () => {
      reads += 1;
      const toPlaced = (address: string) => {
        const family = address.includes(':') ? ('ipv6' as const) : ('ipv4' as const);
        return { family, address, device, prefixLength: 24 };
      };
      return Promise.resolve(addresses.map(toPlaced));
    },
  });
  const look = async (vips: string) => {
    before = found?.local;
    found = await own.read(new Set(split(vips)));
  };
  return {
    look,
    /** `often 100 20`: so many times, so many ms apart. */
    often: async (text) => {
      const [times, ms] = text.split(' ').map(Number);
      for (let read = 0; read < (times ?? 0); read += 1) {
        await look('');
        await clock.advance(ms ?? 0);
      }
    },
    fail: async (message) => {
      await expect(look('')).rejects.toThrow(message);
    },
    wait: (ms) => clock.advance(Number(ms)),
    has: (text) => (addresses = split(text)),
    on: (name) => (device = name),
    tunnels: (text) => (tunnels = text === 'unknown' ? null : split(text)),
    ...toChecks({
      moved: (text) => [[...(found?.moved ?? [])].toSorted(), split(text)],
      local: (text) => [[...(found?.local ?? [])], split(text)],
      same: () => [found?.local === before, true],
      links: (what) => [found?.areLinksOther, what === 'other'],
      uplinks: (what) => [found?.uplinks, what === 'none' ? [] : null],
      strict: (text) => [found?.strictTunnels, split(text)],
      /** `turned 10.0.9.10 7000`: since the start. */
      turned: (text) => [own.turnedAt(split(text)[0] ?? '') - startedAt, Number(split(text)[1])],
      reads: (count) => [reads, Number(count)],
    }),
  };
}

const vips = 'look 10.0.9.10 10.0.9.11';

describe('a look at the host', () => {
  testSteps(createHost, {
    'says which addresses have come or gone, and leaves those of Services and link-local ones out':
      'look 10.0.9.10; moved 10.77.0.11; local 10.77.0.11; look 10.0.9.10; moved ; look; moved 10.0.9.10; wait 1000; ' +
      'has 10.77.0.12 169.254.7.7; look; moved 10.0.9.10 10.77.0.11 10.77.0.12; local 10.77.0.12; wait 1000; ' +
      'has 10.77.0.12 169.254.7.7 169.254.7.8 fe80::7; look; moved ; same',
    'says when the host came to hold an address of a Service, and lost it: never, where it held it at the start':
      `has 10.0.9.10; ${vips}; turned 10.0.9.10 -Infinity; wait 1000; ${vips}; turned 10.0.9.10 -Infinity; wait 1000; ` +
      `has ; ${vips}; turned 10.0.9.10 7000; wait 1000; ${vips}; turned 10.0.9.10 7000; wait 1000; ` +
      `has 10.0.9.10; ${vips}; turned 10.0.9.10 4000; wait 1000; turned 10.0.9.11 5000; ` +
      `on kube-ipvs0; ${vips}; turned 10.0.9.10 10000`,
    'that failed has found what the next one says':
      'look; wait 60000; has 10.77.0.12; on kube-ipvs0; tunnels unknown; fail no answer; tunnels flannel.1; look; ' +
      'moved 10.0.9.10 10.77.0.11 10.77.0.12; links other; strict flannel.1',
    'asks the kernel once a second at most, however often it comes': 'often 100 20; reads 2',
    "knows by which interfaces clients come where kube-proxy has all Services' addresses, and a change is one":
      'look; uplinks unknown; wait 1000; on kube-ipvs0; look; links other; uplinks none; look; links same; wait 1000; ' +
      'has 10.77.0.11 10.0.9.10 fe80::7; look; links same',
    'finds tunnels that drop what comes from other nodes once a minute, and a change is one':
      'look; tunnels flannel.1; wait 59000; look; links same; strict ; wait 1000; look; links other; strict flannel.1',
  });
});

function createPaths(): Steps {
  const clock = new FakeClock();
  let routed: string[] = [];
  const [asked, changes]: [string[], string[]] = [[], []];
  const findRouted = (addresses: readonly string[]) => {
    asked.push(addresses.join(' '));
    return Promise.resolve(addresses.filter((address) => routed.includes(address)));
  };
  const paths = new RelayPaths({ clock, findRouted }, (services) => changes.push(...services));
  return {
    routes: (text) => (routed = split(text)),
    watch: (text) => {
      const [service = '', ...addresses] = split(text);
      paths.watch(service, addresses);
    },
    wait: (ms) => clock.advance(Number(ms)),
    stop: () => {
      paths.stop();
    },
    ...toChecks({
      routed: (text) => [[...paths.routed], split(text)],
      asked: (text) => [asked.join(', '), text],
      changed: (text) => [changes.splice(0), split(text)],
      rests: () => [clock.pending, 0],
    }),
  };
}

describe('the paths to other nodes', () => {
  testSteps(createPaths, {
    'are asked for at once, and again each minute; only Services with another one are told':
      'routes 203.0.113.9; watch default/web 10.244.2.2; watch default/far 203.0.113.9 10.244.2.2; wait 10; ' +
      'routed 203.0.113.9; changed default/far; wait 59000; asked 10.244.2.2 203.0.113.9; routes ; wait 2000; ' +
      'routed ; changed default/far',
    'are not asked for where nobody wants to know, nor after the end':
      'watch default/web 10.244.2.2; wait 10; watch default/web; wait 200000; asked 10.244.2.2, ; ' +
      'watch default/web 10.244.2.3; stop; wait 200000; asked 10.244.2.2, ; rests',
  });
});
