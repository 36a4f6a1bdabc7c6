import type { AgentLife } from './agent-life.ts';
import type { Host } from './host.ts';
import type { ProxyHealth } from './proxy-health.ts';
import type { Strangers } from './strangers.ts';

/** A master with an agent, and all that lives beside it. */
export interface Place {
  readonly host: Host;
  readonly strangers: Strangers;
  readonly health: ProxyHealth;
  readonly agent: AgentLife;
}
