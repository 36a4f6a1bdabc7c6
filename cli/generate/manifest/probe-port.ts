import * as z from 'zod/mini';
import { quoteText } from '../../../config/setting.ts';
import { wholeNumber } from '../../../config/values.ts';
import { defaultProbePort } from './options.ts';

const port = wholeNumber(1, 65_535);

/** The port at which balancers ask whether other nodes live, as given; 0 for `off`, the default for null and for what is wrong. */
export function readProbePort(text: string | null): number {
  if (text === 'off') return 0;
  return z.safeParse(port, text).data ?? defaultProbePort;
}

/** What is wrong with it. */
export function findProbePortProblems(text: string | null): string[] {
  if (text === null || text === 'off') return [];
  const { success, error } = z.safeParse(port, text);
  if (success) return [];
  const [issue] = error.issues;
  const example = `Example: --node-probe-port ${defaultProbePort}`;
  return [`--node-probe-port ${quoteText(text)} ${issue?.message ?? 'is wrong'}, and not off. ${example}`];
}
