import { describe, expect, test } from '@jest/globals';
import {
  areSameEndpoints,
  type Endpoint,
  formatEndpoint,
  parseEndpoint,
  sortEndpoints,
} from '../../../../lib/address/endpoint.ts';

const toEndpoints = (...texts: readonly string[]): Endpoint[] =>
  texts.map((text) => parseEndpoint(text)).filter((endpoint) => endpoint !== null);

describe('parseEndpoint', () => {
  test.each([
    ['10.0.0.1:6443', { family: 'ipv4', address: '10.0.0.1', port: 6443 }],
    ['[FD00::0:1]:443', { family: 'ipv6', address: 'fd00::1', port: 443 }],
    ['10.0.0.1:1', { family: 'ipv4', address: '10.0.0.1', port: 1 }],
    ['10.0.0.1:65535', { family: 'ipv4', address: '10.0.0.1', port: 65535 }],
  ])('%s is an endpoint', (text, endpoint) => {
    expect(parseEndpoint(text)).toEqual(endpoint);
  });

  test.each(['10.0.0.1', 'fd00::1'])('%s is one only with a default port', (text) => {
    expect(parseEndpoint(text)).toBeNull();
    expect(parseEndpoint(text, 6443)).toMatchObject({ address: text, port: 6443 });
  });

  test('a port that is given wins over the default', () => {
    expect(parseEndpoint('10.0.0.1:8443', 6443)?.port).toBe(8443);
  });

  test('an IPv6 address that ends like a port is an address', () => {
    expect(parseEndpoint('fd00::1:6443', 443)).toEqual({
      family: 'ipv6',
      address: 'fd00::1:6443',
      port: 443,
    });
  });

  test.each([
    '10.0.0.1:0',
    '10.0.0.1:65536',
    '10.0.0.1:06443',
    '10.0.0.1:',
    '10.0.0.1:+1',
    '10.0.0.1:6443 ',
    '[10.0.0.1]:6443',
    '[fd00::1]',
    '[fd00::1%eth0]:6443',
    'localhost:6443',
    ':6443',
    '',
  ])('%j is none, with or without a default port', (text) => {
    expect(parseEndpoint(text)).toBeNull();
    expect(parseEndpoint(text, 6443)).toBeNull();
  });
});

test('an endpoint is formatted as it is read, IPv6 in brackets', () => {
  expect(toEndpoints('10.0.0.1:6443', '[fd00::1]:6443').map(formatEndpoint)).toEqual([
    '10.0.0.1:6443',
    '[fd00::1]:6443',
  ]);
});

describe('sortEndpoints', () => {
  test('gives the same list for every order of the same endpoints, each once', () => {
    const [a, b, c] = ['10.0.0.1:6443', '10.0.0.2:6443', '10.0.0.2:443'] as const;
    const sorted = sortEndpoints(toEndpoints(c, a, b, a)).map(formatEndpoint);
    expect(sorted).toEqual([a, c, b]);
    expect(sortEndpoints(toEndpoints(b, c, a)).map(formatEndpoint)).toEqual(sorted);
  });

  test('leaves its argument as it was', () => {
    const endpoints = toEndpoints('10.0.0.2:1', '10.0.0.1:1');
    sortEndpoints(endpoints);
    expect(endpoints.map(formatEndpoint)).toEqual(['10.0.0.2:1', '10.0.0.1:1']);
  });
});

describe('areSameEndpoints', () => {
  test('order and repetition do not matter', () => {
    expect(
      areSameEndpoints(
        toEndpoints('10.0.0.1:1', '10.0.0.2:1'),
        toEndpoints('10.0.0.2:1', '10.0.0.1:1', '10.0.0.2:1'),
      ),
    ).toBe(true);
  });

  test.each([
    ['one is missing', ['10.0.0.1:1', '10.0.0.2:1'], ['10.0.0.1:1']],
    ['a port differs', ['10.0.0.1:1'], ['10.0.0.1:2']],
    ['one list is empty', ['10.0.0.1:1'], []],
  ])('they differ when %s', (_, left, right) => {
    expect(areSameEndpoints(toEndpoints(...left), toEndpoints(...right))).toBe(false);
  });

  test('two empty lists are the same', () => {
    expect(areSameEndpoints([], [])).toBe(true);
  });
});
