import type { CommandResult } from '../../../test/support/network/namespaces.ts';
import type { SeatName } from '../../../test/support/network/cluster.ts';
import type { Seat } from '../../../test/support/network/seat.ts';

/** An agent that was started. */
export interface DemoAgent {
  /** SIGTERM; answers whether it ended as it should. */
  stop(): Promise<boolean>;
}

/** Where the demo is played: a control plane with kube-proxy's rules on every node, and no vipnat yet. */
export interface Stage {
  /** What it is, line by line. */
  readonly description: readonly string[];
  /** The master that has the VIP. */
  readonly holder: string;
  /** Runs a command on a host to its end. */
  run(host: string, command: readonly string[], input?: string): Promise<CommandResult>;
  /** The client at a place. */
  seat(name: SeatName): Seat;
  /** Starts a command on a host, which logs into a file. */
  startAgent(host: string, command: readonly string[], logFile: string): Promise<DemoAgent>;
  /** Has kube-proxy write its rules on a host again. */
  syncKubeProxy(host: string): Promise<void>;
  /** Ends and removes all of it. */
  close(): Promise<void>;
}
