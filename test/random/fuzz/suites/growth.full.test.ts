import { jest, test, expect } from '@jest/globals';
import { isLong } from '../../../support/jest/extent.ts';
import { readCaptures } from '../engine/captures.ts';
import * as z from 'zod/mini';
import { parseSave, parseRule, splitRule, hasSameIptablesMeaning } from '../../../../lib/iptables/rules.ts';
import { readIptablesProxy, kubernetesService } from '../../../../lib/kube-proxy/read.ts';
import { toCommand, toRestoreLines } from '../../../../lib/iptables/diff.ts';
import { hasSameNftMeaning, hasSameDeclaration, parseNftTable } from '../../../../lib/nft/table.ts';
import { vips } from '../generate/tables.ts';
import { readNftInstalled } from '../../../../lib/nft/vip-rules.ts';
import { parseObjects, listReferred } from '../../../../lib/kernel/nftables.ts';
import { parseIpvs } from '../../../../lib/kube-proxy/ipvs.ts';
import { withoutConnectionCounts } from '../../../../lib/kernel/watch.ts';
import { parseListeners } from '../../../../lib/kernel/host.ts';
import { parseCapture, findInstance, findWire, findTracking } from '../../../../lib/keepalived/read.ts';
import { parseMessages, parseAttributes } from '../../../../lib/kernel/netlink.ts';
import { expandConfiguration, expandBraces, matchesGlob } from '../../../../lib/keepalived/configuration.ts';
import { parseNotice } from '../../../../lib/keepalived/write.ts';
import { parseAddress, parseEndpoint } from '../../../../lib/net.ts';
import { vip } from '../../../../config/options.ts';
import { readPage, LineReader } from '../../../../lib/kubernetes/list-watch.ts';
import { endpointSlices } from '../../../../agent/api.ts';
import { describeStatus } from '../../../../lib/kubernetes/client.ts';
import { judge } from '../../../../agent/health/connection.ts';
import { parseEndpointFile } from '../../../../agent/state.ts';
import { readDocument } from '../../../../config/file.ts';
import { toPrintableLine, quoteWords } from '../../../../lib/text.ts';
import { toolFailed } from '../../../../lib/kernel/tools.ts';
import { timeProcessor } from '../../../support/host/processor-time.ts';
import { insist } from '../engine/properties.ts';

jest.setTimeout(3_600_000);

/** Inputs are as long as this at most, and made of one piece again and again; a tenth of it without `--long`. */
const length = isLong ? 1_000_000 : 100_000;

/** What takes less of the processor, in milliseconds, is too short for anybody to notice, however it grows. */
const leastMs = isLong ? 1000 : 100;

/** Twice the length takes twice the time, or four times where each piece takes a step for every other. */
const mostGrowth = 3;

/** What a grammar's repetitions could be led astray by, around what the readers look for. */
const pieces = [
  ...[' ', 'a', '"', '\\', '" ', '\\" ', '\n', '\t', '0', ':', '{', '}', '[', '{"a":', 'a ', '-j ', '--a '],
  ...['! ', '-A nat a\n', ':a - [0:0]\n', 'chain a {\n', 'chain a {\na { b\n', 'src=', 'src=1 ', 'sport=1'],
  ...['persistent ', 'unicast_peer{', 'unicast_peer {\n10.0.0.1\n', 'vrrp_instance a '],
  ...['virtual_router_id ', 'tcp flags a,', 'tcp flags & (a | ', 'timeout 1h', '"target": "endpoint-'],
  ...['"@affinity-', '   0: 0100007F:2818 00000000:0000 0A ', '\t0x0000:  4500 '],
  ...['  -> 0A4D000D:192B Masq 1 ', '[-]a failed', 'fd00:', '10.', '[fd00::1]:', '- ', '&a [*a, '],
  ...['\u001b[', '\u00ad', '#', 'iptables: '],
];

const save = readCaptures(/^iptables-nft-save\.three/)[0] ?? '';
const table = 'table ip vipnat {\n';
const node = z.safeParse;

