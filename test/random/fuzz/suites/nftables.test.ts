import { jest, test } from '@jest/globals';
import { isDeepStrictEqual } from 'node:util';
import { readNftProxy } from '../../../../lib/kube-proxy/nftables.ts';
import { parseObjects } from '../../../../lib/kernel/real/nft-json.ts';
import { VipnatError } from '../../../../lib/text/errors.ts';
import { families } from '../../../../lib/address/address.ts';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { type NftProxyOutput } from '../../../../lib/kernel/port.ts';
import { hasSameDeclaration, hasSameMeaning } from '../../../../lib/netfilter/nftables/meaning.ts';
import { parseNftTable } from '../../../../lib/netfilter/nftables/parse.ts';
import { readInstalled } from '../../../../lib/netfilter/nftables/read-back.ts';
import { printNftTable, renderNftTable } from '../../../../lib/netfilter/nftables/render.ts';
import { kubernetesService, nftServiceChain } from '../../../../lib/kube-proxy/kubernetes-service.ts';
import { selectServiceObjects } from '../../../support/fakes/nft-proxy.ts';
import { readCaptures } from '../engine/captures.ts';
import { makeTableBalances } from '../generate/balances.ts';
import { mutateJson } from '../generate/json.ts';
import { vips } from '../generate/tables.ts';
import { mutateText } from '../engine/mutate.ts';
import { insist, insistOnEndpoint, insistOnError, isIn } from '../engine/properties.ts';
import { attempt, fuzz } from '../engine/run.ts';

jest.setTimeout(3_600_000);

const tables = readCaptures(/^own-rules\.nftables/);
const rules = tables.flatMap((text) => text.split('\n').filter((line) => line.includes(' comment ')));
/** As the agent asks for them, by name. */
const objects = readCaptures(/^nft-.*\.json$/).map((text) => {
  const { nftables } = JSON.parse(text) as { nftables: unknown[] };
  return JSON.stringify({ nftables: selectServiceObjects(nftables, nftServiceChain) });
});

test('our own table as nft prints it, with faults: a value or a coded error, and no backend that is not in it', async () => {
  await fuzz({
    name: 'nft table, mutated',
    make: (random) => ({ family: random.pick(families), text: mutateText(random, tables) }),
    check: (output) => {
      const ruleset = attempt(() => parseNftTable(output));
      if (ruleset instanceof VipnatError) {
        insistOnError(ruleset);
        return;
      }
      const isInText = isIn(output.text);
      for (const vip of vips) {
        for (const endpoint of readInstalled(ruleset.table, vip)?.backends ?? []) {
          insistOnEndpoint(endpoint, isInText);
        }
      }
    },
  });
});

test('a table that is written is read as it was rendered, with its backends', async () => {
  await fuzz({
    name: 'nft table, rendered',
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
        const found = readInstalled(read.table, vip)?.backends.map(formatEndpoint) ?? [];
        insist(isDeepStrictEqual(found, backends.map(formatEndpoint)), 'other backends than were written');
      }
    },
  });
});

test('the meaning of any rule and declaration is told without failing', async () => {
  await fuzz({
    name: 'nft rules',
    make: (random) => [mutateText(random, rules), random.pick(rules)] as const,
    check: ([left, right]) => {
      insist(hasSameMeaning(left, left) && hasSameDeclaration(left, left), 'it means what it says');
      insist(hasSameMeaning(left, right) === hasSameMeaning(right, left), 'in both directions');
      hasSameDeclaration(left, right);
    },
  });
});

/** What is understood of kube-proxy's objects. */
function checkProxy(output: NftProxyOutput): void {
  const view = readNftProxy(output, kubernetesService);
  const isInText = isIn(JSON.stringify(output.objects));
  for (const endpoint of view.backends?.value ?? []) {
    insistOnEndpoint(endpoint, isInText);
    insist(endpoint.family === output.family, 'of the family that was asked for');
  }
  if (view.liveEdge !== null) insist(isInText(view.liveEdge.value.clusterIp), 'the ClusterIP is in it');
  const { affinitySeconds } = view;
  insist(
    affinitySeconds === null || (Number.isSafeInteger(affinitySeconds) && affinitySeconds > 0),
    'a time',
  );
}

test("nft's JSON as text, with faults: objects or a coded error", async () => {
  await fuzz({
    name: 'nft JSON, as text',
    make: (random) => ({ family: random.pick(families), text: mutateText(random, objects) }),
    check: ({ family, text }) => {
      const found = attempt(() => parseObjects(text));
      if (found instanceof VipnatError) insistOnError(found);
      else checkProxy({ family, objects: found });
    },
  });
});

test("nft's JSON with faults in what it says: no backend that is not in it", async () => {
  const parsed = objects.map((text) => JSON.parse(text) as unknown);
  await fuzz({
    name: 'nft JSON, as objects',
    make: (random) => ({ family: random.pick(families), json: mutateJson(random, random.pick(parsed)) }),
    check: ({ family, json }) => {
      const found = attempt(() => parseObjects(JSON.stringify(json)));
      if (found instanceof VipnatError) insistOnError(found);
      else checkProxy({ family, objects: found });
    },
  });
});
