import type { ChildProcess } from 'node:child_process';
import type { CommandResult } from '../../../test/support/network/namespaces.ts';

/** An agent that was started. */
export interface DemoAgent {
  /** SIGTERM; answers whether it ended as it should. */
  stop(): Promise<boolean>;
}

/** Where the demo is played: a control plane with kube-proxy's rules on every node, and no vipnat yet. */
export interface Stage {
  /** Whether its apiservers are Kubernetes' own. */
  readonly isReal: boolean;
  /** What it is, line by line. */
  readonly description: readonly string[];
  /** The master that has the VIP. */
  readonly holder: string;
  /** Runs a command on a host to its end. */
  run(host: string, command: readonly string[], input?: string): Promise<CommandResult>;
  /** Starts a command on a host, which logs into a file. */
  startAgent(host: string, command: readonly string[], logFile: string): Promise<DemoAgent>;
  /** Starts a program that is talked to over its standard input and output, and ends with its input. */
  spawn(host: string, command: readonly string[]): ChildProcess;
  /** Starts HAProxy beside vipnat, as kubeadm's guide has it, on `haproxyPort`; its configuration goes into the folder. */
  startHaproxy(host: string, folder: string): Promise<void>;
  /** SIGKILL to a master's apiserver. */
  killApiserver(host: string): Promise<void>;
  /** Starts it again. */
  startApiserver(host: string): Promise<void>;
  /** Pulls a host's cable out of the switch. */
  cut(host: string): Promise<void>;
  /** Puts it back. */
  join(host: string): Promise<void>;
  /** Has kube-proxy write its rules on a host again. */
  syncKubeProxy(host: string): Promise<void>;
  /** Ends and removes all of it. */
  close(): Promise<void>;
}