/** All readers of text, by name; each is given the megabyte alone and in the place where it reads it. */
const readers: Readonly<Record<string, (text: string) => unknown>> = {
  'iptables-save': (text) =>
    parseSave({ family: 'ipv4', dialect: 'nft', text: `*nat\n:a - [0:0]\n-A a ${text}\nCOMMIT\n` }),
  'iptables-save, whole': (text) => parseSave({ family: 'ipv4', dialect: 'nft', text }),
  "kube-proxy's rules": (text) =>
    readIptablesProxy(
      parseSave({
        family: 'ipv4',
        dialect: 'nft',
        text: save.replace(' -j KUBE-SVC-', ` ${text.replaceAll('\n', ' ')} -j KUBE-SVC-`),
      }),
      kubernetesService,
    ),
  rule: parseRule,
  'rule, words': splitRule,
  'rule, meaning': (text) => hasSameIptablesMeaning(text, `${text} `),
  'rule, as a command': (text) =>
    toCommand('iptables', 'nat', { kind: 'delete', chain: 'OUTPUT', rule: text }),
  'rule, in a script': (text) => toRestoreLines('nat', [{ kind: 'delete', chain: 'OUTPUT', rule: text }]),
  'nft rule, meaning': (text) => hasSameNftMeaning(text, `${text} `),
  'nft set, meaning': (text) => hasSameDeclaration(text, `${text} `),
  'nft table': (text) => {
    const { table: read } = parseNftTable({ family: 'ipv4', text: `${table}chain a {\n${text}\n}\n}\n` });
    return vips.map((one) => readNftInstalled(read, one));
  },
  'nft table, whole': (text) => parseNftTable({ family: 'ipv4', text: table + text }),
  'nft JSON': parseObjects,
  'nft references': (text) => listReferred([text]),
  ip_vs: parseIpvs,
  'ip_vs counts': withoutConnectionCounts,
  tcp: parseListeners,
  tcpdump: parseCapture,
  netlink: (text) => parseMessages(Buffer.from(text)).map(({ data }) => parseAttributes(data, 8)),
  'keepalived.conf': (text) => [findInstance(text, '10.0.0.50'), findWire(text)],
  'keepalived.conf, tracked': (text) => findTracking(text, '10.0.0.50', '/run/serving'),
  'keepalived.conf, expanded': (text) => expandConfiguration(text, 'm1'),
  'keepalived.conf, pattern': (text) => [expandBraces(text).length, matchesGlob(text, '*a*[0-9]?')],
  notice: (text) => parseNotice(`INSTANCE "${text}`),
  address: parseAddress,
  endpoint: (text) => [parseEndpoint(text), parseEndpoint(text, 1)],
  '--vip': (text) => node(vip, text),
  'list of the API': (text) => readPage(endpointSlices, text),
  'status of the API': describeStatus,
  'lines of a watch': (text) => {
    const reader = new LineReader(2_000_000, () => undefined);
    for (let at = 0; at < text.length; at += 16_384) reader.read(text.slice(at, at + 16_384));
  },
  '/readyz': (text) => judge({ statusCode: 500, complete: true }, text.slice(0, 16_384 * 2)),
  'state file': parseEndpointFile,
  // The file is refused before, above 64 KiB.
  YAML: (text) => readDocument(text.slice(0, text.length / 16), 'file'),
  'what is printed': toPrintableLine,
  'what is pasted': (text) => quoteWords([text]),
  'what a tool complains of': (text) => toolFailed({ tool: 'nft', exitCode: 1, stderr: text, input: '' }),
};

/** Milliseconds of processor; the least of some, because other programs take caches along. */
async function measure(read: (text: string) => unknown, text: string): Promise<number> {
  let least = Infinity;
  for (let times = 0; times < 5 && least > leastMs; times += 1) {
    const took = await timeProcessor(() => {
      attempt(read, text);
    });
    least = Math.min(least, took);
  }
  return least;
}

/** What it throws is another test's matter. */
function attempt(read: (text: string) => unknown, text: string): void {
  try {
    read(text);
  } catch (error) {
    insist(error instanceof Error, 'an error');
  }
}

/**
 * How many times as long twice the text takes, at the first length that takes long enough to be measured; null where none does. A
 * reader that takes the square of the length is told without waiting for minutes.
 */
async function findGrowth(read: (text: string) => unknown, piece: string): Promise<number | null> {
  const repeat = (size: number) => piece.repeat(Math.ceil(size / piece.length)).slice(0, size);
  for (let size = length / 16; size < length; size *= 2) {
    const took = await measure(read, repeat(size));
    if (took > leastMs) return (await measure(read, repeat(2 * size))) / took;
  }
  return null;
}

test.each(Object.entries(readers))('twice of anything takes %s at most twice as long', async (name, read) => {
  const slow: string[] = [];
  for (const piece of pieces) {
    const growth = await findGrowth(read, piece);
    if (growth !== null && growth > mostGrowth)
      slow.push(`${JSON.stringify(piece)} ${growth.toFixed(1)} times`);
  }
  if (slow.length > 0) process.stderr.write(`fuzz growth of ${name}: ${slow.join(', ')}\n`);
  expect(slow).toEqual([]);
});
