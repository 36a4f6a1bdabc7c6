import { describe, expect, test } from '@jest/globals';
import { keepalivedFlags, toKeepalivedArguments } from '../../../../../cli/generate/keepalived/options.ts';
import { readFlags } from '../../../../../cli/flags/flag.ts';

/** What each flag is given. */
type Words = Partial<Record<keyof typeof keepalivedFlags, string | readonly string[]>>;

describe('the switches of vipnat keepalived', () => {
  test('have defaults', () => {
    expect(readFlags(keepalivedFlags, {})).toMatchObject({
      options: { interface: null, peers: [], vrid: [], priority: null, advert: 1000, output: null },
      problems: [],
    });
  });

  test('are read, lists by commas and by repeating', () => {
    const words = {
      interface: 'eth0.100',
      peers: ['10.0.0.11,10.0.0.12', 'FD00::0:11'],
      vrid: ['51,52', '53'],
      priority: '254',
      advert: '0.3s',
      output: '/etc/keepalived/keepalived.conf',
    };
    expect(readFlags(keepalivedFlags, words).options).toEqual({
      interface: 'eth0.100',
      peers: [
        { family: 'ipv4', text: '10.0.0.11' },
        { family: 'ipv4', text: '10.0.0.12' },
        { family: 'ipv6', text: 'fd00::11' },
      ],
      vrid: [51, 52, 53],
      priority: 254,
      advert: 300,
      output: '/etc/keepalived/keepalived.conf',
    });
  });

  test('come to arguments that are read as the same', () => {
    const words = { interface: 'eth0', peers: ['10.0.0.11,fd00::11'], vrid: ['51'], priority: '9' };
    for (const given of [{}, { ...words, advert: '0.3s', output: '/x' }, words]) {
      const { options } = readFlags(keepalivedFlags, given);
      const flags = toKeepalivedArguments(options).map((text) => /^--([a-z]+)=(.*)$/.exec(text)?.slice(1));
      const read = flags.map(([name = '', text = ''] = []) => [
        name,
        /peers|vrid/.test(name) ? [text] : text,
      ]);
      expect(readFlags(keepalivedFlags, Object.fromEntries(read) as Words).options).toEqual(options);
    }
  });

  test.each<[Words, string]>([
    [
      { interface: 'eth0 {' },
      '--interface "eth0 {" is not a name of an interface. Example: --interface eth0',
    ],
    [
      { interface: 'eth0\n}' },
      '--interface "eth0\\n}" is not a name of an interface. Example: --interface eth0',
    ],
    [{ interface: '-x' }, '--interface -x is not a name of an interface. Example: --interface eth0'],
    [{ interface: '' }, '--interface "" is not a name of an interface. Example: --interface eth0'],
    [
      { interface: 'sixteen-letters-' },
      '--interface sixteen-letters- is not a name of an interface. Example: --interface eth0',
    ],
    [
      { peers: ['10.0.0.11,m2'] },
      '--peers m2 is not an IP address. Example: --peers 10.0.0.11,10.0.0.12,10.0.0.13',
    ],
    [
      { peers: ['fe80::1'] },
      '--peers fe80::1 is a link-local address: it means another host on each link. Example: --peers 10.0.0.11,10.0.0.12,10.0.0.13',
    ],
    [{ vrid: ['0'] }, '--vrid 0 is not a whole number from 1 to 255. Example: --vrid 51'],
    [{ vrid: ['51,256'] }, '--vrid 256 is not a whole number from 1 to 255. Example: --vrid 51'],
    [{ vrid: ['0x33'] }, '--vrid 0x33 is not a whole number from 1 to 255. Example: --vrid 51'],
    [{ priority: '255' }, '--priority 255 is not a whole number from 1 to 254. Example: --priority 110'],
    [{ advert: '1' }, '--advert 1 is not a duration with its unit, ms or s. Example: --advert 300ms'],
    [{ advert: '50ms' }, '--advert 50ms is not between 100ms and 10s. Example: --advert 300ms'],
    [{ advert: '305ms' }, '--advert 305ms is not a multiple of 10ms. Example: --advert 300ms'],
  ])('%j are refused with an example', (words, problem) => {
    expect(readFlags(keepalivedFlags, words).problems).toEqual([problem]);
  });

  test('tell all that is wrong', () => {
    expect(readFlags(keepalivedFlags, { vrid: ['0,256'], advert: 'x' }).problems).toHaveLength(3);
  });
});
