import * as z from 'zod/mini';
import { findListeningSocket } from '../../lib/kernel/host/unix-sockets.ts';
import { toTexts } from '../../config/arguments.ts';
import { type Config } from '../../config/config.ts';
import { type OptionName, optionNames } from '../../config/options.ts';
import { agentRole, askHolder, type HolderInfo, readHolderInfo } from '../../lib/http/singleton.ts';

/** Options of the process itself, and those that name credentials: no other command needs them. */
const privateNames: readonly OptionName[] = ['kubeconfig', 'listen', 'logLevel', 'logFormat'];

/** The options that an agent tells. */
export const sharedNames = optionNames.filter((name) => !privateNames.includes(name));

/** No option has more values, and no value is longer. */
const maxValues = 1000;
const maxLength = 4096;

const texts = z.array(z.string().check(z.maxLength(maxLength))).check(z.maxLength(maxValues));
const answer = z.object({ options: z.record(z.string(), texts) });

/** Option to its values, each as its flag takes it. What they mean is not checked yet. */
export type AgentOptions = Readonly<Record<string, readonly string[]>>;

/** Where the agent of this network namespace tells its configuration. */
export const optionsPath = '/options';

/** What the agent answers there: no secret, and no path to one. */
export function toOptionsAnswer(config: Config): { readonly options: AgentOptions } {
  return { options: Object.fromEntries(sharedNames.map((name) => [name, toTexts(config, name)])) };
}

/** What came of asking for the agent's configuration. */
export type OptionsWord =
  | { readonly kind: 'told'; readonly options: AgentOptions; readonly agent: HolderInfo }
  | { readonly kind: 'nobody' }
  /** Neither root nor this user holds the agent's name, or the kernel does not tell who: anything could be answered. */
  | { readonly kind: 'untrusted' }
  /** An older agent, or one that does not answer in time. */
  | { readonly kind: 'silent' };

/**
 * The configuration of the agent of this network namespace. What is planned by it can be pasted as root, so it is asked
 * only where root, or this user, holds the agent's name. The kernel says who does, before and after the answer.
 */
export async function askAgentOptions(): Promise<OptionsWord> {
  const before = await findListeningSocket(agentRole.socketName).catch(() => undefined);
  if (before === null) return { kind: 'nobody' };
  if (before === undefined || !isTrusted(before.userId)) return { kind: 'untrusted' };
  const agent = readHolderInfo(await askHolder(agentRole, '/'));
  const options = readAgentOptionsAnswer(await askHolder(agentRole, optionsPath));
  const after = await findListeningSocket(agentRole.socketName).catch(() => null);
  if (after?.inode !== before.inode || agent === null || options === null) return { kind: 'silent' };
  return { kind: 'told', options, agent };
}

function isTrusted(userId: number | null): boolean {
  return userId === 0 || (userId !== null && userId === process.geteuid?.());
}

/** Reads such an answer; null for anything else. Pure and total. */
export function readAgentOptionsAnswer(json: unknown): AgentOptions | null {
  const parsed = answer.safeParse(json);
  return parsed.success ? parsed.data.options : null;
}
