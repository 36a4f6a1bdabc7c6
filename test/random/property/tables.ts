import { type Family, families } from '../../../lib/address/address.ts';
import { type IptablesDialect, iptablesDialects } from '../../../lib/kernel/port.ts';
import { type FakeKernel } from '../../support/fakes/kernel.ts';

/** One backend of one family: what one tool shows. */
export interface Source {
  readonly family: Family;
  readonly dialect: IptablesDialect;
}

/** All four sources. */
export const sources: readonly Source[] = families.flatMap((family) =>
  iptablesDialects.map((dialect) => ({ family, dialect })),
);

/** A chain as a save tool prints it. */
export interface PrintedChain {
  readonly table: string;
  readonly chain: string;
  /** `-` for a chain that is not the kernel's. */
  readonly policy: string;
  readonly rules: readonly string[];
}

/** All chains of a source, read without any help of the product's own parser: it is what is tested. */
export function listChains(kernel: FakeKernel, { family, dialect }: Source): PrintedChain[] {
  const chains: (PrintedChain & { rules: string[] })[] = [];
  let table = '';
  for (const line of kernel.show(family, dialect).split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain = '', policy = ''] = /^:(\S+) (\S+)/.exec(line) ?? [];
    if (chain !== '') chains.push({ table, chain, policy, rules: [] });
    const [, owner, rule = ''] = /^-A (\S+) ?(.*)$/.exec(line) ?? [];
    chains.find((known) => known.table === table && known.chain === owner)?.rules.push(rule);
  }
  return chains;
}

/** Whether a chain's name is one of vipnat's. */
export function isOurChain(name: string): boolean {
  return /^VIPNAT(?:-|$)/.test(name);
}

/** Whether a rule is vipnat's: its first comment says so, or it leads into a chain of ours. */
export function isOurRule(rule: string): boolean {
  const [, comment = ''] = /--comment (?:"((?:[^"\\]|\\.)*)"|\S+)/.exec(rule) ?? [];
  const unquoted = rule.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""');
  return comment.startsWith('vipnat:') || / -[jg] VIPNAT(?:-\S*)?(?: |$)/.test(` ${unquoted}`);
}

/**
 * Everything in the kernel that is not ours, in its order; chains of the kernel's that are as in a new network
 * namespace are left out, because a first use of a table makes them.
 */
export function printForeign(kernel: FakeKernel): string[] {
  return printWhere(
    kernel,
    ({ chain }) => !isOurChain(chain),
    (rule) => !isOurRule(rule),
  ).filter((line) => !line.endsWith(' ACCEPT'));
}

/** Everything of ours in the kernel: nothing after clean-up. */
export function printOurs(kernel: FakeKernel): string[] {
  const nft = families.flatMap((family) =>
    kernel
      .showNft(family)
      .split('\n')
      .filter((line) => line !== ''),
  );
  return [...nft, ...printOursInIptables(kernel)];
}

function printOursInIptables(kernel: FakeKernel): string[] {
  return sources.flatMap((source) =>
    listChains(kernel, source).flatMap(({ table, chain, rules }) => [
      ...(isOurChain(chain) ? [`${nameChain(source, table, chain)} exists`] : []),
      ...rules
        .filter((rule) => isOurChain(chain) || isOurRule(rule))
        .map((rule) => `${nameChain(source, table, chain)} ${rule}`),
    ]),
  );
}

/** One table of a source, rules and chains of everybody. */
export function printTable(kernel: FakeKernel, source: Source, table: string): string[] {
  return printWhere(
    kernel,
    () => true,
    () => true,
  ).filter((line) => line.startsWith(nameChain(source, table, '')));
}

function printWhere(
  kernel: FakeKernel,
  hasChain: (chain: PrintedChain) => boolean,
  hasRule: (rule: string) => boolean,
): string[] {
  return sources.flatMap((source) =>
    listChains(kernel, source)
      .filter(hasChain)
      .flatMap(({ table, chain, policy, rules }) => [
        `${nameChain(source, table, chain)} ${policy}`,
        ...rules.filter(hasRule).map((rule) => `${nameChain(source, table, chain)} : ${rule}`),
      ]),
  );
}

function nameChain({ family, dialect }: Source, table: string, chain: string): string {
  return `${family} ${dialect} ${table} ${chain}`;
}
