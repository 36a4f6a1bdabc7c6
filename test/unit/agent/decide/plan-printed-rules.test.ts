import { type Dialect, iptablesDialects } from '../../../../lib/kernel/port.ts';
import { families, type Family } from '../../../../lib/net.ts';
import type { Balance } from '../../../../lib/dialect.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { readFileSync } from 'node:fs';
import { parseNftTable } from '../../../../lib/nft/table.ts';
import { parseSave } from '../../../../lib/iptables/rules.ts';
import { test, expect } from '@jest/globals';
import { plan } from '../../../../agent/decide/plan.ts';

/** By what printed them, where that is not the backend alone: nft 1.0 prints flags of TCP in another way than 0.9 and 1.1, and 0.9 times as `3h`. */
const prints: readonly (readonly [string, Dialect])[] = [
  ...iptablesDialects.map((dialect) => [dialect, dialect] as const),
  ['nftables', 'nftables'],
  ['nftables-0.9', 'nftables'],
  ['nftables-1.1', 'nftables'],
];
const cases = families.flatMap((family) => prints.map(([print, dialect]) => ({ family, print, dialect })));

/** What was written when these were captured. */
function balancesOf(family: Family): Balance[] {
  const [vip, other, ...apiservers] = [50, 51, 11, 12, 13].map((host) =>
    toEndpoint(`${family === 'ipv6' ? `[fd00:77::${host}]` : `10.77.0.${host}`}:6443`),
  );
  if (vip === undefined || other === undefined) throw new Error('no VIPs');
  return [
    { vip, masquerade: 'own', route: { kind: 'translate', backends: apiservers, affinitySeconds: 10_800 } },
    { vip: { ...other, port: 8443 }, masquerade: 'none', route: { kind: 'translate', backends: apiservers } },
  ];
}

function read({ family, print, dialect }: (typeof cases)[number]) {
  const url = new URL(`../../../support/fixtures/captures/own-rules.${print}.${family}.txt`, import.meta.url);
  const text = readFileSync(url, 'utf8');
  return dialect === 'nftables' ? parseNftTable({ family, text }) : parseSave({ family, dialect, text });
}

test.each(cases)(
  'what every known version of the tools prints of our rules is in sync: $print, $family',
  ({ family, print, dialect }) => {
    const seen = [read({ family, print, dialect })];
    expect(plan({ dialect, balances: balancesOf(family) }, seen).tables).toEqual([]);
    expect(plan({ dialect, balances: balancesOf(family).slice(1) }, seen).tables).not.toEqual([]);
  },
);
