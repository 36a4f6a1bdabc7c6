import { type Source, sources } from './tables.ts';
import { fc } from '../../support/random/fc.ts';
import type { Family } from '../../../lib/net.ts';
import { type Damage, damages, pick, findOwnRules, renderDamage } from '../../support/foreign/damage.ts';
import type { FakeKernel } from '../../support/fakes/kernel.ts';

/** A restore script of somebody else's. */
export interface Script extends Source {
  readonly script: string;
}

/** One of all sources, mostly the one of an ordinary host. */
export const source = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Source>({ family: 'ipv4', dialect: 'nft' }) },
  fc.constantFrom(...sources),
);

const familyToPlaces: Readonly<Record<Family, { vip: string; other: string; network: string }>> = {
  ipv4: { vip: '10.0.0.50/32', other: '192.0.2.1/32', network: '10.0.0.0/8' },
  ipv6: { vip: 'fd00::50/128', other: '2001:db8::1/128', network: 'fd00::/16' },
};

/** Rules that programs put before, behind and around ours; some look like ours and are not. */
function listForeignRules(family: Family): string[] {
  const { vip, other, network } = familyToPlaces[family];
  return [
    '-j RETURN',
    '-j ACCEPT',
    '-j LOG --log-prefix "vipnat: "',
    '-j MARK --set-xmark 0x1/0x1',
    '-p udp -j ACCEPT',
    `-d ${vip} -p tcp -m tcp --dport 6443 -j ACCEPT`,
    `-d ${other} -p tcp -m tcp --dport 6443 -j RETURN`,
    `! -s ${network} -j RETURN`,
    `-d ${network} -m conntrack --ctstate NEW -j DROP`,
    '-m addrtype --dst-type LOCAL -j ACCEPT',
    '-m statistic --mode random --probability 0.5 -j RETURN',
    '-m comment --comment "counts only"',
    '-m comment --comment "not vipnat: really" -j ACCEPT',
    '-m comment --comment "first" -m comment --comment "vipnat:second" -j RETURN',
    '-m comment --comment "an \\"odd\\" -j VIPNAT" -j RETURN',
  ];
}

const foreignChains = ['DOCKER', 'cali-PREROUTING', 'VIPNATION', 'CNI-HOSTPORT-DNAT'];

/** The kernel's chains of the tables that vipnat writes. */
const tableToKernelChains = {
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
} as const;

const table = fc.constantFrom(...(Object.keys(tableToKernelChains) as (keyof typeof tableToKernelChains)[]));

/** A program's own chain with rules, its jump, and rules beside it, in front of or behind what is there. */
export const foreignScript: fc.Arbitrary<Script> = fc
  .record({
    source,
    table,
    place: fc.nat(),
    chain: fc.constantFrom(...foreignChains),
    inside: fc.array(fc.nat(), { maxLength: 2 }),
    peers: fc.array(fc.nat(), { maxLength: 2 }),
    command: fc.constantFrom('-A', '-I'),
    policy: fc.constantFrom('ACCEPT', 'DROP'),
  })
  .map(({ source: { family, dialect }, table: name, place, chain, inside, peers, command, policy }) => {
    const rules = listForeignRules(family);
    const choose = <T>(list: readonly T[], at: number) => list[at % list.length] as T;
    const kernelChain = choose(tableToKernelChains[name], place);
    const lines = [
      `*${name}`,
      `:${chain} - [0:0]`,
      ...(name === 'filter' ? [`:${kernelChain} ${policy} [0:0]`] : []),
      ...inside.map((at) => `-A ${chain} ${choose(rules, at)}`),
      `${command} ${kernelChain} -m comment --comment "${chain}" -j ${chain}`,
      ...peers.map((at) => `${command} ${kernelChain} ${choose(rules, at)}`),
      'COMMIT',
      '',
    ];
    return { family, dialect, script: lines.join('\n') };
  });

/** What another version of vipnat could have left: chains of other names, and hooks in other chains, also foreign ones. */
export const leftoverScript: fc.Arbitrary<Script> = fc
  .record({
    source,
    table,
    place: fc.nat(),
    hook: fc.constantFrom(
      ...['-j CHAIN', '-g CHAIN', '-m comment --comment "vipnat:of-another-version" -j CHAIN'],
      ...['-m comment --comment "vipnat:old" -j ACCEPT', '-m comment --comment "vipnat:old"'],
    ),
    chain: fc.constantFrom(
      ...['', '-OLD', '-POSTROUTING', '-FORWARD', '-0123456789'].map((end) => `VIPNAT${end}`),
    ),
    inside: fc.constantFrom(
      '-j RETURN',
      '-m comment --comment "vipnat:old" -j ACCEPT',
      '-p tcp -m comment --comment "vipnat:old" -m tcp --dport 6443 -j VIPNAT-END',
    ),
  })
  .map(({ source: { family, dialect }, table: name, place, hook, chain, inside }) => {
    const foreign = ['DOCKER-USER', 'VIPNATION'];
    const hooked = [...tableToKernelChains[name], ...foreign];
    const lines = [
      `*${name}`,
      ...['VIPNAT-END', ...foreign].map((own) => `:${own} - [0:0]`),
      `:${chain} - [0:0]`,
      `-A ${chain} ${inside}`,
      `-A ${hooked[place % hooked.length] ?? 'OUTPUT'} ${hook.replace('CHAIN', chain)}`,
      'COMMIT',
      '',
    ];
    return { family, dialect, script: lines.join('\n') };
  });

/** An edit of one rule of ours: the `at`-th, counted round and round. */
export interface Edit extends Source {
  readonly at: number;
  readonly kind: Damage;
}

export const edit: fc.Arbitrary<Edit> = fc
  .record({ source, at: fc.nat({ max: 99 }), kind: fc.constantFrom(...damages) })
  .map(({ source: where, ...rest }) => ({ ...where, ...rest }));

/** Carries an edit out; does nothing where nothing of ours is. */
export function runEdit(kernel: FakeKernel, { family, dialect, at, kind }: Edit): void {
  const rule = pick(findOwnRules(kernel.show(family, dialect)), at);
  if (rule !== undefined) kernel.run(family, dialect, renderDamage(rule, kind));
}
