/** The files of a unit of HAProxy, as `vipnat device configuration` prints them. */
import { describe, test, expect } from '@jest/globals';
import { configureUnit } from '../../../../devices/haproxy/configuration.ts';
import { parseRange } from '../../../../lib/net.ts';

type Options = Readonly<Record<string, string>>;

/** All files of a unit as one text. */
function print(options: Options, units: readonly string[] = ['10.0.0.11'], addresses = '10.0.9.10', at = 0) {
  const login = { credentials: { username: 'vipnat', password: 'a word' }, ca: null };
  const settings = { name: 'edge', cluster: 'prod', units, options: { slots: 'rr=2', ...options }, ...login };
  const ranges = addresses.split(' ').flatMap((text) => parseRange(text) ?? []);
  const files = configureUnit(settings, ranges, at);
  return files.map(({ text }) => text).join('\n');
}

test('members get the address of the client, also from checks, by the option proxyProtocol', () => {
  const readServers = (options: Options) =>
    new Set([...print(options).matchAll(/^ +default-server (.*)$/gm)].map(([, words]) => words));
  const usual = 'check inter 2s fall 2 rise 1';
  for (const options of [{}, { proxyProtocol: 'off' }])
    expect(readServers(options)).toEqual(new Set([usual]));
  const sending = `${usual} send-proxy-v2 check-send-proxy`;
  expect(readServers({ proxyProtocol: 'v2' })).toEqual(new Set([sending]));
  for (const proxyProtocol of ['v1', ''])
    expect(() => print({ proxyProtocol })).toThrow('option proxyProtocol is off or v2, not');
});

describe('the number of the VRRP router', () => {
  const pair = ['10.0.0.11:9443', '10.0.0.12:9443'];
  test.each<[what: string, units: readonly string[], options: Options, vrid: number]>([
    ['is the last byte of the first unit plus one', pair, {}, 12],
    ['is another one for another pair', ['10.0.0.21', '10.0.0.22'], {}, 22],
    ['is that of the last byte for IPv6, too', ['[fd00::1:fe]:9443', '[fd00::7]'], {}, 255],
    ['is that of the option vrid', pair, { vrid: '51' }, 51],
    ['can be given for a unit that has none', ['10.0.0.255', '10.0.0.12'], { vrid: '7' }, 7],
  ])('%s, at both units and whatever spec.addresses has', (_what, units, options, vrid) => {
    for (const addresses of ['10.0.9.10 fd00::5', '10.0.9.77 fd00::6'])
      for (const at of [0, 1])
        expect(print(options, units, addresses, at)).toContain(`    virtual_router_id ${vrid}\n`);
  });

  test('is to be given where the first unit has none, and no unit alone needs one', () => {
    expect(() => print({}, ['10.0.0.255', '10.0.0.12'])).toThrow(
      '10.0.0.255 plus one is 256: set the option vrid',
    );
    expect(print({}, ['10.0.0.255'])).not.toContain('virtual_router_id');
    for (const vrid of ['', '0', '256'])
      expect(() => print({ vrid }, pair)).toThrow('option vrid is a number');
  });
});
