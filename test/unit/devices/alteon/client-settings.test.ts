import { beforeAll, test, expect } from '@jest/globals';
import { makePair } from '../../../../controller/webhook/certificate.ts';
import type { DeviceSettings } from '../../../../devices/driver.ts';
import { readSettings } from '../../../../devices/alteon/client.ts';

let ca = '';
beforeAll(async () => {
  ca = (await makePair('lb1.example', new Date())).certificate;
});

const read = (changes: Partial<DeviceSettings> = {}) =>
  readSettings({
    ...{ name: 'edge', cluster: 'prod', units: ['https://lb1.example', '[fd00::2]:8443'] },
    ...{ credentials: { username: 'vipnat', password: 'secret word' }, ca, options: {}, ...changes },
  });

test('units are URLs, or hosts with a port', () => {
  expect(read().units).toMatchObject([
    { unit: 'https://lb1.example', server: { host: 'lb1.example', port: 443 } },
    { unit: '[fd00::2]:8443', server: { host: 'fd00::2', port: 8443 } },
  ]);
  expect(read().options).toEqual({ role: 'haSwitchInfoState', listSize: 9000, proxyIpMode: null });
  const options = { role: 'vrrpInfoHAState', listSize: '100', proxyIpMode: 'egress' };
  expect(read({ options }).options).toEqual({ role: 'vrrpInfoHAState', listSize: 100, proxyIpMode: 1 });
});

test.each<[Partial<DeviceSettings>, string]>([
  [{ cluster: 'Prod_1' }, 'the cluster\'s name "Prod_1" is none'],
  [{ units: [] }, 'it has 0 units'],
  [{ units: ['a', 'b', 'c'] }, 'it has 3 units'],
  [{ units: ['a', 'a'] }, 'both units are the same'],
  [{ units: ['http://a'] }, 'unit "http://a" is neither HOST:PORT nor a URL'],
  [{ units: ['https://a/config'] }, 'unit "https://a/config" is neither HOST:PORT nor a URL'],
  [{ units: ['a:70000'] }, 'unit "a:70000" is neither HOST:PORT nor a URL'],
  [{ credentials: null }, 'it has no credentials: name them in spec.credentialsSecret'],
  [{ credentials: { username: 'a:b', password: 'secret word' } }, 'its user name has a colon'],
  [{ ca: 'nonsense' }, 'its CA is not a certificate'],
  [{ options: { rôle: 'x' } }, 'option "rôle" is unknown'],
  [{ options: { role: 'x' } }, 'option role is'],
  [{ options: { listSize: '0' } }, 'option listSize is'],
  [{ options: { proxyIpMode: 'address' } }, 'option proxyIpMode is one of ingress, egress, disable'],
])('settings %j cannot be meant: %s', (changes, words) => {
  expect(() => read(changes)).toThrow(
    expect.objectContaining({
      code: 'DEVICE_SETTINGS_INVALID',
      message: expect.stringMatching(/^device edge cannot be used: (?!.*secret)/),
    }),
  );
  expect(() => read(changes)).toThrow(words);
});
