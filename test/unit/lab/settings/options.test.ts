import { describe, test, expect } from '@jest/globals';
import { parseOptions, defaultOptions } from '../../../../tools/lab/settings/options.ts';
import { LabError } from '../../../../tools/lab/settings/error.ts';

describe('what kind of lab is asked for', () => {
  test('nothing said is a current Kubernetes in iptables mode', () => {
    expect(parseOptions({})).toEqual(defaultOptions);
  });

  test('in ipvs mode nodes have kernels of their own, with legacy NAT', () => {
    expect(parseOptions({ proxyMode: 'ipvs' })).toMatchObject({ proxyMode: 'ipvs', iptables: 'legacy' });
    expect(() => parseOptions({ proxyMode: 'ipvs', iptables: 'nft' })).toThrow(/--iptables nft: in ipvs/);
  });

  test('real nodes share one kernel, which may have no IPVS', () => {
    expect(parseOptions({ nodes: true })).toEqual({ ...defaultOptions, hasNodes: true });
    expect(() => parseOptions({ nodes: true, proxyMode: 'ipvs' })).toThrow(/^--proxy-mode ipvs: .* --nodes/);
  });

  test.each([
    [{ name: '../x' }, '--name ../x: a name has'],
    [{ kubernetes: 'latest' }, '--kubernetes latest is no release. Example: --kubernetes 1.'],
    [{ proxyMode: 'ebpf' }, '--proxy-mode ebpf: there are iptables, ipvs, nftables, none'],
    [{ proxyMode: 'none', iptables: 'legacy' }, '--iptables legacy: with --proxy-mode none'],
    [{ ipFamily: 'both' }, '--ip-family both: there are ipv4, ipv6'],
  ])('%j is refused, by name', (given, message) => {
    expect(() => parseOptions(given)).toThrow(LabError);
    expect(() => parseOptions(given)).toThrow(message);
  });
});
