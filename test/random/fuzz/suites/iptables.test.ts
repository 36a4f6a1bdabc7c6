import { readCaptures } from '../engine/captures.ts';
import { vips, makeSource, makeTables, printTables, makeRule } from '../generate/tables.ts';
import type { Balance } from '../../../../lib/dialect.ts';
import type { SaveOutput } from '../../../../lib/kernel/port.ts';
import { attempt, testTarget } from '../engine/run.ts';
import {
  parseSave,
  splitRule,
  parseRule,
  hasSameIptablesMeaning,
  listPackets,
  isOwnRule,
} from '../../../../lib/iptables/rules.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { isIn, insistOnEndpoint, insist } from '../engine/properties.ts';
import {
  kubernetesService,
  readIptablesProxy,
  type IptablesProxyView,
} from '../../../../lib/kube-proxy/read.ts';
import { webService } from '../../../support/kube-proxy/rules.ts';
import { readIptablesInstalled } from '../../../../lib/iptables/vip-rules.ts';
import { mutateText } from '../engine/mutate.ts';
import { isDeepStrictEqual } from 'node:util';
import { isConflicting } from '../../../../lib/iptables/diff.ts';

const corpus = readCaptures(/^ip6?tables-.*save|^own-rules\.(?:nft|legacy)/);

const balances = vips.map((vip): Balance => ({
  ...{ vip, route: { kind: 'translate', backends: vips }, masquerade: 'own', apiservers: vips },
}));

/** What is understood of a save: all of it coded or a value, and no endpoint that the text does not hold. */
function checkSave(output: SaveOutput): void {
  const ruleset = attempt(() => parseSave(output));
  if (ruleset instanceof VipnatError) return;
  const isInText = isIn(output.text);
  for (const service of [kubernetesService, webService])
    insistOnProxy(readIptablesProxy(ruleset, service), isInText);
  for (const vip of vips) {
    const written = readIptablesInstalled(ruleset.tables.get('nat'), vip);
    for (const endpoint of written?.backends ?? []) insistOnEndpoint(endpoint, isInText);
  }
}

function insistOnProxy(
  { backends, entryRule }: IptablesProxyView,
  isInText: (text: string) => boolean,
): void {
  for (const endpoint of backends?.value ?? []) insistOnEndpoint(endpoint, isInText);
  if (entryRule !== null) insist(isInText(entryRule.value.clusterIp), 'the ClusterIP is in the text');
}

testTarget(
  'what iptables-save prints, with faults: a value or a coded error, and no backend that is not in it',
  {
    name: 'iptables-save, mutated',
    cases: 40_000,
    make: (random) => ({ ...makeSource(random), text: mutateText(random, corpus) }),
    check: checkSave,
  },
);

testTarget('tables of any odd rules are read as they were printed, and so is what kube-proxy has in them', {
  name: 'iptables-save, generated',
  cases: 15_000,
  make: (random) => ({ source: makeSource(random), tables: makeTables(random) }),
  check: ({ source, tables }) => {
    const text = printTables(tables);
    const ruleset = parseSave({ ...source, text });
    insist(isDeepStrictEqual(ruleset.tables, tables), `read otherwise than printed: ${text}`);
    checkSave({ ...source, text });
  },
});

const rules = corpus.flatMap((text) => text.split('\n').filter((line) => line.startsWith('-A ')));

testTarget('any rule is taken apart, with nothing lost or added', {
  name: 'iptables rules',
  cases: 120_000,
  make: (random) =>
    random.chance(30) ? makeRule(random) : mutateText(random, [random.pick(rules), random.pick(rules)]),
  check: (text) => {
    const words = splitRule(text);
    const { target, comment } = parseRule(text);
    const isOfWords = (value: string | null) =>
      value === null || value === '' || words.some((word) => value.includes(word));
    insist(isOfWords(target) && isOfWords(comment), 'target and comment of its words');
    insist(hasSameIptablesMeaning(text, text), 'it means what it says');
    for (const chain of ['PREROUTING', 'POSTROUTING', 'FORWARD', 'INPUT'])
      isConflicting(text, chain, listPackets(chain, balances));
    if (isOwnRule(text)) insist(text.includes('vipnat:') || text.includes('VIPNAT'), 'ours by what is in it');
  },
});
