import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { type IptablesDialect } from '../../../../lib/kernel/port.ts';
import { kubernetesService } from '../../../../lib/kube-proxy/kubernetes-service.ts';
import { type IptablesProxyView, readIptablesProxy } from '../../../../lib/kube-proxy/iptables.ts';
import { decideProxyMode, type ProxyModeEvidence } from '../../../../agent/observe/proxy-mode.ts';
import { parseSave } from '../../../../lib/netfilter/iptables/parse.ts';

function readView(name: string, dialect: IptablesDialect): IptablesProxyView {
  const text = readFileSync(new URL(`../../../support/fixtures/captures/${name}`, import.meta.url), 'utf8');
  return readIptablesProxy(parseSave({ family: 'ipv4', dialect, text }), kubernetesService);
}

const live = readView('iptables-nft-save.three-endpoints.txt', 'nft');
const unhooked = { ...live, isHooked: false };
const withoutEndpoints = readView('iptables-nft-save.no-endpoints.txt', 'nft');
const ipvs = readView('iptables-legacy-save.ipvs-three-endpoints.txt', 'legacy');

const decide = (result: Partial<ProxyModeEvidence>) =>
  decideProxyMode({
    asked: null,
    configured: 'auto',
    iptables: [],
    hasIpvsServer: false,
    hasNftEdge: false,
    ...result,
  });

const everything = { iptables: [ipvs, live], hasIpvsServer: true, hasNftEdge: true };

describe('decideProxyMode', () => {
  test.each(['iptables', 'ipvs', 'nftables', 'none'] as const)(
    'the configuration (%s) beats all else',
    (configured) => {
      expect(decide({ ...everything, configured, asked: 'ipvs' })).toEqual({
        value: configured,
        seenIn: '--proxy-mode',
      });
    },
  );

  test.each(['iptables', 'ipvs', 'nftables'])(
    'the word of kube-proxy (%s) beats what it left behind',
    (asked) => {
      expect(decide({ ...everything, asked })).toEqual({
        value: asked,
        seenIn: 'reported at 127.0.0.1:10249',
      });
    },
  );

  test.each(['', 'userspace', 'none', 'IPVS', '404 page not found'])(
    'any other answer (%j) is no answer',
    (asked) => {
      expect(decide({ ...everything, asked }).seenIn).toBe('nat KUBE-SERVICES (iptables-nft)');
    },
  );

  describe('by what is alive in the kernel', () => {
    test('a hooked edge beats what ipvs and nftables mode left behind', () => {
      expect(decide(everything)).toEqual({ value: 'iptables', seenIn: 'nat KUBE-SERVICES (iptables-nft)' });
    });

    test('an edge that no packet reaches loses to a live nftables one', () => {
      expect(decide({ iptables: [unhooked], hasNftEdge: true })).toEqual({
        value: 'nftables',
        seenIn: 'nft table ip kube-proxy',
      });
    });

    test('an edge that no packet reaches loses to a live virtual server', () => {
      expect(decide({ iptables: [unhooked, ipvs], hasIpvsServer: true })).toEqual({
        value: 'ipvs',
        seenIn: '/proc/net/ip_vs',
      });
    });

    test('nftables beats ipvs: packets meet its DNAT first', () => {
      expect(decide({ iptables: [ipvs], hasIpvsServer: true, hasNftEdge: true }).value).toBe('nftables');
    });

    test('an edge that no packet reaches is still better than nothing', () => {
      expect(decide({ iptables: [unhooked] }).value).toBe('iptables');
    });

    test("a virtual server without kube-proxy's rules is somebody else's", () => {
      expect(decide({ iptables: [], hasIpvsServer: true }).value).toBe('none');
    });

    test('without rules for the service the hooked chains tell the mode', () => {
      const seenIn = 'nat PREROUTING jumps to KUBE-SERVICES';
      expect(decide({ iptables: [withoutEndpoints] })).toEqual({ value: 'iptables', seenIn });
      expect(decide({ iptables: [ipvs] })).toEqual({ value: 'ipvs', seenIn });
    });

    test('chains without rules are a kube-proxy whose tables somebody flushed', () => {
      const flushed = { ...withoutEndpoints, isHooked: false };
      expect(decide({ iptables: [flushed] })).toEqual({
        value: 'iptables',
        seenIn: "kube-proxy's chains exist, but have no rules",
      });
    });

    test('nothing is none', () => {
      expect(decide({})).toEqual({ value: 'none', seenIn: 'no trace of kube-proxy' });
    });
  });
});
