import { type Dialect, toolName } from '../../../lib/kernel/port.ts';
import type { Cluster } from './cluster.ts';

/** A script of `plan --format restore` that writes nothing but one VIP's own chain, in any dialect. */
export const writesOneChain =
  /^#[^]*(?:\*nat\n:VIPNAT-\w{10} .*(?:\n-A VIPNAT-\w{10} .*)+\nCOMMIT|flush chain ip vipnat VIPNAT-\w{10}(?:\nadd rule ip vipnat VIPNAT-\w{10} .*)+)\n?$/;

interface Rewriting {
  readonly dialect: Dialect;
  /** Run in turn on m1, one transaction each. */
  readonly scripts: readonly string[];
  readonly count: number;
  /** Between two of them; none when left out. */
  readonly restSeconds?: number;
  readonly limitMs: number;
}

/** Rewrites rules of m1 over and over, as fast as the tool can; answers how many succeeded, which is all: the first that fails rejects. */
export async function rewriteOften(
  cluster: Cluster,
  { dialect, scripts, count, restSeconds = 0, limitMs }: Rewriting,
): Promise<number> {
  const restore = `${toolName('ipv4', dialect, 'restore')} --noflush -w 5`;
  const tool = dialect === 'nftables' ? 'nft -f -' : restore;
  const steps = scripts.map((script) => `${tool} <<'END'\n${script}\nEND\necho done\nsleep ${restSeconds}`);
  const program = `for round in $(seq ${count / scripts.length}); do\n${steps.join('\n')}\ndone`;
  const { exitCode, stdout, stderr } = await cluster.run('m1', ['sh', '-e', '-s'], {
    input: program,
    limitMs,
  });
  if (exitCode !== 0) throw new Error(stderr);
  return stdout.split('\n').filter((line) => line === 'done').length;
}
