/** The files of a unit of HAProxy, as `vipnat device configuration` prints them. */
import { describe, test, expect } from '@jest/globals';
import { configureUnit } from '../../../../devices/haproxy/configuration.ts';
import { parseRange } from '../../../../lib/net.ts';

/** All files of a unit as one text. */
function print(options: Readonly<Record<string, string>>): string {
  const login = { credentials: { username: 'vipnat', password: 'a word' }, ca: null };
  const settings = { name: 'edge', cluster: 'prod', units: ['10.0.0.11'], options, ...login };
  const ranges = [parseRange('10.0.9.10')].flatMap((range) => range ?? []);
  return configureUnit(settings, ranges, 0)
    .map(({ text }) => text)
    .join('\n');
}

describe('members', () => {
  const small = { slots: 'rr=2,lc=1,hash=1' };
  const listServerLines = (options: Readonly<Record<string, string>>) =>
    [...print({ ...small, ...options }).matchAll(/^ +default-server (.*)$/gm)].map(([, words]) => words);

  test('get the address of the client, also from checks, where the option proxyProtocol says so', () => {
    const usual = 'check inter 2s fall 2 rise 1';
    for (const options of [{}, { proxyProtocol: 'off' }])
      expect(listServerLines(options)).toEqual(Array<string>(4).fill(usual));
    const sending = `${usual} send-proxy-v2 check-send-proxy`;
    expect(listServerLines({ proxyProtocol: 'v2' })).toEqual(Array<string>(4).fill(sending));
    for (const proxyProtocol of ['v1', ''])
      expect(() => print({ proxyProtocol })).toThrow('option proxyProtocol is off or v2, not');
  });
});
