import { readCaptures } from '../engine/captures.ts';
import { selectServiceObjects } from '../../../support/fakes/nft-proxy.ts';
import { nftServiceChain, readNftProxy, kubernetesService } from '../../../../lib/kube-proxy/read.ts';
import { attempt, testTarget } from '../engine/run.ts';
import { families, formatEndpoint } from '../../../../lib/net.ts';
import { mutateText } from '../engine/mutate.ts';
import { parseNftTable, hasSameNftMeaning, hasSameDeclaration } from '../../../../lib/nft/table.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { isIn, insistOnEndpoint, insist } from '../engine/properties.ts';
import { vips } from '../generate/tables.ts';
import { readNftInstalled, renderNftTable, printNftTable } from '../../../../lib/nft/vip-rules.ts';
import { makeTableBalances } from '../generate/balances.ts';
import { isDeepStrictEqual } from 'node:util';
import type { NftProxyOutput } from '../../../../lib/kernel/port.ts';
import { parseObjects } from '../../../../lib/kernel/nftables.ts';
import { mutateJson } from '../generate/json.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';

const tables = readCaptures(/^own-rules\.nftables/);
const rules = tables.flatMap((text) => text.split('\n').filter((line) => line.includes(' comment ')));
/** As the agent asks for them, by name. */
const objects = readCaptures(/^nft-.*\.json$/).map((text) => {
  const { nftables } = JSON.parse(text) as { nftables: unknown[] };
  return JSON.stringify({ nftables: selectServiceObjects(nftables, nftServiceChain) });
});

testTarget(
  'our own table as nft prints it, with faults: a value or a coded error, and no backend that is not in it',
  {
    name: 'nft table, mutated',
    cases: 35_000,
    make: (random) => ({ family: random.pick(families), text: mutateText(random, tables) }),
    check: (output) => {
      const ruleset = attempt(() => parseNftTable(output));
      if (ruleset instanceof VipnatError) return;
      const isInText = isIn(output.text);
      for (const vip of vips) {
        for (const endpoint of readNftInstalled(ruleset.table, vip)?.backends ?? [])
          insistOnEndpoint(endpoint, isInText);
      }
    },
  },
);

testTarget('a table that is written is read as it was rendered, with its backends', {
  name: 'nft table, rendered',
  cases: 8000,
  make: (random) => ({ family: random.pick(families), random }),
  check: ({ family, random }) => {
    const balances = makeTableBalances(random, family);
    const table = renderNftTable(family, balances);
    if (table === null) return;
    const [, , ...lines] = printNftTable(family, table).split('\n');
    const read = parseNftTable({ family, text: lines.join('\n') });
    // What only others can have put into it is missing.
    const seen = { flags: '', others: [], ...table };
    insist(isDeepStrictEqual(read.table, seen), 'read otherwise than rendered');
    for (const { vip, backends } of balances) {
      const found = readNftInstalled(read.table, vip)?.backends.map(formatEndpoint) ?? [];
      insist(isDeepStrictEqual(found, backends.map(formatEndpoint)), 'other backends than were written');
    }
  },
});

testTarget('the meaning of any rule and declaration is told without failing', {
  name: 'nft rules',
  cases: 100_000,
  make: (random) => [mutateText(random, rules), random.pick(rules)] as const,
  check: ([left, right]) => {
    insist(hasSameNftMeaning(left, left) && hasSameDeclaration(left, left), 'it means what it says');
    insist(hasSameNftMeaning(left, right) === hasSameNftMeaning(right, left), 'in both directions');
    hasSameDeclaration(left, right);
  },
});

/** What is understood of kube-proxy's objects. */
function checkProxy(output: NftProxyOutput): void {
  const isInText = isIn(JSON.stringify(output.objects));
  for (const service of [kubernetesService, webService]) {
    const { backends, entryRule, affinitySeconds } = readNftProxy(output, service);
    for (const endpoint of backends?.value ?? []) {
      insistOnEndpoint(endpoint, isInText);
      insist(endpoint.family === output.family, 'of the family that was asked for');
    }
    if (entryRule !== null) insist(isInText(entryRule.value.clusterIp), 'the ClusterIP is in it');
    const isTime = Number.isSafeInteger(affinitySeconds) && Number(affinitySeconds) > 0;
    insist(affinitySeconds === null || isTime, 'a time');
  }
}

testTarget("nft's JSON as text, with faults: objects or a coded error", {
  name: 'nft JSON, as text',
  cases: 8000,
  make: (random) => ({ family: random.pick(families), text: mutateText(random, objects) }),
  check: ({ family, text }) => {
    const found = attempt(() => parseObjects(text));
    if (!(found instanceof VipnatError)) checkProxy({ family, objects: found });
  },
});

const parsed = objects.map((text) => JSON.parse(text) as unknown);

testTarget("nft's JSON with faults in what it says: no backend that is not in it", {
  name: 'nft JSON, as objects',
  cases: 8000,
  make: (random) => ({ family: random.pick(families), json: mutateJson(random, random.pick(parsed)) }),
  check: ({ family, json }) => {
    const found = attempt(() => parseObjects(JSON.stringify(json)));
    if (!(found instanceof VipnatError)) checkProxy({ family, objects: found });
  },
});
