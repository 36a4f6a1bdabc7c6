import { execaSync } from 'execa';

/** What steps start that npm does not bring, and how it is got. */
const programToRemedy = {
  buildah: 'apt-get install buildah',
  go: 'https://go.dev/dl, or apt-get install golang',
} as const;

/** One of them. */
export type Program = keyof typeof programToRemedy;

/** As much of a step as says what it needs. */
interface Needy {
  readonly name: string;
  readonly needs?: readonly Program[];
}

/**
 * Divides steps by what is in PATH, before the first one runs: the one that needs it may come minutes later. `left` has a line for each
 * program that is missing: the steps that need it, and the way to it.
 */
export function dividePossible<S extends Needy>(
  steps: readonly S[],
  isInPath: (program: Program) => boolean = findInPath,
): { readonly possible: readonly S[]; readonly left: readonly string[] } {
  const missing = [...new Set(steps.flatMap(({ needs = [] }) => needs))].filter(
    (program) => !isInPath(program),
  );
  const isPossible = ({ needs = [] }: Needy) => !needs.some((program) => missing.includes(program));
  const left = missing.map((program) => {
    const names = steps.filter(({ needs = [] }) => needs.includes(program)).map(({ name }) => name);
    return `${program} is not in PATH. These steps need it: ${names.join(' ')}. To install it: ${programToRemedy[program]}`;
  });
  return { possible: steps.filter(isPossible), left };
}

function findInPath(program: Program): boolean {
  return execaSync('sh', ['-c', 'command -v "$0"', program], { reject: false }).exitCode === 0;
}
