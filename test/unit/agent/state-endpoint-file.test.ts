import { type SavedEndpoints, formatEndpointFile, parseEndpointFile } from '../../../agent/state.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { fc } from '../../support/random/fc.ts';

const saved: SavedEndpoints = {
  savedAt: '2026-11-21T15:04:05.678Z',
  endpoints: ['10.0.0.11:6443', '10.0.0.12:6443', '[fd00::13]:6443'].map((text) => toEndpoint(text)),
};
const text = formatEndpointFile(saved);

/** A file with a right checksum, whatever it says: as somebody would make it who knows how. */
function forge(endpoints: readonly string[]): string {
  return formatEndpointFile({
    savedAt: saved.savedAt,
    endpoints: endpoints.map((address) => ({ family: 'ipv4', address, port: 6443 })),
  });
}

describe('the file of the last known apiservers', () => {
  test('says what was saved', () => {
    expect(parseEndpointFile(text)).toEqual(saved);
    expect(text.split('\n')).toHaveLength(2);
  });

  test('says who was an apiserver before, as long as that could be one', () => {
    const former = [toEndpoint('10.0.0.9:6443')];
    expect(parseEndpointFile(formatEndpointFile({ ...saved, former }))).toEqual({ ...saved, former });
    const odd = [{ family: 'ipv4', address: '127.0.0.1', port: 6443 } as const];
    expect(parseEndpointFile(formatEndpointFile({ ...saved, former: odd }))).toBe(
      'names "127.0.0.1:6443", which cannot be the address of an apiserver',
    );
  });

  test('cut off anywhere, it says nothing', () => {
    expect(parseEndpointFile('')).toBe('is empty');
    for (let length = 1; length < text.length; length += 1) {
      expect(parseEndpointFile(text.slice(0, length))).toBe('is cut off, or is not a file of vipnat');
    }
  });

  test('with any byte changed, it says nothing or the same', () => {
    const index = fc.integer({ min: 0, max: text.length - 1 });
    fc.assert(
      fc.property(index, fc.string({ minLength: 0, maxLength: 3, unit: 'binary' }), (at, replacement) => {
        const found = parseEndpointFile(text.slice(0, at) + replacement + text.slice(at + 1));
        if (typeof found !== 'string') expect(found).toEqual(saved);
      }),
      { numRuns: 2000 },
    );
  });

  test('with an apiserver changed by hand, it is refused by its checksum', () => {
    expect(parseEndpointFile(text.replace('10.0.0.12', '10.0.0.66'))).toBe(
      'is damaged or was edited: its checksum does not match',
    );
  });

  test('of a newer version, it says so', () => {
    expect(parseEndpointFile('{"version":2,"anything":true}\n')).toBe('is from a newer vipnat (version 2)');
  });

  test.each(['null\n', '[]\n', '"text"\n', '{}\n', '{"version":1}\n', '{"version":0}\n'])(
    'of somebody else, it is refused: %j',
    (foreign) => {
      expect(parseEndpointFile(foreign)).toBe('is not a file of vipnat');
    },
  );

  test.each([
    '0.0.0.0',
    '127.0.0.1',
    '169.254.1.1',
    '224.0.0.1',
    '255.255.255.255',
    'm1.example',
    '10.0.0.1 -j ACCEPT',
  ])('no rule comes of %s, though the checksum is right', (address) => {
    expect(parseEndpointFile(forge(['10.0.0.11', address]))).toBe(
      `names "${address}:6443", which cannot be the address of an apiserver`,
    );
  });

  test('more apiservers than anybody runs are refused', () => {
    const many = Array.from({ length: 101 }, (_, index) => `10.0.1.${index}`);
    expect(parseEndpointFile(forge(many))).toBe('is not a file of vipnat');
    expect(parseEndpointFile(forge([]))).toBe('is not a file of vipnat');
  });
});
