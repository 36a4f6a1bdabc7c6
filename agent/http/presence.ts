/** The agent's own role: one agent per network namespace. */
import {
  type Answers,
  askHolder,
  claimRole,
  findHolder,
  type HolderInfo,
  type Release,
  type Role,
} from '../../lib/http/presence.ts';

/** That of `vipnat run`. */
export const agentRole: Role = {
  title: 'agent',
  socketName: 'vipnat-agent',
  code: 'AGENT_ALREADY_RUNNING',
};

/** Which agent is there. */
export type AgentInfo = HolderInfo;

/**
 * Claims this network namespace for an agent. Answers what gives it back.
 * @throws VipnatError AGENT_ALREADY_RUNNING, naming the agent that is there.
 */
export function claimPresence(info: AgentInfo, answers: Answers = new Map()): Promise<Release> {
  return claimRole(agentRole, info, answers);
}

/** The agent of this network namespace; null when none runs, or when what holds the name does not answer as one. */
export function findAgent(): Promise<AgentInfo | null> {
  return findHolder(agentRole);
}

/** What the agent of this network namespace answers to a path, parsed; null when none runs or it is no JSON. */
export function askAgent(path: string): Promise<unknown> {
  return askHolder(agentRole, path);
}
