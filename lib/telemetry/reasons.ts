/** The fields of an event next to its sentence. */
export interface EventKind {
  /** `Warning` for what an administrator may have to act on. */
  readonly type: 'Normal' | 'Warning';
  /** What vipnat was doing, for programs. */
  readonly action: 'Balance' | 'Probe' | 'Repair' | 'Serve' | 'Run';
}

/** Everything that events tell. The reason is the contract. docs/events.md has a row for each, and a test compares the two. */
const catalogue = {
  WayChosen: { type: 'Normal', action: 'Balance' },
  Bypassing: { type: 'Warning', action: 'Balance' },
  NotBalanced: { type: 'Warning', action: 'Balance' },
  ApiserverDead: { type: 'Warning', action: 'Probe' },
  ApiserverDraining: { type: 'Warning', action: 'Probe' },
  ApiserverReady: { type: 'Normal', action: 'Probe' },
  RulesRepaired: { type: 'Warning', action: 'Repair' },
  RulesContested: { type: 'Warning', action: 'Repair' },
  RulesUncontested: { type: 'Normal', action: 'Repair' },
  CannotServe: { type: 'Warning', action: 'Serve' },
  CanServe: { type: 'Normal', action: 'Serve' },
  VipContested: { type: 'Warning', action: 'Serve' },
  VipUncontested: { type: 'Normal', action: 'Serve' },
  AgentFailing: { type: 'Warning', action: 'Run' },
  AgentRecovered: { type: 'Normal', action: 'Run' },
} as const satisfies Record<string, EventKind>;

/** Why there is an event, in CamelCase, as `kubectl get events` shows it. */
export type EventReason = keyof typeof catalogue;

/** All reasons, in the order of the catalogue. */
export const eventReasons = Object.keys(catalogue) as readonly EventReason[];

/** What every event of a reason says. */
export function describeReason(reason: EventReason): EventKind {
  return catalogue[reason];
}
