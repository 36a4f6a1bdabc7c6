import { type Family } from '../../address/address.ts';
import { type Endpoint } from '../../address/endpoint.ts';
import { type Balance, vipChainName } from '../iptables/render.ts';

/** A balance that a table of its own can hold: kube-proxy's chains are in another table, out of reach. */
export type TableBalance = Pick<Balance, 'vip' | 'masquerade'> & {
  /** Where new connections go; none leaves them to whoever holds the VIP. */
  readonly backends: readonly Endpoint[];
};

/** Before kube-proxy's and iptables' nat chains at -100 (dstnat) and 100 (srcnat), and their filter chains at 0. */
const priority = { translate: -105, forward: -5, masquerade: 95 };

/**
 * One `nft -f -` script per family that replaces the table `vipnat` whole, in one transaction. Written for
 * nft 1.0.1 and later: no `destroy`, and numbers for priorities, because `dstnat` is refused in output chains.
 */
export function renderNftTable(family: Family, balances: readonly TableBalance[]): string {
  const table = `${family === 'ipv6' ? 'ip6' : 'ip'} vipnat`;
  const dispatch = balances.map(
    ({ vip }) => `${ip(vip)} daddr ${vip.address} tcp dport ${vip.port} jump ${vipChainName(vip)}`,
  );
  const own = balances.filter(({ masquerade }) => masquerade !== 'none');
  const chains = [
    ...balances.map(({ vip, backends }) => block(vipChainName(vip), translate(vip, backends))),
    block('prerouting', [hook('nat', 'prerouting', priority.translate), ...dispatch]),
    block('output', [hook('nat', 'output', priority.translate), ...dispatch]),
    block('postrouting', [
      hook('nat', 'postrouting', priority.masquerade),
      ...own.map(({ vip }) => `${matchTranslated(vip)} masquerade`),
    ]),
    block('forward', [
      hook('filter', 'forward', priority.forward),
      ...balances.map(({ vip }) => `${matchTranslated(vip)} accept`),
    ]),
  ];
  // Adding before deleting makes the script work whether or not the table exists.
  return [`table ${table}`, `delete table ${table}`, `table ${table} {`, ...chains.flat(), '}', ''].join(
    '\n',
  );
}

function hook(type: string, name: string, order: number): string {
  return `type ${type} hook ${name} priority ${order}; policy accept;`;
}

function translate(vip: Endpoint, backends: readonly Endpoint[]): string[] {
  if (backends.length === 0) return [];
  const elements = backends.map(({ address, port }, index) => `${index} : ${address} . ${port}`);
  const choice = `numgen random mod ${backends.length} map { ${elements.join(', ')} }`;
  return [`meta l4proto tcp dnat ${ip(vip)} to ${choice}`];
}

/** Connections that were sent elsewhere than to the VIP they asked for, in both directions. */
function matchTranslated(vip: Endpoint): string {
  return `meta l4proto tcp ct status dnat ct original ${ip(vip)} daddr ${vip.address} ct original proto-dst ${vip.port}`;
}

function ip({ family }: Endpoint): string {
  return family === 'ipv6' ? 'ip6' : 'ip';
}

function block(name: string, lines: readonly string[]): string[] {
  return [`\tchain ${name} {`, ...lines.map((line) => `\t\t${line}`), '\t}'];
}
