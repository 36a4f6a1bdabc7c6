import { beforeAll, describe, test, expect } from '@jest/globals';
import { runInNetworkNamespace } from '../../support/network/network-namespace.ts';

interface Printed {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Outcomes {
  readonly outcomes: Readonly<Record<string, Printed & { readonly complaint: string }>>;
  readonly broken: string;
  readonly written: Printed & { readonly text: string };
  readonly unwritten: Printed;
  readonly again: Printed;
  readonly foreign: Printed & { readonly text: string };
}

let found: Outcomes;
beforeAll(async () => {
  found = (await runInNetworkNamespace(new URL('keepalived-child.ts', import.meta.url))) as Outcomes;
});

const outcomeOf = (name: string) => {
  const outcome = found.outcomes[name];
  if (outcome === undefined) throw new Error(`no such case: ${name}`);
  return outcome;
};

describe('vipnat keepalived', () => {
  test.each([
    'IPv4 by multicast',
    'IPv4 by unicast',
    'IPv4 by unicast to --endpoints',
    'IPv6 by multicast',
    'IPv6 by unicast',
    'both families by multicast',
    'both families by unicast',
    'several VIPs, two of them at one address',
    'adverts of under a second',
    'everything given',
  ])('prints what keepalived takes: %s', (name) => {
    expect(outcomeOf(name)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^# keepalived.conf by vipnat keepalived\nglobal_defs \{\n[^]*\}\n$/),
      complaint: '',
    });
    expect(Object.keys(found.outcomes)).toContain(name);
  });

  test('is held against a keepalived that refuses what is wrong', () => {
    expect(found.broken).toMatch(/^\d+: [^]*eth9/);
  });

  test('starts every node as a BACKUP that takes the VIP from nobody, and leaves it by a fault', () => {
    for (const { stdout } of Object.values(found.outcomes)) {
      const count = (pattern: RegExp) => stdout.match(pattern)?.length ?? 0;
      const instances = count(/^vrrp_instance /gm);
      expect(instances).toBeGreaterThan(0);
      for (const line of [
        /^ {2}state BACKUP$/gm,
        /^ {2}nopreempt$/gm,
        /^ {2}track_file \{\n {4}serving$/gm,
      ]) {
        expect(count(line)).toBe(instances);
      }
      expect(stdout).toMatch(/file "\/run\/vipnat\/keepalived\/serving"\n {2}weight 0\n {2}init_file 0\n/);
      expect(stdout).toMatch(/^ {2}router_id \S+$/m);
      expect(stdout).toMatch(/vrrp_garp_master_refresh 60/);
      // Or it would wait for DNS.
      expect(stdout).toMatch(/^ {2}router_id \S+$/m);
    }
  });

  test('gives each address one instance, and several one group', () => {
    const { stdout } = outcomeOf('several VIPs, two of them at one address');
    expect(stdout.match(/^vrrp_instance .*/gm)).toEqual([
      'vrrp_instance vip-10.0.0.50 {',
      'vrrp_instance vip-10.0.0.51 {',
    ]);
    expect(stdout).toMatch(
      /vrrp_sync_group vipnat \{\n {2}group \{\n {4}vip-10.0.0.50\n {4}vip-10.0.0.51\n {2}\}\n\}\n$/,
    );
    expect(outcomeOf('IPv4 by multicast').stdout).not.toMatch(/vrrp_sync_group|unicast/);
  });

  test('takes VRRPv3 where adverts need it, and else version 2', () => {
    expect(outcomeOf('adverts of under a second').stdout).toMatch(/vrrp_version 3\n[^]*advert_int 0.3\n/);
    expect(outcomeOf('IPv4 by multicast').stdout).toMatch(/vrrp_version 2\n[^]*advert_int 1\n/);
  });

  test('finds the interface behind a labelled address, and says on standard error how it filled in the rest', () => {
    const { stdout, stderr } = outcomeOf('IPv4 by unicast');
    expect(stdout).toMatch(
      / {2}interface eth0\n {2}virtual_router_id 51\n {2}priority 250\n[^]* {2}unicast_src_ip 10.0.0.11\n {2}unicast_peer \{\n {4}10.0.0.12\n {4}10.0.0.13\n {2}\}\n/,
    );
    expect(stderr).toBe(
      '10.0.0.50 on eth0: virtual_router_id 51, priority 250, unicast from 10.0.0.11 to 10.0.0.12, 10.0.0.13\n' +
        'keepalived needs the folder /run/vipnat/keepalived when it starts: mkdir -p /run/vipnat/keepalived\n',
    );
  });

  test('writes the same to a file, whole or not at all', () => {
    const { stdout } = outcomeOf('IPv4 by multicast');
    expect(found.written).toMatchObject({ exitCode: 0, stdout: '', text: stdout });
    expect(found.unwritten).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(/^vipnat: \[OUTPUT_NOT_WRITTEN\] writing \S+ failed \(EEXIST\)\n$/),
    });
  });

  test('writes over its own file, and never over one that holds the virtual IPs of others', () => {
    expect(found.again.exitCode).toBe(0);
    expect(found.foreign).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^vipnat: \[OUTPUT_NOT_WRITTEN\] writing \S+ failed \(the file exists, and is not from vipnat keepalived: move it away first\)\n$/,
      ),
      text: 'vrrp_instance ingress {\n}\n',
    });
  });
});
