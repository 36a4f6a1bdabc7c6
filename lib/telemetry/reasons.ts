/** The fields of an event next to its sentence. */
export interface EventKind {
  /** `Warning` for what an administrator may have to act on. */
  readonly type: 'Normal' | 'Warning';
  /** What vipnat was doing, for programs. */
  readonly action: 'Balance' | 'Probe' | 'Repair' | 'Serve' | 'Run' | 'Allocate';
}

/** What the agent tells of its node. */
const ofNodes = {
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

/** What the controller tells of Services, addresses and pools. */
const ofServices = {
  AddressAllocated: { type: 'Normal', action: 'Allocate' },
  AddressReady: { type: 'Normal', action: 'Allocate' },
  AddressReleased: { type: 'Normal', action: 'Allocate' },
  AddressInUse: { type: 'Warning', action: 'Allocate' },
  AddressKept: { type: 'Warning', action: 'Allocate' },
  NoAddress: { type: 'Warning', action: 'Allocate' },
  NotAsAsked: { type: 'Warning', action: 'Allocate' },
  PoolRefused: { type: 'Warning', action: 'Allocate' },
  NodeReportsAddress: { type: 'Warning', action: 'Allocate' },
  PortNotSupported: { type: 'Warning', action: 'Allocate' },
  DeviceReady: { type: 'Normal', action: 'Allocate' },
  DeviceFailed: { type: 'Warning', action: 'Allocate' },
  DeviceRefused: { type: 'Warning', action: 'Allocate' },
  GateTimedOut: { type: 'Warning', action: 'Allocate' },
  WriteFailed: { type: 'Warning', action: 'Allocate' },
  WriteContested: { type: 'Warning', action: 'Allocate' },
} as const satisfies Record<string, EventKind>;

/** Everything that events tell. The reason is the contract. docs/events.md has a row for each, and a test compares the two. */
const catalogue = { ...ofNodes, ...ofServices };

/** Why there is an event, in CamelCase, as `kubectl get events` shows it. */
export type EventReason = keyof typeof catalogue;

/** The reasons of events about nodes. */
export const nodeReasons = Object.keys(ofNodes) as readonly EventReason[];

/** All reasons, in the order of the catalogue. */
export const eventReasons = Object.keys(catalogue) as readonly EventReason[];

/** What every event of a reason says. */
export function describeReason(reason: EventReason): EventKind {
  return catalogue[reason];
}
