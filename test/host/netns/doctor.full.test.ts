import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { illnesses } from './doctor-faults.ts';
import { type Fault } from './illness.ts';
import { vips } from '../../support/network/layout.ts';
import { SickHost, type Told } from './sick-host.ts';
import { waitUntil } from '../../support/host/vipnat.ts';

const quick = ['--capture', '0s'];

let host: SickHost;

beforeAll(async () => {
  host = await SickHost.create();
});

// Also when the set-up failed half-way.
afterAll(() => (host as SickHost | undefined)?.close());

const isTrouble = ({ level }: Told) => level === 'warn' || level === 'fail';

test('a well host has no failures, and everything about it can be found out', async () => {
  let told: readonly Told[] = [];
  await waitUntil(
    async () => {
      told = (await host.examine(['--capture', '60s'])).filter(({ level }) => level !== 'ok');
      return told.length === 1;
    },
    () => `a well host is told ${JSON.stringify(told, null, 2)}`,
  );
  expect(told).toMatchObject([{ code: 'agent-not-running', level: 'warn' }]);
});

describe('a VIP of another host is held by somebody', () => {
  test.each([
    ['drops what it does not know', 'iptables-nft -A INPUT -j DROP'],
    ['rejects it', 'iptables-nft -A INPUT -j REJECT --reject-with icmp-host-prohibited'],
  ])('whose firewall %s', async (_, rule) => {
    const other = host.cluster.namespaceOf('client');
    await host.shell('systemctl stop keepalived');
    await host.cluster.namespaces.shell(other, `${rule}; ip addr add ${vips.ipv4}/32 dev eth0`);
    let levels = new Map<string, string>();
    await waitUntil(
      async () => {
        const told = await host.examine(['--capture', '1.2s']);
        levels = new Map(told.map(({ code, level }) => [code, level]));
        return levels.get('vip-nowhere') === 'ok' && levels.get('vip-held-without-vrrp') === 'warn';
      },
      () => `told: ${JSON.stringify([...levels])}`,
    );
    await host.cluster.namespaces.shell(other, `iptables-nft -F INPUT; ip addr del ${vips.ipv4}/32 dev eth0`);
    await host.shell('systemctl start keepalived');
    await host.waitForVip();
  });
});

describe('each fault is named, and its remedy works', () => {
  test('there are enough of them', () => {
    const codes = illnesses.flatMap(({ faults }) => faults.map(({ code }) => code));
    expect(new Set(codes).size).toBeGreaterThanOrEqual(20);
  });

  afterEach(() => host.waitForVip());

  test.each(illnesses)('$name', async ({ faults, args = quick }) => {
    const codes = faults.map(({ code }) => code);
    for (const { seed } of faults) await seed(host);
    let about: readonly Told[] = [];
    let found: readonly Told[] = [];
    const isNamed = async (isMeant: (named: readonly string[]) => boolean) => {
      about = (await host.examine(args)).filter(({ code }) => codes.includes(code));
      found = about.filter(isTrouble);
      return isMeant([...new Set(found.map(({ code }) => code))]);
    };
    const describeFound = () => `told of ${codes.join(', ')}: ${JSON.stringify(about, null, 2)}`;
    await waitUntil(() => isNamed(({ length }) => length === codes.length), describeFound);
    for (const { remedy = [] } of found) await host.shell(remedy.join('\n'));
    await followAll(faults, found);
    await waitUntil(() => isNamed(({ length }) => length === 0), describeFound);
    for (const { after } of faults) await after?.(host);
  });
});

/** Does what the comments say, and then once more what the commands do. */
async function followAll(faults: readonly Fault[], found: readonly Told[]): Promise<void> {
  for (const { code, follow } of faults) {
    const { remedy = [] } = found.find((one) => one.code === code) ?? {};
    await follow?.(host, remedy);
    if (follow !== undefined) await host.shell(remedy.join('\n'));
  }
}
