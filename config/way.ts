import { type Mode } from './config.ts';

/** How a VIP's new connections can be balanced: as `--mode` names it, or not at all. */
export type Way = Exclude<Mode, 'auto'> | 'passthrough';

/** Whether new connections are sent on; else the VIP is left to its holder. */
export function isBalanced({ way }: { readonly way: Way }): boolean {
  return way !== 'passthrough';
}
