import { type Family, families } from '../../lib/net.ts';
import { describeKernels, everything } from './kinds.ts';
import type { KernelQuery } from '../../lib/kernel/port.ts';
import type { Ruleset, TableName } from '../../lib/iptables/rules.ts';
import { understandRules, neededChains } from '../../agent/observe/observe.ts';
import { expect, describe, test } from '@jest/globals';

/** More than a host has that is read whole. */
const foreignCount = 400;

/** What a node has: kube-proxy's rules for the Service and for others, vipnat's, and a dozen chains of somebody else. */
function hostRules(family: Family): string {
  const [service, backend, prefix] =
    family === 'ipv6' ? ['fd00::1', '[fd00::11]:6443', 128] : ['10.96.0.1', '10.0.0.11:6443', 32];
  const foreign = Array.from(
    { length: foreignCount },
    (_, rule) => `-A FOREIGN-${rule % 12} -p tcp -m tcp --dport ${rule + 1} -j RETURN`,
  );
  return `*mangle
:KUBE-IPTABLES-HINT - [0:0]
COMMIT
*filter
:KUBE-SERVICES - [0:0]
:VIPNAT-FORWARD - [0:0]
-A FORWARD -m comment --comment "vipnat:abc" -j VIPNAT-FORWARD
-A VIPNAT-FORWARD -p tcp -m comment --comment "vipnat:def" -m conntrack --ctstate DNAT -j ACCEPT
-A FORWARD -j DROP
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]
:VIPNAT - [0:0]
:VIPNAT-1f2e3d4c5b - [0:0]
${Array.from({ length: 12 }, (_, chain) => `:FOREIGN-${chain} - [0:0]`).join('\n')}
-A PREROUTING -m comment --comment "-A VIPNAT -j RETURN" -j FOREIGN-0
-A PREROUTING -m comment --comment "vipnat:abc" -j VIPNAT
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d ${service}/${prefix} -p tcp -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y
-A KUBE-SVC-NPX46M4PTMTKRN6Y -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination ${backend}
-A KUBE-SEP-BBBBBBBBBBBBBBBB -j RETURN
-A VIPNAT -p tcp -m tcp --dport 6443 -j VIPNAT-1f2e3d4c5b
-A VIPNAT-1f2e3d4c5b -p tcp -m comment --comment "vipnat:x" -m tcp -j DNAT --to-destination ${backend}
${foreign.join('\n')}
COMMIT
`;
}

describeKernels((subject) => {
  async function read(family: Family, query: Partial<KernelQuery>): Promise<Ruleset> {
    const reading = await subject().kernel.read({ ...everything, families: [family], ...query });
    const found = understandRules(reading).rulesets.find(({ dialect }) => dialect === 'nft');
    if (found === undefined) throw new Error(JSON.stringify(reading.unread));
    return found;
  }

  const readFew = (family: Family) => read(family, { chains: neededChains });
  const listChains = (ruleset: Ruleset, table: TableName) => [...(ruleset.tables.get(table)?.keys() ?? [])];

  /** The wanted chains are told as in a reading of everything. */
  async function expectTrue(family: Family): Promise<Ruleset> {
    const few = await readFew(family);
    const whole = await read(family, {});
    for (const [name, table] of few.tables) {
      for (const [chain, rules] of table) {
        expect({ name, chain, rules }).toEqual({ name, chain, rules: whole.tables.get(name)?.get(chain) });
      }
    }
    expect(few).toMatchObject({ forwardPolicy: whole.forwardPolicy, unread: whole.unread });
    return few;
  }

  describe.each(families)('of a host with many rules (%s)', (family) => {
    test('the wanted chains are read, and those that they need, and no others', async () => {
      await subject().run(family, 'nft', hostRules(family));
      const few = await expectTrue(family);
      expect(
        listChains(few, 'nat')
          .filter((name) => !/^[A-Z]+$/.test(name))
          .toSorted(),
      ).toEqual([
        ...['KUBE-SEP-AAAAAAAAAAAAAAAA', 'KUBE-SERVICES', 'KUBE-SVC-NPX46M4PTMTKRN6Y', 'VIPNAT-1f2e3d4c5b'],
      ]);
      expect(listChains(few, 'mangle')).toContain('KUBE-IPTABLES-HINT');
      expect(few.tables.get('nat')?.get('PREROUTING')).toHaveLength(3);
      expect(few.unlistedRules).toBeGreaterThanOrEqual(foreignCount);
    });

    test('what others change in a wanted chain is in the next reading: a flush, a rule, a name', async () => {
      await subject().run(family, 'nft', hostRules(family));
      await expectTrue(family);
      await subject().run(family, 'nft', '*nat\n-F VIPNAT\n-A OUTPUT -j RETURN\nCOMMIT\n');
      const after = await expectTrue(family);
      expect(after.tables.get('nat')?.get('VIPNAT')).toEqual([]);
      expect(after.tables.get('nat')?.get('OUTPUT')).toEqual(['-j RETURN']);
      await subject().run(
        family,
        'nft',
        '*nat\n-A VIPNAT -p tcp -m tcp --dport 6443 -j VIPNAT-1f2e3d4c5b\n-D OUTPUT -j RETURN\nCOMMIT\n',
      );
      const { tables } = await expectTrue(family);
      expect([tables.get('nat')?.get('VIPNAT'), tables.get('nat')?.get('OUTPUT')]).toEqual([
        ['-p tcp -m tcp --dport 6443 -j VIPNAT-1f2e3d4c5b'],
        [],
      ]);
    });

    test('a chain that leads to a wanted one is read, too', async () => {
      await subject().run(family, 'nft', hostRules(family));
      await subject().run(family, 'nft', '*nat\n-A FOREIGN-7 -j VIPNAT\nCOMMIT\n');
      expect((await expectTrue(family)).tables.get('nat')?.get('FOREIGN-7')).toContain('-j VIPNAT');
    });
  });

  test('a host with few rules is read whole', async () => {
    await subject().run('ipv4', 'nft', '*nat\n:FOREIGN - [0:0]\n-A FOREIGN -j RETURN\nCOMMIT\n');
    const { tables, unlistedRules } = await readFew('ipv4');
    expect(tables.get('nat')?.get('FOREIGN')).toEqual(['-j RETURN']);
    expect(unlistedRules).toBeUndefined();
  });
});
