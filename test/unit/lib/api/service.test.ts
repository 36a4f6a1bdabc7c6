import { makeService } from '../../../support/fakes/service-objects.ts';
import { describe, test, expect } from '@jest/globals';
import { isForUs, readRequests, readAnnotation, parseGoDuration } from '../../../../lib/api/service.ts';

function annotate(annotations: Readonly<Record<string, string>>, spec = {}) {
  return makeService('apps/a', { metadata: { annotations }, spec });
}

test.each([
  ['our class', {}, false, true],
  ['another class', { loadBalancerClass: 'other.io/lb' }, true, false],
  ['no class', { loadBalancerClass: null }, false, false],
  ['no class, and ours is the default', { loadBalancerClass: null }, true, true],
  ['another type', { type: 'ClusterIP' }, true, false],
])('a Service is for us: %s', (_, spec, isDefaultClass, expected) => {
  expect(isForUs(makeService('apps/a', { spec }), isDefaultClass)).toBe(expected);
});

describe('annotations', () => {
  test.each(['vipnat.io/addresses', 'lb.zcloud.cn/vip', 'lb.zdns.cn/vip'])('%s names an address', (name) => {
    expect(readRequests(annotate({ [name]: ' 10.0.9.20 ' })).addresses).toEqual({
      ipv4: { family: 'ipv4', text: '10.0.9.20' },
    });
  });

  test('ours comes before deprecated ones, and both before loadBalancerIP', () => {
    const all = annotate(
      { 'lb.zdns.cn/vip': '10.0.9.2', 'vipnat.io/addresses': '10.0.9.1' },
      { loadBalancerIP: '10.0.9.3' },
    );
    expect(readRequests(all).addresses.ipv4?.text).toBe('10.0.9.1');
    expect(readRequests(annotate({}, { loadBalancerIP: '10.0.9.3' })).addresses.ipv4?.text).toBe('10.0.9.3');
  });

  // Templates render what is left out so.
  test.each(['', '  ', ',', ' , '])('%j is as none: what comes after it counts', (text) => {
    const annotations = { 'vipnat.io/addresses': text, 'vipnat.io/method': text, 'lb.zdns.cn/method': 'rr' };
    const empty = annotate(annotations, { loadBalancerIP: '10.0.9.3' });
    expect(readRequests(empty).addresses.ipv4?.text).toBe('10.0.9.3');
    expect(readAnnotation(empty, 'method')).toBe(text.trim() || 'rr');
    expect(readAnnotation(empty, 'shareKey')).toBeUndefined();
    const older = annotate({ 'vipnat.io/addresses': text.replace(',', ''), 'lb.zcloud.cn/vip': '10.0.9.4' });
    expect(readRequests(older).addresses.ipv4?.text).toBe('10.0.9.4');
  });

  test('a share key and a pool', () => {
    expect(readRequests(annotate({ 'vipnat.io/share': 'k', 'vipnat.io/pool': 'p' }))).toMatchObject({
      shareKey: 'k',
      pool: 'p',
    });
    expect(readRequests(annotate({}))).toMatchObject({ shareKey: '', pool: null, problem: null });
  });

  test.each([
    ['nonsense', 'nonsense is not an address'],
    ['10.0.9.1,10.0.9.2', '10.0.9.1 and 10.0.9.2 are of the same family'],
    ['fd00::1', 'fd00::1 is of a family that this Service does not have'],
  ])('%s is a problem', (text, problem) => {
    expect(readRequests(annotate({ 'vipnat.io/addresses': text })).problem).toContain(problem);
  });
});

describe('families', () => {
  test.each([
    ['SingleStack', ['IPv6'], ['ipv6'], false],
    ['SingleStack', ['IPv4', 'IPv6'], ['ipv4'], false],
    ['PreferDualStack', ['IPv6', 'IPv4'], ['ipv6', 'ipv4'], false],
    ['PreferDualStack', ['IPv4'], ['ipv4'], false],
    ['RequireDualStack', ['IPv4', 'IPv6'], ['ipv4', 'ipv6'], true],
  ])('%s with %j', (ipFamilyPolicy, ipFamilies, families, isAllOrNothing) => {
    const service = makeService('apps/a', { spec: { ipFamilyPolicy, ipFamilies } });
    expect(readRequests(service)).toMatchObject({ families, isAllOrNothing });
  });

  test('without any, the family of the address that is asked for', () => {
    const spec = { ipFamilies: undefined, ipFamilyPolicy: undefined };
    expect(readRequests(annotate({ 'vipnat.io/addresses': 'fd00::1' }, spec)).families).toEqual(['ipv6']);
  });
});

describe('a duration as Go writes it', () => {
  const durations = { '300ms': 300, '1.1s': 1100, '1m30s': 90_000, '2h': 7_200_000, '0s': 0 };
  test.each(Object.entries(durations))('%s is %d ms', (text, ms) => {
    expect(parseGoDuration(text)).toBe(ms);
  });

  test.each(['', '300', '-1s', '1.5ms', '1 s', 's', '1d', '1s1'])('%j is none', (text) => {
    expect(parseGoDuration(text)).toBeNull();
  });
});
