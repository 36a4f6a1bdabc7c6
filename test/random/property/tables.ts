import { type Family, families } from '../../../lib/net.ts';
import { type IptablesDialect, iptablesDialects } from '../../../lib/kernel/port.ts';
import { serviceChain } from '../../../lib/kube-proxy/read.ts';
import type { FakeKernel } from '../../support/fakes/kernel.ts';
import { type PrintedChain, readChains, isOurChain, isOurRule } from '../../support/foreign/printed-rules.ts';

/** One backend of one family: what one tool shows. */
export interface Source {
  readonly family: Family;
  readonly dialect: IptablesDialect;
}

export const sources: readonly Source[] = families.flatMap((family) =>
  iptablesDialects.map((dialect) => ({ family, dialect })),
);

export const listChains = (kernel: FakeKernel, { family, dialect }: Source): PrintedChain[] =>
  readChains(kernel.show(family, dialect));

/** The rules of one chain; none where it is not there. */
export const listRules = (kernel: FakeKernel, source: Source, table: string, name: string) =>
  listChains(kernel, source).find((one) => one.table === table && one.chain === name)?.rules ?? [];

/** How many rules of ours lead into kube-proxy's chain for default/kubernetes. */
export const countPins = (kernel: FakeKernel, source: Source): number =>
  listChains(kernel, source)
    .filter(({ chain }) => isOurChain(chain))
    .flatMap(({ rules }) => rules)
    .filter((rule) => rule.endsWith(`-j ${serviceChain}`)).length;

/**
 * Everything in the kernel that is not ours, in its order; chains of the kernel's that are as in a new network
 * namespace are left out, because a first use of a table makes them.
 */
export const printForeign = (kernel: FakeKernel): string[] =>
  printWhere(
    kernel,
    ({ chain }) => !isOurChain(chain),
    (rule) => !isOurRule(rule),
  ).filter((line) => !line.endsWith(' ACCEPT'));

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
export const printTable = (kernel: FakeKernel, source: Source, table: string): string[] =>
  printWhere(kernel).filter((line) => line.startsWith(nameChain(source, table, '')));

function printWhere(
  kernel: FakeKernel,
  hasChain: (chain: PrintedChain) => boolean = () => true,
  hasRule: (rule: string) => boolean = () => true,
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
