import { type KernelReading, type Transaction } from '../../../../lib/kernel/port.ts';
import { insist } from '../engine/properties.ts';

/** What a line of a script may consist of: nothing that a tool's language has for more than one word or command. */
const address = String.raw`(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f:.]+)`;
const endpoint = String.raw`(?:\d{1,3}(?:\.\d{1,3}){3}|\[[\da-f:.]+\]):\d{1,5}`;
const vipChain = String.raw`VIPNAT-[\da-f]{10}`;
const ownChain = String.raw`VIPNAT(?:-[!-~]*)?`;
const comment = String.raw`-m comment --comment "vipnat:[\w-]{16}"`;
const recent = String.raw`-m recent (?:--update --seconds \d{1,5} --reap|--set) --name ${vipChain}-[\da-f]{8} --mask [\d.f:]+ --rsource `;
const chance = String.raw`-m statistic --mode random --probability 0\.\d{10} `;

const iptablesLines: readonly RegExp[] = [
  String.raw`\*(?:nat|filter)`,
  'COMMIT',
  String.raw`:${ownChain} - \[0:0\]`,
  `-X ${ownChain}`,
  `-I (?:PREROUTING|INPUT|OUTPUT|POSTROUTING|FORWARD) ${comment} -j VIPNAT(?:-POSTROUTING|-FORWARD|-INPUT)?`,
  String.raw`-A VIPNAT -d ${address}/(?:32|128) -p tcp ${comment} -m tcp --dport \d{1,5} --tcp-flags FIN,SYN,RST,ACK SYN -j ${vipChain}`,
  String.raw`-A VIPNAT-(?:POSTROUTING|FORWARD) -p tcp ${comment} -m conntrack --ctstate DNAT --ctorigdst ${address} --ctorigdstport \d{1,5} -j (?:MASQUERADE --random-fully|ACCEPT)`,
  String.raw`-A VIPNAT-INPUT -s ${address}/(?:32|128) ! -i lo -p tcp ${comment} -m tcp --sport \d{1,5} -m conntrack --ctstate INVALID -j DROP`,
  `-A ${vipChain} ${comment} -j (?:KUBE-SVC-NPX46M4PTMTKRN6Y|KUBE-MARK-MASQ)`,
  `-A ${vipChain} -p tcp ${comment} (?:${chance})?(?:${recent})?-m tcp -j DNAT --to-destination ${endpoint}`,
].map((source) => new RegExp(`^${source}$`));

const table = String.raw`ip6? vipnat`;
const name = String.raw`[A-Za-z_][\w/.-]*`;
const sign = String.raw` comment "vipnat:[\w-]{16}"`;
const nftLines: readonly RegExp[] = [
  `(?:add|delete) table ${table}`,
  `(?:flush|delete) chain ${table} ${name}`,
  `delete set ${table} ${name}`,
  `add chain ${table} ${vipChain}`,
  String.raw`add chain ${table} (?:prerouting|input|output|postrouting|forward) \{ type (?:nat|filter) hook \w+ priority -?\d+; policy accept; \}`,
  String.raw`add set ${table} ${vipChain}-[\da-f]{8} \{ type ipv[46]_addr; size 65535; flags dynamic,timeout; timeout \d{1,5}s; \}`,
  String.raw`add rule ${table} (?:prerouting|output) ip6? daddr ${address} tcp dport \d{1,5} tcp flags & \(fin \| syn \| rst \| ack\) == syn jump ${vipChain}${sign}`,
  String.raw`add rule ${table} (?:postrouting|forward) meta l4proto tcp ct status dnat ct original ip6? daddr ${address} ct original proto-dst \d{1,5} (?:masquerade fully-random|accept)${sign}`,
  String.raw`add rule ${table} input ip6? saddr ${address} iifname != "lo" tcp sport \d{1,5} ct state invalid drop${sign}`,
  String.raw`add rule ${table} ${vipChain} meta l4proto tcp (?:numgen random mod \d{1,3} 0 )?(?:ip6? saddr @${vipChain}-[\da-f]{8} )?(?:update @${vipChain}-[\da-f]{8} \{ ip6? saddr \} )?dnat ip6? to ${endpoint}${sign}`,
].map((source) => new RegExp(`^${source}$`));

/**
 * That each line of each script is one of a strict grammar. What is deleted by value is, to the letter, a line that was
 * read: its words are the tool's own.
 */
export function insistOnScripts(transactions: readonly Transaction[], { iptables }: KernelReading): void {
  for (const { dialect, family, input } of transactions) {
    const seen = iptables
      .filter((one) => one.family === family && one.dialect === dialect)
      .map(({ text }) => `\n${text}`);
    const isSeen = (line: string) => seen.some((text) => text.includes(`-A ${line.slice('-D '.length)}\n`));
    const lines = input.split('\n');
    insist(lines.pop() === '', 'a script ends with a line end');
    const isGood = (line: string) =>
      dialect === 'nftables'
        ? nftLines.some((pattern) => pattern.test(line))
        : iptablesLines.some((pattern) => pattern.test(line)) || (line.startsWith('-D ') && isSeen(line));
    const bad = lines.find((line) => !isGood(line));
    insist(bad === undefined, `a line of no grammar (${dialect}): ${JSON.stringify(bad)}`);
  }
}
